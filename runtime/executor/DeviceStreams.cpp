#include "executor/DeviceStreams.h"

#include <chrono>
#include <thread>
#include <vector>

namespace fsdp {

namespace {

class DeviceStreams final : public Streams {
public:
  DeviceStreams(Device &device, DeviceCommunicator &communicator,
                unsigned streams, unsigned events)
      : device(device), communicator(communicator), streams(streams),
        firstJoin(events), numEvents(events + streams) {}

  // What still runs reads and writes memory that is about to go.
  ~DeviceStreams() override {
    try {
      device.drain();
    } catch (const std::exception &) {
      // It has been reported where it happened.
    }
  }

  // What the streams did before is behind stream 0: they wait for it, which
  // also makes them part of a capture.
  void begin(size_t) override {
    device.record(plan::computeStream, firstJoin);
    for (unsigned s = 1; s < streams; ++s)
      device.wait(s, firstJoin);
  }

  void end() override {
    for (unsigned s = 1; s < streams; ++s) {
      device.record(s, firstJoin + s);
      device.wait(plan::computeStream, firstJoin + s);
    }
  }

  void transfer(unsigned stream, const Transfer &transfer) override {
    communicator.launch(transfer, stream);
  }

  void copy(unsigned stream, const std::vector<CopyPiece> &pieces) override {
    for (const CopyPiece &piece : pieces)
      if (piece.from)
        device.copyRows(stream, piece.to, piece.toStride, piece.from,
                        piece.fromStride, piece.rowBytes, piece.rows);
      else
        device.fillRows(stream, piece.to, piece.toStride, 0, piece.rowBytes,
                        piece.rows);
  }

  void record(unsigned stream, unsigned event) override {
    device.record(stream, event);
  }
  void wait(unsigned stream, unsigned event) override {
    device.wait(stream, event);
  }

  void abandon(const std::string &) override { communicator.abort(); }

  uint64_t mark() override {
    unsigned event = numEvents;
    if (free.empty()) {
      ++numEvents;
    } else {
      event = free.back();
      free.pop_back();
    }
    device.record(plan::computeStream, event);
    return event;
  }

  // The host asks, so that a collective whose partner is gone is noticed: it
  // would never end.
  void await(uint64_t mark) override {
    auto event = static_cast<unsigned>(mark);
    for (unsigned asked = 0; !device.isOver(event); ++asked) {
      communicator.check();
      if (asked < spins)
        std::this_thread::yield();
      else
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    free.push_back(event);
  }

  std::optional<Times> times() const override { return std::nullopt; }

private:
  /// Before the host sleeps between its questions.
  static constexpr unsigned spins = 1000;

  Device &device;
  DeviceCommunicator &communicator;
  unsigned streams;
  // Events: the program's, one for each stream to be joined by, marks.
  unsigned firstJoin, numEvents;
  std::vector<unsigned> free; // marks that nobody awaits
};

} // namespace

std::unique_ptr<Streams> makeDeviceStreams(Device &device,
                                           DeviceCommunicator &communicator,
                                           unsigned streams, unsigned events) {
  return std::make_unique<DeviceStreams>(device, communicator, streams, events);
}

} // namespace fsdp
