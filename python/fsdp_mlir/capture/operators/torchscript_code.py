"""Functions and modules of `torch.jit`, captured as what their code says: TorchScript's executor fuses
and differentiates by itself what it has run before."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator
from unittest import mock

import torch


@contextlib.contextmanager
def plain_torchscript(model: torch.nn.Module) -> Iterator[None]:
    """Within it, the scripted modules of `model`, and scripted functions, call one operator after
    the other, and autograd sees each of them."""
    original = torch.jit.ScriptFunction.__call__

    def call(function: Any, *args: Any, **kwargs: Any) -> Any:
        # Dynamo takes what it was made of, too.
        python = getattr(function, "_torchdynamo_inline", None)
        if python is not None:
            return python(*args, **kwargs)
        function._debug_flush_compilation_cache()
        return original(function, *args, **kwargs)

    for module in model.modules():
        if isinstance(module, torch.jit.ScriptModule):
            for name in module._c._method_names():
                module._c._get_method(name)._debug_flush_compilation_cache()
    with (
        mock.patch.object(torch.jit.ScriptFunction, "__call__", call),
        torch.jit.optimized_execution(False),
    ):
        yield
