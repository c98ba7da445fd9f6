"""Operators that move elements along a dimension with padding, as `rules` has them."""

from __future__ import annotations

from typing import Any, Sequence

import sympy
import torch
from torch import fx

from ...step.places import at_line
from ..graph.nodes import arguments_of, location
from .static_form import Rule, Size, StaticForm, aten, dims_of


def _view(form: StaticForm, node: fx.Node) -> fx.Node:
    """A view keeps what counts in front where padding is along the first of the sizes that are
    taken together, or taken apart."""
    tensor = arguments_of(node)["self"]
    ours, theirs = list(form.shape(tensor)), list(form.shape(node))
    while ours or theirs:
        before, after = _group(form, ours, theirs)
        if any(not isinstance(s, int) for s in (*before[1:], *after[1:])):
            raise form.refused(node, "elements that count would not be side by side")
        del ours[: len(before)], theirs[: len(after)]
    try:
        return form.again(node)
    except RuntimeError:  # strides that depended on the size
        tensor = form.call(aten.clone.default, tensor, memory_format=torch.contiguous_format)
        return form.again(node, self=tensor)


def _group(
    form: StaticForm, ours: Sequence[Size], theirs: Sequence[Size]
) -> tuple[list[Size], list[Size]]:
    """The first sizes of each that have the same product, without leading ones among them."""
    before, after = list(ours[:1]), list(theirs[:1])
    if before == [1] and after != [1]:
        return before, []
    if after == [1] and before != [1]:
        return [], after
    while True:
        left, right = sympy.prod(before), sympy.prod(after)
        if sympy.simplify(left - right) == 0:
            return before, after
        if form.bound(left) < form.bound(right) and len(before) < len(ours):
            before.append(ours[len(before)])
        elif len(after) < len(theirs):
            after.append(theirs[len(after)])
        elif len(before) < len(ours):
            before.append(ours[len(before)])
        else:
            raise form.refused(form.line, "the sizes do not match")


def _slice(form: StaticForm, node: fx.Node) -> fx.Node:
    values = arguments_of(node)
    tensor = values["self"]
    dim = form.dim(node, tensor)
    start, end = form.size_of(values["start"]), form.size_of(values["end"])
    last = values["end"]
    from_end = dim in form.padded(tensor) and isinstance(end, int) and end < 0
    if dim in form.padded(tensor):
        if isinstance(start, int) and start < 0 or values["step"] != 1:
            raise form.refused(node, "it counts from the end")
        if from_end:  # at 0 where there are fewer
            end = form.shape(tensor)[dim] + end
            last = form.bound(end)
    for place in (start, None if from_end else end):
        tensor = checked_from_front(form, node, tensor, place)
    tensor = _settle_slice(form, node, tensor, dim, start, end)
    size = form.shape(node)[dim]
    if start is None or isinstance(start, int):
        if form.is_number(last):
            last = (start or 0) + form.bound(size) * values["step"]
        return form.again(node, self=tensor, end=last)
    if isinstance(size, int):
        return form.call(
            aten.index_select.default, tensor, dim, places_of(form, node, dim, start, size)
        )
    places = form.call(aten.add.Tensor, form.places(size), form.count(start))
    places = form.call(aten.clamp.default, places, 0, tensor.meta["val"].shape[dim] - 1)
    return form.call(aten.index_select.default, tensor, dim, places)


def checked_from_front(form: StaticForm, node: fx.Node, tensor: fx.Node, place: Any) -> fx.Node:
    """`tensor` behind a check that `place`, which a slice of it has, does not count from the end."""
    if place is None or isinstance(place, int) or not form.may_be_negative(place):
        return tensor
    holds = form.call(aten.ge.Scalar, form.count(place), 0)
    text = at_line(location(node), "a slice's place is below 0")
    return form.check(holds, text, tensor)


def places_of(form: StaticForm, node: fx.Node, dim: int, start: Size, length: int) -> fx.Node:
    """The `length` places along `dim` that a slice of a tensor has from `start` on, behind a check
    that they are there. They are some places of it in any case: on a way that is not taken, too."""
    tensor = arguments_of(node)["self"]
    whole, place = form.shape(tensor)[dim], tensor.meta["val"].shape[dim]
    first = form.count(start)
    behind = form.call(aten.add.Scalar, first, length)
    there = form.call(
        aten.logical_and.default,
        form.call(aten.ge.Scalar, first, 0),
        form.call(aten.le.Tensor, behind, form.count(whole)),
    )
    there_are = whole if isinstance(whole, int) else "those that there are"
    text = at_line(location(node), f"the step needs {length} places of {there_are}")
    first = form.check(there, text, first)
    first = form.call(aten.clamp.default, first, 0, max(0, place - length))
    return form.call(aten.add.Tensor, form.places(length), first)


def _settle_slice(
    form: StaticForm, node: fx.Node, tensor: fx.Node, dim: int, start: Any, end: Any
) -> fx.Node:
    """Says how many there are between `start` and `end`, where capture has no name for it. Gives
    `tensor`, behind a check that they are as many as the step needs them to be."""
    size, whole = form.shape(node)[dim], form.shape(tensor)[dim]
    start, step = 0 if start is None else start, arguments_of(node)["step"]
    longest = tensor.meta["val"].shape[dim]
    if isinstance(end, int) and end >= longest:
        end = None
    known = all(isinstance(place, (int, type(None))) for place in (start, end, whole))
    if known or not isinstance(size, int) and not size.is_Symbol:
        return tensor
    part = size, whole, start, end, step
    if (
        part in form.settled_parts
        or isinstance(size, int)
        and end is not None
        and end - start == size
    ):
        return tensor  # of which `places_of` has the check
    form.settled_parts.add(part)
    last = form.count(whole)
    if end is not None:
        last = form.call(aten.minimum.default, last, form.count(end))
        if form.is_bounded(end):
            longest = min(longest, form.bound(end))
    count = form.call(aten.sub.Tensor, last, form.count(start))
    count = form.call(aten.add.Scalar, count, step - 1)
    count = form.call(aten.div.Scalar_mode, count, step, rounding_mode="floor")
    count = form.call(aten.clamp_min.default, count, 0)
    if isinstance(size, int) or size in form.bounds:
        text = at_line(location(node), "the step needs a part of another length here")
        holds = form.call(aten.eq.Tensor, count, form.count(size))
        return form.check(holds, text, tensor)
    form.counts[size] = count
    longest = max(0, longest - start) if isinstance(start, int) else longest
    form.bounds[size] = (longest + step - 1) // step
    return tensor


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


def _select(form: StaticForm, node: fx.Node) -> fx.Node:
    values = arguments_of(node)
    tensor, index = values["self"], form.size_of(values["index"])
    dim = form.dim(node, tensor)
    size = form.shape(tensor)[dim]
    if isinstance(index, int) and isinstance(size, int):
        return form.again(node)
    place = _from_front(form, index, size)
    there = form.call(
        aten.logical_and.default,
        form.call(aten.ge.Scalar, place, 0),
        form.call(aten.lt.Tensor, place, form.count(size)),
    )
    text = at_line(location(node), "the step takes an element here that is not there")
    if isinstance(index, int) and index >= 0:
        return form.again(node, self=form.check(there, text, tensor))
    place = form.check(there, text, place)
    place = form.call(aten.clamp.default, place, 0, max(0, form.bound(size) - 1))
    row = form.call(aten.view.default, place, [1])
    return form.call(aten.squeeze.dim, form.call(aten.index_select.default, tensor, dim, row), dim)


def _from_front(form: StaticForm, index: Size, size: Size) -> fx.Node:
    """`index` along a dimension of that size as a tensor, which counts from the front."""
    if isinstance(index, int):
        return form.count(index if index >= 0 else size + index)
    place = form.count(index)
    if not form.may_be_negative(index):
        return place
    moved = form.call(aten.add.Tensor, place, form.count(size))
    return form.call(aten.where.self, form.call(aten.lt.Scalar, place, 0), moved, place)


def _only_at(
    form: StaticForm, node: fx.Node, dim: int, place: fx.Node, gradient: fx.Node
) -> fx.Node:
    """`gradient` where an index along `dim` is `place`, and zeros elsewhere."""
    shape = form.shape(node)
    here = form.call(aten.eq.Tensor, form.places(shape[dim]), place)
    here = form.along(here, dim, len(shape))
    return form.chosen(here, form.call(aten.unsqueeze.default, gradient, dim), 0)


def _select_backward(form: StaticForm, node: fx.Node) -> fx.Node:
    values = arguments_of(node)
    index = form.size_of(values["index"])
    dim = form.dim(node, node)
    size = form.shape(node)[dim]
    if isinstance(index, int) and (index >= 0 or isinstance(size, int)):
        return form.again(node)
    place = _from_front(form, index, size)
    return _only_at(form, node, dim, place, values["grad_output"])


def _slice_backward(form: StaticForm, node: fx.Node) -> fx.Node:
    values = arguments_of(node)
    start = form.size_of(values["start"])
    dim = form.dim(node, node)
    gradient = values["grad_output"]
    size = form.shape(gradient)[dim]
    if isinstance(start, int) and start >= 0 and values["step"] == 1:
        # Behind what counts there may be elements that do, of which it says nothing. A gradient may
        # have place for more than there are: its size is a sum where the tensor's own is known.
        gradient = form.filled(gradient, 0, [dim])
        room = form.bound(form.shape(node)[dim]) - start
        length = min(room, gradient.meta["val"].shape[dim])
        gradient = form.call(aten.slice.Tensor, gradient, dim, 0, length)
        return form.again(node, grad_output=gradient, end=start + length)
    if isinstance(form.shape(node)[dim], int) and isinstance(start, int):
        return form.again(node)
    if isinstance(start, int) or values["step"] != 1:
        raise form.refused(node, "it counts from the end")
    places = form.call(aten.sub.Tensor, form.places(form.shape(node)[dim]), form.count(start))
    counts = form.call(
        aten.logical_and.default,
        form.call(aten.ge.Scalar, places, 0),
        form.call(aten.lt.Tensor, places, form.count(size)),
    )
    places = form.call(aten.clamp.default, places, 0, max(0, form.bound(size) - 1))
    moved = form.call(aten.index_select.default, gradient, dim, places)
    return form.chosen(form.along(counts, dim, len(form.shape(node))), moved, 0)


def _pad(form: StaticForm, node: fx.Node) -> fx.Node:
    """A value behind what counts, up to a length: `F.pad(rows, (0, 0, 0, longest - len(rows)))`."""
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
        if pads[i] != 0:
            raise form.refused(node, "it has elements in front")
        result = form.filled(result, values["value"], [dim])
        kept[i + 1] = form.bound(theirs[dim]) - result.meta["val"].shape[dim]
    return form.call(aten.constant_pad_nd.default, result, kept, values["value"])


def _sort(form: StaticForm, node: fx.Node) -> Any:
    """By value, and then what counts to the front, each time in the order there was."""
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
    **dict.fromkeys("view _unsafe_view reshape".split(), _view),
    "arange": _arange,
    "cat": _cat,
    "constant_pad_nd": _pad,
    **dict.fromkeys("expand expand_as".split(), _expand),
    "flip": _flip,
    "roll": _roll,
    "select": _select,
    "select_backward": _select_backward,
    "slice": _slice,
    "slice_backward": _slice_backward,
    "sort": _sort,
    "split_with_sizes": _split,
    # By places, which are what they were.
    **dict.fromkeys("tril triu".split(), StaticForm.again),
}
