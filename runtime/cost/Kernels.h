// Matrix products and attention, and the kernels that can compute each.
#ifndef FSDP_RUNTIME_COST_KERNELS_H
#define FSDP_RUNTIME_COST_KERNELS_H

#include "plan/PlanTypes.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp::cost {

/// A row of Kernels.def.
struct Kernel {
  std::string_view family, name, callee;
  bool exact;
};

/// The kernel of that callee, "mm" or "fsdp_mlir::mm.onednn"; null where it is
/// no kernel of a product.
const Kernel *findKernel(std::string_view callee);

/// All that compute a family's products; ATen's comes first.
std::vector<const Kernel *> kernelsOf(std::string_view family);

/// How a tensor lies in memory: sizes and strides, in elements.
struct Operand {
  plan::DType dtype{};
  std::vector<int64_t> shape, strides;
};

/// A number, a truth (0 or 1), or a list of them; nothing: None, or the
/// default.
using Numbers = std::optional<std::vector<double>>;

/// A matrix product, a convolution or an attention that all kernels of its
/// family can compute, whichever of them it is now computed by. Kernels are as
/// fast as its text says: two products with the same one take the same time.
struct Product {
  std::string family;
  /// The tensors that the operator is called with, in the schema's order, and
  /// what stands behind them, to the last one that is there.
  std::vector<Operand> operands;
  std::vector<Numbers> numbers;

  /// "mm float32 512x256 256x768@1,256": strides where they are not row-major,
  /// and numbers, where there are any, as "(0, [1 1], none, 0.125)".
  std::string text() const;
};

/// Collects what a call is given, in the schema's order.
class ProductArguments {
public:
  void add(Operand operand);
  void add(Numbers given) { numbers.push_back(std::move(given)); }
  /// The product that the call computes; nothing where that is no product, or
  /// one that only ATen's kernel takes: of integers or wider than float32,
  /// empty, with something else than a row as bias, with a factor, a mask or
  /// dropout; a convolution of float32.
  std::optional<Product> productOf(std::string_view callee) const;

private:
  std::vector<Operand> operands;
  std::vector<Numbers> numbers;
  bool inOrder = true;
};

/// How often each product of a plan's program is computed in a run of it, by
/// text.
struct ProductUses {
  Product product;
  unsigned uses = 0;
};
std::map<std::string, ProductUses> productsOf(const plan::ProgramT &program);

/// How many products of types of 16 bits ATen's kernels compute in a run of
/// each program of a plan.
unsigned countNarrowAtenProducts(const plan::PlanT &plan);

} // namespace fsdp::cost

#endif // FSDP_RUNTIME_COST_KERNELS_H
