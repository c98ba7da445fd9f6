// Places in a plan where a mutation can break it, and moves that several
// mutations share.
#ifndef FSDP_TEST_MUTATION_SITES_H
#define FSDP_TEST_MUTATION_SITES_H

#include "Mutations.h"

#include <functional>
#include <sstream>

namespace fsdp::test {

/// What a mutation did; nothing where the plan has no place for it.
using Said = std::optional<std::string>;

template <typename... Parts> Said say(const Parts &...parts) {
  std::ostringstream out;
  static_cast<void>((out << ... << parts));
  return out.str();
}

/// A command or a value of a program.
struct Site {
  plan::ProgramT *program;
  size_t at;

  plan::CommandT &command() const { return *program->commands[at]; }
  plan::ValueT &value() const { return *program->values[at]; }
  template <typename T> T &as() const {
    return *static_cast<T *>(command().operation.value);
  }
  std::string text() const { return program->name + " " + std::to_string(at); }
};

using FitsCommand =
    std::function<bool(const plan::ProgramT &, const plan::CommandT &)>;
using FitsValue =
    std::function<bool(const plan::ProgramT &, const plan::ValueT &)>;

/// One of `size`; nothing where there is none.
std::optional<size_t> pick(size_t size, Random &random);
int64_t oneOf(std::initializer_list<int64_t> list, Random &random);

std::optional<Site> findCommand(plan::PlanT &plan, Random &random,
                                const FitsCommand &fits);
std::optional<Site> findCommand(plan::PlanT &plan, Random &random,
                                plan::Operation type);
std::optional<Site>
findCollective(plan::PlanT &plan, Random &random,
               const std::function<bool(const plan::CollectiveT &)> &fits);
std::optional<Site> findValue(plan::PlanT &plan, Random &random,
                              const FitsValue &fits);

/// A value with memory of the program's own.
bool isOwn(const plan::ProgramT &, const plan::ValueT &value);

/// The values that a command writes.
std::vector<int> writesOf(const plan::CommandT &command);
/// The buffer that a command writes, which the plan names nowhere else.
std::string bufferOf(const plan::PlanT &plan, const Site &site);
/// The first command that writes a value, or as many as there are.
size_t writerOf(const plan::ProgramT &program, int value);

void moveCommand(plan::ProgramT &program, size_t from, size_t to);
/// To somewhere in front of where it is.
Said moveBefore(const std::optional<Site> &site, Random &random);
/// Moves a value's bytes, and with them what looks into it or lies in it.
void moveValue(plan::ProgramT &program, size_t value, plan::Place to);
Said shiftValue(const std::optional<Site> &site, int64_t by);

} // namespace fsdp::test

#endif // FSDP_TEST_MUTATION_SITES_H
