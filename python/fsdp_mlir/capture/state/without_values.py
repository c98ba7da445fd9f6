"""Runs a step on tensors without values, for what it does to what it finds, and for what it raises."""

from __future__ import annotations

import contextlib
from typing import Any, Iterable, Iterator, Mapping, Optional

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.nn.utils import stateless

from ..graph.known_values import StandIns
from ..graph.of_buffers import OfBuffers
from ..values.value_checks import passed_checks

# Raised where an op's result, or its shape, depends on values.
ON_VALUES = (DataDependentOutputException, DynamicOutputShapeException)


def about_values(error: Exception) -> Exception:
    """What has been raised where a value or a size is not known, of which code makes `error` that catches
    it; `error` itself where there is nothing such."""
    behind: Optional[BaseException] = error
    while behind is not None:
        if isinstance(behind, (*ON_VALUES, GuardOnDataDependentSymNode)):
            return behind
        behind = behind.__cause__  # and not its context, which may be an earlier try
    return error


def raised_by_step(
    module: torch.nn.Module,
    inputs: Mapping[str, torch.Tensor],
    values: Any = None,
    settled: Iterable[torch.Tensor] = (),
) -> Optional[Exception]:
    """What the step itself raises when it runs, or None; it is run on tensors without values, but for
    those that are `settled`, or within `values`, a mode that has some for who asks.

    Capture wraps the user's exceptions beyond recognition, and notices a value that is read only
    where it is used. Running on tensors without values raises at the line that reads it.
    """
    try:
        mode, states, batch = without_values(module, inputs, StandIns(settled=settled))
    except Exception:
        return None
    try:
        asked = values or contextlib.nullcontext()
        of_buffers = OfBuffers({name: states[name] for name, _ in module.named_buffers()})
        with mode, enable_python_dispatcher(), passed_checks(), asked, of_buffers:
            called_with(module, states, batch)
    except NotImplementedError:
        return None  # an op that has no meta kernel
    except Exception as error:
        error = about_values(error)
        if isinstance(error, ON_VALUES) or "fake" not in str(error).lower():
            return _with_buffer(error, of_buffers)
    return None


def _with_buffer(error: Any, of_buffers: OfBuffers) -> Exception:
    """`error` with the name of the buffer whose value, or what is computed of it, the step asks for,
    if it is one's."""
    asked = of_buffers.asked.get(id(error))
    names = of_buffers.names(asked) if asked is not None else frozenset()
    if names:
        error.buffers = sorted(name.removeprefix("model.") for name in names)
        error.is_itself = of_buffers.is_buffer(asked)
    return error


def without_values(
    module: torch.nn.Module, inputs: Mapping[str, torch.Tensor], own: FakeTensorMode
) -> tuple[Any, dict[str, torch.Tensor], tuple[torch.Tensor, ...]]:
    """A mode of tensors without values, and in it the module's states by name and the batch. The mode
    is that of the tensors themselves, if these have none, or else `own`."""
    states = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    tensors = [*states.values(), *inputs.values()]
    mode = next((t.fake_mode for t in tensors if hasattr(t, "fake_mode")), own)
    fakes = {name: _fake(mode, tensor) for name, tensor in states.items()}
    return mode, fakes, tuple(_fake(mode, tensor) for tensor in inputs.values())


def called_with(
    module: torch.nn.Module, states: dict[str, torch.Tensor], batch: tuple[torch.Tensor, ...]
) -> Any:
    """What `module` gives where its states are `states`, which then has what the call puts in their
    places."""
    with having(module, states):
        return module(*batch)


@contextlib.contextmanager
def having(module: torch.nn.Module, states: dict[str, torch.Tensor]) -> Iterator[None]:
    """`module` with `states` in the places of its own, which then has what is put there. What
    `functional_call` does would leave them in a part that the module has under two names."""
    names = {id(t): n for n, t in (*module.named_parameters(), *module.named_buffers())}
    places: dict[str, torch.Tensor] = {}
    for path, part in module.named_modules():  # each once
        for key, tensor in (*part._parameters.items(), *part._buffers.items()):
            if tensor is not None and names[id(tensor)] in states:
                places[f"{path}.{key}".lstrip(".")] = states[names[id(tensor)]]
    try:
        with stateless._reparametrize_module(module, places):
            yield
    finally:
        states.update((name, places[name]) for name in states)


def _fake(mode: Any, tensor: torch.Tensor) -> torch.Tensor:
    return tensor if hasattr(tensor, "fake_mode") else mode.from_tensor(tensor)
