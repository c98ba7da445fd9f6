"""Checkpoints of modules and optimizers that PyTorch itself trains, on one rank or with FSDP2."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, Optional, Sequence

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import (
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.tensor import DTensor, distribute_tensor

from ..archive.missed_steps import PREFIX as MISSED
from ..dtypes import dtype_name
from ..step.memory import FREED, is_freed
from ..step.names import plain_path
from ..step.optimizer_list import Optimizers
from ..step.pairs import as_held, as_pairs, as_pairs_of
from ..data.tensor_file import as_bytes
from .elements import describe
from .errors import E, CheckpointError
from .find_state import some
from .manifest import LOST, Run, Tensor
from .reader import Checkpoint, open_checkpoint
from .step_archive import SCALER
from .writer import write_checkpoint


def load(
    path: Path | str,
    model: torch.nn.Module,
    optimizer: Optional[Optimizers] = None,
) -> int:
    """Gives a model, and its optimizer, the values of the checkpoint at `path`, or of the newest
    one in it. Each rank of FSDP2 calls it, and keeps its parts; nothing is communicated. Options of
    the optimizer's groups stay what they are, but for a "step" that counts. Several optimizers are
    a list.

    Returns the number of steps that are done.

    Raises:
        CheckpointError: the checkpoint is damaged, or of another model or optimizer.
    """
    with open_checkpoint(path) as checkpoint:
        stored = {tensor.name: tensor for tensor in checkpoint.manifest.tensors}
        targets = {tensor.name: value for tensor, value in _model_tensors(model)}
        states = {} if optimizer is None else _optimizer_state(model, optimizer)
        targets |= dict(_tensors_of(states))
        targets = {
            name: _as_stored(target, stored[name].shape) if name in stored else target
            for name, target in targets.items()
        }
        _compare(targets, stored, optimizer is not None)
        if empty := [name for name, target in targets.items() if target.is_meta]:
            raise CheckpointError(
                E.CHECKPOINT_MISMATCH,
                f"{some(empty)} of the model are on meta and can hold no values; give the model "
                "memory, as model.to_empty(device='cpu') does",
            )
        rank = dist.get_rank() if dist.is_initialized() else 0
        with torch.no_grad():
            for name, target in targets.items():
                if target.numel():
                    _give(target, checkpoint, stored[name], rank)
        steps = checkpoint.manifest.run.step
        if optimizer is not None:
            options = get_optimizer_state_dict(model, optimizer)["param_groups"]
            _count([*states.values(), *options], steps)
            state = {"state": states, "param_groups": options}
            set_optimizer_state_dict(model, optimizer, state)
        return steps


def save(
    folder: Path | str,
    model: torch.nn.Module,
    optimizer: Optimizers,
    step: int,
    *,
    seed: int = 0,
    samples_per_step: int = 0,
) -> Path:
    """Writes a checkpoint of `step` steps into `folder`, from which fsdp-run goes on. Each rank of
    FSDP2 calls it, and rank 0 writes; one whole tensor at a time is in memory.

    Args:
        seed: of the data's order.
        samples_per_step: that all ranks together read in a step, for the run to go on behind them.

    Returns the checkpoint's folder.

    Raises:
        CheckpointError: a state is one number of its own, which checkpoints do not have.
    """
    parts = [optimizer] if isinstance(optimizer, torch.optim.Optimizer) else optimizer
    new = [part for part in parts if not part.state]
    is_new = len(new) == len(parts)
    states = _optimizer_state(model, optimizer)
    for part in new:
        part.state.clear()  # it has no state before its first step
    for name, own in states.items():
        taken = 0 if is_new else int(own.get("step", step))
        if taken != step:
            raise CheckpointError(
                E.CHECKPOINT_MISMATCH,
                f"the optimizer has updated {name} {taken} times, and step is {step}",
            )
    described = dict(_model_tensors(model))
    values = {tensor.name: value for tensor, value in described.items()}
    tensors = list(described)
    for name, value in _tensors_of(states):
        parameter = name.rpartition("/")[0]
        value = as_pairs(value) if value.is_complex() else value
        if not value.dim() and values[parameter].dim():
            raise CheckpointError(
                E.CHECKPOINT_MISMATCH,
                f"the state {name} is one number, which a run here computes from its steps; export "
                "with dcp.save or torch.save and import that",
            )
        values[name] = value
        kind = dtype_name(value.dtype, name)
        tensors.append(Tensor(name, "optimizer", kind, tuple(value.shape), parameter=parameter))
    tensors = [tensor for tensor in tensors if tensor.count]
    for name in (tensor.name for tensor in tensors):
        if is_freed(values[name]):
            raise CheckpointError(E.CHECKPOINT_MISMATCH, f"{name} {FREED}")
    ranks = dist.get_world_size() if dist.is_initialized() else 1
    run = Run(step, seed, samples_in_epoch=step * samples_per_step)
    read = _Gather(tensors, values)

    def write() -> Path:
        mesh = (("shard", ranks),)
        return write_checkpoint(Path(folder), run, tensors, read, ranks, mesh)

    return _on_rank_0(write, read)


class _Gather:
    """Reads whole tensors of a model, on all ranks alike, in their order."""

    def __init__(self, tensors: list[Tensor], values: dict[str, torch.Tensor]) -> None:
        self._rest = [values[tensor.name] for tensor in reversed(tensors)]

    def __call__(self, tensor: Tensor, rank: int) -> np.ndarray:
        value = self._rest.pop()
        whole = value.full_tensor() if isinstance(value, DTensor) else value
        return as_bytes(whole.detach().cpu())

    def finish(self) -> None:
        """Takes part in what other ranks have not read yet."""
        while self._rest:
            value = self._rest.pop()
            if isinstance(value, DTensor):
                value.full_tensor()


def _on_rank_0(write: Callable[[], Path], read: _Gather) -> Path:
    """Calls `write` on rank 0, which reads together with the others; all ranks get what it gives,
    or raises."""
    result: list[Any] = [None]
    if not dist.is_initialized() or dist.get_rank() == 0:
        try:
            result = [write()]
        except Exception as error:
            result = [error]
    read.finish()
    if dist.is_initialized():
        dist.broadcast_object_list(result)
    if isinstance(result[0], Exception):
        raise result[0]
    return result[0]


def _model_tensors(model: torch.nn.Module) -> Iterator[tuple[Tensor, torch.Tensor]]:
    """Parameters and buffers as checkpoints have them, each tensor once."""
    found: dict[int, tuple[str, str, torch.Tensor]] = {}
    aliases: dict[int, list[str]] = {}
    named = [
        ("parameter", model.named_parameters(remove_duplicate=False)),
        ("buffer", model.named_buffers(remove_duplicate=False)),
    ]
    modules = dict(model.named_modules(remove_duplicate=False))
    for role, tensors in named:
        for path, value in tensors:
            name = plain_path(path)
            module, _, last = path.rpartition(".")
            if last in modules[module]._non_persistent_buffers_set:
                name = LOST + name
            if id(value) in found:
                aliases[id(value)].append(name)
            else:
                found[id(value)] = role, name, value
                aliases[id(value)] = []
    for key, (role, name, value) in found.items():
        value = as_held(value)
        kind = dtype_name(value.dtype, name)
        yield Tensor(name, role, kind, tuple(value.shape), aliases=tuple(aliases[key])), value


def _optimizer_state(model: torch.nn.Module, optimizer: Optimizers) -> dict[str, dict[str, Any]]:
    """The optimizer's own state by the names of parameters; where it has none yet, its first one."""
    return get_optimizer_state_dict(model, optimizer)["state"]


def _tensors_of(states: dict[str, dict[str, Any]]) -> Iterator[tuple[str, torch.Tensor]]:
    """The states that checkpoints keep, by their names there."""
    for name, own in states.items():
        for key, value in own.items():
            if isinstance(value, torch.Tensor) and key != "step":
                yield f"{name}/{key}", value


def _compare(
    targets: dict[str, torch.Tensor], stored: dict[str, Tensor], with_optimizer: bool
) -> None:
    """Raises CheckpointError where the checkpoint is of another model or optimizer."""
    if with_optimizer and any(name.startswith(LOST + MISSED) for name in stored):
        raise CheckpointError(
            E.CHECKPOINT_MISMATCH,
            "the checkpoint's run counted steps that gave some parameters no gradient, and it does not "
            "say which; `python -m fsdp_mlir.checkpoint export --to torch --archive STEP.pt` writes what "
            "the model and the optimizer load",
        )
    targets = {name: value for name, value in targets.items() if value.numel()}
    if missing := [name for name in targets if name not in stored]:
        raise CheckpointError(
            E.CHECKPOINT_MISMATCH,
            f"the checkpoint has no {some(missing)}; load it into the model and optimizer whose run "
            "wrote it",
        )
    unknown = [
        tensor.name
        for tensor in stored.values()
        if tensor.name not in targets
        and not tensor.name.startswith((SCALER, LOST + MISSED))
        and (with_optimizer or tensor.role != "optimizer")
    ]
    if unknown:
        raise CheckpointError(
            E.CHECKPOINT_MISMATCH,
            f"the checkpoint has {some(unknown)}, which the model and its optimizer have not; "
            "where the optimizer has no state yet, clear the gradients before the load",
        )
    for name, value in targets.items():
        tensor = stored[name]
        kind, shape = dtype_name(value.dtype, name), tuple(value.shape)
        if (kind, shape) != (tensor.dtype, tensor.shape):
            raise CheckpointError(
                E.CHECKPOINT_MISMATCH,
                f"{name} is {describe(tensor.dtype, tensor.shape)} in the checkpoint and "
                f"{describe(kind, shape)} in the model; build it in the same sizes and dtypes",
            )


def _give(target: torch.Tensor, checkpoint: Checkpoint, tensor: Tensor, rank: int) -> None:
    """Reads a tensor into `target`; of a DTensor, this rank's part."""
    value = checkpoint.tensor(tensor, rank if rank in tensor.ranks() else 0).to(target.device)
    if isinstance(target, DTensor):
        placed = distribute_tensor(value, target.device_mesh, target.placements, src_data_rank=None)
        target.to_local().copy_(placed.to_local())
    else:
        target.copy_(value)


def _as_stored(target: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """`target` in the form that a run has of it, in the same memory."""
    if not target.dim() and tuple(shape) == (1,):
        return target.view(1)
    return as_pairs_of(target, shape)


def _count(states: Iterable[dict[str, Any]], steps: int) -> None:
    """Puts the number of steps where the optimizer counts them: in states or groups."""
    for own in states:
        if isinstance(own.get("step"), torch.Tensor):
            own["step"].fill_(steps)
        elif "step" in own:
            own["step"] = steps
