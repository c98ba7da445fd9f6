// What passes ask of ops, whichever ops these are.

#ifndef FSDP_INTERFACES_TD
#define FSDP_INTERFACES_TD

include "mlir/IR/OpBase.td"

/// Gives step scalars: numbers that are computed in front of each step, in f64
/// as Python computes them.
def FSDP_StepScalar : NativeOpTrait<"StepScalar"> {
  let cppNamespace = "::fsdp";
}

def FSDP_CollectiveOpInterface : OpInterface<"CollectiveOpInterface"> {
  let cppNamespace = "::fsdp";
  let description = [{
    An exchange of data among the ranks along axes of the mesh. An op is one in
    every form: on whole tensors (`fsdp.unshard`), on each rank's own
    (`shard.all_gather`, `fsdp.all_gather`), started
    (`fsdp.all_gather_start`), and as a command.
  }];
  let methods = [
    InterfaceMethod<"The kind of exchange.",
      "::fsdp::CollectiveKind", "getKind">,
    InterfaceMethod<"The purpose of the exchange.",
      "::fsdp::CollectiveRole", "getRole">,
    InterfaceMethod<"The unit whose parameters or gradients move, or null.",
      "::mlir::StringAttr", "getUnitAttr", (ins), "", "return {};">,
    InterfaceMethod<[{
      The region that reads the result of a gather, or null.}],
      "::std::optional<::fsdp::ProgramRegion>", "getRegion", (ins), "", "return {};">,
    InterfaceMethod<[{
      Whether only updates read its result. It then comes after all that is
      scheduled, and is waited for where its result is read first.}],
      "bool", "isForUpdates", (ins), "", "return false;">,
    InterfaceMethod<[{
      The axes of the mesh that it is over. From the buckets on they are those
      of one role, and neighbours.}],
      "::llvm::SmallVector<int64_t>", "getMeshAxes", (ins), "",
      "return ::llvm::to_vector($_op.getAxes());">,
    InterfaceMethod<[{
      The number of neighbours along its axes that take part; 0: all ranks
      along its axes.}],
      "uint64_t", "getRanks", (ins), "", "return 0;">,
    InterfaceMethod<"How the ranks' numbers become one, of a reduction.",
      "::fsdp::ReduceOp", "getReduceOp", (ins), "",
      "return ::fsdp::ReduceOp::Sum;">,
    InterfaceMethod<"What the sum is divided by; 1: nothing.",
      "::llvm::APFloat", "getDivisor", (ins), "",
      "return ::llvm::APFloat(1.0);">,
    InterfaceMethod<"Whether it shows the ranks' memory instead of moving it.",
      "bool", "getMapped", (ins), "", "return false;">,
    InterfaceMethod<[{
      Whether its types are those of whole tensors: what each rank has is a
      later pass's to say.}],
      "bool", "isGlobal", (ins), "", "return false;">,
    InterfaceMethod<"The type of what this rank gives.",
      "::mlir::RankedTensorType", "getSourceType", (ins), "", [{
        return ::llvm::cast<::mlir::RankedTensorType>(
            $_op->getOperand(0).getType());
      }]>,
    InterfaceMethod<"The type of what this rank gets.",
      "::mlir::RankedTensorType", "getDestinationType", (ins), "", [{
        return ::fsdp::getMovedType($_op->getResult(0));
      }]>,
  ];
  let extraSharedClassDeclaration = [{
    /// What holds for its kind; include "plan/Collectives.h" to read it.
    const ::fsdp::plan::CollectiveInfo &getInfo() {
      return ::fsdp::detail::getCollectiveInfo($_op.getKind());
    }
    /// The type of all ranks' pieces: what a gather gives, and a
    /// reduce-scatter takes.
    ::mlir::RankedTensorType getWholeType() {
      ::mlir::RankedTensorType from = $_op.getSourceType(),
                               to = $_op.getDestinationType();
      return from.getNumElements() > to.getNumElements() ? from : to;
    }
    /// The type of one rank's piece.
    ::mlir::RankedTensorType getPieceType() {
      return ::fsdp::detail::getPieceType($_op.getKind(), $_op.getSourceType(),
                                          $_op.getDestinationType());
    }
  }];
}

def FSDP_StartableOpInterface : OpInterface<"StartableOpInterface"> {
  let cppNamespace = "::fsdp";
  let description = [{
    A collective or a copy between device and host whose data has moved when the
    op ends. Its start form has the same operands and attributes, and returns a
    future; `fsdp.wait` on that future completes it.
  }];
  let methods = [
    StaticInterfaceMethod<"The name of the start form.",
      "::llvm::StringRef", "getStartName">,
  ];
}

def FSDP_StartOpInterface : OpInterface<"StartOpInterface"> {
  let cppNamespace = "::fsdp";
  let description = [{
    Starts a collective, if it is a CollectiveOpInterface too, else a copy
    between device and host. Exactly one `fsdp.wait` ends it.
  }];
  let methods = [
    InterfaceMethod<"The future of its result.",
      "::mlir::Value", "getFuture">,
    InterfaceMethod<"The unit that it belongs to, or null.",
      "::mlir::StringAttr", "getUnitAttr">,
    InterfaceMethod<"The region that reads what it gives, or null.",
      "::std::optional<::fsdp::ProgramRegion>", "getRegion">,
    InterfaceMethod<[{
      Whether compute reads what it gives, as it does parameters; else compute
      gives what it takes, as it does gradients.}],
      "bool", "isIncoming">,
    InterfaceMethod<"Whether what it gives is in the host's memory.",
      "bool", "isToHost", (ins), "", "return false;">,
    InterfaceMethod<"The state that it writes; null: memory of its own.",
      "::mlir::FlatSymbolRefAttr", "getIntoAttr", (ins), "", "return {};">,
    InterfaceMethod<[{
      Whether a result that only it reads is waited for on its own stream, so
      that the two are a chain beside compute.}],
      "bool", "isChained", (ins), "", "return false;">,
  ];
  let extraSharedClassDeclaration = [{
    /// The op that ends it, once it is verified that there is one.
    ::mlir::Operation *getWait() {
      return *$_op.getFuture().user_begin();
    }
  }];
}

def FSDP_StateAccessOpInterface : OpInterface<"StateAccessOpInterface"> {
  let cppNamespace = "::fsdp";
  let description = [{
    Reads or writes states, which it names.
  }];
  let methods = [
    InterfaceMethod<"The states that it reads.",
      "::llvm::SmallVector<::mlir::FlatSymbolRefAttr>", "getReadStates",
      (ins), "", "return {};">,
    InterfaceMethod<"The states that it writes, in whole or in part.",
      "::llvm::SmallVector<::mlir::FlatSymbolRefAttr>", "getWrittenStates",
      (ins), "", "return {};">,
  ];
}

def FSDP_TimelineOpInterface : OpInterface<"TimelineOpInterface"> {
  let cppNamespace = "::fsdp";
  let description = [{
    Takes its turn on a stream: a command, or an op that becomes one.
  }];
  let methods = [
    InterfaceMethod<[{
      The stream that it has been given, in the plan's numbers; else the one
      that it would choose.}],
      "uint64_t", "getStream", (ins), "",
      "return ::fsdp::detail::getGivenStream($_op)"
      ".value_or($_op.chooseStream());">,
    InterfaceMethod<"The stream by what it does: compute's, unless it says so.",
      "uint64_t", "chooseStream", (ins), "", "return 0;">,
  ];
}

#endif // FSDP_INTERFACES_TD
