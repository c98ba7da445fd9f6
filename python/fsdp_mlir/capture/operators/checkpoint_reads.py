"""Values that a checkpoint computes with and the step changes: PyTorch's backward computes the checkpoint
again, with what they hold by then; a plan's computes with what forward has read. A warning says so.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
from typing import Any, Iterable, Iterator, Optional
from unittest import mock

import torch
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.fx import traceback as fx_traceback
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from ...errors import warn
from ...step.memory import storage_of
from ...step.places import at_line, said_location
from ..values.python_floats import read_value

_TEXT = (
    "a checkpoint computes with what the step changes, in it or afterwards: PyTorch's backward "
    "computes the checkpoint again with what it is by then, and a plan's with what forward has read; "
    "give the checkpoint a copy that is made in front of it, or change it in front of it"
)
_OPERATOR = type(torch.ops.higher_order.tag_activation_checkpoint)
# Their statistics are updated, and in training nothing is computed with them.
_NORMS = ("batch_norm", "instance_norm")


@dataclasses.dataclass
class _Touched:
    """A tensor from outside of a checkpoint.

    Attributes:
        writes: into it, when the checkpoint first met it.
        line: of the first call that computed with it; None: there is none.
    """

    tensor: FunctionalTensor
    writes: int
    line: Optional[str] = None


class _Found:
    """What the runs of a capture found.

    Attributes:
        touched: by the checkpoints of the run that goes on.
        lines: that compute with what changes afterwards, of the others.
    """

    def __init__(self) -> None:
        self.touched: list[_Touched] = []
        self.lines: list[str] = []

    def end_run(self, replaced: Iterable[torch.Tensor] = ()) -> None:
        memory = _memory(list(replaced))
        for each in self.touched:
            is_written = writes_into(each.tensor) != each.writes
            if each.line is not None and (is_written or storage_of(each.tensor) in memory):
                self.lines.append(each.line)
        self.touched.clear()


_found: contextvars.ContextVar[_Found] = contextvars.ContextVar("reads of checkpoints")


@contextlib.contextmanager
def changed_reads_said() -> Iterator[None]:
    """Within it, steps are captured; a warning says of the first such value where it is read."""
    found = _Found()
    token = _found.set(found)

    def call(operator: Any, *args: Any, **kwargs: Any) -> Any:
        with reads_noted():
            return original(operator, *args, **kwargs)

    original = _OPERATOR.__call__
    try:
        with mock.patch.object(_OPERATOR, "__call__", call):
            yield
    finally:
        _found.reset(token)
    found.end_run()
    for line in found.lines[:1]:
        warn(at_line(line, _TEXT))


def writes_into(tensor: torch.Tensor) -> int:
    """How often the memory of a tensor was written while it is traced, by `.data` too."""
    if isinstance(tensor, FunctionalTensor):
        return torch._functionalize_mutation_counter(tensor.elem)
    return tensor._version


@contextlib.contextmanager
def reads_noted() -> Iterator[None]:
    """What runs within it is a checkpoint."""
    mode = _Reads()
    with mode:
        yield
    _found.get(_Found()).touched.extend(mode.touched.values())


def run_ended(replaced: Iterable[torch.Tensor]) -> None:
    """A run of the step has ended, and has put other tensors in the places of these."""
    _found.get(_Found()).end_run(replaced)


class _Reads(TorchFunctionMode):
    """Notes the tensors that calls within it compute with or write, but do not make themselves.

    Attributes:
        touched: these, by their memory.
    """

    def __init__(self) -> None:
        super().__init__()
        self.touched: dict[int, _Touched] = {}
        self._made: dict[int, torch.Tensor] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = _memory((args, kwargs))
        for memory, tensor in given.items():
            if memory not in self._made and memory not in self.touched:
                self.touched[memory] = _Touched(tensor, writes_into(tensor))
        results = func(*args, **kwargs)
        made = _memory(results)
        self._made.update((m, t) for m, t in made.items() if m not in given)
        written = _memory(_written(func, args, kwargs))
        for memory in given:
            each = self.touched.get(memory)
            is_view = made.keys() == {memory}
            if each is not None and each.line is None and memory not in written and not is_view:
                each.line = said_location(fx_traceback.current_meta.get("stack_trace") or "")
        return results


def _memory(values: Any) -> dict[int, torch.Tensor]:
    """The tensors among values, and those that hold numbers, by their memory, while they are traced."""
    leaves = map(read_value, pytree.tree_leaves(values))
    return {storage_of(leaf): leaf for leaf in leaves if isinstance(leaf, FunctionalTensor)}


def _written(func: Any, args: Any, kwargs: Any) -> Any:
    """The operands that a call writes and computes nothing else with."""
    name = getattr(func, "__name__", "")
    if name in _NORMS:
        return args[1:5], kwargs  # beside weight and bias, which have two orders
    is_method = name.endswith("_") and not name.endswith("__")
    is_operator = name.startswith("__i") and hasattr(torch.Tensor, f"__{name[3:]}")  # `+=`
    if is_method or is_operator or name == "__setitem__":
        return args[:1]
    return kwargs.get("out")
