"""Small plans for simulations: some that were chosen, and as many random ones as are asked for."""

from __future__ import annotations

import itertools
import pathlib
import sys
from typing import Iterator

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "fuzz"))

from recipe import generate as generate_recipe  # noqa: E402
from support import chain, options  # noqa: E402
from variants import STEP_FILE, opt_flags  # noqa: E402

# Model, pipeline, and what else the step asks for: streams and events of each kind, windows,
# copies between arenas, replicas, neighbours, micro-batches.
CHOSEN = (
    ("tied", "mesh=2 streams=3 units=class:Block"),
    ("tied", "mesh=4 streams=3 shard-layout=flat gather=map reshard-after-forward=false"),
    ("mlp", "mesh=2 streams=3 shard-layout=flat gather=map offload=all"),
    ("mlp", "mesh=2x2 streams=3 accumulate-reduce=each", "--accumulate 2 --scaler"),
    ("mlp", "mesh=2x2x2 streams=3"),
    ("gpt", "mesh=4 streams=3 reshard-after-forward=2 offload=optimizer"),
)


def chosen(folder: pathlib.Path) -> Iterator[chain.Compiled]:
    archives = options.Archives(folder)
    for number, (model, pipeline, *flags) in enumerate(CHOSEN):
        yield archives.lower(model, pipeline, folder / f"chosen{number}", *flags)


def combinations(folder: pathlib.Path) -> Iterator[chain.Compiled]:
    """Of options, over the models of test/compiler/options/step.py."""
    archives = options.Archives(folder)
    for seed in itertools.count():
        combination = options.generate(seed)
        yield archives.lower(combination.model, combination.passes, folder / f"options{seed}")


def recipes(folder: pathlib.Path) -> Iterator[chain.Compiled]:
    """The random steps of test/robustness/fuzz, for several ranks."""
    for seed in itertools.count():
        recipe = generate_recipe(seed)
        if recipe.ranks == 1:
            continue
        base = folder / f"recipe{seed}"
        base.mkdir()
        archive, argv = base / "step.pt", [f"--recipe={recipe.to_json()}"]
        chain.export(STEP_FILE, archive, argv)
        first = chain.lower(STEP_FILE, archive, base, argv, f"mesh={recipe.ranks}")
        flags = opt_flags(recipe.variants[1], recipe.ranks, first.ir)
        yield chain.lower(STEP_FILE, archive, base, argv, passes=flags)


def random_plans(folder: pathlib.Path) -> Iterator[chain.Compiled]:
    """Four of five are combinations of options."""
    of_options, of_recipes = combinations(folder), recipes(folder)
    for number in itertools.count():
        yield next(of_recipes if number % 5 == 4 else of_options)
