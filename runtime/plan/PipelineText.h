// The options of the pipelines that a plan was compiled with.
#ifndef FSDP_PLAN_PIPELINETEXT_H
#define FSDP_PLAN_PIPELINETEXT_H

#include <string>
#include <vector>

namespace fsdp::plan {

struct PipelineOption {
  std::string pipeline; // or pass: "fsdp-pipeline"
  std::string name, value;
};

/// The options in the text of a plan's pipelines, in their order:
/// "fsdp-pipeline{mesh=2 units=h\.[0-9]{2}},cse". Braces inside of a value
/// belong to it.
std::vector<PipelineOption> pipelineOptions(const std::string &text);

} // namespace fsdp::plan

#endif // FSDP_PLAN_PIPELINETEXT_H
