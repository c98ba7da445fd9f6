// What a plan computes, where each command stays in order and of its sizes.
#include "Sites.h"

#include <algorithm>
#include <map>

using namespace fsdp::plan;
using namespace fsdp::test;

namespace {

/// Two different things of a list for which `alike` holds.
template <typename T, typename Fn>
std::optional<std::pair<size_t, size_t>> pickTwo(const std::vector<T> &list,
                                                 Random &random, Fn alike) {
  std::vector<std::pair<size_t, size_t>> pairs;
  for (size_t i = 0; i < list.size(); ++i)
    for (size_t j = i + 1; j < list.size(); ++j)
      if (alike(list[i], list[j]))
        pairs.push_back({i, j});
  auto at = pick(pairs.size(), random);
  return at ? std::optional(pairs[*at]) : std::nullopt;
}

/// Two pieces of a copy exchange their sources: what a bucket is made of, or
/// what comes out of it.
Said swapMembers(PlanT &plan, Random &random) {
  auto alike = [](const std::unique_ptr<PieceT> &a,
                  const std::unique_ptr<PieceT> &b) {
    bool same = a->source == b->source && a->source_offset == b->source_offset;
    return a->source != -1 && b->source != -1 && !same &&
           a->block_bytes == b->block_bytes && a->blocks == b->blocks &&
           a->source_stride == b->source_stride &&
           a->destination_stride == b->destination_stride;
  };
  auto site =
      findCommand(plan, random, [&](const ProgramT &, const CommandT &command) {
        const auto *copy = command.operation.AsCopy();
        Random any;
        return copy && pickTwo(copy->pieces, any, alike);
      });
  if (!site)
    return {};
  auto &pieces = site->as<CopyT>().pieces;
  auto [i, j] = *pickTwo(pieces, random, alike);
  std::swap(pieces[i]->source, pieces[j]->source);
  std::swap(pieces[i]->source_offset, pieces[j]->source_offset);
  return say(site->text(), " pieces ", i, " and ", j);
}

/// Two updates exchange their gradients, which are of one type.
Said swapGradients(PlanT &plan, Random &random) {
  auto site = findCommand(plan, random, Operation::Update);
  if (!site)
    return {};
  ProgramT &program = *site->program;
  std::vector<UpdateT *> updates;
  for (auto &command : program.commands)
    if (UpdateT *update = command->operation.AsUpdate())
      updates.push_back(update);
  auto two = pickTwo(updates, random, [&](UpdateT *a, UpdateT *b) {
    const ValueT &x = *program.values[a->gradient],
                 &y = *program.values[b->gradient];
    return a->gradient != b->gradient && x.dtype == y.dtype &&
           x.shape == y.shape && x.strides == y.strides;
  });
  if (!two)
    return {};
  std::swap(updates[two->first]->gradient, updates[two->second]->gradient);
  return say(program.name, " updates ", two->first, " and ", two->second);
}

/// What backward begins with is no part of the loss any longer.
Said dropDivision(PlanT &plan, Random &random) {
  auto isDivision = [](const AtenT &call) {
    return call.name == "aten::full" && call.arguments.size() > 1 &&
           call.arguments[1]->kind == ArgumentKind::Double &&
           call.arguments[1]->d != 1;
  };
  auto site =
      findCommand(plan, random, [&](const ProgramT &, const CommandT &command) {
        const auto *call = command.operation.AsAten();
        return call && isDivision(*call);
      });
  if (!site)
    return {};
  site->as<AtenT>().arguments[1]->d = 1;
  return say(site->text());
}

Said swapStates(PlanT &plan, Random &random) {
  auto site =
      findCommand(plan, random, [](const ProgramT &, const CommandT &command) {
        const auto *update = command.operation.AsUpdate();
        return update && update->states.size() > 1;
      });
  if (!site)
    return {};
  auto &states = site->as<UpdateT>().states;
  std::swap(states[0], states[1]);
  return say(site->text());
}

/// An operator of the same signature.
Said callAnother(PlanT &plan, Random &random) {
  static const std::map<std::string, std::string> others = {
      {"aten::add", "aten::sub"},
      {"aten::mul", "aten::div"},
      {"aten::gelu", "aten::relu"},
      {"aten::relu", "aten::gelu"},
      {"aten::minimum", "aten::maximum"}};
  auto site =
      findCommand(plan, random, [](const ProgramT &, const CommandT &command) {
        const auto *call = command.operation.AsAten();
        return call && others.count(call->name);
      });
  if (!site)
    return {};
  AtenT &call = site->as<AtenT>();
  call.name = others.at(call.name);
  return say(site->text());
}

/// Two results of one type: the gradients of a layer's scale and of its bias.
Said swapResults(PlanT &plan, Random &random) {
  auto alike = [](const ProgramT &program) {
    return [&](int a, int b) {
      if (a == -1 || b == -1)
        return false;
      const ValueT &x = *program.values[a], &y = *program.values[b];
      return x.dtype == y.dtype && x.shape == y.shape && x.strides == y.strides;
    };
  };
  auto site = findCommand(
      plan, random, [&](const ProgramT &program, const CommandT &command) {
        const auto *call = command.operation.AsAten();
        Random any;
        return call && pickTwo(call->results, any, alike(program));
      });
  if (!site)
    return {};
  auto &results = site->as<AtenT>().results;
  auto [i, j] = *pickTwo(results, random, alike(*site->program));
  std::swap(results[i], results[j]);
  return say(site->text(), " results ", i, " and ", j);
}

} // namespace

const std::vector<fsdp::test::Mutation> fsdp::test::meaningMutations = {
    {"swapped equal members", swapMembers},
    {"gradient of a neighbour", swapGradients},
    {"missing division of the loss", dropDivision},
    {"swapped optimizer states", swapStates},
    {"another operator", callAnother},
    {"swapped results", swapResults},
};
