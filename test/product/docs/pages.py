"""The pages of docs/ that are generated: passes, dialects, options and constraints, the running
example of docs/ir, and the Python API.

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

from product.docs import api, life, sharding
from support import chain, constraints, errors

_BLOCK = re.compile(r"(<!-- generated (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_NAME = re.compile(r"(<!-- api ([\w.]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_PAGES = (
    "passes.md",
    "dialects.md",
    "options.md",
    "checker.md",
    "errors.md",
    "clusters.md",
    "parameter.md",
    "sharding.md",
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
_STEP = pathlib.Path(__file__).with_name("step.py")


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
    return {**pages, page: text, chain.ROOT / "python/fsdp_mlir/error_kinds.py": _python_errors()}


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
    "fsdp": lambda: _dialect("Dialect/FSDP/FSDPOps.td", "fsdp"),
    "step": _step,
    **{name: lambda n=number: _phase(*_PHASES[:n]) for number, name in enumerate(_NAMES)},
    **{
        f"life_{name}": lambda n=number, name=name: life.of_phase(name, _ir(*_PHASES[:n]))
        for number, name in enumerate(_NAMES)
    },
    "sharding": sharding.table,
    "aten": lambda: _dialect("Dialect/Aten/Aten.td", "aten"),
}
