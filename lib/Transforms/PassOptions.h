// Options of passes that are more than a word.
//
// A reader throws an Error that names the option where there is no such value.
// The pipelines call it before there is IR, and passes when they run.

#ifndef FSDP_LIB_TRANSFORMS_PASSOPTIONS_H
#define FSDP_LIB_TRANSFORMS_PASSOPTIONS_H

#include "cost/Cluster.h"
#include "cost/KernelTable.h"
#include "fsdp/Transforms/OptionValues.h"

#include "mlir/IR/BuiltinOps.h"

#include <optional>

namespace fsdp {

/// Reads options of a pass, and makes what a reader throws an error of the
/// module.
mlir::LogicalResult readOptions(mlir::ModuleOp module,
                                llvm::function_ref<void()> read);

/// The ranks along each dimension of `mesh`, "2x4".
llvm::SmallVector<int64_t> readMesh(llvm::StringRef text);

/// Whether the names are as many as the dimensions of a mesh, and each of them
/// once; throws where not.
void checkMeshNames(llvm::ArrayRef<std::string> names, llvm::StringRef mesh);

/// "replicate" for one dimension of replicas, numbers behind it for several.
llvm::SmallVector<std::string> getDefaultMeshNames(size_t count);

/// The bytes that cut a model into units, where `units` is a number of them.
/// Whether a model has such modules is for the pass to say.
std::optional<uint64_t> readUnits(llvm::StringRef text);

/// The ranks of a secondary shard, where `reshard-after-forward` is a number.
std::optional<int64_t> readReshardRanks(llvm::StringRef text);

/// The units of `prefetch-forward` or `prefetch-backward`; none for "auto".
std::optional<size_t> readPrefetchDepth(llvm::StringRef name,
                                        llvm::StringRef text);

/// The bytes of `bucket-cap-mib`; none for "auto", "none" and 0, which is all
/// of a unit too.
std::optional<int64_t> readBucketCap(llvm::StringRef text);

/// The bytes of `memory-budget-mib`; none where the text is empty.
std::optional<int64_t> readMemoryBudget(llvm::StringRef text);

/// `remat=auto` needs a budget.
void checkRemat(RematPolicy remat, llvm::StringRef memoryBudgetMib);

/// The floating-point type of one of PyTorch's names, "bfloat16"; none where
/// the text is empty.
std::optional<plan::DType> readReduceDtype(llvm::StringRef text);

/// The cluster of that name or file; "auto": local for CPUs, eight H100s of one
/// host for GPUs.
cost::Cluster readCluster(llvm::StringRef text, plan::DeviceKind device);
cost::Cluster readCluster(llvm::StringRef text, mlir::ModuleOp module);

/// The names of `attention`, best first.
llvm::SmallVector<llvm::StringRef> readAttention(llvm::StringRef text);

/// What each kernel takes; none with `kernels=exact`, and where no table is
/// given yet.
std::optional<cost::KernelTable> readKernelTable(KernelChoice kernels,
                                                 llvm::StringRef table,
                                                 llvm::StringRef cluster,
                                                 plan::DeviceKind device);

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_PASSOPTIONS_H
