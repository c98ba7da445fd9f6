"""Makes capture resolve composite operators as eager PyTorch does.

For some composite operators PyTorch has a second definition, in Python, that is taken while a
graph is captured and never in eager mode. Those of interpolation compute by gathers what eager's
kernels compute in another order: the last bits differ, and so do memory and speed.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Callable, Iterator, Mapping, Sequence
from unittest import mock

import torch
from torch._prims_common import suggest_memory_format
from torch.utils._pytree import tree_leaves

from ...step.strides import row_major_strides


@functools.cache
def _interpolations() -> list[Any]:
    aten, found = torch.ops.aten, []
    for schema in torch._C._jit_get_all_schemas():
        name = schema.name.removeprefix("aten::")
        if name.lstrip("_").startswith("upsample_") and schema.name != name:
            found.append(getattr(getattr(aten, name), schema.overload_name or "default"))
    return found


def _fft_r2c(
    mode: Any, func: Any, self: torch.Tensor, dim: Any, normalization: int, onesided: bool
) -> torch.Tensor:
    """The result of a real FFT on the CPU, with the strides of its kernel, which is asked: PyTorch's
    own rule says row-major always."""
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    with unset_fake_temporarily():
        real = torch.empty_strided(self.shape, self.stride(), dtype=self.dtype).zero_()
        result = torch.ops.aten._fft_r2c(real, list(dim), normalization, onesided)
    with mode:
        return torch.empty_strided(result.shape, result.stride(), dtype=result.dtype)


def _grouped_mm(
    mode: Any,
    func: Any,
    left: torch.Tensor,
    right: torch.Tensor,
    offs: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """The result of products by groups of rows, in any dtype: PyTorch's own rule refuses all but
    bfloat16, of which its kernels have more."""
    from torch._meta_registrations import _create_grouped_mm_output_tensor

    for matrix in (left, right):
        row_bytes = max(matrix.stride()[-2:]) * matrix.element_size()
        # The kernel's words.
        torch._check(row_bytes % 16 == 0, lambda: "strides should be multiple of 16 bytes")
    with mode:
        return _create_grouped_mm_output_tensor(left, right, offs, out_dtype)


def _attention(
    mode: Any, func: Any, query: torch.Tensor, *others: Any, **options: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """The results of attention on the CPU, whose kernel keeps the sums of its rows in float64 where
    it computes in it: PyTorch's own rule says float32 always."""
    from torch._meta_registrations import meta__scaled_dot_product_flash_attention_for_cpu as rule

    with mode:
        output, sums = rule(query, *others, **options)
        return output, sums.double() if query.dtype == torch.float64 else sums


def _where(
    mode: Any, func: Any, condition: torch.Tensor, self: torch.Tensor, other: torch.Tensor
) -> Any:
    """The result of a choice by bytes, as older code has its masks: PyTorch's own rule refuses them,
    and its kernels take each byte but 0 as true."""
    if condition.dtype != torch.uint8:
        return NotImplemented
    with mode:
        return func(condition.bool(), self, other)


Args = tuple[Any, ...]
Strides = Callable[[torch.Tensor, Args], Sequence[int]]


def _row_major(result: torch.Tensor, args: Args) -> Sequence[int]:
    return row_major_strides(result.shape)


def _as_argument(position: int, suggested: bool = False) -> Strides:
    """A result of that argument's shape gets its order. With `suggested` it does so only where the
    order is channels-last, and is row-major otherwise."""

    def strides(result: torch.Tensor, args: Args) -> Sequence[int]:
        argument = args[position]
        if result.shape != argument.shape:
            return result.stride()
        order = suggest_memory_format(argument) if suggested else torch.preserve_format
        return torch.empty_like(argument, memory_format=order).stride()

    return strides


def _as_a_sum(result: torch.Tensor, args: Args) -> Sequence[int]:
    """A result lies as the sum of the two tensors among the arguments does."""
    return torch.ops.aten.add.Tensor(*(a for a in args if isinstance(a, torch.Tensor))).stride()


def _results_in_other_orders() -> Iterator[tuple[Any, Strides]]:
    """Operators whose kernels leave their results in another order than PyTorch's rules say, where
    an argument is permuted. Found by running samples of all operators (PyTorch 2.11.0)."""
    aten = torch.ops.aten
    yield aten._log_softmax_backward_data.default, _row_major
    for name in ("native_layer_norm", "mse_loss", "huber_loss", "smooth_l1_loss"):
        yield getattr(aten, f"{name}_backward").default, _row_major
    yield aten.log_sigmoid_forward.default, _row_major
    yield aten.native_batch_norm.default, _as_argument(0, suggested=True)
    yield aten._native_batch_norm_legit_functional.default, _as_argument(0, suggested=True)
    yield aten.native_batch_norm_backward.default, _as_argument(1, suggested=True)
    yield aten.binary_cross_entropy_backward.default, _as_argument(1)
    for name in ("elu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "logit", "softplus"):
        yield getattr(aten, f"{name}_backward").default, _as_a_sum
    yield aten.native_dropout_backward.default, _as_a_sum


def _in_order(original: Callable[..., Any], strides: Strides) -> Callable[..., Any]:
    """The rule `original` with these strides of its results."""

    @functools.wraps(original)
    def rule(*args: Any, **others: Any) -> Any:
        def laid_out(result: Any) -> Any:
            if result is None or result.stride() == (wanted := tuple(strides(result, args))):
                return result
            return result.new_empty_strided(result.shape, wanted)

        results = original(*args, **others)
        if isinstance(results, torch.Tensor):
            return laid_out(results)
        return tuple(laid_out(result) for result in results)

    return rule


def _forgets_strides_of_one(func: Any) -> bool:
    """Whether an operator by element gives a result that is row-major also in its sizes of 1 where
    all operands have its shape and are row-major but for these sizes' strides."""
    if not isinstance(func, torch._ops.OpOverload) or func._schema.is_mutable:
        return False
    # These begin with an `empty_like`, or multiply by a number.
    if func._opname in ("clone", "hardtanh", "nan_to_num", "deg2rad", "rad2deg"):
        return False
    return torch.Tag.pointwise in func.tags or func._opname == "leaky_relu"


def _with_eager_strides_of_one(original: Callable[..., Any]) -> Callable[..., Any]:
    """The dispatch `original` of fake tensors with eager's strides of sizes of 1. PyTorch's own
    rules keep those of channels-last maps of one pixel, which choose a batch norm's kernel."""

    @functools.wraps(original)
    def dispatch(mode: Any, func: Any, types: Any, args: Args, kwargs: dict[str, Any]) -> Any:
        result = original(mode, func, types, args, kwargs)
        if not isinstance(result, torch.Tensor) or not _forgets_strides_of_one(func):
            return result
        wanted = row_major_strides(result.shape)
        if result.stride() == wanted or not result.is_contiguous():
            return result
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        # A number beside a tensor is a tensor of another shape, with which strides are kept.
        names = (argument.name for argument in func._schema.arguments)
        other = dict(zip(names, args)).get("other", result)
        if not isinstance(other, torch.Tensor):
            return result
        if any(t.shape != result.shape or not t.is_contiguous() for t in tensors):
            return result
        with mode:
            return result.new_empty_strided(result.shape, wanted)

    return dispatch


def _batch_norms() -> list[Any]:
    """That of a training step, that of an evaluation, and that of a batch without kept statistics."""
    aten = torch.ops.aten
    names = ("_native_batch_norm_legit_functional", "_native_batch_norm_legit_no_training")
    found = [getattr(aten, name).default for name in names]
    return [*found, aten._native_batch_norm_legit.no_stats]


def _batch_norm(overload: Any, original: Callable[..., Any]) -> Callable[..., Any]:
    """The rule `original` of a batch norm with the dtypes of the CPU's kernel, which is asked:
    PyTorch's own rule gives the saved statistics the input's, also under autocast, where the weight
    is in float32 and so are they."""
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    @functools.wraps(original)
    def rule(batch: torch.Tensor, *others: Any) -> tuple[torch.Tensor, ...]:
        results = original(batch, *others)
        with unset_fake_temporarily():
            channel = [
                torch.ones(1, dtype=other.dtype) if isinstance(other, torch.Tensor) else other
                for other in others
            ]
            found = overload(torch.ones(2, 1, dtype=batch.dtype), *channel)
        return tuple(r.to(f.dtype) for r, f in zip(results, found, strict=True))

    return rule


def _asked_alone(original: Callable[..., Any]) -> Callable[..., Any]:
    """The rule `original` of an operator that ends with a mask of the results that are wanted, with
    None for the others, as its kernel gives them."""

    @functools.wraps(original)
    def rule(*args: Any) -> tuple[Any, ...]:
        results = zip(original(*args), args[-1], strict=True)
        return tuple(result if wanted else None for result, wanted in results)

    return rule


@contextlib.contextmanager
def eager_results() -> Iterator[None]:
    """Within it, operators of which PyTorch's own rules say other results, strides or dtypes than
    the CPU's kernels give are captured with the kernels'."""
    from torch._decomp import decomposition_table
    from torch._subclasses.fake_impls import op_implementations_dict
    from torch._subclasses.fake_tensor import FakeTensorMode

    aten = torch.ops.aten
    results = {
        aten._fft_r2c.default: _fft_r2c,
        aten._grouped_mm.default: _grouped_mm,
        aten._scaled_dot_product_flash_attention_for_cpu.default: _attention,
        aten.where.self: _where,
    }
    # Fake tensors take a decomposition, where there is one, before they look among these.
    rules = {op: _in_order(decomposition_table[op], at) for op, at in _results_in_other_orders()}
    for norm in _batch_norms():
        rules[norm] = _batch_norm(norm, rules.get(norm, decomposition_table[norm]))
    # Of data, on which a batch norm comes first, there is no gradient.
    norm_backward = aten.native_batch_norm_backward.default
    rules[norm_backward] = _asked_alone(rules[norm_backward])
    dispatch = _with_eager_strides_of_one(FakeTensorMode._dispatch_impl)
    with (
        mock.patch.dict(op_implementations_dict, results),
        mock.patch.dict(decomposition_table, rules),
        mock.patch.object(FakeTensorMode, "_dispatch_impl", dispatch),
    ):
        # What other rules said of such operands.
        FakeTensorMode.cache_clear()
        yield


@contextlib.contextmanager
def eager_interpolation() -> Iterator[None]:
    """Within it, interpolation is captured as the operators that eager runs."""
    key = torch._C.DispatchKey
    removed: list[tuple[Any, Any, Any]] = []
    for overload in _interpolations():
        for name in (key.Autograd, key.CompositeImplicitAutograd):
            if name in overload.py_kernels:
                removed.append((overload, name, overload.py_kernels.pop(name)))
        overload._dispatch_cache.clear()
    try:
        yield
    finally:
        for overload, name, kernel in removed:
            overload.py_kernels[name] = kernel
            overload._dispatch_cache.clear()


@contextlib.contextmanager
def defined_as(operators: Mapping[Any, Callable[..., Any]]) -> Iterator[None]:
    """Within it, each of these operators is captured as the tensor code of a function."""
    keys = (torch._C.DispatchKey.Autograd, torch._C.DispatchKey.CompositeImplicitAutograd)
    with python_kernels(
        {
            overload: {**overload.py_kernels, **dict.fromkeys(keys, function)}
            for overload, function in operators.items()
        }
    ):
        yield


@contextlib.contextmanager
def python_kernels(wanted: Mapping[Any, Mapping[Any, Callable[..., Any]]]) -> Iterator[None]:
    """Within it, each operator has these kernels in Python, by dispatch key, and no others."""

    def put(kernels: Mapping[Any, Mapping[Any, Callable[..., Any]]]) -> None:
        for overload, own in kernels.items():
            overload.py_kernels.clear()
            overload.py_kernels.update(own)
            overload._dispatch_cache.clear()

    before = {overload: dict(overload.py_kernels) for overload in wanted}
    put(wanted)
    try:
        yield
    finally:
        put(before)
