"""Numbers in files of Arrow, by pyarrow: where they lie, and how they are shaped."""

from __future__ import annotations

from types import ModuleType
from typing import Any, Optional, Sequence

import numpy as np

from ..errors import E, ExportError
from ..untrusted import open_regular


def pyarrow() -> ModuleType:
    """The package, which is no requirement of this one.

    Raises:
        ExportError: it is not there.
    """
    try:
        import pyarrow as package
    except ImportError as error:
        raise ExportError(
            E.PACKAGE_MISSING,
            "Arrow and Parquet files are read with pyarrow, which is not installed; "
            "pip install pyarrow, or store the samples as safetensors",
        ) from error
    return package


def numbers_of(
    path: str, columns: Optional[Sequence[str]]
) -> list[dict[str, tuple[int, type, tuple[int, ...]]]]:
    """Of each record batch of an Arrow file (IPC file or stream), by the name of a column: the
    first byte of its numbers, their NumPy type, and its shape. The file is mapped, not read.

    Args:
        columns: which; all of them unless given.

    Raises:
        ExportError: it cannot be read, lacks a column, or one is not there as plain numbers.
    """
    pa = pyarrow()
    parts = []
    try:
        open_regular(path).close()
        with pa.memory_map(path) as source:
            bytes_ = source.size()
            address = source.read_buffer(1).address
            for batch in _batches(source):
                part = {}
                for name in columns or batch.schema.names:
                    what = f"column {name} of {path}"
                    if name not in batch.schema.names:
                        raise ExportError(E.DATA_MISSING, f"there is no {what}")
                    array, shape = row_major(batch.column(name), what)
                    begin = _place(array, address, bytes_, what)
                    part[name] = (begin, array.type.to_pandas_dtype(), shape)
                parts.append(part)
    except pa.ArrowInvalid as error:
        raise ExportError(E.DATA_FILE, f"{path} is no Arrow file; write it again") from error
    except OSError as error:
        raise ExportError(E.DATA_FILE, f"{path}: {error.strerror or error}") from error
    return parts


def _batches(source: Any) -> list[Any]:
    pa = pyarrow()
    source.seek(0)
    try:
        reader = pa.ipc.open_file(source)
        return [reader.get_batch(i) for i in range(reader.num_record_batches)]
    except pa.ArrowInvalid:
        source.seek(0)
        return list(pa.ipc.open_stream(source))


def _place(array: Any, address: int, bytes_: int, what: str) -> int:
    """The byte of a mapped file at which an array's numbers begin; ExportError where they are not
    there, since it is compressed."""
    data = array.buffers()[1]
    begin = data.address - address
    if not 0 <= begin <= begin + data.size <= bytes_:
        raise ExportError(
            E.DATA_FILE, f"{what} is compressed; write it without compression, or as Parquet"
        )
    return begin + array.offset * (array.type.bit_width // 8)


def row_major(array: Any, what: str) -> tuple[Any, tuple[int, ...]]:
    """The numbers of a column as one array without lists, and the shape that these give them.

    Raises:
        ExportError: something is missing, rows differ in length, or there are no numbers.
    """
    pa = pyarrow()
    shape = [len(array)]
    while True:
        if array.null_count:
            raise ExportError(
                E.DATA_FILE, f"{what} has rows without a value; fill them, or leave them out"
            )
        if pa.types.is_fixed_size_list(array.type):
            shape.append(array.type.list_size)
        elif pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
            lengths = np.unique(np.diff(array.offsets.to_numpy()))
            if len(lengths) > 1:
                raise ExportError(
                    E.DATA_FILE,
                    f"{what} has rows of {lengths[0]} to {lengths[-1]} numbers; shapes are static, "
                    "so pad them to one length",
                )
            shape.append(int(lengths[0]) if len(lengths) else 0)
        else:
            break
        array = array.flatten()
    if not (pa.types.is_integer(array.type) or pa.types.is_floating(array.type)):
        raise ExportError(E.DATA_FILE, f"{what} is of {array.type}; give numbers, or lists of them")
    return array, tuple(shape)
