// All passes: a file per topic, and below the passes that fit anywhere.

#ifndef FSDP_PASSES_TD
#define FSDP_PASSES_TD

include "fsdp/Transforms/CapturedPasses.td"
include "fsdp/Transforms/DevicePasses.td"
include "fsdp/Transforms/ShardPasses.td"
include "fsdp/Transforms/GradientPasses.td"
include "fsdp/Transforms/OverlapPasses.td"
include "fsdp/Transforms/LowerPasses.td"

def RecordPipeline : ModulePass<"fsdp-record-pipeline"> {
  let summary = "Writes a pipeline's text into the module";
  let description = [{
    Input IR: any. Output IR: the same, with `text` added at the end of the
    module attribute `fsdp.pipeline`.

    Why: a plan says how it was made.

    It cannot fail: any module can carry any text.

    Input:

    ```mlir
    // fsdp-opt --fsdp-record-pipeline="text=fsdp-lower"
    module attributes {fsdp.pipeline = "fsdp-shard,fsdp-overlap"} {
    }
    ```

    Output:

    ```mlir
    module attributes {fsdp.pipeline = "fsdp-shard,fsdp-overlap,fsdp-lower"} {
    }
    ```
  }];
  let options = [Option<"text", "text", "std::string", "\"\"",
                        "the pipeline, as the command line has it">];
}

def Report : ModulePass<"fsdp-report"> {
  let summary = "Reports collectives, bytes, memory and predicted time";
  let description = [{
    Input and output IR: any phase.

    Per program and unit: the number of all-gathers in forward and in backward
    and of reduce-scatters, and the bytes that one rank receives from all
    gathers and contributes to all reduce-scatters; how long the program is
    predicted to take on `cluster`, the sum of its collectives and what of it
    no compute hides; the ops that backward recomputes, and their time. Where
    places are known: the most bytes in use at one time,
    and the bytes of the arenas. For GPUs: the calls that read something on the
    host, by runtime/plan/HostReads.cpp, so that a CUDA graph cannot hold
    them.

    Input:

    ```mlir
    // fsdp-opt --fsdp-report="cluster=h100x8" -o /dev/null
    shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
    fsdp.unit "" root
    func.func @step(%a: tensor<64xui8>) -> tensor<128xui8> {
      %f = fsdp.all_gather_start %a {region = "forward", unit = ""} : tensor<64xui8> -> !fsdp.future<tensor<128xui8>>
      %w = fsdp.wait %f : !fsdp.future<tensor<128xui8>>
      return %w : tensor<128xui8>
    }
    ```

    Output:

    ```text
    ranks 2, parameters 0, parameter bytes 0, state bytes per rank 0
    program @step
      unit                              forward backward   gather bytes   reduce   reduce bytes
      (root)                                  1        0            128        0              0
      total                                   1        0            128        0              0
      predicted on h100x8: 15.9 us, communication 15.9 us, of it exposed 15.9 us
    ```
  }];
  let options = [
    Option<"format", "format", "::fsdp::OneOf<::fsdp::ReportFormat>", "",
           "how the report is written">,
    Option<"output", "output", "std::string", "\"-\"",
           "file to write; - is standard output">,
    ClusterOption];
}

#endif // FSDP_PASSES_TD
