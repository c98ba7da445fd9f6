"""What a step file says to the driver besides its training step."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any, Sequence

from ..errors import E
from .stages import StageError


def constants(step_file: Path) -> dict[str, Any]:
    """What a step file says to the driver, read without running it: names set
    to literals at top level, and the functions it defines (as True)."""
    try:
        tree = ast.parse(step_file.read_bytes())
    except (SyntaxError, ValueError):
        return {}  # the export says what is wrong with it
    found: dict[str, Any] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = True
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found[target.id] = node.value.value
    return found


def after_training(step_file: Path, argv: Sequence[str], weights: Path) -> None:
    """Calls the step file's function of that name."""
    from safetensors.torch import load_file

    from ..step.training_step import as_script, load_step_file

    try:
        with as_script(step_file, argv):
            load_step_file(step_file).after_training(list(argv), load_file(weights))
    except Exception as error:
        raise StageError(
            E.HOOK_FAILED, f"after_training of {step_file.name}: {type(error).__name__}: {error}"
        ) from error
