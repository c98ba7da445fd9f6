// Checks what a plan's tables say by themselves: mesh, arenas, states, rules,
// learning rates. What programs do with them is for ProgramChecker.
#include "plan/OperatorSchema.h"
#include "plan/check/CheckerSupport.h"

#include <algorithm>
#include <cmath>
#include <set>

using namespace fsdp::plan;

namespace {

// Bounds that keep sums of sizes far from overflow.
constexpr uint64_t maxArenaBytes = uint64_t(1) << 50;
constexpr uint64_t maxRanks = uint64_t(1) << 20;
// Of which 20 can have several ranks. Each command looks at all.
constexpr size_t maxMeshDims = 64;

/// Operands of a step scalar, in the order of the schema's ScalarKind.
constexpr int scalarOperands[] = {0, 0, 0, 2, 2, 2, 2, 2, 1, 4,
                                  0, 4, 4, 1, 1, 2, 1, 1, 1, 0};
static_assert(std::size(scalarOperands) == size_t(ScalarKind::MAX) + 1);

void checkMesh(const PlanT &plan) {
  Checked(plan).inside("mesh").require(C20, plan.mesh.size() <= maxMeshDims,
                                       "has ", plan.mesh.size(),
                                       " dimensions, more than ", maxMeshDims);
  uint64_t ranks = 1;
  std::set<std::string> names;
  std::set<AxisRole> closed; // of dimensions that others follow
  for (size_t d = 0; d < plan.mesh.size(); ++d) {
    const auto &dim = plan.mesh[d];
    Checked at = Checked(plan).at(PlanEntry::MeshDim, d);
    at.require(C20, !dim->name.empty() && names.insert(dim->name).second,
               "its name is empty or used twice");
    at.require(C20, dim->size >= 1 && dim->size <= maxRanks,
               "has no ranks, or more than 2^20");
    ranks *= dim->size;
    at.require(C20, ranks <= maxRanks, "the mesh has more than 2^20 ranks");
    at.require(C1, dim->role <= AxisRole::MAX, "its role is unknown");
    if (d && plan.mesh[d - 1]->role != dim->role)
      closed.insert(plan.mesh[d - 1]->role);
    at.require(C20, !closed.count(dim->role),
               "is no neighbour of the dimensions of its role before it");
  }
  uint32_t shardDims = dimsOf(plan, AxisRole::Shard).count;
  Checked(plan).inside("mesh").require(
      C20, plan.mesh.empty() || shardDims == 1,
      "states are cut along one dimension, and ", shardDims, " are for it");
}

void checkArenas(const PlanT &plan) {
  Checked at = Checked(plan).inside("arenas");
  at.require(C20, plan.arenas.size() == std::size(arenaNames), "a plan has ",
             std::size(arenaNames), ", this one has ", plan.arenas.size());
  for (size_t i = 0; i < plan.arenas.size(); ++i) {
    const ArenaT &arena = *plan.arenas[i];
    at.require(C20, arena.name == arenaNames[i], "arena ", i, " is '",
               arena.name, "', not '", arenaNames[i], "'");
    at.require(C20, arena.bytes <= maxArenaBytes, "arena '", arena.name,
               "' is larger than 2^50 bytes");
    at.require(C20, i == hostArena || !arena.pinned, "arena '", arena.name,
               "' is pinned, which only host memory can be");
  }
}

void checkShardedShape(const Checked &at, const PlanT &plan,
                       const StateT &state) {
  at.require(C22, numElements(state.shape).has_value(), "shape ",
             formatShape(state.shape), " is not a shape");
  at.require(C22,
             state.shard_dim >= -1 &&
                 state.shard_dim < static_cast<int64_t>(state.shape.size()),
             "shard dimension ", state.shard_dim, " does not exist in ",
             formatShape(state.shape));
  bool fits = state.shape.size() == state.local_shape.size();
  for (size_t i = 0; fits && i < state.shape.size(); ++i) {
    int64_t whole = state.shape[i], local = state.local_shape[i];
    if (static_cast<int>(i) != state.shard_dim)
      fits = whole == local;
    else { // Each rank holds as much, the first of equal parts.
      auto parts = static_cast<int64_t>(numShards(plan));
      fits = local == whole / parts + (whole % parts != 0);
    }
  }
  at.require(C22, fits, "local shape ", formatShape(state.local_shape),
             " is not one of ", numShards(plan), " parts of ",
             formatShape(state.shape));
}

/// A state whose elements lie in a flat one, apart from other states'.
void checkMember(const Checked &at, const PlanT &plan, size_t s,
                 DisjointRanges &members) {
  const StateT &state = *plan.states[s];
  at.index(state.flat, plan.states.size(), "state");
  const StateT &flat = *plan.states[state.flat];
  at.require(C22,
             flat.is_flat && flat.flat == -1 && flat.shape.size() == 1 &&
                 flat.shape[0] >= 0 && flat.dtype == state.dtype &&
                 flat.role == state.role && flat.place &&
                 samePlace(*flat.place, *state.place),
             "'", flat.fqn,
             "' is no flat state with its role, dtype and place");
  uint64_t begin = state.flat_offset, size = flat.shape[0],
           count = *numElements(state.shape);
  at.require(C22,
             begin % (placeAlignment / dtypeBytes(state.dtype)) == 0 &&
                 begin <= size && count <= size - begin,
             "does not lie in '", flat.fqn, "' at element ", begin);
  if (auto other = members.add(begin, begin + count, s))
    at.fail(C22, "shares elements with state '", plan.states[*other]->fqn, "'");
}

/// Sorted by stride, each one is larger than all that lies inside it, so that
/// an element's place in the region follows from its position by divisions.
void checkRegion(const Checked &at, const RegionT &region, int64_t count) {
  at.require(C23, region.sizes.size() == region.strides.size(),
             "does not have as many sizes as strides");
  std::vector<std::pair<int64_t, int64_t>> dims;
  bool fits = region.offset < static_cast<uint64_t>(count);
  for (size_t d = 0; fits && d < region.sizes.size(); ++d) {
    int64_t size = region.sizes[d], stride = region.strides[d];
    fits = size >= 1 && size <= count && stride >= 0 && stride <= count;
    if (size > 1)
      dims.push_back({stride, size});
  }
  std::sort(dims.begin(), dims.end());
  __int128 extent = 0;
  for (auto [stride, size] : dims) {
    fits = fits && stride > extent;
    extent += static_cast<__int128>(stride) * (size - 1);
  }
  at.require(C23, fits && region.offset + extent < count,
             "is for elements that the tensor does not have, or for one twice");
}

void checkInit(const Checked &state, const StateT &of) {
  state.require(C23,
                of.init.empty() ||
                    ((of.role == Role::Parameter || of.role == Role::Buffer ||
                      of.role == Role::Optimizer) &&
                     !of.is_flat),
                "has a recipe, which only parameters, buffers and optimizer "
                "states have");
  for (size_t i = 0; i < of.init.size(); ++i) {
    const InitStepT &step = *of.init[i];
    Checked at = state.inside("step ", i, " of its recipe");
    at.require(C1, step.kind <= InitKind::MAX, "its kind is unknown");
    double a = step.a.value_or(0);
    at.require(C23, std::isfinite(a) && std::isfinite(step.b),
               "has a number that is not finite");
    bool writes = step.kind <= InitKind::Normal;
    at.require(C23, i > 0 || (writes && !step.region),
               "is the first and gives no value to every element");
    at.require(C23, step.kind == InitKind::Fill || isFloating(of.dtype),
               "is for floating-point tensors, not for ", dtypeName(of.dtype));
    at.require(C23, step.kind != InitKind::Uniform || a <= step.b,
               "draws from an empty range");
    at.require(C23, step.kind != InitKind::Normal || step.b >= 0,
               "has a negative deviation");
    if (step.region)
      checkRegion(at, *step.region, *numElements(of.shape));
  }
}

void checkStates(const PlanT &plan, PlanFacts &facts) {
  std::set<std::string> names;
  DisjointRanges bytes[std::size(arenaNames)];
  for (size_t s = 0; s < plan.states.size(); ++s) {
    const StateT &state = *plan.states[s];
    Checked at = Checked(plan).at(PlanEntry::State, s);
    at.require(C21, !state.fqn.empty() && names.insert(state.fqn).second,
               "its name is empty or used twice");
    for (const std::string &alias : state.aliases)
      at.require(C21, !alias.empty() && names.insert(alias).second,
                 "its alias '", alias, "' is empty or used twice");
    at.require(C1, state.role <= Role::MAX, "its role is unknown");
    at.require(C1, state.dtype <= DType::MAX, "its dtype is unknown");
    checkShardedShape(at, plan, state);
    checkPlace(at, plan, state.place.get());
    const Place &place = *state.place;
    at.require(C2, place.arena() != windowArena, "lies in the window arena");
    if (state.flat != -1) {
      checkMember(at, plan, s, facts.members[state.flat]);
    } else {
      checkTensor(at, state.local_shape, state.strides, state.dtype, place);
      if (auto other = bytes[place.arena()].add(
              place.offset(), place.offset() + place.bytes(), s))
        at.fail(C2, "shares bytes with state '", plan.states[*other]->fqn, "'");
    }
    if (state.unit != -1)
      at.index(state.unit, plan.units.size(), "unit");
    bool belongs =
        state.role == Role::Optimizer || state.role == Role::Gradient;
    at.require(C22, belongs == (state.parameter != -1),
               "optimizer state and gradients, and nothing else, belong to a "
               "parameter");
    checkInit(at, state);
    if (belongs) {
      at.index(state.parameter, plan.states.size(), "state");
      const StateT &parameter = *plan.states[state.parameter];
      at.require(C22, parameter.role == Role::Parameter, "belongs to '",
                 parameter.fqn, "', which is no parameter");
    }
    at.require(C22, state.role == Role::Parameter || !state.trainable,
               "is trainable, which only a parameter can be");
    at.require(C22, state.role == Role::Buffer || !state.persistent,
               "is said to be a buffer of state_dict(), and is none");
  }
  for (size_t s = 0; s < plan.states.size(); ++s)
    Checked(plan)
        .at(PlanEntry::State, s)
        .require(C22, !plan.states[s]->is_flat || facts.members.count(s),
                 "is flat, so that it is not saved, and has no members");
}

void checkRule(const Checked &at, const PlanT &plan, const RuleT &rule) {
  at.require(C24, rule.operands >= 2 && rule.operands <= rule.dtypes.size(),
             "needs a parameter and a gradient, and a dtype for each operand");
  for (DType dtype : rule.dtypes)
    at.require(C1, dtype <= DType::MAX, "has a value of an unknown dtype");
  checkScalars(at, plan, rule.scalars);
  if (rule.missed != -1) {
    at.index(rule.missed, plan.states.size(), "state");
    const StateT &missed = *plan.states[rule.missed];
    at.require(C24,
               missed.role == Role::Buffer && missed.dtype == DType::Float64 &&
                   missed.shape.empty(),
               "counts steps in '", missed.fqn,
               "', which is no buffer of one float64");
  }

  std::vector<bool> written(rule.dtypes.size());
  std::fill_n(written.begin(), rule.operands, true);
  auto read = [&](int64_t i) {
    at.index(i, written.size(), "value");
    at.require(C24, written[i], "reads value ", i, " before it is written");
  };
  for (size_t c = 0; c < rule.calls.size(); ++c) {
    const AtenT &call = *rule.calls[c];
    for (const auto &argument : call.arguments)
      at.at(PlanEntry::Call, c)
          .require(C24, argument->kind != ArgumentKind::Generator,
                   "draws random numbers, which ranks would not agree on");
    checkMeasuredTime(at.at(PlanEntry::Call, c), call);
    checkArguments(at.at(PlanEntry::Call, c), plan, call, rule.scalars.size(),
                   read);
    for (int result : call.results) {
      if (result == -1)
        continue;
      at.index(result, written.size(), "value");
      at.require(C24, !written[result], "writes value ", result, " twice");
      written[result] = true;
    }
  }
  at.require(C24, !rule.results.empty() && rule.results.size() < rule.operands,
             "must give a result for the parameter and for each state");
  for (size_t i = 0; i < rule.results.size(); ++i) {
    read(rule.results[i]);
    at.require(C24,
               rule.dtypes[rule.results[i]] == rule.dtypes[i == 0 ? 0 : i + 1],
               "result ", i, " changes its dtype");
  }
}

void checkSchedule(const PlanT &plan) {
  size_t columns = plan.hyperparameters.size();
  Checked at(plan);
  at.inside("schedule")
      .require(C20,
               plan.schedule.empty() ||
                   (columns && plan.schedule.size() % columns == 0),
               "the table is not rows of ", columns, " hyperparameters");
  at.inside("length").require(C20, !plan.epochs || !plan.steps,
                              "epochs and steps are both given");
}

} // namespace

void fsdp::plan::checkPlace(const Checked &at, const PlanT &plan,
                            const Place *place) {
  at.require(C2, place, "has no place");
  at.index(place->arena(), plan.arenas.size(), "arena");
  const ArenaT &arena = *plan.arenas[place->arena()];
  at.require(C2, place->offset() % placeAlignment == 0, "its place at ",
             place->offset(), " is not a multiple of 64");
  at.require(C2,
             place->offset() <= arena.bytes &&
                 place->bytes() <= arena.bytes - place->offset(),
             "its place reaches past the end of the ", arena.name, " arena");
}

void fsdp::plan::checkTensor(const Checked &at,
                             const std::vector<int64_t> &shape,
                             const std::vector<int64_t> &strides, DType dtype,
                             const Place &place, bool view) {
  std::optional<uint64_t> bytes = spanBytes(shape, strides, dtype);
  at.require(C2, bytes.has_value(), "shape ", formatShape(shape),
             " and strides ", formatShape(strides),
             " do not describe a tensor");
  at.require(C2, view || areApart(shape, strides), "strides ",
             formatShape(strides), " put several elements of ",
             formatShape(shape), " in one place");
  at.require(C2, *bytes == place.bytes() || (view && *bytes <= place.bytes()),
             "needs ", *bytes, " bytes, its place has ", place.bytes());
}

void fsdp::plan::checkScalars(
    const Checked &at, const PlanT &plan,
    const std::vector<std::unique_ptr<ScalarT>> &scalars) {
  bool readsState =
      std::any_of(scalars.begin(), scalars.end(), [](const auto &scalar) {
        return scalar->kind == ScalarKind::State;
      });
  for (size_t i = 0; i < scalars.size(); ++i) {
    const ScalarT &scalar = *scalars[i];
    Checked here = at.inside("scalar ", i);
    here.require(C1, scalar.kind <= ScalarKind::MAX, "its kind is unknown");
    if (scalar.kind == ScalarKind::Hyperparameter)
      here.index(scalar.hyperparameter, plan.hyperparameters.size(),
                 "hyperparameter");
    if (scalar.kind == ScalarKind::State) {
      here.index(scalar.state, plan.states.size(), "state");
      const StateT &state = *plan.states[scalar.state];
      here.require(
          C24, state.shape.empty() && state.shard_dim == -1 && state.flat == -1,
          "'", state.fqn, "' is not one number that every rank has");
    }
    const int given[] = {scalar.a, scalar.b, scalar.c, scalar.d};
    for (int k = 0; k < scalarOperands[static_cast<int>(scalar.kind)]; ++k) {
      bool former = scalar.kind == ScalarKind::Former && k == 0;
      size_t end = former ? scalars.size() : i;
      here.require(C24, given[k] >= 0 && static_cast<size_t>(given[k]) < end,
                   "refers to scalar ", given[k],
                   former ? ", which does not exist"
                          : ", which is not an earlier one");
    }
    // Steps are counted again where a run is resumed; states are as they are.
    here.require(C24, scalar.kind != ScalarKind::Former || !readsState,
                 "follows from the step before, beside a state's number");
    // A GPU's states are known on the host a step late.
    for (int k = 0; k < scalarOperands[static_cast<int>(scalar.kind)]; ++k)
      here.require(C19,
                   plan.device != DeviceKind::Cuda ||
                       scalars[given[k]]->kind != ScalarKind::State,
                   "refers to scalar ", given[k],
                   ", which is known on the GPU alone");
  }
}

void fsdp::plan::checkScalarArgument(const Checked &at, const PlanT &plan,
                                     const AtenT &call, int scalar,
                                     size_t scalars) {
  at.index(scalar, scalars, "scalar");
  at.require(C19, plan.device != DeviceKind::Cuda || holdsScalar(call.name),
             "takes a number of the step, which a GPU has in memory alone; run "
             "--fsdp-hold-scalars first");
}

void fsdp::plan::checkMeasuredTime(const Checked &at, const AtenT &call) {
  // With more, sums of a program's times would not fit their integers.
  constexpr double day = 24 * 3600;
  double seconds = call.measured_seconds.value_or(1);
  at.require(C39, seconds > 0 && seconds <= day, "was measured to take ",
             seconds, " seconds");
}

void fsdp::plan::checkTables(const PlanT &plan, PlanFacts &facts) {
  checkMesh(plan);
  checkArenas(plan);
  Checked at(plan);
  at.require(C1, plan.device <= DeviceKind::MAX, "its device is unknown");
  std::set<std::string> names;
  auto unique = [&](const Checked &here, const char *thing,
                    const std::string &name) {
    here.require(C21, names.insert(thing + name).second, "exists twice");
  };
  at.require(C14, plan.gradient_divisor == numRanks(plan),
             "divides gradients by ", plan.gradient_divisor,
             ", which is not the number of its ranks, ", numRanks(plan));
  for (size_t u = 0; u < plan.units.size(); ++u) {
    const UnitT &unit = *plan.units[u];
    Checked here = at.at(PlanEntry::Unit, u);
    unique(here, "unit", unit.name);
    double divisor = unit.gradient_divisor.value_or(1);
    here.require(C14, std::isfinite(divisor) && divisor > 0,
                 "divides gradients by ", divisor);
  }
  checkStates(plan, facts);
  checkSchedule(plan);
  for (size_t r = 0; r < plan.rules.size(); ++r) {
    Checked here = at.at(PlanEntry::Rule, r);
    unique(here, "rule", plan.rules[r]->name);
    checkRule(here, plan, *plan.rules[r]);
  }
  for (size_t p = 0; p < plan.programs.size(); ++p)
    unique(at.at(PlanEntry::Program, p), "program", plan.programs[p]->name);
  at.require(C21, names.count("programstep"), "it has no program 'step'");
}
