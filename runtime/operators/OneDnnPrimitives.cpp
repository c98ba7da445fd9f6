#include "operators/OneDnnPrimitives.h"

#include "operators/Operators.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <map>

namespace fsdp {

namespace {

using Layout = Owned<dnnl_memory_desc_t, &OneDnnFunctions::destroyLayout>;
using Attributes =
    Owned<dnnl_primitive_attr_t, &OneDnnFunctions::destroyAttributes>;
using Description =
    Owned<dnnl_primitive_desc_t, &OneDnnFunctions::destroyDescription>;

/// Of the process: oneDNN's CPU has no state that threads would share.
struct Cpu {
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  Cpu() {
    checkOneDnn(oneDnn().createEngine(&engine, dnnl_cpu, 0), "an engine");
    checkOneDnn(
        oneDnn().createStream(&stream, engine, dnnl_stream_default_flags),
        "a stream");
  }
};
const Cpu &cpu() {
  static const Cpu made; // never destroyed before the primitives
  return made;
}

dnnl_data_type_t oneDnnType(at::ScalarType type) {
  switch (type) {
  case at::kFloat:
    return dnnl_f32;
  case at::kBFloat16:
    return dnnl_bf16;
  case at::kHalf:
    return dnnl_f16;
  default:
    TORCH_CHECK(false,
                "oneDNN's products are for float32 and types of 16 bits "
                "here, not ",
                type);
  }
}

Layout describe(const TensorLayout &tensor) {
  dnnl_memory_desc_t layout;
  checkOneDnn(oneDnn().createLayout(
                  &layout, int(tensor.sizes.size()), tensor.sizes.data(),
                  oneDnnType(tensor.type), tensor.strides.data()),
              "a layout");
  return Layout(layout);
}

Attributes scratchFromCaller() {
  dnnl_primitive_attr_t made;
  checkOneDnn(oneDnn().createAttributes(&made), "attributes");
  Attributes attributes(made);
  checkOneDnn(oneDnn().setScratchpadMode(made, dnnl_scratchpad_mode_user),
              "a scratchpad");
  return attributes;
}

} // namespace

TensorLayout TensorLayout::transposed() const {
  TensorLayout turned = *this;
  size_t last = sizes.size() - 1;
  std::swap(turned.sizes[last - 1], turned.sizes[last]);
  std::swap(turned.strides[last - 1], turned.strides[last]);
  return turned;
}

PrimitiveProduct::PrimitiveProduct(const TensorLayout &left,
                                   const TensorLayout &right,
                                   const TensorLayout &result,
                                   const TensorLayout *bias) {
  Layout leftLayout = describe(left), rightLayout = describe(right),
         resultLayout = describe(result), biasLayout;
  if (bias) {
    int64_t size = bias->sizes[0];
    biasLayout = describe({bias->type, {1, size}, {size, 1}});
  }
  Attributes attributes = scratchFromCaller();
  dnnl_primitive_desc_t made;
  checkOneDnn(oneDnn().createMatmul(&made, cpu().engine, leftLayout.get(),
                                    rightLayout.get(), biasLayout.get(),
                                    resultLayout.get(), attributes.get()),
              "matrix product");
  Description description(made);
  dnnl_primitive_t kernel;
  checkOneDnn(oneDnn().createPrimitive(&kernel, made), "matrix product");
  primitive.reset(kernel);

  add(DNNL_ARG_SRC, leftLayout.get());
  add(DNNL_ARG_WEIGHTS, rightLayout.get());
  add(DNNL_ARG_DST, resultLayout.get());
  if (biasLayout)
    add(DNNL_ARG_BIAS, biasLayout.get());
  const_dnnl_memory_desc_t scratch =
      oneDnn().layoutOf(made, dnnl_query_scratchpad_md, 0);
  scratchBytes = int64_t(oneDnn().sizeOfLayout(scratch));
  if (scratchBytes > 0)
    add(DNNL_ARG_SCRATCHPAD, scratch);
}

void PrimitiveProduct::add(int argument, const_dnnl_memory_desc_t layout) {
  dnnl_memory_t memory;
  checkOneDnn(
      oneDnn().createMemory(&memory, layout, cpu().engine, DNNL_MEMORY_NONE),
      "memory");
  memories.emplace_back(memory);
  arguments.push_back({argument, memory});
}

void PrimitiveProduct::run(const void *left, const void *right, void *result,
                           const void *bias) {
  at::Tensor scratch; // from the allocator, which a plan's step has planned
  std::array<void *, 5> addresses{const_cast<void *>(left),
                                  const_cast<void *>(right), result};
  size_t count = 3;
  if (bias)
    addresses[count++] = const_cast<void *>(bias);
  if (scratchBytes > 0) {
    scratch = at::empty({scratchBytes}, at::kByte);
    addresses[count++] = scratch.data_ptr();
  }
  for (size_t i = 0; i < count; ++i)
    checkOneDnn(oneDnn().setAddress(arguments[i].memory, addresses[i]),
                "an address");
  checkOneDnn(oneDnn().execute(primitive.get(), cpu().stream,
                               int(arguments.size()), arguments.data()),
              "matrix product");
}

PrimitiveProduct &PrimitiveProduct::get(const TensorLayout &left,
                                        const TensorLayout &right,
                                        const TensorLayout &result,
                                        const TensorLayout *bias) {
  // Addresses are the primitive's, so each thread has its own. A primitive is
  // made for a number of threads.
  static thread_local std::map<std::vector<int64_t>, PrimitiveProduct> kept;
  std::vector<int64_t> key{at::get_num_threads(), bias != nullptr};
  for (const TensorLayout *tensor : {&left, &right, &result}) {
    key.push_back(int64_t(tensor->type));
    for (const at::DimVector *list : {&tensor->sizes, &tensor->strides})
      key.insert(key.end(), list->begin(), list->end());
  }
  auto found = kept.find(key);
  if (found == kept.end())
    found = kept.try_emplace(std::move(key), left, right, result, bias).first;
  return found->second;
}

namespace {

/// A plan's types say what these are; a forged one's may not.
void checkOperands(const at::Tensor &left, const at::Tensor &right,
                   const at::Tensor &bias, int64_t dimensions) {
  bool fit = left.dim() == dimensions && right.dim() == dimensions &&
             left.size(-1) == right.size(-2) &&
             (dimensions < 3 || left.size(0) == right.size(0)) &&
             left.scalar_type() == right.scalar_type();
  if (bias.defined())
    fit &= bias.dim() == 1 && bias.size(0) == right.size(-1) &&
           bias.scalar_type() == left.scalar_type();
  TORCH_CHECK(fit, "operands of ", left.scalar_type(), " ", left.sizes(),
              " and ", right.scalar_type(), " ", right.sizes(),
              " have no matrix product with this bias");
}

at::Tensor multiply(const at::Tensor &left, const at::Tensor &right,
                    const at::Tensor &bias, int64_t dimensions) {
  checkOperands(left, right, bias, dimensions);
  at::DimVector sizes(left.sizes());
  sizes.back() = right.sizes().back();
  at::Tensor result = at::empty(sizes, left.options());
  // oneDNN reads a bias as if its numbers lay side by side, whatever its
  // stride.
  at::Tensor dense = bias.defined() ? bias.contiguous() : bias;
  TensorLayout biasLayout =
      bias.defined() ? TensorLayout::of(dense) : TensorLayout();
  PrimitiveProduct::get(TensorLayout::of(left), TensorLayout::of(right),
                        TensorLayout::of(result),
                        bias.defined() ? &biasLayout : nullptr)
      .run(left.const_data_ptr(), right.const_data_ptr(), result.data_ptr(),
           bias.defined() ? dense.const_data_ptr() : nullptr);
  return result;
}

} // namespace

at::Tensor mmOneDnnPrimitive(const at::Tensor &self, const at::Tensor &mat2) {
  return multiply(self, mat2, {}, 2);
}

at::Tensor bmmOneDnnPrimitive(const at::Tensor &self, const at::Tensor &mat2) {
  return multiply(self, mat2, {}, 3);
}

at::Tensor addmmOneDnnPrimitive(const at::Tensor &bias, const at::Tensor &mat1,
                                const at::Tensor &mat2) {
  return multiply(mat1, mat2, bias, 2);
}

} // namespace fsdp
