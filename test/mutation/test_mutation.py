"""Tests that plans broken in many ways are refused when they are loaded. Plans of
four models, in several layouts and schedules, are broken in each class of
Mutations.cpp; a mutant that computes the same in every order that streams can run
counts for nothing."""

from __future__ import annotations

import collections
import json
import pathlib
import re

import pytest

from support import chain, options

# Model and pipeline.
PLANS = (
    ("gpt", "mesh=2 streams=3"),
    ("gpt", "mesh=2 streams=3 shard-layout=flat gather=map"),
    ("gpt", "mesh=3 streams=3 shard-layout=flat units=class:Linear reshard-after-forward=false"),
    ("mlp", "mesh=4 streams=1"),
    ("mlp", "mesh=2 streams=3 shard-layout=flat gather=map reshard-after-forward=false"),
    ("resnet", "mesh=2 streams=3 shard-layout=flat gather=copy"),
    ("resnet", "mesh=3 streams=1 algorithm=naive"),
    ("tied", "mesh=4 streams=3 shard-layout=flat gather=copy reshard-after-forward=false"),
    ("tied", "mesh=2 streams=3 units=class:Block algorithm=naive"),
)
CLASSES = 30
MUTANTS = 600

# Survivors that are right to survive: class, what it did, why the plan is valid.
EXPLAINED = (
    (
        "dropped copy",
        " of buffer '",
        "which buffers a program changes is said by its commands and nowhere else, so a "
        "program that leaves one as it was is a program that does not change it",
    ),
)


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> list[pathlib.Path]:
    folder = tmp_path_factory.mktemp("mutation")
    archives = options.Archives(folder)
    return [
        archives.lower(model, pipeline, folder / str(i)).plan
        for i, (model, pipeline) in enumerate(PLANS)
    ]


def is_explained(name: str, survivor: str) -> bool:
    return any(name == of and re.search(what, survivor) for of, what, _ in EXPLAINED)


def check(plans: list[pathlib.Path], per_class: int) -> None:
    done = chain.command([chain.binary("fsdp-mutate"), "--per-class", per_class, *plans])
    total: collections.Counter[str] = collections.Counter()
    unexplained = []
    classes = [json.loads(line) for line in done.stdout.splitlines()]
    for row in classes:
        name, survivors = row["class"], row["survivors"]
        print(f"{name:30} {row['mutants']:5} mutants, {row['refused']:5} refused", *survivors)
        total.update({key: row[key] for key in ("mutants", "refused", "same")})
        unexplained += [f"{name}: {s}" for s in survivors if not is_explained(name, s)]
    print(dict(total))
    assert len(classes) >= CLASSES and all(row["mutants"] for row in classes)
    assert total["mutants"] >= MUTANTS
    assert total["refused"] >= 0.99 * total["mutants"]
    assert not unexplained


def test_mutants_are_refused(plans: list[pathlib.Path]) -> None:
    check(plans, per_class=4)


@pytest.mark.long
def test_many_mutants_are_refused(plans: list[pathlib.Path]) -> None:
    check(plans, per_class=40)
