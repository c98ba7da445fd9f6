// What commands are called, and what is to be known about them.
#ifndef FSDP_RUNTIME_TRACE_COMMANDTEXTS_H
#define FSDP_RUNTIME_TRACE_COMMANDTEXTS_H

#include "cost/CommandCost.h"

#include <string>
#include <vector>

namespace fsdp::trace {

/// What a command is for a trace, and what traces call it.
enum class CommandCategory { Kernel, Update, Copy, Collective, Event };
constexpr const char *commandCategoryNames[] = {"kernel", "update", "copy",
                                                "collective", "event"};

/// A command as a trace shows it. A prediction and a measurement of it have the
/// same.
struct CommandText {
  std::string name; // "blocks.0.attn mm", "all-gather of blocks.0 (forward)"
  CommandCategory category = CommandCategory::Event;
  std::string facts;     // members of a JSON object, without its braces
  double flops = 0;      // of a kernel
  double movedBytes = 0; // read and written, or over a link
};

/// The texts of a program's commands. The plan must have been checked.
class CommandTexts {
public:
  CommandTexts(const plan::PlanT &plan, const plan::ProgramT &program,
               const cost::Cluster &cluster);

  const CommandText &operator[](size_t command) const {
    return texts.at(command);
  }
  size_t size() const { return texts.size(); }

private:
  std::vector<CommandText> texts;
};

/// "all-gather of blocks.0 (forward)": by its unit, else by where it is.
std::string collectiveName(const plan::PlanT &plan,
                           const plan::ProgramT &program,
                           const plan::CollectiveT &collective,
                           const std::string &location);

} // namespace fsdp::trace

#endif // FSDP_RUNTIME_TRACE_COMMANDTEXTS_H
