"""Recipes: small random training steps, and how they are compiled, as data.

A recipe is plain JSON: it can be printed, cut down while it still fails, and
kept in a test. `fuzz_step.py` builds the model that a recipe describes.
References between layers are by what fits, not by number, so that any layer can
be dropped and the rest is still a recipe.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import random
from typing import Any, Iterator

# What a layer may do besides its body. The order here is that of execution.
FEATURES = [
    "shared",  # is an earlier layer of the same dimensions once more
    "tied",  # takes its weight from an earlier layer with that shape
    "frozen",
    "frozen_bias",
    "no_bias",
    "unreached",  # owns a parameter that nothing reads
    "view_in",
    "weight_view",  # reads its weight through a chain of views
    "weight_twice",
    "detach",
    "inplace_relu",
    "inplace_slice",
    "inplace_view",
    "view_out",
    "scale",
    "layer_norm",
    "batch_norm",
    "mean_buffer",
    "count_buffer",
    "dropout",
    "residual",
]
BODIES = ["linear", "linear", "linear", "chunked", "batched", "convolution", "pair"]
DIMENSIONS = [1, 2, 3, 5, 7, 8, 13, 17]
OPTIMIZERS: list[dict[str, Any]] = [
    {"name": "SGD", "lr": 0.05},
    {"name": "SGD", "lr": 0.05, "momentum": 0.9},
    {"name": "SGD", "lr": 0.05, "momentum": 0.9, "nesterov": True},
    {"name": "SGD", "lr": 0.05, "momentum": 0.8, "dampening": 0.3},
    {"name": "SGD", "lr": 0.05, "weight_decay": 0.1},
    {"name": "Adam", "lr": 0.01},
    {"name": "Adam", "lr": 0.01, "amsgrad": True},
    {"name": "AdamW", "lr": 0.01, "weight_decay": 0.1},
    {"name": "AdamW", "lr": 0.01, "betas": [0.8, 0.95]},
]


@dataclasses.dataclass
class Layer:
    body: str
    out: int
    features: list[str]


@dataclasses.dataclass
class Variant:
    """One way to compile. `simplify` passes from the start are each followed by
    `--cse --canonicalize`; -1 is all of them."""

    units: str = "auto"
    reshard: str = "auto"
    simplify: int = 0
    reuse: bool = True

    def __str__(self) -> str:
        text = f"units={self.units} reshard-after-forward={self.reshard}"
        text += f" simplify={self.simplify}" if self.simplify else ""
        return text if self.reuse else text + " algorithm=naive"


@dataclasses.dataclass
class Recipe:
    seed: int
    layers: list[Layer]
    variants: list[Variant]
    ranks: int = 2
    steps: int = 2
    batch: int = 3
    inputs: str = "floats"  # or "tokens"
    width: int = 5  # of the first layer's input
    container: str = "sequential"  # or "list", "nested", "attributes"
    loss: str = "mse"  # or "cross_entropy"
    classes: int = 3
    mask: bool = False
    schedule: bool = False
    groups: int = 1
    optimizer: dict[str, Any] = dataclasses.field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> "Recipe":
        fields = json.loads(text)
        fields["layers"] = [Layer(**layer) for layer in fields["layers"]]
        fields["variants"] = [Variant(**variant) for variant in fields["variants"]]
        return Recipe(**fields)

    @property
    def random_ops(self) -> bool:
        return any("dropout" in layer.features for layer in self.layers)


def _variants(rng: random.Random) -> list[Variant]:
    """The default, and four in which each choice comes up."""
    units = ["class:Block", "layers?[.]?[0-9]+", f"{rng.choice([64, 200, 1000])}", "auto"]
    rng.shuffle(units)
    reshard = ["true", "false", rng.choice(["true", "false"]), "auto"]
    rng.shuffle(reshard)
    simplify = [-1, rng.randint(1, 16), 0, 0]
    reuse = [True, True, False, True]
    choices = zip(units, reshard, simplify, reuse)
    return [Variant(), *(Variant(*choice) for choice in choices)]


def generate(seed: int) -> Recipe:
    """The recipe of a seed: always the same one."""
    rng = random.Random(seed)
    # Few dimensions in one model, so that shapes meet and weights can be tied.
    pool = rng.sample(DIMENSIONS, rng.randint(1, 3))
    density = rng.choice([0.05, 0.1, 0.2])
    layers = [
        Layer(
            rng.choice(BODIES),
            rng.choice(pool),
            [name for name in FEATURES if rng.random() < density],
        )
        for _ in range(rng.randint(1, 5))
    ]
    return Recipe(
        seed=seed,
        layers=layers,
        variants=_variants(rng),
        ranks=seed % 5 + 1,
        steps=rng.randint(1, 3),
        batch=rng.randint(2, 5),
        inputs=rng.choice(["floats", "floats", "tokens"]),
        width=rng.choice(pool),
        container=rng.choice(["sequential", "list", "nested", "attributes"]),
        loss=rng.choice(["mse", "cross_entropy"]),
        classes=rng.choice([2, 3, 7, 10]),
        mask=rng.random() < 0.2,
        schedule=rng.random() < 0.2,
        groups=rng.choice([1, 1, 2]),
        optimizer=rng.choice(OPTIMIZERS),
    )


def smaller(recipe: Recipe) -> Iterator[Recipe]:
    """Recipes with one thing less, the largest cuts first."""

    def changed(**fields: Any) -> Recipe:
        return dataclasses.replace(copy.deepcopy(recipe), **fields)

    for i in range(len(recipe.layers)):
        if len(recipe.layers) > 1:
            yield changed(layers=recipe.layers[:i] + recipe.layers[i + 1 :])
    for i in range(len(recipe.variants)):
        if len(recipe.variants) > 1:
            yield changed(variants=recipe.variants[:i] + recipe.variants[i + 1 :])
    plain = {
        "steps": 1,
        "schedule": False,
        "mask": False,
        "groups": 1,
        "container": "sequential",
        "inputs": "floats",
        "loss": "mse",
        "optimizer": OPTIMIZERS[0],
    }
    for name, value in plain.items():
        if getattr(recipe, name) != value:
            yield changed(**{name: value})
    for ranks in range(1, recipe.ranks):
        yield changed(ranks=ranks)
    for i, layer in enumerate(recipe.layers):
        for feature in layer.features:
            less = changed()
            less.layers[i].features.remove(feature)
            yield less
        if layer.body != "linear":
            less = changed()
            less.layers[i].body = "linear"
            yield less
    for i, variant in enumerate(recipe.variants):
        for name, value in dataclasses.asdict(Variant()).items():
            if getattr(variant, name) != value:
                less = changed()
                setattr(less.variants[i], name, value)
                yield less
