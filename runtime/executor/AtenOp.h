#ifndef FSDP_RUNTIME_EXECUTOR_ATENOP_H
#define FSDP_RUNTIME_EXECUTOR_ATENOP_H

#include "device/ScalarType.h"
#include "executor/IndexBounds.h"
#include "executor/SiteRandom.h"
#include "executor/StepNumbers.h"
#include "plan/PlanTypes.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace fsdp {

/// An operator of the plan, found by name and its constant arguments converted
/// once; what changes (tensors, step scalars) is put in at each call. New
/// tensors are made where random numbers are.
class AtenOp {
public:
  /// `ordinal` stands in for the site of a generator argument that has none.
  /// With `numbers` step scalars are in the device's memory, where
  /// aten::scalar_tensor alone takes them. Throws Error, naming the operator
  /// and `location`, when there is no such operator or an argument does not fit
  /// its schema.
  AtenOp(const plan::AtenT &aten, const std::string &location, int64_t ordinal,
         SiteRandom &random, StepNumbers::List *numbers);

  /// Whether it has an argument of that name that may be a tensor; gives it to
  /// the runs that follow.
  bool setOptional(const std::string &argument, const at::Tensor &tensor);

  /// Makes lists longer: what was value v in one becomes `valuesOf(v)`.
  void widenLists(const std::function<std::vector<int>(int)> &valuesOf);

  /// Makes these the tensors that the next runs take, indexed as the plan's
  /// arguments are.
  void bind(const std::vector<at::Tensor> &values);
  /// Lets go of them.
  void unbind();

  /// Appends what the operator returns, lists taken apart, to `results`.
  /// Throws Error when the kernel does or when their number is not the plan's.
  void run(const std::vector<double> &scalars,
           std::vector<at::Tensor> &results);

  /// The bound tensor that it casts to another dtype, where it does nothing
  /// else; undefined otherwise.
  at::Tensor castTensor() const;

  /// The values that it takes, whole lists included.
  std::vector<int> operands() const;
  const std::vector<int> &results() const { return resultValues; }
  bool isView() const { return view; }
  bool isPyTorchs() const { return what.compare(0, 6, "aten::") == 0; }
  /// What its kernel for GPUs reads on the host (see findHostRead), of the
  /// tensors that are bound; null where it reads nothing.
  const char *hostRead() const;
  /// "aten::mm in blocks.0", for messages.
  const std::string &description() const { return what; }

private:
  enum class Slot { Tensor, TensorList, OptionalTensorList, Number };
  struct TensorArgument {
    size_t argument;
    Slot slot;
    std::vector<int> values; // -1: absent
  };
  struct ScalarArgument {
    size_t argument, scalar;
  };

  void holdScalar(const plan::AtenT &aten, StepNumbers::List &numbers);
  c10::IValue convert(const plan::ArgumentT &given, size_t position,
                      int64_t ordinal, SiteRandom &random);
  [[noreturn]] void misfit(size_t position, const std::string &why) const;

  std::string what;
  std::optional<c10::OperatorHandle> handle;
  std::optional<IndexBounds> bounds; // none: its kernel compares for itself
  std::vector<c10::IValue> prepared;
  std::vector<c10::IValue> stack;
  std::vector<TensorArgument> tensors;
  std::vector<ScalarArgument> stepScalars;
  std::vector<int> resultValues;
  SiteRandom *site = nullptr;
  int64_t siteNumber = 0;
  bool view;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_EXECUTOR_ATENOP_H
