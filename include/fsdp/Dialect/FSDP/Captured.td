// Phase 1, captured: the sequential training step as PyTorch would run it.

#ifndef FSDP_CAPTURED_TD
#define FSDP_CAPTURED_TD

include "fsdp/Dialect/FSDP/Attributes.td"
include "fsdp/Dialect/FSDP/Interfaces.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def FSDP_TrainingOp : FSDP_Op<"training"> {
  let summary = "What a run trains with, besides the model";
  let description = [{
    At most one per module. `source` and `torch_version` are for messages.
    `seed` is that of the data's order and of random operations. A run has
    `epochs`, or else `steps`; a length that is not said is 0. A step takes
    `accumulate` micro-batches.

    `clip_grad_norm` is the largest norm that all gradients together may have,
    and the norm's type: 1, 2, any above, infinity. `clip_grad_value` is the
    largest magnitude of an element. A `scaler` of the loss has a
    `growth_factor`, a `backoff_factor` and a `growth_interval`, and its states
    `@fsdp.scaler.*`.

    `hyperparameters` are the numbers of parameter groups that steps read as
    numbers of the step: each group's `"lr"`, and what else a schedule changes.
    The `schedule` has a row for each step and a column for each of them;
    without one they keep their values.

    `mesh` is what the model asks for: the number of ranks along each axis,
    the axes' names, if it gives any, and the ranks' device, "cpu" or "cuda".
    `ranks` is the number of ranks that the step computes with, and 0 where it
    asks for none: another number of ranks would be another step.

    ```mlir
    fsdp.training {source = "gpt.py", torch_version = "2.11.0", epochs = 3 : i64, accumulate = 4 : i64, clip_grad_norm = array<f64: 1.0, 2.0>}
    fsdp.training {hyperparameters = [#fsdp.hyperparameter<"lr" of 0 = 1.0e-3 : f64>, #fsdp.hyperparameter<"lr" of 1 = 2.0e-3 : f64>], schedule = dense<[[0.0, 0.0], [1.0e-3, 2.0e-3]]> : tensor<2x2xf64>}
    fsdp.training {seed = 7 : i64, scaler = {growth_factor = 2.0, backoff_factor = 0.5, growth_interval = 2000 : i64}}
    fsdp.training {mesh = array<i64: 2, 4>, mesh_names = ["dp", "fsdp"], mesh_device = "cpu"}
    ```
  }];
  let arguments = (ins DefaultValuedAttr<StrAttr, "\"\"">:$source,
      DefaultValuedAttr<StrAttr, "\"\"">:$torch_version,
      DefaultValuedAttr<I64Attr, "0">:$seed,
      FSDP_CountOr<"0">:$epochs, FSDP_CountOr<"0">:$steps,
      DefaultValuedAttr<ConfinedAttr<I64Attr, [IntPositive]>, "1">:$accumulate,
      OptionalAttr<DenseF64ArrayAttr>:$clip_grad_norm,
      OptionalAttr<F64Attr>:$clip_grad_value,
      OptionalAttr<DictionaryAttr>:$scaler,
      OptionalAttr<TypedArrayAttrBase<FSDP_HyperparameterAttr, "hyperparameters">>:$hyperparameters,
      OptionalAttr<ElementsAttr>:$schedule,
      OptionalAttr<DenseI64ArrayAttr>:$mesh,
      OptionalAttr<StrArrayAttr>:$mesh_names,
      OptionalAttr<StrAttr>:$mesh_device, FSDP_CountOr<"0">:$ranks);
  let assemblyFormat = "attr-dict";
  let extraClassDeclaration = [{
    /// The training of the module that `op` is or is in, or null.
    static TrainingOp of(::mlir::Operation *op);
  }];
  let hasVerifier = 1;
}

def FSDP_ModulePathOp : FSDP_Op<"module"> {
  let summary = "One module of the model: its path and class";
  let description = [{
    Modules stand in the order of `named_modules()`. They are named by strings,
    not symbols: the model itself has the empty path. `aliases` are further
    paths of the same module object. `container` marks modules whose children
    are called one by one (ModuleList, Sequential), by any class name.

    ```mlir
    fsdp.module "" class "GPT"
    fsdp.module "blocks" class "ModuleList" container
    fsdp.module "blocks.0" class "Block" aliases ["tied.0"]
    ```
  }];
  let arguments = (ins StrAttr:$path, StrAttr:$class_name, UnitAttr:$container,
                       OptionalAttr<StrArrayAttr>:$aliases);
  let assemblyFormat = [{
    $path `class` $class_name (`container` $container^)?
    (`aliases` $aliases^)? attr-dict
  }];
}

def FSDP_StateOp : FSDP_Op<"state", [
    Symbol, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "A tensor that persists between steps";
  let description = [{
    Programs read and write it with `fsdp.load`, `fsdp.store` and
    `fsdp.update`; it is never an argument, so all programs agree on it. The
    symbol is PyTorch's fully qualified name. Where a program or a rule has that
    symbol, the state has another one, and `fqn` is PyTorch's name. `aliases` are
    the other names of a tied tensor.

    A `gradient` is the sharded phase's: the sum that the micro-batches of a step
    have given so far (see `fsdp.accumulate`). It is neither read from a file nor
    saved.

    A `replicated` parameter is in no unit: each rank has it whole and updates
    it by its own gradient, which no other rank adds to.

    `init` is the recipe for the first value of a parameter or buffer; without
    it the value is in the weights file. Optimizer state without one is zero.

    `unit`, `sharding` and `global` are the sharded phase's: the unit that
    owns the parameter (the model may name it itself), how it is split, and the type of the whole
    tensor once `type` has become that of one rank's padded part.

    With `shard-layout=flat` the elements of several states lie in one that
    `is_flat`: each of them names it as `flat`, begins in the whole of it at
    element `flat_offset`, and has no memory of its own. A flat parameter that
    is `mapped` is read where the ranks share memory, without being moved.

    A state that is `on_host` lies in host memory; programs fetch it.

    A run reads, keeps and saves a state whether or not a program names it. So
    it is never discarded as an unused symbol, even where it is private.

    ```mlir
    fsdp.state @"blocks.0.w" parameter : tensor<10x128xf32> {trainable, aliases = ["head.w"], group = 0 : i64}
    fsdp.state @"blocks.0.w/exp_avg" optimizer : tensor<10x128xf32> {parameter = @"blocks.0.w"}
    fsdp.state @"bn.running_mean" buffer : tensor<7xf32> {persistent}
    fsdp.state @"step/state" buffer : tensor<i64> {persistent, fqn = "step"}
    fsdp.state @fsdp.constant.0 constant : tensor<i64>
    fsdp.state @"blocks.0.w/grad" gradient : tensor<10x128xf32> {parameter = @"blocks.0.w"}
    fsdp.state @"ln.weight" parameter : tensor<128xf32> {trainable, init = [#fsdp.init<fill, values = [1.0]>]}
    fsdp.state @"blocks.0/flat.0" parameter : tensor<704xf32> {trainable, is_flat, unit = "blocks.0", sharding = #fsdp.sharding<@mesh, [[0]]>, global = tensor<1408xf32>}
    fsdp.state @"blocks.0.b" parameter : tensor<128xf32> {trainable, unit = "blocks.0", flat = @"blocks.0/flat.0", flat_offset = 1280 : i64}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, FSDP_RoleAttr:$role,
      TypeAttrOf<AnyRankedTensor>:$type, UnitAttr:$trainable,
      UnitAttr:$persistent, UnitAttr:$replicated,
      OptionalAttr<StrAttr>:$fqn, OptionalAttr<StrArrayAttr>:$aliases,
      OptionalAttr<I64Attr>:$group,
      OptionalAttr<FlatSymbolRefAttr>:$parameter, OptionalAttr<StrAttr>:$unit,
      OptionalAttr<FSDP_ShardingAttr>:$sharding,
      OptionalAttr<TypeAttrOf<AnyRankedTensor>>:$global,
      UnitAttr:$is_flat, UnitAttr:$mapped, UnitAttr:$on_host,
      OptionalAttr<FlatSymbolRefAttr>:$flat,
      OptionalAttr<FSDP_Count>:$flat_offset,
      OptionalAttr<FSDP_InitArrayAttr>:$init);
  let assemblyFormat = "$sym_name `` $role `:` $type attr-dict";
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getTensorType() {
      return ::llvm::cast<::mlir::RankedTensorType>(getType());
    }
    /// PyTorch's fully qualified name: `fqn`, or the symbol where there is none.
    ::llvm::StringRef getFullName() { return getFqn().value_or(getSymName()); }
    /// The type of the whole tensor: `global`, or `type` where nothing is cut.
    ::mlir::RankedTensorType getGlobalType() {
      return ::llvm::cast<::mlir::RankedTensorType>(
          getGlobal().value_or(getType()));
    }
    /// The dimension that is split over the mesh, if one is.
    std::optional<int64_t> getShardDim();
    static bool canDiscardOnUseEmpty() { return false; }
  }];
  let hasVerifier = 1;
}

def FSDP_LoadOp : FSDP_Op<"load", [
    DeclareOpInterfaceMethods<FSDP_StateAccessOpInterface, ["getReadStates"]>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "Reads a state";
  let arguments = (ins FlatSymbolRefAttr:$state);
  let results = (outs FSDP_Tensor:$result);
  let assemblyFormat = "$state attr-dict `:` type($result)";
}

def FSDP_StoreOp : FSDP_Op<"store", [
    FSDP_TimelineOpInterface,
    DeclareOpInterfaceMethods<FSDP_StateAccessOpInterface, ["getWrittenStates"]>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "Writes a buffer, or puts a gradient back to -0.0";
  let description = [{
    Parameters and optimizer state are written by `fsdp.update` alone; but what
    an update gives for a staged parameter is stored.
  }];
  let arguments = (ins FSDP_Tensor:$value, FlatSymbolRefAttr:$state);
  let assemblyFormat = "$value `,` $state attr-dict `:` type($value)";
}

def FSDP_UpdateOp : FSDP_Op<"update", [AttrSizedOperandSegments,
    FSDP_TimelineOpInterface,
    DeclareOpInterfaceMethods<FSDP_StateAccessOpInterface,
                              ["getReadStates", "getWrittenStates"]>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "Runs the optimizer's rule on one parameter, in place";
  let description = [{
    The rule is a private function marked `fsdp.rule`. Its operands are the
    parameter, the gradient and the states, in this order; its results the new
    parameter and the new states. Its body is pointwise, so that it may run on
    any part of the parameter; or it looks at whole matrices, until
    `fsdp-split-matrix-rules` makes a pointwise one of it. A pointwise one may be
    of a range: where `end` is not 0, on the elements `begin` to
    `end` of the whole, flat parameter, of which a rank runs those it holds.

    What the rule needs to know of whole matrices is `given`: tensors that are
    operands after the states. They have the parameter's local shape. A state of
    another shape, as Adafactor's variances have, has what is given in its own
    local shape: the rule does not compute with it, and it becomes what is given.

    The rule sees the gradient times `scale`, a scalar, where there is one: the
    product has the gradient's dtype and is never in memory as a whole. Where
    `skip`, a scalar, is not zero nothing happens. A captured update has one where
    values decide whether this rank's batch has the gradient; its rule then has
    `fsdp.missed`, the buffer that counts the steps without.

    Where the parameter and its states are in different memories, it is `staged`
    in that of the states: the rule changes this copy in place, in lieu of the
    parameter, and gives it as result. Updates of one parameter follow each
    other through it, and a `fsdp.store` takes it back to the parameter.

    ```mlir
    fsdp.update @"adamw.0" @"blocks.0.w", %g [@"blocks.0.w/exp_avg", @"blocks.0.w/exp_avg_sq"] : tensor<10x128xf32>
    fsdp.update @"sgd.0" @"blocks.0.w", %g [] scale %factor : tensor<f32> skip %overflow : tensor<f32> : tensor<10x128xf32>
    %new = fsdp.update @"adamw.0" @"blocks.0.w", %g [@"blocks.0.w/exp_avg", @"blocks.0.w/exp_avg_sq"] staged %w : tensor<3x128xf32> : tensor<3x128xf32> -> tensor<3x128xf32>
    fsdp.store %new, @"blocks.0.w" : tensor<3x128xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$rule, FlatSymbolRefAttr:$parameter,
                       FSDP_Tensor:$gradient,
                       FlatSymbolRefArrayAttr:$states,
                       FSDP_CountOr<"0">:$begin, FSDP_CountOr<"0">:$end,
                       Optional<FSDP_Scalar>:$scale,
                       Optional<FSDP_Scalar>:$skip,
                       Optional<FSDP_Tensor>:$staged,
                       Variadic<FSDP_Tensor>:$given);
  let results = (outs Optional<FSDP_Tensor>:$result);
  let assemblyFormat = [{
    $rule $parameter `,` $gradient $states
    (`given` $given^ `:` type($given))? (`scale` $scale^ `:` type($scale))?
    (`skip` $skip^ `:` type($skip))? (`staged` $staged^ `:` type($staged))?
    attr-dict `:` type($gradient) (`->` type($result)^)?
  }];
  let builders = [
    OpBuilder<(ins "::mlir::FlatSymbolRefAttr":$rule,
                   "::mlir::FlatSymbolRefAttr":$parameter,
                   "::mlir::Value":$gradient, "::mlir::ArrayAttr":$states), [{
      ::mlir::IntegerAttr all = $_builder.getI64IntegerAttr(0);
      build($_builder, $_state, /*result=*/::mlir::Type(), rule, parameter,
            gradient, states, /*begin=*/all, /*end=*/all,
            /*scale=*/::mlir::Value(), /*skip=*/::mlir::Value(),
            /*staged=*/::mlir::Value(), /*given=*/::mlir::ValueRange());
    }]>
  ];
  let hasVerifier = 1;
}

def FSDP_HyperparameterOp : FSDP_Op<"hyperparameter", [Pure, FSDP_StepScalar]> {
  let summary = "A number of a parameter group in this step";
  let description = [{
    The learning rate, `"lr"`, or another one that a schedule changes: one of
    the `hyperparameters` of `fsdp.training`. Pure: it changes between steps
    only.

    ```mlir
    %lr = fsdp.hyperparameter "lr" of 0
    %beta1 = fsdp.hyperparameter "betas.0" of 1
    ```
  }];
  let arguments = (ins StrAttr:$name,
                       ConfinedAttr<I64Attr, [IntNonNegative]>:$group);
  let results = (outs F64:$result);
  let assemblyFormat = "$name `of` $group attr-dict";
}

def FSDP_StepCountOp : FSDP_Op<"step_count", [Pure, FSDP_StepScalar]> {
  let summary = "The number of this step: 1.0 in the first";
  let results = (outs F64:$result);
  let assemblyFormat = "attr-dict";
}

def FSDP_RankOp : FSDP_Op<"rank", [Pure, FSDP_StepScalar]> {
  let summary = "The number of this rank: 0.0 on the first";
  let description = [{
    It differs between ranks. So what follows from it alone changes no
    parameter.
  }];
  let results = (outs F64:$result);
  let assemblyFormat = "attr-dict";
}

def FSDP_SumOverRanksOp : FSDP_Op<"sum_over_ranks", [
    Pure, AllTypesMatch<["input", "result"]>]> {
  let summary = "All ranks' tensors added up, as the step itself asks for";
  let description = [{
    A collective of the user's own code: statistics of a batch that all ranks
    share, or features of all ranks. The sum is in the tensor's element type; it
    is over all ranks of the mesh that the step is compiled for, whichever axes
    that has.

    ```mlir
    %total = fsdp.sum_over_ranks %own : tensor<8xf32>
    ```
  }];
  let arguments = (ins FSDP_Tensor:$input);
  let results = (outs FSDP_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def FSDP_StateValueOp : FSDP_Op<"state_value", [Pure, FSDP_StepScalar,
    DeclareOpInterfaceMethods<FSDP_StateAccessOpInterface, ["getReadStates"]>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "The one number of a state, as it is before this step";
  let description = [{
    Pure: what the step itself writes shows in the next one. Every rank holds
    the whole state.

    ```mlir
    %skipped = fsdp.state_value @fsdp.scaler.skipped
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$state);
  let results = (outs F64:$result);
  let assemblyFormat = "$state attr-dict";
}

def FSDP_RecurrenceOp : FSDP_Op<"recurrence", [Pure, FSDP_StepScalar,
    IsolatedFromAbove, SingleBlock]> {
  let summary = "Numbers that follow from what they were in the step before";
  let description = [{
    In the first step the results are the operands. In any later one they are
    what the body gives for the step before: there its arguments were the
    results, and `fsdp.step_count` and `fsdp.hyperparameter` those of that
    step. So the numbers are no state: they are known wherever the steps before
    can be counted.

    ```mlir
    // x in the first step, then x * 0.5, then x * 0.25
    %x = fsdp.hyperparameter "lr" of 0
    %y = fsdp.recurrence %x {
    ^bb0(%former: f64):
      %half = arith.constant 0.5 : f64
      %next = arith.mulf %former, %half : f64
      fsdp.yield %next
    } : f64
    ```
  }];
  let arguments = (ins Variadic<F64>:$initial);
  let results = (outs Variadic<F64>:$numbers);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$initial $body attr-dict `:` type($numbers)";
  let hasVerifier = 1;
}

def FSDP_YieldOp : FSDP_Op<"yield", [Pure, Terminator,
                                     HasParent<"RecurrenceOp">]> {
  let summary = "What the numbers of a recurrence are in the next step";
  let arguments = (ins Variadic<F64>:$numbers);
  let assemblyFormat = "$numbers attr-dict";
}

#endif // FSDP_CAPTURED_TD
