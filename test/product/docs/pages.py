"""The pages of docs/ that are generated: passes, dialects, options and constraints, the running
example of docs/ir, the zoo's counts, and the Python API.

What is generated stands between `<!-- generated NAME -->` or, of a name of the API, `<!-- api NAME
-->`, and `<!-- end -->`; the rest of a page is written by hand.
"""

from __future__ import annotations

import functools
import json
import pathlib
import re
import subprocess
import tempfile
from typing import Callable

from product.docs import api, life, sharding, zoo
from support import chain, constraints, errors, remarks

_BLOCK = re.compile(r"(<!-- generated (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_NAME = re.compile(r"(<!-- api ([\w.]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_PAGES = (
    "passes.md",
    "dialects.md",
    "options.md",
    "checker.md",
    "errors.md",
    "remarks.md",
    "clusters.md",
    "parameter.md",
    "sharding.md",
    "parity.md",
    "ir/captured.md",
    "ir/sharded.md",
    "ir/scheduled.md",
    "ir/commands.md",
)
_PYTHON = '''"""What can go wrong, by kind: runtime/Errors.def in Python. `tools/dev docs` writes it."""

from __future__ import annotations

import enum


class E(enum.Enum):
    """An error's kind. `E(101).identifier` is FSDP-E0101."""

{names}
    @property
    def identifier(self) -> str:
        return f"FSDP-E{{self.value:04}}"


# Title, cause and mending, by number.
TEXTS = {{
{texts}}}
'''
_PYTHON_REMARKS = '''"""The figures of the compiler's remarks: lib/Transforms/Remarks.def in Python. `tools/dev docs` writes it."""

from __future__ import annotations

import enum

# The category of what passes changed. The category of a decision is the pass that took it.
CHANGES = {changes}


class Unit(enum.Enum):
    """What a figure is measured in."""

{units}

class M(enum.Enum):
    """The figures, by the keys that they have in remarks."""

{names}

UNITS = {{
{keys}}}
'''
_STEP = pathlib.Path(__file__).with_name("step.py")


# How the page names what figures are measured in.
_UNITS = {
    "Text": "",
    "Count": "",
    "Number": "",
    "Bytes": "bytes",
    "Microseconds": "µs",
    "Gflop": "GFLOP",
}


def all_pages() -> dict[pathlib.Path, str]:
    """The text that each page should have.

    Raises:
        KeyError: a page marks a block that does not exist.
    """
    docs = chain.ROOT / "docs"
    pages = {
        docs
        / name: _BLOCK.sub(
            lambda m: f"{m[1]}{_GENERATORS[m[2]]()}\n{m[3]}", (docs / name).read_text()
        )
        for name in _PAGES
    }
    page = docs / "api.md"
    text = _NAME.sub(lambda m: f"{m[1]}{api.entry(m[2])}\n{m[3]}", page.read_text())
    package = chain.ROOT / "python/fsdp_mlir"
    return {
        **pages,
        page: text,
        package / "error_kinds.py": _python_errors(),
        package / "remark_kinds.py": _python_remarks(),
    }


def _errors() -> str:
    text, last = "", ""
    for kind in errors.kinds():
        if (section := errors.section(kind)) != last:
            text, last = f"{text}\n## {section}\n", section
        text += f"\n### {kind.identifier}: {kind.title}\n\n{kind.cause}\n\n{kind.mending}\n"
    return text


def _quoted(text: str) -> str:
    """As black writes it."""
    return repr(text) if '"' in text else json.dumps(text, ensure_ascii=False)


def _python_errors() -> str:
    """A module of the package, where it needs no file beside it."""
    names = "".join(f"    {kind.python} = {kind.number}\n" for kind in errors.kinds())
    texts = "".join(
        f"    {kind.number}: (\n"
        + "".join(f"        {_quoted(text)},\n" for text in kind[2:])
        + "    ),\n"
        for kind in errors.kinds()
    )
    return _PYTHON.format(names=names, texts=texts)


def _remarks() -> str:
    """The kinds by pass, and what their figures are."""
    kinds = [
        f"| `{kind.category}` | {f'`{kind.name}`' if kind.name else 'the pass'} | {kind.meaning} |"
        f" {', '.join(f'`{key}`' for key in kind.keys)} |"
        for kind in remarks.kinds()
    ]
    figures = [
        f"| `{metric.key}` | {_UNITS[metric.unit]} | {metric.meaning} |"
        for metric in remarks.metrics().values()
    ]
    return "\n".join(
        [
            "| category | remark | what it says | figures |",
            "|---|---|---|---|",
            *kinds,
            "",
            "| figure | unit | what it means |",
            "|---|---|---|",
            *figures,
        ]
    )


def _python_remarks() -> str:
    """Like that of errors."""
    metrics = remarks.metrics().values()
    units = dict.fromkeys(metric.unit for metric in metrics)
    lines = {
        "units": [f'    {unit.upper()} = "{unit.lower()}"\n' for unit in units],
        "names": [f'    {remarks.python_name(m.name)} = "{m.key}"\n' for m in metrics],
        "keys": [f'    "{m.key}": Unit.{m.unit.upper()},\n' for m in metrics],
    }
    changes = _quoted(remarks.kinds()[-1].category)
    return _PYTHON_REMARKS.format(
        changes=changes, **{name: "".join(text) for name, text in lines.items()}
    )


def _tablegen(source: str, *options: str) -> str:
    """What mlir-tblgen writes, without the line that says so."""
    cache = (chain.binary("fsdp-opt").parents[1] / "CMakeCache.txt").read_text()
    installed = re.search(r"^MLIR_DIR:\w+=(.*)/lib/cmake/mlir$", cache, re.MULTILINE)
    if not installed:
        raise FileNotFoundError("the build does not say where MLIR is; run tools/dev build")
    includes = [f"-I{chain.ROOT / 'include'}", f"-I{installed[1]}/include"]
    program = f"{installed[1]}/bin/mlir-tblgen"
    text = subprocess.run(
        [program, *options, *includes, chain.ROOT / "include" / "fsdp" / source],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    ).stdout
    return text.partition("\n")[2].strip() + "\n"


def _dialect(source: str, name: str) -> str:
    text = _tablegen(source, "-gen-dialect-doc", f"-dialect={name}")
    # The page has a table of contents of its own, on GitHub.
    return re.sub(r"\[TOC\]\n+", "", text)


def _passes() -> str:
    return _tablegen("Transforms/Passes.td", "-gen-pass-doc")


def _printed(flag: str) -> str:
    """What fsdp-opt prints as Markdown."""
    return (
        subprocess.run(
            [chain.binary("fsdp-opt"), flag],
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        ).stdout.rstrip()
        + "\n"
    )


@functools.lru_cache(maxsize=1)
def _captured() -> str:
    """The running example as import gives it."""
    with tempfile.TemporaryDirectory() as folder:
        archive = pathlib.Path(folder) / "step.pt"
        chain.export(_STEP, archive, ())
        return subprocess.run(
            [chain.binary("fsdp-translate"), "--import-torchscript", archive],
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        ).stdout


def _step() -> str:
    return f"```python\n{_STEP.read_text().partition(chr(10) * 2)[2].strip()}\n```"


def _ir(*pipelines: str) -> str:
    """The running example behind some pipelines, without what they record."""
    text = subprocess.run(
        [chain.binary("fsdp-opt"), "--mlir-print-debuginfo=false", *pipelines],
        input=_captured(),
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    ).stdout
    return re.sub(r'fsdp\.pipeline = "[^"]*", ', "", text).strip()


def _phase(*pipelines: str) -> str:
    return "```mlir\n" + _ir(*pipelines) + "\n```"


_PHASES = ("--fsdp-shard=mesh=2", "--fsdp-overlap", "--fsdp-lower")
_NAMES = ("captured", "sharded", "scheduled", "commands")
_GENERATORS: dict[str, Callable[[], str]] = {
    "passes": _passes,
    "options": lambda: _printed("--fsdp-options"),
    "clusters": lambda: _printed("--fsdp-clusters"),
    "constraints": constraints.page,
    "errors": _errors,
    "remarks": _remarks,
    "fsdp": lambda: _dialect("Dialect/FSDP/FSDPOps.td", "fsdp"),
    "step": _step,
    **{name: lambda n=number: _phase(*_PHASES[:n]) for number, name in enumerate(_NAMES)},
    **{
        f"life_{name}": lambda n=number, name=name: life.of_phase(name, _ir(*_PHASES[:n]))
        for number, name in enumerate(_NAMES)
    },
    "sharding": sharding.table,
    "zoo": zoo.table,
    "aten": lambda: _dialect("Dialect/Aten/Aten.td", "aten"),
}
