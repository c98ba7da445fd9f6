// What programs say of the sequential step.
//
// `fsdp.meaning` is a dictionary per kind, from the name of an output or of a
// state to the digest.

#include "PlanMeanings.h"

#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"
#include "fsdp/Target/PlanExport.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace fsdp;

static constexpr std::pair<plan::MeaningKind, llvm::StringLiteral> kinds[] = {
    {plan::MeaningKind::Output, "outputs"},
    {plan::MeaningKind::Buffer, "buffers"},
    {plan::MeaningKind::Gradient, "gradients"},
    {plan::MeaningKind::Update, "updates"}};

static std::string toText(plan::Digest digest) {
  return llvm::utohexstr(digest.high, /*LowerCase=*/true, /*Width=*/16) +
         llvm::utohexstr(digest.low, /*LowerCase=*/true, /*Width=*/16);
}

plan::Computations fsdp::readMeanings(func::FuncOp function,
                                      const PlanSymbols &symbols,
                                      const plan::ProgramT &program) {
  plan::Computations said;
  DictionaryAttr all = kMeaningAttr.get(function);
  if (!all)
    return said;
  llvm::StringMap<int> outputs;
  for (auto [index, output] : llvm::enumerate(program.outputs))
    outputs[output->name] = index;
  for (auto [kind, name] : kinds) {
    auto members = all.getAs<DictionaryAttr>(name);
    const auto &table =
        kind == plan::MeaningKind::Output ? outputs : symbols.states;
    if (!members)
      continue;
    for (NamedAttribute member : members)
      if (auto it = table.find(member.getName().getValue()); it != table.end())
        if (auto text = dyn_cast<StringAttr>(member.getValue())) {
          plan::Computed &computed =
              said[{kind, static_cast<uint32_t>(it->second)}];
          if (text.getValue().take_front(16).getAsInteger(
                  16, computed.digest.high) ||
              text.getValue().drop_front(16).getAsInteger(16,
                                                          computed.digest.low))
            said.erase({kind, static_cast<uint32_t>(it->second)});
        }
  }
  return said;
}

LogicalResult fsdp::recordMeanings(ModuleOp module) {
  FailureOr<plan::PlanT> captured = exportCaptured(module);
  if (failed(captured))
    return failure();
  Builder builder(module.getContext());
  TrainingOp training = TrainingOp::of(module);
  auto computed =
      plan::computationsOf(*captured, training ? training.getAccumulate() : 1);
  for (auto [program, found] : llvm::zip_equal(captured->programs, computed)) {
    NamedAttrList members[std::size(kinds)], all;
    for (const auto &[key, computation] : found) {
      if (!computation.unknown.empty())
        continue;
      const std::string &name = key.first == plan::MeaningKind::Output
                                    ? program->outputs[key.second]->name
                                    : captured->states[key.second]->fqn;
      if (!name.empty())
        members[static_cast<size_t>(key.first)].set(
            name, builder.getStringAttr(toText(computation.digest)));
    }
    for (auto [kind, name] : kinds)
      if (auto &list = members[static_cast<size_t>(kind)]; !list.empty())
        all.set(name, list.getDictionary(module.getContext()));
    kMeaningAttr.set(module.lookupSymbol(program->name),
                     all.getDictionary(module.getContext()));
  }
  return success();
}
