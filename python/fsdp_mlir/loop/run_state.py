"""A run's states as tensors of PyTorch: views, DTensors, or copies where neither is possible."""

from __future__ import annotations

import functools
import math
import warnings
from typing import Any, Mapping

import torch
import torch.distributed as dist

from ..dtypes import short_name
from ..errors import E, RunError
from ..step.memory import FREED, is_freed
from ..step.pairs import as_pairs_of

Entry = dict[str, Any]
Axis = tuple[str, int, str]  # of the plan's mesh: its name, its ranks and its role


def state_dict(session: Any, optimizer: bool) -> dict[str, torch.Tensor]:
    """See `Run.state_dict`."""
    entries = _entries(session, optimizer)
    if session.size == 1:
        tensors = {entry["name"]: entry["local"] for entry in entries}
    elif _has_group():
        tensors = _distributed(session, entries, optimizer)
    else:
        whole = session.whole(False, optimizer)
        tensors = {entry["name"]: whole[entry["name"]] for entry in entries}
    named = {name: tensors[entry["name"]] for entry in entries for name in _names(entry)}
    if optimizer:
        updates = _updates(session, session.states())
        named |= {name: torch.tensor(float(updates[p])) for name, p in _counts(entries).items()}
    return named


def load_state_dict(session: Any, given: Mapping[str, torch.Tensor]) -> None:
    """See `Run.load_state_dict`."""
    entries = _entries(session, optimizer=True)
    targets = {name: entry for entry in entries for name in _names(entry)}
    counts = _counts(entries)
    given = _checked(given, targets, counts)
    whole = {}
    session.barrier()  # other ranks may read what they gathered
    for name, value in given.items():
        if name in counts:
            continue
        entry, is_cut = targets[name], hasattr(value, "full_tensor")
        if is_cut and entry["local"] is not None and _fits(value, entry, session.mesh):
            entry["local"].copy_(value.to_local())
        else:
            value = value.full_tensor() if is_cut else value
            whole[entry["name"]] = value.detach().cpu().contiguous()
    if given.keys() & counts.keys():
        states = session.states()
        updates = _updates(session, states)
        taken = {name: int(given.get(name, updates[p])) for name, p in counts.items()}
        missed = _missed(states)
        whole |= _count_anew(session, taken, {n: missed.get(p, "") for n, p in counts.items()})
    session.put(whole)


def _count_anew(
    session: Any, taken: Mapping[str, int], missed: Mapping[str, str]
) -> dict[str, torch.Tensor]:
    """Has parameters be updated so many times until now. The buffers `missed`, by the same names, count
    the steps that gave some of them no gradient: gives what they have then."""
    most = max(taken, key=taken.__getitem__)
    session.steps += taken[most] - _done(session)
    alike: dict[str, dict[str, int]] = {}
    for name, count in taken.items():
        alike.setdefault(missed[name], {})[name] = count
    values = {}
    for buffer, members in alike.items():
        largest = max(members, key=members.__getitem__)
        _warn_of_counts(members, largest)
        if buffer:
            left_out = float(taken[most] - members[largest])
            values[buffer] = torch.tensor(left_out, dtype=torch.float64)
    return values


def _warn_of_counts(taken: Mapping[str, int], most: str) -> None:
    """Warns where parameters that are updated in the same steps have been updated a different number
    of times."""
    least = min(taken, key=taken.__getitem__)
    if taken[least] < taken[most]:
        warnings.warn(
            f"{least} is {taken[least]} and {most} is {taken[most]}, and a run has one count of "
            f"updates for both: it takes the {taken[most]}. Where the optimizer computes "
            "with its count, as Adam to correct its averages, the first updates of the others are "
            "not PyTorch's; train all from the start, with a learning rate of 0 until then",
            RuntimeWarning,
            stacklevel=5,  # the script's line that gives the states
        )


def copy_to(session: Any, model: torch.nn.Module) -> None:
    """See `Run.copy_to`."""
    states, own = state_dict(session, optimizer=False), model.state_dict()
    targets = {}
    for name, value in states.items():
        if name not in own:
            raise RunError(
                E.RUN_STATE, f"the model has no {name}; give one as the compiled one was"
            )
        targets[name] = as_pairs_of(own[name], value.shape)
        if targets[name].is_meta:
            raise RunError(
                E.RUN_STATE, f"{name} of the model is on meta; give it memory, as to_empty() does"
            )
        if is_freed(targets[name]):
            raise RunError(E.RUN_STATE, f"{name} of the model {FREED}")
        if targets[name].shape != value.shape:
            has, wants = list(targets[name].shape), list(value.shape)
            raise RunError(
                E.RUN_STATE, f"{name} is {has} in the model, and the run's is {wants}; give it so"
            )
    for name, value in states.items():
        targets[name].copy_(value.full_tensor() if hasattr(value, "full_tensor") else value)


def _entries(session: Any, optimizer: bool) -> list[Entry]:
    return [
        entry
        for entry in session.states()
        if entry["role"] == "parameter"
        or (entry["role"] == "buffer" and entry["persistent"])
        or (entry["role"] == "optimizer" and optimizer)
    ]


def _names(entry: Entry) -> list[str]:
    """Those of the model's `state_dict()`; of an optimizer's state, those that PyTorch's
    `get_optimizer_state_dict()` has with flatten_optimizer_state_dict."""
    if entry["role"] != "optimizer":
        return [entry["name"], *entry["aliases"]]
    parameter = entry["parameter"]
    return [f"state.{parameter}.{entry['name'].removeprefix(parameter + '/')}"]


def _counts(entries: list[Entry]) -> dict[str, str]:
    """The names of the optimizer's counts of updates, and the parameter of each: those that have
    states."""
    owners = dict.fromkeys(e["parameter"] for e in entries if e["role"] == "optimizer")
    return {f"state.{parameter}.step": parameter for parameter in owners}


def _done(session: Any) -> int:
    """Steps whose updates were not left out."""
    return session.steps - int(session.metrics().get("skipped_steps", 0))


def _missed(entries: list[Entry]) -> dict[str, str]:
    """The buffer that counts steps without a gradient, of parameters that have one."""
    return {e["name"]: e["missed"] for e in entries if e["missed"]}


def _updates(session: Any, entries: list[Entry]) -> dict[str, int]:
    """How often each parameter was updated; `entries` are of all states."""
    done, missed = _done(session), _missed(entries)
    local = {e["name"]: e["local"] for e in entries if e["name"] in missed.values()}
    return {
        e["name"]: done - int(local[missed[e["name"]]]) if e["name"] in missed else done
        for e in entries
        if e["role"] == "parameter"
    }


def _checked(
    given: Mapping[str, torch.Tensor], targets: Mapping[str, Entry], counts: Mapping[str, str]
) -> dict[str, torch.Tensor]:
    """The given states in the form of the run's; raises RunError where one does not fit."""
    if not isinstance(given, Mapping):
        raise RunError(
            E.RUN_STATE,
            f"states are a dict of tensors by name, and not {type(given).__name__}; give what "
            "state_dict() has",
        )
    checked = {}
    for name, value in given.items():
        if isinstance(value, torch.Tensor) and is_freed(value):
            raise RunError(E.RUN_STATE, f"{name} {FREED}")
        if name in counts:
            if float(value) < 0 or float(value) != int(value):
                raise RunError(
                    E.RUN_STATE, f"{name} is {value}; give the count of updates, from 0 on"
                )
            checked[name] = value
            continue
        if name not in targets:
            raise RunError(E.RUN_STATE, f"the run has no {name}; give what its state_dict() has")
        if not isinstance(value, torch.Tensor):
            raise RunError(E.RUN_STATE, f"{name} is {type(value).__name__}; give a tensor")
        if value.is_meta:
            raise RunError(E.RUN_STATE, f"{name} is on meta and has no values; give one with them")
        value = as_pairs_of(value, targets[name]["shape"])
        shape, dtype = list(targets[name]["shape"]), targets[name]["dtype"]
        own = short_name(value.dtype)
        if list(value.shape) != shape or own != dtype:
            raise RunError(
                E.RUN_STATE,
                f"{name} is {own}{list(value.shape)}, and the run's is {dtype}{shape}; give it so",
            )
        checked[name] = value
    return checked


def _placements(entry: Entry, axes: list[Axis]) -> tuple[Any, ...]:
    """The placements of a state over the plan's mesh: what is cut is cut over the axis of shards."""
    from torch.distributed.tensor import Replicate, Shard

    dim = entry["shard_dim"]
    return tuple(Shard(dim) if role == "shard" and dim >= 0 else Replicate() for _, _, role in axes)


def _fits(value: Any, entry: Entry, axes: list[Axis]) -> bool:
    """Whether a DTensor is cut as the run's memory is."""
    sizes = tuple(size for _, size, _ in axes)
    placed = tuple(value.device_mesh.shape), tuple(value.placements)
    return placed == (sizes, _placements(entry, axes))


def _has_group() -> bool:
    return dist.is_available() and dist.is_initialized()


def _mesh(session: Any, device: str) -> Any:
    """The plan's mesh as PyTorch's, over the process group that exists, for tensors of a device."""
    from torch.distributed.device_mesh import init_device_mesh

    if dist.get_world_size() != session.size or dist.get_rank() != session.rank:
        raise RunError(
            E.RANKS_DIFFER,
            f"the process group has rank {dist.get_rank()} of {dist.get_world_size()}, and the run "
            f"rank {session.rank} of {session.size}; let both be of the same ranks",
        )
    names, sizes, _ = zip(*session.mesh)
    return init_device_mesh(device, sizes, mesh_dim_names=names)


def _distributed(session: Any, entries: list[Entry], optimizer: bool) -> dict[str, torch.Tensor]:
    from torch.distributed.tensor import DTensor

    mesh_of = functools.cache(lambda device: _mesh(session, device))
    shards = next(i for i, (_, _, role) in enumerate(session.mesh) if role == "shard")
    is_cut = any(entry["local"] is None for entry in entries)
    flat = session.whole(True, optimizer) if is_cut else {}

    def placed(entry: Entry) -> torch.Tensor:
        local, dim = entry["local"], entry["shard_dim"]
        if entry["role"] == "buffer":
            return local
        placements = _placements(entry, session.mesh)
        shape = torch.Size(entry["shape"])
        if local is None:
            local = _chunk(flat[entry["name"]], dim, mesh_of("cpu"), shards)
        stride = torch.empty(shape, device="meta").stride()
        return DTensor.from_local(
            local,
            mesh_of(local.device.type),
            placements,
            run_check=False,
            shape=shape,
            stride=stride,
        )

    return {entry["name"]: placed(entry) for entry in entries}


def own_part(whole: torch.Tensor, entry: Entry, session: Any) -> torch.Tensor:
    """This rank's part of a state, as the plan's mesh of shards cuts it."""
    dim = entry["shard_dim"]
    axis = next((i for i, (_, _, role) in enumerate(session.mesh) if role == "shard"), None)
    if dim < 0 or axis is None:
        return whole
    inner = math.prod(size for _, size, _ in session.mesh[axis + 1 :])
    ranks = session.mesh[axis][1]
    return _nth_chunk(whole, dim, ranks, session.rank // inner % ranks)


def _chunk(whole: torch.Tensor, dim: int, mesh: Any, axis: int) -> torch.Tensor:
    """This rank's part, as DTensor cuts over an axis."""
    return _nth_chunk(whole, dim, mesh.size(axis), mesh.get_local_rank(axis)).clone()


def _nth_chunk(whole: torch.Tensor, dim: int, ranks: int, index: int) -> torch.Tensor:
    """Empty where there are fewer chunks than ranks."""
    chunks = torch.chunk(whole, ranks, dim)
    return chunks[index] if index < len(chunks) else whole.narrow(dim, 0, 0)
