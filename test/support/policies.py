"""Calls of fully_shard as data, so that FSDP2 and this project are given the same."""

from __future__ import annotations

import dataclasses
from typing import Any, Iterable, Mapping


@dataclasses.dataclass(frozen=True)
class Call:
    """One call of fully_shard: on a module, or on a list of several. `ignored`
    are names of parameters, `precision` the fields of its mp_policy."""

    paths: tuple[str, ...]
    reshard: bool | int | None = None
    ignored: tuple[str, ...] = ()
    precision: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    offload: bool = False
    placement: str | None = None  # "largest": each parameter on its largest dimension
    divisor: float | None = None  # of its gradients' sums
    # Paths of modules that are gathered ahead.
    prefetch_forward: tuple[str, ...] = ()
    prefetch_backward: tuple[str, ...] = ()


def largest_dimension(parameter: Any) -> Any:
    from torch.distributed.tensor import Shard

    return Shard(max(range(parameter.dim()), key=lambda dim: parameter.shape[dim]))


def apply_calls(api: Any, model: Any, calls: Iterable[Call], mesh: Any) -> None:
    """Makes the calls on a model, in their order; `api` is the module whose
    fully_shard it is: torch.distributed.fsdp or fsdp_mlir."""
    calls = tuple(calls)
    for call in calls:
        modules = [model.get_submodule(path) for path in call.paths]
        options: dict[str, Any] = {"mesh": mesh}
        if call.reshard is not None:
            options["reshard_after_forward"] = call.reshard
        if call.ignored:
            options["ignored_params"] = {model.get_parameter(name) for name in call.ignored}
        if call.precision:
            options["mp_policy"] = api.MixedPrecisionPolicy(**call.precision)
        if call.offload:  # CPU ranks have no CUDA to pin memory with
            options["offload_policy"] = api.CPUOffloadPolicy(pin_memory=False)
        if call.placement == "largest":
            options["shard_placement_fn"] = largest_dimension
        api.fully_shard(modules if len(modules) > 1 else modules[0], **options)
    for call in calls:
        for path in call.paths:
            set_up(model.get_submodule(path), model, call)


def set_up(module: Any, model: Any, call: Call) -> None:
    """What methods of the module say."""
    if call.divisor is not None:
        module.set_gradient_divide_factor(call.divisor)
        # Gloo has no division of its own.
        module.set_force_sum_reduction_for_comms(True)
    lists = (
        (module.set_modules_to_forward_prefetch, call.prefetch_forward),
        (module.set_modules_to_backward_prefetch, call.prefetch_backward),
    )
    for set_modules, paths in lists:
        if paths:
            set_modules([model.get_submodule(path) for path in paths])
