// Matrix products by primitives of oneDNN that are made once and kept. PyTorch
// looks its own up at every call, which takes longer than a small product.

#include "operators/OneDnnLibrary.h"
#include "operators/Operators.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <array>
#include <map>
#include <memory>

namespace fsdp {

namespace {

/// What oneDNN gives as a pointer, and takes back by one function.
template <typename Handle, auto OneDnnFunctions::*destroy> struct Destroy {
  void operator()(Handle handle) const { (oneDnn().*destroy)(handle); }
};
template <typename Handle, auto OneDnnFunctions::*destroy>
using Owned =
    std::unique_ptr<std::remove_pointer_t<Handle>, Destroy<Handle, destroy>>;

using Layout = Owned<dnnl_memory_desc_t, &OneDnnFunctions::destroyLayout>;
using Attributes =
    Owned<dnnl_primitive_attr_t, &OneDnnFunctions::destroyAttributes>;
using Description =
    Owned<dnnl_primitive_desc_t, &OneDnnFunctions::destroyDescription>;
using Primitive = Owned<dnnl_primitive_t, &OneDnnFunctions::destroyPrimitive>;
using Memory = Owned<dnnl_memory_t, &OneDnnFunctions::destroyMemory>;

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

dnnl_data_type_t typeOf(const at::Tensor &tensor) {
  switch (tensor.scalar_type()) {
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
                tensor.scalar_type());
  }
}

Layout layoutOf(at::IntArrayRef sizes, at::IntArrayRef strides,
                dnnl_data_type_t type) {
  dnnl_memory_desc_t layout;
  checkOneDnn(oneDnn().createLayout(&layout, int(sizes.size()), sizes.data(),
                                    type, strides.data()),
              "a layout");
  return Layout(layout);
}

Memory memoryOf(const_dnnl_memory_desc_t layout) {
  dnnl_memory_t memory;
  checkOneDnn(
      oneDnn().createMemory(&memory, layout, cpu().engine, DNNL_MEMORY_NONE),
      "memory");
  return Memory(memory);
}

/// A product of tensors that lie in memory in one way.
class PrimitiveProduct {
public:
  /// `bias`: [n], or undefined.
  PrimitiveProduct(const at::Tensor &left, const at::Tensor &right,
                   const at::Tensor &bias, const at::Tensor &result) {
    dnnl_data_type_t type = typeOf(left);
    Layout leftLayout = layoutOf(left.sizes(), left.strides(), type);
    Layout rightLayout = layoutOf(right.sizes(), right.strides(), type);
    Layout resultLayout = layoutOf(result.sizes(), result.strides(), type);
    Layout biasLayout;
    if (bias.defined()) {
      std::array<int64_t, 2> sizes{1, bias.size(0)},
          strides{bias.size(0) * bias.stride(0), bias.stride(0)};
      biasLayout = layoutOf(sizes, strides, type);
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

  void run(const at::Tensor &left, const at::Tensor &right,
           const at::Tensor &bias, const at::Tensor &result) {
    at::Tensor scratch; // from the allocator, which a plan's step has planned
    std::array<void *, 5> addresses{left.data_ptr(), right.data_ptr(),
                                    result.data_ptr()};
    size_t count = 3;
    if (bias.defined())
      addresses[count++] = bias.data_ptr();
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

private:
  static Attributes scratchFromCaller() {
    dnnl_primitive_attr_t made;
    checkOneDnn(oneDnn().createAttributes(&made), "attributes");
    Attributes attributes(made);
    checkOneDnn(oneDnn().setScratchpadMode(made, dnnl_scratchpad_mode_user),
                "a scratchpad");
    return attributes;
  }

  void add(int argument, const_dnnl_memory_desc_t layout) {
    memories.push_back(memoryOf(layout));
    arguments.push_back({argument, memories.back().get()});
  }

  Primitive primitive;
  std::vector<Memory> memories;
  std::vector<dnnl_exec_arg_t> arguments;
  int64_t scratchBytes = 0;
};

using Key = std::vector<int64_t>;

Key keyOf(const at::Tensor &left, const at::Tensor &right,
          const at::Tensor &bias) {
  // A primitive is made for a number of threads.
  Key key{at::get_num_threads(), int64_t(left.scalar_type())};
  for (const at::Tensor *tensor : {&left, &right})
    for (at::IntArrayRef list : {tensor->sizes(), tensor->strides()})
      key.insert(key.end(), list.begin(), list.end());
  if (bias.defined())
    key.push_back(bias.stride(0));
  return key;
}

at::Tensor multiply(const at::Tensor &left, const at::Tensor &right,
                    const at::Tensor &bias) {
  // Addresses are the primitive's, so each thread has its own.
  static thread_local std::map<Key, PrimitiveProduct> kept;
  at::DimVector sizes(left.sizes());
  sizes.back() = right.sizes().back();
  at::Tensor result = at::empty(sizes, left.options());
  Key key = keyOf(left, right, bias);
  auto found = kept.find(key);
  if (found == kept.end())
    found = kept.try_emplace(std::move(key), left, right, bias, result).first;
  found->second.run(left, right, bias, result);
  return result;
}

} // namespace

at::Tensor mmOneDnnPrimitive(const at::Tensor &self, const at::Tensor &mat2) {
  return multiply(self, mat2, {});
}

at::Tensor bmmOneDnnPrimitive(const at::Tensor &self, const at::Tensor &mat2) {
  return multiply(self, mat2, {});
}

at::Tensor addmmOneDnnPrimitive(const at::Tensor &bias, const at::Tensor &mat1,
                                const at::Tensor &mat2) {
  return multiply(mat1, mat2, bias);
}

} // namespace fsdp
