"""The driver's flags in a TOML file: `--config FILE`, and what a run leaves in OUT/run.toml.

A key is a flag without its dashes. `pipeline` is a table of the compiler's options, and `step` the
step file with its own flags.
"""

from __future__ import annotations

import argparse
import json
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterable, Mapping, Optional, Sequence

from ..errors import E, Identified
from ..options import nearest
from .pipeline import option


class SettingsError(Identified):
    """A file that does not say what the driver can do."""


@dataclass
class Settings:
    """A file's flags by name, the compiler's options, and the step file with its own flags."""

    flags: dict[str, Any] = field(default_factory=dict)
    pipeline: dict[str, str] = field(default_factory=dict)
    step: list[str] = field(default_factory=list)

    def forget(self, *names: str) -> None:
        """Flags that the command line says otherwise."""
        for name in names:
            self.flags.pop(name, None)

    def forget_options(self, names: Iterable[str]) -> None:
        """Options of the compiler that the command line says otherwise."""
        for name in names:
            self.pipeline.pop(name, None)


@dataclass(frozen=True)
class Origin:
    """The settings that a run takes from its file and not from a flag, as patterns for texts of errors."""

    path: Optional[Path] = None
    patterns: tuple[str, ...] = ()

    @staticmethod
    def of(path: Path, settings: Settings, own: Iterable[str]) -> Origin:
        """`own` are the words of the command line."""
        given = {word.partition("=")[0] for word in own}
        words = [f"--{key}" for key in settings.flags if f"--{key}" not in given]
        words += [f"option {name}" for name in settings.pipeline]
        patterns = [rf"{re.escape(word)}(?![\w-])" for word in words]
        patterns += [f"{re.escape(name)}=" for name in settings.pipeline]
        return Origin(path, tuple(patterns))

    def located(self, message: str) -> str:
        """An error, behind the name of the file where that says what is wrong. What stands behind a
        semicolon is how to mend it."""
        wrong = message.partition(";")[0]
        is_of_file = any(re.search(rf"(?<![\w-]){pattern}", wrong) for pattern in self.patterns)
        return f"--config {self.path}: {message}" if is_of_file else message


def read_settings(path: Path, known: Mapping[str, argparse.Action]) -> Settings:
    """What a file says; `known` are the flags that there are.

    Raises:
        SettingsError: it cannot be read, is no TOML, or has a key that is no flag.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8", errors="surrogateescape"))
    except OSError as error:
        raise SettingsError(E.SETTINGS_FILE, f"--config {path}: {error.strerror}") from error
    except ValueError as error:
        raise SettingsError(E.SETTINGS_FILE, f"--config {path}: {error}") from error
    settings = Settings()
    for key, value in values.items():
        if key == "pipeline":
            settings.pipeline = _options(path, value)
        elif key == "step":
            settings.step = _words(path, value)
        elif key in known:
            settings.flags[key] = _checked(path, key, value, known[key])
        else:
            near = nearest(key, [*known, "pipeline", "step"])
            raise SettingsError(
                E.FLAG, f"--config {path}: there is no flag --{key}; the nearest is {near!r}"
            )
    return settings


def _options(path: Path, value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise SettingsError(
            E.SETTINGS_FILE, f"--config {path}: pipeline is a table of options, as in [pipeline]"
        )
    return {
        key: str(given).lower() if isinstance(given, bool) else str(given)
        for key, given in value.items()
    }


def _words(path: Path, value: Any) -> list[str]:
    if not isinstance(value, list) or not value:
        raise SettingsError(
            E.SETTINGS_FILE, f'--config {path}: step is a list, as in ["STEP.py", "--lr", "0.1"]'
        )
    return [str(word) for word in value]


def _checked(path: Path, key: str, value: Any, action: argparse.Action) -> Any:
    is_switch = action.nargs == 0 or (action.nargs == "?" and isinstance(value, bool))
    if isinstance(value, bool) != is_switch or isinstance(value, (dict, list)):
        kind = "true or false" if is_switch else "one value"
        raise SettingsError(E.SETTINGS_FILE, f"--config {path}: {key} takes {kind}")
    return value


def as_flags(settings: Settings) -> list[str]:
    """The settings as a command line, without the step file."""
    words = [
        f"--{key}" if value is True else f"--{key}={value}"
        for key, value in settings.flags.items()
        if value is not False
    ]
    if settings.pipeline:
        options = " ".join(option(name, value) for name, value in settings.pipeline.items())
        words.append(f"--pipeline={options}")
    return words


def write_settings(
    path: Path, args: argparse.Namespace, known: Mapping[str, argparse.Action]
) -> None:
    """Writes all flags of a run, those that were not given as well, for --config to read."""
    lines = ["# The flags of this run; python -m fsdp_mlir.train --config reads them again.", ""]
    lines.append(f"step = {_toml([str(args.step_file), *args.argv])}")
    for key, action in known.items():
        value = getattr(args, action.dest)
        if key == "pipeline" or value is None:
            continue
        if action.nargs == 0 or value == action.const:
            value = value == action.const
        lines.append(f"{key} = {_toml(value)}")
    lines += ["", "[pipeline]"]
    lines += [f"{name} = {_toml(value)}" for name, value in args.pipeline.items()]
    # A name of a file may be bytes that are no text, at least to this locale.
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", errors="surrogateescape")


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(_toml, value)) + "]"
    # A JSON string is a TOML one, but for this character.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
