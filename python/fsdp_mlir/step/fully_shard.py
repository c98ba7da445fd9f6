"""`fully_shard`: FSDP2's way to say which modules are sharded together, and how.

Here it only writes the policy down: a `Unit` for each call, found again at export
(`unit_table.py`). No tensor changes, and no process group is needed.
"""

from __future__ import annotations

from typing import Any, Callable, Optional, Sequence, Union

from torch import nn

from ..errors import E, ExportError
from .arguments import require
from .fsdp_module import fsdp_class, original_class
from .mesh import DeviceMesh
from ..options import checked_options
from .policies import MixedPrecisionPolicy, OffloadPolicy
from .unit import Unit, enclosing_unit, take, unit_of


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
    require(
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
        wanted = f"an fsdp_mlir.{kind.__name__}"
        if type(policy).__module__.startswith("torch."):
            wanted = f"fsdp_mlir's {type(policy).__name__}, and not torch's"
        require(isinstance(policy, kind), name, wanted, policy)
    unit = Unit(
        modules,
        mesh,
        check_reshard(reshard_after_forward, mesh),
        shard_placement_fn,
        mp_policy,
        offload_policy,
        _check_ignored(ignored_params),
    )
    take(unit)
    for member in modules:
        member.__class__ = fsdp_class(type(member))
    return module


def check_reshard(value: Any, mesh: Optional[DeviceMesh]) -> Union[bool, int, None]:
    """`reshard_after_forward`, with the numbers that mean True and False made those."""
    if value is None or isinstance(value, bool):
        return value
    require(
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
        require(
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
    require(isinstance(mesh, DeviceMesh), "mesh", "one from fsdp_mlir.init_device_mesh", mesh)
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
    require(
        isinstance(parameters, (set, frozenset, list, tuple)), "ignored_params", wanted, parameters
    )
    for parameter in parameters:
        require(
            isinstance(parameter, nn.Parameter),
            "a member of ignored_params",
            "a parameter",
            parameter,
        )
    return frozenset(parameters)
