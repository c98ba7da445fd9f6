"""What the functions of a step reach in Python: attributes of the model's modules, variables around
the functions and their defaults, and the attributes of the objects, classes and modules that these are.
"""

from __future__ import annotations

import argparse
import collections
import collections.abc
import functools
import inspect
import sys
import threading
import types
from typing import Any, Union

import torch

from ...package import is_local
from .generators import GENERATORS
from .places import MISSING, Attributes, Held, Member, OwnTable, Place, Slots, is_filled, slots_of

_TABLES = ("_parameters", "_buffers", "_modules")
CONTAINERS = (list, dict, set, collections.deque)
Holder = Union[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]
# Of a container that is looked into; a longer one holds data.
_MOST_MEMBERS = 1000

# Classes of Python's whose objects have what others give them.
_NAMESPACES = (types.SimpleNamespace, argparse.Namespace, threading.local)


class Reached:
    """What a step's functions reach now.

    Attributes:
        places: of the values, each once.
        holders: the optimizers and schedulers.
        has_kept_defaults: whether a function has a container as the default of an argument.
        functions: the functions of a user's own.
        generators: of random numbers, with their names, wherever they are held.

    Args:
        loss: the module that is captured, with the model and its functions.
    """

    def __init__(self, loss: torch.nn.Module) -> None:
        self.places: list[Place] = []
        self.holders: list[Holder] = []
        self.has_kept_defaults = False
        self.functions: list[types.FunctionType] = []
        self.generators: list[tuple[str, Any]] = []
        self._seen: set[int] = set()  # objects, which all live as long as the step
        self._variables: set[tuple[int, Any]] = set()
        self._names: dict[int, frozenset[str]] = {}  # in the tables of modules, by their identity
        self._visit(loss.model, "model")
        functions = (*loss.loss_functions, *loss.metrics_functions, loss.outputs_function)
        for function in filter(None, functions):
            name = getattr(function, "__name__", "loss")
            self._visit(function, name)  # what it is wrapped in, if that is a user's own
            self._visit(inspect.unwrap(function), name, True)

    def has_table_of(self, place: Place) -> bool:
        """Whether what has the place, as an object its attributes, was reached."""
        if place.owner is not None:
            return id(place.owner) in self._seen
        return any(place.identity[0] == known.identity[0] for known in self.places)

    def lacked(self, place: Place) -> bool:
        """Whether nothing was there, at a place that was not reached then. Nobody knows it of a class, a
        function or a module that was not reached either."""
        if isinstance(place.table, Attributes):
            return id(place.holder) in self._seen
        if isinstance(place.table, OwnTable) or "__builtins__" not in place.table:  # of no module
            return True
        return place.key not in self._names.get(id(place.table), (place.key,))

    def _visit(self, value: Any, name: str, given: bool = False, placed: bool = False) -> None:
        """Looks into `value`, if it is a user's own, or `given` as a function of the step. It is
        `placed` where the caller has noted who has it."""
        if id(value) in self._seen or isinstance(value, torch.Tensor):
            return
        self._seen.add(id(value))
        if (generator := _generator_of(value)) is not None:
            self.generators.append((name, generator))
        elif isinstance(value, torch.nn.Module):
            self._visit_module(value, name)
        elif isinstance(value, Holder):
            self.holders.append(value)
        elif inspect.isfunction(value):
            if given or is_local(value.__code__.co_filename):
                self._visit_function(value)
        elif inspect.ismethod(value):
            self._visit(value.__self__, type(value.__self__).__name__)
            self._visit(value.__func__, name, given)
        elif isinstance(value, functools.partial):
            for part in (value.func, *value.args, *value.keywords.values()):
                self._visit(part, name, given)
        elif isinstance(value, CONTAINERS):
            if not placed:
                self.places.append(Place(name, Held(value), 0))
            if len(value) > _MOST_MEMBERS:
                return
            for key, member in value.items() if isinstance(value, dict) else enumerate(value):
                place = Member(f"{name}[{key!r}]", value, key)
                is_known = id(member) in self._seen
                # Where each run of the step may make another one, or another one is put.
                may_change = isinstance(value, dict) and isinstance(member, CONTAINERS)
                if isinstance(member, GENERATORS) or may_change and not is_known:
                    self._place(place)
                else:
                    self._visit(member, place.name)
        elif isinstance(value, tuple):
            for key, member in enumerate(value[:_MOST_MEMBERS]):
                self._visit(member, f"{name}[{key}]")
        elif inspect.isclass(value):
            if _is_own(value):
                self._visit_class(value)
        elif isinstance(value, _NAMESPACES) or _keeps_results(type(value)) or _own_classes(value):
            self._visit_attributes(value, name)

    def _visit_module(self, module: torch.nn.Module, name: str) -> None:
        for path, part in module.named_modules():
            self._seen.add(id(part))
            self._visit_attributes(part, ".".join(filter(None, (name, path))))

    def _visit_attributes(self, owner: Any, name: str) -> None:
        attributes = getattr(owner, "__dict__", {})
        for key in [key for key in attributes if key not in _TABLES]:
            default = getattr(type(owner), key, MISSING)
            self._place(Place(f"{name}.{key}", attributes, key, default, owner))
        for kind in _own_classes(owner):
            for key, slot in slots_of(kind).items():
                if is_filled(owner, slot):
                    self._place(Place(f"{name}.{key}", Slots(owner, kind), key))
            self._visit(kind, kind.__name__)

    def _visit_class(self, kind: type) -> None:
        for key, value in list(vars(kind).items()):
            if isinstance(value, property):
                value = value.fget
            elif isinstance(value, (staticmethod, classmethod)):
                value = value.__func__
            if inspect.isfunction(value):
                self._visit(value, value.__name__)
            elif not key.startswith("__") and _is_plain(value):
                self._place(Place(f"{kind.__name__}.{key}", Attributes(kind), key))

    def _visit_function(self, function: Any) -> None:
        self.functions.append(function)
        self._visit_variables(function)
        for key in vars(function):
            self._place(Place(f"{function.__name__}.{key}", vars(function), key))
        defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
        self.has_kept_defaults |= any(isinstance(default, CONTAINERS) for default in defaults)
        for default in defaults:
            self._visit(default, f"a default of {function.__name__}")

    def _visit_variables(self, function: Any) -> None:
        table = function.__globals__
        self._note_names(table)
        places = [Place(name, table, name) for name in function.__code__.co_names if name in table]
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
            self._seen.add(id(cell))
            if _is_assigned(cell):
                places.append(Place(name, Attributes(cell), "cell_contents"))
        for place in places:
            self._visit_variable(place)
            module = place.read()
            if isinstance(module, types.ModuleType) and is_local(_file(module)):
                self._note_names(vars(module))
                for key in function.__code__.co_names:
                    if key in vars(module):
                        self._visit_variable(Place(f"{place.name}.{key}", vars(module), key))

    def _note_names(self, table: dict[str, Any]) -> None:
        if id(table) not in self._names:
            self._names[id(table)] = frozenset(table)

    def _visit_variable(self, place: Place) -> None:
        value = place.read()
        if _is_plain(value) and place.identity not in self._variables:
            self._variables.add(place.identity)
            self.places.append(place)
        self._visit(value, place.name, placed=True)

    def _place(self, place: Place) -> None:
        self.places.append(place)
        self._visit(place.read(), place.name, placed=True)


def _is_assigned(cell: Any) -> bool:
    try:
        cell.cell_contents
    except ValueError:
        return False
    return True


def _is_plain(value: Any) -> bool:
    kinds = (
        bool,
        int,
        float,
        str,
        torch.Tensor,
        collections.abc.Iterator,
        *CONTAINERS,
        *GENERATORS,
    )
    return value is None or isinstance(value, kinds)


def _generator_of(value: Any) -> Any:
    """`value` where it is a generator, or what draws numbers from it; else None."""
    draws = inspect.isbuiltin(value) or inspect.ismethod(value)
    held = value.__self__ if draws else value
    return held if isinstance(held, GENERATORS) else None


def _own_classes(value: Any) -> list[type]:
    """The classes of `value` that are a user's own."""
    return [kind for kind in type(value).__mro__ if _is_own(kind)]


@functools.lru_cache(maxsize=1 << 12)
def _keeps_results(kind: type) -> bool:
    """Whether objects keep what they have once computed, whosever class it is."""
    members = (member for base in kind.__mro__ for member in vars(base).values())
    return any(isinstance(member, functools.cached_property) for member in members)


def _is_own(kind: type) -> bool:
    return is_local(_file(sys.modules.get(kind.__module__)))


def _file(module: Any) -> str:
    """The file of `module`; a notebook's code, and what is given to `python -c`, is the user's own."""
    is_main = getattr(module, "__name__", None) == "__main__"
    return getattr(module, "__file__", None) or ("__main__" if is_main else "<none>")
