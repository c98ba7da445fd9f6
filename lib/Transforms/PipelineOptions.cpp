// Errors and documentation of options.

#include "PipelineOptions.h"
#include "PassOptions.h"

#include "fsdp/Transforms/Passes.h"
#include "plan/NearestName.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace fsdp;

using ErrorHandler = function_ref<LogicalResult(const Twine &)>;

void fsdp::reportNoSuchValue(StringRef option, StringRef value,
                             ArrayRef<ValueMeaning> values) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << option << "=" << value << " does not exist; there are ";
  llvm::interleaveComma(values.drop_back(), os,
                        [&](const ValueMeaning &known) { os << known.name; });
  os << " and " << values.back().name;
  if (value.contains('='))
    os << "; a space separates options";
  printError(Error(E::Option, text));
}

/// The option that a failed parse did not know, or nothing.
static StringRef getUnknown(StringRef why) {
  return why.consume_front("<Pass-Options-Parser>: no such option ")
             ? why.trim()
             : StringRef();
}

/// What is said of an option that `owner`, a pass or a pipeline, does not have.
static std::string explainUnknown(StringRef owner, StringRef unknown,
                                  ArrayRef<std::string> names) {
  std::string text = (owner + " has no option " + unknown).str();
  if (names.empty())
    return text + "; it takes none";
  std::string hint = nearestHint(unknown, names);
  return text + hint + (hint.empty() ? "; all are " : ", all are ") +
         llvm::join(names, ", ");
}

/// Says why the options of `owner` cannot be read, of which `names` gives all.
static LogicalResult
failToRead(StringRef owner, StringRef why,
           llvm::function_ref<std::vector<std::string>()> names,
           llvm::function_ref<LogicalResult(const Twine &)> fail) {
  if (why.empty()) { // a parser has said it
    printIdentifierIfNone(E::Option);
    return failure();
  }
  StringRef unknown = getUnknown(why);
  if (unknown.empty())
    return failAs(E::Option, fail, owner + ": " + why.trim());
  return failAs(E::Option, fail, explainUnknown(owner, unknown, names()));
}

/// The names of a pass's options, which a pass shows nobody but in the text of
/// a pipeline: `pass{name=value name=value}`, with braces around values that
/// have spaces.
static std::vector<std::string> getOptionNames(Pass &pass) {
  std::string text;
  llvm::raw_string_ostream os(text);
  pass.printAsTextualPipeline(os);
  std::vector<std::string> names;
  int depth = 0;
  size_t begin = 0; // of a name, or nothing
  for (auto [i, letter] : llvm::enumerate(text)) {
    depth += (letter == '{') - (letter == '}');
    if (depth != 1)
      continue;
    if (letter == '{' || letter == ' ')
      begin = i + 1;
    if (letter == '=' && begin) {
      names.push_back(text.substr(begin, i - begin));
      begin = 0;
    }
  }
  llvm::sort(names);
  return names;
}

LogicalResult ModulePass::initializeOptions(StringRef options,
                                            ErrorHandler fail) {
  return Pass::initializeOptions(options, [&](const Twine &message) {
    return failToRead(
        getArgument(), message.str(), [&] { return getOptionNames(*this); },
        fail);
  });
}

std::vector<std::string> NamedOptions::getNames() const {
  std::vector<std::string> names;
  for (const auto &entry : OptionsMap)
    names.push_back(entry.first.str());
  llvm::sort(names);
  return names;
}

LogicalResult NamedOptions::parse(StringRef pipeline, StringRef text,
                                  ErrorHandler fail) {
  std::string why;
  llvm::raw_string_ostream stream(why);
  if (succeeded(parseFromString(text, stream))) {
    for (const std::string &name : getNames())
      if (OptionsMap.lookup(name)->getNumOccurrences() > 1)
        return failAs(E::Option, fail,
                      pipeline + ": " + name +
                          " is given more than once; leave one of them out");
    try {
      check();
      return success();
    } catch (const Error &error) {
      return failAs(error.kind, fail, error.what());
    }
  }
  return failToRead(
      pipeline, why, [&] { return getNames(); }, fail);
}

void BudgetOptions::check() const { readMemoryBudget(memoryBudgetMib); }

void ScheduleOptions::check() const {
  BudgetOptions::check();
  readBucketCap(bucketCapMib);
  readCluster(cluster, plan::DeviceKind::Cpu);
}

GatherBy ShardOptions::getGather() const {
  if (gather != GatherBy::Auto)
    return gather;
  bool onHost = device == TargetDevice::Cpu;
  bool sameHost = cluster == "auto" || cluster == "local";
  bool canMap = shardLayout == ShardLayout::Flat && onHost && sameHost;
  return canMap ? GatherBy::Map : GatherBy::Copy;
}

void ShardOptions::check() const {
  ScheduleOptions::check();
  if (!mesh.empty())
    readMesh(mesh);
  if (!mesh.empty() && meshDims != "shard") {
    auto names = llvm::map_to_vector(llvm::split(meshDims, ','),
                                     [](StringRef name) { return name.str(); });
    checkMeshNames(names, mesh);
  }
  readUnits(units);
  readReshardRanks(reshardAfterForward);
  readReduceDtype(reduceDtype);
  readAttention(attention);
  readKernelTable(kernels, kernelTable, cluster, getDevice());
  checkRemat(remat, memoryBudgetMib);
  if (gather == GatherBy::Map && device != TargetDevice::Cpu)
    throw Error(E::OptionsDisagree,
                "gather=map is for device=cpu: GPUs do not show each other's "
                "memory in one place, and would hold all parameters whole");
  if (gather == GatherBy::Map && shardLayout != ShardLayout::Flat)
    throw Error(E::OptionsDisagree,
                "gather=map needs shard-layout=flat: only flat pieces can be "
                "read in place");
}

void OverlapOptions::check() const {
  ScheduleOptions::check();
  readPrefetchDepth("prefetch-forward", prefetchForward);
  readPrefetchDepth("prefetch-backward", prefetchBackward);
}

void AllOptions::check() const {
  ShardOptions::check();
  OverlapOptions::check();
}

std::string NamedOptions::getText() const {
  std::string all;
  llvm::raw_string_ostream stream(all);
  print(stream);
  SmallVector<StringRef> given;
  StringRef(all).trim("{}").split(given, ' ');
  llvm::erase_if(given, [](StringRef option) {
    return option.empty() || option.ends_with("=");
  });
  return llvm::join(given, " ");
}

void fsdp::printPipelineOptions(llvm::raw_ostream &os) {
  AllOptions all;
  ShardOptions shard;
  OverlapOptions overlap;
  LowerOptions lower;
  llvm::StringMap<std::string> defaults;
  std::string text = all.getText();
  SmallVector<StringRef> given;
  StringRef(text).split(given, ' ');
  for (StringRef option : given)
    defaults[option.split('=').first] = option.split('=').second.str();

  for (const OptionMeaning *meaning : meaning::all) {
    os << "### `" << meaning->argument << "`\n\n";
    StringRef first = meaning->text;
    os << llvm::toUpper(first.front()) << first.drop_front() << ".";
    std::string byDefault = defaults.lookup(meaning->argument);
    if (meaning->values.empty())
      os << " Default: "
         << (byDefault.empty() ? "nothing" : "`" + byDefault + "`") << ".";
    SmallVector<StringRef> pipelines;
    for (auto [name, options] :
         {std::pair<StringRef, const NamedOptions *>{"`fsdp-shard`", &shard},
          {"`fsdp-overlap`", &overlap},
          {"`fsdp-lower`", &lower}})
      if (options->has(meaning->argument))
        pipelines.push_back(name);
    os << " Read by " << llvm::join(pipelines, " and ") << ".\n\n";
    if (meaning->values.empty())
      continue;
    os << "| value | meaning |\n|---|---|\n";
    for (const ValueMeaning &value : meaning->values)
      os << "| `" << value.name << "`"
         << (value.name == byDefault ? " (default)" : "") << " | "
         << value.meaning << " |\n";
    os << "\n";
  }
}

void fsdp::printClusters(llvm::raw_ostream &os) {
  auto number = [](double value) { return llvm::format("%g", value); };
  auto link = [&](const cost::Link &link) {
    os << " | " << number(link.bandwidth / 1e9) << ", "
       << number(link.latency * 1e6);
  };
  os << "| preset | bfloat16, TFLOP/s | float32, TFLOP/s | memory, GB/s | "
        "ranks of a node | between them: GB/s, us | between nodes: GB/s, us | "
        "to the host: GB/s, us | a kernel, us | a collective, us |\n"
        "|---|---|---|---|---|---|---|---|---|---|\n";
  for (const cost::Cluster &cluster : cost::presets()) {
    os << "| `" << cluster.name << "`";
    for (plan::DType dtype : {plan::DType::BFloat16, plan::DType::Float32})
      os << " | " << number(cluster.flopsPerSecond(dtype) / 1e12);
    os << " | " << number(cluster.memoryBandwidth / 1e9) << " | "
       << cluster.ranksPerNode;
    link(cluster.intraNode);
    link(cluster.interNode);
    link(cluster.hostLink);
    os << " | " << number(cluster.launchSeconds * 1e6) << " | "
       << number(cluster.collectiveSeconds * 1e6) << " |\n";
  }
}
