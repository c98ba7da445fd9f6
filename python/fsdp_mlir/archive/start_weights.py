"""A start from weights of others: a `state_dict()` in whatever file it is, completed by what an
export knows besides (constants, buffers that no `state_dict()` has, example inputs)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Callable

import torch
from safetensors import SafetensorError, safe_open

from ..data.tensor_file import form_of
from ..dtypes import short_name
from ..errors import E, Identified, listed
from ..step.pairs import as_pairs_of
from ..untrusted import parse_json, require_regular
from .torch_file import load_plain
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
    theirs, notes = _without_wrapper(given, theirs, wanted)
    found = {
        fqn: next((name for name in (fqn, *state["aliases"]) if name in theirs), None)
        for fqn, state in wanted.items()
    }
    known = {name for fqn, state in wanted.items() for name in (fqn, *state["aliases"])}
    known |= {state["fqn"] for state in metadata["buffers"]}
    unexpected = [name for name in theirs if name not in known and not name.startswith("fsdp.")]
    if missing := [fqn for fqn, name in found.items() if name is None]:
        more = f"; it has {listed(unexpected)}, which the model has not" if unexpected else ""
        raise WeightsError(
            E.WEIGHTS_MISMATCH,
            f"{given} has no {listed(missing)}{more}; give the whole state_dict() of this model",
        )
    if unexpected:
        notes.append(f"{given} has {listed(unexpected)}, which the model has not")
    casts = []
    reads = dict(ours)
    for fqn, state in wanted.items():
        dtype = getattr(torch, state["dtype"])
        tensor = theirs[found[fqn]]()
        form = form_of(tensor)
        if form or tensor.is_complex() and not (dtype.is_complex or state["shape"][-1:] == [2]):
            raise WeightsError(
                E.WEIGHTS_MISMATCH,
                f"{found[fqn]} is {form or short_name(tensor.dtype)} in {given} and a dense "
                f"{short_name(dtype)} in the model; give weights of a model of the same types",
            )
        tensor = as_pairs_of(tensor, state["shape"])
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
        notes.append(f"{listed(casts)} are cast to the model's dtype")
    aliases = {alias: fqn for fqn, state in wanted.items() for alias in state["aliases"]}
    temporary = target.with_name(f".{target.name}")
    save_tensors(temporary, _Tensors(reads), aliases)
    temporary.replace(target)
    return notes


def _without_wrapper(
    given: Path, reads: dict[str, _Read], wanted: Mapping[str, Any]
) -> tuple[dict[str, _Read], list[str]]:
    """The tensors under the model's names, and a note, where one path stands before all of them:
    that of DDP, of torch.compile, or of a module that had the model as its child."""
    names = [(fqn, *state["aliases"]) for fqn, state in wanted.items()]
    ends = tuple(f".{name}" for name in names[0]) if names else ()
    heads = {name.removesuffix(end) + "." for name in reads for end in ends if name.endswith(end)}
    whole = [
        head for head in sorted(heads) if all(any(head + n in reads for n in own) for own in names)
    ]
    if any(all(name not in reads for name in own) for own in names) and len(whole) == 1:
        (head,) = whole
        named = {n.removeprefix(head): read for n, read in reads.items() if n.startswith(head)}
        return named, [f"names in {given} are taken without {head} before them"]
    return reads, []


def tensor_reads(path: Path) -> dict[str, _Read]:
    """How to read each tensor of `path`: a safetensors file, an index or a folder of some, or a
    file of `torch.save` with a `state_dict()`. Raises WeightsError."""
    try:
        if path.is_dir():
            indices = sorted(path.glob("*.safetensors.index.json"))
            return tensor_reads(indices[0]) if indices else _of_all(_files(path), {})
        require_regular(path)
        if path.suffix == ".json":
            return _of_index(path)
        if path.suffix == ".safetensors":
            file = safe_open(path, framework="pt")
            _check_each_once(path)
            return {name: lambda name=name: file.get_tensor(name) for name in file.keys()}
        return _saved(path)
    except (OSError, SafetensorError, RuntimeError, ValueError, KeyError) as error:
        text = " ".join(str(error).split())
        raise WeightsError(E.WEIGHTS_FILE, f"{path} cannot be read: {text}") from error


def _of_index(path: Path) -> dict[str, _Read]:
    """Reads the files that an index names for the tensors."""
    index = parse_json(path.read_bytes())
    places = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(places, dict) or not all(isinstance(name, str) for name in places.values()):
        raise ValueError("it has no weight_map, which says for each tensor the file that holds it")
    return _of_all([path.with_name(name) for name in sorted(set(places.values()))], places)


def _of_all(files: list[Path], places: Mapping[str, str]) -> dict[str, _Read]:
    """Reads several files; `places` has the file of each tensor that an index names."""
    reads: dict[str, _Read] = {}
    holders: dict[str, Path] = {}
    for file in files:
        for name, read in tensor_reads(file).items():
            if places.get(name, file.name) != file.name:
                continue
            if name in holders:
                raise WeightsError(
                    E.WEIGHTS_FILE,
                    f"{name} is in {holders[name]} and in {file.name}; leave one of them out of the "
                    "folder, or write an index that says which one holds it",
                )
            reads[name], holders[name] = read, file
    return reads


def _check_each_once(path: Path) -> None:
    """Raises WeightsError where the header of a safetensors file names a tensor twice, of which its
    library takes the last."""

    def once(pairs: list[tuple[str, Any]]) -> None:
        names: set[str] = set()
        for name, _ in pairs:
            if name in names:
                raise WeightsError(
                    E.WEIGHTS_FILE, f"{path} has {name} twice in its header; write it again"
                )
            names.add(name)

    with open(path, "rb") as file:
        json.loads(file.read(int.from_bytes(file.read(8), "little")), object_pairs_hook=once)


def _files(folder: Path) -> list[Path]:
    files = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("pytorch_model*.bin"))
    if not files:
        raise WeightsError(
            E.WEIGHTS_FILE, f"{folder} has no safetensors files; give a file of weights"
        )
    return files


def _saved(path: Path) -> dict[str, _Read]:
    """Reads the tensors of a file of `torch.save`, and runs nothing in it."""
    try:
        content = load_plain(path)
    except ValueError as error:
        raise WeightsError(
            E.WEIGHTS_FILE,
            f"{path} is no file of tensors alone: {error}; save model.state_dict() with torch.save",
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
