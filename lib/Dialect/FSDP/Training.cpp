// What a run trains with.

#include "fsdp/Dialect/FSDP/FSDP.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/SmallSet.h"

using namespace mlir;
using namespace fsdp;

TrainingOp TrainingOp::of(Operation *op) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<ModuleOp>();
  auto found = module.getOps<TrainingOp>();
  return found.empty() ? TrainingOp() : *found.begin();
}

/// Whether a loss scaler has its three numbers, and they make sense.
static bool isScaler(DictionaryAttr scaler) {
  auto growth = scaler.getAs<FloatAttr>("growth_factor"),
       backoff = scaler.getAs<FloatAttr>("backoff_factor");
  auto interval = scaler.getAs<IntegerAttr>("growth_interval");
  return scaler.size() == 3 && growth && backoff && interval &&
         growth.getValueAsDouble() > 1 && backoff.getValueAsDouble() > 0 &&
         backoff.getValueAsDouble() < 1 && interval.getInt() > 0;
}

/// Whether all are f64 and each is there once.
static bool areHyperparameters(ArrayAttr attrs) {
  llvm::SmallSet<std::pair<StringRef, int64_t>, 8> seen;
  return llvm::all_of(
      attrs.getAsRange<HyperparameterAttr>(), [&](HyperparameterAttr attr) {
        return attr.getValue().getType().isF64() && attr.getGroup() >= 0 &&
               seen.insert({attr.getName(), attr.getGroup()}).second;
      });
}

/// Whether it is a table of f64 with a column for each hyperparameter.
static bool isSchedule(ElementsAttr table, ArrayAttr hyperparameters) {
  ShapedType type = table.getShapedType();
  return type.getElementType().isF64() && type.getRank() == 2 &&
         hyperparameters &&
         type.getDimSize(1) == int64_t(hyperparameters.size());
}

LogicalResult TrainingOp::verify() {
  auto module = dyn_cast<ModuleOp>((*this)->getParentOp());
  if (!module || of(module) != *this)
    return emitOpError("is not the first of its module; a module has one");
  if (getEpochs() && getSteps())
    return emitOpError("has a number of epochs and one of steps; give one");
  auto norm = getClipGradNorm();
  if (norm && (norm->size() != 2 || !((*norm)[0] > 0) || !((*norm)[1] >= 1)))
    return emitOpError("clip_grad_norm is not a norm above 0 and its type of "
                       "at least 1");
  if (getClipGradValue() && !(getClipGradValueAttr().getValueAsDouble() > 0))
    return emitOpError("clip_grad_value is not a number above 0");
  if (norm && getClipGradValue())
    return emitOpError("clips gradients by norm and by value; choose one");
  if (getScaler() && !isScaler(*getScaler()))
    return emitOpError("scaler is not a growth_factor above 1, a "
                       "backoff_factor between 0 and 1 and a growth_interval "
                       "of at least 1");
  if (getHyperparameters() && !areHyperparameters(*getHyperparameters()))
    return emitOpError("hyperparameters are not f64 numbers of groups from 0, "
                       "each given once");
  if (getSchedule() && !isSchedule(*getSchedule(), getHyperparametersAttr()))
    return emitOpError("schedule is not a table of f64 with a column for each "
                       "of the hyperparameters");
  if (!getMesh() && (getMeshNames() || getMeshDevice()))
    return emitOpError("names a mesh's axes or device, but no mesh");
  if (getMeshDevice() && *getMeshDevice() != "cpu" &&
      *getMeshDevice() != "cuda")
    return emitOpError() << "mesh_device is " << getMeshDeviceAttr()
                         << "; there are \"cpu\" and \"cuda\"";
  return success();
}
