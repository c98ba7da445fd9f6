// What all passes have in common: their base, and the options of the pipelines.

#ifndef FSDP_PASS_OPTIONS_TD
#define FSDP_PASS_OPTIONS_TD

include "mlir/Pass/PassBase.td"

class ModulePass<string argument> : PassBase<argument, "::fsdp::ModulePass">;

// An option that the pipelines have too. OptionValues.h says what it is for, and
// which values an enumeration has, the first of which is the default.
class PipelineOption<string name, string argument, string type,
                     string default = "">
    : Option<name, argument, type, default, "see docs/options.md",
             "::fsdp::meaning::" # name>;
class ChoiceOption<string name, string argument, string values>
    : PipelineOption<name, argument, "::fsdp::OneOf<::fsdp::" # values # ">">;
class TextOption<string name, string argument, string default>
    : PipelineOption<name, argument, "std::string", "\"" # default # "\"">;

def MeshOption : TextOption<"mesh", "mesh", "">;
def MeshDimsOption : TextOption<"meshDims", "mesh-dims", "shard">;
def UnitsOption : TextOption<"units", "units", "auto">;
def ShardLayoutOption
    : ChoiceOption<"shardLayout", "shard-layout", "ShardLayout">;
def ReshardAfterForwardOption
    : TextOption<"reshardAfterForward", "reshard-after-forward", "auto">;
def ScheduleOption : ChoiceOption<"schedule", "schedule", "SchedulePolicy">;
def PrefetchForwardOption
    : TextOption<"prefetchForward", "prefetch-forward", "auto">;
def PrefetchBackwardOption
    : TextOption<"prefetchBackward", "prefetch-backward", "auto">;
def ReduceDtypeOption : TextOption<"reduceDtype", "reduce-dtype", "">;
def RematOption : ChoiceOption<"remat", "remat", "RematPolicy">;
def MemoryBudgetOption
    : TextOption<"memoryBudgetMib", "memory-budget-mib", "">;
def NonFiniteOption : ChoiceOption<"nonFinite", "non-finite", "NonFinite">;
def OffloadOption : ChoiceOption<"offload", "offload", "Offload">;
def PinMemoryOption
    : PipelineOption<"pinMemory", "pin-memory", "bool", "true">;
def ClusterOption : TextOption<"cluster", "cluster", "auto">;
def DeviceOption : ChoiceOption<"device", "device", "TargetDevice">;
def AttentionOption : TextOption<"attention", "attention", "flash,efficient">;
def KernelsOption : ChoiceOption<"kernels", "kernels", "KernelChoice">;
def KernelTableOption : TextOption<"kernelTable", "kernel-table", "">;
def AlgorithmOption : ChoiceOption<"algorithm", "algorithm", "Placement">;
def StreamsOption : ChoiceOption<"streams", "streams", "StreamCount">;

// A pass alone does the plainest; the pipelines' default is auto.
def BucketCapOption : TextOption<"bucketCapMib", "bucket-cap-mib", "none">;
def GatherOption
    : PipelineOption<"gather", "gather", "::fsdp::OneOf<::fsdp::GatherBy>",
                     "::fsdp::GatherBy::Copy">;

#endif // FSDP_PASS_OPTIONS_TD
