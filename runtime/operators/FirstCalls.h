// Libraries look at the processor in their first call, and choose kernels by it.

#ifndef FSDP_RUNTIME_OPERATORS_FIRSTCALLS_H
#define FSDP_RUNTIME_OPERATORS_FIRSTCALLS_H

namespace fsdp {

/// Makes the first calls of this process into the libraries that choose their
/// kernels then: one thread does it, and the others wait for it. Does nothing
/// when called again.
///
/// MKL's vector functions first store what they found as it is, and then the
/// number of a kernel in its place (mkl_vml_serv_cpu_detect). A thread that
/// reads in between computes by other kernels, and so to other last bits.
void makeFirstCalls();

} // namespace fsdp

#endif // FSDP_RUNTIME_OPERATORS_FIRSTCALLS_H
