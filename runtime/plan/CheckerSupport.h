// Shared by the two files of the plan checker; not for others.
#ifndef FSDP_PLAN_CHECKERSUPPORT_H
#define FSDP_PLAN_CHECKERSUPPORT_H

#include "plan/PlanTypes.h"

#include <map>

namespace fsdp::plan {

/// What is being checked, for messages: "program step: command 3 (blocks.0)".
/// Each check is a line: what must hold, and what is said when it does not.
class Checked {
public:
  explicit Checked(std::string what) : what(std::move(what)) {}

  Checked inside(const std::string &part) const {
    return Checked(what.empty() ? part : what + ": " + part);
  }
  [[noreturn]] void fail(const std::string &why) const {
    throw PlanError(what.empty() ? why : what + ": " + why);
  }
  void require(bool holds, const std::string &why) const {
    if (!holds)
      fail(why);
  }
  /// An index into `size` things called `thing`.
  void index(int64_t i, size_t size, const char *thing) const {
    if (i < 0 || static_cast<uint64_t>(i) >= size)
      fail(std::string(thing) + " " + std::to_string(i) +
           " does not exist, there are " + std::to_string(size));
  }

private:
  std::string what;
};

/// A place inside its arena, aligned, and large enough for a tensor.
void checkPlace(const Checked &at, const PlanT &plan, const Place *place);
void checkTensor(const Checked &at, const std::vector<int64_t> &shape,
                 const std::vector<int64_t> &strides, DType dtype,
                 const Place &place);

/// Scalars that refer to earlier ones, and to parameter groups that exist.
void checkScalars(const Checked &at,
                  const std::vector<std::unique_ptr<ScalarT>> &scalars,
                  size_t groups);

/// Arguments of a call; `value(i)` is asked about every value that is read.
template <typename Fn>
void checkArguments(const Checked &at, const AtenT &call, size_t scalars,
                    Fn value) {
  at.require(call.name.find("::") != std::string::npos,
             "operator '" + call.name + "' has no namespace");
  for (const auto &argument : call.arguments) {
    at.require(argument->kind <= ArgumentKind::MAX,
               "argument kind " +
                   std::to_string(static_cast<int>(argument->kind)) +
                   " is unknown");
    if (argument->kind == ArgumentKind::Value)
      value(argument->value);
    else if (argument->kind == ArgumentKind::ValueList)
      for (int member : argument->values)
        member == -1 ? void() : value(member);
    else if (argument->kind == ArgumentKind::Scalar)
      at.index(argument->value, scalars, "scalar");
    else if (argument->kind == ArgumentKind::Complex)
      at.require(argument->doubles.size() == 2,
                 "a complex argument needs two numbers");
    else if (argument->kind == ArgumentKind::DType)
      at.require(argument->i >= 0 &&
                     argument->i <= static_cast<int64_t>(DType::MAX),
                 "dtype " + std::to_string(argument->i) + " is unknown");
  }
}

/// Where in the window arena the mapped gathers of a flat state show it.
using Windows = std::map<uint32_t, Place>;

/// Everything of one program; the rest of the plan is already checked.
void checkProgram(const PlanT &plan, const ProgramT &program,
                  const Windows &windows);

} // namespace fsdp::plan

#endif // FSDP_PLAN_CHECKERSUPPORT_H
