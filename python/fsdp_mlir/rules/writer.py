"""Writes a rule for the archive: its tensors as TorchScript, its numbers as a list."""

from __future__ import annotations

import math
import re
from typing import Any, Optional, Sequence

import torch

from ..dtypes import dtype_name
from ..errors import E, ExportError
from .capture import Rule
from .group_entries import entry_of_state, state_of_entry
from .values import Expr, Pool
from ..archive.free_names import FreeNames
from ..archive.torchscript import call_text, method_text
from ..step.places import at_line

aten = torch.ops.aten


class RuleWriter:
    """Source and description of one rule.

    Attributes:
        source: the method `method`, to stand in a TorchScript class's body.
        description: the rule's entry in `fsdp.json`.
    """

    def __init__(self, rule: Rule, name: str, method: str) -> None:
        self._pool = Pool()
        self._names: dict[int, str] = {}
        self._members: dict[tuple[int, int], str] = {}
        self._free = FreeNames()
        self._lines: list[str] = []
        self._nodes: list[dict[str, Any]] = []
        self._numbers: list[dict[str, Any]] = []
        self._values: dict[str, dict[str, Any]] = {}
        self._inputs: dict[str, str] = {}
        self._taken: set[str] = set()  # numbers that tensors are computed with
        self._shape = rule.shape
        self._formers = {former.name: former for former in rule.formers}
        arguments = [self._argument("param", "parameter", "", rule.dtype)]
        arguments.append(self._argument("grad", "gradient", "", rule.dtype))
        arguments += [
            self._argument(s.name, "state", s.name, s.dtype, s.shape) for s in rule.states
        ]
        own = ["param", *(state.name for state in rule.states)]
        values = [self._result(place, value) for place, value in zip(own, rule.results)]
        for call in sorted(_calls(values), key=lambda call: call.order):
            self._name(call)
        results = [self._name(value) for value in values]
        # What a state will be may follow from further ones: the list grows.
        for number in self._numbers:
            if number["op"] == "former":
                state = number["state"] if "state" in number else state_of_entry(number["entry"])
                number["next"] = self._name(self._formers[state].next)
        numbers = [n["name"] for n in self._numbers if n["name"] in self._taken]
        arguments += [{"name": name, "role": "number"} for name in numbers]
        types = {"number": "float"}
        parameters = [f"{a['name']}: {types.get(a['role'], 'Tensor')}" for a in arguments]
        self.source = method_text(method, parameters, self._lines, results)
        self.description = {
            "name": name,
            "method": method,
            "group": rule.group,
            "parameters": rule.parameters,
            "missed": rule.missed,
            "sets": rule.sets,
            "states": [
                {
                    "name": s.name,
                    "dtype": dtype_name(s.dtype, s.name),
                    "initial": s.initial,
                    "shape": None if s.shape is None else list(s.shape),
                }
                for s in rule.states
            ],
            "numbers": self._numbers,
            "arguments": arguments,
            "results": results,
            "nodes": self._nodes,
            "values": self._values,
        }

    def _argument(
        self,
        wish: str,
        role: str,
        fqn: str,
        dtype: torch.dtype,
        shape: Optional[tuple[int, ...]] = None,
    ) -> dict[str, Any]:
        name = self._define(wish)
        self._inputs[wish] = name
        self._values[name] = self._described(dtype, name, shape=shape)
        return {"name": name, "role": role} | ({"fqn": fqn} if fqn else {})

    def _result(self, place: str, value: Expr) -> Expr:
        """A result; a copy where it is another input, which may be overwritten before it is read."""
        if value.op != "input" or value.operands[1] in (place, "grad"):
            return value
        return self._pool.make(
            "call", aten.clone.default, value, dtype=value.dtype, layout=value.layout
        )

    def _define(self, wish: str) -> str:
        wish = re.sub(r"\W", "_", wish).strip("_") or "v"
        return self._free.take(f"v_{wish}" if re.fullmatch(r"s\d+", wish) else wish)

    def _name(self, value: Expr) -> str:
        """The name of a tensor or a number, which is written where it is not yet."""
        if value.op == "input":
            return self._inputs[value.operands[1]]
        if id(value) not in self._names:
            write = self._number if value.is_number else self._call
            self._names[id(value)] = write(value)
        return self._names[id(value)]

    def _number(self, value: Expr) -> str:
        entry: dict[str, Any] = {"op": value.op}
        if value.op == "step":
            entry["op"] = "step_count"
            offset = value.operands[0]
            if offset:
                count = self._pool.make("step", 0)
                entry = {"op": "add", "operands": [self._name(count), float(offset)]}
        elif value.op == "constant":
            entry = {"op": "add", "operands": [self._finite(value), 0.0]}
        elif value.op == "hyperparameter":
            entry["hyperparameter"] = value.operands[1]
        elif value.op == "former":
            former = self._formers[value.operands[1]]
            key = entry_of_state(former.name)
            of = {"state": former.name} if key is None else {"entry": key}
            entry |= {"operands": [self._operand(former.initial)], **of}
        else:
            entry["operands"] = [self._operand(operand) for operand in value.operands]
        name = f"s{len(self._numbers)}"
        self._numbers.append({"name": name, **entry})
        return name

    def _operand(self, value: Expr) -> Any:
        return self._finite(value) if value.op == "constant" else self._name(value)

    def _finite(self, value: Expr) -> float:
        if not math.isfinite(value.operands[0]):
            raise ExportError(
                E.OPTIMIZER_STEP,
                at_line(
                    value.where,
                    f"the optimizer computes with {value.operands[0]}, which an archive cannot hold",
                ),
            )
        return value.operands[0]

    def _call(self, value: Expr) -> str:
        if value.op == "result":
            call, index = value.operands
            self._name(call)
            return self._members[id(call), index]
        if value.op == "fill":
            param = self._pool.make("input", -1, "param", dtype=value.dtype)
            operands = (aten.full_like.default, param, value.operands[0], value.dtype)
            if value.layout is not None:
                operands = (aten.full.default, value.layout[0], value.operands[0], value.dtype)
        else:
            operands = value.operands[1:] if value.op == "calls" else value.operands
        op, *given = operands
        defaults = [argument.default_value for argument in op._schema.arguments]
        given += defaults[len(given) :]
        text = call_text(op, given, self._spelled, value.where)
        results = self._results(value, op, text)
        self._nodes.append(
            {
                "op": op._schema.name,
                "overload": op._schema.overload_name,
                "results": results,
                "source": value.where,
            }
        )
        return results[0]

    def _spelled(self, value: Any) -> Optional[str]:
        if not isinstance(value, Expr):
            return None
        if value.op == "constant":
            return repr(self._finite(value))
        if value.op == "item":
            return self._item(value)
        name = self._name(value)
        if value.is_number:
            self._taken.add(name)
        return name

    def _item(self, value: Expr) -> str:
        """A number that a tensor holds, where a call takes it."""
        return f"torch.item({self._name(value.operands[0])})"

    def _described(
        self,
        dtype: torch.dtype,
        name: str,
        value: Optional[Expr] = None,
        shape: Optional[tuple[int, ...]] = None,
    ) -> dict[str, Any]:
        """A value's type; one without `value` and `shape` is like the parameter."""
        entry: dict[str, Any] = {"dtype": dtype_name(dtype, name), "shape": None}
        if value is not None and value.layout is not None:
            shape, strides = value.layout
        elif value is not None and not value.whole:
            shape, strides = (), ()
        elif shape or self._shape is not None:
            shape = shape or self._shape
            strides = torch.empty(shape, device="meta").stride()
        else:
            return entry
        return entry | {"shape": list(shape), "strides": list(strides)}

    def _results(self, value: Expr, op: Any, text: str) -> list[str]:
        """Names the results, and writes the line."""
        base = op._schema.name.split("::")[1].strip("_")
        if len(op._schema.returns) == 1:
            name = self._define(base)
            self._values[name] = self._described(value.dtype, name, value)
            self._lines.append(f"{name} = {text}")
            return [name]
        if value.op == "calls":
            return self._tuple(value, base, text)
        # A kernel gives a list for each list that it takes and writes, each of one member.
        lists = [self._define(f"{base}_list") for _ in op._schema.returns]
        self._lines.append(f"{', '.join(lists)}, = {text}")
        names = []
        for index, (group, members) in enumerate(zip(lists, value.operands[1:])):
            for member in members:
                name = self._define(base)
                self._values[name] = self._described(member.dtype, name)
                self._lines.append(f"{name}, = {group}")
                self._members[id(value), index] = name
                names.append(name)
        return names

    def _tuple(self, value: Expr, base: str, text: str) -> list[str]:
        """Names all of several tensors, also those that nothing reads."""
        names = [self._define(base) for _ in value.operands[0]]
        self._lines.append(f"{', '.join(names)}, = {text}")
        for index, (name, (dtype, layout)) in enumerate(zip(names, value.operands[0])):
            form = self._pool.make("input", -1, name, dtype=dtype, layout=layout)
            self._values[name] = self._described(dtype, name, form)
            self._members[id(value), index] = name
        return names


def _calls(values: Sequence[Any]) -> set[Expr]:
    """The calls that `values` are computed from."""
    found: set[Expr] = set()

    def visit(value: Any) -> None:
        if isinstance(value, tuple):
            for member in value:
                visit(member)
        elif isinstance(value, Expr) and value.op == "item":
            visit(value.operands)
        elif isinstance(value, Expr) and not value.is_number and value not in found:
            found.add(value)
            visit(value.operands)

    visit(tuple(values))
    return {value for value in found if value.op in ("call", "calls", "fill")}
