"""Calls of fully_shard as data, so that FSDP2 and this project are given the same."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Iterable


@dataclasses.dataclass(frozen=True)
class Call:
    """One call of fully_shard: on a module, or on a list of several. `ignored`
    are names of parameters."""

    paths: tuple[str, ...]
    reshard: bool | None = None
    ignored: tuple[str, ...] = ()


def apply_calls(fully_shard: Callable, model: Any, calls: Iterable[Call], **common: Any) -> None:
    """Makes the calls on a model, in their order."""
    for call in calls:
        modules = [model.get_submodule(path) for path in call.paths]
        options = dict(common)
        if call.reshard is not None:
            options["reshard_after_forward"] = call.reshard
        if call.ignored:
            options["ignored_params"] = {model.get_parameter(name) for name in call.ignored}
        fully_shard(modules if len(modules) > 1 else modules[0], **options)
