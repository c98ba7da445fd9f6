// What kernels take on one machine, as a file: fsdp-run writes it, fsdp-opt
// reads it.
#ifndef FSDP_RUNTIME_COST_KERNELTABLE_H
#define FSDP_RUNTIME_COST_KERNELTABLE_H

#include "Error.h"
#include "cost/Kernels.h"

namespace fsdp::cost {

/// What a measured time is true of. Threads are those of one rank; 0: any.
struct Machine {
  std::string cpu, pytorch;
  int threads = 0;
};

/// The processor's name as /proc/cpuinfo has it, with family and model, which a
/// virtual machine's name may leave out, and the widest vectors it computes
/// with: "AMD EPYC (family 25, model 17, avx512)".
std::string cpuName(const std::string &cpuinfo);

/// Whether a processor of that name is an x86 without AVX-512.
bool lacksAvx512(const std::string &cpuName);

/// This machine, with the PyTorch that this program was built for.
Machine thisMachine();

/// Seconds of products, by a product's text and a kernel's name.
struct KernelTable {
  Machine machine;
  std::map<std::string, std::map<std::string, double>> products;

  /// The fastest kernel of a product, among those that were measured. One whose
  /// bits are not eager's must be faster by 3 %: less is noise. Null where
  /// ATen's was not measured.
  const Kernel *fastest(const Product &product) const;
  /// Seconds of a product by a kernel that was measured.
  double seconds(const Product &product, const Kernel &kernel) const;
};

/// Reads the text of a file; `source` names it. Throws Error.
KernelTable parseKernelTable(const std::string &text,
                             const std::string &source);
KernelTable readKernelTable(const std::string &path);
std::string printKernelTable(const KernelTable &table);

/// Throws Error, with both names, where a table is not of `machine`.
void checkMachine(const KernelTable &table, const Machine &machine,
                  const std::string &source);

} // namespace fsdp::cost

#endif // FSDP_RUNTIME_COST_KERNELTABLE_H
