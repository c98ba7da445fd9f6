// The options of passes and pipelines: what each is for, and its values.
//
// Help, errors, docs/options.md and the options of passes all read this.

#ifndef FSDP_TRANSFORMS_OPTIONVALUES_H
#define FSDP_TRANSFORMS_OPTIONVALUES_H

#include "mlir/Pass/PassOptions.h"

namespace fsdp {

/// One value that an option can have, as it is written, and its meaning.
struct ValueMeaning {
  llvm::StringLiteral name, meaning;
};

// Enumerations. The first value is the default; `getValues` lists names in the
// order of the enumerators.

enum class TargetDevice { Cpu, Cuda };
inline constexpr ValueMeaning targetDevices[] = {
    {"cpu", "PyTorch's kernels for CPUs"},
    {"cuda", "PyTorch's kernels for NVIDIA GPUs"}};
constexpr llvm::ArrayRef<ValueMeaning> getValues(TargetDevice) {
  return targetDevices;
}

enum class KernelChoice { Exact, Fast };
inline constexpr ValueMeaning kernelChoices[] = {
    {"exact", "those of eager PyTorch, to the bit"},
    {"fast", "the fastest by measurement, whose last bits may be other ones"}};
constexpr llvm::ArrayRef<ValueMeaning> getValues(KernelChoice) {
  return kernelChoices;
}

enum class ShardLayout { Dim0, Flat };
inline constexpr ValueMeaning shardLayouts[] = {
    {"dim0", "each parameter is cut by rows, as in FSDP2"},
    {"flat", "a unit's parameters are cut as one range: nothing is copied for "
             "communication, and the optimizer is one call per unit"}};
constexpr llvm::ArrayRef<ValueMeaning> getValues(ShardLayout) {
  return shardLayouts;
}

enum class GatherBy { Auto, Copy, Map };
inline constexpr ValueMeaning gatherings[] = {
    {"auto", "map with shard-layout=flat, device=cpu and cluster=local; "
             "otherwise copy"},
    {"copy", "a gather copies the ranks' pieces into one buffer"},
    {"map", "ranks of one host read each other's flat pieces in place"}};
constexpr llvm::ArrayRef<ValueMeaning> getValues(GatherBy) {
  return gatherings;
}

enum class AccumulateReduce { Last, Each };
inline constexpr ValueMeaning accumulations[] = {
    {"last", "micro-batches sum whole gradients; only the last one reduces"},
    {"each", "every micro-batch reduces its gradients over the shards, and a "
             "rank sums its part; only the last one sums over replicas"}};
constexpr llvm::ArrayRef<ValueMeaning> getValues(AccumulateReduce) {
  return accumulations;
}

enum class RematPolicy { None, Selective, Full, Auto };
inline constexpr ValueMeaning rematPolicies[] = {
    {"none", "forward keeps everything that backward reads"},
    {"selective", "backward recomputes all but matrix products, convolutions "
                  "and attention"},
    {"full", "backward recomputes everything inside a unit"},
    {"auto",
     "as much as memory-budget-mib needs, at the least predicted time"}};
constexpr llvm::ArrayRef<ValueMeaning> getValues(RematPolicy) {
  return rematPolicies;
}

enum class NonFinite { Apply, Skip };
inline constexpr ValueMeaning nonFinites[] = {
    {"apply", "updates are applied all the same, as in PyTorch"},
    {"skip", "no rank applies an update of such a step, and buffers keep their "
             "values; gradients are kept until all are there"}};
constexpr llvm::ArrayRef<ValueMeaning> getValues(NonFinite) {
  return nonFinites;
}

enum class Offload { None, Params, Optimizer, All };
inline constexpr ValueMeaning offloads[] = {
    {"none", "everything is in the device's memory"},
    {"params", "parameters are on the host and updated on the device"},
    {"optimizer", "optimizer state is on the host, where updates run, as with "
                  "ZeRO-Offload"},
    {"all", "parameters, gradients and optimizer state are on the host, as "
            "with FSDP2's CPUOffloadPolicy"}};
constexpr llvm::ArrayRef<ValueMeaning> getValues(Offload) { return offloads; }

enum class SchedulePolicy { Overlap, Fsdp2, Naive };
inline constexpr ValueMeaning schedulePolicies[] = {
    {"overlap", "a cost model decides when collectives start and are waited "
                "for"},
    {"fsdp2", "FSDP2's order"},
    {"naive", "each collective stands where its result is needed"}};
constexpr llvm::ArrayRef<ValueMeaning> getValues(SchedulePolicy) {
  return schedulePolicies;
}

enum class Placement { Best, Naive };
inline constexpr ValueMeaning placements[] = {
    {"best", "values that are not in use at the same time share bytes"},
    {"naive", "each value has bytes of its own: the baseline"}};
constexpr llvm::ArrayRef<ValueMeaning> getValues(Placement) {
  return placements;
}

enum class StreamCount { Three, One };
inline constexpr ValueMeaning streamCounts[] = {
    {"3", "gathers and reductions run beside compute"},
    {"1", "all commands run in order: the baseline"}};
constexpr llvm::ArrayRef<ValueMeaning> getValues(StreamCount) {
  return streamCounts;
}

enum class ReportFormat { Pretty, Csv, Json };
inline constexpr ValueMeaning reportFormats[] = {
    {"pretty", "a table for people"},
    {"csv", "comma-separated rows"},
    {"json", "one JSON object"}};
constexpr llvm::ArrayRef<ValueMeaning> getValues(ReportFormat) {
  return reportFormats;
}

/// An option that has one of an enumeration's values.
template <typename Enum> class OneOf {
public:
  constexpr OneOf(Enum value = Enum()) : value(value) {}
  constexpr operator Enum() const { return value; }
  llvm::StringRef getName() const {
    return getValues(value)[static_cast<size_t>(value)].name;
  }

private:
  Enum value;
};

template <typename Enum>
llvm::raw_ostream &operator<<(llvm::raw_ostream &os, const OneOf<Enum> &value) {
  return os << value.getName();
}

/// What an option is for. Given to an option, it sets the option's help.
struct OptionMeaning {
  llvm::StringLiteral argument, text;
  llvm::ArrayRef<ValueMeaning> values = {}; // where they are an enumeration

  template <typename Option> void apply(Option &option) const {
    option.setDescription(text);
  }
};

/// The options of the pipelines, by the names that code calls them.
namespace meaning {
inline constexpr OptionMeaning mesh{
    "mesh", "number of ranks, as in 8, or replicas times shards (HSDP), as in "
            "2x4, or in 2x2x4, where replicas have two dimensions; Nx1 is DDP; "
            "nothing: the model's own mesh"};
inline constexpr OptionMeaning meshDims{
    "mesh-dims",
    "names of the mesh's dimensions, as in replicate,shard; the last one is "
    "that of shards"};
inline constexpr OptionMeaning units{
    "units",
    "what is gathered and reduced together, where the model has no units of "
    "its own: auto (blocks), class:NAME (modules of a class), a number (of "
    "bytes of parameters) or a regular expression over module paths"};
inline constexpr OptionMeaning shardLayout{"shard-layout",
                                           "how parameters are cut into shards",
                                           getValues(ShardLayout())};
inline constexpr OptionMeaning gather{
    "gather", "how ranks read each other's shards", getValues(GatherBy())};
inline constexpr OptionMeaning reshardAfterForward{
    "reshard-after-forward",
    "whether parameters are freed between forward and backward: true (ZeRO-3), "
    "false (ZeRO-2), auto (true for all but the root), or the number of "
    "neighbours over whom a secondary shard is kept (hpZ)"};
inline constexpr OptionMeaning schedule{
    "schedule", "when collectives start and are waited for",
    getValues(SchedulePolicy())};
inline constexpr OptionMeaning prefetchForward{
    "prefetch-forward", "how many units ahead forward starts gathers, where a "
                        "unit has no list of its own, or auto"};
inline constexpr OptionMeaning prefetchBackward{
    "prefetch-backward", "how many units ahead backward starts gathers, where "
                         "a unit has no list of its own, or auto"};
inline constexpr OptionMeaning bucketCapMib{
    "bucket-cap-mib",
    "MiB of a unit that one collective may move, none (all of it), or auto: by "
    "cost with schedule=overlap, otherwise none"};
inline constexpr OptionMeaning reduceDtype{
    "reduce-dtype", "what gradients are reduced in, where a unit does not say: "
                    "float16, bfloat16, float32 or float64; nothing: what they "
                    "are computed in"};
inline constexpr OptionMeaning accumulateReduce{
    "accumulate-reduce", "which micro-batches reduce gradients",
    getValues(AccumulateReduce())};
inline constexpr OptionMeaning remat{
    "remat", "which activations backward recomputes", getValues(RematPolicy())};
inline constexpr OptionMeaning memoryBudgetMib{
    "memory-budget-mib",
    "MiB of device memory that a rank may use at one time; nothing: any "
    "amount. Addresses leave gaps: where the arena takes more, a warning says "
    "so"};
inline constexpr OptionMeaning nonFinite{
    "non-finite",
    "what becomes of a step whose loss, or a gradient, is infinite or NaN on "
    "any rank; a scaler skips it in either case",
    getValues(NonFinite())};
inline constexpr OptionMeaning offload{
    "offload",
    "what lives in the host's memory and is copied in and out beside "
    "compute",
    getValues(Offload())};
inline constexpr OptionMeaning pinMemory{
    "pin-memory",
    "whether the host's memory of offloaded state is pinned: true "
    "or false"};
inline constexpr OptionMeaning cluster{
    "cluster",
    "the hardware that a plan is made for: a preset, a TOML file, or "
    "auto: local for CPUs, h100x8 for GPUs"};
inline constexpr OptionMeaning device{
    "device",
    "whose kernels the plan calls; the step may have been exported "
    "on a machine without a GPU",
    getValues(TargetDevice())};
inline constexpr OptionMeaning attention{
    "attention", "with device=cuda, the kernels that may compute attention, "
                 "best first: a list of flash, efficient and cudnn"};
inline constexpr OptionMeaning kernels{
    "kernels", "which kernels compute matrix products and attention",
    getValues(KernelChoice())};
inline constexpr OptionMeaning kernelTable{
    "kernel-table",
    "with kernels=fast, the file of `fsdp-run --tune`: what each kernel takes "
    "on the machine that will run the plan"};
inline constexpr OptionMeaning algorithm{
    "algorithm", "how values are placed in memory", getValues(Placement())};
inline constexpr OptionMeaning streams{
    "streams", "on how many streams a rank computes and communicates",
    getValues(StreamCount())};

/// All of them, in the order in which a reader wants to know them.
inline constexpr const OptionMeaning *all[] = {
    &mesh,         &meshDims,        &units,
    &shardLayout,  &gather,          &reshardAfterForward,
    &schedule,     &prefetchForward, &prefetchBackward,
    &bucketCapMib, &reduceDtype,     &accumulateReduce,
    &nonFinite,    &remat,           &memoryBudgetMib,
    &offload,      &pinMemory,       &cluster,
    &device,       &attention,       &kernels,
    &kernelTable,  &algorithm,       &streams};
} // namespace meaning

/// Prints the error of an option that has no such value, with those that it
/// has.
void reportNoSuchValue(llvm::StringRef option, llvm::StringRef value,
                       llvm::ArrayRef<ValueMeaning> values);

} // namespace fsdp

/// Reads the name of a value. An error is printed here: LLVM gives a parser no
/// way to hand it on.
template <typename Enum>
class llvm::cl::parser<fsdp::OneOf<Enum>> : public generic_parser_base {
public:
  using parser_data_type = fsdp::OneOf<Enum>;
  using generic_parser_base::generic_parser_base;

  bool parse(Option &option, StringRef, StringRef text,
             fsdp::OneOf<Enum> &value) {
    for (const Known &known : Values)
      if (known.Name == text) {
        value = known.V.value;
        return false;
      }
    fsdp::reportNoSuchValue(option.ArgStr, text, getValues(Enum()));
    return true;
  }

  unsigned getNumOptions() const override { return Values.size(); }
  StringRef getOption(unsigned i) const override { return Values[i].Name; }
  StringRef getDescription(unsigned i) const override {
    return getValues(Enum())[i].meaning;
  }
  const GenericOptionValue &getOptionValue(unsigned) const override {
    return none;
  }

protected:
  /// MLIR prints an option by looking for its value in `Values`.
  struct Known {
    struct {
      fsdp::OneOf<Enum> value;
      bool compare(const fsdp::OneOf<Enum> &other) const {
        return Enum(value) == Enum(other);
      }
    } V;
    StringRef Name;
  };
  static SmallVector<Known> list() {
    SmallVector<Known> all;
    for (const fsdp::ValueMeaning &value : getValues(Enum()))
      all.push_back({{static_cast<Enum>(all.size())}, value.name});
    return all;
  }
  const SmallVector<Known> Values = list();

private:
  cl::OptionValue<fsdp::OneOf<Enum>> none; // options are never compared
};

#endif // FSDP_TRANSFORMS_OPTIONVALUES_H
