// The passes that decide where a step computes and where its state lives: on
// GPUs, on the host.

#ifndef FSDP_DEVICE_PASSES_TD
#define FSDP_DEVICE_PASSES_TD

include "fsdp/Transforms/PassOptions.td"

def SelectKernels : ModulePass<"fsdp-select-kernels"> {
  let summary = "Picks the kernels of the device that a plan is for";
  let description = [{
    Input IR: captured, with the kernels of a CPU: a step is captured on one.

    Output IR: with `device=cpu` the same. With `device=cuda`, `fsdp.device` on
    the module, and each attention is a call of one of PyTorch's kernels for
    GPUs: of `attention`, the first that computes it, by type, mask and head
    size. What such a kernel asks for is put around it: heads are padded to a
    size that it takes, keys are repeated for each query head, the mask is cast
    to the type of the scores, its rows aligned, and expanded. Where a CPU has
    captured attention as matrix products (with dropout, or a mask that has a
    gradient), they become a kernel if one computes it, and stay otherwise.
    A log-softmax with the negative log-likelihood of classes, which nobody else
    reads, becomes `fsdp_mlir::cross_entropy`, and its backward one call as well:
    they read logits of 16 bits as the model gives them and compute in f32, so
    that neither the wide logits nor their probabilities are in memory.

    What holds: the value is that of the same expression, and what reads it sees
    the same type. What other operators leave for their backward gets the type
    that a GPU gives (of normalisations in half precision, f32). A rule whose
    `fsdp.optimizer` is torch.optim's Adam, AdamW or SGD is a call of the fused
    kernel of that optimizer. Every other operator has one name for all devices, and `fsdp-verify-commands` sees to it
    that there is a kernel for it.

    Why: attention is the operator that has a name for each kernel. The pass
    stands first, so that later passes see, price and recompute what will run.

    Input:

    ```mlir
    // fsdp-opt --fsdp-select-kernels="device=cuda"
    func.func @step(%q: tensor<1x2x8x16xbf16>) -> tensor<1x2x8x16xbf16> {
      %a:2 = aten.call "_scaled_dot_product_flash_attention_for_cpu"(%q, %q, %q) {is_causal = true} : (tensor<1x2x8x16xbf16>, tensor<1x2x8x16xbf16>, tensor<1x2x8x16xbf16>) -> (tensor<1x2x8x16xbf16>, tensor<1x2x8xf32, #aten.strides<[16, 1, 2]>>)
      return %a#0 : tensor<1x2x8x16xbf16>
    }
    ```

    Output:

    ```mlir
    module attributes {fsdp.device = "cuda"} {
      func.func @step(%arg0: tensor<1x2x8x16xbf16>) -> tensor<1x2x8x16xbf16> {
        %0:7 = aten.call "_scaled_dot_product_flash_attention"(%arg0, %arg0, %arg0) {is_causal = true} : (tensor<1x2x8x16xbf16>, tensor<1x2x8x16xbf16>, tensor<1x2x8x16xbf16>) -> (tensor<1x2x8x16xbf16>, tensor<1x2x8xf32>, none, none, none, none, none)
        return %0#0 : tensor<1x2x8x16xbf16>
      }
    }
    ```
  }];
  let options = [DeviceOption, AttentionOption];
  let dependentDialects = ["::fsdp::aten::AtenDialect"];
}

def HoldScalars : ModulePass<"fsdp-hold-scalars"> {
  let summary = "Keeps the numbers of a step in a GPU's memory";
  let description = [{
    Input IR: any before commands; `fsdp.device` on the module. Without it
    nothing changes.

    Output IR: a step scalar (`fsdp.hyperparameter`, `fsdp.step_count`, what
    follows from them) is read by `aten.call "scalar_tensor"` alone, and what
    took the number takes that tensor: by the overload that has one there
    (`mul.Scalar` becomes `mul.Tensor`, `_fused_adamw` its `tensor_lr`), or as a
    factor of an operand (`addcdiv`'s `value`, `add.Tensor`'s `alpha`). Calls in
    f16 and bf16 that take one are done in f32. What follows from an
    `fsdp.state_value` is computed by calls on tensors.

    What holds: a call means the same; its last bits may be other ones. Calls
    that have no such form are refused.

    Why: what is captured as a graph keeps the numbers that its kernels were
    launched with. In memory they are the step's own, so that a plan has the same
    bits with and without a graph; and a number that a GPU holds never has to
    come to the host.

    Input:

    ```mlir
    // fsdp-opt --fsdp-hold-scalars
    module attributes {fsdp.device = "cuda"} {
      func.func private @rule(%g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
        %lr = fsdp.hyperparameter "lr" of 0
        %d = aten.call "mul.Scalar"(%g, %lr) : (tensor<*xf32>, f64) -> tensor<*xf32>
        return %d : tensor<*xf32>
      }
    }
    ```

    Output:

    ```mlir
    module attributes {fsdp.device = "cuda"} {
      func.func private @rule(%arg0: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
        %0 = fsdp.hyperparameter "lr" of 0
        %1 = aten.call "scalar_tensor"(%0) {dtype = f32} : (f64) -> tensor<f32>
        %2 = aten.call "mul.Tensor"(%arg0, %1) : (tensor<*xf32>, tensor<f32>) -> tensor<*xf32>
        return %2 : tensor<*xf32>
      }
    }
    ```
  }];
  let dependentDialects = ["::fsdp::FSDPDialect", "::fsdp::aten::AtenDialect"];
}

def GroupUpdates : ModulePass<"fsdp-group-updates"> {
  let summary = "Brings updates together that a GPU can launch as one";
  let description = [{
    Input IR: scheduled; `fsdp.device` on the module. Without it nothing changes.

    Output IR: where only casts of gradients stand between updates, the casts
    come first. The updates follow, those of one rule together, in groups whose
    gradients have at most 64 MiB. An update with a `scale`, a `staged`
    parameter or `given` tensors stays where it is.

    What holds: every parameter gets the same update. Updates do not change
    places where a gradient may be another parameter's memory. The pass cannot
    fail.

    Why: a GPU updates a small parameter in the time of a launch, and most
    parameters are small. The runtime gives updates of one rule that follow each
    other to one launch of the rule's kernel (`runtime/executor/UpdateRule.h`):
    on an H200 the updates of GPT-2 124M, launched one by one, took 3.1 ms of a
    step of 27.4 ms.

    Input:

    ```mlir
    // fsdp-opt --fsdp-group-updates
    module attributes {fsdp.device = "cuda"} {
      fsdp.state @w parameter : tensor<4xf32> {trainable}
      fsdp.state @b parameter : tensor<2xf32> {trainable}
      func.func private @"sgd.0"(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
        %n = aten.call "sub.Tensor"(%p, %g) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
        return %n : tensor<*xf32>
      }
      func.func @step(%0: tensor<4xbf16>, %1: tensor<2xbf16>) {
        %2 = aten.call "_to_copy"(%0) backward {dtype = f32} : (tensor<4xbf16>) -> tensor<4xf32>
        fsdp.update @sgd.0 @w, %2 [] : tensor<4xf32>
        %3 = aten.call "_to_copy"(%1) backward {dtype = f32} : (tensor<2xbf16>) -> tensor<2xf32>
        fsdp.update @sgd.0 @b, %3 [] : tensor<2xf32>
        return
      }
    }
    ```

    Output:

    ```mlir
    module attributes {fsdp.device = "cuda"} {
      fsdp.state @w parameter : tensor<4xf32> {trainable}
      fsdp.state @b parameter : tensor<2xf32> {trainable}
      func.func private @sgd.0(%arg0: tensor<*xf32>, %arg1: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
        %0 = aten.call "sub.Tensor"(%arg0, %arg1) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
        return %0 : tensor<*xf32>
      }
      func.func @step(%arg0: tensor<4xbf16>, %arg1: tensor<2xbf16>) {
        %0 = aten.call "_to_copy"(%arg0) backward {dtype = f32} : (tensor<4xbf16>) -> tensor<4xf32>
        %1 = aten.call "_to_copy"(%arg1) backward {dtype = f32} : (tensor<2xbf16>) -> tensor<2xf32>
        fsdp.update @sgd.0 @w, %0 [] : tensor<4xf32>
        fsdp.update @sgd.0 @b, %1 [] : tensor<2xf32>
        return
      }
    }
    ```
  }];
}

def OffloadState : ModulePass<"fsdp-offload-state"> {
  let summary = "Keeps parameters, optimizer state or both on the host";
  let description = [{
    Input IR: parameters have units, types are those of one rank's part.

    Output IR: with `offload=params` parameters are `on_host`, with `optimizer`
    their optimizer states, with `all` both. Readers of such a parameter,
    gathers mostly, read an `fsdp.fetch`, one per region. An update runs where
    the optimizer states are, or, where there are none, where the parameter is:
    on the host it reads an `fsdp.offload` of the gradient. A parameter that is
    elsewhere is staged: the update changes a fetch or an offload of it, which
    an `fsdp.store` takes back. The module has `fsdp.pin_memory` where host
    memory is to be pinned.

    What holds: only copies read state on the host, and only updates and the
    stores of staged parameters write it. No bit changes. Replicated parameters
    and buffers stay on the device. A fetched parameter is gathered by copying,
    even where `gather=map` shows other states in place.

    Why: with `all`, a rank's device holds only what is whole at one time.
    `optimizer` saves two thirds of that and leaves forward and backward as they
    are. `params` leaves the updates on the device.

    `offload=all` is FSDP2's `CPUOffloadPolicy` for all units. What a unit says
    itself (`offload`, `pin_memory`) wins.

    Input:

    ```mlir
    // fsdp-opt --fsdp-offload-state="offload=all"
    shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
    fsdp.unit "" root
    fsdp.state @w parameter : tensor<2xf32> {global = tensor<4xf32>, sharding = #fsdp.sharding<@mesh, [[0]]>, trainable, unit = ""}
    func.func private @sgd(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
      %n = aten.call "sub.Tensor"(%p, %g) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
      return %n : tensor<*xf32>
    }
    func.func @step(%x: tensor<2xf32> {fsdp.input = "x"}) -> tensor<4xf32> {
      %w = fsdp.load @w : tensor<2xf32>
      %a = shard.all_gather %w on @mesh grid_axes = [0] gather_axis = 0 {fsdp.region = #fsdp<region forward>, fsdp.unit = ""} : tensor<2xf32> -> tensor<4xf32>
      fsdp.update @sgd @w, %x [] : tensor<2xf32>
      return %a : tensor<4xf32>
    }
    ```

    Output:

    ```mlir
    module attributes {fsdp.pin_memory} {
      shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
      fsdp.unit "" root
      fsdp.state @w parameter : tensor<2xf32> {global = tensor<4xf32>, on_host, sharding = #fsdp.sharding<@mesh, [[0]]>, trainable, unit = ""}
      func.func private @sgd(%arg0: tensor<*xf32>, %arg1: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
        %0 = aten.call "sub.Tensor"(%arg0, %arg1) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
        return %0 : tensor<*xf32>
      }
      func.func @step(%arg0: tensor<2xf32> {fsdp.input = "x"}) -> tensor<4xf32> {
        %0 = fsdp.load @w : tensor<2xf32>
        %1 = fsdp.fetch %0 {region = #fsdp<region forward>, unit = ""} : tensor<2xf32>
        %all_gather = shard.all_gather %1 on @mesh grid_axes = [0] gather_axis = 0 {fsdp.region = #fsdp<region forward>, fsdp.unit = ""} : tensor<2xf32> -> tensor<4xf32>
        %2 = fsdp.offload %arg0 {unit = ""} : tensor<2xf32>
        fsdp.update @sgd @w, %2 [] : tensor<2xf32>
        return %all_gather : tensor<4xf32>
      }
    }
    ```
  }];
  let options = [OffloadOption, PinMemoryOption];
  let dependentDialects = ["::fsdp::FSDPDialect", "::fsdp::aten::AtenDialect"];
}

#endif // FSDP_DEVICE_PASSES_TD
