#include "HelpScreen.h"
#include "Flags.h"

#include <algorithm>
#include <memory>
#include <set>
#include <sstream>

namespace fsdp {

static const char *const everyday[] = {"--weights",     "--data",
                                       "--eval-data",   "--save",
                                       "--metrics",     "--trace",
                                       "--steps",       "--epochs",
                                       "--seed",        "--log-interval",
                                       "--progress",    "--checkpoint-dir",
                                       "--resume",      "--checkpoint-interval",
                                       "--nproc",       "--nnodes",
                                       "--node-rank",   "--master-addr",
                                       "--master-port", "--comm",
                                       "--doctor",      "--explain",
                                       "--version",     "--help",
                                       "--help-all"};

/// Where descriptions begin and end.
static constexpr size_t descriptionColumn = 30, lastColumn = 100;

namespace {

/// What a flag takes.
struct Taken {
  explicit Taken(const CLI::Option &option) {
    if (option.get_type_size() == 0)
      return; // it is a switch
    type = option.get_type_name();
    // "KIND:{auto,bar}"
    if (size_t open = type.find(":{"); open != std::string::npos) {
      values = type.substr(open + 2, type.rfind('}') - open - 2);
      std::replace(values.begin(), values.end(), ',', ' ');
      type.resize(open);
    }
  }

  std::string type;   // "FILE"; empty: nothing
  std::string values; // "auto bar", where they are a closed set
};

class Screens : public CLI::Formatter {
public:
  explicit Screens(std::set<const CLI::Option *> shown)
      : shown(std::move(shown)) {
    column_width(descriptionColumn);
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
      if (showsAll || shown.count(option))
        some.push_back(option);
    return some.empty() ? ""
                        : CLI::Formatter::make_group(group, isPositional, some);
  }

  // The description of the program says them.
  std::string make_usage(const CLI::App *, std::string) const override {
    return "";
  }
  std::string make_positionals(const CLI::App *) const override { return ""; }

  // Without the value that a switch gives.
  std::string make_option_name(const CLI::Option *option, bool) const override {
    std::string name;
    for (const std::string &letter : option->get_snames())
      name += "-" + letter + ",";
    return name + "--" + option->get_lnames().at(0);
  }

  // What excludes what is said where it is done.
  std::string make_option_opts(const CLI::Option *option) const override {
    std::string type = Taken(*option).type;
    return type.empty() ? "" : " " + type;
  }

  std::string make_option_desc(const CLI::Option *option) const override {
    std::istringstream words(option->get_description());
    std::string text, word;
    size_t column = descriptionColumn;
    while (words >> word) {
      bool breaks = column + 1 + word.size() > lastColumn;
      if (!text.empty())
        text += breaks ? "\n" : " ";
      column = (breaks ? descriptionColumn : column + 1) + word.size();
      text += word;
    }
    return text;
  }

  std::set<const CLI::Option *> shown;
  mutable bool showsAll = false;
};

} // namespace

void setHelpScreens(CLI::App &app) {
  app.set_help_flag("-h,--help", "the flags of every day")
      ->group(heading::instead);
  app.set_help_all_flag("--help-all", "all flags")->group(heading::instead);
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
    Taken taken(*flag);
    text += "--" + flag->get_lnames().at(0) + "\t" + taken.type + "\t" +
            taken.values + "\n";
  }
  return text;
}

} // namespace fsdp
