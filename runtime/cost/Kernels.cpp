// Matrix products, and the kernels that can compute each.

#include "cost/Kernels.h"
#include "cost/CommandCost.h"

#include <algorithm>
#include <iterator>

namespace fsdp::cost {

static constexpr Kernel kernels[] = {
#define KERNEL(family, name, callee, exact) {family, name, callee, exact},
#include "cost/Kernels.def"
#undef KERNEL
};

const Kernel *findKernel(std::string_view callee) {
  auto found =
      std::find_if(std::begin(kernels), std::end(kernels),
                   [&](const Kernel &row) { return row.callee == callee; });
  return found == std::end(kernels) ? nullptr : found;
}

std::vector<const Kernel *> kernelsOf(std::string_view family) {
  std::vector<const Kernel *> rows;
  for (const Kernel &row : kernels)
    if (row.family == family)
      rows.push_back(&row);
  return rows;
}

static std::string join(const std::vector<int64_t> &numbers,
                        const char *separator) {
  std::string text;
  for (size_t i = 0; i < numbers.size(); ++i)
    text += (i ? separator : "") + std::to_string(numbers[i]);
  return text;
}

std::string Product::text() const {
  std::string text = family + " " + plan::dtypeName(operands.front().dtype);
  for (const Operand &operand : operands) {
    text += " " + join(operand.shape, "x");
    if (operand.strides != plan::rowMajorStrides(operand.shape))
      text += "@" + join(operand.strides, ",");
  }
  return text;
}

std::optional<Product> productOf(std::string_view callee,
                                 std::vector<Operand> operands) {
  const Kernel *kernel = findKernel(callee);
  if (!kernel || operands.empty())
    return std::nullopt;
  plan::DType dtype = operands.front().dtype;
  if (dtype != plan::DType::Float32 && dtype != plan::DType::BFloat16 &&
      dtype != plan::DType::Float16)
    return std::nullopt;
  for (const Operand &operand : operands)
    if (operand.dtype != dtype ||
        plan::numElements(operand.shape).value_or(0) == 0)
      return std::nullopt;
  if (kernel->family == "addmm" &&
      operands.front().shape !=
          std::vector<int64_t>{operands.back().shape.back()})
    return std::nullopt;
  return Product{std::string(kernel->family), std::move(operands)};
}

static std::optional<Product> productOf(const plan::ProgramT &program,
                                        const plan::AtenT &call) {
  std::vector<Operand> operands;
  for (const auto &argument : call.arguments) {
    if (argument->kind == plan::ArgumentKind::Default)
      continue;
    if (argument->kind != plan::ArgumentKind::Value || argument->value < 0)
      return std::nullopt;
    const plan::ValueT &value = *program.values[argument->value];
    operands.push_back({value.dtype, value.shape, value.strides});
  }
  return productOf(calleeOf(call), std::move(operands));
}

std::map<std::string, ProductUses> productsOf(const plan::ProgramT &program) {
  std::map<std::string, ProductUses> products;
  for (const auto &command : program.commands)
    if (const plan::AtenT *call = command->operation.AsAten())
      if (std::optional<Product> product = productOf(program, *call)) {
        ProductUses &known = products[product->text()];
        known.product = std::move(*product);
        ++known.uses;
      }
  return products;
}

} // namespace fsdp::cost
