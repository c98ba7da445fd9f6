// The options of the pipelines. OptionValues.h says what each is for.

#ifndef FSDP_LIB_TRANSFORMS_PIPELINEOPTIONS_H
#define FSDP_LIB_TRANSFORMS_PIPELINEOPTIONS_H

#include "fsdp/Transforms/OptionValues.h"

namespace fsdp {

/// Pipeline options, with the names that the parser knows. Inheritance is
/// virtual so that `fsdp-pipeline` has the options of all its parts.
struct NamedOptions : virtual mlir::detail::PassOptions {
  /// An option, by what it is for.
  template <typename Type> struct Named : Option<Type> {
    template <typename... Args>
    Named(NamedOptions *parent, const OptionMeaning &meaning, Args &&...args)
        : Option<Type>(*parent, meaning.argument, meaning,
                       std::forward<Args>(args)...) {}
    using Option<Type>::operator=;
  };
  template <typename Enum> using Choice = Named<OneOf<Enum>>;

  struct Text : Named<std::string> {
    Text(NamedOptions *parent, const OptionMeaning &meaning,
         const std::string &byDefault)
        : Named(parent, meaning, llvm::cl::init(byDefault)) {}
  };

  bool has(llvm::StringRef name) const { return OptionsMap.count(name); }
  std::vector<std::string> getNames() const;

  /// Parses `text`, with an error that names the nearest option where there is
  /// no such one.
  mlir::LogicalResult
  parse(llvm::StringRef pipeline, llvm::StringRef text,
        llvm::function_ref<mlir::LogicalResult(const llvm::Twine &)> fail);

  /// Throws an Error where an option has no such value, or two disagree.
  virtual void check() const = 0;

  /// NAME=VALUE of each option that has a value.
  std::string getText() const;
};

/// How much memory there is: of all chapters.
struct BudgetOptions : virtual NamedOptions {
  Text memoryBudgetMib{this, meaning::memoryBudgetMib, ""};

  void check() const override;
};

/// What a plan is made for: of more than one chapter.
struct ScheduleOptions : virtual BudgetOptions {
  Choice<SchedulePolicy> schedule{this, meaning::schedule};
  Text cluster{this, meaning::cluster, "auto"};
  Text bucketCapMib{this, meaning::bucketCapMib, "auto"};

  /// The schedules to compare with have one collective per unit.
  std::string getBucketCap() const {
    bool perUnit =
        bucketCapMib == "auto" && schedule != SchedulePolicy::Overlap;
    return perUnit ? "none" : bucketCapMib.getValue();
  }
  void check() const override;
};

struct ShardOptions : virtual ScheduleOptions {
  Choice<TargetDevice> device{this, meaning::device};
  Text attention{this, meaning::attention, "flash,efficient"};
  Choice<KernelChoice> kernels{this, meaning::kernels};
  Text kernelTable{this, meaning::kernelTable, ""};
  Text mesh{this, meaning::mesh, ""};
  Text meshDims{this, meaning::meshDims, "shard"};
  Text units{this, meaning::units, "auto"};
  Choice<RematPolicy> remat{this, meaning::remat};
  Text reshardAfterForward{this, meaning::reshardAfterForward, "auto"};
  Text reduceDtype{this, meaning::reduceDtype, ""};
  Choice<ShardLayout> shardLayout{this, meaning::shardLayout};
  Choice<AccumulateReduce> accumulateReduce{this, meaning::accumulateReduce};
  Choice<NonFinite> nonFinite{this, meaning::nonFinite};
  Choice<GatherBy> gather{this, meaning::gather};
  Choice<Offload> offload{this, meaning::offload};
  Named<bool> pinMemory{this, meaning::pinMemory, llvm::cl::init(true)};

  plan::DeviceKind getDevice() const {
    return device == TargetDevice::Cuda ? plan::DeviceKind::Cuda
                                        : plan::DeviceKind::Cpu;
  }
  /// `gather`, of which auto is decided.
  GatherBy getGather() const;
  void check() const override;
};

struct OverlapOptions : virtual ScheduleOptions {
  Text prefetchForward{this, meaning::prefetchForward, "auto"};
  Text prefetchBackward{this, meaning::prefetchBackward, "auto"};

  void check() const override;
};

struct LowerOptions : virtual BudgetOptions {
  Choice<Placement> algorithm{this, meaning::algorithm};
  Choice<StreamCount> streams{this, meaning::streams};
};

struct AllOptions : ShardOptions, OverlapOptions, LowerOptions {
  void check() const override;
};

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_PIPELINEOPTIONS_H
