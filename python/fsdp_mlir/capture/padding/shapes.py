"""Operators that move elements along a dimension with padding, as `rules` has them."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from ...step.places import at_line
from ..graph.nodes import arguments_of, location
from .static_form import Rule, StaticForm, aten, dims_of


def _expand(form: StaticForm, node: fx.Node) -> fx.Node:
    """What counts of a tensor is as much as the size that it gets, though it had place for more."""
    tensor = arguments_of(node)["self"]
    ahead = len(form.shape(node)) - len(form.shape(tensor))
    wanted = form.bounds_of(node)[0][ahead:]
    shape = form.shape(tensor)
    for dim in form.padded(tensor):
        size = form.shape(node)[ahead + dim]
        if size != shape[dim]:
            text = at_line(location(node), "a tensor has another size than it has to have here")
            holds = form.call(aten.eq.Tensor, form.count(shape[dim]), form.count(size))
            tensor = form.check(holds, text, tensor)
        if wanted[dim] < tensor.meta["val"].shape[dim]:
            tensor = form.call(aten.slice.Tensor, tensor, dim, 0, wanted[dim])
    return form.again(node, self=tensor)


def _split(form: StaticForm, node: fx.Node) -> Any:
    """Parts whose lengths depend on values, as experts get them: each begins behind the others."""
    values = arguments_of(node)
    tensor, lengths = values["self"], [form.size_of(size) for size in values["split_sizes"]]
    dim = form.dim(node, tensor)
    if all(isinstance(length, int) for length in lengths):
        if dim in form.padded(tensor):
            raise form.refused(node, "parts of known lengths")
        return form.again(node)
    start = form.count(0)
    for length in lengths:
        form.bounds.setdefault(length, tensor.meta["val"].shape[dim])  # which are all of it
        start = form.call(aten.add.Tensor, start, form.count(length))
    all_of_it = form.call(aten.eq.Tensor, start, form.count(form.shape(tensor)[dim]))
    text = at_line(location(node), "the parts are not all of it")
    tensor = form.check(all_of_it, text, tensor)
    parts, start = [], form.count(0)
    for length in lengths:
        places = form.call(aten.add.Tensor, form.places(length), start)
        places = form.call(aten.clamp_max.default, places, tensor.meta["val"].shape[dim] - 1)
        parts.append(form.call(aten.index_select.default, tensor, dim, places))
        start = form.call(aten.add.Tensor, start, form.count(length))
    return tuple(parts)


def _cat(form: StaticForm, node: fx.Node) -> fx.Node:
    """Tensors side by side, and what counts of them in front."""
    values = arguments_of(node)
    tensors = values["tensors"]
    dim = form.dim(node, node)
    whole = form.call(aten.cat.default, tensors, dim)
    length = form.bound(form.shape(node)[dim])
    if not any(dim in form.padded(tensor) for tensor in tensors[:-1]):
        if length < whole.meta["val"].shape[dim]:
            whole = form.call(aten.slice.Tensor, whole, dim, 0, length)
        return whole
    masks = []
    for tensor in tensors:
        size = form.shape(tensor)[dim]
        if isinstance(size, int):
            masks.append(form.call(aten.ones.default, [size], dtype=torch.bool, device="cpu"))
        else:
            masks.append(form.counted(size))
    holds = form.call(aten.cat.default, masks)
    places = form.call(aten.nonzero_static.default, holds, size=length, fill_value=0)
    places = form.call(aten.select.int, places, 1, 0)
    return form.call(aten.index_select.default, whole, dim, places)


def _repeat(form: StaticForm, node: fx.Node) -> fx.Node:
    """A tensor as often as values say, as one row for each class that there is. Behind these stand
    more of the same."""
    values = arguments_of(node)
    repeats = [form.size_of(count) for count in values["repeats"]]
    ahead = len(repeats) - len(form.shape(values["self"]))
    if any(repeats[ahead + dim] != 1 for dim in form.padded(values["self"])):
        raise form.refused(node, "elements that count would not be side by side")
    return form.again(node)


def _flip(form: StaticForm, node: fx.Node) -> fx.Node:
    values = arguments_of(node)
    tensor = values["self"]
    dims = dims_of(values["dims"], len(form.shape(tensor)))
    padded = [dim for dim in dims if dim in form.padded(tensor)]
    result = form.again(node, dims=[dim for dim in dims if dim not in padded])
    for dim in padded:
        size = form.shape(tensor)[dim]
        places = form.places(size)
        last = form.call(aten.sub.Scalar, form.count(size), 1)
        places = form.call(aten.clamp_min.default, form.call(aten.sub.Tensor, last, places), 0)
        result = form.call(aten.index_select.default, result, dim, places)
    return result


def _roll(form: StaticForm, node: fx.Node) -> fx.Node:
    """By numbers of the graph, the element at each place is read at another one."""
    values = arguments_of(node)
    tensor = values["self"]
    shifts = [form.size_of(shift) for shift in values["shifts"]]
    dims = dims_of(values["dims"], len(form.shape(tensor)))
    if set(dims) & set(form.padded(tensor)):
        raise form.refused(node, "it mixes elements along the dimension of that size")
    if all(isinstance(shift, int) for shift in shifts):
        return form.again(node)
    if len(shifts) != len(dims):
        raise form.refused(node, "it moves elements of all dimensions as those of one")
    for shift, dim in zip(shifts, dims):
        length = tensor.meta["val"].shape[dim]
        places = form.call(aten.sub.Tensor, form.places(length), form.count(shift))
        places = form.call(aten.remainder.Scalar, places, max(1, length))
        tensor = form.call(aten.index_select.default, tensor, dim, places)
    return tensor


def _pad(form: StaticForm, node: fx.Node) -> fx.Node:
    """A value behind what counts, up to a length: `F.pad(rows, (0, 0, 0, longest - len(rows)))`; or
    some elements in front, as a token that stands before all others, whose gradient takes them away.
    """
    values = arguments_of(node)
    tensor, pads = values["self"], [form.size_of(pad) for pad in values["pad"]]
    ours, theirs = form.shape(tensor), form.shape(node)
    kept = [0] * len(pads)
    result = tensor
    for i in range(0, len(pads), 2):
        dim = len(ours) - 1 - i // 2
        if all(isinstance(p, int) for p in pads[i : i + 2]) and isinstance(ours[dim], int):
            kept[i : i + 2] = pads[i : i + 2]
            continue
        front = pads[i]
        if not isinstance(front, int):
            raise form.refused(node, "how many elements it has in front depends on values")
        length = theirs[dim]
        if not isinstance(length, int) and form.may_be_negative(length):  # it takes elements away
            holds = form.call(aten.ge.Scalar, form.count(length), 0)
            text = at_line(location(node), "a pad takes away more elements than there are")
            result = form.check(holds, text, result)
        result = form.filled(result, values["value"], [dim])
        behind = form.bound(length) - front - result.meta["val"].shape[dim]
        kept[i : i + 2] = front, behind
    return form.call(aten.constant_pad_nd.default, result, kept, values["value"])


def _sort(form: StaticForm, node: fx.Node) -> Any:
    """Sorts by value, and then moves what counts to the front; both sorts are stable."""
    values = arguments_of(node)
    tensor = values["self"]
    dim = form.dim(node, tensor)
    if dim not in form.padded(tensor):
        return form.again(node)
    stable = {"stable": True, "dim": dim}
    _, first = form.results(aten.sort.stable, tensor, **stable, descending=values["descending"])
    behind = form.call(aten.logical_not.default, form.counted_in(form.shape(tensor), [dim]))
    behind = form.call(aten.expand.default, behind, list(tensor.meta["val"].shape))
    behind = form.call(aten.gather.default, behind, dim, first)
    _, second = form.results(aten.sort.stable, behind, **stable)
    order = form.call(aten.gather.default, first, dim, second)
    return form.call(aten.gather.default, tensor, dim, order), order


def _arange(form: StaticForm, node: fx.Node) -> fx.Node:
    values = arguments_of(node)
    start, step = values.get("start", 0), values.get("step", 1)
    if not all(isinstance(v, int) for v in (start, step)) or step < 1:
        raise form.refused(node)
    kinds = {name: values[name] for name in ("dtype", "layout", "device", "pin_memory")}
    length = form.bound(form.shape(node)[0])
    return form.call(aten.arange.start_step, start, start + step * length, step, **kinds)


SHAPES: dict[str, Rule] = {
    "arange": _arange,
    "cat": _cat,
    "constant_pad_nd": _pad,
    **dict.fromkeys("expand expand_as".split(), _expand),
    "flip": _flip,
    "repeat": _repeat,
    "roll": _roll,
    "sort": _sort,
    "split_with_sizes": _split,
    # By places, which are what they were.
    **dict.fromkeys("tril triu".split(), StaticForm.again),
}
