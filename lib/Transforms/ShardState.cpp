// fsdp-shard-state.

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Remarks.h"

namespace fsdp {
#define GEN_PASS_DEF_SHARDSTATE
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

class ShardState : public fsdp::impl::ShardStateBase<ShardState> {
public:
  using ShardStateBase::ShardStateBase;

  void runOnOperation() override {
    if (failed(shard(getOperation())))
      signalPassFailure();
  }

private:
  /// The number of ranks that the options ask for.
  FailureOr<int64_t> parseMesh(ModuleOp module);
  LogicalResult shard(ModuleOp module);
};

FailureOr<int64_t> ShardState::parseMesh(ModuleOp module) {
  if (shardLayout != "dim0" && shardLayout != "flat")
    return module.emitError() << "shard-layout=" << shardLayout
                              << " does not exist; there are dim0 and flat";
  auto described = module->getAttrOfType<DenseI64ArrayAttr>("fsdp.mesh");
  if (described) {
    std::string own = llvm::join(
        llvm::map_range(described.asArrayRef(),
                        [](int64_t size) { return std::to_string(size); }),
        "x");
    if (mesh.empty())
      mesh = own;
    else if (mesh != own)
      return module.emitError()
             << "mesh=" << mesh << ", but the model's own mesh is " << own
             << "; leave the option out, or describe another mesh";
  }
  if (mesh.empty())
    return module.emitError("the mesh is not given; say how many ranks there "
                            "are, as in --fsdp-pipeline=\"mesh=2\"");
  if (StringRef(mesh).contains('x'))
    return module.emitError()
           << "mesh=" << mesh
           << " has several dimensions, which do not exist yet; there is one, "
              "as in mesh=8";
  int64_t ranks;
  if (StringRef(mesh).getAsInteger(10, ranks) || ranks < 1 || ranks > 65536)
    return module.emitError()
           << "mesh=" << mesh << " is not a number of ranks from 1 to 65536";
  if (meshDims != "shard")
    return module.emitError()
           << "mesh-dims=" << meshDims
           << " does not exist yet; there is mesh-dims=shard";
  return ranks;
}

/// A rule runs on parts of a parameter only if it is pointwise.
static LogicalResult verifyPointwise(func::FuncOp rule) {
  WalkResult result = rule.walk([&](aten::CallOp call) {
    if (call.isPointwise() && !call.isRandom())
      return WalkResult::advance();
    (call.emitError() << "the rule @\"" << rule.getSymName() << "\" calls \""
                      << call.getCallee()
                      << "\", which is not pointwise, so a sharded parameter "
                         "cannot be updated by parts; use an optimizer whose "
                         "step is pointwise, or mesh=1");
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

static LogicalResult verifyParameter(StateOp parameter, bool flat) {
  if (!parameter.getUnit())
    return parameter.emitOpError(
        "has no unit; run fsdp-assign-units before fsdp-shard-state");
  RankedTensorType type = parameter.getTensorType();
  if (type.getRank() == 0 && !flat)
    return parameter.emitError()
           << "parameter \"" << parameter.getSymName()
           << "\" is a scalar, which has no rows to shard; use "
              "shard-layout=flat, or make it a 1-D tensor with one element";
  if (type.getEncoding())
    return parameter.emitError()
           << "parameter \"" << parameter.getSymName()
           << "\" is not row-major (" << type
           << "), which cannot be sharded; make it contiguous in the model";
  return success();
}

LogicalResult ShardState::shard(ModuleOp module) {
  FailureOr<int64_t> ranks = parseMesh(module);
  if (failed(ranks))
    return failure();
  if (getMesh(module))
    return module.emitError("the module has a mesh already; run "
                            "fsdp-shard-state once");

  // A parameter may be named so too: the table then renames the grid.
  SymbolTable table(module);
  OpBuilder builder(&getContext());
  auto grid = shard::GridOp::create(builder, module.getLoc(), "mesh",
                                    ArrayRef<int64_t>{*ranks});
  grid->setAttr("fsdp.dims", builder.getStrArrayAttr({"shard"}));
  table.insert(grid, module.getBody()->begin());
  if (*ranks == 1) {
    remark::missed(
        module.getLoc(),
        remark::RemarkOpts::name("one-rank").category("fsdp-shard-state"))
        << "a mesh of one rank shards nothing";
    return success();
  }

  bool flat = shardLayout == "flat";
  auto axes = shard::GridAxesArrayAttr::get(
      &getContext(), {shard::GridAxesAttr::get(&getContext(), {0})});
  auto sharding = ShardingAttr::get(
      &getContext(), FlatSymbolRefAttr::get(grid.getSymNameAttr()), axes);
  for (StateOp state : module.getOps<StateOp>()) {
    if (state.getRole() == Role::Parameter) {
      if (state.getReplicated())
        continue;
      if (failed(verifyParameter(state, flat)))
        return failure();
    } else if (state.getRole() == Role::Optimizer) {
      auto parameter = table.lookup<StateOp>(*state.getParameter());
      if (!parameter)
        return state.emitOpError("belongs to a parameter that does not exist");
      if (parameter.getReplicated())
        continue;
      if (parameter.getTensorType().getShape() !=
              state.getTensorType().getShape() ||
          state.getTensorType().getEncoding())
        return state.emitOpError()
               << "is " << state.getType() << ", but its parameter is "
               << parameter.getType()
               << "; only state of the parameter's shape can be sharded";
    } else {
      continue;
    }
    state.setShardingAttr(sharding);
    if (flat) // fsdp-flatten-state says how
      continue;
    RankedTensorType type = state.getTensorType();
    int64_t rows = type.getDimSize(0), local = getLocalRows(rows, *ranks);
    remark::passed(state.getLoc(), remark::RemarkOpts::name("shard").category(
                                       "fsdp-shard-state"))
        << "\"" + state.getSymName().str() + "\": " + std::to_string(rows) +
               " rows, " + std::to_string(local) + " per rank, " +
               std::to_string(local * *ranks - rows) + " of padding";
  }

  for (auto rule : module.getOps<func::FuncOp>())
    if (rule->hasAttr("fsdp.rule") && failed(verifyPointwise(rule)))
      return failure();
  return success();
}

} // namespace
