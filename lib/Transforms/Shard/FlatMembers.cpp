// The parameters that will lie in flat ones.

#include "Shard/FlatMembers.h"
#include "Shard/Matrices.h"

#include "fsdp/Transforms/Programs.h"

using namespace mlir;
using namespace fsdp;

static LogicalResult collectUpdates(ModuleOp module, const SymbolTable &table,
                                    FlatMembers &members) {
  for (func::FuncOp program : getPrograms(module)) {
    WalkResult result = program.walk([&](UpdateOp update) {
      auto it = members.find(table.lookup<StateOp>(update.getParameter()));
      if (it == members.end())
        return WalkResult::advance();
      SmallVector<UpdateOp, 1> &updates = it->second.updates;
      if (!updates.empty() &&
          updates.back()->getBlock() == update->getBlock()) {
        update.emitOpError("is the second of @")
            << update.getParameter()
            << ", but a flat parameter is updated once; use shard-layout=dim0";
        return WalkResult::interrupt();
      }
      if (!updates.empty() &&
          (updates.front().getRuleAttr() != update.getRuleAttr() ||
           updates.front().getStates() != update.getStates())) {
        update.emitOpError("of @")
            << update.getParameter()
            << " has another rule or other states than that of another "
               "program, but a flat parameter has one; use shard-layout=dim0";
        return WalkResult::interrupt();
      }
      if (!getReduction(update)) {
        update.emitOpError("of sharded @")
            << update.getParameter()
            << " has a gradient that is not reduced; run "
               "--fsdp-insert-grad-reduction first";
        return WalkResult::interrupt();
      }
      updates.push_back(update);
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      return failure();
  }
  return success();
}

/// What members are cast to in front of their gathers.
static void collectCasts(ModuleOp module, const SymbolTable &table,
                         FlatMembers &members) {
  for (func::FuncOp program : getPrograms(module))
    program.walk([&](UnshardOp unshard) {
      LoadOp load = getGatheredLoad(unshard.getInput());
      if (!load || load.getResult() == unshard.getInput())
        return;
      auto it = members.find(table.lookup<StateOp>(load.getState()));
      if (it != members.end())
        it->second.gathered =
            cast<RankedTensorType>(unshard.getType()).getElementType();
    });
}

LogicalResult fsdp::collectMembers(ModuleOp module, const SymbolTable &table,
                                   FlatMembers &members) {
  // They keep their rows: these are gathered by themselves, and not as a range
  // of elements.
  llvm::DenseSet<StateOp> matrices = getMatrices(module, table);
  for (StateOp state : module.getOps<StateOp>()) {
    if (!state.getSharding())
      continue;
    if (state.getGlobal())
      return state.emitOpError("has the type of one rank's part already; run "
                               "fsdp-flatten-state before fsdp-localize");
    if (state.getRole() == Role::Parameter && !matrices.contains(state))
      members[state].state = state;
  }
  for (StateOp state : module.getOps<StateOp>())
    if (state.getSharding() && state.getRole() == Role::Optimizer) {
      auto parameter = table.lookup<StateOp>(*state.getParameter());
      if (matrices.contains(parameter))
        continue;
      auto it = members.find(parameter);
      if (it == members.end())
        return state.emitOpError("is sharded, but its parameter is not");
      it->second.optimizer.push_back(state);
    }
  collectCasts(module, table, members);
  return collectUpdates(module, table, members);
}

/// The program that trains, or the first.
static func::FuncOp getStep(ModuleOp module) {
  SmallVector<func::FuncOp> programs = getPrograms(module);
  for (func::FuncOp program : programs)
    if (!program.getOps<UpdateOp>().empty())
      return program;
  return programs.empty() ? func::FuncOp() : programs.front();
}

/// The first reader of each gathered parameter, by name.
static llvm::DenseMap<StringRef, Operation *> getFirstReaders(Block &block) {
  llvm::DenseMap<StringRef, Operation *> readers;
  for (auto unshard : block.getOps<UnshardOp>()) {
    LoadOp load = getGatheredLoad(unshard.getInput());
    if (!load || unshard->use_empty())
      continue;
    Operation *&first = readers[load.getState()];
    for (Operation *user : unshard->getUsers())
      if (Operation *reader = block.findAncestorOpInBlock(*user);
          !first || reader->isBeforeInBlock(first))
        first = reader;
  }
  return readers;
}

void fsdp::assignBuckets(ModuleOp module, FlatMembers &members,
                         const BucketSizes &sizes, bool mapped) {
  func::FuncOp step = getStep(module);
  if (!step)
    return;
  Block &block = step.getBody().front();
  BucketSizes::Compute compute = sizes.getCompute(block);
  auto readers = getFirstReaders(block);
  SmallVector<BucketMember> needs;
  for (auto &[state, member] : members) {
    Operation *reader = readers.lookup(state.getSymName());
    if (!reader)
      reader = block.getTerminator();
    // The gather runs beside what stands in front of its reader, the reduction
    // beside what stands behind its gradient.
    // A cast of a state cannot be read in place.
    bool isMapped = mapped && !member.gathered;
    double hidden = isMapped ? compute.all : compute.before.lookup(reader);
    for (UpdateOp update : member.updates)
      if (update->getBlock() == &block)
        hidden = std::min(
            hidden, compute.all - compute.before.lookup(
                                      update.getGradient().getDefiningOp()));
    needs.push_back({state.getUnitAttr(), getTensorBytes(state.getTensorType()),
                     reader, hidden});
  }
  for (auto [entry, bucket] :
       llvm::zip_equal(members, sizes.assign(needs, "flat")))
    entry.second.bucket = bucket;
}
