"""Rules of parameters that the step itself keeps between bounds."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from ..capture.graph.program import Bounds
from .capture import Rule
from .values import Expr, Pool

_CLAMP = torch.ops.aten.clamp.default


def of_clamped(rule: Rule, bounds: Bounds) -> Rule:
    """`rule` of parameters that are clamped before it reads them."""
    pool = Pool()
    known: dict[int, Any] = {}

    def replaced(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(replaced, value))
        if not isinstance(value, Expr):
            return value
        if id(value) not in known:
            known[id(value)] = made(value)
        return known[id(value)]

    def made(value: Expr) -> Expr:
        if value.op != "input":
            return pool.like(value, *map(replaced, value.operands))
        if value.operands[1] != "param":
            return value
        low, high = (None if bound is None else pool.constant(bound) for bound in bounds)
        return pool.make("call", _CLAMP, value, low, high, dtype=value.dtype, layout=value.layout)

    formers = [dataclasses.replace(f, next=replaced(f.next)) for f in rule.formers]
    return dataclasses.replace(rule, results=list(map(replaced, rule.results)), formers=formers)
