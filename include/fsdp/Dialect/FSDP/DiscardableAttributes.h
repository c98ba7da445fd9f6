// The discardable attributes of the dialect, each with its name and its type.
// The dialect verifies that an op has no others, and that they have these
// types.

#ifndef FSDP_DIALECT_FSDP_DISCARDABLEATTRIBUTES_H
#define FSDP_DIALECT_FSDP_DISCARDABLEATTRIBUTES_H

#include "fsdp/Dialect/FSDP/FSDP.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

namespace fsdp {

/// A discardable attribute whose value is an `AttrT`.
template <typename AttrT> struct DiscardableAttr {
  using Value = AttrT;

  llvm::StringLiteral name;

  /// Null where an op does not have it.
  AttrT get(mlir::Operation *op) const {
    return op->getAttrOfType<AttrT>(name);
  }
  bool isOn(mlir::Operation *op) const { return op->hasAttr(name); }
  void removeFrom(mlir::Operation *op) const { op->removeAttr(name); }

  /// Sets it to an attribute, or to what makes one: a number, a text, nothing.
  template <typename... From>
  void set(mlir::Operation *op, From &&...from) const {
    op->setAttr(name, make(op->getContext(), std::forward<From>(from)...));
  }
  template <typename... From>
  mlir::NamedAttribute named(mlir::MLIRContext *context, From &&...from) const {
    return {mlir::StringAttr::get(context, name),
            make(context, std::forward<From>(from)...)};
  }

  AttrT getOfArgument(mlir::FunctionOpInterface function,
                      unsigned index) const {
    return function.getArgAttrOfType<AttrT>(index, name);
  }
  void setOfArgument(mlir::FunctionOpInterface function, unsigned index,
                     AttrT value) const {
    function.setArgAttr(index, name, value);
  }
  AttrT getOfResult(mlir::FunctionOpInterface function, unsigned index) const {
    return function.getResultAttrOfType<AttrT>(index, name);
  }

private:
  static AttrT make(mlir::MLIRContext *, AttrT value) { return value; }
  template <typename... From>
  static AttrT make(mlir::MLIRContext *context, const From &...from) {
    if constexpr (std::is_same_v<AttrT, mlir::IntegerAttr>)
      return AttrT::get(mlir::IntegerType::get(context, 64), from...);
    else
      return AttrT::get(context, from...);
  }
};

// On modules.

/// The pipelines that ran, in their order.
inline constexpr DiscardableAttr<mlir::StringAttr> kPipelineAttr{
    "fsdp.pipeline"};
/// The device that the kernels are for, "cuda"; none: "cpu".
inline constexpr DiscardableAttr<mlir::StringAttr> kDeviceAttr{"fsdp.device"};
/// The host arena is pinned.
inline constexpr DiscardableAttr<mlir::UnitAttr> kPinMemoryAttr{
    "fsdp.pin_memory"};
/// Device bytes, window bytes, host bytes.
inline constexpr DiscardableAttr<mlir::DenseI64ArrayAttr> kArenasAttr{
    "fsdp.arenas"};

/// On the grid: an #fsdp.axis per axis.
inline constexpr DiscardableAttr<mlir::ArrayAttr> kAxesAttr{"fsdp.axes"};

// On rules.

inline constexpr DiscardableAttr<mlir::UnitAttr> kRuleAttr{"fsdp.rule"};
/// The optimizer that it was captured from.
inline constexpr DiscardableAttr<OptimizerAttr> kOptimizerAttr{
    "fsdp.optimizer"};
/// The buffer that counts the steps which give the rule's parameters no
/// gradient, and leave them alone; none: each step gives them one.
inline constexpr DiscardableAttr<mlir::FlatSymbolRefAttr> kMissedAttr{
    "fsdp.missed"};

// On programs.

/// The one that does the same for batches of another shape.
inline constexpr DiscardableAttr<mlir::FlatSymbolRefAttr> kVariantOfAttr{
    "fsdp.variant_of"};
/// The name of the turn that it is, and the program of the turn behind it.
inline constexpr DiscardableAttr<mlir::StringAttr> kTurnAttr{"fsdp.turn"};
inline constexpr DiscardableAttr<mlir::FlatSymbolRefAttr> kNextAttr{
    "fsdp.next"};
/// The schedule that fsdp-schedule-overlap gave it.
inline constexpr DiscardableAttr<mlir::StringAttr> kScheduleAttr{
    "fsdp.schedule"};
/// I64: the least bytes that any placement needs of arena 0, and where it is
/// used of arena 2.
inline constexpr DiscardableAttr<mlir::IntegerAttr> kLiveBytesAttr{
    "fsdp.live_bytes"};
inline constexpr DiscardableAttr<mlir::IntegerAttr> kHostLiveBytesAttr{
    "fsdp.host_live_bytes"};
/// Digests of what the sequential step computes, by kind and name.
inline constexpr DiscardableAttr<mlir::DictionaryAttr> kMeaningAttr{
    "fsdp.meaning"};

/// On an argument of a program: the input's name, and whether it has one value
/// in all steps.
inline constexpr DiscardableAttr<mlir::StringAttr> kInputAttr{"fsdp.input"};
inline constexpr DiscardableAttr<mlir::UnitAttr> kRepeatAttr{"fsdp.repeat"};
/// On a result of a program: the output's name.
inline constexpr DiscardableAttr<mlir::StringAttr> kOutputAttr{"fsdp.output"};

// On ops of programs.

/// On a call that backward begins with.
inline constexpr DiscardableAttr<mlir::UnitAttr> kCotangentAttr{
    "fsdp.cotangent"};
/// On a cast that mixed precision asks for.
inline constexpr DiscardableAttr<mlir::UnitAttr> kPrecisionCastAttr{
    "fsdp.precision_cast"};
/// On the collectives of the shard dialect: their unit and region.
inline constexpr DiscardableAttr<mlir::StringAttr> kUnitAttr{"fsdp.unit"};
inline constexpr DiscardableAttr<ProgramRegionAttr> kRegionAttr{"fsdp.region"};
/// I64 on every op that becomes a command: its stream.
inline constexpr DiscardableAttr<mlir::IntegerAttr> kStreamAttr{"fsdp.stream"};
/// On calls: the ranks that make it; others are everybody's.
inline constexpr DiscardableAttr<ShardsAttr> kShardsAttr{"fsdp.shards"};
/// One #fsdp.place per result; unit where a result is no memory.
inline constexpr DiscardableAttr<mlir::ArrayAttr> kPlacesAttr{"fsdp.places"};

// On states.

/// Also on programs' arguments.
inline constexpr DiscardableAttr<PlaceAttr> kPlaceAttr{"fsdp.place"};
/// I64 on a parameter, from import to shard-state: the dimension other than 0
/// that the model splits it on.
inline constexpr DiscardableAttr<mlir::IntegerAttr> kShardDimAttr{
    "fsdp.shard_dim"};

/// Whether a module's kernels are for GPUs.
inline bool isForGpus(mlir::Operation *module) {
  return kDeviceAttr.isOn(module);
}

} // namespace fsdp

#endif // FSDP_DIALECT_FSDP_DISCARDABLEATTRIBUTES_H
