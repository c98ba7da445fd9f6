"""Tests that the compiler knows which results of operators are of another type on a GPU than on a
CPU: those where PyTorch's fake tensors of the two differ, in PyTorch's modules."""

from __future__ import annotations

import re
from typing import Any, Iterator

import torch
from torch._functorch.aot_autograd import aot_module
from torch._subclasses import FakeTensorMode
from torch.testing._internal.common_modules import ModuleInfo, module_db
from torch.utils._pytree import tree_leaves, tree_map

from support import chain

TABLE = chain.ROOT / "lib/Transforms/Device/DeviceResults.cpp"
# Of which no graph is made here: their construction, sizes or branches need values, or they have no
# kernel in bfloat16.
UNSEEN = {
    "nn.AvgPool3d",
    "nn.CTCLoss",
    "nn.GaussianNLLLoss",
    "nn.LPPool3d",
    *(f"nn.LazyConv{kind}{dims}d" for kind in ("", "Transpose") for dims in (1, 2, 3)),
}


def known() -> set[tuple[str, int]]:
    """The operators of the table, and which of their results."""
    return {(op, int(i)) for op, i in re.findall(r'\{"([\w.]+)", (\d), \w+\}', TABLE.read_text())}


def on_gpu(node: torch.fx.Node) -> Any:
    """What a call of a graph gives for fake tensors of a GPU."""

    def moved(value: Any) -> Any:
        if _is_node(value):
            return tree_map(moved, value.meta["val"])
        if isinstance(value, torch.Tensor):
            return torch.empty_strided(
                value.shape, value.stride(), dtype=value.dtype, device="cuda"
            )
        return torch.device("cuda") if isinstance(value, torch.device) else value

    with FakeTensorMode(allow_non_fake_inputs=True):
        args, kwargs = tree_map(moved, (node.args, dict(node.kwargs)), is_leaf=_is_node)
        return node.target(*args, **kwargs)


def _is_node(value: Any) -> bool:
    return isinstance(value, torch.fx.Node)


def differences(graph: torch.fx.GraphModule) -> Iterator[tuple[str, int]]:
    """Results of a graph's calls that are of another shape or dtype on a GPU."""
    for node in graph.graph.nodes:
        if not isinstance(node.target, torch._ops.OpOverload):
            continue
        ours, theirs = tree_leaves(node.meta["val"]), tree_leaves(on_gpu(node))
        for i, (one, other) in enumerate(zip(ours, theirs)):
            if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
                if (one.shape, one.dtype) != (other.shape, other.dtype):
                    name = node.target.name().removeprefix("aten::")
                    yield name, i


def look_at(info: ModuleInfo) -> set[tuple[str, int]]:
    """Captures a module's first sample as evaluation does, whose operators no step of training has."""
    found: set[tuple[str, int]] = set()

    def compiler(graph: torch.fx.GraphModule, _: Any) -> Any:
        found.update(differences(graph))
        return graph.forward

    samples = info.module_inputs_func(
        info, device="cpu", dtype=torch.bfloat16, requires_grad=False, training=False
    )
    made, given = samples[0].constructor_input, samples[0].forward_input
    module = info.module_cls(*made.args, **made.kwargs).to(torch.bfloat16).eval()
    captured = aot_module(module, fw_compiler=compiler)
    with torch.no_grad():
        captured(*given.args, **given.kwargs)
    return found


def test_the_table_has_what_differs() -> None:
    found, unseen = set(), set()
    for info in module_db:
        try:
            found |= look_at(info)
        except Exception:
            unseen.add(info.name)
    # oneDNN has an LSTM of bfloat16 where the processor has AVX-512 alone.
    without = set() if torch.ops.mkldnn._is_mkldnn_bf16_supported() else {"nn.LSTM"}
    assert unseen - without == UNSEEN
    assert found <= known()
    assert ("_native_batch_norm_legit_no_training", 1) in found
