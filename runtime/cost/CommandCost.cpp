// What the commands of a plan cost.

#include "cost/CommandCost.h"
#include "plan/CommandValues.h"
#include "plan/OperationText.h"
#include "plan/PipelineText.h"

namespace fsdp::cost {

static TensorShape shapeOf(const plan::ProgramT &program, int value) {
  const plan::ValueT &v = *program.values[value];
  return {v.dtype, v.shape.data(), v.shape.size()};
}

static double localBytes(const plan::StateT &state) {
  return TensorShape{state.dtype, state.local_shape.data(),
                     state.local_shape.size()}
      .bytes();
}

std::string calleeOf(const plan::AtenT &aten) {
  constexpr std::string_view space = "aten::";
  std::string callee = plan::operatorName(aten);
  if (callee.compare(0, space.size(), space) == 0)
    callee.erase(0, space.size());
  return callee;
}

Work workOf(const plan::ProgramT &program, const plan::AtenT &aten) {
  std::vector<TensorShape> operands, results;
  for (int value : plan::operandsOf(aten))
    operands.push_back(shapeOf(program, value));
  for (int value : aten.results)
    if (value >= 0)
      results.push_back(shapeOf(program, value));
  return workOf(calleeOf(aten), operands, results);
}

double wholeBytes(const plan::ProgramT &program,
                  const plan::CollectiveT &collective) {
  TensorShape from = shapeOf(program, collective.source),
              to = shapeOf(program, collective.destination);
  return from.elements() > to.elements() ? from.bytes() : to.bytes();
}

unsigned ranksOf(const plan::PlanT &plan, const plan::CollectiveT &collective) {
  return plan::groupOf(plan, collective, 0).size;
}

static double seconds(const plan::PlanT &plan, const plan::ProgramT &program,
                      const plan::CollectiveT &collective,
                      const Cluster &cluster) {
  if (collective.mapped)
    return cluster.collectiveSeconds;
  plan::RankGroup group = plan::groupOf(plan, collective, 0);
  return collectiveSeconds(collective.kind, wholeBytes(program, collective),
                           group.size, cluster, group.stride);
}

static double seconds(const plan::PlanT &plan, const plan::ProgramT &program,
                      const plan::UpdateT &update, const Cluster &cluster) {
  double states = localBytes(*plan.states[update.parameter]);
  for (uint32_t state : update.states)
    states += localBytes(*plan.states[state]);
  return updateSeconds(shapeOf(program, update.gradient).bytes(), states,
                       cluster);
}

static double seconds(const plan::PlanT &plan, const plan::ProgramT &program,
                      const plan::CopyT &copy, const Cluster &cluster) {
  auto arena = [&](int value) {
    return plan::placeOf(plan, *program.values[value]).arena();
  };
  CopyWork work;
  for (const auto &piece : copy.pieces) {
    if (!plan::runsOn(piece->on.get(), 0))
      continue;
    double bytes = double(piece->block_bytes) * piece->blocks;
    if (piece->source < 0)
      work.fill(bytes);
    else
      work.copy(bytes, arena(piece->source) == arena(piece->destination));
  }
  return copySeconds(work, cluster);
}

double commandSeconds(const plan::PlanT &plan, const plan::ProgramT &program,
                      const plan::CommandT &command, const Cluster &cluster) {
  const plan::OperationUnion &operation = command.operation;
  switch (operation.type) {
  case plan::Operation::Aten: {
    const plan::AtenT &aten = *operation.AsAten();
    if (aten.view || !plan::runsOn(aten.on.get(), 0))
      return 0;
    return callSeconds(workOf(program, aten), aten.measured_seconds, cluster);
  }
  case plan::Operation::Update:
    return seconds(plan, program, *operation.AsUpdate(), cluster);
  case plan::Operation::Copy:
    return seconds(plan, program, *operation.AsCopy(), cluster);
  case plan::Operation::Collective:
    return seconds(plan, program, *operation.AsCollective(), cluster);
  case plan::Operation::Record:
  case plan::Operation::Wait:
  case plan::Operation::NONE:
    break;
  }
  return 0;
}

const char *defaultCluster(plan::DeviceKind device) {
  return device == plan::DeviceKind::Cuda ? "h100x8" : "local";
}

/// Passes run one behind the other, and the last one to be told of a cluster is
/// the one that schedules.
Cluster clusterOf(const plan::PlanT &plan) {
  std::string name = "auto";
  for (const auto &option : plan::pipelineOptions(plan.pipeline))
    if (option.name == "cluster" && !option.value.empty())
      name = option.value;
  return findCluster(name == "auto" ? defaultCluster(plan.device) : name);
}

} // namespace fsdp::cost
