// What a command says beside when it runs and where its values lie.
#include "Sites.h"
#include "Windows.h"

#include <algorithm>
#include <iterator>
#include <limits>

using namespace fsdp::plan;
using namespace fsdp::test;

namespace {

/// Another parameter, or a state of one.
Said updateAnother(PlanT &plan, Random &random) {
  auto site = findCommand(plan, random, Operation::Update);
  auto other = findCommand(plan, random, Operation::Update);
  if (!site || site->program != other->program)
    return {};
  UpdateT &update = site->as<UpdateT>(), &another = other->as<UpdateT>();
  if (update.parameter == another.parameter)
    return {};
  if (auto state = pick(update.states.size(), random); state && random() % 2)
    update.states[*state] =
        another.states.empty() ? another.parameter
                               : another.states[*state % another.states.size()];
  else
    update.parameter = another.parameter;
  return say(site->text());
}

Said changeRange(PlanT &plan, Random &random) {
  auto site =
      findCommand(plan, random, [](const ProgramT &, const CommandT &command) {
        const auto *u = command.operation.AsUpdate();
        return u && u->end;
      });
  if (!site)
    return {};
  UpdateT &update = site->as<UpdateT>();
  switch (random() % 4) {
  case 0:
    update.begin += 16;
    break;
  case 1:
    update.end += int64_t(1) << 40;
    break;
  case 2:
    update.end = update.begin + (update.end - update.begin) / 2;
    break;
  default:
    std::swap(update.begin, update.end);
  }
  return say(site->text());
}

/// What scales an update, or decides on it: another number of its dtype, or
/// nothing.
Said changeNumber(PlanT &plan, Random &random, int UpdateT::*number) {
  auto site = findCommand(
      plan, random, [=](const ProgramT &program, const CommandT &command) {
        const auto *update = command.operation.AsUpdate();
        return update && update->*number != -1;
      });
  if (!site)
    return {};
  int &value = site->as<UpdateT>().*number;
  std::vector<int> others = {-1};
  const auto &values = site->program->values;
  for (size_t i = 0; i < values.size(); ++i)
    if (static_cast<int>(i) != value && values[i]->shape.empty() &&
        values[i]->dtype == values[value]->dtype)
      others.push_back(i);
  value = others[random() % others.size()];
  return say(site->text(), " by ", value);
}

Said copyOtherBytes(PlanT &plan, Random &random) {
  auto site = findCommand(plan, random, Operation::Copy);
  if (!site)
    return {};
  auto &pieces = site->as<CopyT>().pieces;
  PieceT &copy = *pieces[random() % pieces.size()];
  switch (random() % 4) {
  case 0:
    copy.destination_offset += 64;
    break;
  case 1:
    copy.source == -1 ? copy.destination_offset -= 64
                      : copy.source_offset += 64;
    break;
  case 2:
    copy.block_bytes += copy.block_bytes > 64 ? -64 : 64;
    break;
  default:
    copy.blocks += copy.blocks > 1 ? -1 : 1;
  }
  return say(site->text());
}

/// A call was measured to take what is no time.
Said takeNoTime(PlanT &plan, Random &random) {
  constexpr double none[] = {-1e-3, 0, 1e9,
                             std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity()};
  auto site = findCommand(plan, random, Operation::Aten);
  if (!site)
    return {};
  double seconds = none[random() % std::size(none)];
  site->as<AtenT>().measured_seconds = seconds;
  return say(site->text(), " takes ", seconds);
}

/// A call of a rule for GPUs is given a number that changes between steps, in
/// place of one that is always the same.
Said giveNumber(PlanT &plan, Random &random) {
  std::vector<std::pair<const RuleT *, ArgumentT *>> places;
  for (const auto &rule : plan.rules)
    for (const auto &call : rule->calls)
      for (const auto &argument : call->arguments)
        if (plan.device == DeviceKind::Cuda && !rule->scalars.empty() &&
            argument->kind == ArgumentKind::Double)
          places.push_back({rule.get(), argument.get()});
  auto at = pick(places.size(), random);
  if (!at)
    return {};
  auto [rule, argument] = places[*at];
  argument->kind = ArgumentKind::Scalar;
  argument->value = random() % rule->scalars.size();
  return say("rule ", rule->name);
}

CopyT *findPieces(PlanT &plan, Random &random, std::optional<Site> &site) {
  site =
      findCommand(plan, random, [](const ProgramT &, const CommandT &command) {
        const auto *copy = command.operation.AsCopy();
        return copy && copy->pieces.size() > 1;
      });
  return site ? &site->as<CopyT>() : nullptr;
}

Said dropPiece(PlanT &plan, Random &random) {
  std::optional<Site> site;
  CopyT *copy = findPieces(plan, random, site);
  if (!copy)
    return {};
  size_t piece = random() % copy->pieces.size();
  copy->pieces.erase(copy->pieces.begin() + piece);
  return say(site->text(), " piece ", piece, bufferOf(plan, *site));
}

/// One piece takes what another one should, or leaves it there.
Said mixPieces(PlanT &plan, Random &random) {
  std::optional<Site> site;
  CopyT *copy = findPieces(plan, random, site);
  if (!copy)
    return {};
  auto &pieces = copy->pieces;
  PieceT &a = *pieces[random() % pieces.size()];
  PieceT &b = *pieces[random() % pieces.size()];
  bool alike = a.block_bytes == b.block_bytes && a.blocks == b.blocks &&
               a.source_stride == b.source_stride &&
               a.destination_stride == b.destination_stride;
  if (random() % 2) {
    std::swap(a.source, b.source);
    std::swap(a.source_offset, b.source_offset);
  } else {
    std::swap(a.destination_offset, b.destination_offset);
  }
  return say(site->text(), alike ? " of one size" : "");
}

/// Another number of neighbours who keep a part.
Said changeOwners(PlanT &plan, Random &random) {
  auto site =
      findCommand(plan, random, [](const ProgramT &, const CommandT &command) {
        const auto *copy = command.operation.AsCopy();
        return copy && copy->pieces.front()->source != -1;
      });
  if (!site)
    return {};
  uint32_t &owners = site->as<CopyT>().pieces.front()->owners;
  uint32_t before = owners;
  owners = oneOf({0, 1, 2, 3, 4, 8}, random);
  return owners == before ? Said{} : say(site->text());
}

/// Which ranks make each call and copy each piece.
std::vector<std::unique_ptr<ShardRange> *> ranksOf(PlanT &plan) {
  std::vector<std::unique_ptr<ShardRange> *> all;
  for (auto &program : plan.programs)
    for (auto &command : program->commands) {
      if (AtenT *call = command->operation.AsAten(); call && !call->view)
        all.push_back(&call->on);
      if (CopyT *copy = command->operation.AsCopy())
        for (auto &piece : copy->pieces)
          all.push_back(&piece->on);
    }
  return all;
}

/// Ranks do what others are to do; or some alone what all are, or the reverse.
Said changeRanks(PlanT &plan, Random &random) {
  auto ranks = ranksOf(plan);
  auto ofSome = std::stable_partition(ranks.begin(), ranks.end(),
                                      [](auto *on) { return !*on; });
  if (ofSome != ranks.end() && random() % 2)
    ranks.erase(ranks.begin(), ofSome);
  auto at = pick(ranks.size(), random);
  uint32_t shards = numShards(plan);
  if (!at || shards < 2)
    return {};
  uint32_t first = random() % shards,
           end = first + 1 + random() % (shards - first);
  bool isForAll = end - first == shards;
  *ranks[*at] = isForAll ? nullptr : std::make_unique<ShardRange>(first, end);
  return say("of all that ranks do ", *at, " is for ", first, " to ", end);
}

bool any(const CollectiveT &) { return true; }
bool isReduction(const CollectiveT &c) {
  return c.kind == CollectiveKind::ReduceScatter;
}
bool reduces(const CollectiveT &c) {
  return c.kind != CollectiveKind::AllGather;
}
bool isMapped(const CollectiveT &c) { return c.mapped; }

Said changeCollective(PlanT &plan, Random &random,
                      bool (*fits)(const CollectiveT &),
                      void (*change)(CollectiveT &, Random &)) {
  auto site = findCollective(plan, random, fits);
  if (!site)
    return {};
  change(site->as<CollectiveT>(), random);
  return say(site->text());
}

} // namespace

const std::vector<fsdp::test::Mutation> fsdp::test::contentMutations = {
    {"other ranks of a call", changeRanks},
    {"wrong measured time", takeNoTime},
    {"wrong channel",
     [](PlanT &p, Random &r) {
       return changeCollective(p, r, any, [](CollectiveT &c, Random &r) {
         c.channel += 1 + r() % 2;
       });
     }},
    {"missing division",
     [](PlanT &p, Random &r) {
       return changeCollective(p, r, isReduction,
                               [](CollectiveT &c, Random &) { c.divisor = 1; });
     }},
    {"wrong divisor",
     [](PlanT &p, Random &r) {
       return changeCollective(
           p, r, any, [](CollectiveT &c, Random &) { c.divisor *= 2; });
     }},
    {"wrong divisor of a unit",
     [](PlanT &p, Random &r) -> Said {
       auto site = findCollective(p, r, isReduction);
       int unit = site ? site->as<CollectiveT>().unit : -1;
       if (unit == -1)
         return {};
       p.units[unit]->gradient_divisor = oneOf({-1, 0, 1, 64}, r);
       return say("unit ", p.units[unit]->name);
     }},
    {"wrong count",
     [](PlanT &p, Random &r) {
       return changeCollective(p, r, any, [](CollectiveT &c, Random &r) {
         c.count += oneOf({-1, 1, 16}, r);
       });
     }},
    {"wrong dtype",
     [](PlanT &p, Random &r) {
       return changeCollective(p, r, any, [](CollectiveT &c, Random &) {
         c.dtype = c.dtype == DType::Float32 ? DType::Int32 : DType::Int8;
       });
     }},
    {"wrong kind",
     [](PlanT &p, Random &r) {
       return changeCollective(p, r, any, [](CollectiveT &c, Random &) {
         c.kind =
             static_cast<CollectiveKind>((static_cast<int>(c.kind) + 1) % 3);
       });
     }},
    {"wrong operation of a reduction",
     [](PlanT &p, Random &r) {
       return changeCollective(p, r, reduces, [](CollectiveT &c, Random &) {
         c.op = c.op == ReduceOp::Sum ? ReduceOp::Max : ReduceOp::Sum;
       });
     }},
    {"other mesh dimension",
     [](PlanT &p, Random &r) -> Said {
       if (p.mesh.size() < 2)
         return {};
       return changeCollective(p, r, any, [](CollectiveT &c, Random &r) {
         // Another first one, or one of them more or less.
         if (r() % 2)
           c.mesh_dim = c.mesh_dim ? c.mesh_dim - 1 : 1;
         else
           c.mesh_dims = c.mesh_dims > 1 ? c.mesh_dims - 1 : 2;
       });
     }},
    {"other neighbours",
     [](PlanT &p, Random &r) {
       return changeCollective(p, r, any, [](CollectiveT &c, Random &r) {
         c.ranks = c.ranks ? oneOf({0, 1, 3, 4}, r) : oneOf({1, 2, 4}, r);
       });
     }},
    {"copy of other bytes", copyOtherBytes},
    {"other owners of a copy", changeOwners},
    {"dropped piece of a copy", dropPiece},
    {"mixed pieces of a copy", mixPieces},
    {"wrong state", updateAnother},
    {"wrong range of an update", changeRange},
    {"wrong scale of an update",
     [](PlanT &p, Random &r) { return changeNumber(p, r, &UpdateT::scale); }},
    {"wrong condition of an update",
     [](PlanT &p, Random &r) { return changeNumber(p, r, &UpdateT::skip); }},
    {"number of a step outside a GPU's memory", giveNumber},
    {"write of a buffer that a window shows", writeShownBuffer},
    {"gather of another state",
     [](PlanT &p, Random &r) -> Said {
       auto site = findCollective(p, r, isMapped);
       auto other = findCollective(p, r, isMapped);
       if (!site || site->program != other->program)
         return {};
       uint32_t &source = site->as<CollectiveT>().source;
       uint32_t another = other->as<CollectiveT>().source;
       const auto &values = site->program->values;
       if (values[source]->state == values[another]->state)
         return {};
       source = another;
       return say(site->text());
     }},
};
