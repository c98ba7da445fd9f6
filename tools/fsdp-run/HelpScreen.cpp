#include "HelpScreen.h"

#include <algorithm>
#include <memory>
#include <set>

namespace fsdp {

/// In the order of their groups.
static const char *const everyday[] = {
    "--help",           "--help-all",
    "--version",        "--doctor",
    "--weights",        "--data",
    "--eval-data",      "--save",
    "--metrics",        "--steps",
    "--epochs",         "--seed",
    "--log-interval",   "--progress",
    "--checkpoint-dir", "--checkpoint-interval",
    "--resume",         "--trace",
    "--nproc",          "--nnodes",
    "--node-rank",      "--master-addr",
    "--master-port",    "--comm"};

namespace {

class Screens : public CLI::Formatter {
public:
  explicit Screens(std::set<const CLI::Option *> shown)
      : shown(std::move(shown)) {
    column_width(30);
  }

  std::string make_help(const CLI::App *app, std::string name,
                        CLI::AppFormatMode mode) const override {
    showsAll = mode == CLI::AppFormatMode::All;
    std::string text = CLI::Formatter::make_help(app, name, mode);
    // Groups of which nothing is shown leave empty lines.
    for (size_t at; (at = text.find("\n\n\n")) != std::string::npos;)
      text.erase(at, 1);
    return text.substr(0, text.find_last_not_of('\n') + 2);
  }

private:
  std::string make_group(std::string group, bool isPositional,
                         std::vector<const CLI::Option *> all) const override {
    std::vector<const CLI::Option *> some;
    for (const CLI::Option *option : all)
      if (showsAll || isPositional || shown.count(option))
        some.push_back(option);
    return some.empty() ? ""
                        : CLI::Formatter::make_group(group, isPositional, some);
  }

  // What excludes what is said where it is done.
  std::string make_option_opts(const CLI::Option *option) const override {
    return option->get_type_size() == 0
               ? ""
               : " " + option->get_type_name().substr(
                           0, option->get_type_name().find(':'));
  }

  std::set<const CLI::Option *> shown;
  mutable bool showsAll = false;
};

} // namespace

void setHelpScreens(CLI::App &app) {
  app.set_help_flag("-h,--help", "the flags of every day");
  app.set_help_all_flag("--help-all", "all flags");
  std::set<const CLI::Option *> shown;
  for (const char *name : everyday)
    shown.insert(app.get_option(name));
  app.formatter(std::make_shared<Screens>(std::move(shown)));
}

static std::vector<const CLI::Option *> flagsOf(const CLI::App &app) {
  return app.get_options([](const CLI::Option *option) {
    return option->nonpositional() && !option->get_group().empty();
  });
}

std::vector<std::string> flagNames(const CLI::App &app) {
  std::vector<std::string> names;
  for (const CLI::Option *flag : flagsOf(app))
    names.push_back("--" + flag->get_lnames().at(0));
  return names;
}

std::string listFlags(const CLI::App &app) {
  std::string text;
  for (const CLI::Option *flag : flagsOf(app)) {
    // "KIND:{auto,bar}"
    std::string type = flag->get_type_size() == 0 ? "" : flag->get_type_name();
    std::string values;
    if (size_t open = type.find(":{"); open != std::string::npos) {
      values = type.substr(open + 2, type.rfind('}') - open - 2);
      std::replace(values.begin(), values.end(), ',', ' ');
    }
    text += "--" + flag->get_lnames().at(0) + "\t" +
            type.substr(0, type.find(':')) + "\t" + values + "\n";
  }
  return text;
}

} // namespace fsdp
