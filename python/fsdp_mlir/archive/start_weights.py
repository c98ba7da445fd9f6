"""A start from weights of others: a `state_dict()` in whatever file it is, completed by what an
export knows besides (constants, buffers that no `state_dict()` has, example inputs)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Callable

import torch
from safetensors import SafetensorError, safe_open

from ..errors import E, Identified
from ..step.pairs import as_pairs_of
from .weights import save_tensors

_Read = Callable[[], torch.Tensor]
# What scripts call the state_dict among what else they save.
_KEYS = ("state_dict", "model", "model_state_dict")


class WeightsError(Identified):
    """Weights that do not fit the model: the fact, then the fix."""


class _Tensors(Mapping[str, torch.Tensor]):
    """Tensors by name, each read when it is asked for, so that one at a time is in memory."""

    def __init__(self, reads: dict[str, _Read]) -> None:
        self._reads = reads

    def __getitem__(self, name: str) -> torch.Tensor:
        return self._reads[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._reads)

    def __len__(self) -> int:
        return len(self._reads)


def compose(given: Path, exported: Path, metadata: Mapping[str, Any], target: Path) -> list[str]:
    """Writes to `target` the weights of `given` and, from `exported`, what they do not have to have.

    Args:
        given: a safetensors file, a folder of them (with an index, as Hugging Face's, or without),
            or a file of `torch.save` with a `state_dict()`, alone or as `state_dict` or `model`.
        exported: the weights file of an export.
        metadata: the archive's fsdp.json.

    Returns what a user should know: names that the model has not, tensors that are cast.

    Raises:
        WeightsError: a file cannot be read, a name of the model is missing, or a shape differs.
    """
    ours, theirs = tensor_reads(exported), tensor_reads(given)
    wanted = {state["fqn"]: state for state in metadata["parameters"]}
    wanted |= {state["fqn"]: state for state in metadata["buffers"] if state["persistent"]}
    found = {
        fqn: next((name for name in (fqn, *state["aliases"]) if name in theirs), None)
        for fqn, state in wanted.items()
    }
    known = {name for fqn, state in wanted.items() for name in (fqn, *state["aliases"])}
    known |= {state["fqn"] for state in metadata["buffers"]}
    unexpected = [name for name in theirs if name not in known and not name.startswith("fsdp.")]
    if missing := [fqn for fqn, name in found.items() if name is None]:
        more = f"; it has {_list(unexpected)}, which the model has not" if unexpected else ""
        raise WeightsError(
            E.WEIGHTS_MISMATCH,
            f"{given} has no {_list(missing)}{more}; give the whole state_dict() of this model",
        )
    notes = [f"{given} has {_list(unexpected)}, which the model has not"] if unexpected else []
    casts = []
    reads = dict(ours)
    for fqn, state in wanted.items():
        dtype = getattr(torch, state["dtype"])
        tensor = as_pairs_of(theirs[found[fqn]](), state["shape"])
        if list(tensor.shape) != state["shape"]:
            raise WeightsError(
                E.WEIGHTS_MISMATCH,
                f"{found[fqn]} has shape {list(tensor.shape)} in {given} and {state['shape']} in "
                "the model; give weights of a model of the same sizes",
            )
        if tensor.dtype != dtype:
            casts.append(fqn)
        reads[fqn] = lambda read=theirs[found[fqn]], shape=state["shape"], dtype=dtype: (
            as_pairs_of(read(), shape).to(dtype)
        )
    if casts:
        notes.append(f"{_list(casts)} are cast to the model's dtype")
    aliases = {alias: fqn for fqn, state in wanted.items() for alias in state["aliases"]}
    temporary = target.with_name(f".{target.name}")
    save_tensors(temporary, _Tensors(reads), aliases)
    temporary.replace(target)
    return notes


def _list(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def tensor_reads(path: Path) -> dict[str, _Read]:
    """How to read each tensor of `path`: a safetensors file, an index or a folder of some, or a
    file of `torch.save` with a `state_dict()`. Raises WeightsError."""
    try:
        if path.is_dir():
            return {
                name: read for file in _files(path) for name, read in tensor_reads(file).items()
            }
        if path.suffix == ".json":
            return {
                name: read for file in _indexed(path) for name, read in tensor_reads(file).items()
            }
        if path.suffix == ".safetensors":
            file = safe_open(path, framework="pt")
            return {name: lambda name=name: file.get_tensor(name) for name in file.keys()}
        return _saved(path)
    except (OSError, SafetensorError, RuntimeError, ValueError, KeyError) as error:
        text = " ".join(str(error).split())
        raise WeightsError(E.WEIGHTS_FILE, f"{path} cannot be read: {text}") from error


def _files(folder: Path) -> list[Path]:
    indices = sorted(folder.glob("*.safetensors.index.json"))
    files = _indexed(indices[0]) if indices else sorted(folder.glob("*.safetensors"))
    files = files or sorted(folder.glob("pytorch_model*.bin"))
    if not files:
        raise WeightsError(
            E.WEIGHTS_FILE, f"{folder} has no safetensors files; give a file of weights"
        )
    return files


def _indexed(index: Path) -> list[Path]:
    places = json.loads(index.read_text())["weight_map"]
    return [index.with_name(name) for name in sorted(set(places.values()))]


def _saved(path: Path) -> dict[str, _Read]:
    """Of a file of `torch.save`, of which only tensors are read: nothing in it is run."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:  # pickle's errors are of many types
        raise WeightsError(
            E.WEIGHTS_FILE,
            f"{path} is no file of tensors alone; save model.state_dict() with torch.save",
        ) from error
    for key in _KEYS:
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
    tensors = {} if not isinstance(content, dict) else content
    tensors = {name: t for name, t in tensors.items() if isinstance(t, torch.Tensor)}
    if not tensors:
        raise WeightsError(
            E.WEIGHTS_FILE, f"{path} has no state_dict; save model.state_dict() with torch.save"
        )
    return {name: lambda tensor=tensor: tensor for name, tensor in tensors.items()}
