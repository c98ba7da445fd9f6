// The named pipelines.
//
// From a captured step to the commands of a rank, in three chapters. Each ends
// with a verifier, so that a later chapter may trust what it is given.

#include "fsdp/Transforms/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace fsdp;

namespace {

using ErrorHandler = function_ref<LogicalResult(const Twine &)>;

// Options

/// Pipeline options, with the names that the parser knows. Inheritance is
/// virtual so that `fsdp-pipeline` has the options of all its parts.
struct NamedOptions : virtual detail::PassOptions {
  std::vector<std::string> getNames() const {
    std::vector<std::string> names;
    for (const auto &entry : OptionsMap)
      names.push_back(entry.first.str());
    llvm::sort(names);
    return names;
  }
};

/// What a plan is made for: of more than one chapter.
struct ScheduleOptions : virtual NamedOptions {
  Option<std::string> schedule{*this, "schedule",
                               llvm::cl::desc("overlap, fsdp2 or naive"),
                               llvm::cl::init("overlap")};
  Option<std::string> cluster{
      *this, "cluster",
      llvm::cl::desc("what a plan is made for: a preset, a TOML file, or auto: "
                     "local for CPUs, h100x8 for GPUs"),
      llvm::cl::init("auto")};
  Option<std::string> memoryBudgetMib{
      *this, "memory-budget-mib",
      llvm::cl::desc("MiB that a rank may use; nothing: all"),
      llvm::cl::init("")};
  Option<std::string> bucketCapMib{
      *this, "bucket-cap-mib",
      llvm::cl::desc("MiB of a unit that one collective may move, none, or "
                     "auto: none but for schedule=overlap"),
      llvm::cl::init("auto")};

  /// The schedules to compare with have one collective per unit.
  std::string getBucketCap() const {
    bool perUnit = bucketCapMib == "auto" && schedule != "overlap";
    return perUnit ? "none" : bucketCapMib.getValue();
  }
};

struct ShardOptions : virtual ScheduleOptions {
  Option<std::string> device{*this, "device", llvm::cl::desc("cpu or cuda"),
                             llvm::cl::init("cpu")};
  Option<std::string> attention{
      *this, "attention",
      llvm::cl::desc(
          "its kernels on GPUs, best first: flash, efficient, cudnn"),
      llvm::cl::init("flash,efficient")};
  Option<std::string> mesh{*this, "mesh",
                           llvm::cl::desc("number of ranks, as in 8, or "
                                          "replicas times shards, as in 2x4"),
                           llvm::cl::init("")};
  Option<std::string> meshDims{
      *this, "mesh-dims",
      llvm::cl::desc("names of the mesh's dimensions, as replicate,shard"),
      llvm::cl::init("shard")};
  Option<std::string> units{
      *this, "units",
      llvm::cl::desc("auto, class:NAME, a number of bytes, or a regex over "
                     "module paths"),
      llvm::cl::init("auto")};
  Option<std::string> remat{
      *this, "remat",
      llvm::cl::desc(
          "what backward recomputes: none, selective (all but matrix "
          "products, convolutions and attention), full, or auto: what "
          "memory-budget-mib needs"),
      llvm::cl::init("none")};
  Option<std::string> reshardAfterForward{
      *this, "reshard-after-forward",
      llvm::cl::desc("auto, true, false, or the number of neighbours over whom "
                     "a shard is kept"),
      llvm::cl::init("auto")};
  Option<std::string> reduceDtype{
      *this, "reduce-dtype",
      llvm::cl::desc("what gradients are reduced in: float16, bfloat16, "
                     "float32, float64; nothing: what they are computed in"),
      llvm::cl::init("")};
  Option<std::string> shardLayout{
      *this, "shard-layout",
      llvm::cl::desc("how parameters are cut: dim0, rows of each apart, or "
                     "flat, equal pieces of a unit's elements"),
      llvm::cl::init("dim0")};
  Option<std::string> accumulateReduce{
      *this, "accumulate-reduce",
      llvm::cl::desc("which micro-batches reduce gradients: last, which sums "
                     "whole ones before, or each, which sums its parts"),
      llvm::cl::init("last")};
  Option<std::string> gather{
      *this, "gather",
      llvm::cl::desc("copy, map (ranks read each other's flat pieces in place) "
                     "or auto: map for device=cpu and cluster=local"),
      llvm::cl::init("auto")};
  Option<std::string> offload{
      *this, "offload",
      llvm::cl::desc("what is on the host: none, params, optimizer (its state, "
                     "with the updates), or all"),
      llvm::cl::init("none")};
  Option<bool> pinMemory{*this, "pin-memory",
                         llvm::cl::desc("whether host memory is pinned"),
                         llvm::cl::init(true)};
};

struct OverlapOptions : virtual ScheduleOptions {
  Option<std::string> prefetchForward{
      *this, "prefetch-forward",
      llvm::cl::desc("units that forward gathers ahead, or auto"),
      llvm::cl::init("auto")};
  Option<std::string> prefetchBackward{
      *this, "prefetch-backward",
      llvm::cl::desc("units that backward gathers ahead, or auto"),
      llvm::cl::init("auto")};
};

struct LowerOptions : virtual NamedOptions {
  Option<std::string> algorithm{
      *this, "algorithm",
      llvm::cl::desc("how values are placed: best, or naive, which gives each "
                     "bytes of its own"),
      llvm::cl::init("best")};
  Option<int64_t> streams{*this, "streams",
                          llvm::cl::desc("1: all commands in order; 3: gathers "
                                         "and reductions beside compute"),
                          llvm::cl::init(3)};
};

struct AllOptions : ShardOptions, OverlapOptions, LowerOptions {};

// The chapters

void buildOverlap(OpPassManager &pm, const ScheduleOptions &options,
                  StringRef prefetchForward = "auto",
                  StringRef prefetchBackward = "auto") {
  // One gather per region first: a bucket has each of its members once.
  pm.addPass(createDedupUnshard());

  // Buckets while collectives are synchronous: moving them is moving one op.
  pm.addPass(
      createBucketCollectives({options.getBucketCap(), options.cluster}));

  // What backward gathers again is a bucket of forward, so both are there.
  pm.addPass(createKeepPieces());

  // In flight at last; from here on the order of the ops is the schedule.
  pm.addPass(createConvertToAsync());
  pm.addPass(createScheduleOverlap({options.schedule, prefetchForward.str(),
                                    prefetchBackward.str(),
                                    options.memoryBudgetMib, options.cluster}));
  pm.addPass(createVerifyAsync());
}

/// The text of a pipeline's passes.
std::string getPasses(OpPassManager &pm) {
  std::string text;
  llvm::raw_string_ostream os(text);
  pm.printAsTextualPipeline(os);
  StringRef passes = text;
  passes.consume_front((pm.getOpAnchorName() + "(").str());
  passes.consume_back(")");
  return passes.str();
}

/// From parameters in units to what one rank holds of them.
void buildSharding(OpPassManager &pm, const ShardOptions &options,
                   StringRef gather) {
  // The sharding is said once, on the states, while all types are still whole.
  pm.addPass(
      createShardState({options.mesh, options.meshDims, options.shardLayout}));

  // Readers and gradients are found while a load still has the type that its
  // readers expect, so that both passes only insert.
  pm.addPass(createInsertUnshard({options.reshardAfterForward}));
  pm.addPass(createInsertGradReduction({options.reduceDtype}));

  // Gathers are all there, and one per reader, so that a cast belongs to one.
  pm.addPass(createMovePrecisionCasts());

  // A unit's parameters become one while there is still one gather per reader
  // and one reduction per gradient to rewrite.
  if (options.shardLayout == "flat")
    pm.addPass(createFlattenState(
        {gather.str(), options.getBucketCap(), options.cluster}));

  // What stands in front of a reduction is whole, what stands behind it a part.
  // Behind the packs of flat gradients in either case, so that each whole one
  // is summed by itself and then lands in its pack.
  if (options.accumulateReduce == "last")
    pm.addPass(createAccumulateGradients());

  // Only now do types change, all at once.
  pm.addPass(createLocalize());
  if (options.accumulateReduce == "each")
    pm.addPass(createAccumulateGradients());

  // What is asked of all gradients is asked of what the updates read: each
  // rank's own part. They are clipped as they are without the loss's scale.
  pm.addPass(createScaleLoss());
  pm.addPass(createClipGradients());

  // Behind those that write rules: all numbers of a step are there.
  pm.addPass(createHoldScalars());

  // Copies from and to the host are of parts: what is sent, and what is summed.
  pm.addPass(createOffloadState({options.offload, options.pinMemory}));
}

LogicalResult buildShard(OpPassManager &pm, const ShardOptions &options,
                         function_ref<void(OpPassManager &)> schedule,
                         ErrorHandler fail) {
  bool flat = options.shardLayout == "flat", onHost = options.device == "cpu";
  std::string gather = options.gather;
  if (gather == "auto")
    gather = flat && onHost &&
                     (options.cluster == "auto" || options.cluster == "local")
                 ? "map"
                 : "copy";
  if (gather != "copy" && gather != "map")
    return fail("gather=" + gather +
                " does not exist; there are auto, copy "
                "and map");
  if (gather == "map" && !onHost)
    return fail("gather=map is for device=cpu: GPUs do not show each other's "
                "memory in one place, and would hold all parameters whole");
  if (gather == "map" && !flat)
    return fail("gather=map needs shard-layout=flat: only flat pieces can be "
                "read in place");

  if (options.accumulateReduce != "last" && options.accumulateReduce != "each")
    return fail("accumulate-reduce=" + options.accumulateReduce +
                " does not exist; there are last and each");

  // What is priced, recomputed and placed is what will run.
  pm.addPass(createSelectKernels({options.device, options.attention}));

  // Then units: who is gathered together decides everything after it.
  pm.addPass(createAssignUnits({options.units}));

  // What is computed twice has its second readers of parameters before any
  // reader gets a gather.
  OpPassManager trial(ModuleOp::getOperationName());
  if (options.remat == "auto") {
    buildSharding(trial, options, gather);
    schedule(trial);
  }
  pm.addPass(createRematActivations({options.remat, options.memoryBudgetMib,
                                     options.cluster, getPasses(trial)}));

  buildSharding(pm, options, gather);
  pm.addPass(createVerifySharded());
  return success();
}

void buildLower(OpPassManager &pm, const LowerOptions &options) {
  // Streams before memory: what runs at the same time cannot share bytes.
  pm.addPass(createAssignStreams({options.streams}));

  // Every buffer gets its address; after it, values are memory.
  pm.addPass(createPlanMemory({options.algorithm}));

  // One to one with the plan, and checked as a rank would run it.
  pm.addPass(createLowerToCommands());
  pm.addPass(createVerifyCommands());
}

// Registration

/// Parses `text`; an unknown option is an error that names the nearest one.
template <typename Options>
LogicalResult parse(Options &options, StringRef pipeline, StringRef text,
                    ErrorHandler fail) {
  std::string why;
  llvm::raw_string_ostream stream(why);
  if (succeeded(options.parseFromString(text, stream)))
    return success();
  StringRef unknown = why;
  if (!unknown.consume_front("<Pass-Options-Parser>: no such option "))
    return fail(pipeline + ": " + StringRef(why).trim());
  unknown = unknown.trim();
  std::vector<std::string> names = options.getNames();
  if (names.empty())
    return fail(pipeline + " has no option \"" + unknown + "\"; it takes none");
  std::string &nearest = *std::min_element(
      names.begin(), names.end(), [&](StringRef a, StringRef b) {
        return unknown.edit_distance(a) < unknown.edit_distance(b);
      });
  return fail(pipeline + " has no option \"" + unknown +
              "\"; the nearest is \"" + nearest + "\", all are " +
              llvm::join(names, ", "));
}

/// The text that gives this pipeline with these options on a command line;
/// options without a value are left out.
std::string getText(StringRef pipeline, const NamedOptions &options) {
  std::string all;
  llvm::raw_string_ostream stream(all);
  options.print(stream);
  SmallVector<StringRef> given;
  StringRef(all).trim("{}").split(given, ' ');
  llvm::erase_if(given, [](StringRef option) {
    return option.empty() || option.ends_with("=");
  });
  std::string text = pipeline.str();
  return given.empty() ? text : text + "{" + llvm::join(given, " ") + "}";
}

template <typename Options>
void registerPipeline(
    StringRef name, StringRef description,
    std::function<LogicalResult(OpPassManager &, const Options &, ErrorHandler)>
        build) {
  registerPassPipeline(
      name, description,
      [=](OpPassManager &pm, StringRef text, ErrorHandler fail) {
        Options options;
        if (failed(parse(options, name, text, fail)))
          return failure();
        if (failed(build(pm, options, fail)))
          return failure();
        // Last, so that a module that carries the text has been through it.
        pm.addPass(createRecordPipeline({getText(name, options)}));
        return success();
      },
      [](function_ref<void(const detail::PassOptions &)> handler) {
        handler(Options());
      });
}

LogicalResult buildAll(OpPassManager &pm, const AllOptions &options,
                       ErrorHandler fail) {
  auto schedule = [&](OpPassManager &pm) {
    buildOverlap(pm, options, options.prefetchForward,
                 options.prefetchBackward);
  };
  if (failed(buildShard(pm, options, schedule, fail)))
    return failure();
  schedule(pm);
  buildLower(pm, options);
  return success();
}

} // namespace

void fsdp::registerPipelines() {
  registerPipeline<ShardOptions>(
      "fsdp-shard", "captured to sharded",
      [](OpPassManager &pm, const ShardOptions &options, ErrorHandler fail) {
        return buildShard(
            pm, options, [&](OpPassManager &pm) { buildOverlap(pm, options); },
            fail);
      });
  registerPipeline<OverlapOptions>(
      "fsdp-overlap", "sharded to scheduled",
      [](OpPassManager &pm, const OverlapOptions &options, ErrorHandler) {
        buildOverlap(pm, options, options.prefetchForward,
                     options.prefetchBackward);
        return success();
      });
  registerPipeline<LowerOptions>(
      "fsdp-lower", "scheduled to commands",
      [](OpPassManager &pm, const LowerOptions &options, ErrorHandler) {
        buildLower(pm, options);
        return success();
      });
  registerPipeline<AllOptions>(
      "fsdp-pipeline", "captured to commands: fsdp-shard, -overlap and -lower",
      buildAll);
}
