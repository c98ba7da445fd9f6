#ifndef FSDP_RUNTIME_DEVICE_TENSORAT_H
#define FSDP_RUNTIME_DEVICE_TENSORAT_H

#include <ATen/ops/from_blob.h>

namespace fsdp {

/// A tensor of memory that outlives it, in elements. PyTorch is told whose
/// memory it is: of a GPU's it would ask CUDA, which knows nothing of an empty
/// tensor behind the last byte.
inline at::Tensor tensorAt(const void *address, c10::IntArrayRef sizes,
                           c10::IntArrayRef strides, at::ScalarType dtype,
                           c10::Device device) {
  return at::for_blob(const_cast<void *>(address), sizes)
      .strides(strides)
      .options(at::TensorOptions(dtype).device(device))
      .target_device(device)
      .make_tensor();
}

/// Row-major.
inline at::Tensor tensorAt(const void *address, c10::IntArrayRef sizes,
                           at::ScalarType dtype, c10::Device device) {
  return at::for_blob(const_cast<void *>(address), sizes)
      .options(at::TensorOptions(dtype).device(device))
      .target_device(device)
      .make_tensor();
}

/// Of one dimension, or of none.
inline at::Tensor tensorAt(const void *address, int64_t count,
                           at::ScalarType dtype, c10::Device device) {
  return tensorAt(address, {count}, {1}, dtype, device);
}
inline at::Tensor numberAt(const void *address, at::ScalarType dtype,
                           c10::Device device) {
  return tensorAt(address, c10::IntArrayRef(), c10::IntArrayRef(), dtype,
                  device);
}

} // namespace fsdp

#endif // FSDP_RUNTIME_DEVICE_TENSORAT_H
