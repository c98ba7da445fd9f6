"""Files that a stranger may have made or may be waiting for, as runtime/plan/Files.h treats them."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from pathlib import Path
from typing import Any, BinaryIO, Optional, Union

# Of a safetensors file: a longer one is none, for the runtime neither
# (runtime/data/SafeTensorsFile.cpp).
MOST_HEADER_BYTES = 100_000_000

_Path = Union[str, "os.PathLike[str]"]


def open_regular(path: _Path) -> BinaryIO:
    """Opens a regular file to read its bytes. It fails at once for anything else: a FIFO waits
    for its writer, and a device may have no end.

    Raises:
        OSError: it cannot be opened, or is no regular file.
    """
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    kind = os.fstat(file).st_mode
    if stat.S_ISREG(kind):
        return os.fdopen(file, "rb")
    os.close(file)
    if stat.S_ISDIR(kind):
        raise OSError(errno.EISDIR, "it is a folder", os.fspath(path))
    raise OSError(errno.EINVAL, "it is not a regular file", os.fspath(path))


def require_regular(path: _Path) -> None:
    """Raises OSError, as open_regular(), for what libraries are to open by its name."""
    open_regular(path).close()


def read_regular(path: _Path, most: int) -> bytes:
    """The bytes of a regular file.

    Raises:
        OSError: as of open_regular(), or it has more than `most` bytes.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise OSError(errno.EFBIG, f"its {size} bytes are more than {most}", os.fspath(path))
        return file.read(size)


def parse_json(text: Union[str, bytes]) -> Any:
    """What JSON says.

    Raises:
        ValueError: it is no JSON, or brackets in it are nested too deep.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("its brackets are nested too deep") from error


# What is not seen, is no character, or turns the direction of what stands behind it; but for tabs
# and line ends.
_UNSEEN = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def seen(value: str) -> str:
    """Text with what would not be seen as an escape of Python's: `\\u202e`. A terminal would obey
    some of it."""
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), value)


def descriptor_at(path: _Path) -> Optional[int]:
    """The descriptor of this process that a path leads to, as /dev/stdout does, also where that is a
    file: renaming would replace the link itself, for all who use it."""
    own, here = os.path.realpath("/proc/self/fd"), os.fspath(path)
    for _ in range(40):  # as many links as the kernel follows
        folder, name = os.path.split(os.path.abspath(here))
        folder = os.path.realpath(folder)
        if folder == own and name.isdecimal():
            return int(name)
        try:
            here = os.path.join(folder, os.readlink(os.path.join(folder, name)))
        except OSError:
            return None
    return None


def open_to_write(path: _Path) -> BinaryIO:
    """Opens what is there, such as a device, a pipe or a descriptor of this process, to write bytes
    to it. It does not wait for the reader of a FIFO.

    Raises:
        OSError: it cannot be opened, or nobody reads from it.
    """
    if (descriptor := descriptor_at(path)) is not None:
        return os.fdopen(os.dup(descriptor), "wb")
    try:
        file = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        why = "nobody reads from this pipe; start what reads it first"
        raise OSError(errno.ENXIO, why, os.fspath(path)) from error
    os.set_blocking(file, True)
    return os.fdopen(file, "wb")


def make_file(path: _Path) -> BinaryIO:
    """A new file to write bytes to. What has its name is removed, and a link not followed: nobody
    can lead the writer to another file.

    Raises:
        OSError: it cannot be made.
    """
    Path(path).unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o666), "wb")
