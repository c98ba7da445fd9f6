"""Rules for operators whose indices have padding among them (see `rules`)."""

from __future__ import annotations

import operator
from typing import Any, Sequence

import sympy
from torch import fx

from ...step.places import at_line
from ..graph.nodes import arguments_of, location
from .parts import are_there, checked_from_front, from_front, places_of
from .sources import dims_of_index, is_mask, without_masks
from .static_form import Rule, Size, StaticForm, aten


def _counted_from_front(
    form: StaticForm, tensor: fx.Node, dim: int, index: Any, becomes_longer: bool = False
) -> Any:
    """`index` along `dim` of `tensor`, counted from the front. It may count from the end, which kernels
    find where the tensor does not become longer; padding's is 0."""
    size = form.shape(tensor)[dim]
    kernels_find = isinstance(size, int) and (not becomes_longer or _is_within(form, index, size))
    index = form.filled(index, 0)
    if kernels_find:
        return index
    moved = form.call(aten.add.Tensor, index, form.count(size))
    found = form.call(aten.where.self, form.call(aten.lt.Scalar, index, 0), moved, index)
    form.note(found, form.shape(index))
    return found


# Which give some of the places that their first argument has, and those that find places.
_OF_PLACES = (
    *(aten.alias.default, aten.view.default, aten.reshape.default, aten.slice.Tensor),
    *(aten.select.int, aten.flip.default, aten.clone.default, aten.gather.default),
    *(aten.index_select.default, aten.squeeze.dim, aten.unsqueeze.default, operator.getitem),
)
_FIND = (aten.sort.stable, aten.topk.default, aten.argmax.default, aten.argmin.default)
_FIND_BESIDE = (aten.max.dim, aten.min.dim)


def _is_within(form: StaticForm, index: fx.Node, size: Size) -> bool:
    """Whether `index` was found among places along a dimension of that size."""
    while index not in form.places_within:
        if index.target in (*_FIND, *_FIND_BESIDE):
            return form.has_size(index.args[0], size)
        if index.target is aten.where.self:  # as `_counted_from_front` and `filled` choose
            index = index.args[2] if index.args[2].meta["val"].dim() > 0 else index.args[1]
        elif index.target in _OF_PLACES:
            index = index.args[0]
        else:
            return False
    return size in form.places_within[index]


def _checked_within(form: StaticForm, node: fx.Node, size: Size, index: fx.Node) -> fx.Node:
    """`index` along a dimension of that size, behind a check that it meets nothing but what counts."""
    if isinstance(size, int) or _is_within(form, index, size):
        return index
    holds = are_there(form, index, size)
    if form.padded(index):
        counted = form.counted_in(form.shape(index), form.padded(index))
        behind = form.call(aten.logical_not.default, counted)
        holds = form.call(aten.logical_or.default, holds, behind)
    text = at_line(location(node), "the step takes an element here that is not there")
    return form.check(form.call(aten.all.default, holds), text, index)


def _beyond(form: StaticForm, size: Size, index: fx.Node) -> fx.Node:
    """`index` along a dimension of that size which is one longer now. Where the size is known, what is
    not there is behind that too, where kernels do not find it."""
    if not isinstance(size, int) or _is_within(form, index, size):
        return index
    found = form.chosen(are_there(form, index, size), index, size + 1)
    form.note(found, form.shape(index))
    return found


def _index(form: StaticForm, node: fx.Node) -> fx.Node:
    values = arguments_of(node)
    tensor, indices = values["self"], values["indices"]
    size = None
    if any(map(is_mask, indices)):
        first, given, _ = dims_of_index(indices, len(form.shape(tensor)))
        size = form.shape(node)[first + given - 1]
        indices = without_masks(form, node, indices, size)
    found = list(indices)
    for dim, index in enumerate(indices):
        if index is not None:
            found[dim] = _counted_from_front(form, tensor, dim, index)
            found[dim] = _checked_within(form, node, form.shape(tensor)[dim], found[dim])
    return form.again(node, indices=found)


def _index_put(form: StaticForm, node: fx.Node) -> fx.Node:
    """Padding writes into one more row, after the others, which is cut off."""
    values = arguments_of(node)
    tensor, indices, given = values["self"], values["indices"], values["values"]
    if any(map(is_mask, indices)):
        if not form.padded(given) and not form.padded(tensor):
            if not any(form.padded(index) for index in indices if index is not None):
                return form.again(node)
        first, count, rank = dims_of_index(indices, len(form.shape(tensor)))
        from_end = rank - (first + count - 1)
        shape = form.shape(given)
        size = shape[-from_end] if len(shape) >= from_end and shape[-from_end] != 1 else None
        indices = without_masks(form, node, indices, size)
    places = [
        None if index is None else _counted_from_front(form, tensor, dim, index, bool(padded))
        for dim, (index, padded) in enumerate(zip(indices, map(form.padded, indices)))
    ]
    behind = {}
    for dim, index in enumerate(indices):
        if index is None:
            continue
        size, length = form.shape(tensor)[dim], tensor.meta["val"].shape[dim]
        places[dim] = _checked_within(form, node, size, places[dim])
        if form.padded(index):
            counted = form.counted_in(form.shape(index), form.padded(index))
            places[dim] = form.chosen(counted, _beyond(form, size, places[dim]), length)
            behind[dim] = length
    whole = form.again(node, self=_longer(form, tensor, list(behind)), indices=places)
    for dim, length in behind.items():
        whole = form.call(aten.slice.Tensor, whole, dim, 0, length)
    return whole


def _longer(form: StaticForm, tensor: fx.Node, dims: Sequence[int]) -> fx.Node:
    """`tensor` with one more element along each of `dims`."""
    for dim in dims:
        row = form.call(aten.slice.Tensor, tensor, dim, 0, 1)
        tensor = form.call(aten.cat.default, [tensor, row], dim)
    return tensor


def _scatter(form: StaticForm, node: fx.Node) -> fx.Node:
    """Does what `_index_put` does, along one dimension."""
    values = arguments_of(node)
    tensor, index = values["self"], values["index"]
    dim = form.dim(node, tensor)
    padded = form.padded(index)
    if len(form.shape(index)) == max(1, len(form.shape(tensor))):
        along = [d for d in padded if d == dim or form.shape(index)[d] != form.shape(tensor)[d]]
    else:
        along = padded
    if node.target._schema.name == "aten::index_fill":  # the one whose index may count from the end
        index = _counted_from_front(form, tensor, dim, index, becomes_longer=bool(along))
    size, length = form.shape(tensor)[dim], tensor.meta["val"].shape[dim]
    index = _checked_within(form, node, size, index)
    if not along:
        return form.again(node, index=form.filled(index, 0))
    counted = form.counted_in(form.shape(index), padded)
    places = form.chosen(counted, _beyond(form, size, index), length)
    whole = form.again(node, self=_longer(form, tensor, [dim]), index=places)
    return form.call(aten.slice.Tensor, whole, dim, 0, length)


def _gather(name: str) -> Rule:
    """The rule of operators that read one element for each of an index: its padding reads the first."""

    def rule(form: StaticForm, node: fx.Node) -> fx.Node:
        values = arguments_of(node)
        index = values[name]
        if "dim" in values:
            size = form.shape(values["self"])[form.dim(node, values["self"])]
            index = _checked_within(form, node, size, index)
        return form.again(node, **{name: form.filled(index, 0)})

    return rule


def _embedding_backward(form: StaticForm, node: fx.Node) -> fx.Node:
    values = arguments_of(node)
    gradient, indices = values["grad_output"], values["indices"]
    return form.again(node, grad_output=form.filled(gradient, 0), indices=form.filled(indices, 0))


def _masked_scatter(form: StaticForm, node: fx.Node) -> fx.Node:
    """The elements that are written are taken from the front, and padding takes none."""
    values = arguments_of(node)
    tensor, mask, source = values["self"], values["mask"], values["source"]
    if form.padded(tensor) and form.shape(mask) != form.shape(tensor):
        raise form.refused(node, "a mask of another shape")
    if form.padded(source) not in ([], [0]):
        raise form.refused(node, "elements that count would not be side by side")
    mask = form.filled(mask, False)
    if form.padded(source):
        mask = _checked_enough(form, node, mask, source)
    return form.again(node, mask=mask)


def _checked_enough(form: StaticForm, node: fx.Node, mask: fx.Node, source: fx.Node) -> fx.Node:
    """`mask` behind a check that it takes no more elements of `source` than count."""
    everywhere = form.call(aten.expand.default, mask, list(form.bounds_of(node)[0]))
    taken = form.call(aten.sum.default, everywhere)
    there = form.count(sympy.prod(form.shape(source)))
    text = at_line(location(node), "a mask takes more elements here than there are")
    return form.check(form.call(aten.le.Tensor, taken, there), text, mask)


def _masked_scatter_backward(form: StaticForm, node: fx.Node) -> fx.Node:
    """The gradients of what was written lie in front, and the zeros behind them are padding's too."""
    values = arguments_of(node)
    if form.padded(node) not in ([], [0]):
        raise form.refused(node, "elements that count would not be side by side")
    return form.again(node, mask=form.filled(values["mask"], False))


def _part(form: StaticForm, node: fx.Node) -> fx.Node:
    """Writes a part along a dimension without padding. Where it lies, and how long it is, may be known,
    or a number of the graph."""
    values = arguments_of(node)
    tensor = values["self"]
    dim = form.dim(node, tensor)
    index, start, end = (form.size_of(values.get(name)) for name in ("index", "start", "end"))
    start, end = (from_front(place, form.shape(tensor)[dim]) for place in (start, end))
    if dim in form.padded(tensor):
        return _part_of_padded(form, node, dim, start, end)
    if all(place is None or isinstance(place, int) for place in (index, start, end)):
        return form.again(node)
    source = values["src"]
    if index is not None:
        start, source = index, form.call(aten.unsqueeze.default, source, dim)
    if values.get("step", 1) != 1:
        raise form.refused(node, "it writes at every other place")
    if form.padded(values["src"]) or isinstance(start, (int, type(None))):
        return _part_by_values(form, node, dim, start or 0, end)
    places = places_of(form, node, dim, start, source.meta["val"].shape[dim])
    return form.call(aten.index_copy.default, tensor, dim, places, source)


def _part_by_values(form: StaticForm, node: fx.Node, dim: int, start: Any, end: Any) -> fx.Node:
    """Writes a part that is as long as values say, as `whole[: len(rows)] = rows` does: for each place of
    the whole it reads an element of the part, and takes it where the part has one."""
    values = arguments_of(node)
    tensor, source = values["self"], values["src"]
    length, size = tensor.meta["val"].shape[dim], form.shape(source)[dim]
    if isinstance(end, int) and end < 0:
        end += length
    beside = [shape[:dim] + shape[dim + 1 :] for shape in map(form.shape, (tensor, source))]
    if beside[0] != beside[1] or isinstance(start, int) and start < 0:
        raise form.refused(node, "it writes at places that depend on values")
    last = form.count(length)
    if end is not None and not (isinstance(end, int) and end >= length):
        tensor = checked_from_front(form, node, tensor, end)
        last = form.call(aten.minimum.default, last, form.count(end))
    tensor = checked_from_front(form, node, tensor, start)
    room = form.call(aten.clamp_min.default, form.call(aten.sub.Tensor, last, form.count(start)), 0)
    text = at_line(location(node), "a part is written with another number of elements than it has")
    fits = form.call(aten.eq.Tensor, room, form.count(size))
    tensor = form.check(fits, text, tensor)
    if form.bound(size) == 0:
        return tensor
    places = form.call(aten.sub.Tensor, form.places(length), form.count(start))
    written = are_there(form, places, size)
    places = form.call(aten.clamp.default, places, 0, form.bound(size) - 1)
    source = form.call(aten.index_select.default, source, dim, places)
    written = form.along(written, dim, len(form.shape(tensor)))
    return form.call(aten.where.self, written, source, tensor)


def _part_of_padded(form: StaticForm, node: fx.Node, dim: int, start: Any, end: Any) -> fx.Node:
    """Writes a part along a dimension with padding, from a known place on, as `x[1:] = 0` does. What it
    writes after the elements that count is padding."""
    values = arguments_of(node)
    tensor, source = values["self"], values["src"]
    start = 0 if start is None else start
    from_front = isinstance(start, int) and start >= 0 and (not isinstance(end, int) or end >= 0)
    if "index" in values or not from_front or values["step"] != 1:
        raise form.refused(node, "it writes along the dimension of that size")
    size, length = form.shape(tensor)[dim], tensor.meta["val"].shape[dim]
    last = min(length, start + source.meta["val"].shape[dim])
    if last <= start:
        return tensor
    source = form.call(aten.slice.Tensor, source, dim, 0, last - start)
    whole = form.call(aten.slice_scatter.default, tensor, source, dim, start, last)
    if end is None or end == size or isinstance(end, int) and end >= length:
        return whole
    written = form.call(aten.lt.Tensor, form.places(length), form.count(end))
    written = form.along(written, dim, len(form.shape(tensor)))
    return form.call(aten.where.self, written, whole, tensor)


PLACES: dict[str, Rule] = {
    "embedding": _gather("indices"),
    "embedding_dense_backward": _embedding_backward,
    **dict.fromkeys("gather index_select".split(), _gather("index")),
    "index": _index,
    **dict.fromkeys("index_put _unsafe_index_put".split(), _index_put),
    **dict.fromkeys(
        "index_add index_copy index_fill scatter scatter_add scatter_reduce".split(), _scatter
    ),
    "masked_scatter": _masked_scatter,
    "masked_scatter_backward": _masked_scatter_backward,
    **dict.fromkeys("select_scatter slice_scatter".split(), _part),
}
