// The named pipelines.
//
// From a captured step to the commands of a rank, in three chapters. Each ends
// with a verifier, so that a later chapter may trust what it is given.

#include "PipelineOptions.h"

#include "fsdp/Transforms/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace fsdp;

namespace {

using ErrorHandler = function_ref<LogicalResult(const Twine &)>;

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

  // Behind the buckets, which are of parameters and their gradients.
  pm.addPass(createSplitMatrixRules({options.cluster}));

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
                   GatherBy gather) {
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
  if (options.shardLayout == ShardLayout::Flat)
    pm.addPass(
        createFlattenState({gather, options.getBucketCap(), options.cluster}));

  // What stands in front of a reduction is whole, what stands behind it a part.
  // Behind the packs of flat gradients in either case, so that each whole one
  // is summed by itself and then lands in its pack.
  if (options.accumulateReduce == AccumulateReduce::Last)
    pm.addPass(createAccumulateGradients());

  // Only now do types change, all at once.
  pm.addPass(createLocalize());
  if (options.accumulateReduce == AccumulateReduce::Each)
    pm.addPass(createAccumulateGradients());

  // Ranks agree on what each micro-batch has said.
  pm.addPass(createAgreeOnSkips());

  // What is asked of all gradients is asked of what the updates read: each
  // rank's own part. They are clipped as they are without the loss's scale.
  pm.addPass(createScaleLoss());
  pm.addPass(createSkipNonFinite({options.nonFinite}));
  pm.addPass(createClipGradients());

  // Behind those that write rules: all numbers of a step are there.
  pm.addPass(createHoldScalars());

  // Copies from and to the host are of parts: what is sent, and what is summed.
  pm.addPass(createOffloadState({options.offload, options.pinMemory}));
}

void buildShard(OpPassManager &pm, const ShardOptions &options,
                function_ref<void(OpPassManager &)> schedule) {
  GatherBy gather = options.getGather();

  // What is priced, recomputed and placed is what will run.
  pm.addPass(createSelectKernels({options.device, options.attention}));
  pm.addPass(createChooseKernels(
      {options.kernels, options.kernelTable, options.cluster}));

  // A part of each rule, and so of what the step computes.
  pm.addPass(createClipValues());

  // What every pass behind this one has to keep.
  pm.addPass(createRecordMeaning());

  // Then units: who is gathered together decides everything after it.
  pm.addPass(createAssignUnits({options.units}));

  // What is computed twice has its second readers of parameters before any
  // reader gets a gather.
  OpPassManager trial(ModuleOp::getOperationName());
  if (options.remat == RematPolicy::Auto) {
    buildSharding(trial, options, gather);
    schedule(trial);
  }
  pm.addPass(createRematActivations({options.remat, options.memoryBudgetMib,
                                     options.cluster, getPasses(trial)}));

  buildSharding(pm, options, gather);
  pm.addPass(createVerifySharded());
}

void buildLower(OpPassManager &pm, const LowerOptions &options) {
  // The order is the schedule's from here on, but for small updates.
  pm.addPass(createGroupUpdates());

  // Streams before memory: what runs at the same time cannot share bytes.
  pm.addPass(createAssignStreams({options.streams}));

  // Every buffer gets its address; after it, values are memory.
  pm.addPass(createPlanMemory({options.algorithm, options.memoryBudgetMib}));

  // One to one with the plan, and checked as a rank would run it.
  pm.addPass(createLowerToCommands());
  pm.addPass(createVerifyCommands());
}

// Registration

template <typename Options>
void registerPipeline(
    StringRef name, StringRef description,
    std::function<void(OpPassManager &, const Options &)> build) {
  registerPassPipeline(
      name, description,
      [=](OpPassManager &pm, StringRef text, ErrorHandler fail) {
        Options options;
        if (failed(options.parse(name, text, fail)))
          return failure();
        build(pm, options);
        // Last, so that a module that carries the text has been through it.
        std::string given = options.getText();
        pm.addPass(createRecordPipeline(
            {given.empty() ? name.str() : (name + "{" + given + "}").str()}));
        return success();
      },
      [](function_ref<void(const mlir::detail::PassOptions &)> handler) {
        handler(Options());
      });
}

void buildAll(OpPassManager &pm, const AllOptions &options) {
  auto schedule = [&](OpPassManager &pm) {
    buildOverlap(pm, options, options.prefetchForward,
                 options.prefetchBackward);
  };
  buildShard(pm, options, schedule);
  schedule(pm);
  buildLower(pm, options);
}

} // namespace

void fsdp::registerPipelines() {
  registerPipeline<ShardOptions>(
      "fsdp-shard", "captured to sharded",
      [](OpPassManager &pm, const ShardOptions &options) {
        buildShard(pm, options,
                   [&](OpPassManager &pm) { buildOverlap(pm, options); });
      });
  registerPipeline<OverlapOptions>(
      "fsdp-overlap", "sharded to scheduled",
      [](OpPassManager &pm, const OverlapOptions &options) {
        buildOverlap(pm, options, options.prefetchForward,
                     options.prefetchBackward);
      });
  registerPipeline<LowerOptions>("fsdp-lower", "scheduled to commands",
                                 buildLower);
  registerPipeline<AllOptions>(
      "fsdp-pipeline", "captured to commands: fsdp-shard, -overlap and -lower",
      buildAll);
}
