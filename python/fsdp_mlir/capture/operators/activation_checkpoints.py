"""PyTorch's composable `checkpoint(module)` and `checkpoint_sequential`, as capture can follow them."""

from __future__ import annotations

import contextlib
import inspect
from collections import OrderedDict
from typing import Any, Callable, Iterator, Optional

import torch
from torch.distributed._composable import checkpoint_activation
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

_Hook = Callable[..., Any]


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
