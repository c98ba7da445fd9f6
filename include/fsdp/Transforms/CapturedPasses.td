// The passes over captured steps: which kernels compute it, what a unit is, and
// what is recomputed.

#ifndef FSDP_CAPTURED_PASSES_TD
#define FSDP_CAPTURED_PASSES_TD

include "fsdp/Transforms/PassOptions.td"

def RecordMeaning : ModulePass<"fsdp-record-meaning"> {
  let summary = "Writes into each program what it computes, as digests";
  let description = [{
    Input IR: captured.

    Output IR: the same, with `fsdp.meaning` on each program: for each output
    the digest of its term, for each buffer that is stored that of what it
    becomes, for each parameter that is updated those of its gradient and of its
    update. A term is the operators with their constants, inputs and states that
    a value follows from.

    What holds: passes after this one rewrite how a step is computed. The
    checker follows the commands of the plan and must come to the same digests
    (C34 of docs/checker.md).

    Why: a plan whose order is right may still compute something else. A plan
    has nothing of the sequential step itself to compare with.

    It fails where a program has an op that is none of a captured step.

    Input:

    ```mlir
    // fsdp-opt --fsdp-record-meaning
    func.func @step(%x: tensor<4xf32> {fsdp.input = "x"}) -> (tensor<4xf32> {fsdp.output = "loss"}) {
      %y = aten.call "neg"(%x) : (tensor<4xf32>) -> tensor<4xf32>
      return %y : tensor<4xf32>
    }
    ```

    Output:

    ```mlir
    func.func @step(%arg0: tensor<4xf32> {fsdp.input = "x"}) -> (tensor<4xf32> {fsdp.output = "loss"}) attributes {fsdp.meaning = {outputs = {loss = "c6c6077ba4a1e475c05b60a36f7dba56"}}} {
      %0 = aten.call "neg"(%arg0) : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }
    ```
  }];
}

def ClipValues : ModulePass<"fsdp-clip-values"> {
  let summary = "Bounds each element of gradients, in the rules";
  let description = [{
    Input IR: captured; of `fsdp.training`, `clip_grad_value`, the largest
    magnitude. Without it nothing changes.

    Output IR: each rule clamps its gradient first.

    What holds: an update has the bits of PyTorch's `clip_grad_value_` before
    the optimizer's step. A gradient itself is not changed.

    Why: a clamp is pointwise, and so a part of what a rule computes with its
    gradient. It is said before the step's meaning is recorded, and what stands
    behind is held to it.

    Input:

    ```mlir
    // fsdp-opt --fsdp-clip-values
    module {
      fsdp.training {clip_grad_value = 0.5 : f64}
      fsdp.state @w parameter : tensor<4xf32> {trainable}
      func.func private @sgd(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
        %n = aten.call "sub.Tensor"(%p, %g) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
        return %n : tensor<*xf32>
      }
      func.func @step(%x: tensor<4xf32> {fsdp.input = "x"}) -> (tensor<4xf32> {fsdp.output = "loss"}) {
        fsdp.update @sgd @w, %x [] : tensor<4xf32>
        return %x : tensor<4xf32>
      }
    }
    ```

    Output:

    ```mlir
    fsdp.training {clip_grad_value = 5.000000e-01 : f64}
    fsdp.state @w parameter : tensor<4xf32> {trainable}
    func.func private @sgd(%arg0: tensor<*xf32>, %arg1: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
      %0 = aten.call "clamp"(%arg1) {max = 5.000000e-01 : f64, min = -5.000000e-01 : f64} : (tensor<*xf32>) -> tensor<*xf32>
      %1 = aten.call "sub.Tensor"(%arg0, %0) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
      return %1 : tensor<*xf32>
    }
    func.func @step(%arg0: tensor<4xf32> {fsdp.input = "x"}) -> (tensor<4xf32> {fsdp.output = "loss"}) {
      fsdp.update @sgd @w, %arg0 [] : tensor<4xf32>
      return %arg0 : tensor<4xf32>
    }
    ```
  }];
  let dependentDialects = ["::fsdp::aten::AtenDialect"];
}

def ChooseKernels : ModulePass<"fsdp-choose-kernels"> {
  let summary = "Takes the fastest kernel for each product and attention";
  let description = [{
    Input IR: captured.

    Output IR: with `kernels=exact` the same. With `kernels=fast`, each call of
    `mm`, `addmm` and `bmm`, of convolutions of 16 bits, and of PyTorch's flash
    attention for CPUs, forward and backward, that is in `kernel-table` calls the
    kernel that is the fastest there, and says how many seconds it takes
    (`measured`); operands and types stay. The kernels are the rows of
    `runtime/cost/Kernels.def`. One with other bits than eager PyTorch's must be
    faster by 3 %: less is noise. Cross-entropy of 512 classes and
    more, and its backward, are one call each (`fsdp_mlir::cross_entropy`), as
    on GPUs.

    What holds: each call computes the same product or attention; its last bits
    may differ. The choice is in the plan, so that all ranks and runs have the
    same bits. What is not in the table, and what only ATen takes (a dtype wider
    than float32, a bias that is no row, an attention with dropout or a mask),
    stays as it is. A table that was measured on another processor or with
    another PyTorch is refused, unless `cluster` says that the plan is for
    another machine than this one.

    Why: which library is the fastest depends on shapes and processor, and no
    rule says so. A compiler can measure, once and ahead of time. The pass
    stands first, so that later passes see, price and recompute what will run. A
    measured time is the price of its call, in the compiler and in the plan.

    Input:

    ```mlir
    // fsdp-opt --fsdp-choose-kernels="kernels=fast kernel-table=test/compiler/Transforms/Inputs/kernels.toml cluster=h100x8"
    func.func @step(%x: tensor<512x256xf32>, %w: tensor<256x5000xf32>) -> tensor<512x5000xf32> {
      %y = aten.call "mm"(%x, %w) : (tensor<512x256xf32>, tensor<256x5000xf32>) -> tensor<512x5000xf32>
      return %y : tensor<512x5000xf32>
    }
    ```

    Output:

    ```mlir
    func.func @step(%arg0: tensor<512x256xf32>, %arg1: tensor<256x5000xf32>) -> tensor<512x5000xf32> {
      %0 = aten.call "fsdp_mlir::mm.onednn_linear"(%arg0, %arg1) measured(1.000000e-03) : (tensor<512x256xf32>, tensor<256x5000xf32>) -> tensor<512x5000xf32>
      return %0 : tensor<512x5000xf32>
    }
    ```
  }];
  let options = [KernelsOption, KernelTableOption, ClusterOption];
  let dependentDialects = ["::fsdp::aten::AtenDialect"];
}

def AssignUnits : ModulePass<"fsdp-assign-units"> {
  let summary = "Decides which parameters are gathered and reduced together";
  let description = [{
    Input IR: captured. Where the model names its units, `fsdp.unit` ops and
    `unit` on every parameter that is not replicated: they are kept.

    Output IR: `fsdp.unit` ops in the order of their first use in @step, and
    `unit` on every parameter. Nothing else changes.

    What holds: units own parameters by name, never ops. Every parameter that is
    not replicated has one unit. The root owns the parameters that no other unit
    owns, and those that two units reach under different names (a tied weight).

    Why: a unit is one all-gather and one reduce-scatter, so units set how much
    is whole at once and how often ranks talk.

    `units` is one of
    - `auto`: the children of an outermost ModuleList, Sequential or ModuleDict
      in which one class repeats, as far as they have parameters. A list of
      blocks (modules that contain modules) goes before a list of layers, such
      as two embeddings: where there are both, only the blocks are units;
    - `class:NAME`: each module of that class; the innermost owns;
    - a number: units of at least that many bytes of parameters, in the order of
      their use;
    - anything else: an extended regular expression that a module's whole path
      matches.

    Input:

    ```mlir
    // fsdp-opt --fsdp-assign-units="units=class:Linear"
    fsdp.module "" class "Net"
    fsdp.module "out" class "Linear"
    fsdp.state @out.w parameter : tensor<4xf32> {trainable}
    fsdp.state @scale parameter : tensor<4xf32> {trainable}
    func.func @step() -> tensor<4xf32> {
      %w = fsdp.load @out.w : tensor<4xf32>
      %s = fsdp.load @scale : tensor<4xf32>
      %y = aten.call "mul.Tensor"(%w, %s) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %y : tensor<4xf32>
    }
    ```

    Output:

    ```mlir
    fsdp.module "" class "Net"
    fsdp.module "out" class "Linear"
    fsdp.unit "out"
    fsdp.unit "" root
    fsdp.state @out.w parameter : tensor<4xf32> {trainable, unit = "out"}
    fsdp.state @scale parameter : tensor<4xf32> {trainable, unit = ""}
    func.func @step() -> tensor<4xf32> {
      %0 = fsdp.load @out.w : tensor<4xf32>
      %1 = fsdp.load @scale : tensor<4xf32>
      %2 = aten.call "mul.Tensor"(%0, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %2 : tensor<4xf32>
    }
    ```
  }];
  let options = [UnitsOption];
  let dependentDialects = ["::fsdp::FSDPDialect"];
}

def RematActivations : ModulePass<"fsdp-remat-activations"> {
  let summary = "Recomputes in backward what forward need not keep";
  let description = [{
    Input IR: captured; units are assigned.

    Output IR: what backward reads of a region, and forward does not keep,
    backward computes again. The copies stand in front of their first reader in
    backward and say `recompute`, with the region's name. A region is the ops of
    a unit's modules, without those of units inside it and of the root, or a
    checkpoint of the model's own (`checkpoint`).

    Forward always keeps what enters a region and what leaves it. `remat` says
    what it keeps besides:

    - `full`: nothing;
    - `selective`: results of matrix products, convolutions and attention;
    - `none`: everything;
    - `auto`: chosen for each region, so that `memory-budget-mib` holds at the
      least time that is predicted on `cluster`. A choice is measured by running
      `trial`, the passes that follow, on a copy. Where no choice fits, an error
      names the smallest budget that one does.

    A checkpoint is recomputed whatever the option says, except for results that
    its policy keeps (`must_save`).

    What holds: the same ops run on the same values and give the same bits. A
    random op keeps its site, and so repeats its numbers. Stores of forward are
    not repeated. `--cse` does not merge copies with ops of forward.

    Why: activations between a unit's forward and its backward do not take memory
    while other units run. The price is the time to compute them again. The pass
    stands in front of shard-state because every reader in backward, a
    recomputed one too, gets a gather of its own there.

    Input:

    ```mlir
    // fsdp-opt --fsdp-remat-activations="remat=full"
    fsdp.module "block" class "Block"
    fsdp.unit "block"
    func.func @step(%x: tensor<4xf32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}, tensor<4xf32>) {
      %a = aten.call "exp"(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("block"("model.py":3:0))
      %b = aten.call "tanh"(%a) : (tensor<4xf32>) -> tensor<4xf32> loc("block"("model.py":4:0))
      %loss = aten.call "sum"(%b) : (tensor<4xf32>) -> tensor<f32> loc("")
      %g = aten.call "mul.Tensor"(%a, %x) backward : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("block"("model.py":3:0))
      return %loss, %g : tensor<f32>, tensor<4xf32>
    }
    ```

    Output:

    ```mlir
    fsdp.module "block" class "Block"
    fsdp.unit "block"
    func.func @step(%arg0: tensor<4xf32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}, tensor<4xf32>) {
      %0 = aten.call "exp"(%arg0) : (tensor<4xf32>) -> tensor<4xf32>
      %1 = aten.call "tanh"(%0) : (tensor<4xf32>) -> tensor<4xf32>
      %2 = aten.call "sum"(%1) : (tensor<4xf32>) -> tensor<f32>
      %3 = aten.call "exp"(%arg0) backward recompute("block") : (tensor<4xf32>) -> tensor<4xf32>
      %4 = aten.call "mul.Tensor"(%3, %arg0) backward : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %2, %4 : tensor<f32>, tensor<4xf32>
    }
    ```
  }];
  let options = [RematOption, MemoryBudgetOption, ClusterOption,
                 Option<"trial", "trial", "std::string", "\"\"",
                        "the passes that follow, by which auto measures">];
  let dependentDialects = ["::fsdp::FSDPDialect", "::fsdp::aten::AtenDialect"];
}

#endif // FSDP_CAPTURED_PASSES_TD
