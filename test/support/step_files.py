"""Step files that several folders of tests share."""

from __future__ import annotations

import pathlib

TESTS = pathlib.Path(__file__).resolve().parents[1]

# Models that are compared with PyTorch, and models of every kind.
PARITY = TESTS / "numerics" / "parity" / "models"
GENERALITY = TESTS / "numerics" / "generality" / "models"

# Small models with every option of a step, by `--model`.
SMALL = TESTS / "compiler" / "options" / "step.py"
