// From a method of an archive to a program.

#include "ProgramImport.h"

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/Aten/PrecisionCast.h"
#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"
#include "fsdp/Dialect/FSDP/FSDP.h"
#include "fsdp/Dialect/FSDP/Functions.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace fsdp;

namespace {
/// Builds one program. Errors are ArchiveError.
class ProgramImporter {
public:
  ProgramImporter(OpBuilder &builder, AtenCallImporter &calls,
                  const ArchiveMetadata &metadata, const ImportedStates &states,
                  const std::string &name, const TorchGraph &graph)
      : builder(builder), calls(calls), metadata(metadata), states(states),
        name(name), graph(graph), program(metadata.programs.at(name)) {}

  void run();

private:
  func::FuncOp addFunction();
  void checkGraph() const;
  void addArguments(func::FuncOp function);
  Value addLoad(const ArgumentInfo &argument, const TensorInfo &info);
  void addNodes();
  void addResults();
  Value addSkip(const ResultInfo &hasGradient);

  RankedTensorType typeOf(const TensorInfo &info) {
    return getTensorType(builder.getContext(), info);
  }
  FlatSymbolRefAttr symbol(const std::string &name) {
    return FlatSymbolRefAttr::get(builder.getStringAttr(name));
  }
  FlatSymbolRefAttr stateSymbol(const std::string &fqn) {
    FlatSymbolRefAttr known = states.symbols.lookup(fqn);
    return known ? known : symbol(fqn);
  }

  OpBuilder &builder;
  AtenCallImporter &calls;
  const ArchiveMetadata &metadata;
  const ImportedStates &states;
  const std::string &name;
  const TorchGraph &graph;
  const ProgramInfo &program;
  llvm::StringMap<Value> values;
};
} // namespace

void ProgramImporter::run() {
  func::FuncOp function = addFunction();
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(function.addEntryBlock());
  checkGraph();
  addArguments(function);
  addNodes();
  addResults();
}

func::FuncOp ProgramImporter::addFunction() {
  llvm::StringMap<const InputInfo *> inputs;
  for (const InputInfo &input : metadata.inputs)
    inputs[input.name] = &input;

  SmallVector<Type> operands, results;
  SmallVector<DictionaryAttr> operandAttrs, resultAttrs;
  for (const ArgumentInfo &argument : program.arguments) {
    if (argument.role != ArgumentRole::Input)
      continue;
    operands.push_back(typeOf(program.values.at(argument.name)));
    MLIRContext *context = builder.getContext();
    NamedAttrList attributes;
    attributes.push_back(kInputAttr.named(context, argument.fqn));
    if (inputs.lookup(argument.fqn)->repeat)
      attributes.push_back(kRepeatAttr.named(context));
    operandAttrs.push_back(attributes.getDictionary(context));
  }
  for (const ResultInfo &result : program.results) {
    bool isLoss = result.role == ResultRole::Loss;
    if (!isLoss && result.role != ResultRole::Output)
      continue;
    results.push_back(typeOf(program.values.at(result.name)));
    StringRef output = isLoss ? "loss" : StringRef(result.fqn);
    resultAttrs.push_back(builder.getDictionaryAttr(
        kOutputAttr.named(builder.getContext(), output)));
  }
  auto function =
      func::FuncOp::create(builder, NameLoc::get(builder.getStringAttr(name)),
                           name, builder.getFunctionType(operands, results));
  function.setAllArgAttrs(operandAttrs);
  function.setAllResultAttrs(resultAttrs);
  if (!program.variantOf.empty())
    kVariantOfAttr.set(function, symbol(program.variantOf));
  if (!program.turn.empty())
    kTurnAttr.set(function, program.turn);
  if (!program.next.empty())
    kNextAttr.set(function, symbol(program.next));
  return function;
}

/// The archive describes each method twice.
void ProgramImporter::checkGraph() const {
  if (graph.arguments.size() != program.arguments.size() ||
      graph.results.size() != program.results.size())
    throw ArchiveError(E::ArchiveContents,
                       "has a method `" + name +
                           "` of other arguments or results than fsdp.json "
                           "describes; export again");
  for (auto [argument, info] : llvm::zip(graph.arguments, program.arguments))
    if (argument != info.name)
      throw ArchiveError(E::ArchiveContents,
                         "names an argument of `" + name + "` " + argument +
                             ", fsdp.json " + info.name + "; export again");
  for (auto [result, info] : llvm::zip(graph.results, program.results))
    if (result != info.name)
      throw ArchiveError(E::ArchiveContents, "returns " + result + " from `" +
                                                 name +
                                                 "` where fsdp.json says " +
                                                 info.name + "; export again");
}

/// A parameter is cast to the dtype that the program computes with it in.
Value ProgramImporter::addLoad(const ArgumentInfo &argument,
                               const TensorInfo &info) {
  Location loc = NameLoc::get(builder.getStringAttr(argument.fqn));
  RankedTensorType type = typeOf(info);
  Type own = argument.role == ArgumentRole::Parameter
                 ? states.elementTypes.lookup(argument.fqn)
                 : type.getElementType();
  Value value =
      LoadOp::create(builder, loc, type.clone(own), stateSymbol(argument.fqn));
  if (own == type.getElementType())
    return value;
  return aten::createPrecisionCast(builder, loc, aten::Direction::Forward,
                                   value, type.getElementType());
}

void ProgramImporter::addArguments(func::FuncOp function) {
  unsigned next = 0;
  for (const ArgumentInfo &argument : program.arguments) {
    const TensorInfo &info = program.values.at(argument.name);
    Value &value = values[argument.name];
    if (argument.role == ArgumentRole::Input) {
      value = function.getArgument(next++);
      continue;
    }
    if (argument.role != ArgumentRole::Cotangent) {
      value = addLoad(argument, info);
      continue;
    }
    auto call = aten::CallOp::create(
        builder, builder.getUnknownLoc(), aten::Direction::Forward, "full",
        ValueRange(),
        ArrayRef<NamedAttribute>{
            builder.getNamedAttr("size",
                                 builder.getDenseI64ArrayAttr(info.shape)),
            builder.getNamedAttr("fill_value", builder.getF64FloatAttr(1.0)),
            builder.getNamedAttr(
                "dtype", TypeAttr::get(getElementType(builder.getContext(),
                                                      info.dtype)))},
        TypeRange(typeOf(info)));
    kCotangentAttr.set(call);
    value = call->getResult(0);
  }
}

void ProgramImporter::addNodes() {
  if (graph.nodes.size() != program.nodes.size())
    throw ArchiveError(E::ArchiveContents,
                       "has " + std::to_string(graph.nodes.size()) +
                           " nodes where fsdp.json describes " +
                           std::to_string(program.nodes.size()) +
                           "; export again");
  for (auto [node, info] : llvm::zip(graph.nodes, program.nodes))
    calls.import(node, info, program, values);
}

void ProgramImporter::addResults() {
  SmallVector<Value> returned;
  SmallVector<const ResultInfo *> gradients;
  llvm::StringMap<Value> skips; // by who counts
  for (const ResultInfo &result : program.results) {
    Value value = values.lookup(result.name);
    if (result.role == ResultRole::Gradient)
      gradients.push_back(&result);
    else if (result.role == ResultRole::HasGradient)
      skips[result.fqn] = addSkip(result);
    else if (result.role == ResultRole::BufferUpdate)
      StoreOp::create(builder, NameLoc::get(builder.getStringAttr(result.fqn)),
                      value, stateSymbol(result.fqn));
    else
      returned.push_back(value);
  }
  for (const ResultInfo *result : gradients) {
    auto update = states.updates.find(result->fqn);
    if (update == states.updates.end())
      continue; // trainable, but the optimizer does not hold it
    Location loc = NameLoc::get(builder.getStringAttr(result->fqn));
    Value gradient = values.lookup(result->name);
    Type own = states.elementTypes.lookup(result->fqn);
    if (cast<RankedTensorType>(gradient.getType()).getElementType() != own)
      gradient = aten::createPrecisionCast(
          builder, loc, aten::Direction::Backward, gradient, own);
    auto op = UpdateOp::create(builder, loc, update->second.rule,
                               stateSymbol(result->fqn), gradient,
                               builder.getArrayAttr(update->second.states));
    if (Value skip = skips.lookup(update->second.missed))
      op.getSkipMutable().assign(skip);
  }
  func::ReturnOp::create(builder, builder.getUnknownLoc(), returned);
}

/// 1 where there is no gradient, else 0.
Value ProgramImporter::addSkip(const ResultInfo &hasGradient) {
  Location loc = NameLoc::get(builder.getStringAttr(hasGradient.fqn));
  auto call = [&](StringRef callee, Value operand, Type element,
                  ArrayRef<NamedAttribute> args) {
    return aten::CallOp::create(builder, loc, aten::Direction::Backward, callee,
                                operand, args,
                                TypeRange(RankedTensorType::get({}, element)))
        ->getResult(0);
  };
  Value lacks = call("logical_not", values.lookup(hasGradient.name),
                     builder.getI1Type(), {});
  Type f32 = builder.getF32Type();
  return call("_to_copy", lacks, f32,
              builder.getNamedAttr("dtype", TypeAttr::get(f32)));
}

void fsdp::importProgram(OpBuilder &builder, AtenCallImporter &calls,
                         const ArchiveMetadata &metadata,
                         const ImportedStates &states, const std::string &name,
                         const TorchGraph &graph) {
  ProgramImporter(builder, calls, metadata, states, name, graph).run();
}
