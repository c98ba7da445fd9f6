// Remarks: decisions that a reader may want to question, with their figures.

#ifndef FSDP_LIB_TRANSFORMS_REMARKS_H
#define FSDP_LIB_TRANSFORMS_REMARKS_H

#include "mlir/IR/Remarks.h"

namespace fsdp {

/// The kinds of remarks: entries of Remarks.def.
enum class R : uint8_t {
#define METRIC(name, key, unit, meaning)
#define REMARK(name, ...) name,
#include "Remarks.def"
#undef REMARK
#undef METRIC
};

using InFlightRemark = mlir::remark::detail::InFlightRemark;

/// A decision that was taken, about a place of a program; or, of one that was
/// not, why. What is streamed into it is the text; then come figures, as in
/// `<< metrics::Bytes(count)`.
InFlightRemark remarkPassed(R kind, mlir::Location where,
                            llvm::StringRef program = {});
InFlightRemark remarkMissed(R kind, mlir::Location where,
                            llvm::StringRef program = {});
inline InFlightRemark remarkDecision(bool taken, R kind, mlir::Location where,
                                     llvm::StringRef program = {}) {
  return (taken ? remarkPassed : remarkMissed)(kind, where, program);
}

/// What became of the programs by a pass; nothing where nobody asks for it.
InFlightRemark remarkChange(mlir::Location where, llvm::StringRef pass);

/// What the figures of remarks are measured in. Given a value, a metric is that
/// figure.
namespace units {
using Figure = mlir::remark::detail::Remark::Arg;

struct Text {
  const char *key;
  Figure operator()(const llvm::Twine &text) const { return {key, text.str()}; }
};

struct Count {
  const char *key;
  Figure operator()(int64_t count) const { return {key, count}; }
};

struct Bytes {
  const char *key;
  Figure operator()(int64_t bytes) const { return {key, bytes}; }
};

/// Any number, as a person writes it: "2", "1.5".
struct Number {
  const char *key;
  Figure operator()(double number) const;
};

struct Microseconds {
  const char *key;
  Figure operator()(double seconds) const;
};

struct Gflop {
  const char *key;
  Figure operator()(double flops) const;
};
} // namespace units

/// The figures: entries of Remarks.def.
namespace metrics {
#define METRIC(name, key, unit, meaning) inline constexpr units::unit name{key};
#define REMARK(name, ...)
#include "Remarks.def"
#undef REMARK
#undef METRIC
} // namespace metrics

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_REMARKS_H
