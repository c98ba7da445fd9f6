// fsdp-flatten-state.

#include "Remarks.h"
#include "Shard/FlatMembers.h"

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/Aten/PrecisionCast.h"
#include "fsdp/Dialect/FSDP/Mesh.h"
#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"

#include "mlir/IR/Builders.h"
#include "llvm/Support/MathExtras.h"

namespace fsdp {
#define GEN_PASS_DEF_FLATTENSTATE
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

/// A flat parameter with its flat optimizer states.
struct Flat {
  SmallVector<Member> members;
  bool mapped = false;
  int64_t elements = 0; // of the whole, padding included
  int64_t padding = 0;
  StateOp parameter;
  SmallVector<StateOp> optimizer; // as each member's
};

/// "exp_avg" of "blocks.0.w/exp_avg".
StringRef getStateName(StateOp state) {
  StringRef name = state.getSymName();
  name.consume_front(*state.getParameter());
  name.consume_front("/");
  return name;
}

class FlattenState : public fsdp::impl::FlattenStateBase<FlattenState> {
public:
  using FlattenStateBase::FlattenStateBase;

  void runOnModule() override;

private:
  Attribute getKey(const Member &member);
  Attribute getRule(const Member &member, UpdateOp update);
  void layOut(Flat &flat);
  void createStates(Flat &flat, SymbolTable &table, StringRef name);
  StateOp createState(StateOp like, RankedTensorType type, SymbolTable &table,
                      const Twine &name);
  void remarkOn(Flat &flat, StringRef name);
  LogicalResult rewriteReads(func::FuncOp program);
  LogicalResult rewriteUpdates(Flat &flat, ArrayRef<UpdateOp> updates);

  int64_t shards = 1;
  /// The flat parameter of a member's symbol.
  llvm::DenseMap<StringRef, std::pair<StateOp, int64_t>> places;
};

/// The programs that update a member.
static ArrayAttr getTrainers(const Member &member) {
  SmallVector<Attribute> programs;
  for (UpdateOp update : member.updates)
    programs.push_back(
        update->getParentOfType<func::FuncOp>().getSymNameAttr());
  return Builder(StateOp(member.state).getContext()).getArrayAttr(programs);
}

/// Members with one key share a flat state: what one gather, one reduction and
/// one loop over elements can serve.
Attribute FlattenState::getKey(const Member &member) {
  Builder builder(&getContext());
  StateOp state = member.state;
  SmallVector<Attribute> key = {
      state.getUnitAttr(),
      TypeAttr::get(state.getTensorType().getElementType()),
      getTrainers(member),
      member.gathered ? Attribute(TypeAttr::get(member.gathered))
                      : builder.getUnitAttr(),
      builder.getI64IntegerAttr(member.bucket)};
  for (StateOp optimizer : member.optimizer) {
    key.push_back(builder.getStringAttr(getStateName(optimizer)));
    key.push_back(TypeAttr::get(optimizer.getTensorType().getElementType()));
  }
  return builder.getArrayAttr(key);
}

/// The rule of a member's update, the same in all programs, with its states in
/// the order of operands; null without one.
Attribute FlattenState::getRule(const Member &member, UpdateOp update) {
  if (!update)
    return {};
  Builder builder(&getContext());
  SmallVector<Attribute> rule = {update.getRuleAttr()};
  for (Attribute name : update.getStates())
    for (auto [index, state] : llvm::enumerate(member.optimizer))
      if (StateOp(state).getSymNameAttr() ==
          cast<FlatSymbolRefAttr>(name).getAttr())
        rule.push_back(builder.getI64IntegerAttr(index));
  return builder.getArrayAttr(rule);
}

/// The elements that are a multiple of 64 bytes in the flat parameter, in its
/// states, in its cast and in its gradient.
static int64_t getAlignment(const Member &member) {
  auto elementType = [](Value value) {
    return cast<RankedTensorType>(value.getType()).getElementType();
  };
  SmallVector<Type> types = {
      StateOp(member.state).getTensorType().getElementType()};
  for (StateOp state : member.optimizer)
    types.push_back(state.getTensorType().getElementType());
  if (member.gathered)
    types.push_back(member.gathered);
  for (UpdateOp update : member.updates)
    types.push_back(elementType(getReduction(update)));
  int64_t alignment = 1;
  for (Type type : types)
    alignment = std::max(alignment, kAlignment / getElementBytes(type));
  return alignment;
}

void FlattenState::layOut(Flat &flat) {
  // One range of elements per rule.
  llvm::MapVector<Attribute, SmallVector<Member>> byRule;
  for (Member &member : flat.members) {
    UpdateOp update = member.updates.empty() ? UpdateOp() : member.updates[0];
    byRule[getRule(member, update)].push_back(std::move(member));
  }
  flat.members.clear();
  Member &first = byRule.front().second.front();
  int64_t bytes = getElementBytes(first.state.getTensorType().getElementType());
  int64_t alignment = getAlignment(first);
  // A cast of a state cannot be read in place.
  // Of one shard nothing is gathered.
  flat.mapped = gather == GatherBy::Map && shards > 1 && !first.gathered;
  int64_t end = 0, used = 0;
  for (auto &[rule, members] : byRule)
    for (Member &member : members) {
      int64_t size = member.state.getTensorType().getNumElements();
      member.offset = llvm::alignTo(end, alignment);
      end = member.offset + size;
      used += size;
      flat.members.push_back(std::move(member));
    }
  int64_t unit = flat.mapped ? kPageBytes / bytes : alignment;
  // Members without elements still make a piece.
  int64_t piece = std::max<int64_t>(
      llvm::alignTo(llvm::divideCeil(end, shards), unit), unit);
  flat.elements = shards * piece;
  flat.padding = flat.elements - used;
}

StateOp FlattenState::createState(StateOp like, RankedTensorType type,
                                  SymbolTable &table, const Twine &name) {
  auto flat = cast<StateOp>(like->clone());
  flat.setSymName(name.str());
  flat.setType(RankedTensorType::get({type.getDimSize(0)},
                                     like.getTensorType().getElementType()));
  flat.removeFqnAttr();
  flat.removeAliasesAttr();
  flat.removeInitAttr();
  flat.removeGroupAttr();
  flat.setIsFlat(true);
  table.insert(flat, Block::iterator(like));
  return flat;
}

void FlattenState::createStates(Flat &flat, SymbolTable &table,
                                StringRef name) {
  Member &first = flat.members.front();
  auto type = RankedTensorType::get(
      {flat.elements}, first.state.getTensorType().getElementType());
  flat.parameter = createState(first.state, type, table, name);
  flat.parameter.setTrainable(!first.updates.empty());
  flat.parameter.setMapped(flat.mapped);
  StringAttr symbol = flat.parameter.getSymNameAttr();
  for (StateOp like : first.optimizer) {
    StateOp state = createState(like, type, table,
                                symbol.strref() + "/" + getStateName(like));
    state.setParameterAttr(FlatSymbolRefAttr::get(symbol));
    flat.optimizer.push_back(state);
  }
  auto place = [&](StateOp state, StateOp into, int64_t offset) {
    state.setFlatAttr(FlatSymbolRefAttr::get(into.getSymNameAttr()));
    state.setFlatOffset(offset);
    state.removeShardingAttr();
  };
  for (Member &member : flat.members) {
    place(member.state, flat.parameter, member.offset);
    for (auto [state, into] : llvm::zip_equal(member.optimizer, flat.optimizer))
      place(state, into, member.offset);
    places[member.state.getSymName()] = {flat.parameter, member.offset};
  }
}

/// A gather of a member becomes one of its flat parameter, and a view.
LogicalResult FlattenState::rewriteReads(func::FuncOp program) {
  SmallVector<LoadOp> members;
  program.walk([&](LoadOp load) {
    if (places.contains(load.getState()))
      members.push_back(load);
  });
  llvm::DenseMap<StateOp, LoadOp> loads; // by flat parameter
  for (LoadOp load : members) {
    auto [flat, offset] = places[load.getState()];
    OpBuilder builder(load);
    LoadOp &whole = loads[flat];
    if (!whole)
      whole = LoadOp::create(builder, load.getLoc(), flat.getTensorType(),
                             FlatSymbolRefAttr::get(flat.getSymNameAttr()));
    for (Operation *reader : getReadersThroughCasts(load.getResult())) {
      auto unshard = dyn_cast<UnshardOp>(reader);
      if (!unshard)
        return reader->emitOpError("reads sharded @")
               << load.getState()
               << " without an fsdp.unshard; run --fsdp-insert-unshard first";
      builder.setInsertionPoint(unshard);
      auto type = cast<RankedTensorType>(unshard.getType());
      aten::Direction direction = getDirection(unshard.getRegion());
      Value source = whole;
      if (unshard.getInput() != load.getResult())
        source = aten::createPrecisionCast(builder, unshard.getLoc(), direction,
                                           whole, type.getElementType());
      auto gathered =
          UnshardOp::create(builder, unshard.getLoc(), source.getType(), source,
                            unshard.getUnitAttr(), unshard.getRegionAttr());
      NamedAttribute args[] = {
          builder.getNamedAttr("size",
                               builder.getDenseI64ArrayAttr(type.getShape())),
          builder.getNamedAttr(
              "stride", builder.getDenseI64ArrayAttr(aten::getStrides(type))),
          builder.getNamedAttr("storage_offset",
                               builder.getI64IntegerAttr(offset))};
      auto view =
          aten::CallOp::create(builder, unshard.getLoc(), direction,
                               "as_strided", gathered.getResult(), args, type);
      unshard.replaceAllUsesWith(view->getResult(0));
      unshard.erase();
    }
    for (Operation *reader : llvm::make_early_inc_range(load->getUsers()))
      reader->erase(); // casts that nothing gathers any more
    load.erase();
  }
  return success();
}

/// The members' gradients in one program become one, with one reduction and an
/// update per rule. `updates` are the members', in their order.
LogicalResult FlattenState::rewriteUpdates(Flat &flat,
                                           ArrayRef<UpdateOp> updates) {
  UpdateOp lastUpdate = updates.front();
  ReduceGradOp lastReduction = getReduction(lastUpdate);
  SmallVector<Value> gradients;
  SmallVector<Attribute> entries;
  RankedTensorType own = flat.parameter.getTensorType();
  auto type = RankedTensorType::get(
      own.getShape(), cast<RankedTensorType>(lastReduction.getType())
                          .getElementType()); // on the wire
  int64_t elementBytes = getElementBytes(type.getElementType());
  for (auto [member, memberUpdate] : llvm::zip_equal(flat.members, updates)) {
    UpdateOp update = memberUpdate;
    ReduceGradOp reduction = getReduction(update);
    if (reduction->getBlock() != lastReduction->getBlock() ||
        update->getBlock() != lastUpdate->getBlock())
      return update.emitOpError("is not in the same block as those of "
                                "the other parameters of its unit");
    // What asks all gradients asks those of flat parameters: it comes later.
    bool isPlain = reduction->hasOneUse() && update.getGradient().hasOneUse() &&
                   !update.getScale() && !update.getStaged() &&
                   update.getGiven().empty();
    if (!isPlain)
      return update.emitOpError(
          "is not the only reader of its gradient, or is scaled; run "
          "fsdp-flatten-state before passes that look at all gradients");
    if (lastReduction->isBeforeInBlock(reduction))
      lastReduction = reduction;
    if (lastUpdate->isBeforeInBlock(update))
      lastUpdate = update;
    gradients.push_back(reduction.getInput());
    entries.push_back(MemberAttr::get(
        &getContext(), member.offset * elementBytes,
        getTensorBytes(cast<RankedTensorType>(reduction.getType())),
        /*blocks=*/1));
  }

  OpBuilder builder(&getContext());
  builder.setInsertionPointAfter(lastReduction);
  Location loc = lastReduction.getLoc();
  auto packed = PackOp::create(builder, loc, type, gradients,
                               builder.getArrayAttr(entries));
  Value reduced = ReduceGradOp::create(builder, loc, type, packed,
                                       flat.parameter.getUnitAttr());
  if (own != type)
    reduced = aten::createPrecisionCast(builder, loc, aten::Direction::Backward,
                                        reduced, own.getElementType());

  builder.setInsertionPointAfter(lastUpdate);
  size_t count = flat.members.size();
  for (size_t begin = 0, end = 0; begin < count; begin = end) {
    Attribute rule = getRule(flat.members[begin], updates[begin]);
    Value skip = UpdateOp(updates[begin]).getSkip();
    while (end < count && getRule(flat.members[end], updates[end]) == rule &&
           UpdateOp(updates[end]).getSkip() == skip)
      ++end;
    SmallVector<Attribute> states;
    for (auto index : cast<ArrayAttr>(rule).getValue().drop_front())
      states.push_back(FlatSymbolRefAttr::get(
          flat.optimizer[cast<IntegerAttr>(index).getInt()].getSymNameAttr()));
    UpdateOp first = updates[begin];
    auto update = UpdateOp::create(
        builder, first.getLoc(), first.getRuleAttr(),
        FlatSymbolRefAttr::get(flat.parameter.getSymNameAttr()), reduced,
        builder.getArrayAttr(states));
    if (skip)
      update.getSkipMutable().assign(skip);
    if (end - begin == count)
      continue; // one rule for all elements
    update.setBegin(flat.members[begin].offset);
    update.setEnd(end == count ? flat.elements : flat.members[end].offset);
  }
  for (UpdateOp update : updates) {
    ReduceGradOp reduction = getReduction(update);
    Operation *gradient = update.getGradient().getDefiningOp();
    update.erase();
    if (gradient != reduction)
      gradient->erase();
    reduction.erase();
  }
  return success();
}

void FlattenState::remarkOn(Flat &flat, StringRef name) {
  remarkPassed(R::FlatParameter, flat.parameter.getLoc())
      << "parameters in one" << metrics::State(name)
      << metrics::Parameters(flat.members.size())
      << metrics::OptimizerStates(flat.optimizer.size())
      << metrics::Elements(flat.elements)
      << metrics::ElementsPerRank(flat.elements / shards)
      << metrics::Padding(flat.padding);
}

void FlattenState::runOnModule() {
  ModuleOp module = getOperation();
  shards = Mesh(module).getNumShards();
  SymbolTable table(module);
  FailureOr<BucketSizes> sizes =
      BucketSizes::get(module, bucketCapMib, cluster, R::FlatCut);
  FlatMembers members;
  if (failed(sizes) || failed(collectMembers(module, table, members)))
    return signalPassFailure();
  assignBuckets(module, members, *sizes, gather == GatherBy::Map);
  if (members.empty()) {
    remarkMissed(R::NothingFlat, module.getLoc())
        << "nothing is sharded, so nothing is flat";
    return;
  }

  llvm::MapVector<Attribute, Flat> flats;
  for (auto &[state, member] : members)
    flats[getKey(member)].members.push_back(std::move(member));
  llvm::DenseMap<StringRef, int64_t> counts; // by unit
  for (auto &[key, flat] : flats) {
    StringRef unit = *flat.members.front().state.getUnit();
    layOut(flat);
    createStates(flat, table, (unit + "/flat." + Twine(counts[unit]++)).str());
    remarkOn(flat, flat.parameter.getSymName());
  }
  for (auto &[key, flat] : flats)
    // Members of one flat parameter are trained by the same programs.
    for (size_t p = 0; p < flat.members.front().updates.size(); ++p)
      if (failed(rewriteUpdates(
              flat,
              llvm::map_to_vector(flat.members, [&](const Member &member) {
                return member.updates[p];
              }))))
        return signalPassFailure();
  for (func::FuncOp program : getPrograms(module))
    if (failed(rewriteReads(program)))
      return signalPassFailure();
}

} // namespace
