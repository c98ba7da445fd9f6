#ifndef FSDP_RUNTIME_COMM_DEVICECOMMUNICATOR_H
#define FSDP_RUNTIME_COMM_DEVICECOMMUNICATOR_H

#include "comm/Communicator.h"
#include "device/Device.h"

#include <memory>
#include <string>

namespace fsdp {

/// Collectives of a plan between ranks whose memory is a GPU's: they are
/// launched on streams and the host does not wait. Beside it stands a
/// Communicator, for what the hosts say to each other. All ranks prepare and
/// launch the same transfers in the same order, from the thread that owns the
/// Device. Throws PeerFailure when a rank is gone, Error for what else fails.
class DeviceCommunicator {
public:
  virtual ~DeviceCommunicator() = default;

  /// What carries the bytes, for people: "NCCL 2.28.9".
  virtual std::string transport() const = 0;

  /// ncclMemAlloc, ncclCommRegister: the memory that transfers read and write,
  /// zeros. Collective, with the same size on all ranks.
  virtual DeviceMemory allocate(uint64_t bytes) = 0;

  /// ncclCommSplit: makes what launching a transfer like this one needs, and
  /// may wait for the other ranks and for the device. Called before the first
  /// launch of each; its addresses are not looked at. Throws
  /// Error as checkReduction() does, and for what NCCL cannot
  /// reduce.
  virtual void prepare(const Transfer &transfer) = 0;

  /// Launches a transfer: its source is read and its destination written on
  /// the stream, behind what is on it, and what follows on it may overwrite
  /// both. In place as Communicator::start() says. Its channel says only which
  /// of NCCL's communicators carries it, `mapped` says nothing: order is that
  /// of the stream. How NCCL's sums are rounded, and that its maximum wants
  /// numbers that are not negative, is said in NcclReduction.h.
  virtual void launch(const Transfer &transfer, unsigned stream) = 0;

  /// Whether transfers can be part of a DeviceGraph; else why not.
  virtual std::string whyNotCaptured() const = 0;

  /// Whether all ranks say yes: a transfer is part of a graph on all ranks or
  /// on none. Collective where transfers can be captured; the hosts talk.
  virtual bool agree(bool yes) { return yes; }

  /// ncclCommGetAsyncError: throws what went wrong in what was launched.
  virtual void check() = 0;

  /// Who asks the other ranks where they are, when one keeps this one waiting;
  /// null: nobody. See Communicator::watch().
  virtual RankWatch *watch() { return nullptr; }

  /// ncclCommAbort: what was launched ends without a result. May be called from
  /// any thread.
  virtual void abort() = 0;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_DEVICECOMMUNICATOR_H
