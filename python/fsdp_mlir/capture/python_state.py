"""The Python state that a step changes when it runs: of the model's modules, and of what its
functions refer to."""

from __future__ import annotations

import inspect
from typing import Any, Iterator

import torch

from ..errors import warn
from .known_values import known_value

_TABLES = ("_parameters", "_buffers", "_modules")
_CONTAINERS = (list, dict, set)


class PythonState:
    """What can be seen of that state now, to be compared and put back.

    Args:
        loss: the module that is captured, with the model and its functions.
    """

    def __init__(self, loss: torch.nn.Module) -> None:
        self._loss = loss
        self._values = {name: (table, key, table[key]) for name, table, key in self._places()}
        self._contents = {
            name: (value, _copied(value))
            for name, (_, _, value) in self._values.items()
            if isinstance(value, _CONTAINERS)
        }
        self._buffers = {
            path: (module._buffers, dict(module._buffers))
            for path, module in loss.model.named_modules()
            if not isinstance(module, torch.jit.ScriptModule)  # whose buffers are none of Python's
        }

    def _places(self) -> Iterator[tuple[str, dict[str, Any], str]]:
        for path, module in self._loss.model.named_modules():
            for key in vars(module):
                if key not in _TABLES:
                    yield ".".join(filter(None, ("model", path, key))), vars(module), key
        loss = self._loss
        functions = (*loss.loss_functions, *loss.metrics_functions, loss.outputs_function)
        for function in functions:
            for name, table, key in _referred(function):
                yield name, table, key

    def changed(self) -> list[str]:
        """Names of what is another value, or holds other values, than before."""
        now = {name: table[key] for name, table, key in self._places()}
        changed = [name for name in now if name not in self._values]
        for name, (_, _, value) in self._values.items():
            if name not in now or not _same(now[name], value):
                changed.append(name)
            elif name in self._contents and not _same_contents(*self._contents[name]):
                changed.append(name)
        for path, (table, before) in self._buffers.items():
            new = (key for key in table if table[key] is not None and before.get(key) is None)
            changed += [".".join(filter(None, ("model", path, key))) for key in new]
        return changed

    def restore(self) -> None:
        """Puts everything back to what it was."""
        for name, table, key in list(self._places()):
            if name not in self._values:
                del table[key]
        for table, key, value in self._values.values():
            table[key] = value
        for table, before in self._buffers.values():
            table.clear()
            table.update(before)
        for value, contents in self._contents.values():
            if not _same_contents(value, contents):
                value.clear()
                (value.extend if isinstance(value, list) else value.update)(contents)

    def keep_known(self) -> None:
        """Gives tensors that a capture has left their values, where these are the code's own."""
        for _, table, key in list(self._places()):
            value = known_value(table[key])
            if value is not None:
                table[key] = value


def warn_changed(names: list[str]) -> None:
    """Warns that the step changes Python state, which the exported one does not."""
    if names:
        warn(
            f"the step changes Python state of {', '.join(names)}, and the exported step keeps "
            "the value of now; what must change from step to step is a buffer changed in place"
        )


class _Cell(dict):
    """A variable of an enclosing function, as a table of one value."""

    def __init__(self, cell: Any) -> None:
        self._cell = cell

    def __getitem__(self, key: str) -> Any:
        return self._cell.cell_contents

    def __setitem__(self, key: str, value: Any) -> None:
        self._cell.cell_contents = value


def _referred(function: Any) -> Iterator[tuple[str, dict[str, Any], str]]:
    function = inspect.unwrap(function) if callable(function) else None
    if not inspect.isfunction(function):
        return
    for name in function.__code__.co_names:
        if _is_plain(function.__globals__.get(name, len)):
            yield name, function.__globals__, name
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            plain = _is_plain(cell.cell_contents)
        except ValueError:  # not assigned yet
            continue
        if plain:
            yield name, _Cell(cell), name


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str, torch.Tensor, *_CONTAINERS))


def _copied(value: Any) -> Any:
    return dict(value) if isinstance(value, dict) else type(value)(value)


def _same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    return type(one) is type(other) and isinstance(one, (bool, int, float, str)) and one == other


def _same_contents(one: Any, other: Any) -> bool:
    if len(one) != len(other):
        return False
    if isinstance(one, dict):
        return all(key in other and _same(value, other[key]) for key, value in one.items())
    if isinstance(one, set):
        return one == other
    return all(map(_same, one, other))
