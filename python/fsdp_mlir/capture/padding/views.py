"""Rules for views that take dimensions together, or one apart, where there is padding (see `rules`)."""

from __future__ import annotations

from typing import Iterator, Sequence

import sympy
import torch
from torch import fx

from ..graph.nodes import arguments_of
from .static_form import Rule, Size, StaticForm, aten

_Sizes = Sequence[Size]


def _view(form: StaticForm, node: fx.Node) -> fx.Node:
    """A view keeps what counts in front where padding is along the first of the sizes that are taken
    together, or taken apart. Elsewhere padding would stand between elements that count, as between the
    samples of a batch that is cut to its longest one, so these are moved."""
    tensor = arguments_of(node)["self"]
    groups = list(_groups(form, form.shape(tensor), form.shape(node)))
    if any(map(_has_padding_within, groups)):
        tensor = _moved(form, tensor, groups)
        return form.call(aten.view.default, tensor, form.bounds_of(node)[0])
    try:
        return form.again(node)
    except RuntimeError:  # strides that depended on the size
        tensor = form.call(aten.clone.default, tensor, memory_format=torch.contiguous_format)
        return form.again(node, self=tensor)


def _groups(form: StaticForm, ours: _Sizes, theirs: _Sizes) -> Iterator[tuple[_Sizes, _Sizes]]:
    """The sizes of a tensor and of a view of it, in parts that have the same product."""
    while ours or theirs:
        before, after = _group(form, ours, theirs)
        yield before, after
        ours, theirs = ours[len(before) :], theirs[len(after) :]


def _group(form: StaticForm, ours: _Sizes, theirs: _Sizes) -> tuple[_Sizes, _Sizes]:
    """The first sizes of each that have the same product, without leading ones among them."""
    if ours[:1] == (1,) and theirs[:1] != (1,):
        return ours[:1], ()
    if theirs[:1] == (1,) and ours[:1] != (1,):
        return (), theirs[:1]
    before, after = list(ours[:1]), list(theirs[:1])
    while True:
        left, right = sympy.prod(before), sympy.prod(after)
        if form.are_equal(left, right):
            return before, after
        if form.bound(left) < form.bound(right) and len(before) < len(ours):
            before.append(ours[len(before)])
        elif len(after) < len(theirs):
            after.append(theirs[len(after)])
        elif len(before) < len(ours):
            before.append(ours[len(before)])
        else:
            raise form.refused(form.line, "the sizes do not match")


def _has_padding_within(group: tuple[_Sizes, _Sizes]) -> bool:
    before, after = group
    return any(not isinstance(size, int) for size in (*before[1:], *after[1:]))


def _moved(form: StaticForm, tensor: fx.Node, groups: Sequence[tuple[_Sizes, _Sizes]]) -> fx.Node:
    """The elements of a view of `tensor`, with a dimension for each group."""
    shape = [int(sympy.prod(map(form.bound, before))) for before, _ in groups]
    tensor = form.call(aten.reshape.default, tensor, shape)
    for dim, (before, after) in enumerate(groups):
        if _has_padding_within((before, after)):
            key = tuple(before), tuple(after)
            if key not in form.moved:  # once for all views of a step: each linear layer has two
                form.moved[key] = _places_before(form, before, after)
            tensor = form.call(aten.index_select.default, tensor, dim, form.moved[key])
    return tensor


def _places_before(form: StaticForm, before: _Sizes, after: _Sizes) -> fx.Node:
    """For each place among sizes `after`, padding's too, that of the same element among `before`. Eager
    mode numbers the elements that count, and no others."""
    bounds = [form.bound(size) for size in after]
    places = form.places(int(sympy.prod(bounds)))
    number = _number(form, _places(form, places, bounds), after)
    return _number(form, _places(form, number, before), [form.bound(size) for size in before])


def _places(form: StaticForm, number: fx.Node, sizes: _Sizes) -> list[fx.Node]:
    """Along each dimension, the place of the element with a number in row-major order. Of padding,
    which has no number, it is some place that there is."""
    found = []
    for dim, size in enumerate(sizes):
        step = _divisor(form, sympy.prod(sizes[dim + 1 :]))
        place = form.call(aten.div.Tensor_mode, number, step, rounding_mode="floor")
        found.append(form.call(aten.remainder.Tensor, place, _divisor(form, size)))
    return found


def _number(form: StaticForm, places: Sequence[fx.Node], sizes: _Sizes) -> fx.Node:
    """What `_places` takes apart."""
    whole = form.count(0)
    for dim, place in enumerate(places):
        step = form.count(sympy.prod(sizes[dim + 1 :]))
        whole = form.call(aten.add.Tensor, whole, form.call(aten.mul.Tensor, place, step))
    return whole


def _divisor(form: StaticForm, size: Size) -> fx.Node:
    """A size, and 1 where there is none: integers are not divided by zero."""
    return form.call(aten.clamp_min.default, form.count(size), 1)


VIEWS: dict[str, Rule] = dict.fromkeys("view _unsafe_view reshape".split(), _view)
