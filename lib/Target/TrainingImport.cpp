// What a run trains with, from the archive.

#include "TrainingImport.h"

#include "fsdp/Dialect/FSDP/FSDP.h"

#include "mlir/IR/AsmState.h"
#include "mlir/IR/DialectResourceBlobManager.h"

using namespace mlir;
using namespace fsdp;

static ArrayAttr getHyperparameters(OpBuilder &builder,
                                    const ScheduleInfo &schedule) {
  return builder.getArrayAttr(llvm::map_to_vector(
      schedule.columns, [&](const ScheduleInfo::Column &column) -> Attribute {
        return HyperparameterAttr::get(builder.getContext(), column.name,
                                       column.group,
                                       builder.getF64FloatAttr(column.value));
      }));
}

/// A resource: it prints behind the module, where a long table is not in the
/// reader's way.
static ElementsAttr getTable(OpBuilder &builder, const ScheduleInfo &schedule) {
  SmallVector<double> table;
  for (const std::vector<double> &row : schedule.rows)
    table.append(row.begin(), row.end());
  auto type = RankedTensorType::get(
      {int64_t(schedule.rows.size()), int64_t(schedule.columns.size())},
      builder.getF64Type());
  return cast<ElementsAttr>(DenseF64ResourceElementsAttr::get(
      type, "schedule",
      HeapAsmResourceBlob::allocateAndCopyInferAlign<double>(table)));
}

static DictionaryAttr getScaler(OpBuilder &builder, const ScalerInfo &scaler) {
  return builder.getDictionaryAttr(
      {builder.getNamedAttr("growth_factor",
                            builder.getF64FloatAttr(scaler.growthFactor)),
       builder.getNamedAttr("backoff_factor",
                            builder.getF64FloatAttr(scaler.backoffFactor)),
       builder.getNamedAttr("growth_interval",
                            builder.getI64IntegerAttr(scaler.growthInterval))});
}

void fsdp::importTraining(OpBuilder &builder, ModuleOp module,
                          const ArchiveMetadata &metadata) {
  OperationState state(module.getLoc(), TrainingOp::getOperationName());
  auto &to = state.getOrAddProperties<TrainingOp::Properties>();
  to.source = builder.getStringAttr(metadata.source);
  to.torch_version = builder.getStringAttr(metadata.torchVersion);
  to.seed = builder.getI64IntegerAttr(metadata.seed);
  to.epochs = builder.getI64IntegerAttr(metadata.epochs.value_or(0));
  to.steps = builder.getI64IntegerAttr(metadata.steps.value_or(0));
  to.accumulate = builder.getI64IntegerAttr(metadata.accumulate);
  to.hyperparameters = getHyperparameters(builder, metadata.schedule);
  if (!metadata.schedule.rows.empty())
    to.schedule = getTable(builder, metadata.schedule);
  const ClippingInfo &clipping = metadata.clipping;
  if (clipping.maxNorm)
    to.clip_grad_norm =
        builder.getDenseF64ArrayAttr({*clipping.maxNorm, clipping.normType});
  if (clipping.value)
    to.clip_grad_value = builder.getF64FloatAttr(*clipping.value);
  if (metadata.scaler)
    to.scaler = getScaler(builder, *metadata.scaler);
  if (!metadata.mesh.empty())
    to.mesh = builder.getDenseI64ArrayAttr(metadata.mesh);
  if (!metadata.meshDevice.empty())
    to.mesh_device = builder.getStringAttr(metadata.meshDevice);
  if (!metadata.meshNames.empty())
    to.mesh_names = builder.getStrArrayAttr(SmallVector<StringRef>(
        metadata.meshNames.begin(), metadata.meshNames.end()));
  to.ranks = builder.getI64IntegerAttr(metadata.ranks);
  builder.create(state);
}
