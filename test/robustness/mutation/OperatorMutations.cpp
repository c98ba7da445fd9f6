// Which operator a call is of, and what it is given.
#include "Sites.h"
#include "operators/DispatcherSchemas.h"

using namespace fsdp::plan;
using namespace fsdp::test;

namespace {

struct Name {
  const char *name, *overload;
};

Said insertCall(PlanT &plan, Random &random, Name name) {
  auto site = findValue(plan, random, [](const ProgramT &, const ValueT &v) {
    return v.place->bytes() != 0 && isFloating(v.dtype);
  });
  if (!site)
    return {};
  AtenT call;
  call.name = name.name;
  call.overload = name.overload;
  call.results = {-1};
  call.arguments.push_back(std::make_unique<ArgumentT>());
  call.arguments[0]->kind = ArgumentKind::Value;
  call.arguments[0]->value = site->at;
  auto command = std::make_unique<CommandT>();
  command->operation.Set(std::move(call));
  auto &commands = site->program->commands;
  // Behind the command that makes the value, where one does.
  size_t first = writerOf(*site->program, site->at);
  first = first == commands.size() ? 0 : first + 1;
  size_t at = first + random() % (commands.size() - first + 1);
  commands.insert(commands.begin() + at, std::move(command));
  return say(name.name, " of value ", site->at, " at ", at);
}

/// All calls, those of rules too.
std::vector<AtenT *> callsOf(PlanT &plan) {
  std::vector<AtenT *> calls;
  for (auto &rule : plan.rules)
    for (auto &call : rule->calls)
      calls.push_back(call.get());
  for (auto &program : plan.programs)
    for (auto &command : program->commands)
      if (AtenT *call = command->operation.AsAten())
        calls.push_back(call);
  return calls;
}

Said callAnother(PlanT &plan, Random &random) {
  static constexpr Name names[] = {
      {"inductor::_reinterpret_tensor", ""},
      {"inductor::_alloc_from_pool", ""},
      {"aten::from_file", ""},
      {"aten::_reshape_alias", ""},
      {"aten::native_batch_norm", ""},
      {"aten::add", "out"},
      {"aten::add_", "Tensor"},
      {"aten::set_", "source_Tensor"},
      {"aten::resize_", ""},
      {"aten::item", ""},
      {"aten::equal", ""},
      {"aten::_print", ""},
      {"aten::record_stream", ""},
      {"quantized::conv2d", ""},
      {"symm_mem::one_shot_all_reduce", ""},
      {"prims::add", ""},
      {"aten::no_such_operator", ""},
  };
  auto calls = callsOf(plan);
  auto at = pick(calls.size(), random);
  if (!at)
    return {};
  const Name &name = names[random() % std::size(names)];
  AtenT &call = *calls[*at];
  Said said = say(call.name, " is ", name.name);
  call.name = name.name;
  call.overload = name.overload;
  return said;
}

bool isEnumeration(const SchemaValue &argument) {
  return !argument.type.list &&
         (argument.type.kind == SchemaKind::DType ||
          argument.type.kind == SchemaKind::Layout ||
          argument.type.kind == SchemaKind::MemoryFormat ||
          argument.name == "reduction");
}

/// A dtype, layout or the like that does not exist.
Said leaveRange(PlanT &plan, Random &random) {
  std::vector<std::pair<AtenT *, size_t>> places;
  for (AtenT *call : callsOf(plan)) {
    auto schema = fsdp::findDispatcherSchema(call->name, call->overload);
    for (size_t i = 0; schema && i < call->arguments.size(); ++i)
      if (isEnumeration(schema->arguments[i]))
        places.push_back({call, i});
  }
  auto at = pick(places.size(), random);
  if (!at)
    return {};
  auto [call, i] = places[*at];
  ArgumentT &argument = *call->arguments[i];
  argument = ArgumentT();
  argument.kind = ArgumentKind::Int;
  argument.i = oneOf({-1, 7, 1000, int64_t(1) << 40}, random);
  return say(call->name, " argument ", i, " is ", argument.i);
}

/// A constant of another type, or one argument or result more or less.
Said changeSignature(PlanT &plan, Random &random) {
  auto calls = callsOf(plan);
  auto at = pick(calls.size(), random);
  if (!at || calls[*at]->arguments.empty())
    return {};
  AtenT &call = *calls[*at];
  size_t i = random() % call.arguments.size();
  auto schema = fsdp::findDispatcherSchema(call.name, call.overload);
  bool isText = schema->arguments[i].type.kind == SchemaKind::String;
  switch (random() % 3) {
  case 0:
    for (size_t more = schema->arguments.size(); more; --more)
      call.arguments.push_back(std::make_unique<ArgumentT>());
    break;
  case 1:
    call.results.resize(call.results.size() + 2, -1);
    break;
  default:
    *call.arguments[i] = ArgumentT();
    call.arguments[i]->kind =
        isText ? ArgumentKind::Generator : ArgumentKind::String;
  }
  return say(call.name, " argument ", i);
}

} // namespace

const std::vector<fsdp::test::Mutation> fsdp::test::operatorMutations = {
    {"operator that writes",
     [](PlanT &p, Random &r) {
       constexpr Name names[] = {{"aten::zero_", ""},
                                 {"aten::neg_", ""},
                                 {"aten::squeeze_", ""},
                                 {"aten::detach_", ""}};
       return insertCall(p, r, names[r() % std::size(names)]);
     }},
    {"operator that does more", callAnother},
    {"enumeration out of its range", leaveRange},
    {"wrong signature", changeSignature},
};
