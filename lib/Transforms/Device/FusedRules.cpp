// Optimizer rules as one kernel.
//
// A rule says which optimizer it was captured from, and with what
// hyperparameters: nothing is read from its body.

#include "Device/FusedRules.h"

#include "fsdp/Dialect/Aten/FusedOptimizer.h"
#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"
#include "fsdp/Dialect/FSDP/FSDP.h"
#include "fsdp/Dialect/FSDP/UpdateCount.h"
#include "fsdp/Transforms/Programs.h"

using namespace mlir;
using namespace fsdp;

namespace {
/// The arguments of an optimizer's kernel, from its hyperparameters.
class KernelArguments {
public:
  KernelArguments(DictionaryAttr hyperparameters)
      : hyperparameters(hyperparameters),
        builder(hyperparameters.getContext()) {}

  std::optional<double> getNumber(StringRef name) const {
    auto number = hyperparameters.getAs<FloatAttr>(name);
    return number ? std::optional(number.getValueAsDouble()) : std::nullopt;
  }
  /// Whether each was there.
  bool isComplete() const { return complete; }
  ArrayRef<NamedAttribute> get() const { return args; }

  void add(StringRef name, Attribute value) {
    complete &= bool(value);
    if (value)
      args.push_back(builder.getNamedAttr(name, value));
  }
  void addNumber(StringRef name) {
    add(name, hyperparameters.getAs<FloatAttr>(name));
  }
  void addFlag(StringRef name) {
    add(name, hyperparameters.getAs<BoolAttr>(name));
  }
  void addBetas() {
    auto betas = hyperparameters.getAs<DenseF64ArrayAttr>("betas");
    complete &= betas && betas.size() == 2;
    if (!complete)
      return;
    add("beta1", builder.getF64FloatAttr(betas[0]));
    add("beta2", builder.getF64FloatAttr(betas[1]));
  }
  void addFlag(StringRef name, bool value) {
    add(name, builder.getBoolAttr(value));
  }

private:
  DictionaryAttr hyperparameters;
  Builder builder;
  SmallVector<NamedAttribute> args;
  bool complete = true;
};

/// torch.optim's kernel for an optimizer; "" where it has none.
StringRef getKernel(OptimizerAttr optimizer, KernelArguments &args) {
  StringRef name = optimizer.getName();
  args.addNumber("weight_decay");
  args.addFlag("maximize");
  if (name == "adam" || name == "adamw") {
    args.addBetas();
    args.addNumber("eps");
    args.addFlag("amsgrad");
    return name == "adam" ? "_fused_adam" : "_fused_adamw";
  }
  // With dampening the first step is another one, which a flag would say;
  // without, buffers are zero in it, so that it is like all others.
  if (name == "sgd" &&
      (args.getNumber("dampening") == 0 || args.getNumber("momentum") == 0)) {
    args.addNumber("momentum");
    args.addNumber("dampening");
    args.addFlag("nesterov");
    args.addFlag("is_first_step", false);
    return "_fused_sgd";
  }
  return "";
}
} // namespace

StringRef fsdp::fuseRule(func::FuncOp rule) {
  auto optimizer = kOptimizerAttr.get(rule);
  auto type = dyn_cast<TensorType>(rule.getArgument(0).getType());
  std::optional<int64_t> group;
  rule.walk([&](HyperparameterOp number) { group = number.getGroup(); });
  if (!optimizer || !group || !type || !isa<FloatType>(type.getElementType()))
    return "";
  KernelArguments args(optimizer.getHyperparameters());
  StringRef callee = getKernel(optimizer, args);
  if (callee.empty() || !args.isComplete())
    return "";
  Operation *end = rule.getBody().front().getTerminator();
  OpBuilder builder(end);
  Location loc = rule.getLoc();
  Type f64 = builder.getF64Type();
  Value rate = HyperparameterOp::create(builder, loc, f64, "lr", *group);
  Value step = createUpdateCount(builder, loc, kMissedAttr.get(rule));
  end->setOperands(aten::createFusedOptimizer(
      builder, loc, callee, rule.getArguments(), step, rate, args.get()));
  eraseDeadOps(rule);
  return callee;
}
