#include "train/UnitMeter.h"

#include "trace/CommandOrder.h"
#include "trace/Units.h"
#include "train/StepWork.h"

namespace fsdp {

/// The unit of a collective; the number of units where it has none.
static size_t unitOf(const plan::PlanT &plan, const plan::CommandT &command) {
  const auto *collective = command.operation.AsCollective();
  return collective && collective->unit >= 0 ? collective->unit
                                             : plan.units.size();
}

std::vector<uint64_t> UnitMeter::bytesOf(int step) const {
  std::vector<uint64_t> bytes(size());
  for (auto [program, runs] : programsOfStep(plan, step))
    for (const auto &command : plan.programs[program]->commands)
      if (const auto *collective = command->operation.AsCollective())
        bytes[unitOf(plan, *command)] +=
            runs * collective->count * plan::dtypeBytes(collective->dtype);
  return bytes;
}

const std::vector<size_t> &UnitMeter::unitsOf(uint32_t number) {
  auto [found, isNew] = units.try_emplace(number);
  std::vector<size_t> &all = found->second;
  if (!isNew)
    return all;
  const plan::ProgramT &program = *plan.programs[number];
  for (const auto &command : program.commands)
    all.push_back(unitOf(plan, *command));
  all.push_back(plan.units.size()); // at its end it waits for all streams
  for (auto [wait, awaited] : trace::awaitedCommands(program))
    if (awaited != trace::nothing)
      all[wait] = all[awaited];
  return all;
}

void UnitMeter::begin(Executor &executor) {
  recorder = {};
  if (plan.device == plan::DeviceKind::Cpu)
    executor.setRecorder(&recorder);
}

std::vector<UnitReport> UnitMeter::end(int step, Executor &executor) {
  if (plan.device == plan::DeviceKind::Cpu)
    executor.setRecorder(nullptr);
  std::vector<double> exposedMs(size());
  for (const trace::ProgramRun &run : recorder.runs()) {
    const std::vector<size_t> &unit = unitsOf(run.program);
    for (const trace::Span &span : run.spans)
      if (span.kind != trace::Span::Command) {
        uint32_t by =
            span.command == trace::nothing ? span.reached : span.command;
        exposedMs[unit[by]] += (span.end - span.begin) / 1e6;
      }
  }
  std::vector<uint64_t> bytes = bytesOf(step);
  std::vector<UnitReport> reports;
  for (size_t u = 0; u < size(); ++u) {
    UnitReport report;
    report.name = u + 1 < size() ? trace::unitTitle(plan, u) : "no unit";
    report.communicatedBytes = bytes[u];
    if (!recorder.runs().empty())
      report.exposedCommMs = exposedMs[u];
    reports.push_back(std::move(report));
  }
  return reports;
}

} // namespace fsdp
