// What tests of the host arena have in common: steps with places on the host,
// and with commands on the streams of copies.
#ifndef FSDP_TEST_UNIT_PLAN_HOSTPLANS_H
#define FSDP_TEST_UNIT_PLAN_HOSTPLANS_H

#include "PlanBuilder.h"

namespace fsdp::test {

/// A plan for one rank, whose tensors have `elements` elements of float32.
class HostPlanBuilder : public PlanBuilder {
public:
  HostPlanBuilder() : PlanBuilder(1) {}

  plan::CommandT &at(size_t command) {
    return *plan.programs[0]->commands[command];
  }
  template <typename Operation> Operation &as(size_t command) {
    return *static_cast<Operation *>(at(command).operation.value);
  }
  void drop(size_t command) {
    auto &commands = plan.programs[0]->commands;
    commands.erase(commands.begin() + command);
  }

  static constexpr int64_t elements = 16; // 64 bytes

protected:
  /// Moves the newest place.
  void moveToHost(plan::Place &place) {
    plan.arenas[plan::deviceArena]->bytes -= place.bytes();
    auto &host = *plan.arenas[plan::hostArena];
    place = plan::Place(plan::hostArena, host.bytes, place.bytes());
    host.bytes += place.bytes();
  }
  void copyOn(uint32_t stream, int from, int to) {
    copy(from, to, elements * sizeof(float));
    plan.programs[0]->commands.back()->stream = stream;
  }
  void record(uint32_t event, uint32_t stream) {
    mark<plan::RecordT>(event, stream);
  }
  void wait(uint32_t event, uint32_t stream) {
    mark<plan::WaitT>(event, stream);
  }

private:
  template <typename Operation> void mark(uint32_t event, uint32_t stream) {
    Operation operation;
    operation.event = event;
    auto command = std::make_unique<plan::CommandT>();
    command->operation.Set(std::move(operation));
    command->stream = stream;
    plan.programs[0]->commands.push_back(std::move(command));
  }
};

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_PLAN_HOSTPLANS_H
