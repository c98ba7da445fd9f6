"""Random orders of passes, against the pipeline that they were made from.

python test/compiler/passes/pass_fuzz.py --seeds 0:2000     says which seeds fail, and how

A seed is a model, a pipeline's options and some edits of its list of passes: one is
left out, runs twice, changes its place, or a pass of MLIR's or of another pipeline
stands in between. What must hold:
- `fsdp-opt` and `fsdp-translate` end with an error that says what is wrong, never by a
  signal, an assertion or without a word;
- or there is a plan. Then it was checked, and its run has the bits of the pipeline
  without the edits.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import functools
import hashlib
import pathlib
import random
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parents[2] / "python")]

from support import chain, options  # noqa: E402

MUON = "--muon"
# Models of test/compiler/options/step.py with what else the step asks for, and pipelines.
SOURCES = (
    ("mlp", "--accumulate 2 --clip-norm 0.5 2 --scaler"),
    ("mlp", ""),
    ("tied", "--clip-norm 0.5 inf"),
    ("gpt", MUON),
)
PIPELINES = (
    "mesh=2",
    "mesh=2 shard-layout=flat",
    "mesh=2 shard-layout=flat gather=copy offload=optimizer",
    "mesh=2 offload=all reshard-after-forward=2",
    "mesh=1x2 mesh-dims=replicate,shard streams=1 offload=params",
    "mesh=2x1 mesh-dims=replicate,shard accumulate-reduce=each",
)
# Passes of MLIR that any program may have between its own.
GENERIC = (
    "canonicalize",
    "control-flow-sink",
    "cse",
    "inline",
    "loop-invariant-code-motion",
    "mem2reg",
    "remove-dead-values",
    "sccp",
    "sroa",
    "strip-debuginfo",
    "symbol-dce",
    "symbol-privatize",
    "symbol-privatize{exclude=step,eval,accumulate}",
    "topological-sort",
)
SUM_AND_REDUCE = ("fsdp-accumulate-gradients", "fsdp-localize")
EACH = "accumulate-reduce=each"
OTHER_MESH = "the plan's mesh has 1 rank, this run 2"
OPT_TIMEOUT_S = RUN_TIMEOUT_S = 120
RANKS = 2
CRASH = re.compile(r"PLEASE submit|Stack dump|Assertion|LLVM ERROR|Segmentation")
STEPS = 2


class Failure(Exception):
    """What a list of passes did wrong."""


@dataclasses.dataclass(frozen=True)
class Case:
    """One list of passes for a model, and the pipeline without edits."""

    source: tuple[str, str]
    pipeline: str
    passes: tuple[str, ...]

    @property
    def text(self) -> str:
        return f"builtin.module({','.join(self.passes)})"

    @property
    def reference(self) -> str:
        """The pipeline whose bits the list has. Edits may move the sum over micro-batches behind
        the reductions, as `accumulate-reduce=each` does, or in front of them again."""
        names = [name.partition("{")[0] for name in self.passes]
        places = [names.index(name) for name in SUM_AND_REDUCE if name in names]
        options = [word for word in self.pipeline.split() if word != EACH]
        return " ".join([*options, EACH] if places != sorted(places) else options)


def split_passes(text: str) -> list[str]:
    """The passes of `a,b{x=1,2},c`."""
    passes, depth, start = [], 0, 0
    for i, character in enumerate(text):
        depth += (character in "({[") - (character in ")}]")
        if character == "," and depth == 0:
            passes.append(text[start:i].strip())
            start = i + 1
    return [*passes, text[start:].strip()]


def edit(chosen: random.Random, passes: list[str], others: list[str]) -> None:
    """Changes a list of passes in one way."""
    at = chosen.randrange(len(passes))
    way = chosen.randrange(6)
    if way == 0:
        del passes[at]
    elif way == 1:
        passes.insert(at, passes[at])
    elif way == 2:
        passes.insert(chosen.randrange(len(passes)), passes.pop(at))
    elif way == 3:
        passes.insert(at, chosen.choice(others))
    else:
        passes.insert(at, chosen.choice(GENERIC))


def refusal(program: str, done: subprocess.CompletedProcess[str]) -> str:
    """The error that a program has ended with; a Failure where it has not said one."""
    output = done.stdout + done.stderr
    errors = [line for line in output.splitlines() if "error: " in line]
    if done.returncode < 0 or CRASH.search(output):
        raise Failure(f"{program} crashed: {output[:3000]}")
    if not errors:
        raise Failure(f"{program} ends with {done.returncode} and no error: {output[:500]}")
    return errors[0].partition("error: ")[2]


class Lab:
    """Compiles and runs in one folder; each model and each pipeline once."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.results: dict[tuple[tuple[str, str], str], dict[str, str]] = {}

    @functools.cache
    def sources(self, source: tuple[str, str]) -> chain.Compiled:
        """A model's archive and its IR."""
        model, flags = source
        return options.Archives(self.folder).lower(
            model, "mesh=2", self.folder / f"{model}{flags.replace(' ', '')}", flags
        )

    @functools.cache
    def passes(self, source: tuple[str, str], pipeline: str) -> tuple[str, ...]:
        """The passes that a pipeline is, without the one that writes its text down."""
        done = self.opt(source, f"--fsdp-pipeline={pipeline}", "--dump-pass-pipeline")
        found = re.search(r"^builtin\.module\(\n(.*?)^\)", done.stderr, re.S | re.M)
        assert found, done.stderr
        return tuple(p for p in split_passes(found[1]) if "record-pipeline" not in p)

    def opt(self, source: tuple[str, str], *flags: str) -> subprocess.CompletedProcess[str]:
        out = self.folder / "out.mlir"
        command = [chain.binary("fsdp-opt"), self.sources(source).ir, *flags, "-o", out]
        return chain.command(command, check=False, timeout=OPT_TIMEOUT_S)

    def generate(self, seed: int) -> Case:
        """The same case for the same seed, on any machine."""
        chosen = random.Random(seed)
        source = SOURCES[seed % len(SOURCES)]
        # What looks at whole matrices has its states on the device.
        pipelines = [p for p in PIPELINES if MUON not in source or "offload" not in p]
        pipeline = chosen.choice(pipelines)
        passes = list(self.passes(source, pipeline))
        others = list(self.passes(source, chosen.choice(pipelines)))
        if chosen.random() < 0.15:
            passes = chosen.sample(passes + others, chosen.randint(3, 30))
        for _ in range(chosen.choice((1, 1, 2, 3, 5))):
            edit(chosen, passes, others)
        return Case(source, pipeline, tuple(passes))

    def check(self, case: Case) -> str:
        """How a case ends: an error's first line, or `same plan` or `same bits`."""
        done = self.opt(case.source, f"--pass-pipeline={case.text}")
        if done.returncode != 0:
            return refusal("fsdp-opt", done)
        scheduled, plan = self.folder / "out.mlir", self.folder / "out.plan"
        command = [chain.binary("fsdp-translate"), "--fsdp-to-plan", scheduled, "-o", plan]
        done = chain.command(command, check=False, timeout=OPT_TIMEOUT_S)
        if done.returncode != 0:
            return refusal("fsdp-translate", done)
        return self.compare(case, plan)

    def compare(self, case: Case, plan: pathlib.Path) -> str:
        expected = self.expected(case.source, case.reference)
        try:
            found = self.run(case.source, plan)
        except chain.ChainError as error:
            if OTHER_MESH in error.output:  # nobody has cut it for several ranks
                return error.output.partition("error: ")[2].splitlines()[0]
            raise Failure(f"a plan that was accepted does not run: {error}") from error
        if found == expected:
            return "same bits"
        wrong = [name for name in expected if found.get(name) != expected[name]]
        raise Failure(f"another result: {wrong}")

    @functools.cache
    def expected(self, source: tuple[str, str], pipeline: str) -> dict[str, str]:
        done = self.opt(source, f"--fsdp-pipeline={pipeline}")
        assert done.returncode == 0, done.stderr
        plan = self.folder / "expected.plan"
        scheduled = self.folder / "out.mlir"
        chain.command([chain.binary("fsdp-translate"), "--fsdp-to-plan", scheduled, "-o", plan])
        return self.run(source, plan)

    def run(self, source: tuple[str, str], plan: pathlib.Path) -> dict[str, str]:
        """Digests of the losses and of each tensor that a run saves."""
        compiled = dataclasses.replace(self.sources(source), plan=plan)
        result = chain.run_plan(compiled, RANKS, steps=STEPS, timeout=RUN_TIMEOUT_S)
        digests = {
            name: hashlib.sha256(value.contiguous().numpy().tobytes()).hexdigest()
            for name, value in result.weights.items()
        }
        return {**digests, "losses": str(result.losses)}


def check_seeds(folder: pathlib.Path, seeds: range, verbose: bool = False) -> list[str]:
    """What fails, a line each; prints how the others end."""
    lab, ends, failed = Lab(folder), collections.Counter[str](), []
    for seed in seeds:
        case = lab.generate(seed)
        try:
            end = lab.check(case)
        except Failure as failure:
            failed.append(f"seed {seed}: {' '.join(case.source)}: {case.text}\n  {failure}")
            print(failed[-1], flush=True)
            continue
        ends[re.sub(r"'[^']*'|\"[^\"]*\"|@\S+|[\d.]+", "#", end)[:90]] += 1
        if verbose:
            print(f"seed {seed}: {end}", flush=True)
    for end, count in ends.most_common():
        print(f"{count:5} {end}")
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", default="0:50", help="17, or 0:2000")
    parser.add_argument("--verbose", "-v", action="store_true")
    flags = parser.parse_args()
    first, _, end = flags.seeds.partition(":")
    seeds = range(int(first), int(end or int(first) + 1))
    with tempfile.TemporaryDirectory(prefix="fsdp-passes-") as folder:
        failed = check_seeds(pathlib.Path(folder), seeds, flags.verbose)
    print(f"{len(seeds)} lists of passes, {len(failed)} fail")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
