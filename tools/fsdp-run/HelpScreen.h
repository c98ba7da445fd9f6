// What --help shows, and what shells complete.
#ifndef FSDP_TOOLS_FSDPRUN_HELPSCREEN_H
#define FSDP_TOOLS_FSDPRUN_HELPSCREEN_H

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace fsdp {

/// --help has one screen, the flags of every day; --help-all has all of them.
/// The app has its flags. Throws CLI::OptionNotFound where one of every day is
/// none.
void setHelpScreens(CLI::App &app);

/// "--seed" and so on, those of the supervisor left out.
std::vector<std::string> flagNames(const CLI::App &app);

/// A line for each flag: its name, what it takes ("FILE"; empty: it is a
/// switch) and, where these are a closed set, the values, with tabs between.
std::string listFlags(const CLI::App &app);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPRUN_HELPSCREEN_H
