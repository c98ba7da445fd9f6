"""`fully_shard`: FSDP2's way to say which modules are sharded together, and how.

Here it only writes the policy down: a `Unit` for each call, found again at export
(`unit_table.py`). No tensor changes, and no process group is needed.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Iterator, NoReturn, Optional, Sequence, Union

from torch import nn

from ..errors import E, ExportError
from .mesh import DeviceMesh
from ..options import checked_options
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


def unit_of(module: nn.Module) -> Optional[Unit]:
    """The unit that `fully_shard` made of this very module, or None."""
    unit = vars(module).get(_KEY)
    return unit if unit is not None and any(m is module for m in unit.modules) else None


def enclosing_unit(module: nn.Module) -> Optional[Unit]:
    """The unit of a module around this one that has taken its parameters, or None."""
    return vars(module).get(_KEY) if unit_of(module) is None else None


def original_class(module: nn.Module) -> type[nn.Module]:
    """The class of a module as its author wrote it."""
    cls = type(module)
    return cls.__mro__[2] if issubclass(cls, FSDPModule) else cls


@checked_options
def fully_shard(
    module: Union[nn.Module, Sequence[nn.Module]],
    *,
    mesh: Optional[DeviceMesh] = None,
    reshard_after_forward: Union[bool, int, None] = None,
    shard_placement_fn: Optional[Callable[[nn.Parameter], Any]] = None,
    mp_policy: MixedPrecisionPolicy = MixedPrecisionPolicy(),
    offload_policy: OffloadPolicy = OffloadPolicy(),
    ignored_params: Optional[set[nn.Parameter]] = None,
) -> Any:
    """Makes `module` one unit: one all-gather and one reduce-scatter for its parameters.

    Apply it bottom-up: a call takes the parameters below `module` that no earlier call has, and
    the outermost call takes what is left. The names, arguments and defaults are those of
    `torch.distributed.fsdp.fully_shard`.

    Args:
        module: a module, or several that are one unit.
        mesh: the ranks; None: as many as the plan is compiled for. Parameters are sharded over
            the last dimension; along each other one there are replicas.
        reshard_after_forward: True: the whole parameters are freed after forward and gathered
            again for backward. False: they are kept. An integer: a secondary shard is kept. None:
            as the pipeline's option says, which is True for all but the outermost unit.
        shard_placement_fn: gives the `Shard` of a parameter, or None for `Shard(0)`.
        mp_policy: in which dtypes the unit gathers, computes and reduces.
        offload_policy: what lives on the host.
        ignored_params: parameters that each rank holds whole and whose gradients stay its own.

    Returns:
        `module`, whose class is now also an `FSDPModule` (for a list, each member's).

    Raises:
        ExportError: what FSDP2 refuses as well: a container without a forward, a module that has
            a unit already, a mesh of several dimensions without names, an argument of the wrong
            type.
        TypeError: an option that does not exist; the error names the nearest.
    """
    modules = _check_modules(module)
    _check_mesh(mesh)
    _require(
        shard_placement_fn is None or callable(shard_placement_fn),
        "shard_placement_fn",
        "a function from a parameter to Shard(dim) or None",
        shard_placement_fn,
    )
    policies = (
        ("mp_policy", mp_policy, MixedPrecisionPolicy),
        ("offload_policy", offload_policy, OffloadPolicy),
    )
    for name, policy, kind in policies:
        _require(isinstance(policy, kind), name, f"an fsdp_mlir.{kind.__name__}", policy)
    unit = Unit(
        modules,
        mesh,
        check_reshard(reshard_after_forward, mesh),
        shard_placement_fn,
        mp_policy,
        offload_policy,
        _check_ignored(ignored_params),
    )
    for managed in _managed(modules):
        vars(managed)[_KEY] = unit
    for member in modules:
        member.__class__ = _fsdp_class(type(member))
    return module


def check_reshard(value: Any, mesh: Optional[DeviceMesh]) -> Union[bool, int, None]:
    """`reshard_after_forward`, with the numbers that mean True and False made those."""
    if value is None or isinstance(value, bool):
        return value
    _require(
        isinstance(value, int) and value > 0,
        "reshard_after_forward",
        "True, False, None or a number of ranks",
        value,
    )
    if value == 1:
        return False
    if mesh is None:
        return value
    ranks = mesh.num_shards
    if ranks % value:
        raise ExportError(
            E.STEP_ARGUMENT,
            f"reshard_after_forward is {value}, which does not divide the {ranks} ranks that "
            "parameters are sharded over; give a divisor of it, True or False",
        )
    return True if value == ranks else value


def _check_modules(module: Any) -> tuple[nn.Module, ...]:
    several = isinstance(module, (list, tuple))
    members = list(module) if several else [module]
    for member in members:
        _require(
            isinstance(member, nn.Module), "module", "a torch.nn.Module or a list of them", member
        )
    if not members:
        raise ExportError(
            E.UNITS, "fully_shard is given an empty list; give the modules that are one unit"
        )
    # A member inside another one is sharded with it.
    below = {id(m) for member in members for m in member.modules() if m is not member}
    modules = tuple(member for member in dict.fromkeys(members) if id(member) not in below)
    for member in modules:
        name = original_class(member).__name__
        if isinstance(member, (nn.ModuleList, nn.ModuleDict)):
            raise ExportError(
                E.UNITS,
                f"fully_shard is given a {name}, which has no forward; give its members: each "
                "alone, or a list of them as one unit",
            )
        if unit_of(member) is not None:
            raise ExportError(
                E.UNITS,
                f"fully_shard has been applied to this {name} before; a module has one unit",
            )
        if (around := enclosing_unit(member)) is not None:
            outer = original_class(around.modules[0]).__name__
            raise ExportError(
                E.UNITS,
                f"fully_shard is given a {name} inside a {outer}, which has taken its parameters; "
                "apply it bottom-up, to the inner modules first",
            )
    return modules


def _check_mesh(mesh: Any) -> None:
    if mesh is None:
        return
    _require(isinstance(mesh, DeviceMesh), "mesh", "one from fsdp_mlir.init_device_mesh", mesh)
    if mesh.ndim > 1 and mesh.mesh_dim_names is None:
        raise ExportError(
            E.MESH,
            f"the mesh has {mesh.ndim} dimensions without names; name each of them, the last one is "
            'sharded over: of two, mesh_dim_names=("replicate", "shard")',
        )


def _check_ignored(parameters: Any) -> frozenset[nn.Parameter]:
    if parameters is None:
        return frozenset()
    wanted = "a set of parameters"
    _require(
        isinstance(parameters, (set, frozenset, list, tuple)), "ignored_params", wanted, parameters
    )
    for parameter in parameters:
        _require(
            isinstance(parameter, nn.Parameter),
            "a member of ignored_params",
            "a parameter",
            parameter,
        )
    return frozenset(parameters)


def _require(holds: bool, name: str, wanted: str, value: Any) -> None:
    if not holds:
        shown = repr(value) if isinstance(value, (bool, int, float, str)) else type(value).__name__
        raise ExportError(E.STEP_ARGUMENT, f"{name} is {shown}; give {wanted}")


def _managed(modules: Iterable[nn.Module]) -> Iterator[nn.Module]:
    """The modules and those below them that are in no unit yet."""
    for module in modules:
        if _KEY not in vars(module):
            yield module
            yield from _managed(module.children())


_classes: dict[type, type] = {}


def _fsdp_class(cls: type) -> type:
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
        _require(
            isinstance(reshard_after_forward, bool),
            "reshard_after_forward",
            "True or False",
            reshard_after_forward,
        )
        for module in self.modules() if recurse else [self]:
            if (unit := unit_of(module)) is not None:
                unit.reshard_after_forward = reshard_after_forward

    def set_modules_to_forward_prefetch(self, modules: list["FSDPModule"]) -> None:
        """Sets the modules whose gathers start, in this order, when this one's forward begins.

        An empty list leaves it to the schedule. A list changes no number.
        """
        unit_of(self).forward_prefetch = _units(modules)

    def set_modules_to_backward_prefetch(self, modules: list["FSDPModule"]) -> None:
        """Sets the modules whose gathers start, in this order, when this one's backward begins.

        An empty list leaves it to the schedule. A list changes no number.
        """
        unit_of(self).backward_prefetch = _units(modules)

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
        if not reshard_after_backward:
            warnings.warn(
                "set_reshard_after_backward(False) keeps parameters whole from one micro-batch to "
                "the next; the plan gathers them in each, which changes no number"
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
        _require(
            valid and math.isfinite(factor) and factor > 0, "factor", "a number above 0", factor
        )
        unit_of(self).gradient_divide_factor = float(factor)

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


def _units(modules: Iterable[Any]) -> list[Unit]:
    for module in modules:
        _require(
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
    unit_of(module).forward_methods.append((module, method_name))
