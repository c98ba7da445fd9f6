"""What a step computes, as one number for each of its tensors: equal where the same operators give
them from the same values. What a step computes and uses for nothing is not in its outcome."""

from __future__ import annotations

import re
import sys
from types import CodeType
from typing import Any, Container, Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensor
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode

from ...step.memory import storage_of
from ...step.places import innermost, is_users, said_line
from ..graph.known_values import bytes_of, is_factory
from ..graph.nodes import is_random
from ..values.decisions import is_answering
from ..values.value_checks import in_place_of, passing_now
from .contents import Content, Copied, Elements, is_in_same_places
from .watched_numbers import Watch

# Elements of a tensor whose values count; of a larger one it counts which one it is.
_LARGEST = 1 << 22
# As PyTorch names them.
_SIZE_BY_VALUES = re.compile(r"\bu\d+\b")
# The origin of what is another one in each step: inputs, parameters, random numbers.
_CHANGING = 1


class Reads(NamedTuple):
    """What one gets who reads a number from a tensor without values.

    Attributes:
        number: from the first tensor.
        apart: how much more from each further one.
    """

    number: float
    apart: float = 0.0


class Outcome(TorchDispatchMode):
    """Within it, the operators of a step on tensors without values are followed.

    Attributes:
        lines: by digest, the user's line of each operator that ran, in their order.
        given: by name of a watched number, the user's line of the first operator that was given it.
        held: digests of all that memory has held.
        codes: the user's code that called the operators.
        namespaces: the libraries that the operators are of.
        changing: the origins of what the next step may compute otherwise, once it has ended.
        reads_numbers: whether it reads numbers from tensors.
        read: digests of these tensors, but for what the step before has left of its own batch.
        found: memory of earlier steps' tensors that it computes with, and that each step makes anew.

    Args:
        states: the step's parameters and buffers, by name.
        trained: names of those that are trained, in this program or another.
        inputs: its inputs, in their order.
        watch: what is seen of watched numbers.
        reads: what one gets who reads a number from a tensor.
        before: the outcome of the step before it, whose tensors Python may have left. What that has
            computed of what no step changes, as a table, is what this step would compute itself.
        replaced: names of the states in whose places that has left other tensors.
    """

    def __init__(
        self,
        states: Mapping[str, torch.Tensor],
        trained: frozenset[str],
        inputs: Sequence[torch.Tensor],
        watch: Watch,
        reads: Reads,
        before: Optional[Outcome] = None,
        replaced: Container[str] = (),
    ) -> None:
        super().__init__()
        self.lines: dict[int, str] = {}
        self.given: dict[str, str] = {}
        self.held: set[int] = set()
        self.codes: set[CodeType] = set()
        self.namespaces: set[str] = set()
        self.reads_numbers = False
        self._sizes: dict[str, str] = {}  # names of those by values, in their order
        self.read: list[int] = []
        self.found: set[int] = set()
        self._watch = watch
        self._reads = reads
        self._numbers: dict[int, float] = {}  # by digest of the tensor that it was read from
        self._before = before
        # Of a tensor that is a view of a constant, whose memory PyTorch no longer says.
        self._viewed: dict[int, int] = {} if before is None else before._viewed
        self._contents: dict[int, Content] = {}
        self._alive: list[Any] = []  # memory, else another one may be at its address
        self._draws = 0
        self._asked = 0  # the origins of what numbers were read from
        self.changing = _CHANGING
        self._states: dict[str, Content] = {}  # at the end
        for place, (name, tensor) in enumerate(states.items()):
            content = Content(hash(name), origins=_CHANGING if name in trained else 1 << place + 1)
            copied = before._keeps(name) if before is not None else None
            if copied is not None:
                content = content._replace(digest=copied.digest, copied=copied)
            left = self._left(tensor) if name in replaced else None
            self._put(tensor, left or content)
        for place, tensor in enumerate(inputs):
            self._put(tensor, Content(hash(f"input {place}"), origins=_CHANGING))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self.namespaces.add(func.namespace)
        if func is torch.ops.aten._local_scalar_dense.default:
            return self._number_of(*args)
        self.find(_tensors((args, kwargs)))
        result = func(*args, **kwargs)
        if func.is_view:
            self._note_views(args[0], result)
        draws = is_random(func)
        self._draws += draws
        operands = [self._content(tensor) for tensor in _tensors((args, kwargs))]
        numbers = self._watch.within.union(*(content.numbers for content in operands))
        origins = self._asked | (_CHANGING if draws else 0)
        for content in operands:
            origins |= content.origins
        draw = self._draws if draws else 0
        made = getattr(result, "constant", None) if is_factory(func) else None
        if made is not None:  # alike by whatever operator
            digest = _digest_of_values(made)
        else:
            digest = hash((str(func), draw, self._describe(args), self._describe(kwargs)))
        if digest not in self.lines:
            self.lines[digest] = self._users_line()
        for name in self._watch.within - self.given.keys():
            self.given[name] = self.lines[digest]
        for place, tensor in enumerate(_written(func, args, kwargs)):
            before = self._whole(tensor)
            content = Content(
                hash((digest, "written", place, before.digest)),
                numbers | before.numbers,
                origins | before.origins,
            )
            if func is torch.ops.aten.copy_.default:
                content = self._with_copied(before, content, *args[:2])
            self._put(tensor, content)
        for place, tensor in enumerate(_tensors(result)):
            if self.memory(tensor) not in self._contents and self._left(tensor) is None:
                self._put(tensor, Content(hash((digest, place)), numbers, origins))
        return result

    def _number_of(self, tensor: torch.Tensor) -> Any:
        """What one who reads a number from `tensor` gets: its own where the code gives it."""
        passes = passing_now() if tensor.dtype == torch.bool else None
        if passes is not None:
            return passes
        left = self._left(tensor)
        if is_answering():
            if left is not None and left.origins & _CHANGING:
                raise DataDependentOutputException(torch.ops.aten._local_scalar_dense.default)
            # The code's own number; of another value it raises, and the code gets an answer instead.
            return torch.ops.aten._local_scalar_dense.default(tensor)
        self.reads_numbers = True
        self.find([tensor])
        self._asked |= self._content(tensor).origins
        if left is not None and left.origins & _CHANGING:
            return in_place_of(tensor, self._reads.number + 1)
        digest = self._digest(tensor)
        self.read.append(digest)
        try:
            return torch.ops.aten._local_scalar_dense.default(tensor)
        except DataDependentOutputException:
            number = self._reads.number + self._reads.apart * len(self._numbers)
            return in_place_of(tensor, self._numbers.setdefault(digest, number))

    def find(self, tensors: Iterable[torch.Tensor]) -> None:
        """Notes which of `tensors`, with which the step computes, earlier ones have left, and would each
        compute otherwise."""
        for tensor in tensors:
            left = self._left(tensor)
            if left is not None and left.origins & _CHANGING:
                self.found.add(self.memory(tensor))

    def has_found(self, tensor: torch.Tensor) -> bool:
        """Whether the step computes with a tensor that an earlier one has left."""
        return self.memory(tensor) in self.found

    def end(self, states: Mapping[str, torch.Tensor]) -> None:
        """Takes what the step leaves in its states, which may be in other memory than before."""
        for place, (name, tensor) in enumerate(states.items()):
            self._states[name] = self._whole(tensor)
            if self._states[name].digest != hash(name):
                self.changing |= 1 << place + 1

    def left_as(self, value: Any) -> Any:
        """What the next step may find in a value that this one has left in Python. It is equal for two
        values that the step cannot tell apart, and for any two tensors that change from step to step.
        """
        if isinstance(value, torch.Tensor):
            changes = self._content(value).origins & self.changing
            return "changing" if changes else self._digest(value)
        if isinstance(value, dict):
            return tuple((str(key), self.left_as(member)) for key, member in value.items())
        if isinstance(value, (list, tuple, set)):
            return tuple(map(self.left_as, value))
        return value if isinstance(value, (bool, int, float, str)) else str(type(value))

    def digests(self, tensors: Iterable[torch.Tensor]) -> tuple[int, ...]:
        """How each of `tensors` has been computed."""
        return tuple(self._digest(tensor) for tensor in tensors)

    def contents(self, tensors: Iterable[torch.Tensor]) -> frozenset[int]:
        """Digests of what the memory of `tensors` holds."""
        return frozenset(self._contents[self.memory(tensor)].digest for tensor in tensors)

    def numbers(self, tensors: Iterable[torch.Tensor]) -> frozenset[str]:
        """Names of the watched numbers that `tensors` have been computed with."""
        return frozenset().union(*(self._content(tensor).numbers for tensor in tensors))

    def memory(self, tensor: torch.Tensor) -> int:
        """Which memory a tensor is in: equal for a tensor and its views."""
        memory = _memory(tensor)
        return self._viewed.get(memory, memory)

    def _note_views(self, tensor: torch.Tensor, views: Any) -> None:
        memory = self.memory(tensor)
        for view in _tensors(views):
            if view.layout == torch.strided and self.memory(view) != memory:
                self._viewed[_memory(view)] = memory
                self._keep_alive(tensor)
                self._keep_alive(view)

    def _content(self, tensor: torch.Tensor) -> Content:
        """What the memory of `tensor` holds where that has its elements."""
        whole = self._whole(tensor)
        copied = whole.copied
        if copied is not None and copied.elements.contain(Elements.of(tensor)):
            return copied.content
        return whole

    def _whole(self, tensor: torch.Tensor) -> Content:
        content = self._contents.get(self.memory(tensor)) or self._left(tensor)
        return content or Content(_digest_of_values(tensor))

    def _with_copied(
        self, before: Content, content: Content, destination: torch.Tensor, source: torch.Tensor
    ) -> Content:
        """`content` of memory that held `before`, told that `source` has been copied into it."""
        elements, last = Elements.of(destination), before.copied
        if elements is None or not elements.are_all(destination):
            return content
        if last is not None and last.elements != elements:
            return content
        of_source = self._content(source)
        if not is_in_same_places(destination, source):
            layout = tuple(destination.shape), destination.stride()
            of_source = Content(
                hash(("copied", self._digest(source), layout)), of_source.numbers, of_source.origins
            )
        of_source = of_source._replace(
            numbers=of_source.numbers | self._watch.within, origins=of_source.origins | self._asked
        )
        copied = Copied(elements, of_source, last.around if last is not None else before.digest)
        return content._replace(digest=copied.digest, copied=copied)

    def _keeps(self, name: str) -> Optional[Copied]:
        """What this step has copied into a state that it changes in nothing else, where the next one
        would copy the same."""
        copied = self._states[name].copied if name in self._states else None
        if copied is None or copied.around != hash(name):
            return None
        return None if copied.content.origins & self.changing else copied

    def _left(self, tensor: torch.Tensor) -> Optional[Content]:
        """What a step before has left in a tensor that is none of this one's, or None."""
        memory, before = self.memory(tensor), self._before
        if memory in self._contents:
            return None
        while before is not None and memory not in before._contents:
            before = before._before
        if before is None:
            return None
        content = before._contents[memory]
        if not content.origins & before.changing:
            return content
        return Content(hash(("left", content.digest)), content.numbers, _CHANGING)

    def _put(self, tensor: torch.Tensor, content: Content) -> None:
        if self.memory(tensor) not in self._contents:
            self._keep_alive(tensor)
        self._contents[self.memory(tensor)] = content
        self.held.add(content.digest)

    def _keep_alive(self, tensor: torch.Tensor) -> None:
        self._alive.append(tensor if tensor.layout != torch.strided else tensor.untyped_storage())

    def _digest(self, tensor: torch.Tensor) -> int:
        digest = self._content(tensor).digest
        if tensor.layout != torch.strided:
            return hash((digest, str(tensor.layout), str(tensor.shape)))
        view = tuple(tensor.shape), tensor.stride(), tensor.storage_offset()
        sizes = self._with_own_names(str(view))
        return hash((digest, str(tensor.dtype), sizes, tensor.is_conj(), tensor.is_neg()))

    def _with_own_names(self, sizes: str) -> str:
        """`sizes` with the same name for what is the first size by values in each step."""
        return _SIZE_BY_VALUES.sub(
            lambda found: self._sizes.setdefault(found[0], f"size{len(self._sizes)}"), sizes
        )

    def _users_line(self) -> str:
        frame = innermost(sys._getframe(2), is_users)
        if frame is None:
            return ""
        self.codes.add(frame.f_code)
        return said_line(frame)

    def _describe(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._digest(value)
        if isinstance(value, (list, tuple)):
            return tuple(map(self._describe, value))
        if isinstance(value, dict):
            return tuple((key, self._describe(member)) for key, member in value.items())
        if isinstance(value, (bool, int, float, complex)):
            return repr(value)
        return self._with_own_names(str(value))


def first_other_line(outcome: Outcome, known: Outcome) -> str:
    """The first line whose operator has another result than any in `known`, or ""."""
    lines = (line for digest, line in outcome.lines.items() if digest not in known.lines)
    return next(filter(None, lines), "")


def listed_constants(outcome: Outcome) -> set[int]:
    """The whole numbers of sets, tuples and dicts that are written in the code."""
    constants = (constant for code in outcome.codes for constant in code.co_consts)
    lists = (constant for constant in constants if isinstance(constant, (tuple, frozenset)))
    return {number for members in lists for number in members if isinstance(number, int)}


def _memory(tensor: torch.Tensor) -> int:
    return storage_of(tensor) if tensor.layout == torch.strided else id(tensor)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for member in value:
            yield from _tensors(member)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


def _written(func: Any, args: Any, kwargs: Any) -> Iterator[torch.Tensor]:
    """The tensors that a call changes in place."""
    given = dict(zip((argument.name for argument in func._schema.arguments), args)) | kwargs
    for argument in func._schema.arguments:
        if argument.alias_info is not None and argument.alias_info.is_write:
            yield from _tensors(given.get(argument.name))


def _digest_of_values(tensor: torch.Tensor) -> int:
    """Of a tensor that no followed operator has given."""
    about = str(tensor.dtype), str(tensor.shape)
    if isinstance(tensor, FakeTensor) or tensor.is_meta or tensor.layout != torch.strided:
        return hash(about)
    if tensor.numel() > _LARGEST:
        return hash((about, _memory(tensor)))
    with no_dispatch():
        return hash((about, bytes_of(tensor)))
