"""Operators that give sizes by values: each with its largest size, and a count of what it found."""

from __future__ import annotations

from typing import Any, Iterator, Optional, Sequence

import sympy
import torch
from torch import fx

from ...errors import E
from ...step.at_most import BOUND
from ...step.places import at_line
from ..graph.nodes import arguments_of, location, refusal
from .static_form import NO_BOUND, Origin, Rule, Size, StaticForm, aten, is_dynamic

_TRUTH = (torch.bool, torch.uint8)


def _settle(form: StaticForm, node: fx.Node, size: Size, largest: Optional[int]) -> int:
    """How large `size`, which `node` gives, is made: what the code promises of it, or `largest`."""
    promised = node.meta.get("custom", {}).get(BOUND)
    if isinstance(size, int):
        return size
    if size.is_Symbol and size in form.bounds:
        return form.bounds[size]
    known = [largest, promised, form.range_of(size) if size.is_Symbol else None]
    if all(bound is None for bound in known):
        raise refusal(E.VALUE_DEPENDENT, node, NO_BOUND)
    bound = min(bound for bound in known if bound is not None)
    if size.is_Symbol:
        form.bounds[size] = bound
        form.origins[size] = Origin.of(node)
        return bound
    # A size that the code has found to divide: 3 * u0.
    factor, rest = size.as_coeff_Mul()
    if not (rest.is_Symbol and factor.is_Integer and rest not in form.bounds):
        raise form.refused(node, f"its size is {size}")
    form.bounds[rest] = bound // int(factor)
    form.origins[rest] = Origin.of(node)
    return int(factor) * form.bounds[rest]


def _agree(
    form: StaticForm, node: fx.Node, size: Size, count: fx.Node, largest: Optional[int]
) -> Iterator[tuple[fx.Node, str]]:
    """Notes that `count` elements are found, as whose size the step takes `size`. Gives what must hold
    for that, where more can be found than there is place, or others, and what to say where it does not.
    """
    where = location(node) or node.target._schema.name
    if isinstance(size, int) or size.is_Symbol and size in form.counts:
        what = f"{size} elements" if isinstance(size, int) else "as many elements as elsewhere"
        holds = form.call(aten.eq.Tensor, count, form.count(size))
        yield holds, f"{where}: the step needs {what} here"
        return
    bound = form.bound(size)
    if size.is_Symbol:
        form.counts[size] = count
    else:
        factor, rest = size.as_coeff_Mul()
        form.counts[rest] = form.call(
            aten.div.Scalar_mode, count, int(factor), rounding_mode="floor"
        )
        holds = form.call(aten.eq.Tensor, count, form.count(size))
        yield holds, f"{where}: the step needs a multiple of {factor} elements here"
    if largest is None or bound < largest:
        holds = form.call(aten.le.Scalar, count, bound)
        if bound == node.meta.get("custom", {}).get(BOUND):
            yield holds, f"{where}: more than at_most({bound}) elements"
        else:  # which other code of the step says, as a check, or a tensor that has no more
            yield holds, f"{where}: the step needs {bound} elements here, or fewer"


def _agreed(
    form: StaticForm, node: fx.Node, size: Size, count: fx.Node, largest: Optional[int], token: Any
) -> fx.Node:
    """`token`, behind checks that `count` elements are what the step takes `size` for."""
    for holds, text in _agree(form, node, size, count, largest):
        token = form.check(holds, text, token)
    return token


def _places(form: StaticForm, node: fx.Node, mask: fx.Node, size: Size) -> fx.Node:
    """Where `mask` holds, as `aten::nonzero` gives it, as whose length the step takes `size`."""
    padded = form.padded(mask)
    largest = mask.meta["val"].numel()
    length = _settle(form, node, size, largest)
    known, count = form.selected.get((mask, length), (None, None))
    if known is not None and (form.counts.get(size, count) is count or isinstance(size, int)):
        if not isinstance(size, int):
            form.counts[size] = count
        again = form.call(aten.alias.default, known)  # whose size has another name
        form.note(again, (size, again.meta["val"].shape[1]))
        return again
    holds = mask
    if mask.meta["val"].dtype != torch.bool:
        holds = form.call(aten.ne.Scalar, mask, 0)
    if padded:
        counted = form.counted_in(form.shape(mask), padded)
        holds = form.call(aten.logical_and.default, holds, counted)
    count = form.call(aten.sum.default, holds)
    places = form.call(aten.nonzero_static.default, holds, size=length, fill_value=0)
    places = _agreed(form, node, size, count, largest, places)
    form.note(places, (size, places.meta["val"].shape[1]))
    form.places_within[places] = form.shape(mask)
    form.selected[mask, length] = places, form.count(size)
    return places


def columns(form: StaticForm, node: fx.Node, mask: fx.Node, size: Size) -> list[fx.Node]:
    """The indices of what `mask` takes, one tensor for each of its dimensions."""
    places = _places(form, node, mask, size)
    found = []
    for dim in range(places.meta["val"].shape[1]):
        found.append(form.call(aten.select.int, places, 1, dim))
        form.note(found[-1], (size,))
    return found


def _nonzero(form: StaticForm, node: fx.Node) -> fx.Node:
    mask = arguments_of(node)["self"]
    return _places(form, node, mask, form.shape(node)[0])


def _masked_select(form: StaticForm, node: fx.Node) -> fx.Node:
    arguments = arguments_of(node)
    tensor, mask = arguments["self"], arguments["mask"]
    if form.padded(tensor) and form.shape(tensor) != form.shape(mask):
        raise form.refused(node, "a mask of another shape")
    shape = torch.broadcast_shapes(tensor.meta["val"].shape, mask.meta["val"].shape)
    if tuple(mask.meta["val"].shape) != tuple(shape):
        mask = form.call(aten.expand.default, mask, list(shape))
        form.note(mask, shape)
    if tuple(tensor.meta["val"].shape) != tuple(shape):
        tensor = form.call(aten.expand.default, tensor, list(shape))
    form.mask_sizes[mask] = form.shape(node)[0]
    indices = columns(form, node, mask, form.shape(node)[0])
    return form.call(aten.index.Tensor, tensor, indices)


def is_mask(value: Any) -> bool:
    return isinstance(value, fx.Node) and value.meta["val"].dtype in _TRUTH


def dims_of_index(indices: Sequence[Any], dims: int) -> tuple[int, int, int]:
    """Of a tensor of `dims` dimensions that is indexed: the first dimension of the result that
    `indices` give, how many they give, and how many the result has."""
    ranks, taken, places = [], 0, []
    for index in indices:
        if index is None:
            taken += 1
            continue
        places.append(taken)
        rank = index.meta["val"].dim()
        taken += rank if is_mask(index) else 1
        ranks.append(1 if is_mask(index) else rank)
    given = [i for i, index in enumerate(indices) if index is not None]
    adjacent = given == list(range(given[0], given[-1] + 1))
    kept = sum(index is None for index in indices) + dims - taken
    return places[0] if adjacent else 0, max(ranks), max(ranks) + kept


def without_masks(
    form: StaticForm, node: fx.Node, indices: Sequence[Any], size: Optional[Size]
) -> list[Any]:
    """The indices of `node` with tensors of places for masks. `size` is how many elements the step
    takes a mask to hold for; None: as many as before, or all that there are."""
    found: list[Any] = []
    for index in indices:
        if not is_mask(index):
            found.append(index)
            continue
        own = form.mask_sizes.get(index, size)
        if own is None:
            own = sympy.Symbol(f"{index.name}_count", integer=True, nonnegative=True)
        elif size is not None and not form.are_equal(own, size):
            own = size  # elsewhere a sum may stand for it, as of parts that are all of a selection
        form.mask_sizes[index] = own
        found += columns(form, node, index, own)
    return found


# Which give some of the numbers that their first argument has.
_OF_COUNTS = (
    *(aten._to_copy.default, aten.view.default, aten.alias.default, aten.slice.Tensor),
    *(aten.select.int, aten.max.default, aten.min.default, aten.amax.default, aten.amin.default),
)


def _most(number: fx.Node) -> Optional[int]:
    """How large a number is at most that counts where a mask holds or how often something is there, as
    the largest of such counts is, or that is drawn; None: it is something else."""
    while True:
        if number.target in _OF_COUNTS:
            number = number.args[0]
        elif number.target is aten._functional_assert_async.msg:
            number = number.args[2]
        elif number.target is aten.where.self and _is_least(number.args[2]):
            number = number.args[1]
        else:
            break
    if number.target in (aten.randint.default, aten.randint.low):
        most = arguments_of(number)["high"]
        return most - 1 if isinstance(most, int) else None
    if number.target is aten.scatter_add.default:  # as `_unique` counts
        zeros, _, _, ones = number.args
        is_count = zeros.target is aten.zeros.default and ones.target is aten.ones_like.default
        return ones.meta["val"].numel() if is_count else None
    if number.target not in (aten.sum.default, aten.sum.dim_IntList, aten.count_nonzero.default):
        return None
    counted = number.args[0].meta["val"]
    masks = counted.dtype == torch.bool or number.target is aten.count_nonzero.default
    return counted.numel() if masks and not is_dynamic(counted) else None


def _is_least(number: fx.Node) -> bool:
    """Whether it stands for padding where the largest number is looked for."""
    return number.target is aten.scalar_tensor.default and number.args[0] <= 0


def _item(form: StaticForm, node: fx.Node) -> None:
    """`aten::_local_scalar_dense`: a number that only sizes and scalars read."""
    number = arguments_of(node)["self"]
    size = form.size_of(node)
    if not isinstance(size, int) and not size.is_Symbol:
        raise form.refused(node, f"the step needs the number {size}")
    if number.meta["val"].dtype.is_floating_point:
        raise refusal(
            E.VALUE_DEPENDENT,
            node,
            "the step reads a tensor's value as a Python number; keep it a tensor",
        )
    flat = form.call(aten.sum.default, number)
    if isinstance(size, int):  # as a tensor of that size beside it says
        text = at_line(location(node), f"the step needs the number {size} here")
        form.needed.append((form.call(aten.eq.Scalar, flat, size), text))
        return
    largest = _most(number)
    if (
        largest is not None
        or BOUND in node.meta.get("custom", {})
        or form.range_of(size) is not None
    ):
        _settle(form, node, size, largest)
        # Not checks of the number itself: the step may decide by it, and promise a bound on one way.
        form.needed += _agree(form, node, size, flat, largest)
    form.origins.setdefault(size, Origin.of(node))
    form.counts[size] = flat  # without a bound for what computes with it alone


def _repeat_interleave(form: StaticForm, node: fx.Node) -> fx.Node:
    """Each place as often as `repeats` says."""
    repeats = arguments_of(node)["repeats"]
    size = form.shape(node)[0]
    length = _settle(form, node, size, None)
    ends = form.call(aten.cumsum.default, form.filled(repeats, 0), 0)
    count = form.call(aten.select.int, ends, 0, -1)
    ends = _agreed(form, node, size, count, None, ends)
    found = form.call(aten.searchsorted.Tensor, ends, form.places(length), right=True)
    return form.call(aten.clamp_max.default, found, repeats.meta["val"].shape[0] - 1)


def _unique(form: StaticForm, node: fx.Node) -> tuple[fx.Node, ...]:
    """The first of each run of equal elements, in order of value or, of `unique_consecutive`, as
    they are; its place in that order for each element; and how often each is there."""
    values = arguments_of(node)
    tensor = values["self"]
    if form.padded(tensor) or values.get("dim") is not None:
        raise form.refused(node, "its operand has such a size too")
    flat = form.call(aten.reshape.default, tensor, [-1])
    length = flat.meta["val"].shape[0]
    order = None
    if node.target is aten._unique2.default:
        flat, order = form.results(aten.sort.stable, flat, stable=True)
    later = form.call(
        aten.ne.Tensor,
        form.call(aten.slice.Tensor, flat, 0, 1, length),
        form.call(aten.slice.Tensor, flat, 0, 0, length - 1),
    )
    first = form.call(aten.constant_pad_nd.default, later, [1, 0], 1)
    form.note(first, (length,))
    (places,) = columns(form, node, first, form.shapes(node)[0][0])
    found = form.call(aten.index_select.default, flat, 0, places)
    number = form.call(aten.sub.Scalar, form.call(aten.cumsum.default, first, 0), 1)
    zeros = form.call(aten.zeros.default, [length], dtype=torch.int64, device="cpu")
    inverse = number
    if order is not None:
        inverse = form.call(aten.scatter.src, zeros, 0, order, number)
    ones = form.call(aten.ones_like.default, number)
    counts = form.call(aten.scatter_add.default, zeros, 0, number, ones)
    counts = form.call(aten.slice.Tensor, counts, 0, 0, places.meta["val"].shape[0])
    inverse = form.call(aten.reshape.default, inverse, list(tensor.meta["val"].shape))
    form.places_within[inverse] = (form.shapes(node)[0][0],)
    return found, inverse, counts


SOURCES: dict[Any, Rule] = {
    aten.nonzero.default: _nonzero,
    aten._unique2.default: _unique,
    aten.unique_consecutive.default: _unique,
    aten.masked_select.default: _masked_select,
    aten.repeat_interleave.Tensor: _repeat_interleave,
    aten._local_scalar_dense.default: _item,
}
