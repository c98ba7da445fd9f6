#ifndef FSDP_RUNTIME_SESSION_STATEVIEWS_H
#define FSDP_RUNTIME_SESSION_STATEVIEWS_H

#include "comm/Communicator.h"
#include "executor/Executor.h"
#include "state/StateMap.h"

#include <memory>
#include <vector>

namespace fsdp {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// What this rank holds of a state, where it lies.
struct StateView : NamedTensor {
  plan::Role role = plan::Role::Parameter;
  bool persistent = true;
  bool trainable = false;
  std::string parameter; // of an optimizer's state: whose it is
  /// Along which dimension the ranks of a shard group have parts, each the
  /// chunk that torch.chunk() gives; -1: every rank holds all of it.
  int shardDim = -1;
  /// The elements, without padding, in memory that `owner` keeps. Undefined
  /// where they are no such chunk: see wholeTensor().
  at::Tensor local;
};

/// The parameters, buffers and optimizer states of a rank, in the order of the
/// plan. The tensors keep `owner`, to whom the executor's memory belongs.
std::vector<StateView> stateViews(const plan::PlanT &plan, int rank,
                                  Executor &executor,
                                  std::shared_ptr<void> owner);

/// Copies of whole states by name, in the order of stateViews(), gathered from
/// all ranks; of buffers that differ, this rank's. Collective. With
/// `flatAlone`, only of those whose views are undefined on more than one rank.
NamedTensors wholeTensors(const plan::PlanT &plan, Communicator &communicator,
                          Executor &executor, bool flatAlone,
                          bool withOptimizer);

/// Copies what this rank holds of whole tensors to where it holds it. Throws
/// Error where one is not of its state's dtype and shape.
void putWholeTensors(const plan::PlanT &plan, int rank, Executor &executor,
                     const NamedTensors &tensors);

} // namespace fsdp

#endif // FSDP_RUNTIME_SESSION_STATEVIEWS_H
