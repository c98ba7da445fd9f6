#ifndef FSDP_RUNTIME_SESSION_STATEVIEWS_H
#define FSDP_RUNTIME_SESSION_STATEVIEWS_H

#include "comm/Communicator.h"
#include "executor/Executor.h"
#include "state/StateMap.h"

#include <memory>
#include <vector>

namespace fsdp {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// A state, and the part of it that this rank holds, without a copy.
struct StateView : NamedTensor {
  plan::Role role = plan::Role::Parameter;
  bool persistent = true;
  bool trainable = false;
  std::string parameter; // of an optimizer's state: the one it belongs to
  /// Of a parameter: the buffer that counts steps which gave it no gradient;
  /// empty: each step gives it one.
  std::string missed;
  /// The dimension along which the ranks of a shard group have parts, each the
  /// chunk that torch.chunk() gives; -1: every rank holds the whole state.
  int shardDim = -1;
  /// The elements, without padding, in memory that `owner` keeps. Undefined
  /// where they are not such a chunk: wholeTensors() gives the state then.
  at::Tensor local;
};

/// The parameters, buffers and optimizer states of a rank, in the order of the
/// plan. The tensors keep `owner` alive, which owns the executor's memory.
std::vector<StateView> stateViews(const plan::PlanT &plan, int rank,
                                  Executor &executor,
                                  std::shared_ptr<void> owner);

/// Copies of whole states by name, in the order of stateViews(), gathered from
/// all ranks. Of a buffer that differs between ranks it is this rank's. With
/// `flatAlone`, only states whose views are undefined on more than one rank.
/// Collective.
NamedTensors wholeTensors(const plan::PlanT &plan, Communicator &communicator,
                          Executor &executor, bool flatAlone,
                          bool withOptimizer);

/// Copies this rank's parts of whole tensors into its states. Throws Error
/// where a tensor has another dtype or shape than its state.
void putWholeTensors(const plan::PlanT &plan, int rank, Executor &executor,
                     const NamedTensors &tensors);

} // namespace fsdp

#endif // FSDP_RUNTIME_SESSION_STATEVIEWS_H
