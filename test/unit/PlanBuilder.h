// Builds small plans by hand, for tests of what executes them.
#ifndef FSDP_TEST_UNIT_PLANBUILDER_H
#define FSDP_TEST_UNIT_PLANBUILDER_H

#include "plan/PlanTypes.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fsdp::test {

using Shape = std::vector<int64_t>;
using Arguments = std::vector<plan::ArgumentT>;

plan::ArgumentT value(int v);
plan::ArgumentT values(std::vector<int> v);
plan::ArgumentT integer(int64_t i);
plan::ArgumentT integers(std::vector<int64_t> i);
plan::ArgumentT number(double d);
plan::ArgumentT scalar(int index);
plan::ArgumentT site(int64_t number);
plan::ArgumentT byDefault();

/// A plan for `ranks` ranks; every value has bytes of its own.
class PlanBuilder {
public:
  explicit PlanBuilder(unsigned ranks);

  /// Adds a state, split on dimension 0 if `sharded`, and returns its index.
  unsigned state(const std::string &fqn, plan::Role role, Shape shape,
                 bool sharded = false,
                 plan::DType dtype = plan::DType::Float32);

  /// Begins a program; the functions below add to it.
  void program(const std::string &name);
  int newValue(const std::string &name, Shape shape,
               plan::DType dtype = plan::DType::Float32);
  int stateValue(unsigned state);
  int viewValue(const std::string &name, int base, Shape shape, Shape strides);
  void input(const std::string &name, int v, bool fromData);
  void output(const std::string &name, int v);
  /// `name` is "aten::op.overload"; returns the operator, to be changed.
  plan::AtenT &aten(const std::string &name, Arguments arguments,
                    std::vector<int> results, bool view = false);
  void update(unsigned rule, unsigned parameter, int gradient,
              std::vector<uint32_t> states = {});
  void copy(int source, int destination, uint64_t bytes);
  void collective(plan::CollectiveKind kind, int source, int destination,
                  uint64_t count,
                  std::optional<plan::ProgramRegion> region = {});

  plan::PlanT &finish();
  plan::PlanT plan;

private:
  plan::Place place(unsigned arena, const Shape &shape, plan::DType dtype);
  plan::CommandT &command();
  plan::ProgramT &current() { return *plan.programs.back(); }
  unsigned ranks;
};

/// p - lr * g, with the learning rate of group 0; returns the rule's index.
unsigned addSgdRule(PlanBuilder &builder);

/// loss = mean((x w^T - y)^2) with x [batch, in] and y [batch, out] read from
/// data and w [out, in] trained by SGD with rate 0.1. On several ranks w is
/// sharded, gathered, and its gradient averaged. Also has a program `eval`.
std::unique_ptr<PlanBuilder> linearRegression(unsigned ranks, int64_t out,
                                              int64_t in, int64_t batch);

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_PLANBUILDER_H
