// How remarks are emitted, and their figures written.

#include "Remarks.h"

#include "llvm/Support/Format.h"

using namespace mlir;
using namespace fsdp;

static remark::RemarkOpts getOptions(R kind, StringRef program) {
  static constexpr struct {
    const char *category, *name;
  } entries[] = {
#define METRIC(name, key, unit, meaning)
#define REMARK(id, category, name, ...) {category, name},
#include "Remarks.def"
#undef REMARK
#undef METRIC
  };
  auto [category, name] = entries[size_t(kind)];
  return remark::RemarkOpts::name(name).category(category).function(program);
}

InFlightRemark fsdp::remarkPassed(R kind, Location where, StringRef program) {
  return remark::passed(where, getOptions(kind, program));
}

InFlightRemark fsdp::remarkMissed(R kind, Location where, StringRef program) {
  return remark::missed(where, getOptions(kind, program));
}

InFlightRemark fsdp::remarkChange(Location where, StringRef pass) {
  remark::RemarkOpts options = getOptions(R::PassChange, {});
  options.remarkName = pass;
  return remark::analysis(where, options);
}

units::Figure units::Number::operator()(double number) const {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%g", number);
  return {key, text};
}

units::Figure units::Microseconds::operator()(double seconds) const {
  return {key, llvm::formatv("{0:F1}", seconds * 1e6).str()};
}

units::Figure units::Gflop::operator()(double flops) const {
  return {key, llvm::formatv("{0:F3}", flops / 1e9).str()};
}
