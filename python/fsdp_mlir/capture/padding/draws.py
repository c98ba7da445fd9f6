"""Random numbers where a size depends on values: they are drawn for as many elements as there can be,
and the first of them count."""

from __future__ import annotations

from torch import fx

from ...step.places import at_line
from ..graph.nodes import arguments_of, location
from .static_form import Rule, StaticForm, aten

# So large that its remainder by a number of elements is nearly uniform.
_DRAWN = 2**62


def _randint(form: StaticForm, node: fx.Node) -> fx.Node:
    values = arguments_of(node)
    low, high = form.size_of(values.get("low", 0)), form.size_of(values["high"])
    if isinstance(low, int) and isinstance(high, int):
        return form.again(node)
    length = form.call(aten.sub.Tensor, form.count(high), form.count(low))
    drawn = form.again(node, high=_DRAWN, **({"low": 0} if "low" in values else {}))
    text = at_line(location(node), "randint has no number to draw from")
    drawn = form.check(form.call(aten.ge.Scalar, length, 1), text, drawn)
    # No integer is divided by zero: that ends a process before the check does.
    drawn = form.call(aten.remainder.Tensor, drawn, form.call(aten.clamp_min.default, length, 1))
    return form.call(aten.add.Tensor, drawn, form.count(low))


def _randperm(form: StaticForm, node: fx.Node) -> fx.Node:
    """Draws an order of all places, and keeps those that count, in that order."""
    size = form.size_of(arguments_of(node)["n"])
    order = form.again(node)
    if isinstance(size, int):
        return order
    behind = form.call(aten.ge.Tensor, order, form.count(size))
    _, places = form.results(aten.sort.stable, behind, stable=True, dim=0)
    return form.call(aten.index_select.default, order, 0, places)


def _filling(**fills: float) -> Rule:
    """The rule of draws whose kernels check their operands, as deviations that are not negative and
    probabilities: padding, which may hold anything, is filled with these."""

    def rule(form: StaticForm, node: fx.Node) -> fx.Node:
        values = arguments_of(node)
        tensors = [name for name in fills if form.is_tensor(values.get(name))]
        return form.again(
            node, **{name: form.filled(values[name], fills[name]) for name in tensors}
        )

    return rule


DRAWS: dict[str, Rule] = {
    "bernoulli": _filling(self=0, p=0),
    "normal": _filling(std=1),
    "randint": _randint,
    "randperm": _randperm,
}
