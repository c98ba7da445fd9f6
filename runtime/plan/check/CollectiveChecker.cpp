#include "plan/check/CollectiveChecker.h"
#include "plan/Collectives.h"
#include "plan/check/ReductionChecker.h"

using namespace fsdp::plan;

void CollectiveChecker::check(const Checked &here,
                              const CollectiveT &collective) {
  checkKinds(here, collective);
  here.index(collective.mesh_dim, plan.mesh.size(), "mesh dimension");
  bool overShards = isOver(plan, collective, AxisRole::Shard);
  here.require(C32, overShards || isOver(plan, collective, AxisRole::Replicate),
               "is over ", collective.mesh_dims, " mesh dimensions from '",
               plan.mesh[collective.mesh_dim]->name,
               "' on, which are not all that have its role");
  checkChannel(here, collective);
  if (collective.unit != -1)
    here.index(collective.unit, plan.units.size(), "unit");
  here.index(collective.source, program.values.size(), "value");
  checkReduction(here, plan, collective, numbers.normOf(collective.source));
  memory.requireTarget(here, collective.destination, collective.mapped);
  checkValues(here, collective);
  checkBytes(here, collective, checkRanks(here, collective, overShards));
  const Place &from = *program.values[collective.source]->place;
  memory.requireApart(here, UsedBytes(from), collective.destination);
  // Only ranks of one shard group see each other's states.
  if (overShards && !collective.ranks)
    memory.order.meet(memory.now.stream);
  memory.read(here, collective.source, 0, from.bytes());
  memory.write(here, collective.destination);
  memory.expectReader(collective.destination);
  if (collective.ranks)
    memory.restore(collective.destination, collective.source);
}

void CollectiveChecker::checkKinds(const Checked &here,
                                   const CollectiveT &collective) const {
  here.require(C1, collective.kind <= CollectiveKind::MAX,
               "its kind is unknown");
  here.require(C1, collective.dtype <= DType::MAX, "its dtype is unknown");
  here.require(C1,
               !collective.region || *collective.region <= ProgramRegion::MAX,
               "its region is unknown");
}

void CollectiveChecker::checkChannel(const Checked &here,
                                     const CollectiveT &collective) {
  uint32_t stream = memory.now.stream, channel = collective.channel;
  here.require(C8, channel == channelOf(stream), "uses channel ", channel,
               ", which is not stream ", stream, "'s");
  auto used = streams.emplace(channel, stream).first;
  here.require(C8, used->second == stream, "channel ", channel,
               " is used by streams ", used->second, " and ", stream,
               ", so ranks could disagree on the order");
}

void CollectiveChecker::checkValues(const Checked &here,
                                    const CollectiveT &collective) const {
  const ValueT &from = *program.values[collective.source];
  const ValueT &into = *program.values[collective.destination];
  here.require(C7, from.view_of == -1, "sends a view");
  here.require(C7,
               from.dtype == collective.dtype && into.dtype == collective.dtype,
               "moves ", dtypeName(collective.dtype), ", its values are ",
               dtypeName(from.dtype), " and ", dtypeName(into.dtype));
}

uint32_t CollectiveChecker::checkRanks(const Checked &here,
                                       const CollectiveT &collective,
                                       bool overShards) const {
  uint32_t ranks = groupOf(plan, dimsOf(collective), 0).size;
  here.require(
      C32,
      collective.kind == CollectiveKind::AllReduce || ranks == 1 || overShards,
      "gathers or scatters along '", formatDims(plan, dimsOf(collective)),
      "', where ranks have the same parts of states");
  if (!collective.ranks)
    return ranks;
  // These kept the same whole, in the order in which they are gathered.
  here.require(C17,
               collective.kind == CollectiveKind::AllGather &&
                   !collective.mapped && overShards &&
                   memory.keepersOf(collective.source) == collective.ranks,
               "is among ", collective.ranks,
               " neighbours; only a gather of what as many kept is");
  return collective.ranks;
}

void CollectiveChecker::checkBytes(const Checked &here,
                                   const CollectiveT &collective,
                                   uint32_t ranks) const {
  const CollectiveInfo &info = infoOf(collective.kind);
  const Place &from = *program.values[collective.source]->place;
  const Place &into = *program.values[collective.destination]->place;
  unsigned __int128 one = collective.count;
  one *= dtypeBytes(collective.dtype);
  here.require(C7, from.bytes() == one * info.piecesSent(ranks),
               "its source has ", from.bytes(),
               " bytes, which is not what it sends");
  here.require(C7, into.bytes() == one * info.piecesReceived(ranks),
               "its destination has ", into.bytes(),
               " bytes, which is not what it receives");
  here.require(C15, from.arena() != hostArena && into.arena() != hostArena,
               "exchanges memory of the host");
}
