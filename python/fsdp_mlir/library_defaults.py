"""What well-known libraries do by default that no graph can hold, and the choice that it can."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Iterator
from unittest import mock

import torch
from torch import fx

from .errors import note
from .explain import user_location


@contextlib.contextmanager
def unchecked_distributions() -> Iterator[None]:
    """Within it, `torch.distributions` do not look at the values that they are given."""
    from torch.distributions import Distribution

    with mock.patch.object(Distribution, "_validate_args", False):
        yield


def note_unchecked(graph: fx.Graph) -> None:
    """Says which checks of values `graph` has, which no plan does."""
    for node in graph.nodes:
        trace = node.meta.get("stack_trace") or ""
        what = ""
        if node.target in _ASSERTS:
            what = "asserts on values are left out of the exported step"
        elif _DISTRIBUTIONS in trace:
            what = "values given to torch.distributions are not checked in the exported step"
        if what:
            where = user_location(trace)
            note(f"{where}: {what}" if where else what)
            return


_ASSERTS = (torch.ops.aten._assert_async.msg, torch.ops.aten._assert_async.default)
_DISTRIBUTIONS = os.path.dirname(torch.distributions.__file__)


@contextlib.contextmanager
def static_experts(model: torch.nn.Module) -> Iterator[None]:
    """Within it, models of Hugging Face compute experts by batched matrix products, whose shapes
    do not depend on values. A note says so."""
    replaced = set()
    with contextlib.ExitStack() as stack:
        for module in filter(_are_experts, model.modules()):
            implementation = module.config._experts_implementation
            if implementation != "batched_mm":
                stack.enter_context(_changed(module.config, _EXPERTS, "batched_mm"))
                replaced.add(implementation)
        if replaced:
            note(
                f"experts are computed by experts_implementation=batched_mm, where the model has "
                f"{', '.join(sorted(replaced))}, whose shapes depend on values: the same products, "
                "added in another order, with the weights of each token's experts side by side"
            )
        yield


# Where a configuration keeps it; assigning the property would change configurations of parts too.
_EXPERTS = "_experts_implementation_internal"


def _are_experts(module: torch.nn.Module) -> bool:
    """Whether transformers gives the module a choice of implementations."""
    config = vars(module).get("config")
    return "_is_expert_parallel" in vars(module) and _EXPERTS in getattr(config, "__dict__", {})


@contextlib.contextmanager
def _changed(config: Any, name: str, value: Any) -> Iterator[None]:
    before = vars(config)[name]
    vars(config)[name] = value
    try:
        yield
    finally:
        vars(config)[name] = before
