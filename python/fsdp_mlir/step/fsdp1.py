"""`FullyShardedDataParallel`, FSDP1's constructor, as calls of `fully_shard`."""

from __future__ import annotations

import warnings
from typing import Any, Callable, Iterable, Iterator, Optional

import torch
from torch import nn
from torch.distributed.fsdp import BackwardPrefetch, ShardingStrategy

from ..dtypes import short_name
from ..errors import E, ExportError
from .fsdp_module import original_class
from .fully_shard import fully_shard
from .unit import unit_of
from .mesh import DeviceMesh
from ..options import checked_options
from .policies import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy

# What each strategy is as `reshard_after_forward`, and the dimensions of its mesh. FSDP1 too keeps
# the outermost unit's whole parameters for backward, which is None.
_STRATEGIES = {
    "FULL_SHARD": (None, 1),
    "SHARD_GRAD_OP": (False, 1),
    "NO_SHARD": (None, 1),
    "HYBRID_SHARD": (None, 2),
    "_HYBRID_SHARD_ZERO2": (False, 2),
}


@checked_options
def FullyShardedDataParallel(
    module: nn.Module,
    process_group: Any = None,
    sharding_strategy: Optional[ShardingStrategy] = None,
    cpu_offload: Any = None,
    auto_wrap_policy: Any = None,
    backward_prefetch: Optional[BackwardPrefetch] = BackwardPrefetch.BACKWARD_PRE,
    mixed_precision: Any = None,
    ignored_modules: Optional[Iterable[nn.Module]] = None,
    param_init_fn: Optional[Callable[[nn.Module], None]] = None,
    device_id: Any = None,
    sync_module_states: bool = False,
    forward_prefetch: bool = False,
    limit_all_gathers: bool = True,
    use_orig_params: bool = False,
    ignored_states: Optional[Iterable[Any]] = None,
    device_mesh: Optional[DeviceMesh] = None,
) -> nn.Module:
    """Makes `module`, and the modules below it that the policy picks, units of their own.

    A warning says which calls of `fully_shard` do the same. `sync_module_states`,
    `limit_all_gathers` and `use_orig_params` have no effect: all ranks start from one file, the
    plan bounds the memory of gathers, and parameters always keep their names. `param_init_fn` is
    called for modules on meta and recorded; without it, what their constructors did is. Enumerations
    and wrapping policies are those of `torch.distributed.fsdp`.

    Returns:
        `module` itself, not a wrapper around it: names stay as they are.

    Raises:
        ExportError: an argument does not exist yet or has no meaning in a plan, or as for
            `fully_shard`.
        TypeError: an option that does not exist; the error names the nearest.
    """
    root = {
        "process_group": process_group,
        "sharding_strategy": sharding_strategy,
        "cpu_offload": cpu_offload,
        "backward_prefetch": backward_prefetch,
        "mixed_precision": mixed_precision,
        "device_id": device_id,
        "forward_prefetch": forward_prefetch,
    }
    ignored = _ignored(ignored_modules or (), ignored_states or ())
    skipped = set(ignored_modules or ()) | {s for s in ignored_states or () if _is_module(s)}
    picked = dict(_picked(module, auto_wrap_policy, root, skipped))
    picked.update(_kept_whole(module, auto_wrap_policy, root, skipped))
    if param_init_fn is not None:
        for member in _materialised(module, skipped):
            param_init_fn(member)
    calls: dict[str, None] = {}
    for member in _children_first(module):
        options = root if member is module else picked.get(member)
        if options is None or (member is not module and unit_of(member) is not None):
            continue
        reshard, mesh = _reshard(options), _mesh(options, device_mesh)
        fully_shard(
            member,
            mesh=mesh,
            reshard_after_forward=reshard,
            mp_policy=_precision(member, options["mixed_precision"], member is module),
            ignored_params=ignored & set(member.parameters()),
            offload_policy=_offload(options["cpu_offload"]),
        )
        which = f"{'the' if member is module else 'each'} {original_class(member).__name__}"
        calls[f"{which} (reshard_after_forward={reshard})"] = None
    warnings.warn(f"FullyShardedDataParallel is fully_shard here: of {', then of '.join(calls)}")
    return module


def _offload(cpu_offload: Any) -> OffloadPolicy:
    """FSDP1 pins host memory."""
    asked = getattr(cpu_offload, "offload_params", cpu_offload)
    return CPUOffloadPolicy() if asked else OffloadPolicy()


def _reshard(options: dict[str, Any]) -> Optional[bool]:
    """`reshard_after_forward` for FSDP1's options, all of which are checked."""
    if options["process_group"] is not None:
        raise ExportError(
            E.NOT_SUPPORTED,
            "process_group has no meaning in a plan; describe the ranks by device_mesh, from "
            "fsdp_mlir.init_device_mesh",
        )
    if options["backward_prefetch"] is not BackwardPrefetch.BACKWARD_PRE:
        _warn_hint("backward_prefetch", "prefetch-backward")
    if options["forward_prefetch"]:
        _warn_hint("forward_prefetch", "prefetch-forward")
    if options["device_id"] is not None:
        warnings.warn("device_id has no effect: the plan names the device")
    return _STRATEGIES[_strategy(options)][0]


def _strategy(options: dict[str, Any]) -> str:
    strategy = options["sharding_strategy"] or ShardingStrategy.FULL_SHARD
    name = getattr(strategy, "name", strategy)
    if name not in _STRATEGIES:
        raise ExportError(
            E.STEP_ARGUMENT,
            f"sharding_strategy is {strategy!r}; give one of torch.distributed.fsdp's "
            "ShardingStrategy",
        )
    return name


def _mesh(options: dict[str, Any], mesh: Optional[DeviceMesh]) -> Optional[DeviceMesh]:
    """The mesh of the options' strategy: NO_SHARD has replicas of all, in shards of one rank."""
    name = _strategy(options)
    _, dimensions = _STRATEGIES[name]
    if mesh is None and (name == "NO_SHARD" or dimensions == 2):
        sizes = "(ranks,)" if dimensions == 1 else "(replicas, shards)"
        names = "" if dimensions == 1 else ', mesh_dim_names=("replicate", "shard")'
        raise ExportError(
            E.MESH,
            f"sharding_strategy={name} needs device_mesh: give init_device_mesh({sizes}{names})",
        )
    if not isinstance(mesh, DeviceMesh):
        return mesh
    if mesh.ndim != dimensions:
        raise ExportError(
            E.MESH,
            f"sharding_strategy={name} takes a mesh of {dimensions} dimension"
            f"{'s' if dimensions > 1 else ''}, device_mesh has {mesh.ndim}",
        )
    if name != "NO_SHARD":
        return mesh
    ranks = mesh.mesh.unsqueeze(-1)
    return DeviceMesh(mesh.device_type, ranks, mesh_dim_names=("replicate", "shard"))


def _precision(module: nn.Module, mixed: Any, is_root: bool) -> MixedPrecisionPolicy:
    """`mp_policy` for FSDP1's `mixed_precision`, which casts inputs of the root alone unless it
    says otherwise."""
    if mixed is None:
        return MixedPrecisionPolicy()
    if isinstance(mixed, MixedPrecisionPolicy):
        return mixed
    if mixed.keep_low_precision_grads:
        raise ExportError(
            E.NOT_SUPPORTED,
            "keep_low_precision_grads of mixed_precision has no meaning in a plan: gradients are "
            "cast to their parameter's dtype for its update; leave it out",
        )
    for name, buffer in module.named_buffers():
        dtype = mixed.buffer_dtype or buffer.dtype
        if buffer.is_floating_point() and buffer.dtype != dtype:
            raise ExportError(
                E.NOT_SUPPORTED,
                f"mixed_precision has buffer_dtype={short_name(dtype)}, and {name} is "
                f"{short_name(buffer.dtype)}; buffers keep their dtype, as in FSDP2: leave it out, or "
                "give the buffer that dtype in the model",
            )
    return MixedPrecisionPolicy(
        param_dtype=mixed.param_dtype,
        reduce_dtype=mixed.reduce_dtype,
        # Without a dtype there is nothing to cast to.
        cast_forward_inputs=mixed.param_dtype is None
        or mixed.cast_forward_inputs
        or (is_root and mixed.cast_root_forward_inputs),
    )


def _kept_whole(
    module: nn.Module, policy: Any, root: dict[str, Any], skipped: set[nn.Module]
) -> Iterator[tuple[nn.Module, dict[str, Any]]]:
    """The modules that a wrapping policy leaves out of mixed precision, BatchNorm as a rule: units
    of their own, which compute in float32."""
    mixed = root["mixed_precision"]
    if policy is None or mixed is None or mixed.param_dtype is None:
        return
    whole = MixedPrecisionPolicy(torch.float32, output_dtype=mixed.param_dtype)
    for member in module.modules():
        if isinstance(member, tuple(mixed._module_classes_to_ignore)) and member not in skipped:
            yield member, {**root, "mixed_precision": whole}


def _warn_hint(name: str, option: str) -> None:
    warnings.warn(f"{name} is a hint that the schedule does not follow; see its option {option}")


def _is_module(value: Any) -> bool:
    return isinstance(value, nn.Module)


def _ignored(modules: Iterable[nn.Module], states: Iterable[Any]) -> set[nn.Parameter]:
    ignored = {parameter for module in modules for parameter in module.parameters()}
    for state in states:
        ignored.update(state.parameters() if _is_module(state) else (state,))
    return ignored


def _children_first(module: nn.Module) -> Iterator[nn.Module]:
    """Each module once, those below it before it."""
    seen: set[nn.Module] = set()

    def walk(member: nn.Module) -> Iterator[nn.Module]:
        if member not in seen:
            seen.add(member)
            for child in member.children():
                yield from walk(child)
            yield member

    return walk(module)


def _materialised(module: nn.Module, skipped: set[nn.Module]) -> list[nn.Module]:
    """The modules that `param_init_fn` is called for: with all that is on meta below them, but for
    ignored ones and units that were made before."""
    done = {below for m in module.modules() if unit_of(m) is not None for below in m.modules()}
    ignored = {below for m in skipped for below in m.modules()}
    if not any(parameter.is_meta for parameter in module.parameters()):
        return []
    return [member for member in _children_first(module) if member not in done | ignored]


def _picked(
    module: nn.Module, policy: Any, root: dict[str, Any], skipped: set[nn.Module]
) -> Iterator[tuple[nn.Module, dict[str, Any]]]:
    """The modules that a wrapping policy picks, with their options."""
    if policy is None:
        return
    if hasattr(policy, "_run_policy"):  # ModuleWrapPolicy, CustomPolicy
        yield from policy._run_policy(module, skipped, root).items()
        return
    if not callable(policy):
        raise ExportError(
            E.STEP_ARGUMENT,
            f"auto_wrap_policy is {type(policy).__name__}; give a policy of "
            "torch.distributed.fsdp.wrap, or a function (module, recurse, nonwrapped_numel)",
        )

    picked: list[nn.Module] = []

    def walk(member: nn.Module) -> int:
        """Returns how many elements the units at and below `member` take."""
        size = sum(parameter.numel() for parameter in member.parameters())
        if not policy(module=member, recurse=True, nonwrapped_numel=size):
            return 0
        taken = sum(walk(child) for child in member.children() if child not in skipped)
        if policy(module=member, recurse=False, nonwrapped_numel=size - taken):
            picked.append(member)
            return size
        return taken

    walk(module)
    for member in picked:
        yield member, root
