// Which values of a program are the same memory.

#include "fsdp/Analysis/Aliases.h"
#include "fsdp/Dialect/Aten/Aten.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fsdp;

int64_t fsdp::getSpanBytes(RankedTensorType type) {
  if (type.getNumElements() == 0)
    return 0;
  if (!type.getEncoding())
    return getTensorBytes(type);
  int64_t last = 0;
  for (auto [size, stride] :
       llvm::zip_equal(type.getShape(), aten::getStrides(type)))
    last += (size - 1) * stride;
  return (last + 1) * getElementBytes(type.getElementType());
}

std::optional<RankedTensorType> fsdp::getMemoryType(Value value) {
  if (auto future = dyn_cast<FutureType>(value.getType()))
    return future.getType();
  if (auto tensor = dyn_cast<RankedTensorType>(value.getType()))
    return tensor;
  return std::nullopt;
}

/// The operand whose memory `result` is; null where it has its own.
static Value getAliased(OpResult result) {
  return llvm::TypeSwitch<Operation *, Value>(result.getOwner())
      .Case<aten::CallOp>([&](aten::CallOp call) -> Value {
        if (auto operand = call.getAliasedOperand(result.getResultNumber()))
          return call.getInputs()[*operand];
        return {};
      })
      .Case<WaitOp>([](WaitOp wait) { return wait.getFuture(); })
      .Case<UpdateOp>([](UpdateOp update) { return update.getStaged(); })
      .Default(Value());
}

Aliases::Aliases(Block &block) {
  for (Operation &op : block) {
    for (OpResult result : op.getResults())
      if (getMemoryType(result))
        if (Value aliased = getAliased(result))
          roots[result] = getRoot(aliased);
    if (auto pack = dyn_cast<PackOp>(op))
      for (Value input : pack.getInputs())
        ++packed[getRoot(input)];
  }
  for (Operation &op : block) {
    if (auto pack = dyn_cast<PackOp>(op))
      addParts(pack);
    else if (auto unpack = dyn_cast<UnpackOp>(op))
      addParts(unpack);
  }
}

void Aliases::addParts(PackOp pack) {
  for (auto [input, member] : llvm::zip_equal(
           pack.getInputs(), pack.getMembers().getAsRange<MemberAttr>()))
    if (member.getBytes() && !getReasonForCopy(input, member))
      parts[getRoot(input)] = {pack.getBucket(), member.getOffset()};
}

std::optional<StringRef> Aliases::getReasonForCopy(Value input,
                                                   MemberAttr member) const {
  if (member.getShards())
    return "some ranks alone have it";
  if (member.getBlocks() != 1)
    return "each rank's rows lie apart in the bucket";
  Value root = getSameBytes(input);
  if (!root)
    return "its elements are not all of an operator's result, row by row";
  if (!root.getDefiningOp<aten::CallOp>())
    return "it is a state, or was received, and stays where it is";
  if (packed.lookup(root) != 1)
    return "several members are the same memory";
  return std::nullopt;
}

void Aliases::addParts(UnpackOp unpack) {
  Value bucket = getRoot(unpack.getBucket());
  if (!isa<FutureType>(bucket.getType()))
    return;
  for (auto [output, member] : llvm::zip_equal(
           unpack.getOutputs(), unpack.getMembers().getAsRange<MemberAttr>()))
    if (member.getBlocks() == 1 && member.getBytes() && !member.getShards())
      parts[output] = {bucket, member.getOffset()};
}

Value Aliases::getRoot(Value value) const {
  auto it = roots.find(value);
  return it == roots.end() ? value : it->second;
}

std::optional<Aliases::Part> Aliases::getPart(Value root) const {
  auto it = parts.find(root);
  return it == parts.end() ? std::nullopt : std::optional(it->second);
}

Value Aliases::getOwner(Value value) const {
  Value root = getRoot(value);
  auto it = parts.find(root);
  return it == parts.end() ? root : it->second.whole;
}

Value Aliases::getSameBytes(Value value) const {
  Value root = getRoot(value);
  auto type = cast<RankedTensorType>(value.getType());
  return !type.getEncoding() &&
                 getSpanBytes(*getMemoryType(root)) == getTensorBytes(type)
             ? root
             : Value();
}
