"""What the source of a user's file says, of which a trace has the line alone."""

from __future__ import annotations

import ast
import builtins
import functools
import linecache
from typing import Union

import torch

WithCondition = Union[ast.If, ast.While, ast.Assert]
Lines = tuple[int, int]  # the first and the last of a statement
# Functions and methods that show something, and give nothing back.
_SHOWING = frozenset("print pprint debug info warning warn error critical exception log".split())


@functools.lru_cache(maxsize=64)
def syntax_of(path: str) -> ast.Module:
    """A file of Python, which is empty where it cannot be read as such."""
    try:
        return ast.parse("".join(linecache.getlines(path)))
    except SyntaxError:
        return ast.Module([], [])


@functools.lru_cache(maxsize=4096)
def conditions_at(path: str, line: int) -> tuple[WithCondition, ...]:
    """The statements whose condition is on a line of a file, the outer ones first."""
    return tuple(
        statement
        for statement in _with_conditions(path)
        if statement.test.lineno <= line <= (statement.test.end_lineno or 0)
    )


@functools.lru_cache(maxsize=64)
def _with_conditions(path: str) -> list[WithCondition]:
    kinds = (ast.If, ast.While, ast.Assert)
    return [node for node in ast.walk(syntax_of(path)) if isinstance(node, kinds)]


def raises_at(path: str, line: int) -> bool:
    """Whether a line of a file is in a statement that raises an error, not in answer to another one."""
    return _is_in(line, _raising(path))


@functools.lru_cache(maxsize=64)
def _raising(path: str) -> list[Lines]:
    nodes = list(ast.walk(syntax_of(path)))
    handlers = [node for node in nodes if isinstance(node, ast.ExceptHandler)]
    answers = {inner for handler in handlers for inner in ast.walk(handler)}
    return [_lines(n) for n in nodes if isinstance(n, ast.Raise) and n not in answers]


def is_answered_at(path: str, line: int, error: str) -> bool:
    """Whether a line of a file is in a `try` that goes on behind an error of this name."""
    for statement in _trying(path):
        body = statement.body[0].lineno, _lines(statement.body[-1])[1]
        if _is_in(line, [body]) and any(_answers(h, error) for h in statement.handlers):
            return True
    return False


@functools.lru_cache(maxsize=64)
def _trying(path: str) -> list[ast.Try]:
    return [node for node in ast.walk(syntax_of(path)) if isinstance(node, ast.Try)]


def _answers(handler: ast.ExceptHandler, error: str) -> bool:
    if isinstance(handler.body[-1], ast.Raise):
        return False
    if handler.type is None:
        return True
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(_is_kind_of(error, ast.unparse(each).rpartition(".")[2]) for each in caught)


def _is_kind_of(error: str, other: str) -> bool:
    """Whether `error` is the name `other`, or names a kind of it. A name that Python does not know is taken
    for a kind of Exception."""
    of_python = {**vars(builtins), "LinAlgError": torch.linalg.LinAlgError}
    one, kind = of_python.get(error, Exception), of_python.get(other)
    return error == other or isinstance(kind, type) and issubclass(one, kind)


def shows_at(path: str, line: int) -> bool:
    """Whether a line of a file is in a statement that prints or logs, and does nothing else."""
    return _is_in(line, _showing(path))


@functools.lru_cache(maxsize=64)
def _showing(path: str) -> list[Lines]:
    return [
        _lines(node)
        for node in ast.walk(syntax_of(path))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func).rpartition(".")[2] in _SHOWING
    ]


def _lines(statement: ast.stmt) -> Lines:
    return statement.lineno, statement.end_lineno or statement.lineno


def _is_in(line: int, statements: list[Lines]) -> bool:
    return any(first <= line <= last for first, last in statements)


@functools.lru_cache(maxsize=64)
def looks_for_truths(path: str) -> list[tuple[int, object]]:
    """Where a file asks whether something `is True` or `is False`: the line, and the name, attribute or key
    of what it asks of."""
    found: list[tuple[int, object]] = []
    for node in ast.walk(syntax_of(path)):
        if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], (ast.Is, ast.IsNot)):
            continue
        sides = [node.left, node.comparators[0]]
        if any(isinstance(side, ast.Constant) and isinstance(side.value, bool) for side in sides):
            found += [(node.lineno, _last_name(side)) for side in sides]
    return found


def _last_name(node: ast.expr) -> object:
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return node.slice.value
    return node.id if isinstance(node, ast.Name) else None
