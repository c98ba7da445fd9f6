// What Gloo needs of the process that it is in, and does to it.
#ifndef FSDP_RUNTIME_COMM_GLOOPROCESS_H
#define FSDP_RUNTIME_COMM_GLOOPROCESS_H

#include <cstddef>
#include <string>

namespace fsdp {

/// Sets what PyTorch's Gloo reads of the environment, where it is not set. A
/// program whose ranks are threads calls this before it has threads: one that
/// reads a variable while another adds one may read memory that was freed.
void setGlooVariables();

/// Before Gloo is used; more than once does no harm. Throws Error where the
/// environment asks for Gloo's TLS.
void prepareForGloo();

/// Gloo reads what other ranks send in threads of its own. Where that is longer
/// than what is awaited, or makes no sense, such a thread throws, which would
/// end the process without a word. Behind prepareForGloo() it stands still
/// instead, with all that it holds, and this says so. A Gloo whose thread
/// stands still cannot be destroyed: whoever destroys one waits for ever.
class GlooThreads {
public:
  GlooThreads();

  /// Whether a thread of the process has thrown since this object was made.
  bool hasFailed() const;
  /// What it was sent, behind "rank 1 ": "was sent 800 bytes where it awaits
  /// 400". Only where one has thrown.
  std::string failure() const;

private:
  size_t before;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_GLOOPROCESS_H
