"""What docs/api.md says of each name: its signature, and what its docstring begins with. The site
has the whole docstring in its place (tools/site_hooks.py)."""

from __future__ import annotations

import enum
import inspect
import json
from importlib import import_module
from typing import Any, Iterator

# Of a signature on one line.
_WIDTH = 92


def entry(path: str) -> str:
    """The section of `fsdp_mlir.step.training_step.TrainingStep`.

    Raises:
        AttributeError: there is no such name, or it has no docstring.
    """
    module, _, name = path.rpartition(".")
    what = getattr(import_module(module), name)
    parts = [f"### {name}", f"```python\n{_signature(name, what)}\n```", _begin(what)]
    if members := [*_members(what)]:
        parts.append("\n".join(members))
    return "\n\n".join(parts)


def _begin(what: Any) -> str:
    """The first paragraph of a docstring."""
    doc = inspect.getdoc(what)
    if not doc:
        raise AttributeError(f"{what} has no docstring")
    return doc.partition("\n\n")[0].replace("\n", " ")


def _members(what: Any) -> Iterator[str]:
    """A line for each method and property of a class that has a docstring."""
    for name, member in vars(what).items() if inspect.isclass(what) else ():
        function = member.fget if isinstance(member, property) else member
        if name.startswith("_") or not inspect.isroutine(function) or not function.__doc__:
            continue
        call = name if isinstance(member, property) else _signature(name, function, of_self=True)
        yield f"- `{' '.join(call.split())}`: {_begin(function)}"


def _signature(name: str, what: Any, of_self: bool = False) -> str:
    """As one would write the call, with types and defaults."""
    signature = inspect.signature(what)
    words, star = [], False
    for parameter in [*signature.parameters.values()][of_self:]:
        if parameter.kind is parameter.VAR_POSITIONAL:
            star = True
        elif parameter.kind is parameter.KEYWORD_ONLY and not star:
            words.append("*")
            star = True
        words.append(_parameter(parameter))
    returns = signature.return_annotation
    tail = ")"
    if not inspect.isclass(what) and returns not in ("None", None, inspect.Signature.empty):
        tail += f" -> {returns}".replace("'", "")
    line = f"{name}({', '.join(words)}{tail}"
    if len(line) <= _WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {word}," for word in words), tail])


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}
    text = stars.get(parameter.kind, "") + parameter.name
    typed = parameter.annotation is not parameter.empty
    text += f": {parameter.annotation}" if typed else ""
    if parameter.default is parameter.empty:
        return text
    value = parameter.default
    default = str(value) if isinstance(value, enum.Enum) else repr(value)
    default = json.dumps(value) if isinstance(value, str) else default
    if default.startswith("<"):  # an object, at some address
        default = "..."
    return f"{text} = {default}" if typed else f"{text}={default}"
