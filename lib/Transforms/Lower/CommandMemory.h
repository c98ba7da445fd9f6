// The bytes of a program while verify-commands runs its commands.

#ifndef FSDP_LIB_TRANSFORMS_LOWER_COMMANDMEMORY_H
#define FSDP_LIB_TRANSFORMS_LOWER_COMMANDMEMORY_H

#include "Lower/ModulePlaces.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace fsdp {

/// Whose each byte is, and which commands wrote and read it last. Commands are
/// told in the order of the block; errors are at the op that is told.
class CommandMemory {
public:
  /// `shardAxis` is that of the mesh over which states are cut.
  CommandMemory(const ModulePlaces &places, int64_t shardAxis)
      : places(places), shardAxis(shardAxis) {}

  /// A state's bytes are there when the program begins, and an argument's.
  void hold(StateOp state);
  mlir::LogicalResult hold(mlir::func::FuncOp program,
                           mlir::BlockArgument argument);

  /// A value is what it is a view of, the state it names, or its own; a part's
  /// bytes are its whole's as well.
  void declare(CmdValueOp value);
  /// A call has made this view; false where it is none, or was made before.
  bool make(mlir::Value view) { return unmade.erase(view); }
  bool haveOneOwner(mlir::Value a, mlir::Value b) {
    return ownerOf(a) == ownerOf(b);
  }
  static bool isView(mlir::Value value);

  /// The value is this rank's part of what so many neighbours keep; 0 where it
  /// is none.
  void keep(mlir::Value value, int64_t neighbours) {
    keepers[value] = neighbours;
  }
  int64_t getKeepers(mlir::Value value) const { return keepers.lookup(value); }

  /// The next command of `stream`; what follows is about it.
  void launch(mlir::Operation *op, uint32_t stream);
  uint32_t getStream() const { return now.stream; }

  /// A command does not write where it reads: C4.
  mlir::LogicalResult checkApart(mlir::Operation *op, PlaceAttr read,
                                 mlir::Value written);

  /// The bytes are the value's: written by it, by a part of it or by the whole
  /// it is part of (C5); and that has happened (C9).
  mlir::LogicalResult read(mlir::Operation *op, mlir::Value value);
  mlir::LogicalResult read(mlir::Operation *op, StateOp state);
  mlir::LogicalResult read(mlir::Operation *op, mlir::Value value,
                           uint64_t offset, uint64_t bytes);

  /// All that touched these bytes has happened (C10), and no part of the value
  /// is lost (C11). To write a state is to write its window as well.
  mlir::LogicalResult write(mlir::Operation *op, mlir::Value value);
  mlir::LogicalResult write(mlir::Operation *op, StateOp state);
  mlir::LogicalResult write(mlir::Operation *op, mlir::Value value,
                            uint64_t offset, uint64_t bytes);

  /// What shows a state on other ranks changes with it: on all ranks, what read
  /// there has happened (C12), and what reads later does not mean the old
  /// value.
  mlir::LogicalResult writeWindow(mlir::Operation *op, mlir::Value value);

  CommandOrder order;

private:
  mlir::LogicalResult read(mlir::Operation *op, PlaceAttr place, int64_t owner,
                           uint64_t offset, uint64_t bytes);
  mlir::LogicalResult write(mlir::Operation *op, PlaceAttr place, int64_t owner,
                            uint64_t offset, uint64_t bytes);
  mlir::LogicalResult writeWindow(mlir::Operation *op, mlir::StringAttr state);
  void begin(PlaceAttr place, int64_t owner);
  mlir::InFlightDiagnostic complain(mlir::Operation *op, Moment other);

  /// A number for the memory of a value, or of a state by its name.
  int64_t ownerOf(mlir::Value value) { return number(owners, value); }
  int64_t ownerOf(mlir::StringAttr state) { return number(states, state); }
  int64_t ownerOf(StateOp state) { return ownerOf(state.getSymNameAttr()); }
  template <typename Map, typename Key> int64_t number(Map &map, Key key) {
    auto [it, isNew] = map.try_emplace(key, next);
    next += isNew;
    return it->second;
  }
  int64_t wholeOf(int64_t owner) const {
    auto it = wholes.find(owner);
    return it == wholes.end() ? ByteTimeline::nobody : it->second;
  }
  std::string name(int64_t owner);

  const ModulePlaces &places;
  int64_t shardAxis;
  ByteTimeline timelines[kNumArenas];
  Moment now; // of the command that is checked
  llvm::SmallVector<mlir::Operation *> commands[kNumStreams];
  llvm::DenseMap<mlir::Value, int64_t> owners;
  llvm::DenseMap<mlir::StringAttr, int64_t> states;
  llvm::DenseMap<int64_t, int64_t> wholes; // of parts
  int64_t next = 0;
  llvm::DenseSet<mlir::Value> unmade;
  llvm::DenseMap<mlir::Value, int64_t> keepers;
};

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_LOWER_COMMANDMEMORY_H
