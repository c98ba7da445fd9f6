"""Operators that sum over padding, or take the largest of it, as `rules` has them."""

from __future__ import annotations

import math
from typing import Any, Callable, Sequence

import sympy
import torch
from torch import fx

from ...step.places import at_line
from ..graph.nodes import arguments_of, location
from .static_form import Rule, Size, StaticForm, aten, dims_of


def _over_padding(rule: Callable[..., Any]) -> Rule:
    """The rule of a reduction: `rule(form, node, values, dims)`, told its arguments and dimensions,
    where it goes over padding; elsewhere it stays as it is."""

    def reduction(form: StaticForm, node: fx.Node) -> Any:
        values = arguments_of(node)
        dims = dims_of(values.get("dim"), len(form.shape(values["self"])))
        if not set(dims) & set(form.padded(values["self"])):
            return form.again(node)
        return rule(form, node, values, dims)

    return reduction


def _reduced(
    fill: Callable[[torch.dtype, dict[str, Any]], Any],
    needs: Callable[[dict[str, Any]], Any] = lambda _: 0,
) -> Rule:
    """The rule of reductions that ignore elements of the value that `fill` gives. Of fewer elements
    than it `needs`, eager mode gives no result, and the step ends."""

    @_over_padding
    def rule(form: StaticForm, node: fx.Node, values: dict[str, Any], dims: list[int]) -> fx.Node:
        tensor = values["self"]
        if values.get("dim") is None and "arg" in node.target._schema.name:
            if form.padded(tensor) != [0]:
                raise form.refused(node, "it gives a place among all elements")
        value = fill(tensor.meta["val"].dtype, values)
        if value is None:
            raise form.refused(node)
        needed = form.size_of(needs(values))
        if needed != 0:
            found = form.count(number_of(form, tensor, dims))
            holds = form.call(aten.ge.Tensor, found, form.count(needed))
            name = node.target._schema.name.removeprefix("aten::")
            text = at_line(location(node), f"{name} is given fewer than {needed} elements")
            tensor = form.check(holds, text, tensor)
        return form.again(node, self=form.filled(tensor, value, dims))

    return rule


def _least(dtype: torch.dtype, _: Any = None) -> Any:
    if dtype == torch.bool:
        return False
    return -math.inf if dtype.is_floating_point else torch.iinfo(dtype).min


def _greatest(dtype: torch.dtype, _: Any = None) -> Any:
    if dtype == torch.bool:
        return True
    return math.inf if dtype.is_floating_point else torch.iinfo(dtype).max


def _of_norm(_: torch.dtype, values: dict[str, Any]) -> Any:
    order = values.get("ord", values.get("p"))
    return 0 if order is None or isinstance(order, (int, float)) and order >= 0 else None


def _of_topk(dtype: torch.dtype, values: dict[str, Any]) -> Any:
    return (_least if values["largest"] else _greatest)(dtype)


def _one(_: dict[str, Any]) -> int:
    return 1


def _one_of_largest(values: dict[str, Any]) -> int:
    """The largest of none is no number, unlike the sum of their powers."""
    return int(values.get("ord", values.get("p")) == math.inf)


def _or_elementwise(rule: Rule) -> Rule:
    """The rule of names that have a form of two tensors without `dim`, as `max.other`."""

    def either(form: StaticForm, node: fx.Node) -> fx.Node:
        return form.again(node) if "other" in arguments_of(node) else rule(form, node)

    return either


def number_of(form: StaticForm, tensor: fx.Node, dims: Sequence[int]) -> Size:
    return sympy.simplify(sympy.prod([form.shape(tensor)[d] for d in dims]))


def mean_of(form: StaticForm, tensor: fx.Node, dims: Sequence[int]) -> fx.Node:
    """That of what counts along `dims`, which have size 1 then."""
    whole = form.call(aten.sum.dim_IntList, form.filled(tensor, 0, dims), dims, True)
    return form.call(aten.div.Tensor, whole, form.count(number_of(form, tensor, dims)))


def apart_from(form: StaticForm, tensor: fx.Node, mean: fx.Node, dims: Sequence[int]) -> fx.Node:
    """How far each element is from its mean along `dims`: zero for padding."""
    apart = form.call(aten.sub.Tensor, tensor, mean)
    form.note(apart, form.shape(tensor))
    return form.filled(apart, 0, dims)


@_over_padding
def _mean(form: StaticForm, node: fx.Node, values: dict[str, Any], dims: list[int]) -> fx.Node:
    """The sum of what counts, divided by how many count."""
    tensor = values["self"]
    whole = form.call(
        aten.sum.dim_IntList,
        form.filled(tensor, 0, dims),
        dims,
        values.get("keepdim", False),
        dtype=values["dtype"],
    )
    return form.call(aten.div.Tensor, whole, form.count(number_of(form, tensor, dims)))


@_over_padding
def _variance(form: StaticForm, node: fx.Node, values: dict[str, Any], dims: list[int]) -> Any:
    """The mean of squared differences from the mean, of what counts."""
    tensor = values["self"]
    name = node.target._schema.name.removeprefix("aten::")
    if "correction" not in values:
        raise form.refused(node)
    correction = 1 if values["correction"] is None else values["correction"]
    keep = values["keepdim"]
    number = form.count(number_of(form, tensor, dims))
    mean = mean_of(form, tensor, dims)
    apart = apart_from(form, tensor, mean, dims)
    squares = form.call(aten.mul.Tensor, apart, apart)
    # As PyTorch does, nothing less than zero divides.
    freedom = form.call(aten.clamp_min.default, form.call(aten.sub.Scalar, number, correction), 0)
    total = form.call(aten.sum.dim_IntList, squares, dims, keep)
    result = form.call(aten.div.Tensor, total, freedom)
    if name.startswith("std"):
        result = form.call(aten.sqrt.default, result)
    if not name.endswith("_mean"):
        return result
    if not keep:
        mean = form.call(aten.squeeze.dims, mean, dims)
    return result, mean


def _product(form: StaticForm, node: fx.Node) -> fx.Node:
    """A matrix product: where it sums over padding, it sums zeros."""
    values = arguments_of(node)
    names = [n for n, v in values.items() if form.is_tensor(v)][-2:]
    left, right = (values[name] for name in names)
    last, first = len(form.shape(left)) - 1, max(0, len(form.shape(right)) - 2)
    changed = {}
    if last in form.padded(left) or first in form.padded(right):
        changed = {
            names[0]: form.filled(left, 0, [last]),
            names[1]: form.filled(right, 0, [first]),
        }
    return form.again(node, **changed)


def _softmax(fill: float) -> Rule:
    """Along padding: forward takes it as -inf, backward gets no gradient from it."""

    def rule(form: StaticForm, node: fx.Node) -> fx.Node:
        values = arguments_of(node)
        first = "self" if "self" in values else "grad_output"
        tensor = values[first]
        dim = form.dim(node, tensor)
        changed = {first: form.filled(tensor, fill, [dim])}
        return form.again(node, **changed)

    return rule


SUMS: dict[str, Rule] = {
    **dict.fromkeys("sum nansum any count_nonzero".split(), _reduced(lambda dtype, _: 0)),
    **dict.fromkeys("prod all".split(), _reduced(lambda dtype, _: 1)),
    "logsumexp": _reduced(_least),
    **dict.fromkeys("amax argmax".split(), _reduced(_least, _one)),
    **dict.fromkeys("amin argmin".split(), _reduced(_greatest, _one)),
    "max": _or_elementwise(_reduced(_least, _one)),
    "min": _or_elementwise(_reduced(_greatest, _one)),
    **dict.fromkeys("linalg_vector_norm norm".split(), _reduced(_of_norm, _one_of_largest)),
    "topk": _reduced(_of_topk, lambda values: values["k"]),
    "mean": _mean,
    **dict.fromkeys("std std_mean var var_mean".split(), _variance),
    # What is in front stays there, and sums of it see nothing of what is behind.
    **dict.fromkeys("cummax cummin cumprod cumsum logcumsumexp".split(), StaticForm.again),
    **dict.fromkeys("_log_softmax _softmax".split(), _softmax(-math.inf)),
    **dict.fromkeys("_log_softmax_backward_data _softmax_backward_data".split(), _softmax(0)),
    **dict.fromkeys("addbmm addmm addmv baddbmm bmm dot mm mv".split(), _product),
}
