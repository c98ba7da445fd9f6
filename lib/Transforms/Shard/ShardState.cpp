// fsdp-shard-state.

#include "PassOptions.h"
#include "Remarks.h"
#include "Shard/Matrices.h"

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"
#include "fsdp/Dialect/FSDP/Mesh.h"
#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"

#include "mlir/IR/Builders.h"

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

  void runOnModule() override {
    if (failed(shard(getOperation())))
      signalPassFailure();
  }

private:
  using Sizes = SmallVector<int64_t>;
  /// The mesh that the options, or else the model, ask for, and the names of
  /// its dimensions.
  FailureOr<Sizes> parseMesh(ModuleOp module);
  FailureOr<SmallVector<std::string>> parseNames(ModuleOp module, size_t count);
  ArrayAttr getAxes(ArrayRef<std::string> names);
  LogicalResult shard(ModuleOp module);
};

FailureOr<ShardState::Sizes> ShardState::parseMesh(ModuleOp module) {
  auto training = TrainingOp::of(module);
  DenseI64ArrayAttr described =
      training ? training.getMeshAttr() : DenseI64ArrayAttr();
  if (described) {
    std::string own = llvm::join(
        llvm::map_range(described.asArrayRef(),
                        [](int64_t size) { return std::to_string(size); }),
        "x");
    if (mesh.empty())
      mesh = own;
    else if (mesh != own)
      return ofKind(E::MeshOption, module.emitError())
             << "mesh=" << mesh << ", but the model's own mesh is " << own
             << "; leave the option out, or describe another mesh";
  }
  if (mesh.empty())
    return ofKind(
        E::MeshOption,
        module.emitError("the mesh is not given; say how many ranks there "
                         "are, as in --fsdp-pipeline=\"mesh=2\""));
  Sizes sizes;
  if (failed(readOptions(module, [&] { sizes = readMesh(mesh); })))
    return failure();
  int64_t computed = training ? training.getRanks() : 0;
  int64_t ranks = llvm::product_of(sizes);
  if (computed && ranks != computed)
    return ofKind(E::MeshOption, module.emitError())
           << "mesh=" << mesh << ", but the step computes with a number of "
           << computed << " ranks, for which it was exported; export it again "
           << "with WORLD_SIZE=" << ranks << " in the environment";
  return sizes;
}

FailureOr<SmallVector<std::string>> ShardState::parseNames(ModuleOp module,
                                                           size_t count) {
  // `shard` alone is the default, of any number of dimensions.
  SmallVector<std::string> names;
  auto training = TrainingOp::of(module);
  ArrayAttr own = training ? training.getMeshNamesAttr() : ArrayAttr();
  if (meshDims != "shard")
    llvm::append_range(names, llvm::split(meshDims, ','));
  else if (own)
    llvm::append_range(names, own.getAsValueRange<StringAttr>());
  else
    names = getDefaultMeshNames(count);
  if (failed(readOptions(module, [&] { checkMeshNames(names, mesh); })))
    return failure();
  return names;
}

/// States are cut over the last axis, the others are of replicas.
ArrayAttr ShardState::getAxes(ArrayRef<std::string> names) {
  SmallVector<Attribute> axes;
  for (StringRef name : names.drop_back())
    axes.push_back(AxisAttr::get(&getContext(), name, AxisRole::Replicate));
  axes.push_back(AxisAttr::get(&getContext(), names.back(), AxisRole::Shard));
  return ArrayAttr::get(&getContext(), axes);
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

static LogicalResult verifyParameter(StateOp parameter) {
  if (!parameter.getUnit())
    return parameter.emitOpError(
        "has no unit; run fsdp-assign-units before fsdp-shard-state");
  RankedTensorType type = parameter.getTensorType();
  if (type.getEncoding())
    return parameter.emitError()
           << "parameter \"" << parameter.getSymName()
           << "\" is not row-major (" << type
           << "), which cannot be sharded; make it contiguous in the model";
  return success();
}

/// Of state of another shape than its parameter's, the dimension whose parts
/// are one after the other in memory; the first, which may be uneven, where
/// that one does not divide.
static int64_t getOwnShardDim(RankedTensorType type, int64_t shards) {
  int64_t dim = 0;
  while (dim < type.getRank() && type.getDimSize(dim) == 1)
    ++dim;
  return dim < type.getRank() && type.getDimSize(dim) % shards == 0 ? dim : 0;
}

/// Cuts states over the shard axis of the module's mesh.
class StateCuts {
public:
  StateCuts(ModuleOp module, SymbolTable &table, shard::GridOp grid, bool flat)
      : table(table), grid(grid), mesh(module), flat(flat),
        matrices(getMatrices(module, table)) {}

  /// Gives a state its sharding, where it has one.
  LogicalResult cut(StateOp state) {
    FailureOr<StateOp> parameter = findParameter(state);
    if (failed(parameter) || !*parameter)
      return parameter;
    if (!flat && parameter->getTensorType().getRank() == 0) {
      remarkMissed(R::ShardedState, state.getLoc())
          << "it has no rows to shard: each rank has the whole"
          << metrics::State(state.getSymName());
      return success();
    }
    int64_t dim =
        isLike(state, *parameter)
            ? getShardDim(*parameter)
            : getOwnShardDim(state.getTensorType(), mesh.getNumShards());
    state.setShardingAttr(getSharding(dim));
    return flat ? success() // fsdp-flatten-state says how
                : checkRows(state, dim);
  }

private:
  /// The parameter by which a state is cut: itself, or that of optimizer state.
  /// Null where each rank has the whole.
  FailureOr<StateOp> findParameter(StateOp state) {
    if (state.getRole() == Role::Parameter) {
      if (state.getReplicated())
        return StateOp();
      if (failed(verifyParameter(state)))
        return failure();
      return state;
    }
    if (state.getRole() != Role::Optimizer)
      return StateOp();
    auto parameter = table.lookup<StateOp>(*state.getParameter());
    if (!parameter)
      return state.emitOpError("belongs to a parameter that does not exist");
    if (parameter.getReplicated())
      return StateOp();
    bool isOwn = !isLike(state, parameter);
    if ((isOwn && !matrices.contains(parameter)) ||
        state.getTensorType().getEncoding())
      return state.emitOpError()
             << "is " << state.getType() << ", but its parameter is "
             << parameter.getType()
             << "; a pointwise rule has state of the parameter's shape, "
                "row-major";
    if (isOwn && state.getTensorType().getRank() == 0)
      return state.emitOpError("has no dimension to be cut along; let it be "
                               "of one element, as tensor<1xf32>");
    return parameter;
  }

  /// Only rows may be uneven.
  LogicalResult checkRows(StateOp state, int64_t dim) {
    int64_t shards = mesh.getNumShards();
    RankedTensorType type = state.getTensorType();
    if (dim && type.getDimSize(dim) % shards)
      return state.emitError()
             << "\"" << state.getSymName() << "\" is to be split on dimension "
             << dim << ", whose size " << type.getDimSize(dim)
             << " does not divide by " << shards
             << "; only dimension 0 may be uneven";
    int64_t rows = type.getDimSize(dim), local = getLocalRows(rows, shards);
    remarkPassed(R::ShardedState, state.getLoc())
        << "each rank has some rows of the dimension"
        << metrics::State(state.getSymName()) << metrics::Dimension(dim)
        << metrics::Rows(rows) << metrics::RowsPerRank(local)
        << metrics::Padding(local * shards - rows);
    return success();
  }

  ShardingAttr getSharding(int64_t dim) {
    MLIRContext *context = grid->getContext();
    SmallVector<shard::GridAxesAttr> axes(
        dim, shard::GridAxesAttr::get(context, {}));
    axes.push_back(shard::GridAxesAttr::get(
        context, llvm::to_vector_of<int16_t>(mesh.getAxes(AxisRole::Shard))));
    return ShardingAttr::get(context,
                             FlatSymbolRefAttr::get(grid.getSymNameAttr()),
                             shard::GridAxesArrayAttr::get(context, axes));
  }

  int64_t getShardDim(StateOp parameter) {
    auto dim = kShardDimAttr.get(parameter);
    return dim && !flat ? dim.getInt() : 0;
  }

  static bool isLike(StateOp state, StateOp parameter) {
    return state.getTensorType().getShape() ==
           parameter.getTensorType().getShape();
  }

  SymbolTable &table;
  shard::GridOp grid;
  Mesh mesh;
  bool flat;
  llvm::DenseSet<StateOp> matrices;
};

LogicalResult ShardState::shard(ModuleOp module) {
  FailureOr<Sizes> sizes = parseMesh(module);
  if (failed(sizes))
    return failure();
  FailureOr<SmallVector<std::string>> names = parseNames(module, sizes->size());
  if (failed(names))
    return failure();
  if (Mesh(module))
    return module.emitError("the module has a mesh already; run "
                            "fsdp-shard-state once");

  // A parameter may be named so too: the table then renames the grid.
  SymbolTable table(module);
  OpBuilder builder(&getContext());
  auto grid = shard::GridOp::create(builder, module.getLoc(), "mesh", *sizes);
  kAxesAttr.set(grid, getAxes(*names));
  table.insert(grid, module.getBody()->begin());
  Mesh mesh(module);
  if (mesh.getNumRanks() == 1) {
    remarkMissed(R::OneRank, module.getLoc())
        << "a mesh of one rank shards nothing";
    return success();
  }

  StateCuts cuts(module, table, grid, shardLayout == ShardLayout::Flat);
  for (StateOp state : module.getOps<StateOp>())
    if (failed(cuts.cut(state)))
      return failure();
  for (StateOp state : module.getOps<StateOp>())
    kShardDimAttr.removeFrom(state);

  for (auto rule : module.getOps<func::FuncOp>())
    if (isRule(rule) && !isMatrixRule(rule) && failed(verifyPointwise(rule)))
      return failure();
  return success();
}

} // namespace
