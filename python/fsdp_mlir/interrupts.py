"""Ctrl-C while a program of this package still imports what it needs.

It is imported before anything else, and imports what Python has loaded by then.
"""

import os
import sys


def say_interrupts() -> None:
    """From now on an interrupt that nobody takes, as one while modules are imported, ends the
    process with a line."""
    usual = sys.excepthook

    def hook(kind, error, trace):  # type: ignore[no-untyped-def]
        if issubclass(kind, KeyboardInterrupt):
            from .errors import interrupted

            os._exit(interrupted())
        usual(kind, error, trace)

    sys.excepthook = hook


def is_program() -> bool:
    """Whether this package is imported as that of the module that `python -m` names."""
    return getattr(sys, "argv", [])[:1] == ["-m"]
