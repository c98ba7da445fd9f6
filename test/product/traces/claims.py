"""What the compiler's remarks are compared with, and the table of the claims that are derived again."""

from __future__ import annotations

import functools
import json
import math
import pathlib
import re
from dataclasses import dataclass
from typing import Any, Callable, NamedTuple

from fsdp_mlir.report.remarks import Remark, read_remarks
from support import chain, remarks as registry, step_files
from support.compilations import Compilations

OWN = pathlib.Path(__file__).with_name("claims_step.py")


class Case(NamedTuple):
    """What is compiled: the pipeline's options, the step file and its flags."""

    options: str
    flags: tuple[str, ...] = ("--model", "gpt")
    step_file: pathlib.Path = step_files.SMALL


PLAIN = Case("mesh=2 units=class:Block")
OFFLOADED = Case("mesh=2 units=class:Block remat=full offload=optimizer")


@dataclass
class Decided:
    """A case, compiled: what the remarks say, and what is there to compare it with."""

    compiled: chain.Compiled
    case: Case
    remarks: list[Remark]
    facts: dict[str, Any]  # of the plan

    @property
    def step(self) -> dict[str, Any]:
        return self.facts["programs"]["step"]

    @functools.cached_property
    def text(self) -> str:
        """The plan, as --plan-to-text prints it."""
        return chain.plan_text(self.compiled.plan)

    @functools.cached_property
    def sharded(self) -> str:
        """The IR that fsdp-shard leaves: a gather for each reader."""
        opt = [chain.binary("fsdp-opt"), self.compiled.ir, f"--fsdp-shard={self.case.options}"]
        return chain.command(opt).stdout

    @functools.cached_property
    def scheduled(self) -> dict[str, Any]:
        """The report on the step that the scheduler leaves."""
        opt = [chain.binary("fsdp-opt"), self.compiled.ir, f"--fsdp-shard={self.case.options}"]
        budget = [word for word in self.case.options.split() if word.startswith("memory-budget")]
        opt += [
            f"--fsdp-overlap={' '.join(budget)}",
            "--fsdp-report=format=json",
            "-o",
            "/dev/null",
        ]
        return json.loads(chain.command(opt).stdout)["programs"]["step"]

    def by(self, name: str) -> list[Remark]:
        """Those of a pass, by PASS or PASS.REMARK."""
        by, _, which = name.partition(".")
        found = [r for r in self.remarks if r.by == f"fsdp-{by}" and which in ("", r.name)]
        assert found, f"{name} said nothing"
        return found

    def said(self, name: str, *keys: str) -> list[tuple[Any, ...]]:
        """Of each remark these figures, whole numbers as such; its text is one, too."""
        found = [figures(remark) | {"text": remark.text} for remark in self.by(name)]
        return [tuple(_value(key, of[key]) for key in keys) for of in found]

    def states(self, role: str = "parameter", **having: Any) -> list[dict[str, Any]]:
        """The plan's states of a role, those that have these values."""
        return [
            state
            for state in self.facts["states"]
            if state["role"] == role and having.items() <= state.items()
        ]

    def collectives(self, kind: str) -> list[dict[str, Any]]:
        return [one for one in self.step["collectives"] if one["kind"] == kind]

    def commands(self, program: str = "step") -> list[str]:
        """The lines of a program's commands in the plan's text, in their order."""
        body = self.text.partition(f"\nprogram {program}: ")[2].partition("\nprogram ")[0]
        return [line for line in body.splitlines() if re.match(r"  \d+\| ", line)]


_WHOLE = {of.key for of in registry.metrics().values() if of.unit in ("Count", "Bytes")}


def _value(key: str, figure: str) -> Any:
    return int(figure) if key in _WHOLE else figure


def figures(remark: Remark) -> dict[str, str]:
    return dict(remark.figures)


def elements(state: dict[str, Any]) -> int:
    return math.prod(state["shape"])


def bytes_of(state: dict[str, Any]) -> int:
    """Of the part that a rank has."""
    assert state["dtype"] == "float32"
    return 4 * math.prod(state["rank_shape"])


class Deciding:
    """Compiles each case once."""

    def __init__(self, new_folder: Callable[[str], pathlib.Path]) -> None:
        self.new_folder = new_folder
        self.compilations: dict[pathlib.Path, Compilations] = {}
        self.decided: dict[Case, Decided] = {}

    def __call__(self, case: Case) -> Decided:
        if case not in self.decided:
            self.decided[case] = self.decide(case)
        return self.decided[case]

    def decide(self, case: Case) -> Decided:
        new = Compilations(case.step_file, self.new_folder)
        compile_ = self.compilations.setdefault(case.step_file, new)
        compiled = compile_(case.options, *case.flags)
        remarks = remarks_of([compiled.ir, f"--fsdp-pipeline={case.options}"], self.new_folder)
        show = [chain.binary("fsdp-translate"), "--plan-to-json", compiled.plan]
        return Decided(compiled, case, remarks, json.loads(chain.command(show).stdout))


def remarks_of(arguments: list[Any], new_folder: Callable[[str], pathlib.Path]) -> list[Remark]:
    """What fsdp-opt says with these arguments."""
    file = new_folder("remarks") / "yaml"
    opt = [chain.binary("fsdp-opt"), *arguments, "-o", "/dev/null", "--remarks-filter=fsdp.*"]
    chain.command([*opt, "--remark-format=yaml", f"--remarks-output-file={file}"])
    found = read_remarks(file)
    for remark in found:
        kind = registry.decisions()[f"{remark.by.removeprefix('fsdp-')}.{remark.name}"]
        assert set(figures(remark)) <= set(kind.keys), remark
    return found


class Claim(NamedTuple):
    kinds: tuple[str, ...]  # PASS.REMARK
    case: Case | None  # None: the derivation compiles what it needs
    derive: Callable[[Any], None]


CLAIMS: list[Claim] = []


def claim(
    *kinds: str, of: Case | None = PLAIN
) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """Says that a function derives what remarks of these kinds claim: it takes the Decided of a
    case, or the Deciding where it compares cases."""

    def add(derive: Callable[[Any], None]) -> Callable[[Any], None]:
        CLAIMS.append(Claim(kinds, of, derive))
        return derive

    return add
