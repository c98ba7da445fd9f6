// fsdp-run --tune.

#include "Tune.h"

#include "Error.h"
#include "cost/KernelTable.h"
#include "operators/MeasureKernels.h"
#include "plan/Files.h"

#include <ATen/Parallel.h>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <malloc.h>

namespace fsdp {

/// The table that is there, or an empty one of this machine.
static cost::KernelTable openTable(const std::string &path) {
  cost::Machine machine = cost::thisMachine();
  machine.threads = at::get_num_threads();
  if (!std::filesystem::exists(path))
    return {machine, {}};
  cost::KernelTable table = cost::readKernelTable(path);
  cost::checkMachine(table, machine, path);
  return table;
}

/// Products of all programs; how often the step computes each.
static std::map<std::string, cost::ProductUses>
productsOf(const plan::PlanT &plan) {
  std::map<std::string, cost::ProductUses> all;
  for (const auto &program : plan.programs)
    for (auto &[text, product] : cost::productsOf(*program)) {
      cost::ProductUses &known = all[text];
      known.product = product.product;
      // Of the first shape, where there are several.
      if (program->name == plan::stepProgramName)
        known.uses += product.uses;
    }
  return all;
}

void tune(const plan::PlanT &plan, const std::string &path) {
  if (plan.device == plan::DeviceKind::Cuda)
    throw Error(E::FlagAndPlan,
                "--tune measures kernels of CPUs, and the plan is for GPUs; "
                "compile it for device=cpu");
  WritablePlace place(path);
  // Results stay in this process, as a run's stay in its arena: else the
  // largest would be given back and their pages cleared anew in every call.
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
  cost::KernelTable table = openTable(path);
  auto begin = std::chrono::steady_clock::now();
  unsigned measured = 0;
  double byAten = 0, byFastest = 0; // seconds of a step's products
  auto products = productsOf(plan);
  for (const auto &[text, product] : products) {
    if (!table.products.count(text)) {
      table.products[text] = measureKernels(product.product);
      ++measured;
    }
    // Of a table that lacks ATen's time nothing can be said.
    if (const cost::Kernel *best = table.fastest(product.product)) {
      byFastest += product.uses * table.seconds(product.product, *best);
      byAten += product.uses *
                table.seconds(product.product,
                              *cost::kernelsOf(product.product.family).front());
    }
  }
  std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - begin;
  writeFileAtomically(cost::printKernelTable(table), path);
  std::printf("measured %u of %zu products in %.1f s on %s: a step's take "
              "%.2f ms by ATen, %.2f ms by the fastest kernels\n",
              measured, products.size(), seconds.count(),
              table.machine.cpu.c_str(), byAten * 1e3, byFastest * 1e3);
}

} // namespace fsdp
