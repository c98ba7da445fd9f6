"""Tests that what is captured lies in memory as the CPU's kernels leave it: sums over it have other
last bits in another order."""

from __future__ import annotations

import collections
import itertools
import warnings
from typing import Any, Callable, Iterator

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from fsdp_mlir.capture.operators.eager_kernels import eager_results

aten = torch.ops.aten


def permuted(*shape: int) -> torch.Tensor:
    """Its last dimension steps farther in memory than its second one."""
    return torch.randn(shape).transpose(1, -1).contiguous().transpose(1, -1)


def lies_as(found: torch.Tensor, wanted: torch.Tensor) -> bool:
    lines = zip(wanted.shape, wanted.stride(), found.stride(), strict=True)
    same = found.shape == wanted.shape and found.dtype == wanted.dtype
    return same and all(size < 2 or stride == other for size, stride, other in lines)


def captured(function: Callable[..., Any], *arguments: Any, **others: Any) -> Any:
    """What capture takes the results for."""
    fake = FakeTensorMode()

    def faked(value: Any) -> Any:
        return fake.from_tensor(value.detach()) if isinstance(value, torch.Tensor) else value

    arguments, others = tree_map(faked, (arguments, others))
    with eager_results(), fake:
        return function(*arguments, **others)


def channels(count: int) -> list[torch.Tensor]:
    return [torch.rand(count) + 1 for _ in range(4)]


def layer_norm_backward() -> tuple[Any, ...]:
    x, scale = permuted(2, 3, 4, 5), torch.ones(5)
    _, mean, inverse = aten.native_layer_norm(x, [5], scale, scale, 1e-5)
    return permuted(2, 3, 4, 5), x, [5], mean, inverse, scale, scale, [True] * 3


def batch_norm() -> tuple[Any, ...]:
    return permuted(2, 3, 4), *channels(3), True, 0.1, 1e-5


def batch_norm_backward() -> tuple[Any, ...]:
    scale, mean, variance, inverse = channels(3)
    saved = (scale, mean, variance, mean, inverse)
    return permuted(2, 3, 4, 5), permuted(2, 3, 4, 5), *saved, True, 1e-5, [True] * 3


CALLS: dict[Any, Callable[[], tuple[Any, ...]]] = {
    aten.native_layer_norm_backward.default: layer_norm_backward,
    aten.native_batch_norm_backward.default: batch_norm_backward,
    aten.native_batch_norm.default: batch_norm,
    aten._native_batch_norm_legit_functional.default: batch_norm,
    aten._log_softmax_backward_data.default: lambda: (
        permuted(2, 3, 4),
        torch.randn(2, 3, 4),
        1,
        torch.float32,
    ),
    aten.hardtanh_backward.default: lambda: (torch.randn(2, 3, 4), permuted(2, 3, 4), -1.0, 1.0),
    aten.binary_cross_entropy_backward.default: lambda: (
        permuted(2, 3, 4),
        torch.rand(2, 3, 4),
        torch.rand(2, 3, 4),
    ),
    aten.log_sigmoid_forward.default: lambda: (permuted(2, 3, 4),),
    aten.mse_loss_backward.default: lambda: (
        torch.ones(()),
        permuted(2, 3, 4),
        permuted(2, 3, 4),
        1,
    ),
    aten.native_dropout_backward.default: lambda: (
        permuted(5, 5, 5, 5),
        torch.ones(5, 5, 5, 5, dtype=torch.bool),
        2.0,
    ),
}


@pytest.mark.parametrize("operator", CALLS, ids=str)
def test_results_lie_as_the_kernel_leaves_them(operator: Any) -> None:
    torch.manual_seed(0)
    arguments = CALLS[operator]()
    wanted = tree_leaves(operator(*arguments))
    found = tree_leaves(captured(operator, *arguments))
    assert all(lies_as(a, b) for a, b in zip(found, wanted, strict=True))


ELU_NUMBERS = (1.0, 1.0, 1.0, False)
OF_ONE_PIXEL: dict[Any, Callable[..., tuple[Any, ...]]] = {
    aten.relu.default: lambda a, b: (a,),
    aten.threshold_backward.default: lambda a, b: (a, b, 0),
    aten.gelu_backward.default: lambda a, b: (a, b),
    aten.elu_backward.default: lambda a, b: (a, *ELU_NUMBERS, b),
    aten.hardtanh_backward.default: lambda a, b: (a, b, 0, 6),
    aten.hardtanh.default: lambda a, b: (a, 0, 6),
    aten.leaky_relu.default: lambda a, b: (a, 0.1),
    aten.leaky_relu_backward.default: lambda a, b: (a, b, 0.1, False),
    aten.pow.Tensor_Scalar: lambda a, b: (a, 2),
    aten.add.Tensor: lambda a, b: (a, b),
    aten.mul.Tensor: lambda a, b: (a, 2.0),
    aten.div.Tensor: lambda a, b: (a, torch.tensor(2.0)),
    aten.le.Scalar: lambda a, b: (a, 0),
    aten.clone.default: lambda a, b: (a,),
}


@pytest.mark.parametrize("operator", OF_ONE_PIXEL, ids=str)
def test_strides_of_sizes_of_one_are_the_kernels(operator: Any) -> None:
    """Batch norm's kernels take those of channels-last maps of one pixel for their format."""
    rows = torch.rand(2, 4, 1, 1)
    maps = torch.empty_strided(rows.shape, (4, 1, 4, 4)).copy_(rows)
    for operands in itertools.product((rows, maps), repeat=2):
        arguments = OF_ONE_PIXEL[operator](*operands)
        assert captured(operator, *arguments).stride() == operator(*arguments).stride()


class Comparison(TorchDispatchMode):
    """Compares each operator that runs with what is captured for it."""

    def __init__(self) -> None:
        super().__init__()
        self.other: dict[str, list[Any]] = collections.defaultdict(list)
        self.compared = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        results = func(*args, **kwargs)
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        plain = all(t.layout == torch.strided and not t.is_complex() for t in tensors)
        if tensors and plain and not func._schema.is_mutable:
            self._compare(func, args, kwargs, results)
        return results

    def _compare(self, func: Any, args: Any, kwargs: Any, results: Any) -> None:
        try:
            found = captured(func, *args, **kwargs)
        except Exception:
            return  # sizes that depend on values
        self.compared += 1
        for a, b in zip(tree_leaves(found), tree_leaves(results)):
            if isinstance(b, torch.Tensor) and b.layout == torch.strided and b.numel() > 1:
                if not lies_as(a, b):
                    self.other[str(func)].append((a.stride(), b.stride()))


def runs_of_samples() -> Iterator[Callable[[], Any]]:
    """PyTorch's own samples of all its operators, forward and backward, as they are and permuted,
    with gradients of the same order or row-major."""
    from support.op_samples import op_db

    def turned(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not value.is_floating_point() or value.dim() < 3:
            return value
        other = value.detach().transpose(1, -1).contiguous().transpose(1, -1)
        return other.requires_grad_(value.requires_grad)

    def same(value: Any) -> Any:
        return value

    Turn = Callable[[Any], Any]

    def run(op: Any, sample: Any, turn: Turn, turn_gradient: Turn) -> None:
        first, args, kwargs = tree_map(turn, (sample.input, sample.args, sample.kwargs))
        results = tree_leaves(op(first, *args, **kwargs))
        real = [r for r in results if isinstance(r, torch.Tensor) and r.is_floating_point()]
        outputs = [r for r in real if r.requires_grad]
        if outputs:
            torch.autograd.backward(outputs, [turn_gradient(torch.ones(r.shape)) for r in outputs])

    for op in op_db:
        if torch.float32 not in op.dtypes:
            continue
        samples = op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd)
        for _, sample in zip(range(8), samples):
            for turns in ((same, same), (turned, turned), (turned, same)):
                yield lambda: run(op, sample, *turns)


# Operators by element, of operands that are broadcast and permuted both: their own values are the
# same in any order. And what no captured step has, or has a size by its values.
KNOWN = {
    f"aten.{name}"
    for name in """copysign.Tensor div.Tensor_mode floor_divide.default heaviside.default
    ldexp.Tensor logaddexp.default logaddexp2.default logical_and.default logical_or.default
    logical_xor.default pow.Scalar special_xlog1py.default xlogy.Tensor
    batch_norm_backward.default normal.Tensor_Tensor _unique.default""".split()
}


@pytest.mark.long
def test_no_other_operator_lies_otherwise() -> None:
    with warnings.catch_warnings(), Comparison() as comparison:
        warnings.simplefilter("ignore")
        for run in runs_of_samples():
            try:
                run()
            except Exception:
                continue  # samples that eager refuses as they are turned
    assert comparison.compared > 5000
    assert {name: comparison.other[name] for name in comparison.other.keys() - KNOWN} == {}
