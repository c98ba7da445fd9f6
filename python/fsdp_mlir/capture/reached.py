"""What the functions of a step reach in Python: attributes of the model's modules, variables around
the functions, and the attributes of objects that these hold."""

from __future__ import annotations

import collections
import collections.abc
import dataclasses
import functools
import inspect
import sys
from typing import Any, Union

import torch

from ..package import is_local

_TABLES = ("_parameters", "_buffers", "_modules")
CONTAINERS = (list, dict, set, collections.deque)
Holder = Union[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]
# Of a container that is looked into; a longer one holds data.
_MOST_MEMBERS = 1000

_MISSING = object()


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a value stands: `table[key]`.

    Attributes:
        name: what a user calls it.
        default: what is read where the table has no such key: a class's attribute.
    """

    name: str
    table: Any
    key: Any
    default: Any = _MISSING

    @property
    def identity(self) -> tuple[int, Any]:
        """Equal for places that are one."""
        return id(getattr(self.table, "cell", self.table)), self.key

    @property
    def is_set(self) -> bool:
        """Whether the table itself has the value."""
        return self.key in self.table

    def read(self) -> Any:
        """The value; what is not there has a value of its own, which nothing else is."""
        return self.table[self.key] if self.is_set else self.default

    def put(self, value: Any, is_set: bool = True) -> None:
        """Puts a value there, or, unless `is_set`, takes it away."""
        if is_set:
            self.table[self.key] = value
        else:
            self.table.pop(self.key, None)


class Member(Place):
    """A member that a list or dict has, and keeps."""

    is_set = True  # type: ignore[assignment]

    def put(self, value: Any, is_set: bool = True) -> None:
        self.table[self.key] = value


class _Variable(dict):
    """A variable of an enclosing function, as a table of one value."""

    def __init__(self, cell: Any) -> None:
        self.cell = cell

    def __contains__(self, key: object) -> bool:
        return True

    def __getitem__(self, key: str) -> Any:
        return self.cell.cell_contents

    def __setitem__(self, key: str, value: Any) -> None:
        self.cell.cell_contents = value


class Reached:
    """What a step's functions reach now.

    Attributes:
        places: of the values, each once.
        holders: the optimizers and schedulers.

    Args:
        loss: the module that is captured, with the model and its functions.
    """

    def __init__(self, loss: torch.nn.Module) -> None:
        self.places: list[Place] = []
        self.holders: list[Holder] = []
        self._seen: set[int] = set()  # objects, which all live as long as the step
        self._variables: set[tuple[int, Any]] = set()
        self._visit(loss.model, "model")
        functions = (*loss.loss_functions, *loss.metrics_functions, loss.outputs_function)
        for function in filter(None, functions):
            self._visit(inspect.unwrap(function), getattr(function, "__name__", "loss"), True)

    def _visit(self, value: Any, name: str, given: bool = False) -> None:
        """Looks into `value`, if it is a user's own, or `given` as a function of the step."""
        if id(value) in self._seen or isinstance(value, torch.Tensor):
            return
        self._seen.add(id(value))
        if isinstance(value, torch.nn.Module):
            self._visit_module(value, name)
        elif isinstance(value, Holder):
            self.holders.append(value)
        elif inspect.isfunction(value):
            if given or is_local(value.__code__.co_filename):
                self._visit_variables(value)
        elif inspect.ismethod(value):
            self._visit(value.__self__, type(value.__self__).__name__)
            self._visit(value.__func__, name, given)
        elif isinstance(value, functools.partial):
            for part in (value.func, *value.args, *value.keywords.values()):
                self._visit(part, name, given)
        elif isinstance(value, CONTAINERS):
            if len(value) > _MOST_MEMBERS:
                return
            for member in value.values() if isinstance(value, dict) else value:
                self._visit(member, name)
        elif not inspect.isclass(value) and hasattr(value, "__dict__") and _own_classes(value):
            self._visit_attributes(value, name)

    def _visit_module(self, module: torch.nn.Module, name: str) -> None:
        for path, part in module.named_modules():
            self._seen.add(id(part))
            self._visit_attributes(part, ".".join(filter(None, (name, path))))

    def _visit_attributes(self, owner: Any, name: str) -> None:
        attributes = vars(owner)
        for key in [key for key in attributes if key not in _TABLES]:
            place = Place(f"{name}.{key}", attributes, key, getattr(type(owner), key, _MISSING))
            self.places.append(place)
            self._visit(attributes[key], place.name)

        for function in (f for kind in _own_classes(owner) for f in vars(kind).values()):
            if inspect.isfunction(function):
                self._visit(function, function.__name__)

    def _visit_variables(self, function: Any) -> None:
        names = (n for n in function.__code__.co_names if n in function.__globals__)
        tables = [(name, function.__globals__) for name in names]
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
            if _is_assigned(cell):
                tables.append((name, _Variable(cell)))
        for name, table in tables:
            place = Place(name, table, name)
            if _is_plain(table[name]) and place.identity not in self._variables:
                self._variables.add(place.identity)
                self.places.append(place)
            self._visit(table[name], name)


def _is_assigned(cell: Any) -> bool:
    try:
        cell.cell_contents
    except ValueError:
        return False
    return True


def _is_plain(value: Any) -> bool:
    kinds = (bool, int, float, str, torch.Tensor, collections.abc.Iterator, *CONTAINERS)
    return value is None or isinstance(value, kinds)


def _own_classes(value: Any) -> list[type]:
    """The classes of `value` that are a user's own."""
    modules = [(kind, sys.modules.get(kind.__module__)) for kind in type(value).__mro__]
    return [kind for kind, m in modules if is_local(getattr(m, "__file__", None) or "<none>")]
