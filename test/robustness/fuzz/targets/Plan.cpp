// A plan file: through the checker and, where it is accepted, two steps of each
// of its programs on a host arena between guards.
#include "FuzzTarget.h"
#include "MirrorRanks.h"

#include "Error.h"
#include "executor/Executor.h"
#include "executor/HostBackend.h"
#include "operators/DispatcherSchemas.h"
#include "operators/Operators.h"
#include "plan/PlanFile.h"
#include "plan/Sha256.h"

#include <ATen/Parallel.h>
#include <cstdio>
#include <cstdlib>

using namespace fsdp;
using namespace fsdp::test;

namespace {

/// The digest finds damage, and an enemy writes a right one: so does this, and
/// the right length.
std::string withDigest(std::string file) {
  constexpr size_t lengthAt = 12, digestAt = 20, header = 64;
  if (file.size() < header)
    return file;
  uint64_t length = file.size() - header;
  for (size_t i = 0; i < 8; ++i)
    file[lengthAt + i] = static_cast<char>(length >> (8 * i));
  std::string digest =
      plan::sha256({file.data() + header, static_cast<size_t>(length)});
  return file.replace(digestAt, digest.size(), digest);
}

/// What can be run here in moments.
bool isSmall(const plan::PlanT &plan) {
  uint64_t bytes = 0, commands = 0;
  for (const auto &arena : plan.arenas)
    bytes += arena->bytes;
  for (const auto &program : plan.programs)
    commands += program->commands.size();
  return plan.device == plan::DeviceKind::Cpu && bytes <= 8 << 20 &&
         commands <= 4096 && plan::numRanks(plan) <= 64;
}

void execute(const plan::PlanT &plan) {
  int ranks = static_cast<int>(plan::numRanks(plan));
  MirrorRanks communicator(ranks - 1, ranks);
  HostBackend backend(communicator);
  ExecutorOptions options;
  options.poison = true;
  Executor executor(plan, backend, options);
  for (uint64_t step = 1; step <= 2; ++step)
    for (size_t p = 0; p < plan.programs.size(); ++p) {
      const plan::ProgramT &program = *plan.programs[p];
      for (size_t i = 0; i < program.inputs.size(); ++i) {
        const plan::ValueT &value = *program.values[program.inputs[i]->value];
        std::vector<char> zeros(*plan::numElements(value.shape) *
                                plan::dtypeBytes(value.dtype));
        executor.setInput(static_cast<int>(p), i, zeros.data());
      }
      executor.run(static_cast<int>(p), step);
      executor.outputs();
      executor.tensorOutputs(static_cast<int>(p));
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const bool ready = [] {
    at::set_num_threads(1);
    registerOperators();
    return true;
  }();
  static_cast<void>(ready);
  plan::LoadedPlan loaded;
  try {
    loaded = plan::parsePlan(
        withDigest({reinterpret_cast<const char *>(data), size}), "fuzz",
        findDispatcherSchema);
  } catch (const plan::PlanError &) {
    return 0;
  }
  if (!isSmall(*loaded.plan))
    return 0;
  try {
    execute(*loaded.plan);
  } catch (const std::exception &error) {
    // A kernel may refuse its operands. What wrote where it may not is a hole
    // in the checker.
    if (std::string(error.what()).find("please report it") !=
        std::string::npos) {
      std::fprintf(stderr, "%s\n", error.what());
      std::abort();
    }
  }
  return 0;
}
