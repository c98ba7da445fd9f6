#include "operators/FirstCalls.h"

#include <ATen/ops/exp.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>

namespace fsdp {

void makeFirstCalls() {
  // Of a local static, the language says that one thread makes it.
  static const bool made = [] {
    at::Tensor numbers = at::ones({2, 2});
    at::exp(at::mm(numbers, numbers));
    return true;
  }();
  static_cast<void>(made);
}

} // namespace fsdp
