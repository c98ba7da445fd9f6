// From commands to a plan.

#include "fsdp/Target/PlanExport.h"
#include "CapturedPrograms.h"
#include "PlanCalls.h"
#include "PlanEnums.h"
#include "PlanMeanings.h"
#include "PlanPrograms.h"
#include "PlanRules.h"

#include "fsdp/Analysis/Places.h"
#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"
#include "fsdp/Dialect/FSDP/Functions.h"
#include "fsdp/Dialect/FSDP/Mesh.h"

using namespace mlir;
using namespace fsdp;

namespace {

class PlanExporter {
public:
  explicit PlanExporter(ModuleOp module)
      : module(module), exported{module, {}, {}, {}}, out(exported.plan),
        ops(exported.ops) {}

  /// The sequential step: states and programs without places.
  FailureOr<plan::PlanT> runCaptured() {
    isCaptured = true;
    if (auto training = TrainingOp::of(module))
      if (failed(exportHyperparameters(training)))
        return failure();
    exportUnits(); // those that the model names
    if (failed(exportStates()) || failed(exportRules()))
      return failure();
    for (auto function : getPrograms(module)) {
      auto program = exportCapturedProgram(function, symbols);
      if (failed(program))
        return failure();
      out.programs.push_back(std::move(*program));
    }
    return std::move(out);
  }

  FailureOr<ExportedPlan> run() {
    if (failed(exportModule()) || failed(exportStates()))
      return failure();
    if (failed(exportRules()))
      return failure();
    for (auto function : getPrograms(module)) {
      auto program =
          exportProgram(function, symbols, ops.programs.emplace_back());
      if (failed(program))
        return failure();
      out.programs.push_back(std::move(*program));
      exported.said.push_back(
          readMeanings(function, symbols, *out.programs.back()));
    }
    if (failed(exportOrder()))
      return failure();
    return std::move(exported);
  }

private:
  /// Which program runs in place of another one, and which behind it.
  LogicalResult exportOrder() {
    for (auto [program, op] : llvm::zip_equal(out.programs, ops.programs)) {
      if (auto turn = kTurnAttr.get(op.function))
        program->turn = turn.str();
      if (failed(
              findProgram(op.function, kVariantOfAttr, program->variant_of)) ||
          failed(findProgram(op.function, kNextAttr, program->next)))
        return failure();
    }
    return success();
  }

  /// The number of the program that an attribute names, where it names one.
  LogicalResult findProgram(Operation *function,
                            DiscardableAttr<FlatSymbolRefAttr> attribute,
                            int &index) {
    FlatSymbolRefAttr name = attribute.get(function);
    if (!name)
      return success();
    index = plan::findProgram(out, name.getValue().str());
    if (index >= 0)
      return success();
    return function->emitOpError("has as ")
           << attribute.name << " @" << name.getValue()
           << ", which is no program";
  }

  LogicalResult exportRules() {
    for (auto function : module.getOps<func::FuncOp>())
      if (isRule(function)) {
        if (!isCaptured && isMatrixRule(function))
          return function.emitOpError(
              "is a rule of whole matrices, and an update has a part of one; "
              "run --fsdp-split-matrix-rules first");
        ops.rules.push_back(function);
        auto rule = exportRule(function, symbols, ops.calls.emplace_back());
        if (failed(rule))
          return failure();
        symbols.rules[function.getSymName()] = out.rules.size();
        out.rules.push_back(std::move(*rule));
      }
    return success();
  }

  LogicalResult exportModule() {
    if (module.getOps<func::FuncOp>().empty())
      return module.emitError("has no program to make a plan of");
    ArrayRef<int64_t> arenas = getArenaBytes(module);
    if (arenas.empty())
      return module.emitError(
          "the module is not lowered to commands; run fsdp-opt "
          "--fsdp-pipeline (or --fsdp-lower) first");
    out.version = plan::planVersion;
    for (auto [name, bytes] : llvm::zip_equal(plan::arenaNames, arenas)) {
      auto arena = std::make_unique<plan::ArenaT>();
      arena->name = name;
      arena->bytes = bytes;
      arena->pinned = name == plan::arenaNames[kHostArena] && bytes > 0 &&
                      kPinMemoryAttr.isOn(module);
      out.arenas.push_back(std::move(arena));
    }
    if (StringAttr pipeline = kPipelineAttr.get(module))
      out.pipeline = pipeline.str();
    out.device =
        isForGpus(module) ? plan::DeviceKind::Cuda : plan::DeviceKind::Cpu;
    if (auto training = TrainingOp::of(module)) {
      out.source = training.getSource().str();
      out.torch_version = training.getTorchVersion().str();
      out.seed = training.getSeed();
      out.epochs = toUInt32(training.getEpochs());
      out.steps = training.getSteps();
      out.micro_batches = toUInt32(training.getAccumulate());
      if (failed(exportHyperparameters(training)))
        return failure();
    }
    for (auto grid : module.getOps<shard::GridOp>())
      if (failed(exportMesh(grid)))
        return failure();
    // Gradients are means over the ranks, but where a unit says otherwise.
    out.gradient_divisor = plan::numRanks(out);
    exportUnits();
    return success();
  }

  void exportUnits() {
    for (auto unit : module.getOps<UnitOp>()) {
      symbols.units[unit.getUnitName()] = out.units.size();
      ops.units.push_back(unit);
      auto exported = std::make_unique<plan::UnitT>();
      exported->name = unit.getUnitName().str();
      if (FloatAttr divisor = unit.getGradientDivisorAttr())
        exported->gradient_divisor = divisor.getValueAsDouble();
      out.units.push_back(std::move(exported));
    }
  }

  LogicalResult exportHyperparameters(TrainingOp training) {
    if (ArrayAttr attrs = training.getHyperparametersAttr())
      for (auto attr : attrs.getAsRange<HyperparameterAttr>()) {
        auto exported = std::make_unique<plan::HyperparameterT>();
        exported->name = attr.getName().str();
        exported->group = toUInt32(attr.getGroup());
        exported->value = attr.getValue().getValueAsDouble();
        symbols.hyperparameters[{attr.getName(), attr.getGroup()}] =
            out.hyperparameters.size();
        out.hyperparameters.push_back(std::move(exported));
      }
    ElementsAttr table = training.getScheduleAttr();
    if (!table)
      return success();
    // A short one may be written in place.
    if (auto dense = dyn_cast<DenseFPElementsAttr>(table)) {
      llvm::append_range(out.schedule, dense.getValues<double>());
      return success();
    }
    if (auto resource = dyn_cast<DenseF64ResourceElementsAttr>(table))
      if (auto values = resource.tryGetAsArrayRef()) {
        llvm::append_range(out.schedule, *values);
        return success();
      }
    return training.emitOpError("has a schedule without values; give dense or "
                                "dense_resource elements");
  }

  LogicalResult exportMesh(shard::GridOp grid) {
    auto axes = kAxesAttr.get(grid);
    if (!out.mesh.empty() || !axes)
      return grid.emitOpError("is not the only grid, or lacks ")
             << kAxesAttr.name << "; run --fsdp-shard-state";
    for (auto [axis, size] :
         llvm::zip_equal(axes.getAsRange<AxisAttr>(), grid.getShape())) {
      auto dim = std::make_unique<plan::MeshDimT>();
      dim->name = axis.getName().str();
      dim->size = toUInt32(size);
      dim->role = ::fsdp::toPlan(axis.getRole());
      out.mesh.push_back(std::move(dim));
    }
    return success();
  }

  LogicalResult exportStates() {
    for (auto state : module.getOps<StateOp>())
      symbols.states.try_emplace(state.getSymName(), symbols.states.size());
    for (auto state : module.getOps<StateOp>()) {
      RankedTensorType local = state.getTensorType();
      std::optional<plan::DType> dtype = getDType(local.getElementType());
      PlaceAttr place = getPlace(state);
      if (!dtype || (!place && !isCaptured))
        return state.emitOpError(
            "has no place, or a dtype that PyTorch has not; run "
            "--fsdp-plan-memory first");
      auto exported = std::make_unique<plan::StateT>();
      exported->fqn = state.getFullName().str();
      if (auto aliases = state.getAliases())
        for (Attribute alias : *aliases)
          exported->aliases.push_back(cast<StringAttr>(alias).str());
      exported->role = ::fsdp::toPlan(state.getRole());
      exported->dtype = *dtype;
      ArrayRef<int64_t> global = state.getGlobalType().getShape();
      exported->shape.assign(global.begin(), global.end());
      if (place)
        exported->place = ::fsdp::toPlan(place);
      setTensor(*exported, local);
      exported->shard_dim = state.getShardDim().value_or(-1);
      if (failed(symbols.findUnit(state, state.getUnit(), exported->unit)) ||
          failed(findState(state, state.getParameter(), exported->parameter)) ||
          failed(findState(state, state.getFlat(), exported->flat)))
        return failure();
      exported->trainable = state.getTrainable();
      exported->persistent = state.getPersistent();
      exported->flat_offset = state.getFlatOffset().value_or(0);
      exported->is_flat = state.getIsFlat();
      if (ArrayAttr init = state.getInitAttr())
        for (auto step : init.getAsRange<InitAttr>())
          exported->init.push_back(toPlan(step));
      out.states.push_back(std::move(exported));
      ops.states.push_back(state);
    }
    return success();
  }

  static std::unique_ptr<plan::InitStepT> toPlan(InitAttr attr) {
    auto step = std::make_unique<plan::InitStepT>();
    step->kind = ::fsdp::toPlan(attr.getKind());
    ArrayRef<double> values;
    if (attr.getValues())
      values = attr.getValues().asArrayRef();
    if (values.size() > 0)
      step->a = values[0];
    if (values.size() > 1)
      step->b = values[1];
    step->draw = attr.getDraw();
    if (attr.getSizes()) {
      step->region = std::make_unique<plan::RegionT>();
      step->region->offset = attr.getOffset();
      llvm::append_range(step->region->sizes, attr.getSizes().asArrayRef());
      llvm::append_range(step->region->strides, attr.getStrides().asArrayRef());
    }
    return step;
  }

  /// The number of a state that `state` names, where it names one.
  LogicalResult findState(StateOp state, std::optional<StringRef> name,
                          int &index) {
    if (!name)
      return success();
    auto it = symbols.states.find(*name);
    if (it == symbols.states.end())
      return state.emitOpError("names @")
             << *name << ", a state that does not exist";
    index = it->second;
    return success();
  }

  static void setTensor(plan::StateT &state, RankedTensorType type) {
    state.local_shape.assign(type.getShape().begin(), type.getShape().end());
    auto strides = aten::getStrides(type);
    state.strides.assign(strides.begin(), strides.end());
  }

  ModuleOp module;
  bool isCaptured = false;
  ExportedPlan exported;
  plan::PlanT &out;
  PlanOps &ops;
  PlanSymbols symbols;
};

} // namespace

FailureOr<ExportedPlan> fsdp::exportPlan(ModuleOp module) {
  return PlanExporter(module).run();
}

FailureOr<plan::PlanT> fsdp::exportCaptured(ModuleOp module) {
  return PlanExporter(module).runCaptured();
}
