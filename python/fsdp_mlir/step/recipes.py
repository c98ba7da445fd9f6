"""Recipes for first values: what PyTorch's initialisers do to each element by itself.

A recipe is a list of steps. `fill`, `uniform` and `normal` give an element a value, `multiply`,
`add`, `clamp` and `erfinv` change it. A step may be for a strided view of the tensor. Since no
step looks at another element, a rank can follow a recipe for just the elements that it holds.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Callable, Optional

import torch


@dataclasses.dataclass(frozen=True)
class Region:
    """Elements of a storage by position: those of a view with this offset, sizes and strides."""

    offset: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Step:
    """One step; `draw` tells random draws apart: equal ones give equal numbers."""

    op: str
    values: tuple[float, ...] = ()
    draw: Optional[int] = None
    region: Optional[Region] = None

    @property
    def gives(self) -> bool:
        """Whether the step gives values that do not depend on earlier steps."""
        return self.op in ("fill", "uniform", "normal")


Recipe = tuple[Step, ...]
# From the arguments behind the tensor, by name, to the steps; None: not an element's own business.
_Rule = Callable[[dict[str, Any]], Optional[list[Step]]]


def _step(op: str, *values: Any) -> Optional[list[Step]]:
    numbers = tuple(float(value) for value in values)
    # An integer that a double cannot hold is no such step.
    exact = all(number == value for number, value in zip(numbers, values))
    return [Step(op, numbers)] if exact and all(map(math.isfinite, numbers)) else None


def _add(sign: int) -> _Rule:
    def rule(a: dict[str, Any]) -> Optional[list[Step]]:
        return _number(a["other"], lambda v: _step("add", sign * v * a["alpha"]) if v else [])

    return rule


def _number(value: Any, then: Callable[[Any], Optional[list[Step]]]) -> Optional[list[Step]]:
    """`then` of a number, or of a tensor on the cpu that is one."""
    if isinstance(value, torch.Tensor):
        if value.dim() or value.device.type == "meta":
            return None
        value = value.item()
    return then(value) if isinstance(value, (bool, int, float)) else None


def _clamp(a: dict[str, Any]) -> Optional[list[Step]]:
    if a["min"] is None or a["max"] is None:
        return None
    return _step("clamp", a["min"], a["max"])


def _div(a: dict[str, Any]) -> Optional[list[Step]]:
    return _number(a["other"], lambda v: _step("multiply", 1 / v) if v else None)


# In place on a view, or giving a new tensor from one: the same names, but for the underscore.
_CHANGES: dict[str, _Rule] = {
    "fill.Scalar": lambda a: _number(a["value"], lambda v: _step("fill", v)),
    "fill.Tensor": lambda a: _number(a["value"], lambda v: _step("fill", v)),
    "zero": lambda a: _step("fill", 0),
    "uniform": lambda a: _step("uniform", a["from"], a["to"]),
    "normal": lambda a: _step("normal", a["mean"], a["std"]),
    "mul.Tensor": lambda a: _number(a["other"], lambda v: _step("multiply", v)),
    "mul.Scalar": lambda a: _number(a["other"], lambda v: _step("multiply", v)),
    "div.Tensor": _div,
    "div.Scalar": _div,
    "add.Tensor": _add(1),
    "add.Scalar": _add(1),
    "sub.Tensor": _add(-1),
    "sub.Scalar": _add(-1),
    "neg": lambda a: _step("multiply", -1),
    "clamp": _clamp,
    "erfinv": lambda a: _step("erfinv"),
    "clone": lambda a: [],
    "_to_copy": lambda a: [],
}

_FACTORIES: dict[str, _Rule] = {
    "zeros": lambda a: _step("fill", 0),
    "ones": lambda a: _step("fill", 1),
    "full": lambda a: _number(a["fill_value"], lambda v: _step("fill", v)),
    "scalar_tensor": lambda a: _number(a["s"], lambda v: _step("fill", v)),
    "rand": lambda a: _step("uniform", 0, 1),
    "randn": lambda a: _step("normal", 0, 1),
    "empty": lambda a: [],
    "empty_strided": lambda a: [],
}


def change(func: torch._ops.OpOverload, args: Any, kwargs: Any) -> Optional[list[Step]]:
    """The steps that `func` does to its first argument, in place or in a copy; None: it is none
    that changes each element by itself."""
    name = func._schema.name.removeprefix("aten::")
    overload = func._schema.overload_name
    key = name.removesuffix("_") if name.endswith("_") else name
    rule = _CHANGES.get(f"{key}.{overload}" if overload else key)
    return rule(_arguments(func, args, kwargs)) if rule else None


def creation(func: torch._ops.OpOverload, args: Any, kwargs: Any) -> Optional[list[Step]]:
    """The steps by which `func` makes a tensor of nothing; [] where it leaves it undefined."""
    name = func._schema.name.removeprefix("aten::").removeprefix("new_").removesuffix("_like")
    rule = _FACTORIES.get(name)
    return rule(_arguments(func, args, kwargs)) if rule else None


def _arguments(func: torch._ops.OpOverload, args: Any, kwargs: Any) -> dict[str, Any]:
    schema = func._schema.arguments
    values = {a.name: a.default_value for a in schema if a.has_default_value()}
    values.update(zip((a.name for a in schema), args))
    return {**values, **kwargs}


def extended(recipe: Recipe, steps: list[Step], region: Optional[Region], draw: int) -> Recipe:
    """`recipe` and then `steps`, for a region of the tensor or (None) all of it."""
    for step in steps:
        random = step.op in ("uniform", "normal")
        step = dataclasses.replace(step, draw=draw if random else None, region=region)
        if step.gives and region is None:
            recipe = ()  # what was there before is gone
        elif not recipe:
            recipe = (Step("fill", (0.0,)),)  # of an empty tensor: any number will do
        recipe += (step,)
    return recipe


def describe(recipe: Recipe, draws: dict[int, int]) -> list[dict[str, Any]]:
    """The recipe for fsdp.json; `draws` numbers the random draws from 0 on as they come."""
    return [
        {
            "op": step.op,
            "values": list(step.values),
            "draw": 0 if step.draw is None else draws.setdefault(step.draw, len(draws)),
            "region": step.region and dataclasses.asdict(step.region),
        }
        for step in recipe
    ]
