"""The archive file: a TorchScript zip whose every record is listed with its digest."""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from typing import Any, Mapping

import torch

from ..errors import E, ExportError
from ..step.places import at_line

# The version of `fsdp.json` (docs/archive.md).
FORMAT_VERSION = 10
# An instance of __torch__.Step without attributes, and an empty tuple of constants, as pickles.
_OBJECT = b"\x80\x02c__torch__\nStep\n)\x81}(X\x08\x00\x00\x00training\x88ub."
_NO_CONSTANTS = b"\x80\x02)."
_CLASS = "class Step(Module):\n  __parameters__ = []\n  __buffers__ = []\n  training : bool\n"


def serialise(metadata: Mapping[str, Any]) -> bytes:
    """`fsdp.json` in the one spelling over which its digest is taken."""

    def spelled(of: Any) -> str:
        return json.dumps(of, sort_keys=True, separators=(",", ":"), ensure_ascii=True)

    text = spelled(metadata)
    if "\\udc" in text:
        # A file's name may have bytes that are not text in this locale, which JSON cannot hold.
        plain = json.dumps(metadata, ensure_ascii=False)
        text = spelled(
            json.loads(plain.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
        )
    return text.encode()


def build_archive(sources: Mapping[str, str], metadata: dict[str, Any]) -> bytes:
    """The archive with the methods `sources` and the extra file `fsdp.json`.

    `metadata` is completed with the digests. The same step gives the same bytes.

    Raises:
        ExportError: TorchScript reads the methods otherwise than `metadata` describes them.
    """
    code = _CLASS + "\n".join(sources[name] for name in sorted(sources))
    records = {
        # Operators whose meaning changed over time are upgraded below this number.
        "version": f"{torch._C._get_max_operator_version()}\n".encode(),
        "byteorder": b"little",
        "data.pkl": _OBJECT,
        "constants.pkl": _NO_CONSTANTS,
        "code/__torch__.py": code.encode(),
    }
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in records.items()}
    metadata["sha256"] = {"records": digests, "metadata": ""}
    metadata["sha256"]["metadata"] = hashlib.sha256(serialise(metadata)).hexdigest()
    archive = _zip({**records, "extra/fsdp.json": serialise(metadata)})
    _check(archive, metadata)
    return archive


def _zip(records: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as file:
        for name, data in records.items():
            # A fixed date: the same step gives the same file.
            file.writestr(zipfile.ZipInfo(f"step/{name}", (1980, 1, 1, 0, 0, 0)), data)
    return buffer.getvalue()


def _check(archive: bytes, metadata: Mapping[str, Any]) -> None:
    """Loads the archive as its readers do, and compares each node with its description."""
    try:
        module = torch.jit.load(io.BytesIO(archive))
    except RuntimeError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        call = next((line for line in lines if re.search(r"(torch|ops)\.\w+", line)), "")
        raise ExportError(
            E.ARCHIVE_VALUE, f"TorchScript cannot hold the step: {lines[0]} ({call})"
        ) from error
    skipped = {
        *("prim::Constant", "prim::ListConstruct", "prim::ListUnpack", "prim::TupleConstruct"),
        "aten::item",  # the number that a tensor holds, where a call takes it
    }
    rules = {rule["method"]: rule for rule in metadata["optimizer"]["rules"]}
    for name, program in {**metadata["programs"], **rules}.items():
        # Not getattr: every module in Python has a method `eval` of its own.
        graph = module._c._get_method(name).graph
        nodes = [n for n in graph.nodes() if n.kind() not in skipped]
        described = program["nodes"]
        for node, entry in zip(nodes, described):
            wanted = entry["op"] + (f".{entry['overload']}" if entry["overload"] else "")
            found = node.schema().split("(")[0]
            if found != wanted:
                what = f"TorchScript reads the op {wanted} as {found}"
                raise ExportError(E.ARCHIVE_CONTENTS, at_line(entry["source"], what))
        if len(nodes) != len(described):
            raise ExportError(
                E.ARCHIVE_CONTENTS,
                f"TorchScript keeps {len(nodes)} of the {len(described)} nodes of {name}",
            )
