"""Feeds a rank with what a step file's `data` or `eval_data` gives: a loader's process.

    fsdp-run step.plan --data-command 'python -m fsdp_mlir.driver.feed_step STEP.py [its flags]'

A step file may define `training_data(argv)` and `evaluation_data(argv)`, which give the loader alone: then
this process need not build the model.
"""

from __future__ import annotations

import argparse
import random
import sys
from typing import Any, Optional, Sequence

import numpy as np
import torch

from ..data.feeding import feed_from
from ..errors import ArgumentParser
from ..step.training_step import as_script, load_step_file, training_step_of

MAKERS = {"data": "training_data", "eval_data": "evaluation_data"}


def loader_of(
    path: str, argv: Sequence[str], which: str, seed: int
) -> tuple[Any, Optional[list[str]]]:
    """The loader of a step file and the names of its inputs (None: the plan's)."""
    # Unless the step file seeds as well: a run that resumes is then the same again.
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)
    with as_script(path, argv):
        module = load_step_file(path)
        if callable(make := getattr(module, MAKERS[which], None)):
            return make(list(argv)), None
        step = training_step_of(module, path, argv)
    data = getattr(step, which)
    return data.loader, list(step.inputs)


def main() -> None:
    parser = ArgumentParser(prog="python -m fsdp_mlir.driver.feed_step")
    parser.add_argument("--eval", action="store_true", help="what the evaluation reads")
    parser.add_argument("step", metavar="STEP.py")
    parser.add_argument("flags", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    which = "eval_data" if args.eval else "data"
    feed_from(lambda seed: loader_of(args.step, args.flags, which, seed))


if __name__ == "__main__":
    sys.exit(main())
