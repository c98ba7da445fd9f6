"""A captured graph with padding for sizes that depend on values, as rules see and write it."""

from __future__ import annotations

import operator
from typing import Any, Callable, Iterator, NamedTuple, Optional, Sequence

import sympy
import torch
from torch import fx
from torch.fx import traceback
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from ...errors import E, ExportError
from ...step.places import at_line
from ..graph.nodes import arguments_of, insert_call, location, refusal, source, tensors_of
from .numbers import Size, as_captured, beside, computed

aten = torch.ops.aten
Rule = Callable[["StaticForm", fx.Node], Any]
_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)
NO_BOUND = (
    "the step reads a size from values, and nothing says how large it can be; say it by `with "
    "fsdp_mlir.at_most(n):` around this line, or around the call of a library that has it"
)
_REMEDY = "compute all elements and choose by torch.where"
# What a call is marked with where another way out is simpler.
_OWN_REMEDY = "fsdp_remedy"


def with_remedy(text: str) -> Any:
    """A block: `text` is how to mend that an operator cannot take a size which is found in it."""
    return traceback.annotate({_OWN_REMEDY: text})


class Origin(NamedTuple):
    """Where a size that depends on values is from: the user's line, the operator's name, and how to
    do without it."""

    where: str
    operator: str
    remedy: str

    @staticmethod
    def of(node: fx.Node) -> Origin:
        remedy = node.meta.get("custom", {}).get(_OWN_REMEDY, _REMEDY)
        return Origin(location(node), node.target._schema.name, remedy)


class StaticForm:
    """A graph while it is rewritten: the sizes of its values, and the calls that rules make.

    Attributes:
        bounds: how large a size's symbol can be.
        counts: how large it is, a tensor without dimensions.
        origins: where it is from.
        needed: what must hold for the step to be this one, with what to say where it does not.
        selected: where a mask holds, and for how many elements, by the mask and the length.
        settled_parts: which slices have a size that has been settled, as a slice of a size and its places.
        moved: where a view finds its elements, by the sizes that it takes together or apart (`views`).
        places_within: tensors of places, with sizes of dimensions that have these places.
        mask_sizes: how many elements the step takes a mask to hold for.
        line: the call in front of which new ones are inserted.
    """

    def __init__(self, graph: fx.Graph, environment: ShapeEnv) -> None:
        self._graph = graph
        self._environment = environment
        self.bounds: dict[sympy.Symbol, int] = {}
        self.counts: dict[sympy.Symbol, fx.Node] = {}
        self.origins: dict[sympy.Symbol, Origin] = {}
        self.needed: list[tuple[fx.Node, str]] = []
        self.selected: dict[tuple[fx.Node, int], tuple[fx.Node, fx.Node]] = {}
        self.mask_sizes: dict[fx.Node, Size] = {}
        self.settled_parts: set[Any] = set()
        self.moved: dict[tuple[tuple[Size, ...], tuple[Size, ...]], fx.Node] = {}
        self.places_within: dict[fx.Node, tuple[Size, ...]] = {}
        self._lengths_of_parts: dict[Any, sympy.Expr] = {}
        self._renamed: dict[sympy.Symbol, sympy.Symbol] = {}
        self._room: dict[Size, int] = {}
        self._known_bounds: dict[Any, int] = {}
        self._known_counts: dict[Any, fx.Node] = {}
        self._known_masks: dict[Size, fx.Node] = {}
        self._equal = dict(self._equalities())
        self._shapes: dict[fx.Node, Any] = {}
        self._sizes: dict[fx.Node, Size] = {}

    def note_captured(self, node: fx.Node) -> bool:
        """Notes what sizes a value is captured with; says whether one depends on values."""
        value = node.meta.get("val")
        if isinstance(value, _NUMBERS):
            self._sizes[node] = self._simplified(value)
            return True
        tensors = tensors_of(value)
        if node.target is aten.slice.Tensor:
            self._note_part(node)
        shapes = [tuple(map(self._simplified, tensor.shape)) for tensor in tensors]
        self._shapes[node] = shapes[0] if isinstance(value, torch.Tensor) else shapes
        return any(map(is_dynamic, tensors))

    def _note_part(self, node: fx.Node) -> None:
        """Notes that a part is as long as the same part of such a tensor elsewhere, of which the code may
        need a number of elements. Capture gives each time another name to its size. Where a number ends
        the part, notes how many elements the tensor has there."""
        tensor, dim, *places = node.args
        size = self._simplified(node.meta["val"].shape[dim])
        whole, *given = self.shape(tensor)[dim], *map(self.size_of, places)
        key = whole, *given
        if len(given) > 1 and isinstance(whole, int):
            self._room[given[1]] = min(whole, self._room.get(given[1], whole))
        length = self._lengths_of_parts.get(key)
        if isinstance(size, int):
            self._lengths_of_parts[key] = sympy.Integer(size)
        elif length is not None and length.is_Integer:
            self._equal[size] = length
        elif length is not None and size.is_Symbol:
            self._renamed[size] = length
            self._equal = {k.xreplace(self._renamed): e for k, e in self._equal.items()}
        else:
            self._lengths_of_parts.setdefault(key, size)

    def _equalities(self) -> Iterator[tuple[sympy.Expr, sympy.Expr]]:
        """Sums of sizes that the code needs to be a number or one size, as of parts that are all of a
        tensor."""
        for checks in self._environment.deferred_runtime_asserts.values():
            for check in checks:
                if isinstance(check.expr, sympy.Eq):
                    left, right = check.expr.args
                    number, rest = (left - right).as_coeff_Add()
                    sums = (side for side in ((left, right), (right, left)) if side[0].is_Add)
                    yield from ((rest, -number), (-rest, number), *sums)

    def _simplified(self, size: Any) -> Size:
        if not isinstance(size, _NUMBERS):
            return int(size)
        expression = self._environment.simplify(size.node.expr).xreplace(self._renamed)
        equal = self._equal.get(expression, expression)
        return int(equal) if equal.is_Integer else expression

    # What rules ask.

    def shape(self, node: fx.Node) -> tuple[Size, ...]:
        """The sizes that a tensor is captured with."""
        return self._shapes[node]

    def shapes(self, node: fx.Node) -> list[tuple[Size, ...]]:
        """The shapes of a call's results."""
        shapes = self._shapes[node]
        return [shapes] if isinstance(node.meta.get("val"), torch.Tensor) else shapes

    def is_number(self, node: fx.Node) -> bool:
        """Whether a value is a number that depends on values."""
        return node in self._sizes

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, fx.Node) and not self.is_number(value)

    def dim(self, node: fx.Node, tensor: fx.Node) -> int:
        """The dimension of `tensor` that a call has as its argument, counted from the front."""
        return arguments_of(node)["dim"] % max(1, len(self.shape(tensor)))

    def are_equal(self, one: Size, other: Size) -> bool:
        """Whether two sizes are the same, by themselves or since the code needs it."""
        _, difference = sympy.expand(one - other).as_content_primitive()
        return difference == 0 or self._equal.get(difference) == 0

    def has_size(self, tensor: fx.Node, size: Size) -> bool:
        """Whether a tensor is known to have a dimension of that size."""
        return size in self._shapes.get(tensor, ())

    def padded(self, value: Any) -> list[int]:
        """The dimensions of a tensor that have padding; none of a number or None."""
        if not self.is_tensor(value):
            return []
        return [d for d, size in enumerate(self.shape(value)) if not isinstance(size, int)]

    def is_bounded(self, size: Size) -> bool:
        """Whether something says how large `size` can be."""
        return isinstance(size, int) or size.free_symbols <= self.bounds.keys()

    def is_counted(self, size: Size) -> bool:
        """Whether a value of the graph says what `size` is."""
        return isinstance(size, int) or size.free_symbols <= self.counts.keys()

    def bound(self, size: Size) -> int:
        """The largest that `size` can be: once it is asked for, the same from then on."""
        if isinstance(size, int):
            return size
        if size not in self._known_bounds:
            self._known_bounds[size] = self._bound_of(size)
        return self._known_bounds[size]

    def _bound_of(self, size: sympy.Expr) -> int:
        if size.is_Symbol and size in self.bounds:
            return self.bounds[size]
        if self._equal.get(size) in self.bounds:
            return self.bounds[self._equal[size]]
        for symbol in size.free_symbols:
            if symbol not in self.bounds:
                self._take_room(symbol)
        ranges = {symbol: ValueRanges(0, self.bounds[symbol]) for symbol in size.free_symbols}
        return max(0, int(bound_sympy(size, ranges).upper))

    def _take_room(self, symbol: sympy.Symbol) -> None:
        """Takes a number that ends a part of a tensor elsewhere (`x[:, :longest]`) to be no larger than the
        tensor is there; the step checks that."""
        origin = self.origins.get(symbol)
        where = origin.where if origin else location(self.line)
        if symbol not in self._room or symbol not in self.counts:
            raise ExportError(E.VALUE_DEPENDENT, at_line(where, NO_BOUND))
        self.bounds[symbol] = room = self._room[symbol]
        text = at_line(where, f"the step needs a number of {room} or less here")
        self.needed.append((self.call(aten.le.Scalar, self.counts[symbol], room), text))

    def range_of(self, symbol: sympy.Symbol) -> Optional[int]:
        """What the code itself promises of a size, by `torch._check`."""
        if symbol not in self._environment.var_to_range:
            return None
        upper = self._environment.bound_sympy(symbol).upper
        return int(upper) if upper.is_Integer and upper < 1 << 40 else None

    def may_be_negative(self, size: Size) -> bool:
        """Whether nothing says that a number is 0 or more."""
        return bool(self._environment.bound_sympy(size).lower < 0)

    def count(self, size: Size) -> fx.Node:
        """`size` as a tensor without dimensions."""
        if size not in self._known_counts:
            self._known_counts[size] = computed(self, size)
        return self._known_counts[size]

    def counted(self, size: Size) -> fx.Node:
        """Which elements along a dimension count: a vector of truth values."""
        if size not in self._known_masks:
            self._known_masks[size] = self.call(aten.lt.Tensor, self.places(size), self.count(size))
        return self._known_masks[size]

    def counted_in(self, shape: Sequence[Size], dims: Sequence[int]) -> fx.Node:
        """Which elements count by those of `dims` that have padding, to be broadcast to `shape`."""
        whole: Optional[fx.Node] = None
        for dim in dims:
            if not isinstance(shape[dim], int):
                mask = self.along(self.counted(shape[dim]), dim, len(shape))
                whole = mask if whole is None else self.call(aten.logical_and.default, whole, mask)
        assert whole is not None
        return whole

    def bounds_of(self, node: fx.Node) -> list[tuple[int, ...]]:
        """The largest that the shape of each result of a call can be: the static one."""
        return [tuple(map(self.bound, shape)) for shape in self.shapes(node)]

    # What rules make.

    def note(self, node: fx.Node, shape: Sequence[Size]) -> None:
        """Notes the sizes of a value that a rule has made, as the step takes them."""
        self._shapes[node] = tuple(shape)

    def inherit(self, new: fx.Node, node: fx.Node) -> None:
        """Gives a new value the sizes of the one whose place it takes, where it has none noted."""
        self._shapes.setdefault(new, self._shapes[node])

    def call(self, op: Any, *args: Any, **kwargs: Any) -> fx.Node:
        return insert_call(self.line, op, *args, **kwargs)

    def results(self, op: Any, *args: Any, **kwargs: Any) -> list[fx.Node]:
        """The results of a call that has several."""
        whole = self.call(op, *args, **kwargs)
        found = []
        for i, value in enumerate(whole.meta["val"]):
            found.append(self._graph.call_function(operator.getitem, (whole, i)))
            found[-1].meta = {**whole.meta, "val": value}
        return found

    def places(self, size: Size) -> fx.Node:
        """The places along a dimension of that size, padding's too."""
        return self.call(aten.arange.default, self.bound(size), device="cpu")

    def along(self, vector: fx.Node, dim: int, rank: int) -> fx.Node:
        """`vector` along dimension `dim` of `rank`, to be broadcast."""
        if rank == 1:
            return vector
        sizes = [1] * rank
        sizes[dim] = -1
        return self.call(aten.view.default, vector, sizes)

    def chosen(self, where: fx.Node, tensor: fx.Node, other: Any) -> fx.Node:
        """`tensor` where a condition holds, and the number `other` elsewhere."""
        dtype = tensor.meta["val"].dtype
        other = self.call(aten.scalar_tensor.default, other, dtype=dtype, device="cpu")
        return self.call(aten.where.self, where, tensor, other)

    def filled(self, tensor: fx.Node, fill: Any, dims: Optional[Sequence[int]] = None) -> fx.Node:
        """`tensor` with `fill` for padding along `dims`, or along all dimensions."""
        shape = self.shape(tensor)
        dims = [d for d in self.padded(tensor) if dims is None or d in dims]
        if not dims:
            return tensor
        result = self.chosen(self.counted_in(shape, dims), tensor, fill)
        self.note(result, shape)
        return result

    def again(form, node: fx.Node, /, **changed: Any) -> fx.Node:
        """The call of `node` with sizes that are bounds, and other arguments where `changed`."""
        op, values = node.target, {**arguments_of(node), **changed}
        tensors = [value for value in values.values() if form.is_tensor(value)]
        values = {
            argument.name: form._argument(values[argument.name], str(argument.type), tensors)
            for argument in op._schema.arguments
        }
        op = form._taking_tensors(op, list(values.values()))
        positional, keywords = [], {}
        for argument in op._schema.arguments:  # which may be by name in this overload alone
            if argument.kwarg_only:
                keywords[argument.name] = values[argument.name]
            else:
                positional.append(values[argument.name])
        return as_captured(form, node, form.call(op, *positional, **keywords))

    def _argument(self, value: Any, kind: str, tensors: Sequence[fx.Node]) -> Any:
        if isinstance(value, (list, tuple)):
            return [self._argument(member, kind, tensors) for member in value]
        if not isinstance(value, fx.Node) or value not in self._sizes:
            return value
        size = self._sizes[value]
        if "SymInt" in kind or "int" in kind:
            return self.bound(size)
        return beside(self, value, self.count(size), tensors)

    def size_of(self, value: Any) -> Size:
        """The size that an argument of `node` is: a number of the code, or one that depends."""
        return self._sizes.get(value, value) if isinstance(value, fx.Node) else value

    def _taking_tensors(self, op: Any, values: Sequence[Any]) -> Any:
        """The overload of `op` that takes tensors where a number has become one."""
        kinds = [str(argument.type) for argument in op._schema.arguments]
        if not any(k == "number" and isinstance(v, fx.Node) for k, v in zip(kinds, values)):
            return op
        packet = op.overloadpacket
        for name in ("Tensor", "Tensor_Tensor", "Tensor_mode"):
            if name in packet.overloads():
                other = getattr(packet, name)
                if len(other._schema.arguments) == len(op._schema.arguments):
                    return other
        raise self.refused(self.line, "it takes a number that depends on values")

    def check(self, condition: fx.Node, text: str, token: fx.Node) -> fx.Node:
        """`token`, which whoever runs the step gets only where `condition` holds."""
        dense, value = token, token.meta["val"]
        if any(stride == 0 and size > 1 for size, stride in zip(value.shape, value.stride())):
            dense = self.call(aten.clone.default, token, memory_format=torch.contiguous_format)
        checked = self.call(aten._functional_assert_async.msg, condition, text, dense)
        if token in self._shapes:
            self.note(checked, self.shape(token))
        return checked

    def refused(self, node: fx.Node, reason: str = "") -> ExportError:
        """The error that `node` has no form with padding."""
        name = getattr(getattr(node.target, "_schema", None), "name", str(node.target))
        symbols = [s for n in (*node.all_input_nodes, node) for s in self._symbols(n)]
        cause = next((self.origins[s] for s in symbols if s in self.origins), None)
        because = f": {reason}" if reason else ""
        if cause is None:
            what = f"the result of {name} has a shape that depends on values{because}"
            return refusal(E.VALUE_DEPENDENT, node, f"{what}; {_REMEDY}")
        at = f" ({source(node)})" if location(node) not in ("", cause.where) else ""
        return ExportError(
            E.VALUE_DEPENDENT,
            at_line(
                cause.where,
                f"the result of {cause.operator} has a shape that depends on values, which "
                f"{name}{at} cannot take with a mask{because}; {cause.remedy}",
            ),
        )

    def _symbols(self, node: fx.Node) -> list[sympy.Symbol]:
        found = [self._sizes[node]] if node in self._sizes else []
        for shape in self._shapes.get(node, ()):
            found += shape if isinstance(shape, tuple) else [shape]
        of = [size.free_symbols for size in found if not isinstance(size, int)]
        return sorted(set().union(*of), key=str)


def dims_of(value: Any, rank: int) -> list[int]:
    """Dimensions of an argument, counted from the front; None and an empty list are all."""
    if value is None or value == []:
        return list(range(rank))
    chosen = value if isinstance(value, (list, tuple)) else [value]
    return [d % rank if rank else 0 for d in chosen]


def is_dynamic(tensor: torch.Tensor) -> bool:
    """Whether a size or stride of a captured tensor depends on values."""
    return not all(isinstance(size, int) for size in (*tensor.shape, *tensor.stride()))
