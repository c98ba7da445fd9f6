// PyTorch's attention kernels on GPUs.

#include "Device/AttentionKernels.h"
#include "Device/AttentionForms.h"
#include "KernelCalls.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace fsdp;

// What a kernel computes

static bool isHalf(Type type) { return type.isF16() || type.isBF16(); }

static std::string describe(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

static std::string headSizeMisfit(const Attention &attention, int64_t most) {
  int64_t size = attention.getQueryType().getShape().back();
  return size <= most ? ""
                      : "takes head sizes up to " + std::to_string(most) +
                            ", not " + std::to_string(size);
}

static std::string flashMisfit(const Attention &attention) {
  Type type = attention.getQueryType().getElementType();
  if (!isHalf(type))
    return "computes in f16 or bf16, not " + describe(type);
  if (attention.mask)
    return "takes no mask";
  if (attention.isCausal && attention.getQueryType().getDimSize(2) !=
                                attention.getKeyType().getDimSize(2))
    return "is causal only where there are as many keys as queries";
  return headSizeMisfit(attention, 256);
}

static std::string efficientMisfit(const Attention &attention) {
  Type type = attention.getQueryType().getElementType();
  if (!isHalf(type) && !type.isF32())
    return "computes in f16, bf16 or f32, not " + describe(type);
  // Its backward looks for what was drawn on the host, or in a graph on the
  // GPU.
  if (attention.dropout != 0)
    return "drops nothing";
  return "";
}

static std::string cudnnMisfit(const Attention &attention) {
  Type type = attention.getQueryType().getElementType();
  if (!isHalf(type))
    return "computes in f16 or bf16, not " + describe(type);
  if (attention.getKeyType().getDimSize(2) == 1)
    return "takes more than one key";
  if (attention.dropout != 0)
    return "drops nothing";
  if (attention.maskGradient)
    return "gives a mask no gradient";
  return headSizeMisfit(attention, 128);
}

// What it is called with
//
// PyTorch's kernels draw from the device's generator; one that drops is called
// by an operator that takes the plan's.

/// Arguments that forward and backward of all kernels share.
static SmallVector<NamedAttribute> getShared(KernelCalls &calls,
                                             const Attention &attention) {
  SmallVector<NamedAttribute> args = {
      calls.boolean("is_causal", attention.isCausal)};
  if (attention.scale)
    args.push_back(calls.named("scale", attention.scale));
  return args;
}

/// Those that all kernels' backward have as well.
static SmallVector<NamedAttribute> getBackward(KernelCalls &calls,
                                               const Attention &attention) {
  SmallVector<NamedAttribute> args = getShared(calls, attention);
  args.push_back(calls.named("dropout_p", calls.builder.getF64FloatAttr(0.0)));
  return args;
}

/// Lengths of queries and keys, which flash and cuDNN want to be told.
static void addLengths(SmallVectorImpl<NamedAttribute> &args,
                       KernelCalls &calls, const Attention &attention) {
  args.push_back(calls.number("max_q", attention.getQueryType().getDimSize(2)));
  args.push_back(calls.number("max_k", attention.getKeyType().getDimSize(2)));
}

/// The first results of the new call are those of the old one.
static void replace(aten::CallOp old, aten::CallOp call, unsigned results) {
  for (unsigned i = 0; i != results; ++i)
    old->getResult(i).replaceAllUsesWith(call->getResult(i));
  old->erase();
}

static void replaceByDroppingFlash(Attention &attention) {
  KernelCalls calls(attention.forward);
  Type logsumexp =
      RankedTensorType::get(attention.getQueryType().getShape().drop_back(),
                            calls.builder.getF32Type());
  Type state = RankedTensorType::get({2}, calls.builder.getI64Type());
  SmallVector<NamedAttribute> args = getShared(calls, attention);
  args.push_back(calls.named("dropout_p",
                             calls.builder.getF64FloatAttr(attention.dropout)));
  SmallVector<NamedAttribute> drawn(args);
  drawn.push_back(calls.named("generator", attention.generator));
  aten::CallOp forward = calls.create(
      "fsdp_mlir::flash_attention",
      {attention.query, attention.key, attention.value}, drawn,
      {attention.forward->getResult(0).getType(), logsumexp, state});
  for (aten::CallOp old : attention.backward)
    replace(old,
            KernelCalls(old).create(
                "fsdp_mlir::flash_attention_backward",
                {getTensor(old, "grad_out"), attention.query, attention.key,
                 attention.value, forward->getResult(0), forward->getResult(1),
                 forward->getResult(2)},
                args, old->getResultTypes()),
            3);
  replace(attention.forward, forward, 1);
}

static void replaceByFlash(Attention &attention) {
  padHeads(attention, 8);
  if (attention.dropout != 0)
    return replaceByDroppingFlash(attention);
  KernelCalls calls(attention.forward);
  Type none = NoneType::get(calls.builder.getContext());
  Type logsumexp =
      RankedTensorType::get(attention.getQueryType().getShape().drop_back(),
                            calls.builder.getF32Type());
  aten::CallOp forward =
      calls.create("_scaled_dot_product_flash_attention",
                   {attention.query, attention.key, attention.value},
                   getShared(calls, attention),
                   {attention.forward->getResult(0).getType(), logsumexp, none,
                    none, none, none, none});
  for (aten::CallOp old : attention.backward) {
    KernelCalls calls(old);
    SmallVector<NamedAttribute> args = getBackward(calls, attention);
    addLengths(args, calls, attention);
    Value absent;
    replace(
        old,
        calls.create("_scaled_dot_product_flash_attention_backward",
                     {getTensor(old, "grad_out"), attention.query,
                      attention.key, attention.value, forward->getResult(0),
                      forward->getResult(1), absent, absent, absent, absent},
                     args, old->getResultTypes()),
        3);
  }
  replace(attention.forward, forward, 1);
}

static void replaceByCudnn(Attention &attention) {
  padHeads(attention, 8);
  KernelCalls calls(attention.forward);
  Type none = NoneType::get(calls.builder.getContext());
  Type seed = RankedTensorType::get({}, calls.builder.getI64Type());
  SmallVector<int64_t> shape(attention.getQueryType().getShape());
  shape.back() = 1;
  Type logsumexp = RankedTensorType::get(shape, calls.builder.getF32Type());
  Value mask = attention.mask;
  if (mask)
    mask = calls.cast(mask, attention.getQueryType().getElementType());
  SmallVector<NamedAttribute> args = getShared(calls, attention);
  args.push_back(
      calls.boolean("compute_log_sumexp", !attention.backward.empty()));
  aten::CallOp forward = calls.create(
      "_scaled_dot_product_cudnn_attention",
      {attention.query, attention.key, attention.value, mask}, args,
      {attention.forward->getResult(0).getType(), logsumexp, none, none, seed,
       seed, none});
  for (aten::CallOp old : attention.backward) {
    KernelCalls calls(old);
    SmallVector<NamedAttribute> args = getBackward(calls, attention);
    addLengths(args, calls, attention);
    Value absent;
    replace(old,
            calls.create("_scaled_dot_product_cudnn_attention_backward",
                         {getTensor(old, "grad_out"), attention.query,
                          attention.key, attention.value, forward->getResult(0),
                          forward->getResult(1), forward->getResult(4),
                          forward->getResult(5), mask, absent, absent},
                         args, old->getResultTypes()),
            3);
  }
  replace(attention.forward, forward, 1);
}

/// It has as many heads of keys as of queries, a mask for each, and keeps the
/// sums of 32 queries together. What it says of its random numbers, of which it
/// takes none, lies on the host: nobody reads it.
static void replaceByEfficient(Attention &attention) {
  RankedTensorType type = attention.getQueryType();
  padHeads(attention, isHalf(type.getElementType()) ? 8 : 4);
  repeatHeads(attention);
  KernelCalls calls(attention.forward);
  ArrayRef<int64_t> shape = type.getShape();
  bool isTraining = !attention.backward.empty();
  Value mask = attention.mask;
  if (mask)
    mask = calls.expand(
        calls.alignRows(calls.cast(mask, type.getElementType()), 8),
        {shape[0], shape[1], shape[2], attention.getKeyType().getDimSize(2)});
  Type logsumexp = RankedTensorType::get(
      {shape[0], shape[1], isTraining ? (shape[2] + 31) / 32 * 32 : 0},
      calls.builder.getF32Type());
  Type none = NoneType::get(calls.builder.getContext());
  SmallVector<NamedAttribute> args = getShared(calls, attention);
  args.push_back(calls.boolean("compute_log_sumexp", isTraining));
  aten::CallOp forward = calls.create(
      "_scaled_dot_product_efficient_attention",
      {attention.query, attention.key, attention.value, mask}, args,
      {attention.forward->getResult(0).getType(), logsumexp, none, none});
  for (aten::CallOp old : attention.backward) {
    KernelCalls calls(old);
    SmallVector<NamedAttribute> args = getBackward(calls, attention);
    args.push_back(
        calls.named("grad_input_mask",
                    calls.builder.getDenseBoolArrayAttr(
                        {true, true, true, bool(attention.maskGradient)})));
    SmallVector<Type> types(old->getResultTypes());
    types.push_back(
        attention.maskGradient
            ? Type(RankedTensorType::get(
                  llvm::cast<RankedTensorType>(mask.getType()).getShape(),
                  type.getElementType()))
            : none);
    Value absent;
    aten::CallOp now = calls.create(
        "_scaled_dot_product_efficient_attention_backward",
        {getTensor(old, "grad_out"), attention.query, attention.key,
         attention.value, mask, forward->getResult(0), forward->getResult(1),
         absent, absent},
        args, types);
    if (attention.maskGradient)
      attention.maskGradient.replaceAllUsesWith(calls.cast(
          now->getResult(3), getElementTypeOrSelf(attention.maskGradient)));
    replace(old, now, 3);
  }
  replace(attention.forward, forward, 1);
}

ArrayRef<AttentionKernel> fsdp::getAttentionKernels() {
  static const AttentionKernel kernels[] = {
      {"flash", flashMisfit, replaceByFlash},
      {"efficient", efficientMisfit, replaceByEfficient},
      {"cudnn", cudnnMisfit, replaceByCudnn}};
  return kernels;
}
