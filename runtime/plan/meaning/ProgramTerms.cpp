#include "plan/meaning/ProgramTerms.h"

#include "plan/Collectives.h"
#include "plan/check/LiveRanges.h"

using namespace fsdp::plan;

ProgramTerms::ProgramTerms(const PlanTerms &shared, const ProgramT &program,
                           CheckingBudget &budget)
    : terms(budget), shared(shared), plan(shared.plan), program(program),
      numbers(shared.numbers(program.scalars)), lookAt(program.values.size()) {
  for (const auto &input : program.inputs)
    write(input->value,
          {{0, bytesOf(input->value),
            terms.leaf(DigestOf() << std::string("input") << input->name
                                  << uint64_t(input->from_data))}});
}

// Where values lie

uint64_t ProgramTerms::bytesOf(int i) const {
  const ValueT &value = *program.values[i];
  return *spanBytes(value.shape, value.strides, value.dtype);
}

int ProgramTerms::baseOf(int value) const {
  while (program.values[value]->view_of != -1)
    value = program.values[value]->view_of;
  return value;
}

uint64_t ProgramTerms::beginOf(int value) const {
  int base = baseOf(value), root = rootOf(program, value);
  uint64_t begin = lookAt[value];
  if (base != root)
    begin += program.values[base]->place->offset() -
             program.values[root]->place->offset();
  return begin;
}

int ProgramTerms::stateOf(int value) const {
  return program.values[rootOf(program, value)]->state;
}

Content &ProgramTerms::contentOf(int root) {
  if (int state = program.values[root]->state; state != -1)
    return ofState(state);
  auto [it, isNew] = contents.try_emplace(root);
  if (isNew) {
    const ValueT &value = *program.values[root];
    it->second = Content(value.place ? value.place->bytes() : bytesOf(root));
  }
  return it->second;
}

Content &ProgramTerms::ofState(uint32_t state) {
  auto it = states.find(state);
  return it == states.end()
             ? states.emplace(state, firstOf(state)).first->second
             : it->second;
}

/// A rank's part of a state, as it is before the program.
Content ProgramTerms::firstOf(uint32_t index) {
  const StateT &state = *plan.states[index];
  uint64_t local = *spanBytes(state.local_shape, state.strides, state.dtype);
  uint64_t shards = state.shard_dim == -1 ? 1 : numShards(plan);
  if (state.flat != -1 || state.shard_dim > 0)
    return Content(local, {{0, local,
                            terms.unknown("it is a state that is sharded along "
                                          "another dimension than the first",
                                          DigestOf() << state.fqn)}});
  Extents parts;
  for (uint32_t s : shared.membersOf(index)) {
    const StateT &member = *plan.states[s];
    uint64_t size = dtypeBytes(state.dtype), begin = member.flat_offset * size;
    uint64_t last = parts.empty() ? 0 : parts.back().end();
    append(parts, {last, begin - last, terms.zero()});
    append(parts, {begin, *numElements(member.shape) * size,
                   terms.leaf(shared.leafOf(s))});
  }
  uint64_t last = parts.empty() ? 0 : parts.back().end();
  if (last < shards * local)
    append(parts, {last, shards * local - last, terms.zero()});
  Extent own{0, local, terms.composite(parts)};
  own.rankStep = shards > 1 ? local : 0;
  return Content(local, {own});
}

// Reading and writing

Extents ProgramTerms::read(int value) {
  if (auto it = opaque.find(value); it != opaque.end())
    return {{0, bytesOf(value), it->second}};
  return contentOf(rootOf(program, value))
      .read(terms, beginOf(value), bytesOf(value));
}

void ProgramTerms::write(int value, const Extents &extents) {
  int root = rootOf(program, value);
  uint64_t begin = beginOf(value);
  Content &content = contentOf(root);
  if (extents.size() > 1)
    terms.budget.keep(extents.size());
  for (const Extent &extent : extents)
    content.writeBlocks(terms, {cut(extent, extent.begin, extent.bytes)},
                        begin + extent.begin, extent.bytes, 1, extent.bytes);
  if (int state = program.values[root]->state; state != -1)
    written.insert(state);
}

void ProgramTerms::set(int value, Content content) {
  int root = rootOf(program, value);
  if (value == root && program.values[root]->state == -1)
    contents[root] = std::move(content);
  else
    write(value, content.read(terms, 0, content.bytes()));
}

void ProgramTerms::change(uint32_t state, const Extents &extents) {
  for (const Extent &extent : extents)
    ofState(state).write(extent);
}

Extents ProgramTerms::resolve(uint32_t state) {
  Content &content = ofState(state);
  return content.resolve(terms, 0, content.bytes());
}

ProgramTerms::Operand ProgramTerms::operandOf(int value) {
  if (auto it = opaque.find(value); it != opaque.end())
    return {it->second, 0};
  Extents extents = read(value);
  bool isOne = extents.size() == 1 && !extents[0].rankStep;
  // All of a composite is known already.
  if (isOne && !extents[0].offset &&
      terms[extents[0].term].kind == TermInfo::Composite &&
      terms[extents[0].term].parts->back().end() == extents[0].bytes)
    return {extents[0].term, 0};
  extents = contentOf(rootOf(program, value))
                .resolve(terms, beginOf(value), bytesOf(value));
  if (extents.size() == 1 && !extents[0].rankStep)
    return {extents[0].term, extents[0].offset};
  bool isPart = false;
  std::vector<Term> of;
  for (const Extent &extent : extents) {
    isPart |= extent.rankStep > 0;
    of.push_back(extent.term);
  }
  if (!isPart)
    return {terms.composite(extents), 0};
  return {terms.leaf(DigestOf() << std::string("part")
                                << fsdp::plan::digestOf(terms, extents),
                     of),
          0};
}

std::optional<Term> ProgramTerms::termOf(int value) {
  Operand operand = operandOf(value);
  return operand.offset ? std::nullopt : std::optional(operand.term);
}

void ProgramTerms::describe(DigestOf &digest, int i,
                            std::vector<Term> &operands) {
  const ValueT &value = *program.values[i];
  Operand operand = operandOf(i);
  digest << terms[operand.term].digest << operand.offset
         << uint64_t(value.dtype) << value.shape << value.strides;
  operands.push_back(operand.term);
}

void ProgramTerms::writeEach(int result, Extents extents, DType from,
                             const std::function<Term(Term)> &change) {
  uint64_t size = dtypeBytes(from),
           other = dtypeBytes(program.values[result]->dtype);
  for (Extent &extent : extents) {
    extent.term = change(extent.term);
    for (uint64_t *bytes :
         {&extent.begin, &extent.bytes, &extent.offset, &extent.rankStep})
      *bytes = *bytes / size * other;
  }
  write(result, extents);
}

Digest ProgramTerms::digestOf(int value, std::string *unknown) {
  DigestOf digest;
  std::vector<Term> operands;
  describe(digest, value, operands);
  if (unknown && terms[operands.front()].unknown)
    *unknown = *terms[operands.front()].unknown;
  return digest.get();
}

Extents ProgramTerms::rowMajor(int i) {
  const ValueT &value = *program.values[i];
  if (value.strides == rowMajorStrides(value.shape) ||
      bytesOf(i) <= dtypeBytes(value.dtype))
    return read(i);
  // What is done to each element is done to it wherever it lies.
  Operand operand = operandOf(i);
  std::vector<Term> done;
  DType dtype = value.dtype;
  if (!operand.offset)
    while (terms[operand.term].kind == TermInfo::Cast ||
           terms[operand.term].kind == TermInfo::Divided) {
      const TermInfo &info = terms[operand.term];
      dtype = info.kind == TermInfo::Cast ? info.from : dtype;
      done.push_back(operand.term);
      operand.term = info.of;
    }
  Term term =
      terms.leaf(DigestOf() << std::string("row-major")
                            << terms[operand.term].digest << operand.offset
                            << uint64_t(dtype) << value.shape << value.strides,
                 {operand.term});
  for (; !done.empty(); done.pop_back()) {
    const TermInfo info = terms[done.back()];
    term = info.kind == TermInfo::Cast ? terms.cast(term, info.from, info.to)
                                       : terms.divided(term, info.divisor);
  }
  uint64_t bytes = *numElements(value.shape) * dtypeBytes(value.dtype);
  return {{0, bytes, term}};
}

// Commands

void ProgramTerms::follow(const CommandT &command) {
  if (const AtenT *aten = command.operation.AsAten()) {
    aten->view ? look(*aten) : call(*aten);
  } else if (const CopyT *copied = command.operation.AsCopy()) {
    for (const auto &piece : copied->pieces)
      copy(*piece);
  } else if (const CollectiveT *c = command.operation.AsCollective()) {
    exchange(*c);
  }
}

void ProgramTerms::copy(const PieceT &piece) {
  Extents block;
  uint64_t bytes = piece.block_bytes;
  if (piece.source == -1) {
    append(block, {0, bytes, terms.zero()});
  } else if (const ValueT &source = *program.values[piece.source];
             !source.place) { // the sequential step, which has no places
    bool liesAlike =
        source.strides == program.values[piece.destination]->strides;
    block = liesAlike ? read(piece.source) : rowMajor(piece.source);
  } else {
    Content &from = contentOf(rootOf(program, piece.source));
    uint64_t begin = beginOf(piece.source) + piece.source_offset;
    if (piece.owners > 1 && !piece.on) {
      Content own = from.kept(terms, begin, bytes, piece.owners);
      if (!piece.destination_offset && bytes == bytesOf(piece.destination))
        return set(piece.destination, std::move(own));
      block = own.read(terms, 0, bytes);
    } else {
      block = from.readBlocks(terms, begin, bytes, piece.blocks,
                              piece.source_stride);
    }
  }
  int root = rootOf(program, piece.destination);
  Content &to = contentOf(root);
  uint64_t at = beginOf(piece.destination) + piece.destination_offset;
  if (piece.on) { // over what other ranks have copied there
    Extents old =
        to.readBlocks(terms, at, bytes, piece.blocks, piece.destination_stride);
    DigestOf of;
    of << fsdp::plan::digestOf(terms, block) << fsdp::plan::digestOf(terms, old)
       << uint64_t(piece.on->first()) << uint64_t(piece.on->end());
    block = {{0, bytes, terms.unknown("some ranks alone copy it", of)}};
  }
  to.writeBlocks(terms, block, at, bytes, piece.blocks,
                 piece.destination_stride);
  if (int state = program.values[root]->state; state != -1)
    written.insert(state);
}

void ProgramTerms::exchange(const CollectiveT &c) {
  const Content &from = contentOf(rootOf(program, c.source));
  uint64_t begin = beginOf(c.source), bytes = bytesOf(c.source);
  Content source = begin || from.bytes() != bytes
                       ? Content(bytes, from.read(terms, begin, bytes))
                       : from;
  uint32_t ranks = groupOf(plan, c, 0).size;
  uint32_t dims = ranks > 1 ? bitsOf(plan, dimsOf(c)) : 0;
  uint32_t allDims = bitsOf(plan, {0, static_cast<uint32_t>(plan.mesh.size())});
  auto sum = [&](Term term) {
    return c.of_step ? terms.overRanks(term, dims, allDims, c.dtype)
           : c.op == ReduceOp::Max
               ? terms.largest(term, dims)
               : terms.reduced(term, dims, c.dtype, c.divisor);
  };
  switch (c.kind) {
  case CollectiveKind::AllGather:
    return set(c.destination, source.gathered(terms, ranks, c.ranks));
  case CollectiveKind::ReduceScatter:
    return set(c.destination, source.scattered(terms, ranks, sum));
  case CollectiveKind::AllReduce: {
    Extents summed = source.read(terms, 0, bytes);
    for (Extent &extent : summed) {
      extent.term = sum(extent.term);
      if (extent.rankStep && ranks > 1 && isOver(plan, c, AxisRole::Shard))
        extent.term = terms.unknown("it sums different parts",
                                    DigestOf() << terms[extent.term].digest);
    }
    return set(c.destination, Content(bytes, summed));
  }
  default: { // no rule brings what it gives to the sequential step's terms
    uint64_t size = bytesOf(c.destination);
    Term given = terms.unknown(
        std::string("it follows from an exchange, ") + infoOf(c.kind).name +
            ", that has no rule",
        DigestOf() << fsdp::plan::digestOf(terms, source.read(terms, 0, bytes))
                   << uint64_t(dims));
    return set(c.destination, Content(size, {{0, size, given}}));
  }
  }
}
