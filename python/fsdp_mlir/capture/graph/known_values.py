"""Tensors without values, of which those that hold the code's own numbers keep them.

A mask that is built from `torch.ones`, or lengths given as a list, are the same in every step: what
reads their values, or has a shape by them, is decided while the step is captured.
"""

from __future__ import annotations

import collections
from typing import Any, Iterable, Iterator, Optional

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    FakeTensor,
    FakeTensorMode,
    unset_fake_temporarily,
)
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.fx.experimental.symbolic_shapes import ShapeEnv, constrain_range
from torch.utils._mode_utils import no_dispatch
from torch.utils.weak import WeakTensorKeyDictionary

# Elements of a tensor whose values are kept; computing with more takes long.
LARGEST = 1 << 16
# Namespaces of packages whose kernels PyTorch would run.
_PACKAGES = ("torchaudio", "torchtext", "vision")
# Containers, beside dicts, that are looked into.
_MEMBERS = (list, tuple, set, collections.deque)

_aten = torch.ops.aten
# Whose results' values depend on no tensor.
_FACTORIES = {
    getattr(packet, overload)
    for packet in (
        *(_aten.arange, _aten.eye, _aten.full, _aten.linspace, _aten.ones, _aten.scalar_tensor),
        *(_aten.tril_indices, _aten.triu_indices, _aten.zeros),
        *(_aten.full_like, _aten.ones_like, _aten.zeros_like),
        *(_aten.new_full, _aten.new_ones, _aten.new_zeros),
    )
    for overload in packet.overloads()
    if not overload.endswith(("out", "names"))
}


# Whose results are numbers that their first operand has.
_OF_NUMBERS = {
    *(_aten._to_copy.default, _aten.view.default, _aten.alias.default, _aten.detach.default),
    *(_aten.slice.Tensor, _aten.select.int, _aten.unsqueeze.default, _aten.squeeze.default),
    *(_aten.max.default, _aten.min.default, _aten.amax.default, _aten.amin.default),
}
_SUMS = {_aten.sum.default, _aten.sum.dim_IntList}


_UNINITIALISED = {
    getattr(packet, overload)
    for packet in (_aten.empty_like, _aten.new_empty, _aten.new_empty_strided)
    for overload in packet.overloads()
}


class StandIns(FakeTensorMode):
    """A mode of tensors of static sizes without values, beside which constants of the code, and
    what is computed of these alone, have theirs.

    Args:
        sizes_by_values: sizes that depend on values get a name, and are no error.
        settled: states that no step changes, which have their values too.
    """

    def __init__(self, sizes_by_values: bool = False, settled: Iterable[torch.Tensor] = ()) -> None:
        environment = None
        if sizes_by_values:
            environment = ShapeEnv(allow_scalar_outputs=False, allow_dynamic_output_shape_ops=True)
        super().__init__(allow_non_fake_inputs=True, static_shapes=True, shape_env=environment)
        self._constants = WeakTensorKeyDictionary()
        self._firsts = WeakTensorKeyDictionary()
        self._most = WeakTensorKeyDictionary()  # of counts: how large one is at most
        self._settled = {id(tensor) for tensor in settled if self.may_turn_const(tensor)}

    def from_tensor(self, tensor: torch.Tensor, **options: Any) -> FakeTensor:
        fake = super().from_tensor(tensor, **options)
        if id(tensor) in self._settled and fake.constant is None:
            with no_dispatch():
                fake.constant = tensor.detach().clone(memory_format=torch.preserve_format)
            self.fake_tensor_converter.add_constant_storage_mapping(fake)
        return fake

    def can_run_unsafe_fallback(self, func: Any) -> bool:
        """Whether a kernel that says nothing of shapes may run on zeros. One of a package may find
        them to be no lengths, or no places, and no plan calls it."""
        return func.namespace not in _PACKAGES and super().can_run_unsafe_fallback(func)

    def may_turn_const(self, t: Any) -> bool:
        return (
            type(t) is torch.Tensor
            and t.layout == torch.strided
            and t.device.type == "cpu"
            and t.numel() <= LARGEST
        )

    def validate_and_convert_non_fake_tensors(
        self, func: Any, converter: Any, flat_args: Any, args_spec: Any
    ) -> Any:
        """Takes tensors with values, which the code has from before, for its constants."""
        known = [self._of_constant(a) if self.may_turn_const(a) else a for a in flat_args]
        return super().validate_and_convert_non_fake_tensors(func, converter, known, args_spec)

    def _of_constant(self, tensor: torch.Tensor) -> FakeTensor:
        """A tensor of this mode with the values of `tensor`."""
        if tensor not in self._constants:
            with no_dispatch():
                copy = tensor.detach().clone(memory_format=torch.preserve_format)
            convert = self.fake_tensor_converter.from_real_tensor
            self._constants[tensor] = convert(self, copy, make_constant=True)
        return self._constants[tensor]

    def know_first(self, vector: FakeTensor, value: int) -> None:
        """Notes the first element of a vector of integers: who reads `vector[0]` knows it."""
        with no_dispatch(), unset_fake_temporarily():
            self._firsts[vector] = torch.tensor(value, dtype=vector.dtype)

    def dispatch(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is _aten.masked_select.default and known_value(args[1]) is not None:
            # The kernel without values asks for the number of elements, and not the mask.
            shape = torch.broadcast_shapes(args[0].shape, args[1].shape)
            return args[0].new_empty(int(known_value(args[1]).expand(shape).sum()))
        result = super().dispatch(func, types, args, kwargs or {})
        if (
            func in _UNINITIALISED
            and isinstance(result, FakeTensor)
            and result.constant is not None
        ):
            # Kernels without values make their results so, `known[places]` of a known tensor too.
            self.fake_tensor_converter.invalidate_constant_aliases(result.constant)
        if func is _aten.select.int and args[0] in self._firsts and tuple(args[1:]) == (0, 0):
            result.constant = self._firsts[args[0]]
        self._note_counts(func, args, result)
        symbols = any(isinstance(a, (torch.SymInt, torch.SymFloat)) for a in args)
        # What `torch.empty` gives, the code writes before it reads.
        makes = func in _FACTORIES or func is _aten.empty.memory_format
        if makes and not symbols and self.may_be_known(result):
            with unset_fake_temporarily():
                value = func(*map(_without_values, args), **(kwargs or {}))
            result.constant = value
            self.fake_tensor_converter.add_constant_storage_mapping(result)
        return result

    def _note_counts(self, func: Any, args: Any, result: Any) -> None:
        """Notes how large numbers are at most that count where a mask holds, and says it of one that is
        read, so that the code's questions about it are answered where nothing is left to decide."""
        most = None
        if (
            func in _SUMS
            and args[0].dtype == torch.bool
            and not args[0]._has_symbolic_sizes_strides
        ):
            most = args[0].numel()
        elif (
            args
            and isinstance(args[0], torch.Tensor)
            and (func in _OF_NUMBERS or isinstance(result, torch.SymInt))
        ):
            most, version = self._most.get(args[0], (None, 0))
            most = most if args[0]._version == version else None  # else it was written into
        if most is None:
            return
        if isinstance(result, torch.SymInt):
            constrain_range(result, min=0, max=most)
        elif isinstance(result, FakeTensor) and result.dtype in (torch.int64, torch.int32):
            self._most[result] = most, result._version

    def may_be_known(self, result: Any) -> bool:
        return (
            isinstance(result, FakeTensor)
            and result.constant is None
            and result.device.type == "cpu"
            and result.layout == torch.strided
            and all(isinstance(size, int) for size in result.shape)  # and none by values
            and result.numel() <= LARGEST
        )


def may_compute(op: Any, has_operands: bool, result: Any) -> bool:
    """Whether what `op` computes of known operands alone is known, and not too large."""
    return (
        isinstance(result, torch.Tensor)
        and result.numel() <= LARGEST
        and result.device.type == "cpu"
        and isinstance(op, torch._ops.OpOverload)
        and (op in _FACTORIES or has_operands)
        and not op._schema.is_mutable
        and torch.Tag.nondeterministic_seeded not in op.tags
        and "empty" not in op._schema.name
    )


def is_factory(op: Any) -> bool:
    """Whether the values of what `op` gives depend on those of no tensor."""
    return op in _FACTORIES


def empty_as(value: Any) -> Optional[torch.Tensor]:
    """A tensor of the shape of `value`, with any values; None where that depends on values."""
    if not isinstance(value, torch.Tensor) or not all(
        isinstance(size, int) for size in (*value.shape, *value.stride())
    ):
        return None
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)


def _without_values(argument: Any) -> Any:
    """A real tensor for a stand-in: of its shape, with any values."""
    return empty_as(argument) if isinstance(argument, FakeTensor) else argument


def known_numbers(tensor: torch.Tensor) -> list[int]:
    """The values of a tensor of integers that the code gives.

    Raises:
        DataDependentOutputException: they are not known, as they depend on values of the step.
    """
    return [int(value) for value in tensor]


def bytes_of(tensor: torch.Tensor) -> bytes:
    """The elements of a strided tensor with values, in row-major order."""
    flat = torch.empty(tensor.numel(), dtype=tensor.dtype)
    return flat.copy_(tensor.detach().reshape(-1)).view(torch.uint8).numpy().tobytes()


def held_tensors(value: Any) -> Iterator[torch.Tensor]:
    """A tensor itself, or those in containers of Python."""
    if isinstance(value, torch.Tensor):
        yield value
    elif type(value) in (*_MEMBERS, dict):
        for member in value.values() if isinstance(value, dict) else value:
            yield from held_tensors(member)


def know_first(vector: torch.Tensor, value: int) -> None:
    """Notes the first element of a vector of integers, all others of which depend on the step.

    Raises:
        DataDependentOutputException: the capture does not keep values of the code's own.
    """
    fake = _stand_in(vector)
    if not isinstance(fake, FakeTensor) or not isinstance(fake.fake_mode, StandIns):
        raise DataDependentOutputException(_aten._local_scalar_dense.default)
    fake.fake_mode.know_first(fake, value)


def _stand_in(tensor: Any) -> Any:
    """The tensor itself, where a capture has it in a tensor of AOTAutograd's."""
    if isinstance(tensor, FunctionalTensor):
        return torch._from_functional_tensor(tensor.elem)
    return tensor


def known_value(tensor: Any) -> Optional[torch.Tensor]:
    """What a stand-in that a capture has left behind holds, or None: that depends on the step."""
    tensor = _stand_in(tensor)
    constant = tensor.constant if isinstance(tensor, FakeTensor) else None
    return None if constant is None else constant.clone()
