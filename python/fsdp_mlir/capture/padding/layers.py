"""Rules for layers that mix elements along a dimension with padding: attention, convolutions and batch
normalization (see `rules`)."""

from __future__ import annotations

import math
from typing import Any, Optional, Sequence

import torch
from torch import fx

from ...step.places import at_line
from ..graph.nodes import arguments_of, location
from .static_form import Rule, StaticForm, aten
from .sums import apart_from, mean_of, number_of


def _with_zeros(
    form: StaticForm, node: fx.Node, names: Sequence[str], apart: int, first: int = 0
) -> dict[str, fx.Node]:
    """The named operands, with zeros for padding along dimensions from `first` on. None of them may have
    padding along `apart`."""
    values = arguments_of(node)
    if any(apart in form.padded(values[name]) for name in names):
        raise form.refused(
            node, f"it mixes elements along dimension {apart}, which is of that size"
        )
    dims = {name: [d for d in form.padded(values[name]) if d >= first] for name in names}
    return {name: form.filled(values[name], 0, dims[name]) for name in names if dims[name]}


def _attention(*of_queries: str) -> Rule:
    """The rule of attention: no query looks at padding, and what padding looks at counts for nothing."""

    def rule(form: StaticForm, node: fx.Node) -> Any:
        names = ("query", "key", "value", *of_queries)
        changed = _with_zeros(form, node, names, apart=3, first=2)
        return form.again(node, **changed, attn_mask=_mask_of_keys(form, node))

    return rule


def _mask_of_keys(form: StaticForm, node: fx.Node) -> Optional[fx.Node]:
    """What is added to the scores of an attention, which keeps each query from keys that are padding."""
    values = arguments_of(node)
    queries, keys = (form.shape(values[name])[2] for name in ("query", "key"))
    mask, is_causal = values["attn_mask"], values["is_causal"]
    if mask is not None:
        mask = form.filled(mask, 0, [len(form.shape(mask)) - 2])
    if isinstance(keys, int) or is_causal and form.are_equal(queries, keys):
        return mask
    if is_causal:
        raise form.refused(node, "it is causal, with other numbers of queries than of keys")
    if mask is None:
        dtype, shape = values["query"].meta["val"].dtype, [1, form.bound(keys)]
        mask = form.call(aten.zeros.default, shape, dtype=dtype, device="cpu")
    return form.chosen(form.counted(keys), mask, -math.inf)


def _convolution(form: StaticForm, node: fx.Node) -> fx.Node:
    """Behind what counts there are zeros, as there are behind the end in eager mode."""
    result = form.again(node, **_with_zeros(form, node, ["input"], apart=1, first=2))
    for size in form.shape(node)[2:]:
        if not isinstance(size, int):
            holds = form.call(aten.ge.Scalar, form.count(size), 1)
            text = at_line(location(node), "the kernel of a convolution is larger than its input")
            result = form.check(holds, text, result)
    return result


def _convolution_backward(form: StaticForm, node: fx.Node) -> Any:
    return form.again(node, **_with_zeros(form, node, ["grad_output", "input"], apart=1))


class _Channels:
    """What batch normalization computes of each channel of `tensor`, whose elements count in part.

    Attributes:
        dims: those along which a channel's elements lie.
        number: how many of them count.
    """

    def __init__(self, form: StaticForm, node: fx.Node, tensor: fx.Node) -> None:
        if 1 in form.padded(tensor):
            raise form.refused(node, "values say how many channels there are")
        self._form = form
        self._shape = form.shape(tensor)
        self.dims = [dim for dim in range(len(self._shape)) if dim != 1]
        self.number = form.count(number_of(form, tensor, self.dims))

    def widened(self, tensor: fx.Node) -> fx.Node:
        """`tensor`, of the shape of all, in float32 at least."""
        dtype = torch.promote_types(tensor.meta["val"].dtype, torch.float32)
        tensor = self._form.call(aten._to_copy.default, tensor, dtype=dtype)
        self._form.note(tensor, self._shape)
        return tensor

    def sum(self, tensor: fx.Node) -> fx.Node:
        """That of each channel's elements, where padding is zero."""
        return self._form.call(aten.sum.dim_IntList, tensor, self.dims)

    def over(self, vector: fx.Node) -> fx.Node:
        """A number of each channel beside all elements."""
        return self._form.along(vector, 1, len(self._shape))


def _batch_norm(form: StaticForm, node: fx.Node) -> Any:
    """The mean and the variance are those of what counts."""
    values = arguments_of(node)
    call, channels = form.call, _Channels(form, node, values["input"])
    if not values.get("training"):  # then each element is normalized by what is known
        return form.again(node)
    tensor = channels.widened(values["input"])
    mean = mean_of(form, tensor, channels.dims)
    apart = apart_from(form, tensor, mean, channels.dims)
    mean = call(aten.squeeze.dims, mean, channels.dims)
    squares = channels.sum(call(aten.mul.Tensor, apart, apart))
    variance = call(aten.div.Tensor, squares, channels.number)
    scale = call(aten.rsqrt.default, call(aten.add.Scalar, variance, values["eps"]))
    result = call(aten.mul.Tensor, apart, channels.over(scale))
    for op, name in ((aten.mul.Tensor, "weight"), (aten.add.Tensor, "bias")):
        if values[name] is not None:
            result = call(op, result, channels.over(values[name]))
    result = call(aten._to_copy.default, result, dtype=values["input"].meta["val"].dtype)
    others = call(aten.sub.Scalar, channels.number, 1)
    unbiased = call(aten.div.Tensor, call(aten.mul.Tensor, variance, channels.number), others)
    kept = []
    for name, now in (("running_mean", mean), ("running_var", unbiased)):
        before, share = values[name], values["momentum"]
        before = call(aten.mul.Scalar, before, 1 - share)
        kept.append(call(aten.add.Tensor, before, call(aten.mul.Scalar, now, share)))
    return result, mean, scale, *kept


def _batch_norm_backward(form: StaticForm, node: fx.Node) -> Any:
    values = arguments_of(node)
    call, channels = form.call, _Channels(form, node, values["input"])
    mean, scale = values["save_mean"], values["save_invstd"]
    if not values["train"]:
        mean, variance = values["running_mean"], values["running_var"]
        scale = call(aten.rsqrt.default, call(aten.add.Scalar, variance, values["eps"]))
    given = form.filled(channels.widened(values["grad_out"]), 0)
    tensor = channels.widened(values["input"])
    apart = apart_from(form, tensor, channels.over(mean), channels.dims)
    normalized = call(aten.mul.Tensor, apart, channels.over(scale))
    of_bias = channels.sum(given)
    of_weight = channels.sum(call(aten.mul.Tensor, given, normalized))
    of_input = given
    if values["train"]:  # less what the mean and the variance have of it
        shares = [call(aten.div.Tensor, whole, channels.number) for whole in (of_bias, of_weight)]
        along = call(aten.mul.Tensor, normalized, channels.over(shares[1]))
        of_input = call(aten.sub.Tensor, of_input, channels.over(shares[0]))
        of_input = call(aten.sub.Tensor, of_input, along)
    for factor in (scale, values["weight"]):
        if factor is not None:
            of_input = call(aten.mul.Tensor, of_input, channels.over(factor))
    of_input = call(aten._to_copy.default, of_input, dtype=values["input"].meta["val"].dtype)
    return of_input, of_weight, of_bias


_ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"
LAYERS: dict[str, Rule] = {
    _ATTENTION: _attention(),
    f"{_ATTENTION}_backward": _attention("grad_out", "out", "logsumexp"),
    "convolution": _convolution,
    "convolution_backward": _convolution_backward,
    "_native_batch_norm_legit_functional": _batch_norm,
    "_native_batch_norm_legit_no_training": _batch_norm,
    "native_batch_norm_backward": _batch_norm_backward,
}
