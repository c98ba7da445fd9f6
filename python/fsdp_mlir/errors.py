"""What a user is meant to read: exceptions, each with its identifier, and notes."""

from __future__ import annotations

import argparse
import contextlib
import contextvars
import difflib
import errno
import io
import os
import re
import shlex
import signal
import sys
import warnings
from typing import Any, Callable, Iterator, NoReturn, Optional, Sequence

from .error_kinds import E


def identified(kind: E, message: str) -> str:
    """`message` as it is printed: with its identifier behind it (docs/errors.md)."""
    return f"{message} [{kind.identifier}]"


def unidentified(text: str) -> str:
    """`text` without the identifier at its end, for another error to quote."""
    return re.sub(r" \[FSDP-E[0-9]+\]$", "", text)


def kind_of(error: OSError) -> E:
    """The kind of a file's error: it could not be written, or could not be read."""
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
    return E.FILE_UNWRITABLE if is_full else E.FILE_UNREADABLE


def listed(names: Sequence[str]) -> str:
    """The names, of which there may be thousands, as a message has them."""
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


class Identified(Exception):
    """An exception whose kind is looked up by its identifier, which `str()` puts behind the text.

    Attributes:
        kind: an entry of docs/errors.md; None where the text is what a program said, which has
            its identifier in it.
        message: the text without the identifier, to be quoted by another error.
    """

    def __init__(self, kind: Optional[E], message: str) -> None:
        super().__init__(kind, message)
        if not isinstance(kind, (E, type(None))):
            raise TypeError(f"an error begins with its kind, and not with {kind!r}")
        self.kind = kind
        self.message = message

    def __str__(self) -> str:
        return self.message if self.kind is None else identified(self.kind, self.message)


class ExportError(Identified, ValueError):
    """A step that cannot be exported: what, where, and how to mend it.

    The message is one line, lower case, without a full stop. It is a ValueError, which is what
    FSDP2 raises for most of what it refuses.
    """


class ExportNote(UserWarning):
    """Something that a user should know of a step, and need not change."""


def interrupted() -> int:
    """Says so, and gives the status to end with."""
    print(f"error: {identified(E.STOPPED, 'interrupted')}", file=sys.stderr, flush=True)
    return 128 + signal.SIGINT


def exit_with(main: Callable[[], int]) -> NoReturn:
    """Ends the process with the status of a command. What it prints may be read in part, or not be
    written at all; names may have bytes that are no text."""
    if sys.stdout is None:  # closed by whoever began this process
        sys.stdout = open(os.devnull, "w")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    status: Any
    try:
        try:
            status = main()
        except SystemExit as ended:  # behind --help
            status = ended.code
        except KeyboardInterrupt:
            status = interrupted()
        sys.stdout.flush()
    except BrokenPipeError:
        status = 128 + signal.SIGPIPE
    except OSError as error:
        text = identified(E.FILE_UNWRITABLE, f"the output cannot be written: {error.strerror}")
        print(f"error: {text}", file=sys.stderr)
        status = 1
    else:
        sys.exit(status)
    # What is left in the buffer has nowhere to go.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(status)


_said: contextvars.ContextVar[Optional[set[str]]] = contextvars.ContextVar("said", default=None)


@contextlib.contextmanager
def each_said_once() -> Iterator[None]:
    """Within it, `warn` and `note` say a text once. Python's own filters forget what was said
    whenever a library changes them, and the programs of a step have much in common."""
    before = _said.set(set())
    try:
        yield
    finally:
        _said.reset(before)


def warn(text: str, category: type[Warning] = UserWarning, stacklevel: int = 1) -> None:
    """Says `text` as a warning."""
    said = _said.get()
    if said is not None:
        if text in said:
            return
        said.add(text)
    warnings.warn(text, category, stacklevel=stacklevel + 1)


def note(text: str) -> None:
    """Says `text` where warnings are said, as a note."""
    warn(text, ExportNote, stacklevel=2)


class RunError(Identified, RuntimeError):
    """A plan that cannot be loaded or run here: what, and how to mend it."""


class BatchError(RunError, ValueError):
    """A batch that is not what the plan reads. The step was not taken."""


class RankFailure(RunError):
    """Another rank failed, or left: what this one reports is a consequence."""


class ArgumentParser(argparse.ArgumentParser):
    """A parser whose errors have identifiers, and name the flag nearest to an unknown one."""

    _located: Callable[[str], str] = staticmethod(str)

    @contextlib.contextmanager
    def saying(self, located: Callable[[str], str]) -> Iterator[None]:
        """Errors inside say where their flags stand: `located` puts that in front of a message."""
        self._located = located
        try:
            yield
        finally:
            del self._located

    def error(self, message: str, kind: E = E.FLAG) -> NoReturn:
        super().error(identified(kind, self._located(message) + self._hint(message)))

    def parse_known_args(  # type: ignore[override]
        self, args: Optional[Sequence[str]] = None, namespace: Optional[Any] = None
    ) -> tuple[Any, list[str]]:
        self._given = list(sys.argv[1:] if args is None else args)
        return super().parse_known_args(args, namespace)

    def _hint(self, message: str) -> str:
        if choice := re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message):
            close = difflib.get_close_matches(choice[1], re.findall(r"[\w-]+", choice[2]), n=1)
            return f"; the nearest is {close[0]}" if close else ""
        known = self._flags()
        if flag := re.match(r"unrecognized arguments: (-[^\s=]+)", message):
            close = difflib.get_close_matches(flag[1], known, n=1)
            return f"; the nearest is {close[0]}" if close else ""
        if flag := re.match(r"argument (\S+): expected one argument", message):
            after = self._given[self._given.index(flag[1]) + 1 :] if flag[1] in self._given else []
            return f"; write {flag[1]}={shlex.quote(after[0])}" if after else ""
        if "are required" in message:
            # Perhaps it is there, by another name.
            for word in (given.partition("=")[0] for given in self._given):
                if word.startswith("--") and word not in known:
                    close = difflib.get_close_matches(word, known, n=1)
                    if close:
                        return f"; there is no flag {word}, the nearest is {close[0]}"
            for action in self._actions:
                if action.required and action.choices and message.endswith(f": {action.metavar}"):
                    return f"; it is one of {', '.join(map(str, action.choices))}"
        return ""

    def _flags(self) -> list[str]:
        """All that there are, those of commands among them."""
        known = []
        for action in self._actions:
            known += action.option_strings
            if isinstance(action, argparse._SubParsersAction):
                for command in action.choices.values():
                    known += command._flags()
        return known
