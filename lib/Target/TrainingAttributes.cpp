// How a module says what it trains with.

#include "TrainingAttributes.h"

#include "fsdp/Dialect/FSDP/FSDP.h"

#include "mlir/IR/AsmState.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectResourceBlobManager.h"

using namespace mlir;
using namespace fsdp;

void fsdp::setTrainingAttributes(ModuleOp module,
                                 const ArchiveMetadata &metadata) {
  Builder builder(module.getContext());
  auto set = [&](StringRef name, Attribute attribute) {
    module->setAttr(name, attribute);
  };
  set("fsdp.source", builder.getStringAttr(metadata.source));
  set("fsdp.torch_version", builder.getStringAttr(metadata.torchVersion));
  set("fsdp.seed", builder.getI64IntegerAttr(metadata.seed));
  set("fsdp.group_learning_rates",
      builder.getDenseF64ArrayAttr(llvm::map_to_vector(
          metadata.optimizer.groups,
          [](const GroupInfo &group) { return group.lr; })));
  const ClippingInfo &clipping = metadata.clipping;
  if (clipping.maxNorm)
    set(kClipNormAttrName,
        builder.getDenseF64ArrayAttr({*clipping.maxNorm, clipping.normType}));
  if (clipping.value)
    set(kClipValueAttrName, builder.getF64FloatAttr(*clipping.value));
  if (metadata.scaler)
    set(kScalerAttrName,
        builder.getDictionaryAttr(
            {builder.getNamedAttr(
                 "growth_factor",
                 builder.getF64FloatAttr(metadata.scaler->growthFactor)),
             builder.getNamedAttr(
                 "backoff_factor",
                 builder.getF64FloatAttr(metadata.scaler->backoffFactor)),
             builder.getNamedAttr(
                 "growth_interval",
                 builder.getI64IntegerAttr(metadata.scaler->growthInterval))}));
  if (!metadata.mesh.empty())
    set("fsdp.mesh", builder.getDenseI64ArrayAttr(metadata.mesh));
  if (!metadata.meshNames.empty())
    set("fsdp.mesh_dims",
        builder.getStrArrayAttr(SmallVector<StringRef>(
            metadata.meshNames.begin(), metadata.meshNames.end())));
  if (!metadata.learningRates.empty()) {
    SmallVector<double> table;
    for (const std::vector<double> &row : metadata.learningRates)
      table.append(row.begin(), row.end());
    auto type =
        RankedTensorType::get({int64_t(metadata.learningRates.size()),
                               int64_t(metadata.optimizer.groups.size())},
                              builder.getF64Type());
    set("fsdp.learning_rates",
        DenseF64ResourceElementsAttr::get(
            type, "learning_rates",
            HeapAsmResourceBlob::allocateAndCopyInferAlign<double>(table)));
  }
  if (metadata.accumulate > 1)
    set("fsdp.accumulate", builder.getI64IntegerAttr(metadata.accumulate));
  if (metadata.epochs)
    set("fsdp.epochs", builder.getI64IntegerAttr(*metadata.epochs));
  if (metadata.steps)
    set("fsdp.steps", builder.getI64IntegerAttr(*metadata.steps));
}
