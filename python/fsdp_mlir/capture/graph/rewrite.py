"""Rewrites of a captured graph that an archive needs: numbers, random ops, dead code."""

from __future__ import annotations

from typing import Any, Callable, Optional

import torch
from torch import fx

from ...errors import E
from .nodes import arguments_of, insert_call, is_random, refusal, replace
from .part_writes import simplify_part_writes
from .program import Program


def prepare(program: Program) -> None:
    """Brings `program` into the form an archive holds; the values it computes stay the same."""
    _drop_dead_code(program)
    simplify_part_writes(program.graph)
    for node in list(program.graph.nodes):
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
            continue
        if node.target is torch.ops.aten.rsub.Tensor:
            _swap_rsub(node)
        if node.target is torch.ops.aten.linalg_pinv.atol_rtol_tensor:
            _choose_pinv(node)
        _say_dtype(node)
        if is_random(node.target):
            _give_generator(node)
        else:
            _move_numbers(node)
    _drop_dead_code(program)


def _drop_dead_code(program: Program) -> None:
    """TorchScript drops dead code when it loads, so that it must not be described either.

    Results that the archive does not return (gradients of inputs) are dead as well.
    """
    output = next(node for node in program.graph.nodes if node.op == "output")
    output.args = (tuple(result.node for result in program.results),)
    program.graph.eliminate_dead_code(
        is_impure_node=lambda node: node.op in ("placeholder", "output")
    )


def _swap_rsub(node: fx.Node) -> None:
    """Subtracts the other way round, as rsub itself does; TorchScript reads it so when it loads."""
    arguments = arguments_of(node)
    node.target = torch.ops.aten.sub.Tensor
    node.args = (arguments["other"], arguments["self"])
    node.kwargs = {"alpha": arguments["alpha"]}


def _choose_pinv(node: fx.Node) -> None:
    """Without tolerances TorchScript reads the overload of numbers, which calls that of tensors."""
    arguments = arguments_of(node)
    if arguments["atol"] is None and arguments["rtol"] is None:
        node.target = torch.ops.aten.linalg_pinv.atol_rtol_float


def _has_generator(op: Any) -> bool:
    return any("Generator" in str(argument.type) for argument in op._schema.arguments)


def _set_argument(node: fx.Node, name: str, value: Any) -> None:
    """Gives `node` another argument, by position where it was given so."""
    index = next(i for i, a in enumerate(node.target._schema.arguments) if a.name == name)
    if index < len(node.args):
        node.update_arg(index, value)
    else:
        node.update_kwarg(name, value)


def _say_dtype(node: fx.Node) -> None:
    """Gives an op that makes a tensor the dtype that `torch.set_default_dtype` gave it: a run has its own
    default, float32."""
    value = node.meta.get("val")
    if node.all_input_nodes or not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return
    is_default = value.dtype == torch.get_default_dtype() == torch.float32
    if not is_default and arguments_of(node).get("dtype", value.dtype) is None:
        _set_argument(node, "dtype", value.dtype)


def _give_generator(node: fx.Node) -> None:
    """Replaces a random op without a generator argument by ones that have it, bit for bit."""
    if _has_generator(node.target):
        return
    rewrite = _RANDOM.get(node.target)
    if rewrite is None:
        raise refusal(
            E.OPERATOR_REFUSED,
            node,
            f"{node.target} draws random numbers without a "
            "generator, which cannot be repeated on every rank; use another random op",
        )
    with node.graph.inserting_before(node):
        new = rewrite(node, arguments_of(node))
    replace(node, new)


def _native_dropout(node: fx.Node, arguments: dict[str, Any]) -> tuple[fx.Node, fx.Node]:
    """As eager PyTorch computes a dropout on the CPU, backward as well: what is kept is multiplied
    by one number, a quotient of the tensor's dtype."""
    aten = torch.ops.aten
    x, p, train = arguments["input"], arguments["p"], arguments["train"]
    mask_value = node.meta["val"][1]
    if train is False or mask_value.numel() == 0:
        mask = insert_call(node, aten.ones_like.default, x, dtype=torch.bool)
        return x, mask
    keep = 1.0 - p
    scale = _quotient(keep, x)
    for user in [reader for part in node.users for reader in part.users]:
        if user.target is aten.native_dropout_backward.default:
            _set_argument(user, "scale", _quotient(keep, arguments_of(user)["grad_output"]))
    # The mask is filled in the order of memory. bernoulli's functional form fills a row-major
    # tensor, so that one is drawn whose rows lie as the mask's do, and is looked at transposed.
    order = sorted(range(x.meta["val"].dim()), key=lambda d: -mask_value.stride(d))
    sizes = [mask_value.shape[d] for d in order]
    empty = insert_call(node, aten.empty.memory_format, sizes, dtype=torch.bool, device="cpu")
    mask = insert_call(node, aten.bernoulli.p, empty, keep)
    if order != sorted(order):
        mask = insert_call(
            node, aten.permute.default, mask, [order.index(d) for d in sorted(order)]
        )
    scaled = insert_call(node, aten.mul.Tensor, x, mask)
    return insert_call(node, aten.mul.Scalar, scaled, scale), mask


def _quotient(keep: float, tensor: fx.Node) -> float:
    """1 / keep, in the arithmetic of the tensor's dtype; 0 where nothing is kept."""
    return 0.0 if keep == 0.0 else torch.ones((), dtype=tensor.meta["val"].dtype).div_(keep).item()


def _overload(name: str) -> Callable[[fx.Node, dict[str, Any]], fx.Node]:
    """The overload of the same op that takes a generator."""

    def rewrite(node: fx.Node, arguments: dict[str, Any]) -> fx.Node:
        packet = getattr(torch.ops.aten, node.target._schema.name.split("::")[1])
        positional = [
            arguments.pop(argument.name)
            for argument in node.target._schema.arguments
            if not argument.kwarg_only
        ]
        return insert_call(node, getattr(packet, name), *positional, generator=None, **arguments)

    return rewrite


_RANDOM: dict[Any, Callable[[fx.Node, dict[str, Any]], Any]] = {
    torch.ops.aten.native_dropout.default: _native_dropout,
    torch.ops.aten.rand.default: _overload("generator"),
    torch.ops.aten.randn.default: _overload("generator"),
    torch.ops.aten.randperm.default: _overload("generator"),
    torch.ops.aten.randint.default: _overload("generator"),
    torch.ops.aten.randint.low: _overload("low_generator"),
    torch.ops.aten.rand_like.default: _overload("generator"),
    torch.ops.aten.randn_like.default: _overload("generator"),
    torch.ops.aten.randint_like.default: _overload("generator"),
    torch.ops.aten.randint_like.Tensor: _overload("Tensor_generator"),
    torch.ops.aten.randint_like.low_dtype: _overload("low_generator_dtype"),
}


def _move_numbers(node: fx.Node) -> None:
    """Gives a number in a tensor's place to the overload that takes numbers there.

    Both compute the same bits: the tensor overload wraps the number as the other does.
    """
    schema = node.target._schema
    values = arguments_of(node)
    _spell_truth_values(node, values)
    numbers = [
        argument.name
        for argument in schema.arguments
        if str(argument.type) in ("Tensor", "Optional[Tensor]")
        and isinstance(values[argument.name], (int, float, complex))
    ]
    if not numbers:
        return
    target = _number_overload(schema, numbers)
    if target is not None and not any(isinstance(values[name], bool) for name in numbers):
        node.target = target
        return
    # No such overload: a tensor without dimensions takes part in type promotion nearly as a
    # number does; where it does not, the result's type tells.
    given = node.args, node.kwargs
    # Beside truth values and whole numbers only a tensor of the result's own type does.
    for own in (None, getattr(node.meta["val"], "dtype", None)):
        with node.graph.inserting_before(node):
            for name in numbers:
                constant = _tensor_of(node, values[name], own)
                _set_argument(node, name, constant)
            if _keeps_types(node):
                return
    # As in `loss + 0.5`: `add.Scalar` differs in taking `alpha` by position, too.
    target = _number_overload(schema, numbers, by_keyword=False)
    if target is None:
        raise refusal(
            E.ARCHIVE_VALUE,
            node,
            f"{node.target} takes a number where an archive needs a "
            "tensor; write the number as a tensor of the wanted dtype",
        )
    node.target, (node.args, node.kwargs) = target, given


def _tensor_of(node: fx.Node, value: Any, dtype: Optional[torch.dtype]) -> fx.Node:
    """A number as a tensor without dimensions, in front of `node`."""
    if dtype is None:
        kinds = {bool: torch.bool, int: torch.int64}
        dtype = kinds.get(type(value), torch.float64)
    op = torch.ops.aten.scalar_tensor.default
    return insert_call(node, op, value, dtype=dtype, device="cpu")


def _spell_truth_values(node: fx.Node, values: dict[str, Any]) -> None:
    """TorchScript takes no bool for a Scalar: such an argument is 0 or 1, and the dtype explicit."""
    scalars = [a for a in node.target._schema.arguments if str(a.type) == "number"]
    if not any(isinstance(values[a.name], bool) for a in scalars):
        return
    if "dtype" in values and values["dtype"] is None:
        node.update_kwarg("dtype", node.meta["val"].dtype)
    for argument in scalars:
        if isinstance(values[argument.name], bool):
            values[argument.name] = int(values[argument.name])
            _set_argument(node, argument.name, values[argument.name])
    with node.graph.inserting_before(node):
        same = _keeps_types(node)
    if not same:
        raise refusal(
            E.ARCHIVE_VALUE,
            node,
            f"{node.target} takes a truth value as a number, which "
            "an archive cannot hold; write it as a tensor",
        )


def _keeps_types(node: fx.Node) -> bool:
    """Whether `node`, with the arguments it has now, still gives the types it is recorded with."""
    try:
        check = insert_call(node, node.target, *node.args, **node.kwargs)
    except Exception:  # PyTorch's own checks of an op's arguments raise what they like
        return False
    same = _types(check.meta["val"]) == _types(node.meta["val"])
    node.graph.erase_node(check)
    return same


def _types(value: Any) -> list[Any]:
    values = value if isinstance(value, (tuple, list)) else [value]
    return [(v.dtype, v.shape) if isinstance(v, torch.Tensor) else v for v in values]


def _number_overload(schema: Any, numbers: list[str], by_keyword: bool = True) -> Optional[Any]:
    """The overload of the same op whose arguments differ in taking numbers for `numbers`, and,
    unless `by_keyword`, in taking others by position that `schema` takes by keyword alone."""
    packet = getattr(getattr(torch.ops, schema.name.split("::")[0]), schema.name.split("::")[1])
    for overload in packet.overloads():
        other = getattr(packet, overload)
        arguments = other._schema.arguments
        if len(arguments) != len(schema.arguments):
            continue
        if all(
            (theirs.kwarg_only == ours.kwarg_only or not by_keyword)
            and (
                str(theirs.type) in ("number", "Optional[number]")
                if ours.name in numbers
                else theirs.name == ours.name and str(theirs.type) == str(ours.type)
            )
            for ours, theirs in zip(schema.arguments, arguments)
        ):
            return other
    return None
