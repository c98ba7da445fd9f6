#include "PlanBuilder.h"
#include "plan/AlignUp.h"
#include "plan/check/LiveRanges.h"

namespace fsdp::test {

using namespace fsdp::plan;

static ArgumentT argument(ArgumentKind kind) {
  ArgumentT a;
  a.kind = kind;
  return a;
}

ArgumentT value(int v) {
  ArgumentT a = argument(ArgumentKind::Value);
  a.value = v;
  return a;
}
ArgumentT values(std::vector<int> v) {
  ArgumentT a = argument(ArgumentKind::ValueList);
  a.values = std::move(v);
  return a;
}
ArgumentT integer(int64_t i) {
  ArgumentT a = argument(ArgumentKind::Int);
  a.i = i;
  return a;
}
ArgumentT integers(std::vector<int64_t> i) {
  ArgumentT a = argument(ArgumentKind::IntList);
  a.ints = std::move(i);
  return a;
}
ArgumentT number(double d) {
  ArgumentT a = argument(ArgumentKind::Double);
  a.d = d;
  return a;
}
ArgumentT scalar(int index) {
  ArgumentT a = argument(ArgumentKind::Scalar);
  a.value = index;
  return a;
}
ArgumentT site(int64_t number) {
  ArgumentT a = argument(ArgumentKind::Generator);
  a.i = number;
  return a;
}
ArgumentT byDefault() { return argument(ArgumentKind::Default); }

PlanBuilder::PlanBuilder(unsigned ranks) : ranks(ranks) {
  plan.version = planVersion;
  plan.torch_version = "2.11.0";
  plan.source = "test";
  auto dim = std::make_unique<MeshDimT>();
  dim->name = "shard";
  dim->size = ranks;
  plan.mesh.push_back(std::move(dim));
  plan.gradient_divisor = ranks;
  for (const char *name : arenaNames) {
    auto arena = std::make_unique<ArenaT>();
    arena->name = name;
    plan.arenas.push_back(std::move(arena));
  }
  auto rate = std::make_unique<HyperparameterT>();
  rate->name = "lr";
  rate->value = 0.1;
  plan.hyperparameters.push_back(std::move(rate));
}

Place PlanBuilder::place(unsigned arena, const Shape &shape, DType dtype) {
  uint64_t bytes = *spanBytes(shape, rowMajorStrides(shape), dtype);
  uint64_t offset = plan.arenas[arena]->bytes;
  plan.arenas[arena]->bytes += alignUp(bytes);
  return Place(arena, offset, bytes);
}

unsigned PlanBuilder::state(const std::string &fqn, Role role, Shape shape,
                            bool sharded, DType dtype) {
  auto s = std::make_unique<StateT>();
  s->fqn = fqn;
  s->role = role;
  s->dtype = dtype;
  s->shape = shape;
  if (sharded) {
    shape[0] = (shape[0] + ranks - 1) / ranks;
    s->shard_dim = 0;
  }
  s->local_shape = shape;
  s->strides = rowMajorStrides(shape);
  s->place = std::make_unique<Place>(place(deviceArena, shape, dtype));
  s->trainable = role == Role::Parameter;
  s->persistent = role == Role::Buffer;
  plan.states.push_back(std::move(s));
  return plan.states.size() - 1;
}

void PlanBuilder::program(const std::string &name) {
  plan.programs.push_back(std::make_unique<ProgramT>());
  current().name = name;
}

int PlanBuilder::newValue(const std::string &name, Shape shape, DType dtype) {
  auto v = std::make_unique<ValueT>();
  v->name = name;
  v->dtype = dtype;
  v->shape = shape;
  v->strides = rowMajorStrides(shape);
  v->place = std::make_unique<Place>(place(deviceArena, shape, dtype));
  current().values.push_back(std::move(v));
  return current().values.size() - 1;
}

int PlanBuilder::stateValue(unsigned state) {
  const StateT &s = *plan.states[state];
  auto v = std::make_unique<ValueT>();
  v->name = s.fqn;
  v->dtype = s.dtype;
  v->shape = s.local_shape;
  v->strides = s.strides;
  v->place = std::make_unique<Place>(*s.place);
  v->state = state;
  current().values.push_back(std::move(v));
  return current().values.size() - 1;
}

int PlanBuilder::viewValue(const std::string &name, int base, Shape shape,
                           Shape strides) {
  const ValueT &b = *current().values[base];
  auto v = std::make_unique<ValueT>();
  v->name = name;
  v->dtype = b.dtype;
  v->shape = std::move(shape);
  v->strides = std::move(strides);
  v->place = std::make_unique<Place>(*b.place);
  v->view_of = base;
  current().values.push_back(std::move(v));
  return current().values.size() - 1;
}

void PlanBuilder::input(const std::string &name, int v, bool fromData) {
  auto in = std::make_unique<InputT>();
  in->name = name;
  in->value = v;
  in->from_data = fromData;
  current().inputs.push_back(std::move(in));
}

void PlanBuilder::output(const std::string &name, int v) {
  auto out = std::make_unique<OutputT>();
  out->name = name;
  out->value = v;
  current().outputs.push_back(std::move(out));
}

CommandT &PlanBuilder::command() {
  current().commands.push_back(std::make_unique<CommandT>());
  current().commands.back()->location = "model";
  return *current().commands.back();
}

static void setCall(AtenT &call, const std::string &name, Arguments arguments,
                    std::vector<int> results) {
  size_t dot = name.find('.');
  call.name = name.substr(0, dot);
  call.overload = dot == std::string::npos ? "" : name.substr(dot + 1);
  for (ArgumentT &a : arguments)
    call.arguments.push_back(std::make_unique<ArgumentT>(std::move(a)));
  call.results = std::move(results);
}

AtenT &PlanBuilder::aten(const std::string &name, Arguments arguments,
                         std::vector<int> results, bool view) {
  AtenT call;
  setCall(call, name, std::move(arguments), std::move(results));
  call.view = view;
  CommandT &c = command();
  c.operation.Set(std::move(call));
  return *c.operation.AsAten();
}

void PlanBuilder::update(unsigned rule, unsigned parameter, int gradient,
                         std::vector<uint32_t> states) {
  UpdateT u;
  u.rule = rule;
  u.parameter = parameter;
  u.gradient = gradient;
  u.states = std::move(states);
  command().operation.Set(std::move(u));
}

void PlanBuilder::copy(int source, int destination, uint64_t bytes) {
  auto piece = std::make_unique<PieceT>();
  piece->source = source;
  piece->destination = destination;
  piece->block_bytes = bytes;
  CopyT c;
  c.pieces.push_back(std::move(piece));
  command().operation.Set(std::move(c));
}

void PlanBuilder::collective(CollectiveKind kind, int source, int destination,
                             uint64_t count,
                             std::optional<ProgramRegion> region) {
  CollectiveT c;
  c.kind = kind;
  c.source = source;
  c.destination = destination;
  c.dtype = DType::Float32;
  c.count = count;
  c.region = region;
  // The only dimension of the mesh, so that the sum is the mean.
  if (kind == CollectiveKind::ReduceScatter)
    c.divisor = ranks;
  command().operation.Set(std::move(c));
}

PlanT &PlanBuilder::finish() {
  for (auto &program : plan.programs) {
    program->live_bytes = liveBytes(plan, *program);
    program->host_live_bytes = liveBytes(plan, *program, hostArena);
  }
  return plan;
}

unsigned addSgdRule(PlanBuilder &builder) {
  auto rule = std::make_unique<RuleT>();
  rule->name = "sgd.0";
  rule->operands = 2;
  rule->dtypes = {DType::Float32, DType::Float32, DType::Float32};
  auto rate = std::make_unique<ScalarT>();
  rate->kind = ScalarKind::Hyperparameter;
  auto negative = std::make_unique<ScalarT>();
  negative->kind = ScalarKind::Negate;
  negative->a = 0;
  rule->scalars.push_back(std::move(rate));
  rule->scalars.push_back(std::move(negative));
  auto call = std::make_unique<AtenT>();
  setCall(*call, "aten::add.Tensor", {value(0), value(1), scalar(1)}, {2});
  rule->calls.push_back(std::move(call));
  rule->results = {2};
  builder.plan.rules.push_back(std::move(rule));
  return builder.plan.rules.size() - 1;
}

std::unique_ptr<PlanBuilder> linearRegression(unsigned ranks, int64_t out,
                                              int64_t in, int64_t batch) {
  auto builder = std::make_unique<PlanBuilder>(ranks);
  PlanBuilder &b = *builder;
  bool sharded = ranks > 1;
  unsigned w = b.state("w", Role::Parameter, {out, in}, sharded);
  int64_t part = b.plan.states[w]->local_shape[0], padded = part * ranks;
  unsigned rule = addSgdRule(b);
  for (const char *name : {"step", "eval"}) {
    b.program(name);
    int x = b.newValue("x", {batch, in}), y = b.newValue("y", {batch, out});
    b.input("x", x, true);
    b.input("y", y, true);
    int full = b.stateValue(w);
    if (sharded) {
      int gathered = b.newValue("gathered", {padded, in});
      b.collective(CollectiveKind::AllGather, full, gathered, part * in,
                   ProgramRegion::Forward);
      full = b.viewValue("full", gathered, {out, in}, {in, 1});
      b.aten("aten::slice.Tensor",
             {value(gathered), integer(0), integer(0), integer(out)}, {full},
             true);
    }
    int wt = b.viewValue("wt", full, {in, out}, {1, in});
    b.aten("aten::t", {value(full)}, {wt}, true);
    int prediction = b.newValue("prediction", {batch, out});
    b.aten("aten::mm", {value(x), value(wt)}, {prediction});
    int difference = b.newValue("difference", {batch, out});
    b.aten("aten::sub.Tensor", {value(prediction), value(y)}, {difference});
    int square = b.newValue("square", {batch, out});
    b.aten("aten::mul.Tensor", {value(difference), value(difference)},
           {square});
    int loss = b.newValue("loss", {});
    b.aten("aten::mean", {value(square)}, {loss});
    b.output("loss", loss);
    if (std::string(name) == "eval")
      continue;
    int scaled = b.newValue("scaled", {batch, out});
    b.aten("aten::mul.Scalar", {value(difference), number(2.0 / (batch * out))},
           {scaled});
    int turned = b.viewValue("turned", scaled, {out, batch}, {1, out});
    b.aten("aten::t", {value(scaled)}, {turned}, true);
    int gradient = b.newValue("gradient", {out, in});
    b.aten("aten::mm", {value(turned), value(x)}, {gradient});
    if (sharded) {
      int wide = b.newValue("wide", {padded, in});
      b.aten("aten::constant_pad_nd",
             {value(gradient), integers({0, 0, 0, padded - out})}, {wide});
      gradient = b.newValue("mean", {part, in});
      b.collective(CollectiveKind::ReduceScatter, wide, gradient, part * in);
    }
    b.update(rule, w, gradient);
  }
  return builder;
}

} // namespace fsdp::test
