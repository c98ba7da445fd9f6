"""Tensors of a script's model that tell when the script uses them, while a run trains values of its
own."""

from __future__ import annotations

import weakref
from typing import Any, Callable, Iterable, Optional

import torch
from torch.utils import _pytree as pytree

# What gives a tensor's values as something else than a tensor.
_NUMBERS = frozenset(
    "item tolist numpy __array__ __bool__ __float__ __int__ __index__ __complex__ __format__ "
    "__contains__ __dlpack__ equal allclose is_nonzero".split()
)


class HeldTensors:
    """Tensors, each of which is told of when code reads its values, or its gradient that is not
    there. What reads a shape or another fact of it, or writes it whole, is not told of.

    A tensor is held by its class, which PyTorch asks before each operation. It is a plain one again
    from when its values are read or written, until the next `hold`.

    Args:
        tensors: parameters and plain tensors are held, and others are not. None is kept alive.
        on_values: called with those that code reads, just before they are plain again.
        on_gradient: called with one whose gradient code has read, and that has none.
    """

    def __init__(
        self,
        tensors: Iterable[torch.Tensor],
        on_values: Callable[[list[torch.Tensor]], None],
        on_gradient: Callable[[torch.Tensor], None],
    ) -> None:
        self.on_values, self.on_gradient = on_values, on_gradient
        self.all_are_held = False
        self._tensors: dict[int, weakref.ref[torch.Tensor]] = {}
        for tensor in tensors:
            self.add(tensor)
        self._types = {base: _held_type(base, self) for base in (torch.Tensor, torch.nn.Parameter)}

    def add(self, tensor: torch.Tensor) -> None:
        """Holds this one too, from the next `hold` on."""
        known = self._tensors.get(id(tensor))
        if _plain_type(tensor) and (known is None or known() is not tensor):
            self._tensors[id(tensor)] = weakref.ref(tensor)
            self.all_are_held = False

    def hold(self) -> None:
        """Holds those that are not held. It costs nothing where none was released."""
        if self.all_are_held:
            return
        self.all_are_held = True
        for reference in self._tensors.values():
            if (tensor := reference()) is None:
                continue
            base = _plain_type(tensor)
            if base is not None and type(tensor) is not self._types[base]:
                tensor.__class__ = self._types[base]


def release(tensors: Iterable[torch.Tensor]) -> None:
    """Makes plain tensors of those that are held."""
    for tensor in tensors:
        if _is_held(tensor):
            type(tensor).holder.all_are_held = False
            tensor.__class__ = type(tensor).plain


def release_model(model: torch.nn.Module) -> None:
    release([*model.parameters(), *model.buffers()])


def version_of(state: torch.Tensor) -> int:
    """How often a tensor was written to; 0 for one of inference mode, which does not count."""
    return 0 if state.is_inference() else state._version


def _is_held(value: Any) -> bool:
    return hasattr(type(value), "holder")


def _plain_type(tensor: torch.Tensor) -> Optional[type]:
    """The class that a tensor has, or had before it was held, if that can be held; else None."""
    base = getattr(type(tensor), "plain", type(tensor))
    return base if base in (torch.Tensor, torch.nn.Parameter) else None


def _held_type(base: type, holder: HeldTensors) -> type:
    @classmethod
    @torch.compiler.disable(reason="run.copy_to(model) has not given the model a run's values")
    def torch_function(cls: type, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            held = [value for value in pytree.tree_leaves((args, kwargs)) if _is_held(value)]
            versions = [version_of(tensor) for tensor in held]
            result = func(*args, **(kwargs or {}))
            if _attribute(func, "__get__") == "grad":
                if result is None:
                    holder.on_gradient(held[0])
                return result
            if _attribute(func, "__set__") == "data" and args[1] is not args[0]:
                torch.autograd.graph.increment_version(held[0])  # which PyTorch does not count
            written = [t for t, version in zip(held, versions) if version_of(t) != version]
            release(written)
            read = [t for t in held if t is not result and not any(t is w for w in written)]
            if read and _has_values(func, result):
                _tell(holder, read)
        return result

    def plainly(name: str) -> Callable[..., Any]:
        """A method that makes another tensor of this one, which is then a plain one too."""

        def method(self: torch.Tensor, *args: Any) -> Any:
            with torch._C.DisableTorchFunctionSubclass():
                _tell(holder, [self])
            return getattr(self, name)(*args)

        return method

    members = {
        "__torch_function__": torch_function,
        "__deepcopy__": plainly("__deepcopy__"),
        "__reduce_ex__": plainly("__reduce_ex__"),
        "holder": holder,
        "plain": base,
    }
    return type(base)(base.__name__, (base,), members)


def _tell(holder: HeldTensors, held: list[torch.Tensor]) -> None:
    release(held)
    holder.on_values(held)


def _attribute(func: Any, method: str) -> str:
    """The attribute that `func` gets or sets, as the method says, or "" of another function."""
    return func.__self__.__name__ if getattr(func, "__name__", "") == method else ""


def _has_values(func: Any, result: Any) -> bool:
    """Whether `result` has values of the tensors that `func` was called with."""
    if getattr(func, "__name__", "") in _NUMBERS:
        return True
    return any(isinstance(part, torch.Tensor) for part in pytree.tree_leaves(result))
