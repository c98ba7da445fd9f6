"""Graphs as expressions that they share: what two of them compute alike is one value."""

from __future__ import annotations

import dataclasses
import heapq
import itertools
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence

import torch
from torch import fx
from torch._functorch._aot_autograd.descriptors import TangentAOTInput
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._pytree import tree_map

from ..graph.known_values import bytes_of
from ..graph.nodes import is_backward
from .draw_order import DrawOrder

Results = dict[Any, Any]


@dataclasses.dataclass(eq=False, repr=False)
class Value:
    """What a node of a graph gives.

    Attributes:
        op: the node's.
        target: the operator that it calls, or what an input or an attribute is.
        arguments: its positional and named ones, with values in the place of nodes.
        meta: the node's.
        place: where its graph computes it: a number of calls.
        draw: of random numbers, which draw (`draw_order`); else None.
        number: larger than those of the values in `arguments`.
        is_gradient: whether it is computed of the loss's gradient; what the backward pass makes of
            parameters alone, as their transposes, is not.
    """

    op: str
    target: Any
    arguments: tuple[Any, Any]
    meta: dict[str, Any]
    place: int
    draw: Optional[int]
    number: int
    is_gradient: bool

    @property
    def operands(self) -> list[Value]:
        found: list[Value] = []
        map_values(self.arguments, found.append)
        return found

    @property
    def is_backward(self) -> bool:
        return is_backward(self.meta)


def map_values(arguments: Any, change: Callable[[Value], Any]) -> Any:
    """`arguments` with what `change` makes of each value in them."""
    if isinstance(arguments, Value):
        return change(arguments)
    if isinstance(arguments, (list, tuple)):
        return tuple(map_values(member, change) for member in arguments)
    if isinstance(arguments, dict):
        return {name: map_values(member, change) for name, member in arguments.items()}
    return arguments


def _key(arguments: Any) -> Any:
    if isinstance(arguments, Value):
        return arguments.number
    if isinstance(arguments, tuple):
        return tuple(map(_key, arguments))
    if isinstance(arguments, dict):
        return tuple((name, _key(member)) for name, member in arguments.items())
    return type(arguments).__name__, repr(arguments)


class SharedValues:
    """The values of several graphs, each once."""

    def __init__(self) -> None:
        self._values: dict[Any, Value] = {}
        self._attributes: dict[Value, Any] = {}
        self._mode: Optional[FakeTensorMode] = None
        self._draws = DrawOrder()
        self._numbers = iter(range(1 << 62))

    def add(self, module: fx.GraphModule) -> tuple[Results, dict[Value, int]]:
        """What a graph with descriptors gives, by descriptor, None where it gives nothing; and where it
        computes each value first."""
        values: dict[fx.Node, Value] = {}
        checkpoints: dict[Any, int] = {}
        draws = self._draws.numbers(module.graph.nodes)
        for place, node in enumerate(module.graph.nodes):
            meta = {**node.meta, "val": self._in_one_mode(node.meta.get("val"))}
            if "ac_graph_id" in meta:  # another one in each graph
                meta["ac_graph_id"] = checkpoints.setdefault(meta["ac_graph_id"], len(checkpoints))
            if node.op == "output":
                break
            arguments = fx.map_arg((node.args, node.kwargs), lambda n: values[n])
            arguments = map_values(arguments, lambda value: value)
            if node.op == "placeholder":
                arguments = ((), {})
                target = node.meta["desc"]
            elif node.op == "get_attr":
                held = getattr(module, node.target)
                target = _contents(held)
            else:
                target = node.target
            value = self.value(node.op, target, arguments, meta, place, draws.get(node))
            values[node] = value
            if node.op == "get_attr":
                self._attributes.setdefault(value, held)
        results = {
            descriptor: None if result is None else values[result]
            for result, descriptor in zip(node.args[0], node.meta["desc"], strict=True)
        }
        places: dict[Value, int] = {}
        for place, value in enumerate(values.values()):
            places.setdefault(value, place)
        return results, places

    def _in_one_mode(self, value: Any) -> Any:
        """Tensors without values of one mode, which those of several graphs are not."""

        def moved(member: Any) -> Any:
            if not isinstance(member, FakeTensor):
                return member
            self._mode = self._mode or member.fake_mode
            if member.fake_mode is self._mode:
                return member
            about = {"dtype": member.dtype, "device": member.device}
            with self._mode:
                return torch.empty_strided(member.shape, member.stride(), **about)

        return tree_map(moved, value)

    def value(
        self, op: str, target: Any, arguments: Any, meta: Any, place: int, draw: Optional[int]
    ) -> Value:
        """The value of a call, which is that of an equal one."""
        key = op, target, _key(arguments), draw
        if key not in self._values:
            value = Value(op, target, arguments, meta, place, draw, next(self._numbers), False)
            is_tangent = isinstance(target, TangentAOTInput)
            value.is_gradient = is_tangent or any(v.is_gradient for v in value.operands)
            self._values[key] = value
        return self._values[key]

    def again(self, value: Value, arguments: Any) -> Value:
        """The call of `value` with other arguments, whose values are alike."""
        return self.value(value.op, value.target, arguments, value.meta, value.place, value.draw)

    def known(self, value: Value, arguments: Any) -> Optional[Value]:
        """What `again` gives, where a graph has it."""
        return self._values.get((value.op, value.target, _key(arguments), value.draw))

    def call(self, at: Value, op: Any, *args: Any, **kwargs: Any) -> Value:
        """A call beside `at`."""
        meta = {name: held for name, held in at.meta.items() if name != "desc"}
        arguments = args, kwargs
        with self._mode or FakeTensorMode(), torch.no_grad():
            meta["val"] = op(*map_values(args, lambda value: value.meta["val"]), **kwargs)
        return self.value("call_function", op, arguments, meta, at.place, None)

    def number(self, at: Value, number: float) -> Value:
        """A number beside `at`, of its dtype."""
        return self._scalar(at, number, at.meta["val"].dtype)

    def truth(self, at: Value, holds: bool) -> Value:
        """True or False, beside `at`."""
        return self._scalar(at, holds, torch.bool)

    def _scalar(self, at: Value, number: Any, dtype: torch.dtype) -> Value:
        scalar = torch.ops.aten.scalar_tensor.default
        return self.call(at, scalar, number, dtype=dtype, device="cpu")

    def input(self, descriptor: Any) -> Value:
        """The input with a descriptor."""
        inputs = (value for value in self._values.values() if value.op == "placeholder")
        return next(value for value in inputs if value.target == descriptor)

    def graph(self, results: Mapping[Any, Optional[Value]]) -> fx.GraphModule:
        """The graph that gives `results`, forward in front of backward."""
        graph, root = fx.Graph(), torch.nn.Module()
        nodes: dict[Value, fx.Node] = {}
        needed = reached(value for value in results.values() if value is not None)
        inputs = {v for v in self._values.values() if v.op == "placeholder"}
        for value in _in_order(needed | inputs):
            args, kwargs = map_values(value.arguments, nodes.__getitem__)
            if value.op == "placeholder":
                node = graph.placeholder(f"input_{len(nodes)}")
            elif value.op == "get_attr":
                name = f"_constant_{len(nodes)}"
                setattr(root, name, self._attributes[value])
                node = graph.get_attr(name)
            else:
                node = graph.call_function(value.target, *_with_lists(args, kwargs))
            node.meta = dict(value.meta)
            nodes[value] = node
        output = graph.output(tuple(None if v is None else nodes[v] for v in results.values()))
        output.meta["desc"] = list(results)
        return fx.GraphModule(root, graph)


def _with_lists(args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Arguments with lists, as graphs have them, for tuples."""

    def listed(argument: Any) -> Any:
        return list(argument) if isinstance(argument, tuple) else argument

    return tuple(map(listed, args)), {name: listed(value) for name, value in kwargs.items()}


def _contents(held: Any) -> Any:
    """What an attribute of a graph is, equal for equal tensors."""
    if type(held) is not torch.Tensor or held.layout != torch.strided or held.requires_grad:
        return id(held)
    return str(held.dtype), tuple(held.shape), held.stride(), bytes_of(held)


def reached(values: Iterable[Value]) -> set[Value]:
    """`values`, and all that they are computed of."""
    found: set[Value] = set()
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if value not in found:
            found.add(value)
            waiting += value.operands
    return found


class Cycle(Exception):
    """Values that are computed of each other."""


class Made:
    """What is made of tasks, each once, and behind those that it needs.

    Args:
        needs: of a task, the others that are made before it.
        make: makes a task of what was made of these.
    """

    def __init__(
        self, needs: Callable[[Any], Sequence[Any]], make: Callable[[Any, list[Value]], Value]
    ) -> None:
        self._needs = needs
        self._make = make
        self._done: dict[Any, Value] = {}

    def of(self, task: Any) -> Value:
        """What is made of `task`.

        Raises:
            Cycle: it needs itself.
        """
        waiting, begun = [task], set()
        while waiting:
            last = waiting[-1]
            if last in self._done:
                waiting.pop()
                continue
            needs = self._needs(last)
            missing = [need for need in needs if need not in self._done]
            if not missing:
                self._done[last] = self._make(last, [self._done[need] for need in needs])
                waiting.pop()
            elif last in begun:
                raise Cycle
            else:
                begun.add(last)
                waiting += missing
        return self._done[task]


def _in_order(values: set[Value]) -> list[Value]:
    """Inputs first, then forward, then backward, each as its graph has it; and draws of random numbers in
    the order of the code, even where a choice between two ways lets later ones be ready before."""
    draws = sorted((value for value in values if value.draw is not None), key=_order)
    try:
        return _sorted(values, dict(itertools.pairwise(draws)))
    except Cycle:  # they are computed of each other
        return _sorted(values, {})


def _order(value: Value) -> Sequence[Any]:
    return value.op != "placeholder", value.is_backward, value.place, value.number


def _sorted(values: set[Value], next_draws: Mapping[Value, Value]) -> list[Value]:
    """Values behind those that they are computed of, and behind the draw in front of theirs.

    Raises:
        Cycle: there is no such order.
    """
    followers: dict[Value, list[Value]] = {value: [] for value in values}
    missing: dict[Value, int] = {}
    for value in values:
        operands = set(value.operands)
        missing[value] = len(operands)
        for operand in operands:
            followers[operand].append(value)
    for draw, following in next_draws.items():
        followers[draw].append(following)
        missing[following] += 1
    ready = [(_order(value), value) for value, count in missing.items() if count == 0]
    heapq.heapify(ready)
    done: list[Value] = []
    while ready:
        _, value = heapq.heappop(ready)
        done.append(value)
        for follower in followers[value]:
            missing[follower] -= 1
            if missing[follower] == 0:
                heapq.heappush(ready, (_order(follower), follower))
    if len(done) < len(values):
        raise Cycle
    return done
