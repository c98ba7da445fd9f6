"""PyTorch's checkpoints as capture can follow them: the composable `checkpoint(module)`,
`checkpoint_sequential`, and those of a step that runs."""

from __future__ import annotations

import contextlib
import inspect
from collections import OrderedDict
from typing import Any, Callable, Iterator, Optional
from unittest import mock

import torch
from torch.distributed._composable import checkpoint_activation
from torch.fx import traceback as fx_traceback
from torch.overrides import TorchFunctionMode
from torch.utils import checkpoint as of_torch
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from ...errors import E, ExportError
from .checkpoint_reads import reads_noted, writes_into

_Hook = Callable[..., Any]
_GET_DATA = torch.Tensor.data.__get__


@contextlib.contextmanager
def forwards_in_checkpoints(model: torch.nn.Module) -> Iterator[None]:
    """The forward of each module that was given to `checkpoint` is in a `torch.utils.checkpoint`.

    PyTorch does the same by two hooks around the forward, which hold a generator between them; no
    capture follows that. The model is as it was when the block ends.
    """
    with contextlib.ExitStack() as stack:
        for module in model.modules():
            before = _take_hooks(module._forward_pre_hooks, stack)
            _take_hooks(module._forward_hooks, stack)
            if before:
                _enclose(module, inspect.getclosurevars(before[0]).nonlocals, stack)
        yield


def _take_hooks(hooks: OrderedDict[int, _Hook], stack: contextlib.ExitStack) -> list[_Hook]:
    """Takes those of the composable checkpoint out of `hooks`, until `stack` ends."""
    name = checkpoint_activation.__name__
    taken = {key: hook for key, hook in hooks.items() if getattr(hook, "__module__", "") == name}
    if taken:
        # In their order again.
        stack.callback(hooks.update, list(hooks.items()))
        stack.callback(hooks.clear)
    for key in taken:
        del hooks[key]
    return list(taken.values())


def _enclose(module: torch.nn.Module, options: dict[str, Any], stack: contextlib.ExitStack) -> None:
    forward = module.forward
    given = {"use_reentrant": False, "preserve_rng_state": options["preserve_rng_state"]}
    if options["user_context_fns"] is not None:
        given["context_fn"] = options["user_context_fns"]

    def enclosed(*args: Any, **kwargs: Any) -> Any:
        return checkpoint(forward, *args, **given, **kwargs)

    own = vars(module).get("forward")
    vars(module)["forward"] = enclosed
    restore = vars(module).pop if own is None else vars(module).__setitem__
    stack.callback(restore, "forward", own)


@torch.compiler.substitute_in_graph(checkpoint_sequential)
def _segments(
    functions: Any,
    segments: int,
    input: torch.Tensor,
    use_reentrant: Optional[bool] = None,
    **kwargs: Any,
) -> torch.Tensor:
    """What it does. Capture is kept out of it, though it follows the checkpoint of each segment."""
    layers = functions
    if isinstance(functions, torch.nn.Sequential):
        layers = list(functions.children())
    kwargs = {**kwargs, "use_reentrant": use_reentrant is None or use_reentrant}
    size = len(layers) // segments

    def run(begin: int, end: int) -> Callable[[torch.Tensor], torch.Tensor]:
        def forward(x: torch.Tensor) -> torch.Tensor:
            for layer in layers[begin:end]:
                x = layer(x)
            return x

        return forward

    begin = 0
    for _ in range(segments - 1):
        input = checkpoint(run(begin, begin + size), input, **kwargs)
        begin += size
    return run(begin, len(layers))(input)


@contextlib.contextmanager
def _saved_in_copies() -> Iterator[None]:
    """Within it, backward computes with copies of what operators save, while it is traced too.

    PyTorch's recomputation ends with the last value that an operator saves. So each copy is what its tensor
    holds by then, with all that the checkpoint has written into it until there.
    """
    set_tracing = torch._C._autograd._saved_tensors_hooks_set_tracing
    saved: list[_Saved] = []

    def save(tensor: torch.Tensor) -> _Saved:
        saved.append(_Saved(tensor))
        for each in saved:
            each.copy_again()
        return saved[-1]

    before = set_tracing(False)
    try:
        with torch.autograd.graph.saved_tensors_hooks(save, lambda each: each.copy):
            yield
    finally:
        set_tracing(before)
        for each in saved:
            each.tensor = None


class _Saved:
    """What an operator saves for its backward, and a copy of it."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor: Optional[torch.Tensor] = tensor  # while its checkpoint runs
        self._writes = -1

    def copy_again(self) -> None:
        """Copies it where it was written behind the last copy."""
        writes = writes_into(self.tensor)
        if writes != self._writes:
            self._writes, self.copy = writes, self.tensor.clone()


class MarkedCheckpoints(TorchFunctionMode):
    """What a step has of checkpoints.

    Attributes:
        marks: of each a number.
        data_read: whether the step reads `.data` of what it computes. Autograd does not see what is written
            there.
    """

    def __init__(self) -> None:
        super().__init__()
        self.marks: list[int] = []
        self.data_read = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.data_read |= func == _GET_DATA and not args[0].is_leaf
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def checkpoints_by_mark(copies_saved: bool) -> Iterator[MarkedCheckpoints]:
    """`torch.utils.checkpoint` leaves its mark on what runs in it, and import the rest; with copies of what
    its operators save for backward, or without."""

    def marked(function: Any, preserve: bool, context_fn: Any, *args: Any, **kwargs: Any) -> Any:
        if context_fn is not of_torch.noop_context_fn:
            raise ExportError(
                E.ACTIVATION_POLICY,
                "the step has a checkpoint with a policy, and Python that Dynamo cannot follow; "
                "leave one of them out",
            )
        meta = fx_traceback.current_meta
        outer = meta.get("ac_graph_id")
        meta["ac_graph_id"] = (
            outer if outer is not None else object.__hash__(meta) + len(found.marks)
        )
        found.marks.append(meta["ac_graph_id"])
        with _saved_in_copies() if copies_saved else contextlib.nullcontext(), reads_noted():
            yield
        fx_traceback.current_meta["ac_graph_id"] = outer

    def refuse(*args: Any) -> Any:
        raise ExportError(
            E.ACTIVATION_POLICY,
            "the step has a checkpoint with use_reentrant=True, and Python that Dynamo cannot "
            "follow; give use_reentrant=False",
        )

    found = MarkedCheckpoints()
    with (
        mock.patch.object(of_torch, "_checkpoint_without_reentrant_generator", marked),
        mock.patch.object(of_torch.CheckpointFunction, "apply", refuse),
        found,
    ):
        yield found
