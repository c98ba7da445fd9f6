#include "FileArguments.h"

#include "CheckIr.h"
#include "fsdp/Target/PlanExport.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/CommandLine.h"

using namespace mlir;
using namespace fsdp;

namespace {
struct FileArguments {
  SmallVector<size_t> inputs; // indices of arguments
  std::string second;         // plan of --plan-diff
  std::string output = "-";
};
} // namespace

static bool takesNextWord(StringRef flag) {
  if (flag == "o")
    return true;
  llvm::cl::Option *option = llvm::cl::getRegisteredOptions().lookup(flag);
  return option && option->getValueExpectedFlag() == llvm::cl::ValueRequired;
}

static FileArguments findFiles(ArrayRef<std::string> arguments) {
  FileArguments files;
  for (size_t i = 1; i < arguments.size(); ++i) {
    StringRef word = arguments[i];
    if (word == "-" || !word.starts_with("-")) {
      files.inputs.push_back(i);
      continue;
    }
    auto [flag, value] = word.ltrim('-').split('=');
    if (!word.contains('=') && takesNextWord(flag) && i + 1 < arguments.size())
      value = arguments[++i];
    if (flag == "o")
      files.output = value.str();
    else if (flag == kPlanDiffAfter)
      files.second = value.str();
  }
  return files;
}

LogicalResult fsdp::checkFiles(ArrayRef<std::string> arguments) {
  FileArguments files = findFiles(arguments);
  std::vector<std::string> read = {files.second};
  bool areIr = llvm::any_of(arguments, [](StringRef argument) {
    return argument == "-fsdp-to-plan" || argument == "--fsdp-to-plan";
  });
  for (size_t input : files.inputs) {
    if (failed(areIr ? checkIr(arguments[input])
                     : checkInput(arguments[input])))
      return failure();
    read.push_back(arguments[input]);
  }
  return checkOutput(files.output, read);
}

void fsdp::nameSecondPlan(std::vector<std::string> &arguments) {
  if (llvm::none_of(arguments, [](StringRef argument) {
        return argument == "-plan-diff" || argument == "--plan-diff";
      }))
    return;
  SmallVector<size_t> inputs = findFiles(arguments).inputs;
  if (inputs.size() < 2)
    return;
  std::string &second = arguments[inputs[1]];
  second = ("--" + kPlanDiffAfter + "=" + second).str();
}
