// Indices that an operator's kernel follows without asking where they lead.
#ifndef FSDP_RUNTIME_EXECUTOR_INDEXBOUNDS_H
#define FSDP_RUNTIME_EXECUTOR_INDEXBOUNDS_H

#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>
#include <string>
#include <vector>

namespace fsdp {

/// The kernels on CPUs of some operators read or write where an index tensor
/// says, whatever it says. Others compare it themselves.
class IndexBounds {
public:
  explicit IndexBounds(const c10::FunctionSchema &schema);

  bool empty() const { return bounds.empty(); }
  /// Throws where an index leads out of the memory that it is for; `what`: the
  /// call, for the message.
  void check(const c10::FunctionSchema &schema,
             const torch::jit::Stack &arguments, const std::string &what) const;

private:
  std::vector<size_t> bounds; // rows of a table
};

} // namespace fsdp

#endif // FSDP_RUNTIME_EXECUTOR_INDEXBOUNDS_H
