// All passes: a file per topic, and below the passes that fit anywhere.

#ifndef FSDP_PASSES_TD
#define FSDP_PASSES_TD

include "fsdp/Transforms/CapturedPasses.td"
include "fsdp/Transforms/DevicePasses.td"
include "fsdp/Transforms/ShardPasses.td"
include "fsdp/Transforms/GradientPasses.td"
include "fsdp/Transforms/BucketPasses.td"
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
      %f = fsdp.all_gather_start %a {region = #fsdp<region forward>, unit = ""} : tensor<64xui8> -> !fsdp.future<tensor<128xui8>>
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

def Explain : ModulePass<"fsdp-explain"> {
  let summary = "Explains memory, exposed communication, or a unit";
  let description = [{
    Input and output IR: commands.

    The module becomes a plan in memory, which is checked. Then, per program:

    - `--fsdp-explain=peak`: what is alive when most memory is in use, by kind
      and by tensor, with the line of the user's program;
    - `--fsdp-explain=exposed`: the collectives that keep the compute stream,
      the worst first: why, and what would help by how much. A saving is the
      difference between two predictions: the program is followed once more
      with the change;
    - `--fsdp-explain=UNIT`, or `root`: the unit's shards, its collectives, and
      what of them is exposed.

    It fails where there is no such unit, or a module is in an earlier phase.

    Input:

    ```mlir
    // fsdp-opt --fsdp-explain=peak -o /dev/null
    module attributes {fsdp.arenas = array<i64: 128, 0, 0>} {
      func.func @step(%x: tensor<f32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 0, 4>}) -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.live_bytes = 128 : i64} {
        %y = fsdp.cmd.value {place = #fsdp.place<0, 64, 4>} : tensor<f32>
        fsdp.cmd.aten "neg"(%x) to (%y) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<f32>) -> tensor<f32>
        return %y : tensor<f32>
      }
    }
    ```

    Output:

    ```text
    program step
      most bytes in use of the device arena: 128, at command 0, neg
                    64  inputs
                    64  activations
      the largest tensors
                    64  inputs  x  float32 []
                    64  activations  neg  float32 []  <stdin>:5
    ```
  }];
  let options = [
    Option<"what", "what", "std::string", "\"exposed\"",
           "peak, exposed, or the name of a unit; the name of the option may be "
           "left out">,
    Option<"output", "output", "std::string", "\"-\"",
           "file to write; - is standard output">,
    Option<"cluster", "cluster", "std::string", "\"\"",
           "the hardware to predict for: a preset or a TOML file; nothing: what "
           "the plan was made for">];
}

#endif // FSDP_PASSES_TD
