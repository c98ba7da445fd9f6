"""Tests that plans broken in many ways are refused when they are loaded. Plans of
four models, in several layouts, meshes and schedules, are broken in each class
of the *Mutations.cpp; a mutant that computes the same in every order that streams can run counts for
nothing."""

from __future__ import annotations

import collections
import dataclasses
import functools
import json
import pathlib
import re
from typing import Callable

import pytest

from support import chain, constraints, options

# Model, pipeline, and what else the step asks for.
PLANS = (
    ("gpt", "mesh=2 streams=3"),
    ("gpt", "mesh=2 streams=3 shard-layout=flat gather=map"),
    ("gpt", "mesh=3 streams=3 shard-layout=flat units=class:Linear reshard-after-forward=false"),
    ("gpt", "mesh=2 streams=3 offload=all"),
    ("gpt", "mesh=4 streams=3 reshard-after-forward=2"),
    ("gpt", "mesh=2x4 streams=3 shard-layout=flat gather=copy reshard-after-forward=2"),
    ("gpt", "mesh=2 streams=3 offload=params"),
    ("gpt", "mesh=2 streams=3 shard-layout=flat gather=map offload=optimizer"),
    ("gpt", "mesh=2 streams=3 device=cuda"),
    ("mlp", "mesh=4 streams=1"),
    ("mlp", "mesh=2 streams=3 shard-layout=flat offload=all"),
    ("mlp", "mesh=2 streams=3 shard-layout=flat gather=map reshard-after-forward=false"),
    ("resnet", "mesh=2 streams=3 shard-layout=flat gather=copy"),
    ("resnet", "mesh=3 streams=1 algorithm=naive"),
    ("tied", "mesh=4 streams=3 shard-layout=flat gather=copy reshard-after-forward=false"),
    ("tied", "mesh=2 streams=3 units=class:Block algorithm=naive"),
    ("gpt", "mesh=2x2 streams=3", "--clip-norm 0.5 2"),
    ("mlp", "mesh=2x2 shard-layout=flat accumulate-reduce=each", "--accumulate 2 --scaler"),
    ("mlp", "mesh=2x2x2 streams=3"),
    ("mlp", "mesh=2x1 streams=3", "--accumulate 3 --clip-norm 0.5 inf"),
    ("gpt", "mesh=2 streams=3", "--muon"),
    ("mlp", "mesh=4 streams=3", "--adafactor"),
    ("gpt", "mesh=2 shard-layout=flat offload=all", "--accumulate 2 --scaler --clip-norm 0.5 1"),
    ("mlp", "mesh=2x2 streams=3", "--synced"),
)
CLASSES = 79
MUTANTS = 600
SECONDS = 75  # at most, for each mutant of a class

# What passes add to the sequential step, and what no rule of C34 covers yet.
ADDED = (
    r"output '(grad_norm|loss_scale|skipped_steps)'",
    r"buffer 'fsdp[.]scaler[.]\w+'",
)
OF_UPDATES = r"the update of '.*'"
UNCOVERED = {"--muon": OF_UPDATES, "--adafactor": OF_UPDATES, "device=cuda": OF_UPDATES}


Compile = Callable[[int], chain.Compiled]


@pytest.fixture(scope="module")
def compile_plan(tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """Compiles one of PLANS, by its index."""
    folder = tmp_path_factory.mktemp("mutation")
    archives = options.Archives(folder)

    @functools.cache
    def compile_plan(i: int) -> chain.Compiled:
        model, pipeline, *flags = PLANS[i]
        return archives.lower(model, pipeline, folder / str(i), *flags)

    return compile_plan


@pytest.fixture(scope="module")
def compiled(compile_plan: Compile) -> list[chain.Compiled]:
    return [compile_plan(i) for i in range(len(PLANS))]


def check_constraints(name: str, found: dict[str, int]) -> list[str]:
    """What docs/checker.md says wrongly of a class: a constraint that refuses none of its
    mutants, or none that refuses many."""
    listed = {f"C{number}" for number, names in constraints.REFUSES.items() if name in names}
    many = {number for number, count in found.items() if count >= 0.4 * sum(found.values())}
    return [f"{name}: {number}" for number in sorted(listed - found.keys() | many - listed)]


def check(compiled: list[chain.Compiled], per_class: int) -> None:
    plans = [step.plan for step in compiled]
    mutate = [chain.binary("fsdp-mutate"), "--per-class", per_class, *plans]
    done = chain.command(mutate, timeout=per_class * SECONDS)
    total: collections.Counter[str] = collections.Counter()
    survived, misplaced = [], []
    classes = [json.loads(line) for line in done.stdout.splitlines()]
    for row in classes:
        name, survivors = row["class"], row["survivors"]
        misplaced += check_constraints(name, row["constraints"])
        print(f"{name:30} {row['mutants']:5} mutants, {row['refused']:5} refused", *survivors)
        total.update({key: row[key] for key in ("mutants", "refused", "same")})
        survived += [f"{name}: {s}" for s in survivors]
    print(dict(total))
    assert len(classes) >= CLASSES and all(row["mutants"] for row in classes)
    assert total["mutants"] >= MUTANTS
    assert not survived
    assert not misplaced, "correct REFUSES in test/support/constraints.py, and run tools/dev docs"


def test_plans_compute_the_sequential_step(compiled: list[chain.Compiled]) -> None:
    """All but what passes add, and what docs/checker.md names, is covered."""
    for (model, pipeline, *flags), step in zip(PLANS, compiled):
        text = chain.plan_text(step.plan)
        words = (*pipeline.split(), *" ".join(flags).split())
        known = [*ADDED, *(what for word, what in UNCOVERED.items() if word in words)]
        found = re.findall("^  not covered: (.*): .*$", text, re.M)
        assert not [
            what for what in found if not any(re.fullmatch(k, what) for k in known)
        ], step.plan
        assert re.search(r"^  \d+ of \d+ outputs, .* are the sequential step's$", text, re.M)
        assert "not compared" not in text


def test_mutants_are_refused(compiled: list[chain.Compiled]) -> None:
    check(compiled, per_class=4)


@pytest.mark.long
def test_many_mutants_are_refused(compiled: list[chain.Compiled]) -> None:
    check(compiled, per_class=40)


@pytest.mark.provokes("FSDP-E0503")
@pytest.mark.quick
@pytest.mark.parametrize(
    "broken", ("wrong event", "operator that does more", "enumeration out of its range")
)
def test_no_program_takes_a_plan_unchecked(
    broken: str, compile_plan: Compile, tmp_path: pathlib.Path
) -> None:
    compiled = compile_plan(0)
    mutant = tmp_path / "mutant.plan"
    chain.command([chain.binary("fsdp-mutate"), "--write", mutant, broken, compiled.plan])
    train = chain.run_arguments(dataclasses.replace(compiled, plan=mutant))
    ranks = ["--nproc", "2", "--poison"]
    readers = (
        [*train, *ranks],
        [*train, *ranks, "--threads"],
        [*train, *ranks, "--host-streams", "threads", "--comm", "gloo"],
        [chain.binary("fsdp-translate"), "--plan-to-text", mutant],
    )
    for reader in readers:
        done = chain.command(reader, check=False)
        assert done.returncode != 0
        assert "is not a valid plan" in done.stdout + done.stderr


def test_a_mistake_is_one_error() -> None:
    for arguments, why in (
        ("--seed x", "--seed: 'x' is no number from 0 on [FSDP-E0101]"),
        ("nothing.plan", "cannot open 'nothing.plan': No such file or directory [FSDP-E0004]"),
    ):
        command = [chain.binary("fsdp-mutate"), *arguments.split()]
        done = chain.command(command, check=False)
        assert (done.returncode, done.stderr) == (1, f"error: {why}\n")


def test_each_constraint_is_broken_somewhere() -> None:
    """By mutants, by a plan of the unit tests, or by IR at the op of its error."""
    folder = chain.ROOT / "test"
    broken = set(constraints.REFUSES)
    for path in (folder / "unit/plan").glob("*Test.cpp"):
        broken |= {int(n) for n in re.findall(r'\{"\w+",\s+C(\d+),', path.read_text())}
    at_ops = (folder / "compiler/Transforms/Lower/verify-commands-invalid.mlir").read_text()
    numbers = {row.number for row in constraints.constraints()}
    assert broken | {int(n) for n in re.findall(r"\{\{C(\d+): ", at_ops)} == numbers
    assert {name for names in constraints.REFUSES.values() for name in names} == mutations()


def mutations() -> set[str]:
    """The classes of fsdp-mutate."""
    sources = (chain.ROOT / "test/robustness/mutation").glob("*Mutations.cpp")
    return {n for p in sources for n in re.findall(r'^    \{"([^"]+)",', p.read_text(), re.M)}


def test_one_function_alone_reads_plans() -> None:
    """It checks what it reads, so whatever has a plan has one that was checked."""
    folders = [chain.ROOT / name for name in ("runtime", "lib", "tools")]
    sources = [path for folder in folders for path in folder.rglob("*.cpp")]
    unpacks = re.compile(r"\bUnPack(To)?\(|\bUnPackPlan\(")
    assert [p.name for p in sources if unpacks.search(p.read_text())] == ["PlanFile.cpp"]
