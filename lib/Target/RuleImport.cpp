// What an optimizer's step does to a parameter, as a function.
//
// The exporter has followed the optimizer's own code. What is a tensor there is
// a node of the graph, what is a number of Python's is one of the rule's list.

#include "RuleImport.h"

#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"
#include "fsdp/Dialect/FSDP/FSDP.h"
#include "fsdp/Dialect/FSDP/Functions.h"
#include "fsdp/Dialect/FSDP/UpdateCount.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <cstring>

using namespace mlir;
using namespace fsdp;

namespace {
/// Numbers of the step, in double as Python computes them; each in front of
/// the first call that takes it.
class NumberBuilder {
public:
  NumberBuilder(OpBuilder &builder, Location loc, const RuleInfo &rule,
                llvm::StringMap<Value> &values)
      : builder(builder), loc(loc), rule(rule), values(values) {
    for (const NumberInfo &number : rule.numbers)
      numbers[number.name] = &number;
    if (!rule.missed.empty())
      missed = FlatSymbolRefAttr::get(builder.getContext(), rule.missed);
  }

  /// Builds those that `node` takes.
  void build(const TorchNode &node) {
    for (const TorchOperand &operand : node.operands)
      if (operand.kind == TorchOperand::Kind::Value)
        build(operand.text);
  }

private:
  void build(StringRef name) {
    const NumberInfo *number = numbers.lookup(name);
    if (!number || values.contains(name))
      return;
    if (number->op == NumberOp::Former)
      return buildRecurrence();
    SmallVector<Value> operands;
    for (const NumberInfo::Operand &operand : number->operands)
      operands.push_back(get(operand));
    values[name] = create(*number, operands);
  }

  Value get(const NumberInfo::Operand &operand) {
    if (auto *name = std::get_if<std::string>(&operand)) {
      build(*name);
      return values.lookup(*name);
    }
    double value = std::get<double>(operand);
    uint64_t bits; // 0 and -0 are two
    std::memcpy(&bits, &value, sizeof(bits));
    Value &constant = constants[bits];
    if (!constant)
      constant = arith::ConstantOp::create(builder, loc,
                                           builder.getF64FloatAttr(value));
    return constant;
  }

  /// All numbers that follow from the step before, as they may do so from each
  /// other.
  void buildRecurrence() {
    SmallVector<const NumberInfo *> formers;
    SmallVector<Value> initial;
    for (const NumberInfo &number : rule.numbers)
      if (number.op == NumberOp::Former) {
        formers.push_back(&number);
        initial.push_back(get(number.operands.front()));
      }
    SmallVector<Type> types(formers.size(), builder.getF64Type());
    auto recurrence = RecurrenceOp::create(builder, loc, types, initial);
    SmallVector<Location> locs(formers.size(), loc);
    OpBuilder::InsertionGuard guard(builder);
    Block *body = builder.createBlock(&recurrence.getBody(), {}, types, locs);
    llvm::StringMap<Value> inner;
    for (auto [former, argument] : llvm::zip(formers, body->getArguments()))
      inner[former->name] = argument;
    NumberBuilder next(builder, loc, rule, inner);
    SmallVector<Value> yielded;
    for (const NumberInfo *former : formers)
      yielded.push_back(next.get(former->next));
    YieldOp::create(builder, loc, yielded);
    for (auto [former, result] : llvm::zip(formers, recurrence.getNumbers()))
      values[former->name] = result;
  }

  Value select(arith::CmpFPredicate predicate, ValueRange v) {
    Value holds = arith::CmpFOp::create(builder, loc, predicate, v[0], v[1]);
    return arith::SelectOp::create(builder, loc, holds, v[2], v[3]);
  }

  Value create(const NumberInfo &number, ValueRange v) {
    Type f64 = builder.getF64Type();
    switch (number.op) {
    case NumberOp::Hyperparameter:
      return HyperparameterOp::create(builder, loc, f64, number.hyperparameter,
                                      rule.group);
    case NumberOp::StepCount:
      return createUpdateCount(builder, loc, missed);
    case NumberOp::Former:
      break; // of a recurrence
    case NumberOp::Add:
      return arith::AddFOp::create(builder, loc, v[0], v[1]);
    case NumberOp::Subtract:
      return arith::SubFOp::create(builder, loc, v[0], v[1]);
    case NumberOp::Multiply:
      return arith::MulFOp::create(builder, loc, v[0], v[1]);
    case NumberOp::Divide:
      return arith::DivFOp::create(builder, loc, v[0], v[1]);
    case NumberOp::Power:
      return math::PowFOp::create(builder, loc, v[0], v[1]);
    case NumberOp::Negate:
      return arith::NegFOp::create(builder, loc, v[0]);
    case NumberOp::SquareRoot:
      return math::SqrtOp::create(builder, loc, v[0]);
    case NumberOp::Exponential:
      return math::ExpOp::create(builder, loc, v[0]);
    case NumberOp::Logarithm:
      return math::LogOp::create(builder, loc, v[0]);
    case NumberOp::Cosine:
      return math::CosOp::create(builder, loc, v[0]);
    case NumberOp::Round: {
      Value narrow =
          arith::TruncFOp::create(builder, loc, builder.getF32Type(), v[0]);
      return arith::ExtFOp::create(builder, loc, f64, narrow);
    }
    case NumberOp::SelectEqual:
      return select(arith::CmpFPredicate::OEQ, v);
    case NumberOp::SelectLess:
      return select(arith::CmpFPredicate::OLT, v);
    case NumberOp::SelectLessEqual:
      return select(arith::CmpFPredicate::OLE, v);
    }
    llvm_unreachable("a number that nothing computes");
  }

  OpBuilder &builder;
  Location loc;
  const RuleInfo &rule;
  llvm::StringMap<Value> &values;
  llvm::StringMap<const NumberInfo *> numbers;
  FlatSymbolRefAttr missed;
  llvm::DenseMap<uint64_t, Value> constants;
};

struct ToAttribute {
  Builder builder;
  Attribute operator()(bool value) { return builder.getBoolAttr(value); }
  Attribute operator()(double value) { return builder.getF64FloatAttr(value); }
  Attribute operator()(const std::string &text) {
    return builder.getStringAttr(text);
  }
  Attribute operator()(const std::vector<double> &numbers) {
    return builder.getDenseF64ArrayAttr(numbers);
  }
};
} // namespace

static Implementation toAttribute(ImplementationInfo implementation) {
  switch (implementation) {
  case ImplementationInfo::ForLoop:
    return Implementation::ForLoop;
  case ImplementationInfo::Foreach:
    return Implementation::Foreach;
  case ImplementationInfo::Fused:
    return Implementation::Fused;
  }
  llvm_unreachable("an implementation without an attribute");
}

static OptimizerAttr getIdentity(MLIRContext *context, const GroupInfo &group) {
  Builder builder(context);
  SmallVector<NamedAttribute> hyperparameters;
  for (const auto &[name, value] : group.hyperparameters)
    hyperparameters.push_back(
        builder.getNamedAttr(name, std::visit(ToAttribute{builder}, value)));
  return OptimizerAttr::get(context, group.optimizer,
                            toAttribute(group.implementation),
                            builder.getDictionaryAttr(hyperparameters));
}

static void checkGraph(const RuleInfo &rule, const TorchGraph &graph) {
  const ProgramInfo &program = rule.program;
  auto names = [](const auto &list) {
    return llvm::map_to_vector(list, [](const auto &x) { return x.name; });
  };
  if (ArrayRef(graph.arguments) != ArrayRef(names(program.arguments)) ||
      ArrayRef(graph.results) != ArrayRef(names(program.results)) ||
      graph.nodes.size() != program.nodes.size())
    throw ArchiveError(
        E::ArchiveContents,
        "has a method `" + rule.method +
            "` of other arguments, nodes or results than fsdp.json "
            "describes; export again");
}

func::FuncOp fsdp::importRule(OpBuilder &builder, AtenCallImporter &calls,
                              const OptimizerInfo &optimizer,
                              const RuleInfo &rule, const TorchGraph &graph) {
  checkGraph(rule, graph);
  MLIRContext *context = builder.getContext();
  const ProgramInfo &program = rule.program;
  size_t inputs = rule.states.size() + 2;
  auto typeOf = [&](const std::string &name) {
    return getValueType(context, program.values.at(name));
  };
  SmallVector<Type> operands, results;
  for (size_t i = 0; i < inputs; ++i)
    operands.push_back(typeOf(program.arguments[i].name));
  for (const ResultInfo &result : program.results)
    results.push_back(typeOf(result.name));

  Location loc = NameLoc::get(builder.getStringAttr(rule.name));
  auto function = func::FuncOp::create(
      builder, loc, rule.name, builder.getFunctionType(operands, results));
  function.setPrivate();
  kRuleAttr.set(function);
  if (!rule.sets)
    kOptimizerAttr.set(function,
                       getIdentity(context, optimizer.groups[rule.group]));
  if (!rule.missed.empty())
    kMissedAttr.set(function, StringRef(rule.missed));

  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(function.addEntryBlock());
  llvm::StringMap<Value> values;
  for (size_t i = 0; i < inputs; ++i)
    values[program.arguments[i].name] = function.getArgument(i);
  NumberBuilder numbers(builder, loc, rule, values);
  for (auto [node, info] : llvm::zip(graph.nodes, program.nodes)) {
    numbers.build(node);
    calls.import(node, info, program, values);
  }
  for (auto call : function.getOps<aten::CallOp>())
    if (call.isRandom())
      throw ArchiveError(E::ArchiveContents,
                         "has the rule " + rule.name +
                             ", which draws random numbers; export again");
  SmallVector<Value> returned;
  for (const ResultInfo &result : program.results)
    returned.push_back(values.lookup(result.name));
  func::ReturnOp::create(builder, loc, returned);
  return function;
}
