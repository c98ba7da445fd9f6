// The passes, in the order of the pipelines: a file per chapter, and below what
// fits anywhere.

#ifndef FSDP_PASSES_TD
#define FSDP_PASSES_TD

include "fsdp/Transforms/ShardPasses.td"
include "fsdp/Transforms/OverlapPasses.td"
include "fsdp/Transforms/LowerPasses.td"

def RecordPipeline : Pass<"fsdp-record-pipeline", "::mlir::ModuleOp"> {
  let summary = "Writes a pipeline's text into the module";
  let description = [{
    Input IR: any. Output IR: the same, with `text` added at the end of the
    module attribute `fsdp.pipeline`.

    Why: a plan says how it was made.
  }];
  let options = [Option<"text", "text", "std::string", "\"\"",
                        "the pipeline, as the command line has it">];
}

def Report : Pass<"fsdp-report", "::mlir::ModuleOp"> {
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
  }];
  let options = [
    Option<"format", "format", "std::string", "\"pretty\"",
           "pretty, csv or json">,
    Option<"output", "output", "std::string", "\"-\"",
           "file to write; - is standard output">,
    Option<"cluster", "cluster", "std::string", "\"auto\"",
           "a preset, a TOML file or auto (by device): what the prediction is for">];
}

#endif // FSDP_PASSES_TD
