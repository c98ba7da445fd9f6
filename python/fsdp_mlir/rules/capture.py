"""Captures what an optimizer's step does to each parameter, from the step itself.

The step is followed three times: as the first one, which makes the optimizer's state; as a later
one, which finds it; and as the one after that, which must be the same. What the three say becomes
one program per parameter, and parameters of a group with the same program share it.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Mapping, NoReturn, Optional, Sequence

import torch

from ..capture.graph.program import Setting
from ..errors import E, ExportError
from .alike import Followed
from .follow import Follower
from .group_entries import described, entry_of_state
from .lines import line_of_step
from .merge import FirstMerger
from .pairs import element_dtype
from .reach import check_state_keys
from .schedule import Schedule
from .state_numbers import AfterStep
from .values import Expr, Layout, Pool, reached
from ..step.places import at_line
from ..step.strides import row_major_strides


@dataclass
class State:
    """Optimizer state: `initial` is the first value of its elements, `shape` its own where that is
    not the parameter's."""

    name: str
    dtype: torch.dtype
    initial: float
    shape: Optional[tuple[int, ...]] = None


@dataclass
class Former:
    """Optimizer state that is one number, and known without the run: in the first step it is
    `initial`, and `next` after a step in which it was `Expr("former")` of this name."""

    name: str
    initial: Expr
    next: Expr


@dataclass
class Rule:
    """What a step does to each of `parameters`, of one group and dtype.

    `results` are the new parameter and the new states, as expressions of the inputs `param`,
    `grad` and the states' names, and of `formers`.
    """

    group: int
    dtype: torch.dtype
    parameters: list[str]
    states: list[State]
    results: list[Expr]
    formers: list[Former]
    # Of a rule that looks at whole tensors, theirs; None: any.
    shape: Optional[tuple[int, ...]] = None
    # The buffer that counts steps which give the parameters no gradient; None: each step gives one.
    missed: Optional[str] = None
    # Whether it first sets the parameters, as the step does.
    sets: bool = False


def capture_rules(
    optimizer: torch.optim.Optimizer,
    groups: Sequence[Sequence[str]],
    schedule: Schedule,
    settings: Mapping[str, Setting] = MappingProxyType({}),
) -> list[Rule]:
    """The rules of `optimizer`, whose groups hold the parameters named `groups`. Numbers that the
    schedule changes are not constants of the rules. A parameter in `settings` is set first.

    Raises:
        ExportError: the step is not the same function of each parameter in every step.
    """
    pool = Pool()
    check_state_keys(type(optimizer), optimizer.state)
    followed = Followed(optimizer, groups, settings)
    follower = Follower(optimizer, followed, schedule, pool, settings)
    _check_closure(optimizer)
    together = follower.follow_together() if len(groups) > 1 else None
    first = follower.follow_first()
    later = follower.follow_later(first)
    third = follower.follow_later(first)
    rules: dict[Any, Rule] = {}
    own: dict[int, Rule] = {}
    members_of = ((group, fqn) for group, members in enumerate(groups) for fqn in members)
    for number, (group, fqn) in zip(followed.places, members_of):
        if not follower.tensors[number].requires_grad:
            continue
        if number not in own:
            a, b, c = (outcomes[number] for outcomes in (first, later, third))
            if together is not None:
                _check_apart(follower, number, group, a, together)
            rule = _rule(follower, number, group, a, b, c)
            rule.sets = fqn in settings
            formers = tuple((f.name, id(f.initial), id(f.next)) for f in rule.formers)
            key = (group, rule.dtype, rule.shape, rule.sets, tuple(map(id, rule.results)), formers)
            own[number] = rules.setdefault(key, rule)
        own[number].parameters.append(fqn)
    follower.check_unchanged()
    follower.check_updated()
    return list(rules.values())


def _check_closure(optimizer: torch.optim.Optimizer) -> None:
    parameters = list(inspect.signature(type(optimizer).step).parameters.values())[1:]
    needed = [p.name for p in parameters if p.default is p.empty and p.kind <= p.KEYWORD_ONLY]
    if [name for name in needed if name not in ("args", "kwargs")]:
        raise ExportError(
            E.OPTIMIZER_STEP,
            f"{line_of_step(type(optimizer))}the step of {type(optimizer).__name__} takes "
            f"{needed[0]}, and no Python runs while a plan does; use an optimizer whose step() "
            "takes nothing",
        )


class _Owned:
    """Expressions of one parameter, as expressions of any."""

    def __init__(self, follower: Follower, parameter: int, group: int) -> None:
        self.follower, self.parameter, self.group = follower, parameter, group
        param = follower.tensors[parameter]
        self._shape = (tuple(param.shape) or (1,)) + ((2,) if param.is_complex() else ())
        self._known: dict[Expr, Expr] = {}

    def __call__(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self, value))
        if not isinstance(value, Expr):
            return value
        if value not in self._known:
            self._known[value] = self._strip(value)
        return self._known[value]

    def _strip(self, value: Expr) -> Expr:
        make = self.follower.pool.make
        if value.op in ("input", "former"):
            owner, name = value.operands
            own = self.parameter
            if value.op == "former":
                own = self.follower.numbers.formers.get((own, name), own)
            if owner != own:
                what = "the gradient of " if name == "grad" else ""
                self._fail(value, f"reads {what}{self.follower.fqns[owner]}")
            return make(value.op, -1, name, dtype=value.dtype, layout=value.layout)
        if value.op == "hyperparameter" and value.operands[0] != self.group:
            self._fail(value, f"reads {value.operands[1]} of another parameter group")
        operands = tuple(map(self, value.operands))
        layout = value.layout
        if value.op == "fill":
            number, *shape = operands
            operands = (number,)
            if shape and shape[0] != self._shape:
                layout = _rows(shape[0])
        elif value.op == "call" and layout is None and value.whole:
            layout = _layout_by(operands)
        if layout == value.layout:
            return self.follower.pool.like(value, *operands)
        return make(
            value.op, *operands,
            dtype=value.dtype, whole=value.whole, layout=layout, where=value.where,
        )  # fmt: skip

    def _fail(self, value: Expr, what: str) -> NoReturn:
        fqn = self.follower.fqns[self.parameter]
        mend = ""
        if value.operands[1] == "grad":
            mend = "; what clips gradients by their norm is clip_grad_norm of TrainingStep"
        self.follower.fail(
            f"{what} where it updates {fqn}; each parameter is updated by itself{mend}"
        )


def _rows(shape: Sequence[int]) -> Layout:
    return tuple(shape), row_major_strides(shape)


def _layout_by(operands: Sequence[Any]) -> Optional[Layout]:
    """That of what is computed element by element; None: the parameter's."""
    tensors = [x for x in operands if isinstance(x, Expr) and not x.is_number]
    layouts = [x.layout for x in tensors if x.whole or x.layout is not None]
    if not layouts or None in layouts:
        return None
    return _rows(torch.broadcast_shapes(*(layout[0] for layout in layouts)))


def _rule(
    follower: Follower,
    number: int,
    group: int,
    first: AfterStep,
    later: AfterStep,
    third: AfterStep,
) -> Rule:
    pool, own = follower.pool, _Owned(follower, number, group)
    _check_states(follower, first, later)
    names = [name for name, value in later.states.items() if not value.is_number]
    kept = [name for index, name in sorted(follower.numbers.formers) if index == number]
    results = [own(later.param), *(own(later.states[name]) for name in names)]
    again = [own(third.param), *(own(third.states[name]) for name in names)]
    follows = [own(later.states[name]) for name in kept]
    follows_again = [own(third.states[name]) for name in kept]
    _check_alike(follower, results + follows, again + follows_again)
    merger = FirstMerger(pool, {name: own(first.begins[name]) for name in first.begins})
    begun = [
        own(first.param),
        *(own(_as_tensor(pool, first.states[name], later.states[name])) for name in names),
    ]
    results = [merger.merge(a, b) for a, b in zip(begun, results)]
    for name, value in zip(names, results[1:]):
        if value.is_number:
            follower.fail(f"makes its state {name} a number")
    follows = [merger.merge(own(first.states[name]), x) for name, x in zip(kept, follows)]
    for name, value in zip(kept, follows):
        if any(x.op == "item" for x in reached([value])):
            follower.fail(
                f"keeps in its state {name!r} a Python number that follows from what tensors hold; "
                "keep it as a tensor, without item()"
            )
    zero = pool.constant(0)
    formers = [
        Former(name, merger.formers.get(name, zero), value) for name, value in zip(kept, follows)
    ]
    rule = Rule(group, results[0].dtype, [], [], results[:1], _read(formers, results))
    param = follower.tensors[number]
    if results[0].dtype != element_dtype(param.dtype):
        follower.fail(f"gives {results[0].dtype} for a parameter of {param.dtype}")
    for name, result in zip(names, results[1:]):
        # What nothing changes and nothing reads is no state.
        if result.op == "input" and not _reads([r for r in results if r is not result], result):
            continue
        initial = pool.substitute(
            merger.initial.get(name, pool.constant(0)), follower.in_first_step
        )
        if initial.op != "constant":
            follower.fail(f"begins its state {name} with a number that is not known")
        shape = follower.shape_of_state(number, name)
        rule.states.append(State(name, result.dtype, initial.operands[0], shape))
        rule.results.append(result)
    if any(value.layout is not None for value in reached(rule.results)):
        rule.shape = _whole_shape(follower, number, rule.formers)
    return rule


def _check_states(follower: Follower, first: AfterStep, later: AfterStep) -> None:
    """Fails where a later step has other kinds of state than the first one."""
    pool = follower.pool
    if set(first.states) != set(later.states):
        follower.fail("has other state after some steps than after others")
    for name, value in later.states.items():
        begins = first.states[name]
        if value.is_number and not begins.is_number:
            follower.fail(f"makes its state {name} a number")
        if value is pool.make("step", 0) and begins is not pool.constant(1):
            follower.fail(f"begins to count in {described(name)} at another number than 1")


def _check_alike(follower: Follower, results: Sequence[Expr], again: Sequence[Expr]) -> None:
    """Raises ExportError where a step computes something else than the one before it."""
    for result, other in zip(results, again):
        if result is not other:
            what = (
                f"the step of {follower.name} reads Python state that changes between steps; keep it "
                "in the optimizer's state, per parameter"
            )
            raise ExportError(E.OPTIMIZER_STEP, at_line(_difference(result, other), what))


def _whole_shape(follower: Follower, number: int, formers: Sequence[Former]) -> tuple[int, ...]:
    """The shape of a parameter that its rule looks at the whole of."""
    param = follower.tensors[number]
    looks = f"looks at the whole of {follower.fqns[number]}"
    if param.is_complex():
        follower.fail(f"{looks}, which is complex; give it to another optimizer")
    if param.dim() == 0:
        follower.fail(f"{looks}, which has no dimension; give it to another optimizer")
    for former in formers:
        follower.fail(
            f"{looks}, and keeps a number in {described(former.name)} that follows from every step "
            "before: a rank computes some of the parameters, and has no such numbers; compute it "
            "from the count of steps where it is read",
            f'"{entry_of_state(former.name) or former.name}"',
        )
    return tuple(param.shape)


def _read(formers: list[Former], results: Sequence[Expr]) -> list[Former]:
    """Without the numbers of a group that nothing reads, such as those that are kept for logs."""
    by_name = {former.name: former for former in formers}
    left: list[Any] = [*results, *(f.next for f in formers if entry_of_state(f.name) is None)]
    read: set[str] = set()
    while left:
        names = {x.operands[1] for x in reached(left) if x.op == "former"} - read
        read |= names
        left = [by_name[name].next for name in names]
    return [f for f in formers if entry_of_state(f.name) is None or f.name in read]


def _check_apart(
    follower: Follower, number: int, group: int, alone: AfterStep, together: tuple[Any, bool]
) -> None:
    """Groups are followed one by one: what a step reads of others shows where it has all."""
    outcomes, is_only_way = together
    own = _Owned(follower, number, group)
    for a, b in [
        (alone.param, outcomes[number].param),
        *((x, outcomes[number].states.get(name)) for name, x in alone.states.items()),
    ]:
        if own(b) is not own(a) and is_only_way:
            fqn = follower.fqns[number]
            follower.fail(f"updates {fqn} otherwise where the optimizer has no other group")


def _as_tensor(pool: Pool, value: Expr, like: Expr) -> Expr:
    """A state that may be a number, such as Python's 0, until a later step makes it a tensor."""
    if not value.is_number:
        return value
    return pool.make("fill", value, dtype=like.dtype, layout=like.layout)


def _reads(results: Sequence[Any], state: Expr) -> bool:
    return any(value is state for value in reached(results))


def _difference(a: Any, b: Any) -> str:
    """The line of the innermost expressions that differ."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        pairs = zip(a, b)
    elif (
        isinstance(a, Expr)
        and isinstance(b, Expr)
        and (a.op, len(a.operands))
        == (
            b.op,
            len(b.operands),
        )
    ):
        pairs = zip(a.operands, b.operands)
    else:
        return getattr(b, "where", "")
    for x, y in pairs:
        if x is not y and x != y:
            return _difference(x, y) or getattr(b, "where", "")
    return getattr(b, "where", "")
