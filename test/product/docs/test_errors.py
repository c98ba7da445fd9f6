"""Tests that every error has an identifier that can be looked up, and that each is provoked."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from typing import Iterator

import pytest

from fsdp_mlir import errors as exceptions
from fsdp_mlir.error_kinds import TEXTS, E
from fsdp_mlir.explain import explain
from support import chain, errors

pytestmark = pytest.mark.quick
KINDS = errors.kinds()
_OF_KINDS = ("python/fsdp_mlir/error_kinds.py", "python/fsdp_mlir/errors.py")
SOURCES = {
    path: path.read_text()
    for folder in ("runtime", "lib", "include", "tools", "python/fsdp_mlir")
    for path in (chain.ROOT / folder).rglob("*")
    if path.suffix in (".cpp", ".h", ".py")
    and path.relative_to(chain.ROOT).as_posix() not in _OF_KINDS
}


def texts_of_tests() -> Iterator[str]:
    for path in (chain.ROOT / "test").rglob("*"):
        if path.suffix in (".py", ".cpp", ".mlir", ".test"):
            yield path.read_text()


def test_every_kind_is_that_of_some_error() -> None:
    text = "\n".join(SOURCES.values())
    unused = [
        kind.name
        for kind in KINDS
        if not re.search(rf"\bE::{kind.name}\b|\bE\.{kind.python}\b", text)
    ]
    assert unused == []


def expectations() -> Iterator[str]:
    """What tests expect of a program or a function that they run, as text. A test that is marked
    `provokes` is held to that."""
    checks = re.compile(r"expected-error|^(?://|#)?\s*[A-Z][A-Z0-9-]*: ")
    for path in (chain.ROOT / "test").rglob("*"):
        if path.suffix not in (".py", ".cpp", ".mlir", ".test"):
            continue
        text = path.read_text()
        if path.suffix == ".py" and "FSDP-E" in text:
            for node in ast.walk(ast.parse(text)):
                called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
                if isinstance(node, ast.Assert) or re.search(
                    r"provokes$|pytest\.raises$|\bcheck_refusal$", called
                ):
                    yield ast.unparse(node)
        elif path.suffix == ".cpp":
            yield from re.findall(r"== E::\w+", text)
            for call in re.finditer(r"\b(?:EXPECT_|ASSERT_|expect)\w+(?=\()", text):
                yield text[call.end() : _end_of_parentheses(text, call.end())]
        elif path.suffix in (".mlir", ".test"):
            yield from filter(checks.search, text.splitlines())


def _end_of_parentheses(text: str, begin: int) -> int:
    depth = 0
    for i in range(begin, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0:
            return i
    return len(text)


def test_every_kind_is_provoked_by_a_test() -> None:
    text = "\n".join(expectations())
    expected = set(re.findall(r"FSDP-E\d{4}", text)) | set(re.findall(r"\bE::(\w+)", text))
    lacking = [kind.identifier for kind in KINDS if not expected & {kind.identifier, kind.name}]
    assert lacking == []


def test_identifiers_in_tests_and_pages_exist() -> None:
    pages = [page.read_text() for page in (chain.ROOT / "docs").rglob("*.md")]
    named = set(re.findall(r"FSDP-E\d{4}", "\n".join([*texts_of_tests(), *pages])))
    assert named <= {kind.identifier for kind in KINDS}


def test_cpp_throws_nothing_without_a_kind() -> None:
    """A type of ours cannot be made without one."""
    found = [
        f"{path.relative_to(chain.ROOT)}: {line.strip()}"
        for path, text in SOURCES.items()
        if path.suffix != ".py"
        for line in text.splitlines()
        if re.search(r"\bthrow std::", line)
    ]
    assert found == []


def test_python_raises_nothing_without_a_kind() -> None:
    """Besides what Python's own protocols ask for, and what this package catches itself."""
    python = "AttributeError KeyError IndexError EOFError ValueError SystemExit ZeroDivisionError"
    caught = "DataDependentOutputException DynamicOutputShapeException FeedError NeedsCopies NotFollowed ReadByLibrary SettledChanged StateKept OSError _RankIsGone UntrainedParametersChanged WithoutLoss argparse.ArgumentTypeError"
    identified = set(vars(exceptions)) | {
        name
        for path, text in SOURCES.items()
        if path.suffix == ".py"
        for name in re.findall(r"^class (\w+)\((?:\w+, )*\w*(?:Error|Identified)\b", text, re.M)
    }
    allowed = {*python.split(), *caught.split(), *identified}
    found = [
        f"{path.relative_to(chain.ROOT)}:{node.lineno}: {ast.unparse(node.exc.func)}"
        for path, text in SOURCES.items()
        if path.suffix == ".py"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)
        if re.search(r"(^|\.)[A-Z]\w*$", ast.unparse(node.exc.func))
        if ast.unparse(node.exc.func) not in allowed
    ]
    assert found == []


def test_an_error_without_a_kind_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="an error begins with its kind"):
        exceptions.ExportError("the loss is a string", "")  # type: ignore[arg-type]


def test_both_programs_explain_alike() -> None:
    for kind in (KINDS[0], KINDS[-1]):
        run = chain.command([chain.binary("fsdp-run"), "--explain", kind.identifier])
        module = [sys.executable, "-m", "fsdp_mlir.explain", kind.identifier.lower()]
        python = subprocess.run(module, capture_output=True, text=True, check=True)
        text = f"{kind.identifier}: {kind.title}\n\n{kind.cause}\n\n{kind.mending}\n"
        assert run.stdout == python.stdout == text
        assert TEXTS[E(kind.number).value] == (kind.title, kind.cause, kind.mending)
        for short in (f"e{kind.number}", str(kind.number), f"[{kind.identifier}]"):
            assert explain(short) == text


@pytest.mark.provokes("FSDP-E0106")
def test_an_identifier_that_is_not_there_is_an_error() -> None:
    form = "there is no error E-1; give it as errors print it, as in FSDP-E0101 [FSDP-E0106]"
    for wrong, said in (
        ("E0", "there is no error E0; the nearest is FSDP-E0001 [FSDP-E0106]"),
        ("E-1", form),
    ):
        run = chain.command([chain.binary("fsdp-run"), "--explain", wrong], check=False)
        module = [sys.executable, "-m", "fsdp_mlir.explain", wrong]
        for done in (run, subprocess.run(module, capture_output=True, text=True)):
            assert (done.returncode, done.stderr) == (2, f"error: {said}\n")
