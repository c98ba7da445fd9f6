#include "train/LoadWeights.h"

#include "Error.h"
#include "train/HeldRuns.h"
#include "train/InitialValues.h"
#include "train/LocalPart.h"
#include "train/WeightFiles.h"

#include <ATen/ATen.h>
#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>

namespace fsdp {

namespace {

/// A tensor of the file.
struct Wanted {
  std::string name;
  plan::DType dtype;
  std::vector<int64_t> shape;
  int index;                 // of the state, or of the repeated input
  const plan::StateT *state; // null: an input, which all ranks have whole

  std::vector<Run> runs(const plan::PlanT &plan, int rank) const {
    if (state)
      return heldRuns(plan, *state, rank);
    return {{0, 0, *plan::numElements(shape)}};
  }
};

std::string storedName(const plan::StateT &state) {
  bool lost = state.role == plan::Role::Buffer && !state.persistent;
  const std::string prefix = "fsdp.buffer.";
  if (!lost || state.fqn.compare(0, prefix.size(), prefix) == 0)
    return state.fqn;
  return prefix + state.fqn;
}

/// Brings what is wanted from files into ranks' parts.
class Reader {
public:
  Reader(const plan::PlanT &plan, Communicator &communicator,
         const StartOptions &options)
      : plan(plan), communicator(communicator), path(options.weights),
        scatters(options.fromRank0 && communicator.size() > 1) {
    if (!scatters || communicator.rank() == 0)
      files.emplace(path);
  }

  /// Whether the files have one of `list`.
  bool hasAny(const std::vector<Wanted> &list);
  /// Throws Error unless the files have all of `list`.
  void check(const std::vector<Wanted> &list) const;

  /// Brings this rank's part to `local`.
  void read(const Wanted &wanted, char *local) {
    if (scatters)
      return scatter(wanted, local);
    WeightFiles::Found found = find(wanted);
    int64_t size = plan::dtypeBytes(wanted.dtype);
    for (const Run &run : wanted.runs(plan, communicator.rank()))
      found.file->read(*found.tensor, run.whole * size, run.count * size,
                       local + run.local * size);
  }

private:
  WeightFiles::Found find(const Wanted &wanted) const {
    return files->find(wanted.name, wanted.state ? wanted.state->aliases
                                                 : std::vector<std::string>());
  }
  void scatter(const Wanted &wanted, char *local);

  const plan::PlanT &plan;
  Communicator &communicator;
  std::string path;
  bool scatters;
  std::optional<WeightFiles> files; // where this rank reads
};

bool Reader::hasAny(const std::vector<Wanted> &list) {
  uint8_t any =
      files && std::any_of(list.begin(), list.end(), [&](const Wanted &wanted) {
        return bool(find(wanted));
      });
  if (scatters)
    communicator.broadcast(&any, 1, plan::DType::UInt8, 0);
  return any;
}

void Reader::check(const std::vector<Wanted> &list) const {
  if (!files)
    return;
  std::string problems;
  for (const Wanted &wanted : list) {
    WeightFiles::Found found = find(wanted);
    std::string problem;
    if (!found)
      problem = "it has no " + wanted.name;
    else if (found.tensor->dtype != wanted.dtype ||
             found.tensor->shape != wanted.shape)
      problem = wanted.name + " is " +
                describe(found.tensor->dtype, found.tensor->shape) +
                ", the plan has " + describe(wanted.dtype, wanted.shape);
    if (!problem.empty())
      problems += (problems.empty() ? "" : "; ") + problem;
  }
  if (!problems.empty())
    throw Error("weights in " + path + " do not fit the plan: " + problems +
                "; export both together");
}

/// A scatter is a reduce-scatter to which rank 0 alone adds something. In
/// pieces, so that it takes little memory.
void Reader::scatter(const Wanted &wanted, char *local) {
  constexpr int64_t bufferBytes = 16 << 20;
  int ranks = communicator.size();
  int64_t size = plan::dtypeBytes(wanted.dtype);
  std::vector<std::vector<Run>> runs;
  int64_t largest = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    runs.push_back(wanted.runs(plan, rank));
    int64_t count = 0;
    for (const Run &run : runs.back())
      count += run.count;
    largest = std::max(largest, count);
  }
  int64_t piece = std::max<int64_t>(bufferBytes / ranks / size, 1);
  piece = std::min(piece, largest);
  std::vector<char> all(ranks * piece * size), mine(piece * size);
  for (int64_t begin = 0; begin < largest; begin += piece) {
    if (files) {
      WeightFiles::Found found = find(wanted);
      for (int rank = 0; rank < ranks; ++rank) {
        char *to = all.data() + rank * piece * size;
        forEachRun(runs[rank], begin, begin + piece, [&](const Run &run) {
          found.file->read(*found.tensor, run.whole * size, run.count * size,
                           to);
          to += run.count * size;
        });
      }
    }
    communicator.reduceScatter(all.data(), mine.data(), piece * size,
                               plan::DType::UInt8);
    const char *from = mine.data();
    forEachRun(runs[communicator.rank()], begin, begin + piece,
               [&](const Run &run) {
                 std::memcpy(local + run.local * size, from, run.count * size);
                 from += run.count * size;
               });
  }
}

} // namespace

void RepeatedInputs::set(int program, Executor &executor) const {
  for (const Input &input : inputs)
    if (input.program == program)
      executor.setInput(program, input.input, input.data.data());
}

Start loadWeights(const plan::PlanT &plan, const StartOptions &options,
                  Communicator &communicator, Executor &executor) {
  Start start;
  auto &repeated = start.repeated.inputs;
  for (size_t p = 0; p < plan.programs.size(); ++p)
    for (size_t i = 0; i < plan.programs[p]->inputs.size(); ++i)
      if (!plan.programs[p]->inputs[i]->from_data)
        repeated.push_back({static_cast<int>(p), i, {}});

  at::AutoDispatchBelowADInplaceOrView noAutograd;
  // One after the other: of what is not row-major it takes a copy.
  auto fill = [&](const Wanted &wanted, auto &&with) {
    RowMajorPart part(plan, wanted.index, executor);
    with(part.data());
    part.store();
  };
  std::vector<Wanted> stored, drawn;
  for (size_t i = 0; i < plan.states.size(); ++i) {
    const plan::StateT &state = *plan.states[i];
    // Optimizer state begins with zeros, a step's gradients with nothing; a
    // flat state is what lies in it.
    if (state.is_flat || state.role == plan::Role::Optimizer ||
        state.role == plan::Role::Gradient)
      continue;
    (state.init.empty() ? stored : drawn)
        .push_back({storedName(state), state.dtype, state.shape,
                    static_cast<int>(i), &state});
  }
  for (size_t i = 0; i < repeated.size(); ++i) {
    RepeatedInputs::Input &r = repeated[i];
    const auto &program = *plan.programs[r.program];
    const plan::ValueT &value = *program.values[program.inputs[r.input]->value];
    r.data.resize(*plan::numElements(value.shape) *
                  plan::dtypeBytes(value.dtype));
    stored.push_back({"fsdp.input." + program.inputs[r.input]->name,
                      value.dtype, value.shape, static_cast<int>(i), nullptr});
  }
  if (!stored.empty() && options.weights.empty())
    throw Error("the plan has no value for " + stored[0].name +
                (stored.size() > 1
                     ? " and " + std::to_string(stored.size() - 1) + " more"
                     : "") +
                "; pass --weights FILE");
  if (!options.weights.empty()) {
    Reader reader(plan, communicator, options);
    if (reader.hasAny(drawn)) {
      std::move(drawn.begin(), drawn.end(), std::back_inserter(stored));
      drawn.clear();
    }
    reader.check(stored);
    for (const Wanted &wanted : stored)
      if (wanted.state)
        fill(wanted, [&](char *local) { reader.read(wanted, local); });
      else
        reader.read(wanted, repeated[wanted.index].data.data());
  }
  for (const Wanted &wanted : drawn)
    fill(wanted, [&](char *local) {
      int64_t size = plan::dtypeBytes(wanted.dtype);
      for (const Run &run : heldRuns(plan, *wanted.state, communicator.rank()))
        computeInitialValues(*wanted.state, options.seed, run.whole, run.count,
                             local + run.local * size);
    });
  start.initialised = drawn.size();
  return start;
}

} // namespace fsdp
