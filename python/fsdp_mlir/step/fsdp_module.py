"""What `fully_shard` makes of a module: FSDP2's setters, which are recorded, accepted or refused."""

from __future__ import annotations

import math
import warnings
from typing import Any, NoReturn, Sequence

from torch import nn

from ..errors import E, ExportError
from .arguments import require
from .unit import Unit, unit_of


def original_class(module: nn.Module) -> type[nn.Module]:
    """The class of a module as its author wrote it."""
    cls = type(module)
    return cls.__mro__[2] if issubclass(cls, FSDPModule) else cls


_classes: dict[type, type] = {}


def fsdp_class(cls: type) -> type:
    """The class of a module of class `cls` that `fully_shard` has made a unit."""
    if cls not in _classes:
        _classes[cls] = type(f"FSDP{cls.__name__}", (FSDPModule, cls), {"__deepcopy__": _no_copy})
    return _classes[cls]


def _no_copy(self: nn.Module, memo: Any) -> NoReturn:
    raise ExportError(E.UNITS, "a module cannot be copied after fully_shard; copy it before")


class FSDPModule:
    """What `fully_shard` makes of a module: FSDP2's setters.

    Those that say something about the plan are recorded. Those that say what holds anyway are
    accepted. All others are an ExportError that names what to use instead.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        # Slicing a Sequential calls its class: the part is an ordinary one.
        original = cls.__mro__[2]
        module = original.__new__(original, *args, **kwargs)
        module.__init__(*args, **kwargs)
        return module

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Sets whether whole parameters are freed after forward, for the units below as well."""
        require(
            isinstance(reshard_after_forward, bool),
            "reshard_after_forward",
            "True or False",
            reshard_after_forward,
        )
        for module in self.modules() if recurse else [self]:
            if (unit := unit_of(module)) is not None:
                unit.reshard_after_forward = reshard_after_forward
                unit.is_said("reshard_after_forward")

    def set_modules_to_forward_prefetch(self, modules: list["FSDPModule"]) -> None:
        """Sets the modules whose gathers start, in this order, when this one's forward begins.

        An empty list leaves it to the schedule. A list changes no number.
        """
        unit = unit_of(self)
        unit.forward_prefetch = _units(modules)
        unit.is_said("forward_prefetch")

    def set_modules_to_backward_prefetch(self, modules: list["FSDPModule"]) -> None:
        """Sets the modules whose gathers start, in this order, when this one's backward begins.

        An empty list leaves it to the schedule. A list changes no number.
        """
        unit = unit_of(self)
        unit.backward_prefetch = _units(modules)
        unit.is_said("backward_prefetch")

    def set_unshard_in_backward(self, unshard_in_backward: bool) -> None:
        """Accepted: backward gathers the parameters that it reads, and no others."""

    def set_force_sum_reduction_for_comms(self, enable: bool) -> None:
        """Accepted: gradients are always summed and then divided."""

    def set_allocate_memory_from_process_group_for_comm(self, enable: bool) -> None:
        """Accepted: the plan places the buffers of collectives like all others."""

    def set_requires_gradient_sync(
        self, requires_gradient_sync: bool, *, recurse: bool = True
    ) -> None:
        """Accepts True. The plan knows which micro-batch is a step's last."""
        _only_true("requires_gradient_sync", requires_gradient_sync)

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """Accepts True. The plan knows which micro-batch is a step's last."""
        _only_true("requires_all_reduce", requires_all_reduce)

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Accepts True. The plan knows which micro-batch is a step's last."""
        _only_true("is_last_backward", is_last_backward)

    def set_reshard_after_backward(
        self, reshard_after_backward: bool, *, recurse: bool = True
    ) -> None:
        """Accepted, False with a warning: each micro-batch gathers parameters anew."""
        require(
            isinstance(reshard_after_backward, bool),
            "reshard_after_backward",
            "True or False",
            reshard_after_backward,
        )
        if not reshard_after_backward:
            warnings.warn(
                "set_reshard_after_backward(False) keeps parameters whole from one micro-batch to "
                "the next; the plan gathers them in each, which changes no number",
                stacklevel=2,
            )

    def no_sync(self) -> NoReturn:
        """Refused: FSDP1's way to accumulate gradients."""
        _refuse("no_sync", _ACCUMULATE)

    def unshard(self, async_op: bool = False) -> NoReturn:
        """Refused: the plan gathers."""
        _refuse("unshard", "the plan gathers parameters; use set_modules_to_forward_prefetch")

    def reshard(self) -> NoReturn:
        """Refused: the plan frees."""
        _refuse("reshard", "the plan frees parameters; use reshard_after_forward")

    def set_gradient_divide_factor(self, factor: float) -> None:
        """Sets what the ranks' sum of this unit's gradients is divided by, instead of their number.

        Units below keep theirs.
        """
        valid = isinstance(factor, (int, float)) and not isinstance(factor, bool)
        require(
            valid and math.isfinite(factor) and factor > 0, "factor", "a number above 0", factor
        )
        unit = unit_of(self)
        unit.gradient_divide_factor = float(factor)
        unit.is_said("gradient_divide_factor")

    def set_reduce_scatter_divide_factor(self, factor: float) -> None:
        """The former name of `set_gradient_divide_factor`."""
        self.set_gradient_divide_factor(factor)

    def set_custom_all_gather(self, comm: Any) -> NoReturn:
        """Refused: the runtime's communicator is not Python."""
        _refuse("set_custom_all_gather", _NO_PYTHON)

    def set_custom_reduce_scatter(self, comm: Any) -> NoReturn:
        """Refused: the runtime's communicator is not Python."""
        _refuse("set_custom_reduce_scatter", _NO_PYTHON)

    def set_all_reduce_hook(self, hook: Any, *, stream: Any = None) -> NoReturn:
        """Refused: the runtime's communicator is not Python."""
        _refuse("set_all_reduce_hook", _NO_PYTHON)

    def set_post_optim_event(self, event: Any) -> NoReturn:
        """Refused: the plan orders gathers behind the updates that they read."""
        _refuse("set_post_optim_event", "the plan orders gathers behind updates; leave it out")


_ACCUMULATE = (
    "the plan says when gradients are reduced; TrainingStep(accumulate=K) sums them over K "
    "micro-batches and reduces them in the last"
)
_NO_PYTHON = "no Python runs while a plan does; choose collectives by the pipeline's options"


def _units(modules: Sequence[Any]) -> list[Unit]:
    require(isinstance(modules, (list, tuple)), "modules", "a list of modules", modules)
    for module in modules:
        require(
            isinstance(module, FSDPModule), "a module to prefetch", "one after fully_shard", module
        )
    return [unit_of(module) for module in modules]


def _only_true(name: str, value: Any) -> None:
    if value is not True:
        raise ExportError(
            E.NOT_SUPPORTED, f"{name} is {value!r}, which has no meaning in a plan: {_ACCUMULATE}"
        )


def _refuse(name: str, instead: str) -> NoReturn:
    raise ExportError(E.NOT_SUPPORTED, f"{name} has no meaning in a plan: {instead}")


def register_fsdp_forward_method(module: nn.Module, method_name: str) -> None:
    """Makes a method of an `FSDPModule` cast what it takes and gives as its forward does.
    Parameters need no registration: capture follows any method.

    Raises:
        ExportError: `module` is an `FSDPModule` without such a method.
    """
    if not isinstance(module, FSDPModule):
        return
    if not hasattr(module, method_name):
        raise ExportError(
            E.STEP_ARGUMENT, f"{original_class(module).__name__} has no method {method_name}"
        )
    unit = unit_of(module)
    unit.forward_methods.append((module, method_name))
    unit.is_said("forward_methods")
