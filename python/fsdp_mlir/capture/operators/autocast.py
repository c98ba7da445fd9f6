"""`torch.autocast`, whose casts are captured as those of the CPU: a step is captured there, for every
device. One of another device would cast nothing, without a word."""

from __future__ import annotations

import contextlib
import functools
import sys
from typing import Any, Iterator
from unittest import mock

import torch
from torch import fx
from torch.amp import autocast_mode

from ...errors import E, ExportError
from ..graph.nodes import refusal

_REMEDY = (
    "the step computes under torch.autocast({!r}), which casts nothing where a step is captured, on "
    'the CPU; write torch.autocast("cpu", ...), whose casts a plan has on every device, or give '
    "fully_shard a MixedPrecisionPolicy"
)


@contextlib.contextmanager
def autocast_of_the_cpu() -> Iterator[None]:
    """Within it, code that runs raises ExportError where it enters an autocast of another device."""
    begin, enter = torch.autocast.__init__, torch.autocast.__enter__

    @functools.wraps(begin)
    def __init__(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        begin(self, device_type, *args, **kwargs)
        enabled = kwargs.get("enabled", args[1] if len(args) > 1 else True)
        _check(device_type, enabled)  # where there is no such device, `self` is not enabled

    @functools.wraps(enter)
    def __enter__(self: Any) -> Any:
        _check(self.device, self._enabled)
        return enter(self)

    with (
        mock.patch.object(torch.autocast, "__init__", __init__),
        mock.patch.object(torch.autocast, "__enter__", __enter__),
    ):
        yield


def _check(device: str, enabled: bool) -> None:
    # Dynamo enters it too; `check_autocast` has the line of its call.
    is_dynamos = sys._getframe(2).f_code is autocast_mode._enter_autocast.__code__
    if enabled and device != "cpu" and not is_dynamos:
        raise ExportError(E.NOT_SUPPORTED, _REMEDY.format(device))


def check_autocast(forward: fx.GraphModule) -> None:
    """Raises ExportError where a graph of Dynamo's enters an autocast of another device."""
    for module in forward.modules():
        calls = getattr(module, "graph", fx.Graph()).find_nodes(
            op="call_function", target=autocast_mode._enter_autocast
        )
        for node in calls:
            device, _, enabled, *_ = node.args
            if enabled and device != "cpu":
                while not node.meta.get("stack_trace") and node.op != "output":
                    node = node.next  # its first call: Dynamo does not say where it is entered
                raise refusal(E.NOT_SUPPORTED, node, _REMEDY.format(device))
