// Recipes for first values, from fsdp.json to the IR.

#include "RecipeImport.h"

#include "fsdp/Dialect/FSDP/FSDP.h"

using namespace mlir;
using namespace fsdp;

ArrayAttr fsdp::getRecipe(const StateInfo &info, OpBuilder &builder) {
  SmallVector<Attribute> steps;
  for (const InitInfo &step : info.init) {
    auto numbers = [&](const std::vector<int64_t> &list) {
      return builder.getDenseI64ArrayAttr(list);
    };
    InitAttr attr = InitAttr::getChecked(
        [&] {
          return emitError(NameLoc::get(builder.getStringAttr(info.fqn)));
        },
        builder.getContext(), *symbolizeInitKind(step.op),
        step.values.empty() ? DenseF64ArrayAttr()
                            : builder.getDenseF64ArrayAttr(step.values),
        step.draw, step.region ? step.region->offset : 0,
        step.region ? numbers(step.region->sizes) : DenseI64ArrayAttr(),
        step.region ? numbers(step.region->strides) : DenseI64ArrayAttr());
    if (!attr)
      throw ArchiveError(E::ArchiveContents,
                         "has a bad fsdp.json: the recipe of " + info.fqn +
                             " has a step " + step.op +
                             " of other values than it takes; export again");
    steps.push_back(attr);
  }
  return builder.getArrayAttr(steps);
}
