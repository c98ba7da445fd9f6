#include "plan/check/OperatorChecker.h"
#include "plan/OperationText.h"
#include "plan/check/CheckerSupport.h"
#include "plan/operands/OperandShapes.h"

#include <algorithm>
#include <map>

using namespace fsdp::plan;

namespace {

struct Refused {
  std::string_view name; // or what begins with it, before a '*'
  const char *what;

  bool holds(std::string_view called) const {
    return name.back() == '*' ? called.substr(0, name.size() - 1) ==
                                    name.substr(0, name.size() - 1)
                              : called == name;
  }
};
constexpr Refused refusedOperators[] = {
#define REFUSED(name, what) {name, what},
#include "plan/check/RefusedOperators.def"
};

// Without a generator among their arguments they draw from PyTorch's own.
constexpr std::string_view randomOperators[] = {
#define RANDOM(name) name,
#include "plan/check/RefusedOperators.def"
};
// Others do where such an argument is not zero.
constexpr std::string_view dropouts[] = {"dropout", "dropout_p"};

// PyTorch's own and the runtime's: others are for machines that quantize, for
// what other compilers generate, or for processes to talk to each other.
constexpr std::string_view namespaces[] = {"aten", "fsdp_mlir"};

// Numbers that PyTorch's kernels take for an enumeration.
struct Enumeration {
  std::string_view argument;
  int64_t count;
};
constexpr Enumeration enumerations[] = {
    {"interpolation_mode", 3}, {"padding_mode", 3}, {"reduction", 3}};
constexpr int64_t memoryFormats = 4; // of c10::MemoryFormat

template <typename List, typename T> bool holds(const List &list, const T &of) {
  return std::find(std::begin(list), std::end(list), of) != std::end(list);
}

bool takesGenerator(const OperatorSchema &schema) {
  return std::any_of(schema.arguments.begin(), schema.arguments.end(),
                     [](const SchemaValue &argument) {
                       return argument.type.kind == SchemaKind::Generator;
                     });
}

/// A backward draws the numbers of its forward again, from what that gave it.
bool takesWhatWasDrawn(const OperatorSchema &schema) {
  return std::any_of(schema.arguments.begin(), schema.arguments.end(),
                     [](const SchemaValue &argument) {
                       return argument.name == "state" &&
                              argument.type.isTensor();
                     });
}

/// Why a plan may not call an operator; empty where it may.
std::string refusalOf(const std::string &name, const OperatorSchema &schema) {
  std::string_view space = std::string_view(name).substr(0, name.find("::"));
  if (!holds(namespaces, space))
    return "is none of PyTorch's aten operators";
  for (const Refused &refused : refusedOperators)
    if (refused.holds(name))
      return refused.what;
  if (holds(randomOperators, name) && !takesGenerator(schema))
    return "draws random numbers that are no site's";
  for (const SchemaValue &argument : schema.arguments) {
    if (argument.isWritten)
      return "writes its argument '" + argument.name +
             "', and results are all that a call may write";
    if (argument.type.kind == SchemaKind::Other)
      return "takes for '" + argument.name + "' what a plan cannot hold";
  }
  bool gives = false;
  for (const SchemaValue &result : schema.results) {
    // A size is a constant of the plan.
    if (!result.type.isTensor() && result.type.kind != SchemaKind::Int)
      return "gives a " + result.type.str() + ", which a plan cannot hold";
    gives |= result.type.isTensor();
  }
  return gives ? "" : "gives no tensor";
}

bool isNumber(SchemaKind kind) {
  return kind == SchemaKind::Float || kind == SchemaKind::Scalar;
}

/// Whether a constant of a list's kind is one of that schema type.
bool fitsList(const ArgumentT &given, SchemaKind member) {
  bool isEmpty = given.ints.empty() && given.doubles.empty();
  switch (given.kind) {
  case ArgumentKind::IntList:
    return member == SchemaKind::Int || isNumber(member) || isEmpty;
  case ArgumentKind::DoubleList:
    return isNumber(member) || isEmpty;
  case ArgumentKind::BoolList:
    return member == SchemaKind::Bool || isEmpty;
  default:
    return false;
  }
}

/// Whether a whole number is one of an argument's.
bool fitsInt(int64_t i, const SchemaValue &argument) {
  switch (argument.type.kind) {
  case SchemaKind::Int:
    for (const Enumeration &numbers : enumerations)
      if (numbers.argument == argument.name)
        return i >= 0 && i < numbers.count;
    return true;
  case SchemaKind::Bool:
    return i == 0 || i == 1;
  case SchemaKind::Layout: // strided
    return i == 0;
  case SchemaKind::MemoryFormat:
    return i >= 0 && i < memoryFormats;
  default:
    return isNumber(argument.type.kind);
  }
}

/// Whether a plan's argument is one of a schema's.
bool fits(const std::string &name, const ArgumentT &given,
          const SchemaValue &argument) {
  SchemaType type = argument.type;
  // The checker follows random numbers by the sites that they come from.
  if (type.kind == SchemaKind::Generator)
    return given.kind == ArgumentKind::Generator;
  switch (given.kind) {
  case ArgumentKind::Default:
    // A rank has one device.
    return argument.hasDefault || type.optional ||
           type.kind == SchemaKind::Device;
  case ArgumentKind::None:
    return type.optional || takesUndefined(name, argument.name);
  case ArgumentKind::Value: // or the number that a tensor holds
    return (type.isTensor() || isNumber(type.kind)) && !type.list;
  case ArgumentKind::ValueList:
    return type.isTensor() && type.list &&
           (type.optionalMembers ||
            std::find(given.values.begin(), given.values.end(), -1) ==
                given.values.end());
  case ArgumentKind::IntList:
  case ArgumentKind::DoubleList:
  case ArgumentKind::BoolList:
    return type.list && fitsList(given, type.kind);
  default:
    break;
  }
  if (type.list)
    return false;
  switch (given.kind) {
  case ArgumentKind::Int:
    return fitsInt(given.i, argument);
  case ArgumentKind::Double:
  case ArgumentKind::Scalar:
    return isNumber(type.kind);
  case ArgumentKind::Bool:
    return type.kind == SchemaKind::Bool || type.kind == SchemaKind::Scalar;
  case ArgumentKind::String:
    return type.kind == SchemaKind::String;
  case ArgumentKind::Complex:
    return type.kind == SchemaKind::Scalar || type.kind == SchemaKind::Complex;
  case ArgumentKind::DType:
    return type.kind == SchemaKind::DType;
  default:
    return false;
  }
}

/// Whether a number is 0, as the schema's default for a dropout is.
bool isZero(const ArgumentT &given) {
  return given.kind == ArgumentKind::Default ||
         (given.kind == ArgumentKind::Int && given.i == 0) ||
         (given.kind == ArgumentKind::Double && given.d == 0);
}

std::string textOf(const ArgumentT &given) {
  switch (given.kind) {
  case ArgumentKind::Int:
    return std::to_string(given.i);
  case ArgumentKind::Default:
    return "nothing";
  default:
    return std::string("a ") + EnumNameArgumentKind(given.kind);
  }
}

class OperatorChecker {
public:
  OperatorChecker(const PlanT &plan, const FindSchema &find)
      : plan(plan), find(find) {}

  void run() {
    Checked at(plan);
    for (size_t r = 0; r < plan.rules.size(); ++r)
      for (size_t c = 0; c < plan.rules[r]->calls.size(); ++c) {
        Checked here = at.at(PlanEntry::Rule, r).at(PlanEntry::Call, c);
        const AtenT &call = *plan.rules[r]->calls[c];
        // The executor compares what a fused optimizer is given.
        here.require(C36,
                     !trustsShapes(call.name) || isFusedOptimizer(call.name),
                     "calls ", call.name,
                     ", which takes its operands' shapes for granted");
        forEachItem(call, checkCall(here, call), [&](int) {
          here.fail(C31, "takes a number from a tensor, of which a rule has "
                         "some elements");
        });
      }
    for (size_t p = 0; p < plan.programs.size(); ++p) {
      const ProgramT &program = *plan.programs[p];
      for (size_t i = 0; i < program.commands.size(); ++i)
        if (const AtenT *call = program.commands[i]->operation.AsAten()) {
          Checked here = at.at(PlanEntry::Program, p).at(PlanEntry::Command, i);
          const OperatorSchema &schema = checkCall(here, *call);
          forEachItem(*call, schema, [&](int value) {
            const ValueT &tensor = *program.values[value];
            here.require(C31,
                         !call->view && tensor.dtype == DType::Float64 &&
                             tensor.shape.empty(),
                         "takes a number from value ", value,
                         ", which is not one of float64");
          });
          std::string misfit = misfitOf(program, *call, schema);
          here.require(C36, misfit.empty(), "calls ", call->name,
                       " with operands that do not fit each other: ", misfit);
          if (call->view)
            checkView(here, program, *call, schema);
        }
    }
  }

private:
  struct Known {
    std::optional<OperatorSchema> schema;
    std::string refusal;
  };

  const Known &lookUp(const AtenT &call) {
    auto [it, isNew] = known.try_emplace({call.name, call.overload});
    Known &entry = it->second;
    if (isNew) {
      entry.schema = find(call.name, call.overload);
      entry.refusal = entry.schema ? refusalOf(call.name, *entry.schema)
                                   : "is no operator of this PyTorch";
    }
    return entry;
  }

  /// Tensors whose numbers a call takes; `take(value)` is asked about each.
  template <typename Fn>
  static void forEachItem(const AtenT &call, const OperatorSchema &schema,
                          Fn take) {
    for (size_t i = 0; i < call.arguments.size(); ++i)
      if (call.arguments[i]->kind == ArgumentKind::Value &&
          !schema.arguments[i].type.isTensor())
        take(call.arguments[i]->value);
  }

  const OperatorSchema &checkCall(const Checked &at, const AtenT &call) {
    std::string name = operatorName(call);
    const Known &entry = lookUp(call);
    at.require(C30, entry.refusal.empty(), "calls ", name, ", which ",
               entry.refusal, "; let the step compute it by other operators");
    const OperatorSchema &schema = *entry.schema;
    Checked here = at.inside(name);
    here.require(C31, call.arguments.size() <= schema.arguments.size(), "has ",
                 call.arguments.size(), " arguments, its schema has ",
                 schema.arguments.size());
    static const ArgumentT byDefault;
    for (size_t i = 0; i < schema.arguments.size(); ++i) {
      const SchemaValue &argument = schema.arguments[i];
      const ArgumentT &given =
          i < call.arguments.size() ? *call.arguments[i] : byDefault;
      here.require(C31, fits(call.name, given, argument), "argument '",
                   argument.name, "' of type ", argument.type.str(),
                   " is given ", textOf(given));
      here.require(C31,
                   !holds(dropouts, argument.name) || isZero(given) ||
                       takesGenerator(schema) || takesWhatWasDrawn(schema),
                   "argument '", argument.name,
                   "' is not zero, and its random numbers are no site's");
    }
    size_t tensors = 0;
    bool hasList = false;
    for (const SchemaValue &result : schema.results) {
      tensors += result.type.isTensor() && !result.type.list;
      hasList |= result.type.isTensor() && result.type.list;
    }
    here.require(C31,
                 call.results.size() == tensors ||
                     (hasList && call.results.size() > tensors),
                 "has ", call.results.size(), " results, its schema has ",
                 tensors, hasList ? " and a list" : "");
    return schema;
  }

  /// Each result looks into what the schema says, and is known when the plan
  /// is loaded.
  void checkView(const Checked &at, const ProgramT &program, const AtenT &call,
                 const OperatorSchema &schema) {
    Checked here = at.inside(call.name);
    for (const auto &argument : call.arguments)
      here.require(C3, argument->kind != ArgumentKind::Scalar,
                   "is a view that changes between steps");
    for (size_t r = 0; r < call.results.size(); ++r)
      if (call.results[r] != -1)
        here.require(C3, looksInto(program, call, schema, r), "value ",
                     call.results[r],
                     " is not a view of what the operator looks into");
  }

  bool looksInto(const ProgramT &program, const AtenT &call,
                 const OperatorSchema &schema, size_t result) {
    // One list of tensors is all that a view gives, or tensors.
    const SchemaValue &said =
        schema.results[std::min(result, schema.results.size() - 1)];
    auto isOf = [&](int value) {
      return value != -1 &&
             baseOf(program, value) == baseOf(program, call.results[result]);
    };
    for (size_t i = 0; i < call.arguments.size(); ++i) {
      const SchemaValue &argument = schema.arguments[i];
      bool shares =
          (i == 0 && isQuietView(call.name)) ||
          std::any_of(said.sets.begin(), said.sets.end(), [&](auto &set) {
            return std::find(argument.sets.begin(), argument.sets.end(), set) !=
                   argument.sets.end();
          });
      if (!shares)
        continue;
      const ArgumentT &given = *call.arguments[i];
      if (given.kind == ArgumentKind::Value && isOf(given.value))
        return true;
      // Member by member.
      if (given.kind == ArgumentKind::ValueList &&
          result < given.values.size() && isOf(given.values[result]))
        return true;
    }
    return false;
  }

  static int baseOf(const ProgramT &program, int value) {
    while (program.values[value]->view_of != -1)
      value = program.values[value]->view_of;
    return value;
  }

  const PlanT &plan;
  const FindSchema &find;
  std::map<std::pair<std::string, std::string>, Known> known;
};

} // namespace

void fsdp::plan::checkOperators(const PlanT &plan, const FindSchema &find) {
  OperatorChecker(plan, find).run();
}
