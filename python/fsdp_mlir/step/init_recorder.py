"""Records how tensors on `meta` would get their values, while a model is built."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any, Callable, Iterator, Optional

import torch
from torch._prims_common import is_non_overlapping_and_dense_or_false
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from . import recipes
from .recipes import Recipe, Region


@dataclasses.dataclass(frozen=True)
class _View:
    """A tensor on meta: which storage's, and which elements of it."""

    storage: int
    dtype: torch.dtype
    region: Region


@dataclasses.dataclass
class _Call:
    """A call that gave values to storages: to those it created, and to those it changed."""

    function: Callable[..., Any]
    args: Any
    kwargs: dict[str, Any]
    results: list[Optional[_View]]
    created: set[int]
    changed: set[int]
    read: set[int]


class InitRecorder:
    """What happened to tensors on `meta`, by storage.

    A storage has a recipe as long as each of its elements went its own way; in any case the calls
    that wrote it are known, and can be made again on the cpu.
    """

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._bytes: dict[int, int] = {}
        self._kept: list[torch.UntypedStorage] = []  # else an identity might be used again
        self._recipes: dict[int, Optional[Recipe]] = {}
        self._defined: set[int] = set()

    def recipe(self, tensor: torch.Tensor) -> Optional[Recipe]:
        """The recipe of a whole tensor, or None: its values have to be computed."""
        return self._recipes.get(self._view(tensor).storage) if _is_all(tensor) else None

    def is_defined(self, tensor: torch.Tensor) -> bool:
        """Whether anything gave the tensor values."""
        return self._view(tensor).storage in self._defined

    def compute(self, tensor: torch.Tensor, seed: int) -> torch.Tensor:
        """The values of a tensor on meta, on the cpu, by making the recorded calls again.

        Random ones draw what `seed` and their place among the calls say. What nothing wrote is 0.
        """
        target = self._view(tensor)
        needed = {target.storage}
        again: list[tuple[int, _Call]] = []
        for index in reversed(range(len(self._calls))):
            call = self._calls[index]
            if needed & (call.created | call.changed):
                again.append((index, call))
                needed |= call.read | call.changed
        memory = {key: torch.zeros(self._bytes[key], dtype=torch.uint8) for key in needed}

        def real(view: _View) -> torch.Tensor:
            whole = memory[view.storage].view(view.dtype)
            return whole.as_strided(view.region.sizes, view.region.strides, view.region.offset)

        def argument(value: Any) -> Any:
            if isinstance(value, _View):
                return real(value)
            return torch.device("cpu") if isinstance(value, torch.device) else value

        with torch.random.fork_rng(devices=[]), torch.no_grad():
            for index, call in reversed(again):
                torch.manual_seed(hash((seed, index)) & (2**63 - 1))
                args, kwargs = tree_map(argument, (call.args, call.kwargs))
                made = [t for t in tree_leaves(call.function(*args, **kwargs)) if _is_tensor(t)]
                for view, value in zip(call.results, made):
                    if view is not None and view.storage in call.created & needed:
                        real(view).copy_(value)
        return real(target)

    def record(self, function: Callable[..., Any], args: Any, kwargs: Any, result: Any) -> None:
        """Notes a call that was made with tensors on meta, or gave them."""
        if torch.Tag.inplace_view in getattr(function, "tags", ()):
            return  # t_() and the like: how the tensor looks, not what it holds
        read = {self._view(t).storage for t in tree_leaves((args, kwargs)) if _on_meta(t)}
        results = [t for t in tree_leaves(result) if _is_tensor(t)]
        views = [self._view(t) if _on_meta(t) else None for t in results]
        created = {view.storage for view in views if view is not None} - read
        changed = {self._view(t).storage for t in _written(function, args, kwargs)}
        if not created and not changed:
            return
        recipe, defined = None, True
        if isinstance(function, torch._ops.OpOverload) and len(created | changed) == 1:
            if created:
                recipe, defined = self._recipe_of_new(function, args, kwargs, results[0])
            elif _on_meta(args[0]) and self._view(args[0]).storage in changed:  # not by out=
                recipe = self._recipe_of_changed(function, args, kwargs)
        for storage in created | changed:
            self._recipes[storage] = recipe
            if defined:
                self._defined.add(storage)
        args, kwargs = tree_map(lambda v: self._view(v) if _on_meta(v) else v, (args, kwargs))
        self._calls.append(_Call(function, args, kwargs, views, created, changed, read))

    def _recipe_of_new(
        self, function: torch._ops.OpOverload, args: Any, kwargs: Any, result: torch.Tensor
    ) -> tuple[Optional[Recipe], bool]:
        """The recipe of a tensor that a call made, and whether the call gave it values."""
        steps = recipes.creation(function, args, kwargs)
        if steps is not None:
            return recipes.extended((), steps, None, len(self._calls)), bool(steps)
        first = args[0] if args else None
        # A copy, element by element: not a transposed or an expanded one.
        if _on_meta(first) and result.stride() == first.stride():
            source, steps = self.recipe(first), recipes.change(function, args, kwargs)
            if source and steps is not None:
                return recipes.extended(source, steps, None, len(self._calls)), True
        return None, True

    def _recipe_of_changed(
        self, function: torch._ops.OpOverload, args: Any, kwargs: Any
    ) -> Optional[Recipe]:
        """The recipe of the first argument's storage behind a call that changed it in place."""
        first = args[0]
        before = self._recipes.get(self._view(first).storage)
        region = None if _is_all(first) else self._view(first).region
        steps = recipes.change(function, args, kwargs)
        if function is torch.ops.aten.copy_.default and _on_meta(args[1]):
            source = self._recipes.get(self._view(args[1]).storage)
            if source and len(source) == 1 and source[0].op == "fill":
                steps = [source[0]]  # as is each part of it, also where it is repeated
            elif source and region is None and _is_all(args[1]):
                return source if args[1].stride() == first.stride() else None
        renewed = bool(steps) and region is None and steps[0].gives
        if steps is None or (before is None and not renewed):
            return None
        return recipes.extended(before or (), steps, region, len(self._calls))

    def _view(self, tensor: torch.Tensor) -> _View:
        storage = tensor.untyped_storage()
        if storage._cdata not in self._bytes:
            self._kept.append(storage)
            self._bytes[storage._cdata] = storage.nbytes()
        region = Region(tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride()))
        return _View(storage._cdata, tensor.dtype, region)


class _Calls(TorchDispatchMode):
    """Hands the recorder the operators that are called with tensors on meta."""

    def __init__(self, recorder: InitRecorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if any(map(_on_meta, tree_leaves((args, kwargs, result)))):
            self.recorder.record(func, args, kwargs, result)
        return result


class _Functions(TorchFunctionMode):
    """What operators do not show: `torch.tensor(numbers)`, in which none is called on meta, and
    the device of `to_empty`, where each rank will have its part."""

    def __init__(self, recorder: InitRecorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.empty_like and _on_meta(args[0]):
            kwargs = {**kwargs, "device": torch.device("meta")}
        result = func(*args, **kwargs)
        if func is torch.tensor and _on_meta(result):
            self.recorder.record(func, args, {**kwargs, "device": torch.device("cpu")}, result)
        return result


_active: list[InitRecorder] = []


@contextlib.contextmanager
def record_init() -> Iterator[InitRecorder]:
    """Records, for a model that is built on `meta` in the `with` block, how it is initialised.

    A step file runs in such a block. Whoever calls `export_step` builds the model and its
    `TrainingStep` in one. What works on `meta` tensors there (constructors, `reset_parameters`,
    `apply(fn)`, `torch.nn.init`, in-place operators) takes no memory, and `to_empty` leaves them
    on `meta`. Other tensors are not touched.
    """
    recorder = InitRecorder()
    _active.append(recorder)
    try:
        with _Functions(recorder), _Calls(recorder):
            yield recorder
    finally:
        _active.pop()


def active_recorder() -> Optional[InitRecorder]:
    """The recorder of the innermost `record_init` around the caller."""
    return _active[-1] if _active else None


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _on_meta(value: Any) -> bool:
    return _is_tensor(value) and value.device.type == "meta" and not isinstance(value, FakeTensor)


def _is_all(tensor: torch.Tensor) -> bool:
    """Whether the tensor is each element of its storage once."""
    size = tensor.numel() * tensor.element_size()
    dense = is_non_overlapping_and_dense_or_false(tensor)
    return dense and size == tensor.untyped_storage().nbytes()


def _written(function: Any, args: Any, kwargs: dict[str, Any]) -> Iterator[torch.Tensor]:
    """The tensors on meta that a call changes in place."""
    schema = getattr(function, "_schema", None)
    for i, declared in enumerate(schema.arguments if schema else ()):
        if declared.alias_info is not None and declared.alias_info.is_write:
            given = args[i] if i < len(args) else kwargs.get(declared.name)
            yield from filter(_on_meta, tree_leaves(given))
