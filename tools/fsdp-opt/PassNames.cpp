// The passes and options in --pass-pipeline="...".

#include "PassNames.h"

#include "fsdp/Dialect/Diagnostics.h"
#include "plan/NearestName.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"

using namespace mlir;
using namespace fsdp;

static const PassRegistryEntry *lookup(StringRef name) {
  if (const PassPipelineInfo *pipeline = PassPipelineInfo::lookup(name))
    return pipeline;
  return PassInfo::lookup(name);
}

LogicalResult fsdp::checkOptionsOfFlags(ArrayRef<char *> words) {
  for (auto [word, next] : llvm::zip(words, words.drop_front())) {
    StringRef flag = word, options = next;
    if (!lookup(flag.ltrim('-')) || !flag.starts_with("-") ||
        options.starts_with("-") || !options.contains('=') ||
        llvm::sys::fs::exists(options))
      continue;
    printError(Error(E::Flag, ("options of " + flag + " stand behind an '='; " +
                               "write " + flag + "=\"" + options + "\"")
                                  .str()));
    return failure();
  }
  return success();
}

/// Each pass is a flag, which is the one list of them that MLIR shows.
static std::vector<std::string> getPassNames() {
  std::vector<std::string> names;
  for (const auto &flag : llvm::cl::getRegisteredOptions())
    if (lookup(flag.first))
      names.push_back(flag.first.str());
  llvm::sort(names);
  return names;
}

/// Prints the first that MLIR says of options: it goes on, and says in another
/// error which pass they were for.
static LogicalResult checkOptions(const PassRegistryEntry &pass,
                                  StringRef options) {
  OpPassManager unused(OpPassManager::Nesting::Implicit);
  bool isFirst = true;
  return pass.addToPipeline(unused, options, [&](const Twine &message) {
    std::string why = message.str();
    StringRef text = StringRef(why).trim();
    if (!std::exchange(isFirst, false) || text.empty())
      return failure();
    if (text.consume_front("<Pass-Options-Parser>: no such option "))
      printError(
          Error(E::Option, (pass.getPassArgument() + " has no option " + text +
                            "; fsdp-opt --help-all lists those that it has")
                               .str()));
    else
      llvm::errs() << "error: " << text << "\n";
    printIdentifierIfNone(E::Option);
    return failure();
  });
}

static LogicalResult checkPass(StringRef name, StringRef options) {
  if (const PassRegistryEntry *pass = lookup(name))
    return checkOptions(*pass, options);
  std::string hint = nearestHint(name.str(), getPassNames());
  if (hint.empty())
    hint = "; fsdp-opt --help-all lists all";
  printError(Error(E::Option, ("there is no pass " + name).str() + hint));
  return failure();
}

/// What braces at the beginning of a text hold, which is dropped from it.
static StringRef takeOptions(StringRef &text) {
  int depth = 0;
  for (auto [i, letter] : llvm::enumerate(text)) {
    depth += (letter == '{') - (letter == '}');
    if (depth > 0)
      continue;
    StringRef options = text.take_front(i).drop_front(i > 0);
    text = text.drop_front(i + (i > 0));
    return options;
  }
  text = {}; // it is not closed
  return {};
}

/// What stands in front of a parenthesis is an op's name. Where the text is
/// malformed MLIR says so.
LogicalResult fsdp::checkPassNames() {
  auto *flag = static_cast<llvm::cl::opt<std::string> *>(
      llvm::cl::getRegisteredOptions().lookup("pass-pipeline"));
  StringRef rest = flag ? StringRef(flag->getValue()) : StringRef();
  while (!rest.empty()) {
    size_t end = std::min(rest.find_first_of(",(){"), rest.size());
    StringRef name = rest.take_front(end).trim();
    rest = rest.drop_front(end);
    bool isOp = rest.starts_with("(");
    StringRef options = takeOptions(rest);
    if (!isOp && !name.empty() && failed(checkPass(name, options)))
      return failure();
    rest = rest.drop_front(rest.empty() ? 0 : 1);
  }
  return success();
}
