// fsdp-accumulate-gradients.

#include "GradientMean.h"
#include "Remarks.h"
#include "Shard/SkippedSteps.h"

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/Aten/PrecisionCast.h"
#include "fsdp/Dialect/FSDP/Mesh.h"
#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

namespace fsdp {
#define GEN_PASS_DEF_ACCUMULATEGRADIENTS
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

/// A gradient of one micro-batch: where it is used, and what it is of.
struct Gradient {
  /// By the reduction, by its pack, or by updates.
  SmallVector<OpOperand *, 1> uses;
  StateOp parameter;
  StateOp sum; // over the micro-batches so far

  Value getValue() const { return uses.front()->get(); }
};

class AccumulateGradients
    : public fsdp::impl::AccumulateGradientsBase<AccumulateGradients> {
  void runOnModule() override;

  LogicalResult scaleLoss(func::FuncOp program);
  void collect(func::FuncOp program, SymbolTable &table);
  void createStates(SymbolTable &table);
  void makeAccumulate(func::FuncOp step, SymbolTable &table);
  void makeLast();

  int64_t microBatches = 1;
  SmallVector<Gradient> gradients;
};

/// Where a gradient is used before it is summed over replicas: by the update
/// itself where it is not.
OpOperand &getUseBeforeReplicas(UpdateOp update, const Mesh &mesh) {
  Value mean = aten::lookThroughPrecisionCast(update.getGradient());
  if (aten::CallOp division = getDivision(mean))
    mean = division->getOperand(0);
  auto sum = mean.getDefiningOp<CollectiveOpInterface>();
  return sum && mesh.isOver(sum, AxisRole::Replicate)
             ? sum->getOpOperand(0)
             : update.getGradientMutable();
}

/// Behind what computes a value.
void setInsertionPointBehind(OpBuilder &builder, Value value) {
  if (Operation *source = value.getDefiningOp())
    builder.setInsertionPointAfter(source);
  else
    builder.setInsertionPointToStart(cast<BlockArgument>(value).getOwner());
}

/// The gradient is that of the mean over micro-batches, as `(loss /
/// K).backward()` gives it.
LogicalResult AccumulateGradients::scaleLoss(func::FuncOp program) {
  FailureOr<SmallVector<aten::CallOp>> cotangents = requireCotangents(program);
  if (failed(cotangents))
    return failure();
  for (aten::CallOp call : *cotangents) {
    NamedAttrList args(call.getArgs());
    args.set("fill_value", FloatAttr::get(Float64Type::get(&getContext()),
                                          1.0 / double(microBatches)));
    call.setArgsAttr(args.getDictionary(&getContext()));
  }
  return success();
}

/// Gradients are summed as they leave backward: in front of the reduction, and
/// of the pack that makes one of several. Where reductions are lowered already,
/// they are summed as the update reads them, but in front of a sum over
/// replicas.
void AccumulateGradients::collect(func::FuncOp program, SymbolTable &table) {
  llvm::DenseMap<std::pair<StringAttr, int64_t>, StateOp> members;
  for (StateOp state : program->getParentOfType<ModuleOp>().getOps<StateOp>())
    if (state.getFlat() && state.getRole() == Role::Parameter)
      members[{state.getFlatAttr().getAttr(), *state.getFlatOffset()}] = state;
  llvm::DenseMap<Value, size_t> known;
  Mesh mesh(program);
  program.walk([&](UpdateOp update) {
    auto parameter = table.lookup<StateOp>(update.getParameter());
    ReduceGradOp reduction = getReduction(update);
    OpOperand &use = reduction ? reduction.getInputMutable()
                               : getUseBeforeReplicas(update, mesh);
    auto [it, isNew] = known.try_emplace(use.get(), gradients.size());
    if (!isNew) { // one of several ranges, or of several parameters
      Gradient &first = gradients[it->second];
      if (first.getValue() == use.get() &&
          !llvm::is_contained(first.uses, &use))
        first.uses.push_back(&use);
      return;
    }
    auto pack =
        reduction ? reduction.getInput().getDefiningOp<PackOp>() : PackOp();
    if (!pack) {
      gradients.push_back({{&use}, parameter, StateOp()});
      return;
    }
    // In elements: a gradient may be reduced in another dtype.
    int64_t bytes = getElementBytes(
        cast<RankedTensorType>(pack.getBucket().getType()).getElementType());
    for (auto [use, member] : llvm::zip_equal(
             pack->getOpOperands(), pack.getMembers().getAsRange<MemberAttr>()))
      gradients.push_back({{&use},
                           members.lookup({update.getParameterAttr().getAttr(),
                                           member.getOffset() / bytes}),
                           StateOp()});
  });
}

void AccumulateGradients::createStates(SymbolTable &table) {
  for (Gradient &gradient : gradients) {
    StateOp parameter = gradient.parameter;
    auto type = cast<RankedTensorType>(gradient.getValue().getType());
    OperationState state(parameter.getLoc(), StateOp::getOperationName());
    auto &properties = state.getOrAddProperties<StateOp::Properties>();
    properties.sym_name =
        StringAttr::get(&getContext(), parameter.getSymName() + "/grad");
    properties.role = RoleAttr::get(&getContext(), Role::Gradient);
    properties.type = TypeAttr::get(
        RankedTensorType::get(type.getShape(), type.getElementType()));
    properties.parameter = FlatSymbolRefAttr::get(parameter.getSymNameAttr());
    if (parameter.getGlobal()) { // it is summed as it is cut
      properties.sharding = parameter.getShardingAttr();
      properties.global = parameter.getGlobalAttr();
    }
    gradient.sum = cast<StateOp>(Operation::create(state));
    table.insert(gradient.sum, std::next(Block::iterator(parameter)));
  }
}

/// Every micro-batch but the last: no reduction, no update.
void AccumulateGradients::makeAccumulate(func::FuncOp step,
                                         SymbolTable &table) {
  IRMapping mapping;
  auto program = cast<func::FuncOp>(step->clone(mapping));
  program.setSymName(plan::accumulateProgramName);
  program->setLoc(NameLoc::get(
      StringAttr::get(&getContext(), plan::accumulateProgramName)));
  table.insert(program, std::next(Block::iterator(step)));
  OpBuilder builder(&getContext());
  for (Gradient &gradient : gradients) {
    Value value = mapping.lookup(gradient.getValue());
    setInsertionPointBehind(builder, value);
    AccumulateOp::create(builder, value.getLoc(), value,
                         FlatSymbolRefAttr::get(gradient.sum.getSymNameAttr()));
  }
  joinSkips(step, program, mapping);
  for (auto update : llvm::make_early_inc_range(program.getOps<UpdateOp>()))
    update.erase();
  eraseDeadOps(program);
}

/// The last micro-batch: what is reduced is the sum, and the next step begins
/// again with nothing.
void AccumulateGradients::makeLast() {
  OpBuilder builder(&getContext());
  for (Gradient &gradient : gradients) {
    Value value = gradient.getValue();
    Location loc = value.getLoc();
    setInsertionPointBehind(builder, value);
    RankedTensorType type = gradient.sum.getTensorType();
    auto state = FlatSymbolRefAttr::get(gradient.sum.getSymNameAttr());
    auto before = LoadOp::create(builder, loc, type, state);
    auto sum = aten::CallOp::create(builder, loc, aten::Direction::Backward,
                                    "add.Tensor", {before.getResult(), value},
                                    {}, type);
    sum.setAccumulates(true);
    auto fill =
        builder.getNamedAttr("fill_value", builder.getF64FloatAttr(-0.0));
    auto nothing =
        aten::CallOp::create(builder, loc, aten::Direction::Backward,
                             "full_like", sum->getResult(0), fill, type);
    StoreOp::create(builder, loc, nothing->getResult(0), state);
    for (OpOperand *use : gradient.uses)
      use->set(sum->getResult(0));
  }
}

void AccumulateGradients::runOnModule() {
  ModuleOp module = getOperation();
  auto training = TrainingOp::of(module);
  microBatches = training ? training.getAccumulate() : 1;
  if (microBatches == 1)
    return;
  SymbolTable table(module);
  auto step = table.lookup<func::FuncOp>(plan::stepProgramName);
  if (!step) {
    training.emitOpError("takes ")
        << microBatches << " micro-batches, but there is no program @step";
    return signalPassFailure();
  }
  if (getTurns(step).size() > 1) {
    training.emitOpError("takes ")
        << microBatches << " micro-batches, and @step has several turns, each "
        << "of which would need all of them before the next one begins";
    return signalPassFailure();
  }
  gradients.clear();
  if (failed(scaleLoss(step)))
    return signalPassFailure();
  collect(step, table);
  createStates(table);
  makeAccumulate(step, table);
  makeLast();

  int64_t bytes = 0;
  for (Gradient &gradient : gradients)
    bytes += getTensorBytes(gradient.sum.getTensorType());
  remarkPassed(R::SummedGradients, step.getLoc())
      << "they are summed over micro-batches"
      << metrics::Gradients(gradients.size()) << metrics::Bytes(bytes)
      << metrics::MicroBatches(microBatches);
}

} // namespace
