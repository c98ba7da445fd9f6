// Reads TorchScript archives by PyTorch: libfsdp_archive.

#include "ArchiveBounds.h"

#include "operators/Operators.h"
#include "plan/FormatText.h"

#include <caffe2/serialize/inline_container.h>
#include <caffe2/serialize/read_adapter_interface.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <cstring>
#include <memory>

using namespace fsdp;
using caffe2::serialize::PyTorchStreamReader;
using caffe2::serialize::ReadAdapterInterface;

namespace {
/// Bytes in memory; a read beyond their end is short, as of a file (PyTorch's
/// own adapter trusts the offsets inside the archive).
class BoundedAdapter final : public ReadAdapterInterface {
public:
  explicit BoundedAdapter(std::string_view bytes) : bytes(bytes) {}
  size_t size() const override { return bytes.size(); }
  size_t read(uint64_t position, void *buffer, size_t count,
              const char *) const override {
    if (position >= bytes.size())
      return 0;
    count = std::min<size_t>(count, bytes.size() - position);
    std::memcpy(buffer, bytes.data() + position, count);
    return count;
  }

private:
  std::string_view bytes;
};
} // namespace

static std::shared_ptr<ReadAdapterInterface> adapt(std::string_view bytes) {
  return std::make_shared<BoundedAdapter>(bytes);
}

namespace {
/// An archive as PyTorch reads it.
class LoadedArchive final : public TorchArchive {
public:
  explicit LoadedArchive(std::string_view bytes);

  std::vector<TorchGraph>
  readGraphs(const std::vector<std::string> &methods) const override;

private:
  std::string_view bytes;
};
} // namespace

LoadedArchive::LoadedArchive(std::string_view bytes) : bytes(bytes) {
  if (bytes.substr(0, 4) != std::string_view("PK\3\4", 4))
    throw ArchiveError(E::ArchiveDamaged,
                       "is not a TorchScript archive; write one with "
                       "`python -m fsdp_mlir.export -o step.pt STEP.py`");
  checkRecordSizes(bytes);
  try {
    PyTorchStreamReader reader(adapt(bytes));
    reader.setShouldLoadDebugSymbol(true);
    names = reader.getAllRecords();
    for (const std::string &name : names) {
      auto [data, size] = reader.getRecord(name);
      records.emplace_back(static_cast<const char *>(data.get()), size);
    }
  } catch (const std::exception &error) {
    throw ArchiveError(E::ArchiveDamaged, "is truncated or damaged (" +
                                              firstLine(error.what()) +
                                              "); export again");
  }
}

// Graphs

/// "x.3" is x, renamed by the loader.
static std::string nameOf(const torch::jit::Value *value) {
  std::string name = value->debugName();
  return name.substr(0, name.find('.'));
}

static TorchOperand readConstant(const c10::IValue &value,
                                 const std::string &op) {
  using Kind = TorchOperand::Kind;
  TorchOperand operand;
  if (value.isNone())
    return operand;
  if (value.isBool()) {
    operand.kind = Kind::Bool;
    operand.integer = value.toBool();
  } else if (value.isInt()) {
    operand.kind = Kind::Int;
    operand.integer = value.toInt();
  } else if (value.isDouble()) {
    operand.kind = Kind::Float;
    operand.real = value.toDouble();
  } else if (value.isComplexDouble()) {
    operand.kind = Kind::Complex;
    operand.real = value.toComplexDouble().real();
    operand.imaginary = value.toComplexDouble().imag();
  } else if (value.isString()) {
    operand.kind = Kind::String;
    operand.text = value.toStringRef();
  } else if (value.isDevice()) {
    operand.kind = Kind::Device;
  } else if (value.isList()) {
    operand.kind = Kind::List;
    for (const c10::IValue &member : value.toListRef())
      operand.members.push_back(readConstant(member, op));
  } else {
    throw ArchiveError(E::ArchiveOperator,
                       "gives " + op + " a constant of type " +
                           value.tagKind() +
                           ", which a graph of tensors does "
                           "not have; export again");
  }
  return operand;
}

static TorchOperand readOperand(const torch::jit::Value *value,
                                const std::string &op) {
  const torch::jit::Node *node = value->node();
  if (node->kind() == c10::prim::Constant) {
    std::optional<c10::IValue> constant = torch::jit::toIValue(value);
    return readConstant(constant ? *constant : c10::IValue(), op);
  }
  TorchOperand operand;
  if (node->kind() == c10::prim::ListConstruct) {
    operand.kind = TorchOperand::Kind::List;
    for (const torch::jit::Value *member : node->inputs())
      operand.members.push_back(readOperand(member, op));
    return operand;
  }
  bool isItem = node->kind() == c10::aten::item;
  operand.kind = isItem ? TorchOperand::Kind::Item : TorchOperand::Kind::Value;
  operand.text = nameOf(isItem ? node->input() : value);
  return operand;
}

/// The node that unpacks a list result, or null.
static const torch::jit::Node *getUnpack(const torch::jit::Value *value) {
  for (const torch::jit::Use &use : value->uses())
    if (use.user->kind() == c10::prim::ListUnpack)
      return use.user;
  return nullptr;
}

static TorchNode readNode(const torch::jit::Node *node) {
  TorchNode result;
  result.op = node->kind().toQualString();
  if (!node->blocks().empty())
    throw ArchiveError(E::ArchiveOperator,
                       "has control flow (" + result.op +
                           "), which no plan can hold; export again");
  for (const torch::jit::Value *input : node->inputs())
    result.operands.push_back(readOperand(input, result.op));
  for (size_t i = 0; i < node->outputs().size(); ++i) {
    const torch::jit::Value *output = node->outputs()[i];
    if (output->type()->kind() != c10::TypeKind::ListType) {
      result.results.push_back(nameOf(output));
      continue;
    }
    const torch::jit::Node *unpack = getUnpack(output);
    // Of several lists that a kernel updates, some are not read: they have the
    // members of those that it takes.
    if (!unpack && node->outputs().size() > 1 && i < result.operands.size()) {
      result.results.resize(result.results.size() +
                            result.operands[i].members.size());
      continue;
    }
    if (!unpack)
      throw ArchiveError(E::ArchiveContents, "does not unpack the list that " +
                                                 result.op +
                                                 " returns; export again");
    for (const torch::jit::Value *member : unpack->outputs())
      result.results.push_back(nameOf(member));
  }
  return result;
}

static TorchGraph readGraph(const torch::jit::Graph &graph) {
  TorchGraph result;
  auto inputs = graph.inputs();
  for (size_t i = 1; i < inputs.size(); ++i) // 0 is `self`
    result.arguments.push_back(nameOf(inputs[i]));
  for (const torch::jit::Node *node : graph.nodes()) {
    if (node->kind() == c10::prim::Constant ||
        node->kind() == c10::prim::ListConstruct ||
        node->kind() == c10::prim::ListUnpack ||
        node->kind() == c10::aten::item ||
        node->kind() == c10::prim::TupleConstruct)
      continue;
    result.nodes.push_back(readNode(node));
  }
  const torch::jit::Value *returned =
      graph.outputs().size() == 1 ? graph.outputs()[0] : nullptr;
  if (!returned || returned->node()->kind() != c10::prim::TupleConstruct)
    throw ArchiveError(E::ArchiveContents,
                       "has a method that does not return a tuple; export "
                       "again");
  for (const torch::jit::Value *member : returned->node()->inputs())
    result.results.push_back(nameOf(member));
  return result;
}

/// TorchScript runs code while it loads: what a class does with an object's
/// state, and the constructors of PyTorch's own classes. The one object of an
/// archive has no state, so its pickles are always the same.
static void checkRunsNothing(const std::string &name, std::string_view record) {
  using namespace std::string_view_literals;
  constexpr std::string_view object =
      "\x80\x02"
      "c__torch__\nStep\n)\x81}(X\x08\0\0\0training\x88ub."sv;
  constexpr std::string_view constants = "\x80\x02)."sv;
  bool isCode = name.rfind("code/", 0) == 0;
  bool isKnown =
      name == "data.pkl" ? record == object
      : name == "constants.pkl"
          ? record == constants
          : !isCode || record.find("__setstate__") == std::string_view::npos;
  if (!isKnown)
    throw ArchiveError(E::ArchiveContents,
                       "has in '" + name +
                           "' what would run when it is read; export again");
}

std::vector<TorchGraph>
LoadedArchive::readGraphs(const std::vector<std::string> &methods) const {
  for (size_t i = 0; i < names.size(); ++i) {
    checkDepth(names[i], records[i]);
    checkRunsNothing(names[i], records[i]);
  }
  try {
    defineOperators();
    defineCapturedOperators();
    torch::jit::Module module = torch::jit::load(adapt(bytes), std::nullopt,
                                                 /*load_debug_files=*/false);
    std::vector<TorchGraph> graphs;
    for (const std::string &name : methods) {
      std::optional<torch::jit::Method> method = module.find_method(name);
      if (!method)
        throw ArchiveError(E::ArchiveContents,
                           "has no method `" + name + "`; export again");
      graphs.push_back(readGraph(*method->graph()));
    }
    return graphs;
  } catch (const ArchiveError &) {
    throw;
  } catch (const std::exception &error) {
    throw ArchiveError(E::ArchiveOperator,
                       "cannot be read as TorchScript (" +
                           firstLine(error.what()) +
                           "); export again with PyTorch " TORCH_VERSION_TEXT);
  }
}

extern "C" __attribute__((visibility("default")))
const TorchArchiveLibrary fsdp_archive_library = {
    [](std::string_view bytes) -> TorchArchive * {
      return new LoadedArchive(bytes);
    }};
