"""Operators that take or write a part of a dimension with padding, as `rules` has them: an element, or
those between two places."""

from __future__ import annotations

from typing import Any

import sympy
from torch import fx
from torch.utils._sympy import functions as sizes

from ...step.places import at_line
from ..graph.nodes import arguments_of, location
from .static_form import Rule, Size, StaticForm, aten


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
    start, end = (from_front(place, form.shape(tensor)[dim]) for place in (start, end))
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


def are_there(form: StaticForm, places: fx.Node, size: Size) -> fx.Node:
    """Which of these places a dimension of that size has, counted from the front."""
    return form.call(
        aten.logical_and.default,
        form.call(aten.ge.Scalar, places, 0),
        form.call(aten.lt.Tensor, places, form.count(size)),
    )


def from_front(place: Any, size: Size) -> Any:
    """A place of a slice that the code counts from the end (`-n`), counted from the front, along a
    dimension of `size`. Where `n` is 0 it is the first one, as Python has it."""
    terms = () if place is None or isinstance(place, int) else sympy.Add.make_args(place)
    if not terms or not all(term.could_extract_minus_sign() for term in terms):
        return place
    is_from_end = sizes.Max(-1, sizes.Min(0, place))  # as -1, else 0
    return sizes.Max(0, place - is_from_end * size)


def checked_from_front(form: StaticForm, node: fx.Node, tensor: fx.Node, place: Any) -> fx.Node:
    """`tensor` behind a check that `place`, which a slice of it has, does not count from the end."""
    if place is None or isinstance(place, int) or not form.may_be_negative(place):
        return tensor
    holds = form.call(aten.ge.Scalar, form.count(place), 0)
    what = (
        "a slice's place is below 0, where no minus sign shows that it counts from the end; write "
        "x[len(x) + n :] for x[n :]"
    )
    text = at_line(location(node), what)
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


def _select(form: StaticForm, node: fx.Node) -> fx.Node:
    values = arguments_of(node)
    tensor, index = values["self"], form.size_of(values["index"])
    dim = form.dim(node, tensor)
    size = form.shape(tensor)[dim]
    if isinstance(index, int) and isinstance(size, int):
        return form.again(node)
    place = _from_front(form, index, size)
    there = are_there(form, place, size)
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
    dim = form.dim(node, node)
    start = from_front(form.size_of(values["start"]), form.shape(node)[dim])
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
    counts = are_there(form, places, size)
    places = form.call(aten.clamp.default, places, 0, max(0, form.bound(size) - 1))
    moved = form.call(aten.index_select.default, gradient, dim, places)
    return form.chosen(form.along(counts, dim, len(form.shape(node))), moved, 0)


PARTS: dict[str, Rule] = {
    "select": _select,
    "select_backward": _select_backward,
    "slice": _slice,
    "slice_backward": _slice_backward,
}
