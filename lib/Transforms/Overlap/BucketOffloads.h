// Buckets of gradients that go to the host.

#ifndef FSDP_LIB_TRANSFORMS_OVERLAP_BUCKETOFFLOADS_H
#define FSDP_LIB_TRANSFORMS_OVERLAP_BUCKETOFFLOADS_H

#include "Overlap/GradientReduction.h"

namespace fsdp {

/// Where the means of a bucket all go to the host, the bucket goes as one, and
/// is unpacked there; on the device too where something else reads them.
/// `unpacked` gives the bucket's means in the order of its members'
/// `reductions`, which are still what is read.
void offloadTogether(llvm::MutableArrayRef<GradientReduction> reductions,
                     UnpackOp unpacked);

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_OVERLAP_BUCKETOFFLOADS_H
