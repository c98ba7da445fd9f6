"""The compiler's options, and the programs that make a plan of an archive with them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Iterable, Optional, Sequence

# `name=value`; quotes and braces hold spaces together, as fsdp-opt reads them.
_WORD = re.compile(r"""(?:"[^"]*"|'[^']*'|\{[^{}]*\}|\S)+""")

_QUOTES = re.compile(r"""^(["'])(.*)\1$""")


def option(name: str, value: str) -> str:
    """One option as fsdp-opt reads it."""
    return f'{name}="{value}"' if re.search(r"\s", value) else f"{name}={value}"


@dataclass(frozen=True)
class Options:
    """What stands behind `--fsdp-pipeline=`, word by word as it was given. Whether the compiler has
    such an option, and each of them once, is the compiler's to say."""

    words: tuple[str, ...] = ()

    @staticmethod
    def of(texts: Iterable[str]) -> Options:
        return Options(tuple(_WORD.findall(" ".join(texts))))

    def __str__(self) -> str:
        return " ".join(self.words)

    def items(self) -> list[tuple[str, str]]:
        parts = (word.partition("=") for word in self.words)
        return [(name, _QUOTES.sub(r"\2", value)) for name, _, value in parts]

    def get(self, name: str) -> Optional[str]:
        """An option's value; None where it is not given."""
        return dict(self.items()).get(name)

    def adding(self, name: str, value: str) -> Options:
        return Options((*self.words, option(name, value)))

    def without(self, name: str) -> Options:
        return Options(tuple(word for word in self.words if word.partition("=")[0] != name))


def with_mesh(options: Options, sizes: Sequence[int]) -> Options:
    """The options, of which the user may have left out the mesh: the ranks along each dimension."""
    mesh = option("mesh", "x".join(map(str, sizes)))
    return options if options.get("mesh") else Options((mesh, *options.without("mesh").words))


def needs_table(options: Options) -> bool:
    """Whether the pipeline chooses kernels, and has not been told what each takes."""
    return options.get("kernels") == "fast" and options.get("kernel-table") is None


@dataclass(frozen=True)
class Command:
    """One program of the way: `tool flags source -o target`; names of files are those in the
    run's folder. `fsdp-run` alone has its target, the table, as a flag of its own."""

    stage: str
    tool: str
    flags: tuple[str, ...]
    source: str
    target: str

    def arguments(self, folder: Path) -> list[str | Path]:
        """The program's arguments, with files in `folder`."""
        target = [self.target] if self.tool == "fsdp-run" else ["-o", folder / self.target]
        return [folder / self.source, *self.flags, *target]


def lowering(options: Options, table: Path) -> list[Command]:
    """From step.pt to step.plan. Where kernels are to be measured, `table` is where they are
    written: of a plan with exact kernels, before the plan itself is made."""
    commands = [
        Command("import", "fsdp-translate", ("--import-torchscript",), "step.pt", "step.mlir")
    ]

    def plan(options: Options, ir: str, plan: str) -> None:
        shard = (f"--fsdp-pipeline={options}",)
        commands.append(Command("shard", "fsdp-opt", shard, "step.mlir", ir))
        commands.append(Command("plan", "fsdp-translate", ("--fsdp-to-plan",), ir, plan))

    if needs_table(options):
        plan(options.without("kernels"), "step.exact.mlir", "step.exact.plan")
        commands.append(Command("tune", "fsdp-run", ("--tune",), "step.exact.plan", str(table)))
        options = options.adding("kernel-table", str(table))
    plan(options, "step.fsdp.mlir", "step.plan")
    return commands
