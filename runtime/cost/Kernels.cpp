// Matrix products, convolutions and attention, and the kernels that can compute
// each.

#include "cost/Kernels.h"
#include "cost/CommandCost.h"

#include <algorithm>
#include <cstdio>
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

static std::string textOf(const Numbers &numbers) {
  if (!numbers)
    return "none";
  std::string text;
  for (double value : *numbers) {
    char number[32];
    std::snprintf(number, sizeof(number), "%.9g", value);
    text += (text.empty() ? "" : " ") + std::string(number);
  }
  return numbers->size() == 1 ? text : "[" + text + "]";
}

std::string Product::text() const {
  std::string text = family + " " + plan::dtypeName(operands.front().dtype);
  for (const Operand &operand : operands) {
    text += " " + join(operand.shape, "x");
    if (operand.strides != plan::rowMajorStrides(operand.shape))
      text += "@" + join(operand.strides, ",");
  }
  for (size_t i = 0; i < numbers.size(); ++i)
    text += (i ? ", " : " (") + textOf(numbers[i]);
  return text + (numbers.empty() ? "" : ")");
}

void ProductArguments::add(Operand operand) {
  inOrder &= numbers.empty();
  operands.push_back(std::move(operand));
}

/// All of one of the types that kernels of several libraries take.
static bool areMultiplied(const std::vector<Operand> &operands, size_t count) {
  plan::DType dtype = operands.front().dtype;
  return operands.size() >= count &&
         (dtype == plan::DType::Float32 || dtype == plan::DType::BFloat16 ||
          dtype == plan::DType::Float16) &&
         std::all_of(operands.begin(), operands.begin() + count,
                     [&](const Operand &operand) {
                       return operand.dtype == dtype && !operand.shape.empty();
                     });
}

static bool isPlainProduct(const Product &product) {
  return product.operands.size() == 2 && product.numbers.empty() &&
         areMultiplied(product.operands, 2);
}

static bool isProductWithBias(const Product &product) {
  const std::vector<Operand> &operands = product.operands;
  return operands.size() == 3 && product.numbers.empty() &&
         areMultiplied(operands, 3) &&
         operands[0].shape == std::vector<int64_t>{operands[2].shape.back()};
}

/// ATen's kernel is the one for float32.
static bool isConvolution(const Product &product) {
  return product.operands.front().dtype != plan::DType::Float32 &&
         areMultiplied(product.operands, product.operands.size());
}

/// Numbers: dropout, whether it is causal, a mask, the scale.
static bool isPlainAttention(const Product &product, size_t operands,
                             size_t ofOneType) {
  const auto &numbers = product.numbers;
  auto isZero = [](const Numbers &given) {
    return !given || *given == std::vector<double>{0};
  };
  return product.operands.size() == operands && numbers.size() <= 4 &&
         areMultiplied(product.operands, ofOneType) &&
         (numbers.empty() || isZero(numbers[0])) &&
         (numbers.size() < 3 || !numbers[2]);
}

static bool isForwardAttention(const Product &product) {
  return isPlainAttention(product, 3, 3);
}

/// The sixth operand, logsumexp, is of float32 always.
static bool isBackwardAttention(const Product &product) {
  return isPlainAttention(product, 6, 5);
}

/// What all kernels of a family take.
static constexpr struct {
  std::string_view name;
  bool (*takes)(const Product &);
} families[] = {
    {"mm", isPlainProduct},
    {"addmm", isProductWithBias},
    {"bmm", isPlainProduct},
    {"convolution", isConvolution},
    {"convolution_backward", isConvolution},
    {"_scaled_dot_product_flash_attention_for_cpu", isForwardAttention},
    {"_scaled_dot_product_flash_attention_for_cpu_backward",
     isBackwardAttention},
};

std::optional<Product>
ProductArguments::productOf(std::string_view callee) const {
  const Kernel *kernel = findKernel(callee);
  if (!kernel || operands.empty() || !inOrder)
    return std::nullopt;
  Product product{std::string(kernel->family), operands, numbers};
  while (!product.numbers.empty() && !product.numbers.back())
    product.numbers.pop_back();
  for (const Operand &operand : operands)
    if (plan::numElements(operand.shape).value_or(0) == 0)
      return std::nullopt;
  for (const auto &family : families)
    if (family.name == kernel->family && family.takes(product))
      return product;
  return std::nullopt;
}

static std::optional<Product> productOf(const plan::ProgramT &program,
                                        const plan::AtenT &call) {
  ProductArguments arguments;
  for (const auto &argument : call.arguments) {
    switch (argument->kind) {
    case plan::ArgumentKind::Value: {
      if (argument->value < 0)
        return std::nullopt;
      const plan::ValueT &value = *program.values[argument->value];
      arguments.add({value.dtype, value.shape, value.strides});
      break;
    }
    case plan::ArgumentKind::Default:
    case plan::ArgumentKind::None:
      arguments.add(std::nullopt);
      break;
    case plan::ArgumentKind::Bool:
    case plan::ArgumentKind::Int:
      arguments.add(Numbers{{double(argument->i)}});
      break;
    case plan::ArgumentKind::BoolList:
    case plan::ArgumentKind::IntList:
      arguments.add(
          Numbers(std::in_place, argument->ints.begin(), argument->ints.end()));
      break;
    case plan::ArgumentKind::Double:
      arguments.add(Numbers{{argument->d.value_or(0)}});
      break;
    default:
      return std::nullopt;
    }
  }
  return arguments.productOf(calleeOf(call));
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

unsigned countNarrowAtenProducts(const plan::PlanT &plan) {
  unsigned count = 0;
  for (const auto &program : plan.programs)
    for (const auto &command : program->commands) {
      const plan::AtenT *call = command->operation.AsAten();
      const Kernel *kernel = call ? findKernel(calleeOf(*call)) : nullptr;
      if (!kernel || !kernel->exact)
        continue;
      std::optional<Product> product = productOf(*program, *call);
      count +=
          product && product->operands.front().dtype != plan::DType::Float32;
    }
  return count;
}

} // namespace fsdp::cost
