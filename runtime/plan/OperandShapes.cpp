// What PyTorch's kernels on CPUs do not ask of their operands. Each operator
// here was seen to leave its operands' memory when it was called with shapes
// that do not fit each other (test/kernels). What those must be is here
// exactly what its forward operator gives, or what autograd gives it.
#include "plan/OperandShapes.h"

#include <algorithm>
#include <cmath>
#include <set>

using namespace fsdp::plan;

namespace {

using Shape = std::vector<int64_t>;

int64_t product(Shape::const_iterator begin, Shape::const_iterator end) {
  int64_t count = 1; // values' shapes have been checked
  for (; begin != end; ++begin)
    count *= *begin;
  return count;
}
int64_t numel(const Shape &shape) {
  return product(shape.begin(), shape.end());
}
bool isPositive(const Shape &shape) {
  return std::all_of(shape.begin(), shape.end(),
                     [](int64_t size) { return size > 0; });
}
/// All but the last `dims` dimensions.
Shape leading(const Shape &shape, size_t dims) {
  return Shape(shape.begin(), shape.end() - std::min(dims, shape.size()));
}
Shape last(const Shape &shape, size_t dims) {
  return Shape(shape.end() - std::min(dims, shape.size()), shape.end());
}

/// A call's operands and constants by their schema's names.
class Operands {
public:
  Operands(const ProgramT &program, const AtenT &call,
           const OperatorSchema &schema)
      : program(program), call(call), schema(schema) {}

  bool has(std::string_view name) const { return tensor(name) != nullptr; }
  /// Of an operand that is absent: none.
  Shape shape(std::string_view name) const {
    const ValueT *value = tensor(name);
    return value ? value->shape : Shape();
  }
  /// Each tensor of a list.
  std::vector<Shape> shapes(std::string_view name) const {
    std::vector<Shape> all;
    if (const ArgumentT *given = find(name))
      for (int value : given->values)
        all.push_back(program.values[value]->shape);
    return all;
  }
  Shape integers(std::string_view name) const {
    const ArgumentT *given = find(name);
    return given ? given->ints : Shape();
  }
  std::optional<int64_t> integer(std::string_view name) const {
    const ArgumentT *given = find(name);
    return given && given->kind == ArgumentKind::Int ? std::optional(given->i)
                                                     : std::nullopt;
  }
  /// Whether an optional number is left out, or a constant.
  bool isConstant(std::string_view name, std::optional<double> &number) const {
    const ArgumentT *given = find(name);
    if (!given || given->kind == ArgumentKind::None ||
        given->kind == ArgumentKind::Default)
      return true;
    if (given->kind == ArgumentKind::Double)
      number = given->d;
    else if (given->kind == ArgumentKind::Int)
      number = double(given->i);
    return number.has_value();
  }
  /// Whether all of these have one shape, but for those that are absent.
  bool haveSameShape(std::initializer_list<std::string_view> names) const {
    const ValueT *first = nullptr;
    for (std::string_view name : names)
      if (const ValueT *value = tensor(name)) {
        first = first ? first : value;
        if (value->shape != first->shape)
          return false;
      }
    return true;
  }
  /// Whether each of these has so many elements, or is absent.
  bool haveElements(int64_t count,
                    std::initializer_list<std::string_view> names) const {
    return std::all_of(names.begin(), names.end(), [&](std::string_view name) {
      return !has(name) || numel(shape(name)) == count;
    });
  }

private:
  const ArgumentT *find(std::string_view name) const {
    for (size_t i = 0; i < call.arguments.size(); ++i)
      if (schema.arguments[i].name == name)
        return call.arguments[i].get();
    return nullptr;
  }
  const ValueT *tensor(std::string_view name) const {
    const ArgumentT *given = find(name);
    return given && given->kind == ArgumentKind::Value
               ? program.values[given->value].get()
               : nullptr;
  }

  const ProgramT &program;
  const AtenT &call;
  const OperatorSchema &schema;
};

bool isSoftmaxSlope(const Operands &of) {
  return of.haveSameShape({"grad_output", "output"});
}

bool isDistanceSlope(const Operands &of) {
  Shape self = of.shape("self");
  return self.size() == 2 && isPositive(self) &&
         of.haveSameShape({"grad", "pdist"}) &&
         numel(of.shape("grad")) ==
             self[0] * std::max<int64_t>(self[0] - 1, 0) / 2;
}

/// The gradient of a pooling's result, over the last `dims` dimensions.
template <size_t dims> bool isPoolSlope(const Operands &of) {
  Shape self = of.shape("self"), slope = of.shape("grad_output");
  bool isPool = self.size() == dims + 1 || self.size() == dims + 2;
  return isPool && self.size() == slope.size() &&
         of.haveSameShape({"grad_output", "indices"}) &&
         leading(self, dims) == leading(slope, dims) && isPositive(self) &&
         isPositive(slope);
}

/// Of what was padded on both sides of the last `dims` dimensions.
template <size_t dims> bool isPadded(const Operands &of) {
  size_t rank = of.shape("self").size();
  return of.integers("padding").size() == 2 * dims &&
         (rank == dims + 1 || rank == dims + 2);
}
template <size_t dims> bool isPadSlope(const Operands &of) {
  if (!isPadded<dims>(of))
    return false;
  Shape shape = of.shape("self"), padding = of.integers("padding");
  for (size_t i = 0; i < dims; ++i)
    if (__builtin_add_overflow(shape[shape.size() - 1 - i], padding[2 * i],
                               &shape[shape.size() - 1 - i]) ||
        __builtin_add_overflow(shape[shape.size() - 1 - i], padding[2 * i + 1],
                               &shape[shape.size() - 1 - i]))
      return false;
  return shape == of.shape("grad_output") && isPositive(shape) &&
         isPositive(of.shape("self"));
}

bool isUnfoldSlope(const Operands &of) {
  Shape shape = of.integers("input_sizes");
  int64_t dim = of.integer("dim").value_or(-1),
          size = of.integer("size").value_or(0),
          step = of.integer("step").value_or(0), rank = shape.size();
  dim += dim < 0 ? rank : 0;
  if (dim < 0 || dim >= rank || size < 1 || step < 1 || size > shape[dim])
    return false;
  shape[dim] = (shape[dim] - size) / step + 1;
  shape.push_back(size);
  return shape == of.shape("grad_in");
}

template <size_t dims> bool isGridSlope(const Operands &of) {
  Shape input = of.shape("input"), grid = of.shape("grid");
  if (input.size() != dims + 2 || grid.size() != dims + 2)
    return false;
  Shape slope = {input[0], input[1]};
  slope.insert(slope.end(), grid.begin() + 1, grid.end() - 1);
  return grid[0] == input[0] && grid.back() == int64_t(dims) &&
         of.shape("grad_output") == slope && isPositive(input) &&
         isPositive(slope);
}

bool isLayerNormSlope(const Operands &of) {
  Shape input = of.shape("input"), inner = of.integers("normalized_shape");
  Shape rows = leading(input, inner.size());
  rows.resize(input.size(), 1);
  auto isParameter = [&](std::string_view name) {
    return !of.has(name) || of.shape(name) == inner;
  };
  return inner.size() <= input.size() && last(input, inner.size()) == inner &&
         of.haveSameShape({"grad_out", "input"}) && of.shape("mean") == rows &&
         of.shape("rstd") == rows && isParameter("weight") &&
         isParameter("bias");
}

/// What there is once for each channel of the input.
bool isBatchNorm(const Operands &of) {
  Shape input = of.shape("input");
  return input.size() >= 2 && isPositive(input) &&
         of.haveSameShape({"grad_out", "grad_output", "input"}) &&
         of.haveElements(input[1],
                         {"weight", "bias", "running_mean", "running_var",
                          "save_mean", "save_invstd", "save_var"});
}

bool isAttention(const Operands &of) {
  Shape q = of.shape("query"), k = of.shape("key"), v = of.shape("value");
  if (q.size() != 4 || k.size() != 4 || v.size() != 4 || !isPositive(q) ||
      !isPositive(k) || !isPositive(v))
    return false;
  bool fits = q[0] == k[0] && q[1] % k[1] == 0 && q[3] == k[3] &&
              v == Shape{k[0], k[1], k[2], v[3]};
  Shape mask = of.shape("attn_mask"), all = {q[0], q[1], q[2], k[2]};
  fits = fits && mask.size() <= 4;
  for (size_t i = 0; fits && i < mask.size(); ++i)
    fits = mask[mask.size() - 1 - i] == 1 ||
           mask[mask.size() - 1 - i] == all[3 - i];
  return fits;
}
bool isAttentionSlope(const Operands &of) {
  if (!isAttention(of))
    return false;
  Shape q = of.shape("query"), v = of.shape("value");
  return of.shape("out") == Shape{q[0], q[1], q[2], v[3]} &&
         of.haveSameShape({"grad_out", "out"}) &&
         of.shape("logsumexp") == Shape{q[0], q[1], q[2]};
}

/// The scales are those of the sizes, or there are none.
bool isResampled(const Operands &of, const Shape &from) {
  Shape to = of.integers("output_size");
  if (from.size() != 4 || to.size() != 2 || !isPositive(from) ||
      !isPositive(to))
    return false;
  const char *names[] = {"scales_h", "scales_w"};
  for (size_t i = 0; i < 2; ++i) {
    std::optional<double> scale;
    if (!of.isConstant(names[i], scale) ||
        (scale && std::floor(double(from[2 + i]) * *scale) != double(to[i])))
      return false;
  }
  return true;
}
bool isResampling(const Operands &of) {
  return isResampled(of, of.shape("self"));
}
bool isResamplingSlope(const Operands &of) {
  Shape from = of.integers("input_size"), to = of.integers("output_size");
  return isResampled(of, from) &&
         of.shape("grad_output") == Shape{from[0], from[1], to[0], to[1]};
}

bool isTransform(const Operands &of) {
  Shape self = of.shape("self"), dims = of.integers("dim");
  std::set<int64_t> seen;
  for (int64_t dim : dims)
    if (dim < 0 || dim >= int64_t(self.size()) || !seen.insert(dim).second)
      return false;
  std::optional<int64_t> size = of.integer("last_dim_size");
  return !size ||
         (!dims.empty() && *size >= 1 && self[dims.back()] == *size / 2 + 1);
}

bool isFactored(const Operands &of) {
  Shape self = of.shape("LU_data"), pivots = of.shape("LU_pivots");
  if (self.size() < 2)
    return false;
  Shape expected = leading(self, 2);
  expected.push_back(std::min(self[self.size() - 2], self.back()));
  return pivots == expected;
}

/// Of a class for each sample, or for each of its pixels.
bool isClassSlope(const Operands &of) {
  Shape self = of.shape("self"), target = of.shape("target");
  if (self.empty())
    return false;
  Shape each = self;
  each.erase(each.begin() + (self.size() == 1 ? 0 : 1));
  int64_t classes = self.size() == 1 ? self[0] : self[1];
  bool fits = target == each || (self.size() == 1 && numel(target) == 1);
  return fits && classes > 0 && of.haveElements(classes, {"weight"}) &&
         of.haveElements(1, {"total_weight"}) &&
         (numel(of.shape("grad_output")) == 1 ||
          of.shape("grad_output") == target);
}

bool isMarginSlope(const Operands &of) {
  Shape self = of.shape("self");
  int64_t samples = self.size() == 2 ? self[0] : 1;
  return (self.size() == 1 || self.size() == 2) && isPositive(self) &&
         of.haveSameShape({"self", "target", "is_target"}) &&
         of.haveElements(of.integer("reduction").value_or(0) ? 1 : samples,
                         {"grad_output"});
}

bool isWeightNormSlope(const Operands &of) {
  Shape v = of.shape("saved_v");
  int64_t dim = of.integer("dim").value_or(-1);
  return !v.empty() && (dim == 0 || dim == int64_t(v.size()) - 1) &&
         of.haveSameShape({"grad_w", "saved_v"}) &&
         of.haveElements(v[dim], {"saved_g", "saved_norms"});
}

bool isSolved(const Operands &of) {
  Shape self = of.shape("self"), by = of.shape("A");
  return self.size() >= 2 && self.size() == by.size() &&
         leading(self, 2) == leading(by, 2) &&
         by[by.size() - 1] == by[by.size() - 2] &&
         self[self.size() - 2] == by.back();
}

/// Labels of as many samples as there are, no longer than the kernel is told.
bool isAlignment(const Operands &of) {
  Shape probabilities = of.shape("log_probs"), targets = of.shape("targets"),
        steps = of.integers("input_lengths"),
        labels = of.integers("target_lengths");
  if (probabilities.size() != 3 && probabilities.size() != 2)
    return false;
  int64_t samples = probabilities.size() == 3 ? probabilities[1] : 1, sum = 0,
          longest = 0, classes = probabilities.back(),
          blank = of.integer("blank").value_or(0);
  if (int64_t(steps.size()) != samples || int64_t(labels.size()) != samples ||
      blank < 0 || blank >= classes)
    return false;
  for (int64_t length : steps)
    if (length < 0 || length > probabilities[0])
      return false;
  for (int64_t length : labels) {
    if (length < 0 || length > numel(targets))
      return false;
    sum += length;
    longest = std::max(longest, length);
  }
  bool holds = targets.size() == 1
                   ? sum <= targets[0]
                   : targets.size() == 2 && targets[0] == samples &&
                         longest <= targets[1];
  if (!holds || !of.has("log_alpha"))
    return holds;
  Shape table = {samples, probabilities[0], 2 * longest + 1};
  if (probabilities.size() == 2)
    table.erase(table.begin());
  return of.shape("log_alpha") == table &&
         of.haveElements(samples, {"grad", "neg_log_likelihood"});
}

/// One sum for each bag, of rows that indices name.
bool isBag(const Operands &of) {
  Shape indices = of.shape("indices"), offsets = of.shape("offsets");
  return of.shape("weight").size() == 2 && isPositive(of.shape("weight")) &&
         indices.size() == 1 && offsets.size() == 1 && offsets[0] > 0 &&
         of.haveElements(indices[0], {"per_sample_weights"});
}

/// The gradient of such sums. Where each row belongs may be left to the kernel.
bool isBagSlope(const Operands &of) {
  Shape slope = of.shape("grad"), indices = of.shape("indices");
  if (slope.size() != 2 || indices.size() != 1 || !isPositive(slope))
    return false;
  bool isLeft = of.has("offsets") && !numel(of.shape("offset2bag"));
  // Behind the last bag may be where it ends.
  if (of.has("offsets") && of.shape("offsets") != Shape{slope[0]} &&
      of.shape("offsets") != Shape{slope[0] + 1})
    return false;
  bool isLargest = of.integer("mode") == 2 && of.has("maximum_indices");
  return (isLeft || of.haveElements(indices[0], {"offset2bag"})) &&
         of.haveElements(indices[0], {"per_sample_weights"}) &&
         of.haveElements(slope[0], {"bag_size"}) &&
         (!of.has("weight") || (of.shape("weight").size() == 2 &&
                                of.shape("weight")[1] == slope[1])) &&
         (!isLargest || of.shape("maximum_indices") == slope);
}

/// Every list has as many tensors of one shape; but for the steps, which are
/// numbers.
bool isFusedStep(const Operands &of) {
  std::vector<Shape> first = of.shapes("self");
  for (const char *name :
       {"grads", "exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs",
        "momentum_buffer_list", "state_sums"})
    if (std::vector<Shape> list = of.shapes(name);
        !list.empty() && list != first)
      return false;
  return of.haveElements(1, {"grad_scale", "found_inf"});
}

struct Contract {
  std::string_view name; // of all overloads
  bool (*holds)(const Operands &);
};
constexpr Contract contracts[] = {
    {"aten::_log_softmax_backward_data", isSoftmaxSlope},
    {"aten::_softmax_backward_data", isSoftmaxSlope},
    {"aten::_pdist_backward", isDistanceSlope},
    {"aten::max_pool2d_with_indices_backward", isPoolSlope<2>},
    {"aten::max_pool3d_with_indices_backward", isPoolSlope<3>},
    {"aten::adaptive_max_pool2d_backward", isPoolSlope<2>},
    {"aten::adaptive_max_pool3d_backward", isPoolSlope<3>},
    {"aten::fractional_max_pool2d_backward", isPoolSlope<2>},
    {"aten::fractional_max_pool3d_backward", isPoolSlope<3>},
    {"aten::avg_pool2d_backward", isPoolSlope<2>},
    {"aten::avg_pool3d_backward", isPoolSlope<3>},
    {"aten::_adaptive_avg_pool2d_backward", isPoolSlope<2>},
    {"aten::_adaptive_avg_pool3d_backward", isPoolSlope<3>},
    {"aten::reflection_pad1d", isPadded<1>},
    {"aten::reflection_pad2d", isPadded<2>},
    {"aten::reflection_pad3d", isPadded<3>},
    {"aten::replication_pad1d", isPadded<1>},
    {"aten::replication_pad2d", isPadded<2>},
    {"aten::replication_pad3d", isPadded<3>},
    {"aten::reflection_pad1d_backward", isPadSlope<1>},
    {"aten::reflection_pad2d_backward", isPadSlope<2>},
    {"aten::reflection_pad3d_backward", isPadSlope<3>},
    {"aten::replication_pad1d_backward", isPadSlope<1>},
    {"aten::replication_pad2d_backward", isPadSlope<2>},
    {"aten::replication_pad3d_backward", isPadSlope<3>},
    {"aten::unfold_backward", isUnfoldSlope},
    {"aten::grid_sampler_2d_backward", isGridSlope<2>},
    {"aten::grid_sampler_3d_backward", isGridSlope<3>},
    {"aten::native_layer_norm_backward", isLayerNormSlope},
    {"aten::native_batch_norm_backward", isBatchNorm},
    {"aten::batch_norm_backward", isBatchNorm},
    {"aten::_native_batch_norm_legit", isBatchNorm},
    {"aten::_native_batch_norm_legit_functional", isBatchNorm},
    {"aten::_native_batch_norm_legit_no_training", isBatchNorm},
    {"aten::_batch_norm_no_update", isBatchNorm},
    {"aten::_batch_norm_with_update_functional", isBatchNorm},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", isAttention},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward",
     isAttentionSlope},
    {"aten::_upsample_bilinear2d_aa", isResampling},
    {"aten::_upsample_bicubic2d_aa", isResampling},
    {"aten::_upsample_bilinear2d_aa_backward", isResamplingSlope},
    {"aten::_upsample_bicubic2d_aa_backward", isResamplingSlope},
    {"aten::_fft_c2c", isTransform},
    {"aten::_fft_c2r", isTransform},
    {"aten::_fft_r2c", isTransform},
    {"aten::lu_unpack", isFactored},
    {"aten::nll_loss_backward", isClassSlope},
    {"aten::nll_loss2d_backward", isClassSlope},
    {"aten::multilabel_margin_loss_backward", isMarginSlope},
    {"aten::_weight_norm_interface_backward", isWeightNormSlope},
    {"aten::_cholesky_solve_helper", isSolved},
    {"aten::_ctc_loss", isAlignment},
    {"aten::_ctc_loss_backward", isAlignment},
    {"aten::_embedding_bag", isBag},
    {"aten::_embedding_bag_forward_only", isBag},
    {"aten::_embedding_bag_backward", isBagSlope},
    {"aten::_embedding_bag_dense_backward", isBagSlope},
    {"aten::_embedding_bag_per_sample_weights_backward", isBagSlope},
    {"aten::_fused_adam", isFusedStep},
    {"aten::_fused_adamw", isFusedStep},
    {"aten::_fused_sgd", isFusedStep},
    {"aten::_fused_adagrad", isFusedStep},
};

const Contract *find(const std::string &name) {
  for (const Contract &contract : contracts)
    if (contract.name == name)
      return &contract;
  return nullptr;
}

} // namespace

bool fsdp::plan::trustsShapes(const std::string &name) {
  return find(name) != nullptr;
}

std::string fsdp::plan::misfitOf(const ProgramT &program, const AtenT &call,
                                 const OperatorSchema &schema) {
  const Contract *contract = find(call.name);
  if (!contract || contract->holds(Operands(program, call, schema)))
    return "";
  std::string text;
  for (size_t i = 0; i < call.arguments.size(); ++i)
    if (call.arguments[i]->kind == ArgumentKind::Value)
      text += (text.empty() ? "" : ", ") + schema.arguments[i].name + " " +
              formatShape(program.values[call.arguments[i]->value]->shape);
  return text;
}
