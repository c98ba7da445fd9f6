// The aten dialect: one op, which calls any of PyTorch's operators.

#ifndef ATEN_TD
#define ATEN_TD

include "fsdp/Dialect/FSDP/Interfaces.td"
include "fsdp/Dialect/FSDP/Seconds.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/TensorEncoding.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Aten_Dialect : Dialect {
  let name = "aten";
  let cppNamespace = "::fsdp::aten";
  let summary = "Calls of PyTorch's operators, held against its schemas";
  let useDefaultAttributePrinterParser = 1;
}

class Aten_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<Aten_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

def Aten_StridesAttr : Aten_Attr<"Strides", "strides",
    [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "Strides of a tensor that is not row-major, in elements";
  let description = [{
    The encoding of a tensor type; a row-major tensor has none.

    ```mlir
    tensor<128x10xf32, #aten.strides<[1, 128]>>
    ```
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$strides);
  let assemblyFormat = "`<` `[` $strides `]` `>`";
}

def Aten_GeneratorAttr : Aten_Attr<"Generator", "generator"> {
  let summary = "The generator of one random op, by its site number";
  let description = [{
    No op uses a default generator: before an op runs, the generator of its
    site is seeded from the run's seed, rank, step and site.
  }];
  let parameters = (ins "int64_t":$site);
  let assemblyFormat = "`<` $site `>`";
}

def Aten_CallOp : Op<Aten_Dialect, "call", [
    FSDP_TimelineOpInterface,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "Calls an operator of PyTorch by name and overload";
  let description = [{
    Operands stand in the order of the schema's arguments: a tensor, `none`, or
    a bracketed list. Trailing absent tensors may be left out. A scalar that
    changes between steps is an f64 or i64 operand: it takes the place of the
    next scalar argument that has no attribute. Every other argument that
    differs from the schema's default is an attribute under the schema's name;
    names with a dot are discardable attributes. Devices do not occur.

    `backward` says that the call belongs to the step's backward; every
    other call belongs to forward. `recompute("blocks.0")` marks a call that
    backward repeats, with the name of the region that is recomputed together.
    `checkpoint(3)` marks a call inside the model's own checkpoint of that
    number, and `must_save` one whose results that checkpoint's policy keeps.
    `accumulates` marks an `add.Tensor` that gives the sum of a gradient over
    micro-batches: the earlier ones' sum is its first operand, and this one's
    part its second. `measured(1.0e-03)` is how many seconds the kernel takes
    for these operands, where that was measured.

    A result that is not produced has type `none`; a list result is that many
    results.

    ```mlir
    %h:3 = aten.call "native_layer_norm"(%x, %w, %b) {normalized_shape = array<i64: 256>, eps = 1.0e-05}
         : (tensor<4x256xf32>, tensor<256xf32>, tensor<256xf32>) -> (tensor<4x256xf32>, tensor<4x1xf32>, tensor<4x1xf32>)
    %o = aten.call "index.Tensor"(%x, [none, %i]) : (tensor<4x8xf32>, tensor<3xi64>) -> tensor<4x3xf32>
    %t = aten.call "tanh"(%o) backward recompute("blocks.0") : (tensor<4x3xf32>) -> tensor<4x3xf32>
    ```

    Effects follow the schema. An op that writes an operand reads and writes
    it; a random op reads and writes the random stream. What touches memory
    that another op writes in place reads or allocates it; everything else is
    pure.
  }];
  // `slots` is the shape of the operand list: 1 an operand, 0 `none`, 2 + n a
  // list of the n entries that follow. `args` holds the schema's arguments.
  let arguments = (ins StrAttr:$callee, Variadic<AnyType>:$inputs,
                       DenseI32ArrayAttr:$slots, DictionaryAttr:$args,
                       UnitAttr:$backward, OptionalAttr<StrAttr>:$recompute,
                       OptionalAttr<I64Attr>:$checkpoint, UnitAttr:$must_save,
                       UnitAttr:$accumulates,
                       OptionalAttr<FSDP_Seconds>:$measured);
  let results = (outs Variadic<AnyType>:$outputs);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [
    // One operand per slot; a null value is `none`.
    OpBuilder<(ins "::fsdp::aten::Direction":$direction, "::llvm::StringRef":$callee, "::mlir::ValueRange":$operands,
                   "::llvm::ArrayRef<::mlir::NamedAttribute>":$args,
                   "::mlir::TypeRange":$results)>,
    OpBuilder<(ins "::fsdp::aten::Direction":$direction, "::llvm::StringRef":$callee,
                   "::mlir::ValueRange":$operands,
                   "::llvm::ArrayRef<int32_t>":$slots,
                   "::mlir::DictionaryAttr":$args,
                   "::mlir::TypeRange":$results)>,
  ];
  let extraClassDeclaration = [{
    ::fsdp::aten::Direction getDirection() {
      return getBackward() ? ::fsdp::aten::Direction::Backward
                           : ::fsdp::aten::Direction::Forward;
    }

    /// Lets a kernel compute this that was measured to take so many seconds.
    void setKernel(::llvm::StringRef kernel, double seconds) {
      setCallee(kernel);
      setMeasured(seconds);
    }

    /// Takes the place of another call: its direction, what is said of its
    /// recomputation, and its discardable attributes. What the other one was
    /// measured to take is not said of this one.
    void takePlaceOf(CallOp other);

    /// The sum of a gradient over micro-batches, where an op gives one, or
    /// null.
    static CallOp getAccumulation(::mlir::Operation *op) {
      auto call = ::llvm::dyn_cast_or_null<CallOp>(op);
      return call && call.getAccumulates() ? call : CallOp();
    }

    /// The schema; null only in IR that does not verify.
    const ::fsdp::aten::Schema *getSchema();

    /// "aten::add" and "Tensor", as the dispatcher names them.
    std::pair<std::string, std::string> getQualifiedName();

    /// What each argument of the schema is given, in the schema's order; empty
    /// in IR that does not verify.
    ::llvm::SmallVector<::fsdp::aten::CallArgument> getCallArguments();

    /// The attribute of an argument, or null: null may also be the default.
    ::mlir::Attribute getArg(::llvm::StringRef name) {
      return getArgs().get(name);
    }

    /// The result of the schema that a result of this op belongs to: a list is
    /// one result of the schema and any number of this op.
    const ::fsdp::aten::Result *getSchemaResult(unsigned result);

    /// The operand whose memory a result shares, by the schema: of a view, or
    /// of an op in place.
    std::optional<unsigned> getAliasedOperand(unsigned result);

    /// Whether a result looks into an operand that the op does not write. Ops
    /// that return a view or a copy, as the strides have it (`reshape`,
    /// `contiguous`, `to`), are not views.
    bool isView();

    /// Whether element i of each result depends on element i of the operands
    /// alone, after broadcasting.
    bool isPointwise();

    /// Whether the op draws random numbers.
    bool isRandom();

    /// Whether the op writes its operand of this index.
    bool writesOperand(unsigned operand);
    /// Whether the op writes any operand.
    bool writesOperands();
  }];
}

#endif // ATEN_TD
