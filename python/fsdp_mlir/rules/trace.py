"""Follows an optimizer's own step, and keeps what it computes as expressions.

Nothing is computed: tensors are fake, and numbers that change between steps are `Number`s, which
Python and PyTorch take for floats without a value. So none of them can end up in the expressions as
a constant. Where Python branches on such a number, the step is followed once for each outcome.
"""

from __future__ import annotations

from typing import Any, Callable, Collection, Iterator, Optional

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ..capture.graph.nodes import is_random
from .branches import Branches, Way
from .functional import calls_of_members, functional_form
from .memory import Memory
from .numbers import Number, catches_zero_division, current_line
from .pairs import compute_in_pairs, is_complex_call
from .values import Comparison, Expr, Pool, owners_of
from .views import laid_out, layout_of

aten = torch.ops.aten
# Calls that give what they are given.
_SAME = {"clone", "detach", "alias", "contiguous", "lift_fresh", "positive", "copy", "lift"}
# What fills a new tensor, by name; the others have an argument for it.
_FILLS = {"zeros": 0.0, "ones": 1.0, "empty": 0.0, "zero": 0.0}


class Trace(Memory):
    """One way through a step.

    Attributes:
        branches: those that Python took on what is not known.
    """

    def __init__(
        self,
        pool: Pool,
        name: str,
        in_all_steps: Callable[[Comparison], Optional[bool]],
        way: Way,
    ) -> None:
        super().__init__(pool, name)
        self.branches = Branches(way)
        self._in_all_steps = in_all_steps
        self.shapes: dict[int, torch.Size] = {}  # of parameters

    # Numbers

    def wrap(self, value: Expr) -> Any:
        """A number for Python: a float where it is constant."""
        return value.operands[0] if value.op == "constant" else Number(self, value)

    def compute(self, op: str, *operands: Any) -> Any:
        for operand in operands:
            if not isinstance(operand, (int, float, torch.SymFloat)):
                return NotImplemented
        where, numbers = current_line(), [*map(self.number, operands)]
        if op == "divide" and catches_zero_division():
            if self.decide(("select_equal", numbers[1], self.pool.constant(0))):
                raise ZeroDivisionError("float division by zero")
        return self.wrap(self.pool.number(op, *numbers, where=where))

    def by_period(self, op: str, number: Any, period: Any) -> Any:
        """`number % period` as "mod", or `number // period`, of a count of steps."""
        count = self.number(number)
        counts = count.op == "step" and count.operands[0] >= -1
        if not counts or not isinstance(period, (int, float)) or period < 1 or period % 1:
            self.fail(
                f"computes {op} of a number that changes between steps; this is followed of a count "
                "of steps alone, by a whole number"
            )
        where = current_line()
        rest = self.pool.remainder(count, int(period), where)
        if op == "mod":
            return self.wrap(rest)
        whole = self.pool.number("subtract", count, rest, where=where)
        return self.wrap(self.pool.number("divide", whole, self.pool.constant(period), where=where))

    def decide(self, key: Comparison) -> bool:
        op, a, b = key
        yes, no = self.pool.constant(1), self.pool.constant(0)
        chosen = self.pool.number(op, a, b, yes, no)
        if chosen.op == "constant":
            return bool(chosen.operands[0])
        always = self._in_all_steps(key)
        if always is not None:
            return always
        return self.branches.decide(key, self.fail)

    # Operators

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self._making or func.namespace in ("prim", "profiler"):
            return func(*args, **(kwargs or {}))
        return self.call(func, args, kwargs or {})

    def call(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """One operator: `args` as a dictionary by the schema's names, in its order."""
        given = {}
        for index, argument in enumerate(func._schema.arguments):
            if index < len(args):
                given[argument.name] = args[index]
            else:
                given[argument.name] = kwargs.get(argument.name, argument.default_value)
        name = func._schema.name.split("::")[1]
        if name.startswith("_foreach_"):
            return self._each(func, name, given)
        if name == "_local_scalar_dense":
            return self._item(given["self"])
        if is_random(func):
            self.fail(f"draws random numbers ({func}), which a plan's update does not")
        looks = any(a.alias_info and not a.alias_info.is_write for a in func._schema.arguments)
        if looks or torch.Tag.inplace_view in func.tags:  # transpose_ changes no element
            return self._view(func, given)
        if is_complex_call(given):
            return compute_in_pairs(self, func, name.rstrip("_"), given)
        return self._compute(func, name.rstrip("_"), given)

    def _item(self, tensor: torch.Tensor) -> Any:
        """What a tensor holds, for Python: a number, or a truth value that it branches on."""
        value, where = self.value_of(tensor), current_line()
        if value.is_number:
            return self.wrap(value)
        if not (tensor.dtype.is_floating_point or tensor.dtype == torch.bool):
            self.fail(f"reads a tensor of {tensor.dtype} as a Python number")
        if tensor.dim():
            layout = ((), ())
            value = self.pool.make(
                "call", aten.view.default, value, (), dtype=tensor.dtype, layout=layout, where=where
            )
        number = self.pool.item(value, where)
        if tensor.dtype == torch.bool:
            return not self.decide(("select_equal", number, self.pool.constant(0)))
        return Number(self, number)

    def _each(self, func: Any, name: str, given: dict[str, Any]) -> Optional[list[torch.Tensor]]:
        """An operator on lists, as PyTorch applies it: to one tensor after the other."""
        found = calls_of_members(func, given)
        if found is None:
            self.fail(f"calls {func}, which is not followed; call {name[9:]} of each tensor")
        form, calls = found
        results = [self.call(form, arguments, {}) for arguments in calls]
        return None if func._schema.is_mutable else results

    def _view(self, func: Any, given: dict[str, Any]) -> Any:
        result = func(**given)
        if isinstance(result, torch.Tensor) and "self" in given:
            if result.is_conj() or result.is_neg():
                self.fail(f"computes with conjugates ({func}), which a plan's update does not")
            self.value_of(given["self"])
            if func is aten.lift_fresh.default:
                value = self.value_of(given["self"])
                return self.make(result.shape, result.stride(), result.dtype, value)
            self.value_of(result)
        return result

    def _compute(self, func: Any, name: str, given: dict[str, Any]) -> Any:
        where = current_line()
        tensors = list(_tensors(given))
        if name.removeprefix("new_").removesuffix("_like") in ("full", *_FILLS):
            return self._fill(func, name, given, where)
        values = {id(tensor): self.value_of(tensor) for tensor in tensors}
        are_numbers = all(value.is_number for value in values.values())
        if name == "scalar_tensor" or (tensors and are_numbers):
            return self._count(func, name, given, where)
        if name.startswith("_fused_"):
            return self._fused(func, given, where)
        if name in ("fill", "copy"):
            return self._assign(func, given, given.get("value", given.get("src")), where)
        if name == "index_put":
            mask, value = given["indices"][0], self.value_of(given["values"])
            if len(given["indices"]) == 1 and mask.dtype == torch.bool and value.is_number:
                call = self._call(
                    aten.masked_fill.Scalar,
                    [self.value_of(given["self"]), self.value_of(mask), value],
                    given["self"].dtype,
                    where,
                )
                return self._write(given["self"], call)
        return self._pointwise(func, name, given, where)

    def _fill(self, func: Any, name: str, given: dict[str, Any], where: str) -> torch.Tensor:
        base = name.removeprefix("new_").removesuffix("_like")
        value = given["fill_value"] if base == "full" else _FILLS[base]
        result = given["self"] if name == "zero" else func(**self._without_numbers(given))
        if result.is_complex():
            self.fail(f"makes a complex tensor ({func}); make it by zeros_like of the parameter")
        number = self.pool.round(self.number(value), result.dtype, where)
        counts = "self" not in given or self.value_of(given["self"]).is_number
        if result.numel() == 1 and counts:
            return self._write(result, number)
        alike = result.shape in self._shapes_of(given)
        return self._write(result, self._filled(result, number, alike, where))

    def _filled(self, tensor: torch.Tensor, number: Expr, alike: bool, where: str) -> Expr:
        """What `tensor` holds where each element is `number`. Whether one that is `alike` a
        parameter is like its own, its shape says where the rule is made."""
        with _disable_current_modes():
            rows = torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")
        shape, strides = layout_of(rows)
        layout = None if alike else (shape, strides)
        fill = self.pool.make("fill", number, shape, dtype=tensor.dtype, layout=layout, where=where)
        return self._laid_out(fill, rows, tensor, where)

    def _shapes_of(self, given: dict[str, Any]) -> Collection[torch.Size]:
        """The shapes of the parameters that a new tensor may be like."""
        owners = owners_of(self.value_of(given["self"])) if "self" in given else self.shapes
        return [self.shapes[owner] for owner in owners]

    def _count(self, func: Any, name: str, given: dict[str, Any], where: str) -> torch.Tensor:
        """Arithmetic on tensors of one number."""
        target = given["self"] if func._schema.is_mutable else None
        operands = [
            self._operand(v) for k, v in given.items() if k in ("self", "other", "s", "src")
        ]
        ops = {"add": "add", "sub": "subtract", "mul": "multiply", "div": "divide"}
        ops |= {"neg": "negate", "sqrt": "sqrt"}
        inverse = name in ("reciprocal", "rsqrt")
        followed = inverse or name in {*ops, *_SAME, "_to_copy", "scalar_tensor"}
        if given.get("alpha", 1) != 1 or not followed:
            return self._pointwise(func, name, given, where)
        result = target if target is not None else func(**self._without_numbers(given))
        dtype = result.dtype
        if inverse:
            value = self.pool.round(operands[0], dtype, where)
            if name == "rsqrt":
                value = self.pool.round(self.pool.number("sqrt", value, where=where), dtype, where)
            value = self.pool.number("divide", self.pool.constant(1), value, where=where)
        elif name in ops:
            operands = [self.pool.round(operand, dtype, where) for operand in operands]
            value = self.pool.number(ops[name], *operands, where=where)
        else:
            value = operands[-1]
        return self._write(result, self.pool.round(value, dtype, where))

    def _assign(self, func: Any, given: dict[str, Any], source: Any, where: str) -> torch.Tensor:
        target, value = given["self"], self._operand(source)
        if not func._schema.is_mutable:
            target = torch.empty_like(target)
        if value.is_number:
            number = self.pool.round(value, target.dtype, where)
            held = self.value_of(target)
            alike = held.is_number or held.layout is None and held.whole
            value = self._filled(target, number, alike, where)
        elif isinstance(source, torch.Tensor):
            value = self._laid_out(value, source, target, where)
        return self._write(target, self._cast(value, target.dtype, where))

    def _fused(self, func: Any, given: dict[str, Any], where: str) -> None:
        """A kernel that updates lists in place: a call of its functional form for each member."""
        functional = getattr(aten, func._schema.name.split("::")[1].rstrip("_"))
        written = [a.name for a in func._schema.arguments if a.alias_info]
        for member in range(len(given["self"])):
            operands: list[Any] = []
            for argument in functional.default._schema.arguments:
                value = given[argument.name]
                if not isinstance(value, (list, tuple)):
                    operands.append(self._literal(value))
                    continue
                part = value[member : member + 1]
                operands.append(tuple(self._tensor(t, where) for t in part))
            call = self._call(functional.default, operands, None, where)
            for index, name in enumerate(written):
                for tensor in given[name][member : member + 1]:
                    if not self.value_of(tensor).is_number:
                        dtype = tensor.dtype
                        result = self.pool.make("result", call, index, dtype=dtype, where=where)
                        self._write(tensor, result)

    def _pointwise(self, func: Any, name: str, given: dict[str, Any], where: str) -> torch.Tensor:
        functional = functional_form(func)
        if functional is None:
            self.fail(f"calls {func}, which has no form that returns what it writes")
        # A number in place of a tensor is what PyTorch makes of it anyway.
        other = given.get("other")
        wrapped = getattr(other, "_wrapped_number", None)
        if isinstance(other, (int, float, torch.SymFloat)):
            wrapped = other
        if wrapped is not None and functional._overloadname == "Tensor":
            if "Scalar" in getattr(aten, name).overloads():
                functional, given = getattr(aten, name).Scalar, {**given, "other": wrapped}
        same = name in (*_SAME, "_to_copy")
        arguments = {a.name: given[a.name] for a in functional._schema.arguments}
        fake = functional(**self._without_numbers(arguments))
        if isinstance(fake, int) and not list(_tensors(arguments)):
            return fake  # a type of other types
        if not isinstance(fake, torch.Tensor):
            return self._several(func, functional, fake, arguments, where)
        if fake.is_complex():
            self.fail(f"makes a complex tensor ({func}) of others; compute with torch.view_as_real")
        if same:
            value = self.value_of(given["self"])
            value = self._laid_out(value, given["self"], fake, where)
            return self._write(fake, self._cast(value, fake.dtype, where))
        if not func._schema.is_mutable and self.made(fake):
            return fake  # a view by another name: _unsafe_view
        # What is like the parameter is so whatever else is read; all else has a layout.
        like = [
            t.shape for t in _tensors(arguments)
            if (v := self.value_of(t)).layout is None and v.whole and not v.is_number
        ]  # fmt: skip
        pointwise = torch.Tag.pointwise in functional.tags
        free = all(
            v.is_number or v.layout is None and not v.whole
            for v in map(self.value_of, _tensors(arguments))
        )
        alike = fake.shape in like and fake.is_contiguous()
        layout = None if pointwise and (alike or free and not fake.dim()) else layout_of(fake)
        operands = [self._argument(value, where) for value in arguments.values()]
        whole = fake.shape in like or fake.dim() > 0
        form: dict[str, Any] = {"dtype": fake.dtype, "whole": whole, "layout": layout}
        valued = self._valued(arguments)
        if fake.dim() and valued and all(v.is_number or not t.dim() for t, v in valued):
            # A number that a tensor of one element holds is one without dimensions.
            flat = {"dtype": fake.dtype, "whole": False, "layout": ((), ())}
            call = self.pool.make("call", functional, *operands, **flat, where=where)
            operands, functional = [call, layout_of(fake)[0]], aten.view.default
        call = self.pool.make("call", functional, *operands, **form, where=where)
        target = next((given[a.name] for a in func._schema.arguments if a.alias_info), None)
        if target is None:
            return self._write(fake, call)
        call = self._laid_out(call, fake, target, where)
        return self._write(target, self._cast(call, target.dtype, where))

    def _several(
        self, func: Any, functional: Any, fakes: Any, given: dict[str, Any], where: str
    ) -> tuple[torch.Tensor, ...]:
        """A call that gives several tensors, such as a decomposition."""
        returns = {str(r.type) for r in functional._schema.returns}
        if func._schema.is_mutable or returns != {"Tensor"} or any(f.is_complex() for f in fakes):
            self.fail(f"calls {functional.name()}, which gives no tensor, or what a rule has not")
        operands = [self._argument(value, where) for value in given.values()]
        forms = tuple((fake.dtype, layout_of(fake)) for fake in fakes)
        call = self.pool.make(
            "calls", forms, functional, *operands, dtype=torch.uint8, whole=False, where=where
        )
        for index, (fake, (dtype, layout)) in enumerate(zip(fakes, forms)):
            form = {"dtype": dtype, "whole": bool(fake.dim()), "layout": layout}
            self._write(fake, self.pool.make("result", call, index, **form, where=where))
        return fakes

    # Helpers

    def _call(self, op: Any, operands: list[Any], dtype: Optional[torch.dtype], where: str) -> Expr:
        # A call that gives several tensors has no type of its own; it is no number either.
        return self.pool.make("call", op, *operands, dtype=dtype or torch.uint8, where=where)

    def _cast(self, value: Expr, dtype: torch.dtype, where: str) -> Expr:
        if value.is_number or value.dtype == dtype:
            return value
        return self.pool.make(
            "call", aten._to_copy.default, value, dtype,
            dtype=dtype, whole=value.whole, layout=value.layout, where=where,
        )  # fmt: skip

    def _laid_out(self, value: Expr, held: torch.Tensor, wanted: torch.Tensor, where: str) -> Expr:
        """`value`, which lies as `held` does, for a tensor that lies as `wanted` does."""
        if value.is_number or held.shape != wanted.shape:
            return value
        return laid_out(self.pool, value, layout_of(held), layout_of(wanted), where)

    def _valued(self, given: dict[str, Any]) -> list[tuple[torch.Tensor, Expr]]:
        return [(tensor, self.value_of(tensor)) for tensor in _tensors(given)]

    def _operand(self, value: Any) -> Expr:
        return self.value_of(value) if isinstance(value, torch.Tensor) else self.number(value)

    def _tensor(self, tensor: torch.Tensor, where: str) -> Expr:
        value = self.value_of(tensor)
        if not value.is_number:
            return value
        return self.pool.tensor_of(value, tensor.dtype, where)

    def _argument(self, value: Any, where: str) -> Any:
        if isinstance(value, (list, tuple)):
            return tuple(self._argument(member, where) for member in value)
        if isinstance(value, torch.Tensor):
            return self._tensor(value, where)
        return self._literal(value)

    def _literal(self, value: Any) -> Any:
        if isinstance(value, torch.SymFloat):
            return self.number(value)
        return tuple(value) if isinstance(value, list) else value

    def _without_numbers(self, given: dict[str, Any]) -> dict[str, Any]:
        return {k: 1.0 if isinstance(v, torch.SymFloat) else v for k, v in given.items()}


def _tensors(given: dict[str, Any]) -> Iterator[torch.Tensor]:
    for value in given.values():
        for member in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(member, torch.Tensor):
                yield member
