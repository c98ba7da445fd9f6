"""Writes a captured graph as TorchScript source, and describes it for `fsdp.json`.

TorchScript's serialised form is source code, so the source is written directly: one line per node,
every argument explicit, every value under its own name. Loading resolves each call against the
operators' schemas; `archive.py` checks that it found the same ones.
"""

from __future__ import annotations

import math
import operator
import re
from typing import Any, Callable, Optional, Sequence

import torch
from torch import fx
from torch.utils.checkpoint import CheckpointPolicy

from ..capture.graph.nodes import is_backward, refusal, source
from ..capture.graph.program import Program
from ..dtypes import DTYPES, dtype_name
from ..errors import E, ExportError
from ..step.places import at_line
from ..step.names import StateNames, plain_path
from ..step.programs import StepProgram
from .free_names import FreeNames
from .writable import check_writable

_LAYOUTS = {torch.strided: 0}
_MEMORY_FORMATS = {
    torch.contiguous_format: 0,
    torch.preserve_format: 1,
    torch.channels_last: 2,
    torch.channels_last_3d: 3,
}


class ProgramWriter:
    """Source and description of one program.

    Attributes:
        source: the method, to stand in a TorchScript class's body.
        description: the program's entry in `fsdp.json`.
    """

    def __init__(self, program: Program, names: StateNames, wanted: StepProgram) -> None:
        self._names = names
        self._free = FreeNames()
        self._values: dict[str, dict[str, Any]] = {}
        self._spelling: dict[Any, str] = {}
        self._lines: list[str] = []
        self._nodes: list[dict[str, Any]] = []
        self._checkpoints: dict[Any, int] = {}
        self._forward_modules = _modules_by_sequence(program.graph, names)
        arguments = [self._argument(a.node, a.role, a.fqn) for a in program.arguments]
        for node in program.graph.nodes:
            if node.op == "call_function" and node.target is not operator.getitem:
                self._call(node)
        results = [self._result(r.node, r.role, r.fqn) for r in program.results]
        parameters = [f"{a['name']}: Tensor" for a in arguments]
        returned = [result["name"] for result in results]
        self.source = method_text(program.name, parameters, self._lines, returned)
        self.description = {
            "variant_of": wanted.variant_of,
            "turn": wanted.turn,
            "next": wanted.next,
            "arguments": arguments,
            "results": results,
            "nodes": self._nodes,
            "values": self._values,
        }

    def _argument(self, node: fx.Node, role: str, fqn: str) -> dict[str, Any]:
        value = node.meta.get("val")
        if value is None and node.op == "get_attr":
            value = self._names.constants[fqn]
        name = self._define(node, node.name, value)
        entry = {"name": name, "role": role}
        if role != "cotangent":
            entry["fqn"] = fqn
        return entry

    def _result(self, node: fx.Node, role: str, fqn: str) -> dict[str, Any]:
        entry = {"name": self._spell(node), "role": role}
        if role != "loss":
            entry["fqn"] = fqn
        return entry

    def _define(self, key: Any, wish: str, tensor: torch.Tensor) -> str:
        """Gives the value `key` a name of its own and records its type."""
        name = self._free.take(wish)
        self._spelling[key] = name
        self._values[name] = {
            "shape": list(tensor.shape),
            "dtype": dtype_name(tensor.dtype, str(key)),
            "strides": list(tensor.stride()),
        }
        return name

    def _spell(self, node: fx.Node) -> str:
        if node in self._spelling:
            return self._spelling[node]
        if node.op == "call_function" and node.target is operator.getitem:
            return self._spelling[(node.args[0], node.args[1])]
        raise ExportError(E.ARCHIVE_CONTENTS, f"{node.name} is used but not computed by an op")

    def _call(self, node: fx.Node) -> None:
        op = node.target
        where = source(node)
        check_writable(node)
        schema = op._schema
        values = []
        for index, argument in enumerate(schema.arguments):
            if not argument.kwarg_only and index < len(node.args):
                values.append(node.args[index])
            elif argument.name in node.kwargs:
                values.append(node.kwargs[argument.name])
            elif argument.has_default_value():
                values.append(argument.default_value)
            else:
                raise refusal(E.ARCHIVE_CONTENTS, node, f"{op} lacks its argument {argument.name}")
        results = self._results(node, call_text(op, values, self._spelled, where))
        self._nodes.append(
            {
                "op": schema.name,
                "overload": schema.overload_name,
                "results": results,
                "module": self._module(node),
                "phase": _phase(node),
                **self._checkpoint(node),
                "source": where,
            }
        )

    def _checkpoint(self, node: fx.Node) -> dict[str, Any]:
        """The number of the checkpoint that `node` is in, and whether its policy keeps the result."""
        region = node.meta.get("ac_graph_id")
        if region is None or _phase(node) == "backward":
            return {"checkpoint": None, "keep": False}
        policy = node.meta.get("recompute")
        if policy in (CheckpointPolicy.MUST_CPU_OFFLOAD, CheckpointPolicy.PREFER_CPU_OFFLOAD):
            raise refusal(
                E.ACTIVATION_POLICY,
                node,
                f"the checkpoint's policy gives {policy.name} for {node.target}, which does not exist here; save it (MUST_SAVE) or recompute it",
            )
        keep = policy in (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)
        # PyTorch counts checkpoints over all captures of a process.
        number = self._checkpoints.setdefault(region, len(self._checkpoints))
        return {"checkpoint": number, "keep": keep}

    def _results(self, node: fx.Node, call: str) -> list[Optional[str]]:
        """Names the results of `node`, and writes its line."""
        value = node.meta.get("val")
        wishes = {
            user.args[1]: user.name
            for user in reversed(list(node.users))
            if user.op == "call_function" and user.target is operator.getitem
        }
        returns = node.target._schema.returns
        if len(returns) == 1 and isinstance(value, torch.Tensor):
            name = self._define(node, node.name, value)
            self._lines.append(f"{name} = {call}")
            return [name]
        is_list = len(returns) == 1 and isinstance(value, (list, tuple))
        if not is_list and not (isinstance(value, (tuple, list)) and len(value) == len(returns)):
            raise refusal(
                E.ARCHIVE_VALUE,
                node,
                f"{node.target} gives {type(value).__name__}, not tensors; keep the step's values "
                "tensors",
            )
        names: list[Optional[str]] = []
        targets: list[str] = []
        for index, member in enumerate(value):
            wish = wishes.get(index, f"{node.name}_{index}")
            if member is None:
                names.append(None)
                targets.append(self._free.take(f"{node.name}_none_{index}"))
            elif isinstance(member, torch.Tensor):
                name = self._define((node, index), wish, member)
                names.append(name)
                targets.append(name)
            else:
                raise refusal(
                    E.ARCHIVE_VALUE,
                    node,
                    f"{node.target} gives a number beside its tensors, which cannot be exported",
                )
        if is_list:
            whole = self._free.take(f"{node.name}_list")
            self._lines.append(f"{whole} = {call}")
            call = whole
        self._lines.append(f"{', '.join(targets)}, = {call}")
        return names

    def _module(self, node: fx.Node) -> str:
        path = _module_path(node, self._names)
        if path is None:
            path = self._forward_modules.get(node.meta.get("seq_nr"), "")
        return path

    def _spelled(self, value: Any) -> Optional[str]:
        return self._spell(value) if isinstance(value, fx.Node) else None


def method_text(name: str, parameters: list[str], lines: list[str], results: list[str]) -> str:
    """TorchScript source of a method that returns the tuple of `results`, all of them tensors."""
    types = ", ".join(["Tensor"] * len(results))
    returned = ", ".join(results) + ("," if len(results) == 1 else "")
    return "\n".join(
        [f"  def {name}(self: __torch__.Step, {', '.join(parameters)}) -> Tuple[{types}]:"]
        + [f"    {line}" for line in lines]
        + [f"    return ({returned})", ""]
    )


def call_text(
    op: Any, values: Sequence[Any], spelled: Callable[[Any], Optional[str]], where: str
) -> str:
    """TorchScript source of a call with a value for each argument of its schema.

    `spelled` gives the name of a value that is computed, and None for a constant.
    """
    schema = op._schema
    positional, keywords = [], []
    for argument, value in zip(schema.arguments, values, strict=True):
        text = _literal(value, str(argument.type), spelled)
        if text is None:
            what = (
                f"{op} has {value!r} as its argument {argument.name}, which an archive cannot hold"
            )
            raise ExportError(E.ARCHIVE_VALUE, at_line(where, what))
        if argument.kwarg_only:
            keywords.append(f"{argument.name}={text}")
        else:
            positional.append(text)
    namespace, name = schema.name.split("::")
    prefix = "torch" if namespace == "aten" else f"ops.{namespace}"
    return f"{prefix}.{name}({', '.join(positional + keywords)})"


def _literal(value: Any, kind: str, spelled: Callable[[Any], Optional[str]]) -> Optional[str]:
    """TorchScript source of an argument of schema type `kind`, or None where there is none."""
    if kind.startswith("Optional["):
        if value is None:
            return "None"
        kind = kind[len("Optional[") : -1]
    name = spelled(value)
    if name is not None:
        return name
    if kind.startswith("List["):
        member = kind[len("List[") : -1]
        values = value if isinstance(value, (list, tuple, torch.Size)) else [value]
        texts = [_literal(v, member, spelled) for v in values]
        if None in texts:
            return None
        text = ", ".join(texts)
        if not values or member.startswith("Optional["):
            return f"annotate({kind}, [{text}])"
        return f"[{text}]"
    return "None" if value is None else _scalar(value, kind)


def _scalar(value: Any, kind: str) -> Optional[str]:
    if isinstance(value, torch.dtype):
        return str(DTYPES[value].scalar_type) if value in DTYPES else None
    if isinstance(value, torch.layout):
        return str(_LAYOUTS[value]) if value in _LAYOUTS else None
    if isinstance(value, torch.memory_format):
        return str(_MEMORY_FORMATS[value])
    if isinstance(value, torch.device):
        return 'torch.device("cpu")' if value.type == "cpu" else None
    if isinstance(value, bool):
        # A Scalar that is a truth value: the caller has seen that the result's type keeps.
        return repr(value) if kind == "bool" else repr(int(value))
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return None
    if isinstance(value, int):
        return _float(float(value)) if kind == "float" else repr(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, complex):
        return f"complex({_float(value.real)}, {_float(value.imag)})"
    if isinstance(value, str):
        import json

        return json.dumps(value)
    return None


def _float(value: float) -> str:
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return repr(value)


def _phase(node: fx.Node) -> str:
    return "backward" if is_backward(node.meta) else "forward"


def _module_path(node: fx.Node, names: StateNames) -> Optional[str]:
    """Path of the module whose forward computes `node`, relative to the model; None: not known."""
    stack = node.meta.get("nn_module_stack")
    if not stack:
        return None
    for path, _ in reversed(list(stack.values())):
        # L['self']._modules['model']._modules['blocks']._modules['0'] or L['s'].model.blocks[0]
        path = re.sub(r"\._modules\['([^']+)'\]", r".\1", path)
        path = re.sub(r"\[(?:'([^']*)'|(\d+))\]", lambda m: "." + (m[1] or m[2]), path)
        parts = path.split(".")
        if "model" not in parts:
            continue
        relative = plain_path(".".join(parts[parts.index("model") + 1 :]))
        if relative in names.first_path:
            return names.first_path[relative]
    return ""


def _modules_by_sequence(graph: fx.Graph, names: StateNames) -> dict[int, str]:
    """Module of the forward ops by autograd's sequence number: backward ops carry no path."""
    modules: dict[int, str] = {}
    for node in graph.nodes:
        if node.op == "call_function" and _phase(node) == "forward":
            path = _module_path(node, names)
            sequence = node.meta.get("seq_nr")
            if path is not None and sequence is not None:
                modules.setdefault(sequence, path)
    return modules
