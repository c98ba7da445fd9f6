"""A unit: what one call of `fully_shard` says, kept on its modules."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any, Callable, ClassVar, Iterable, Iterator, Optional, Union

from torch import nn

from .. import package
from .mesh import DeviceMesh
from .places import innermost
from .policies import MixedPrecisionPolicy, OffloadPolicy

_KEY = "_fsdp_unit"


@dataclass(eq=False)
class Unit:
    """One call of `fully_shard`: modules that are gathered and reduced together.

    Attributes:
        forward_prefetch, backward_prefetch: units whose gathers start where this one's forward or
            backward begins; empty where the schedule decides.
        gradient_divide_factor: what the sums of its gradients are divided by; None: the number of
            ranks.
        forward_methods: methods that are forwards too.
        lines: where a script said what the unit is, by the attribute: a file and a line.
        changes: how often anything was said of any unit. A run asks it in each step.
        Others are the arguments of `fully_shard`.
    """

    modules: tuple[nn.Module, ...]
    mesh: Optional[DeviceMesh]
    reshard_after_forward: Union[bool, int, None]
    shard_placement_fn: Optional[Callable[[nn.Parameter], Any]]
    mp_policy: MixedPrecisionPolicy
    offload_policy: OffloadPolicy
    ignored_params: frozenset[nn.Parameter]
    forward_prefetch: list["Unit"] = field(default_factory=list, repr=False)
    backward_prefetch: list["Unit"] = field(default_factory=list, repr=False)
    gradient_divide_factor: Optional[float] = None
    forward_methods: list[tuple[nn.Module, str]] = field(default_factory=list, repr=False)
    lines: dict[str, tuple[str, int]] = field(default_factory=dict, repr=False)
    changes: ClassVar[int] = 0

    def is_said(self, attribute: str) -> None:
        """Notes that the caller's script says this attribute of the unit now."""
        Unit.changes += 1
        if (frame := innermost(sys._getframe(1), package.is_local)) is not None:
            self.lines[attribute] = frame.f_code.co_filename, frame.f_lineno


def unit_of(module: nn.Module) -> Optional[Unit]:
    """The unit that `fully_shard` made of this very module, or None."""
    unit = vars(module).get(_KEY)
    return unit if unit is not None and any(m is module for m in unit.modules) else None


def enclosing_unit(module: nn.Module) -> Optional[Unit]:
    """The unit of a module around this one that has taken its parameters, or None."""
    return vars(module).get(_KEY) if unit_of(module) is None else None


def take(unit: Unit) -> None:
    """Gives a unit its modules, and those below them that are in no unit yet."""
    unit.is_said("modules")
    for module in _free(unit.modules):
        vars(module)[_KEY] = unit


def _free(modules: Iterable[nn.Module]) -> Iterator[nn.Module]:
    for module in modules:
        if _KEY not in vars(module):
            yield module
            yield from _free(module.children())
