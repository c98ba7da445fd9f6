"""What the source of a user's file says, of which a trace has the line alone."""

from __future__ import annotations

import ast
import functools
import linecache
from typing import Union

WithCondition = Union[ast.If, ast.While, ast.Assert]


@functools.lru_cache(maxsize=64)
def syntax_of(path: str) -> ast.Module:
    """A file of Python, which is empty where it cannot be read as such."""
    try:
        return ast.parse("".join(linecache.getlines(path)))
    except SyntaxError:
        return ast.Module([], [])


def conditions_at(path: str, line: int) -> list[WithCondition]:
    """The statements whose condition is on a line of a file, the outer ones first."""
    return [
        statement
        for statement in _with_conditions(path)
        if statement.test.lineno <= line <= (statement.test.end_lineno or 0)
    ]


@functools.lru_cache(maxsize=64)
def _with_conditions(path: str) -> list[WithCondition]:
    kinds = (ast.If, ast.While, ast.Assert)
    return [node for node in ast.walk(syntax_of(path)) if isinstance(node, kinds)]
