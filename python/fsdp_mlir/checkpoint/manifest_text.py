"""The text of a manifest, `checkpoint.json`.

The runtime reads and writes the same (runtime/state/CheckpointFormat.cpp).
"""

from __future__ import annotations

import json
import math
from typing import Any

from ..untrusted import parse_json
from . import elements
from .errors import E, CheckpointError, Damage
from .folder import MANIFEST, MOST_STEPS
from .manifest import (
    BLOCK_BYTES,
    MOST_RANKS,
    ROLES,
    Chunk,
    File,
    Loader,
    Manifest,
    Run,
    Tensor,
    hash_of,
    is_covered,
)

FORMAT = "fsdp-mlir checkpoint"
VERSION = 1


def json_number(value: float) -> float | str:
    """Text for what JSON lacks: infinity and NaN."""
    return value if math.isfinite(value) else str(value)


def write_manifest(manifest: Manifest) -> bytes:
    """The text of the file. The hash of all that follows stands at its beginning."""
    run = vars(manifest.run) | {
        "epoch_losses": [json_number(loss) for loss in manifest.run.epoch_losses],
        "metrics": {name: json_number(value) for name, value in manifest.run.metrics.items()},
    }
    content = {
        "format": FORMAT,
        "version": VERSION,
        "run": run,
        "plan": manifest.plan,
        "mesh": [{"name": name, "size": size} for name, size in manifest.mesh],
        "hash_block_bytes": BLOCK_BYTES,
        "files": [vars(file) for file in manifest.files],
    }
    if manifest.loaders:
        content["loaders"] = [vars(loader) for loader in manifest.loaders]
    content["tensors"] = [_tensor_json(tensor) for tensor in manifest.tensors]
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False)[1:].encode() + b"\n"
    return _hash_field(text) + text


def _hash_field(text: bytes) -> bytes:
    return b'{"xxh3_64":"' + hash_of(text).encode() + b'",'


def _tensor_json(tensor: Tensor) -> dict[str, Any]:
    """The fields of a tensor; those that have their defaults are left out."""
    result: dict[str, Any] = {"name": tensor.name, "role": tensor.role}
    if tensor.parameter:
        result["parameter"] = tensor.parameter
    if tensor.aliases:
        result["aliases"] = tensor.aliases
    result |= {"dtype": tensor.dtype, "shape": tensor.shape}
    if tensor.per_rank:
        result["per_rank"] = True
    result["chunks"] = [_chunk_json(chunk) for chunk in tensor.chunks]
    return result


def _chunk_json(chunk: Chunk) -> dict[str, Any]:
    result: dict[str, Any] = {"file": chunk.file, "begin": chunk.begin, "length": chunk.length}
    if chunk.repeat != 1:
        result |= {"repeat": chunk.repeat, "stride": chunk.stride}
    if chunk.rank:
        result["rank"] = chunk.rank
    return result | {"hashes": chunk.hashes}


def read_manifest(text: bytes, name: str) -> Manifest:
    """The manifest that `text` is. `name` is what messages call it.

    Raises:
        Damage: the text is not what was written.
        CheckpointError: it is of another kind or version.
    """
    if not text.startswith(b'{"xxh3_64":"'):
        raise Damage(f"{name} is no manifest of a checkpoint, or its beginning is damaged")
    prefix = len(_hash_field(b""))
    if text[:prefix] != _hash_field(text[prefix:]):
        raise Damage(f"{name} is damaged: its hash is not that of its text")
    # Whoever wrote what follows meant it; it may still be of another version.
    try:
        return _manifest_of(parse_json(text))
    except CheckpointError as error:
        raise CheckpointError(error.kind, f"{name} cannot be read: {error.message}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise CheckpointError(E.CHECKPOINT_DAMAGED, f"{name} cannot be read: {reason}") from error


def _manifest_of(content: dict[str, Any]) -> Manifest:
    if content["format"] != FORMAT:
        raise CheckpointError(E.CHECKPOINT_DAMAGED, "it is another kind of file")
    if content["version"] != VERSION:
        raise CheckpointError(
            E.CHECKPOINT_VERSION,
            f"it has version {content['version']}, this program reads version {VERSION}",
        )
    if content["hash_block_bytes"] != BLOCK_BYTES:
        raise CheckpointError(E.CHECKPOINT_DAMAGED, "its hashes are of blocks of another size")
    manifest = Manifest(
        run=_run_of(content["run"]),
        plan=_typed(content, "plan", str),
        mesh=tuple((_typed(d, "name", str), _typed(d, "size", int)) for d in content["mesh"]),
        files=tuple(
            File(
                name=_typed(file, "name", str),
                bytes=_typed(file, "bytes", int),
                header_bytes=_typed(file, "header_bytes", int),
                header_hash=_typed(file, "header_hash", str),
            )
            for file in content["files"]
        ),
        tensors=tuple(map(_tensor_of, content["tensors"])),
        loaders=tuple(
            Loader(
                rank=_typed(loader, "rank", int),
                bytes=_typed(loader, "bytes", int),
                hash=_typed(loader, "hash", str),
            )
            for loader in content.get("loaders", ())
        ),
    )
    _check(manifest)
    return manifest


def _checked(value: Any, kind: type, what: str) -> Any:
    """`value`, of that type; a number of 64 bits."""
    if type(value) is not kind or (kind is int and not -(2**63) <= value < 2**63):
        raise CheckpointError(E.CHECKPOINT_DAMAGED, f"{what} is {json.dumps(value)}")
    return value


def _typed(content: dict[str, Any], key: str, kind: type, default: Any = None) -> Any:
    """A field, which may be left out where it has a default."""
    if default is not None and key not in content:
        return default
    return _checked(content[key], kind, key)


def _list(content: dict[str, Any], key: str, kind: type) -> tuple[Any, ...]:
    return tuple(_checked(member, kind, key) for member in content[key])


def _run_of(content: dict[str, Any]) -> Run:
    counts = ("step", "seed", "epoch", "samples_in_epoch", "samples", "epoch_steps")
    return Run(
        **{key: _typed(content, key, int) for key in counts},
        epoch_losses=tuple(map(float, content["epoch_losses"])),
        metrics={key: float(value) for key, value in content["metrics"].items()},
    )


def _chunk_of(content: dict[str, Any]) -> Chunk:
    return Chunk(
        file=_typed(content, "file", int),
        begin=_typed(content, "begin", int),
        length=_typed(content, "length", int),
        repeat=_typed(content, "repeat", int, 1),
        stride=_typed(content, "stride", int, 0),
        rank=_typed(content, "rank", int, 0),
        hashes=_list(content, "hashes", str),
    )


def _tensor_of(content: dict[str, Any]) -> Tensor:
    tensor = Tensor(
        name=_typed(content, "name", str),
        role=_typed(content, "role", str),
        dtype=_typed(content, "dtype", str),
        shape=_list(content, "shape", int),
        parameter=_typed(content, "parameter", str, ""),
        aliases=_list(content, "aliases", str) if "aliases" in content else (),
        per_rank=_typed(content, "per_rank", bool, False),
        chunks=tuple(map(_chunk_of, content["chunks"])),
    )
    if tensor.dtype not in elements.NAMES:
        raise CheckpointError(
            E.CHECKPOINT_DAMAGED, f"{tensor.name} has the unknown dtype {tensor.dtype}"
        )
    if min(tensor.shape, default=0) < 0:
        raise CheckpointError(
            E.CHECKPOINT_DAMAGED, f"{tensor.name} has the shape {list(tensor.shape)}"
        )
    if tensor.role not in ROLES:
        raise CheckpointError(
            E.CHECKPOINT_DAMAGED, f"{tensor.name} has the unknown role {tensor.role}"
        )
    return tensor


def _check(manifest: Manifest) -> None:
    """Raises CheckpointError where chunks are not all of a tensor, each element once."""
    for what, number in vars(manifest.run).items():
        if type(number) is int and what != "seed" and not 0 <= number <= MOST_STEPS:
            raise CheckpointError(E.CHECKPOINT_DAMAGED, f"{what} is {number}")
    if min([1, *(size for _, size in manifest.mesh)]) < 1 or manifest.ranks > MOST_RANKS:
        raise CheckpointError(E.CHECKPOINT_DAMAGED, f"its mesh is of {manifest.ranks} ranks")
    for file in manifest.files:
        if "/" in file.name or "\0" in file.name or file.name in ("", ".", "..", MANIFEST):
            raise CheckpointError(
                E.CHECKPOINT_DAMAGED, f"its file {file.name!r} is not in the checkpoint's folder"
            )
    for loader in manifest.loaders:
        if not 0 <= loader.rank < manifest.ranks:
            raise CheckpointError(
                E.CHECKPOINT_DAMAGED,
                f"it has a loader of rank {loader.rank}, and its mesh is of {manifest.ranks} ranks",
            )
    names = [tensor.name for tensor in manifest.tensors]
    if len({*names}) < len(names):
        raise CheckpointError(E.CHECKPOINT_DAMAGED, "it has two tensors of one name")
    for tensor in manifest.tensors:
        for chunk in tensor.chunks:
            if not _fits(chunk, tensor, len(manifest.files)):
                raise CheckpointError(
                    E.CHECKPOINT_DAMAGED, f"a chunk of {tensor.name} lies outside of it"
                )
        ranks = tensor.ranks()
        # A rank that was not there begins with rank 0's value.
        if ranks[:1] != [0] or ranks[-1] >= manifest.ranks:
            raise CheckpointError(
                E.CHECKPOINT_DAMAGED,
                f"{tensor.name} has values of the ranks {ranks}, and the mesh is of "
                f"{manifest.ranks} ranks",
            )
        for rank in ranks:
            if not is_covered(tensor, rank):
                raise CheckpointError(
                    E.CHECKPOINT_DAMAGED,
                    f"the chunks of {tensor.name} are not all of it, each once",
                )


def _fits(chunk: Chunk, tensor: Tensor, files: int) -> bool:
    last = chunk.begin + chunk.stride * (chunk.repeat - 1)
    blocks = -(-chunk.count * elements.element_bytes(tensor.dtype) // BLOCK_BYTES)
    return (
        0 <= chunk.file < files
        and chunk.begin >= 0
        and chunk.length > 0
        and chunk.repeat > 0
        and (chunk.repeat == 1 or chunk.stride >= chunk.length)
        and last + chunk.length <= tensor.count
        and len(chunk.hashes) == blocks
    )
