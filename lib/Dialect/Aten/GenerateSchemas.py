"""Writes the schema table of the installed PyTorch's dispatcher, and of the operators that the
runtime adds to it, as C++ string literals.

One line per schema, fields separated by tabs: name, overload, tags, arguments,
results. An argument is `name type alias default`, arguments are separated by
`|`; a result is `type alias`. Lib/Dialect/Aten/Schema.cpp reads the lines.

usage: GenerateSchemas.py OUTPUT OPERATORS.def
"""

from __future__ import annotations

import re
import sys

import torch

TAGS = (
    "pointwise",
    "nondeterministic_seeded",
    "view_copy",
    "inplace_view",
    "core",
    "data_dependent_output",
    "dynamic_output_shape",
    "reduction",
)

# Where a kernel for GPUs may be: its own, or one for all devices.
CUDA_KEYS = (
    "CUDA",
    "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
    "CompositeImplicitAutograd",
)

KINDS = {
    "Tensor": "T",
    "int": "I",
    "float": "F",
    "bool": "B",
    "str": "S",
    "number": "N",
    "complex": "C",
    "ScalarType": "D",
    "Layout": "L",
    "MemoryFormat": "M",
    "Device": "V",
    "Generator": "G",
}


def type_text(t: object) -> str:
    """A kind letter, then `?` and `[]` from the inside out; X is a type that no graph holds."""
    text = str(t)
    suffix = ""
    while True:
        if text.startswith("Optional[") and text.endswith("]"):
            text, suffix = text[len("Optional[") : -1], "?" + suffix
        elif text.startswith("List[") and text.endswith("]"):
            text, suffix = text[len("List[") : -1], "[]" + suffix
        else:
            break
    kind = KINDS.get(text, "X")
    if suffix not in ("", "?", "[]", "[]?", "?[]", "?[]?"):
        kind, suffix = "X", ""
    return kind + suffix


def alias_text(annotation: str | None) -> str:
    """`-`, or the alias set's name, with `!` behind it where the value is written."""
    if not annotation:
        return "-"
    names = annotation.split("->")[0].strip()
    return names.replace(" ", "").replace("|", ",")


def default_text(argument: object) -> str:
    """Empty without a default; else `none`, or a letter for the type and the value."""
    if not argument.has_default_value():
        return "-"
    value = argument.default_value
    if value is None:
        return "none"
    if isinstance(value, bool):
        return f"b{int(value)}"
    if isinstance(value, int):
        return f"i{value}"
    if isinstance(value, float):
        return f"f{value!r}"
    if isinstance(value, str):
        return f"s{value}"
    if isinstance(value, list):
        if all(isinstance(v, bool) for v in value) and value:
            return "B" + ",".join(str(int(v)) for v in value)
        if all(isinstance(v, int) for v in value):
            return "I" + ",".join(str(v) for v in value)
        if all(isinstance(v, float) for v in value):
            return "F" + ",".join(repr(v) for v in value)
    raise ValueError(f"default value {value!r} of a type that is not known")


def result_alias(schema: object, index: int) -> str | None:
    text = str(schema).rpartition(" -> ")[2]
    members = re.split(r", ", text[1:-1]) if text.startswith("(") else [text]
    match = re.match(r"\w+\(([^()]*)\)", members[index])
    return match[1] if match else None


# What the runtime adds to PyTorch, and has for GPUs, by name and overload.
added: set[str] = set()


def runs_on_cuda(name: str) -> bool:
    return name in added or any(
        torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in CUDA_KEYS
    )


def line(schema: object, qualified: str, tags: list[object]) -> str:
    names = {str(t).removeprefix("Tag.") for t in tags}
    bits = sum(1 << i for i, tag in enumerate(TAGS) if tag in names)
    bits |= runs_on_cuda(qualified) << len(TAGS)
    # The binding hides the alias sets of a list's members; the text has them.
    inputs = str(schema).rpartition(" -> ")[0]
    annotation = dict(
        (name, alias) for alias, name in re.findall(r"\(([^()]*)\)[\[\]?0-9]* (\w+)", inputs)
    )
    arguments = []
    for a in schema.arguments:
        fields = [
            a.name,
            type_text(a.real_type),
            alias_text(annotation.get(a.name)),
            default_text(a),
        ]
        if any(c in f for f in fields for c in " |\t\n") or not all(fields):
            raise ValueError(f"{schema}: a field holds a separator")
        arguments.append(" ".join(fields))
    results = [
        f"{type_text(r.real_type)} {alias_text(result_alias(schema, i))}"
        for i, r in enumerate(schema.returns)
    ]
    return "\t".join(
        [
            schema.name,
            schema.overload_name,
            str(bits),
            "|".join(arguments),
            "|".join(results),
        ]
    )


def main() -> None:
    library = torch.library.Library("fsdp_mlir", "DEF")
    with open(sys.argv[2]) as operators:
        for cpu, schema in re.findall(
            r'^FSDP_(CPU_)?OPERATOR\("(.*)"\)$', operators.read(), re.MULTILINE
        ):
            drawn = (torch.Tag.nondeterministic_seeded,) if "Generator" in schema else ()
            library.define(schema, tags=drawn)
            if not cpu:
                added.add("fsdp_mlir::" + schema.partition("(")[0])
    registered = set(torch._C._dispatch_get_all_op_names())
    lines = []
    for schema in torch._C._jit_get_all_schemas():
        overload = schema.overload_name
        qualified = schema.name + ("." + overload if overload else "")
        if qualified not in registered:
            continue  # TorchScript's own, not the dispatcher's
        tags = torch._C._get_operation_overload(schema.name, overload)[2]
        lines.append(line(schema, qualified, tags))
    lines = sorted(set(lines))
    with open(sys.argv[1], "w") as out:
        for text in lines:
            escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")
            out.write(f'"{escaped}\\n"\n')


if __name__ == "__main__":
    main()
