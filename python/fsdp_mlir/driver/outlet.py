"""Standard output and error of a training, which may break before it ends."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any, Iterator, TextIO


class Outlet:
    """A stream whose disk may become full, or whose reader may leave. What is printed afterwards is
    lost, which a note on standard error says, and the run goes on, as that of `fsdp-run` does."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._broken = False

    def write(self, text: str) -> int:
        if not self._broken:
            try:
                self._stream.write(text)
                self._stream.flush()
            except OSError as error:
                self._break(error)
        return len(text)

    def flush(self) -> None:
        """Does nothing: each text was flushed when it was written."""

    def __getattr__(self, name: str) -> Any:
        """All else is the stream's own, such as `isatty`."""
        return getattr(self._stream, name)

    def _break(self, error: OSError) -> None:
        self._broken = True
        # What its buffer holds would be an error again where the program ends.
        null = os.open(os.devnull, os.O_WRONLY)
        with contextlib.suppress(OSError, ValueError):
            os.dup2(null, self._stream.fileno())
        os.close(null)
        print(
            f"note: nothing more is printed, and the run goes on: {error.strerror}", file=sys.stderr
        )


@contextlib.contextmanager
def outlets() -> Iterator[None]:
    """Within it, standard output and error are outlets."""
    out, err = Outlet(sys.stdout), Outlet(sys.stderr)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        yield
