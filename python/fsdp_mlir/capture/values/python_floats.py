"""Numbers that code computes with as Python's, and that differ from step to step: those with a
fraction that it reads from a tensor, `lam = t.item()`, and those that it keeps for the next step.

No Python runs while a plan does. So such a number is a tensor without dimensions, of float64 as a
Python float or of int64, which takes part in arithmetic as that would: it never changes a tensor's
dtype. What branches on it decides by values (`decisions`). What needs it as a number of Python's is
refused where it does so.
"""

from __future__ import annotations

import contextlib
import math
import operator
import sys
from typing import Any, Callable, Iterator, Optional
from unittest import mock

import numpy
import torch
from torch._subclasses.fake_tensor import DataDependentOutputException

from ...step.places import innermost, is_users
from ...step.source import shows_at
from .number_arguments import call_with_tensors, plain_name, require_takes_number, takes_tensors
from .numpy_functions import ON_TENSORS, OPERATORS
from .whole_numbers import power, shifted_left, shifted_right

_ADDS = frozenset("add radd iadd sub rsub isub subtract".split())
_SCALES = frozenset(
    "mul rmul imul multiply div rdiv idiv truediv rtruediv itruediv divide true_divide".split()
)
_COMPARES = frozenset("gt lt ge le eq ne".split())
_ARITHMETIC = _ADDS | _SCALES | _COMPARES
# Functions of `math` that PyTorch has as well, up to the last bit.
_OF_MATH = "cos exp log sin sqrt tanh".split()
_TRUTHS_OF_MATH = "isfinite isinf isnan".split()
_OF_NUMPY = numpy.generic, numpy.ndarray
# Of which only the whole numbers' results are Python's, bit by bit.
_OF_WHOLE = frozenset("mod floordiv and_ or_ xor lshift rshift".split())
# What computes those results where PyTorch's operator does not.
_WHOLE_RESULTS = {"lshift": shifted_left, "rshift": shifted_right, "pow": power}


class ReadNumber:
    """A number that is a tensor.

    Args:
        value: a tensor without dimensions, of float64 or int64.
    """

    __slots__ = ("value",)

    def __init__(self, value: torch.Tensor) -> None:
        self.value = value

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """A tensor and a number: what PyTorch computes of the tensor and a Python float."""
        if func is torch.sym_float:
            return args[0]
        if func in (torch.sym_max, torch.sym_min):
            compare = operator.gt if func is torch.sym_max else operator.lt
            return cls.chosen(compare(args[1], args[0]), args[1], args[0])
        kind = plain_name(func)
        require_takes_number(func, kwargs or {})
        if kind not in _ARITHMETIC:
            return call_with_tensors(func, args, kwargs or {}, read_value)
        if kwargs or len(args) != 2 or not isinstance(args[0], torch.Tensor):
            raise DataDependentOutputException(func)
        tensor, number = args
        dtype = torch.result_type(tensor, 1.0 if number.has_fraction else 1)
        if kind in _SCALES and dtype in (torch.bfloat16, torch.float16):
            return _scaled(func, tensor, number.value.to(torch.float32))
        return func(tensor, number.value.to(dtype.to_real() if dtype.is_complex else dtype))

    @property
    def has_fraction(self) -> bool:
        """Whether it is a Python float, and no int."""
        return self.value.dtype == torch.float64

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise DataDependentOutputException(name)

    @staticmethod
    def chosen(where: torch.Tensor, one: Any, other: Any) -> ReadNumber:
        """The number `one` where a condition holds, else `other`."""
        operands = _operand(one), _operand(other)
        if not all(isinstance(operand, torch.Tensor) for operand in operands):
            raise DataDependentOutputException("max")
        kind = NumpyNumber if _is_numpys(one) or _is_numpys(other) else ReadNumber
        return kind(torch.where(where, *operands))

    def __array_ufunc__(self, function: Any, method: str, *values: Any, **options: Any) -> Any:
        """What a function of NumPy's computes of it: also `np.float64(2) * number` comes here."""
        name = function.__name__
        if method != "__call__" or options or not all(map(_fits_numpy, values)):
            raise DataDependentOutputException(name)
        numbers = [v.item() if isinstance(v, _OF_NUMPY) else v for v in values]
        if name in ON_TENSORS:
            return NumpyNumber(ON_TENSORS[name](*map(_operand, numbers)))
        if name not in OPERATORS:
            raise DataDependentOutputException(name)
        result = OPERATORS[name](*numbers)
        return NumpyNumber(result.value) if isinstance(result, ReadNumber) else result

    def clip(self, *bounds: Any, **options: Any) -> Any:
        """`np.clip`, which calls this method."""
        if len(bounds) != 2 or options.pop("out", None) is not None or options:
            raise DataDependentOutputException("clip")
        low, high = bounds
        at_least = self if low is None else numpy.maximum(self, low)
        return at_least if high is None else numpy.minimum(at_least, high)

    def __pos__(self) -> ReadNumber:
        return self

    def __neg__(self) -> ReadNumber:
        return type(self)(-self.value)

    def __abs__(self) -> ReadNumber:
        return type(self)(self.value.abs())

    def __invert__(self) -> ReadNumber:
        return -self - 1

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __bool__(self) -> bool:
        return bool(self.value != 0)

    def __floor__(self) -> ReadNumber:
        return ReadNumber(self.value.floor().to(torch.int64))

    def __ceil__(self) -> ReadNumber:
        return ReadNumber(self.value.ceil().to(torch.int64))

    def __trunc__(self) -> ReadNumber:
        return ReadNumber(self.value.trunc().to(torch.int64))

    def __round__(self, digits: Optional[int] = None) -> ReadNumber:
        if digits is not None:
            return _shown("round", self)
        return ReadNumber(self.value.round().to(torch.int64))  # half to even, as Python


def takes_numbers(func: Any) -> bool:
    """Whether `func` computes with such a number as a tensor."""
    return plain_name(func) in _ARITHMETIC or takes_tensors(func)


def _scaled(func: Any, tensor: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    """A product or quotient of 16 bits: kernels do not round a Python number to so few."""
    if func is torch.Tensor.__rdiv__:
        func, tensor = torch.mul, tensor.reciprocal()  # as PyTorch, which rounds it
    whole = func(tensor.float(), factor).to(tensor.dtype)
    in_place = func.__name__.startswith("__i") or func.__name__.rstrip("_") + "_" == func.__name__
    return tensor.copy_(whole) if in_place else whole


class NumpyNumber(ReadNumber):
    """A number that eager mode has as NumPy's: `torch.tensor` keeps its dtype."""

    __slots__ = ()


def _is_numpys(value: Any) -> bool:
    return isinstance(value, (NumpyNumber, numpy.generic))


def _fits_numpy(value: Any) -> bool:
    """Whether NumPy computes with `value` as with a number of 64 bits. It compares one of its own as
    an array without dimensions."""
    if isinstance(value, _OF_NUMPY):
        return value.ndim == 0 and value.dtype in (numpy.float64, numpy.int64)
    return is_number(value)


def _operand(value: Any) -> Any:
    """What `value` is in arithmetic of numbers, or None: no number."""
    if isinstance(value, ReadNumber):
        return value.value
    if isinstance(value, (bool, int, float)):
        dtype = torch.float64 if isinstance(value, float) else torch.int64
        return torch.scalar_tensor(value, dtype=dtype)
    return value if isinstance(value, (torch.SymInt, torch.SymFloat)) else None


def _computes(function: Callable[..., Any], swapped: bool, gives: Callable[..., Any]) -> Any:
    name = function.__name__

    def method(self: ReadNumber, other: Any, *modulus: Any) -> Any:
        operand = _operand(other)
        if operand is None:
            return NotImplemented  # a tensor computes it
        if modulus:
            raise DataDependentOutputException(name)
        pair = (operand, self.value) if swapped else (self.value, operand)
        of_numpy = gives is ReadNumber and (_is_numpys(self) or _is_numpys(other))
        wrap = NumpyNumber if of_numpy else gives
        if not _is_whole(name, *pair):
            return wrap(function(*map(_with_fraction, pair)))
        if name == "pow" and not swapped and isinstance(other, int):
            # As a product is. Below 0 Python gives a number with a fraction.
            pair = (self.value, other) if other >= 0 else tuple(map(_with_fraction, pair))
            return wrap(function(*pair))
        return wrap(_WHOLE_RESULTS.get(name, function)(*pair))

    return method


def _is_whole(name: str, one: Any, other: Any) -> bool:
    """Whether Python computes a whole number of two by the function of that name."""
    whole = all(getattr(value, "dtype", torch.int64) == torch.int64 for value in (one, other))
    if name in _OF_WHOLE and not whole:
        raise DataDependentOutputException(name)
    return whole and name != "truediv"


def _with_fraction(value: Any) -> Any:
    return value.to(torch.float64) if isinstance(value, torch.Tensor) else value


def _shown(name: str, value: Any) -> Any:
    """`value` where the user's code only shows what it makes of a number: nobody sees it, since no
    Python runs while a plan does.

    Raises:
        DataDependentOutputException: it may do something else with that.
    """
    frame = innermost(sys._getframe(2), is_users)
    if frame is None or not shows_at(frame.f_code.co_filename, frame.f_lineno):
        raise DataDependentOutputException(name)
    return value


def _needs(name: str, shown: Any = None) -> Callable[..., Any]:
    """A method for which Python needs the number itself; what it gives where that is `shown`."""

    def method(self: ReadNumber, *args: Any, **kwargs: Any) -> Any:
        if shown is None:
            raise DataDependentOutputException(name)
        return _shown(name, shown)

    return method


for _name in "add sub mul truediv pow mod floordiv and or xor lshift rshift".split():
    for _swapped in (False, True):
        _function = getattr(operator, f"{_name}_" if _name in ("and", "or") else _name)
        _method = _computes(_function, _swapped, ReadNumber)
        setattr(ReadNumber, f"__{'r' * _swapped}{_name}__", _method)
for _name in _COMPARES:
    # A tensor, of whose truth a check of values may make something.
    setattr(ReadNumber, f"__{_name}__", _computes(getattr(operator, _name), False, lambda t: t))
# PyTorch takes what has items for a sequence, and asks for its length.
for _name in "array complex getitem hash len".split():
    setattr(ReadNumber, f"__{_name}__", _needs(_name))
for _name, _value in {"format": "...", "str": "...", "int": 0, "index": 0, "float": 0.0}.items():
    setattr(ReadNumber, f"__{_name}__", _needs(_name, _value))


def _in_math(name: str, of_number: Callable[[ReadNumber], Any]) -> Any:
    of_python = getattr(math, name)

    def function(*numbers: Any) -> Any:
        numbers = tuple(n.item() if isinstance(n, torch.Tensor) else n for n in numbers)
        if len(numbers) == 1 and isinstance(numbers[0], ReadNumber):
            return of_number(numbers[0])
        return of_python(*numbers)

    return mock.patch.object(math, name, function)


@contextlib.contextmanager
def functions_of_math() -> Iterator[None]:
    """Within it, functions of `math` take such numbers."""
    with contextlib.ExitStack() as stack:
        for name in _OF_MATH:
            stack.enter_context(
                _in_math(name, lambda n, f=ON_TENSORS[name]: ReadNumber(f(n.value)))
            )
        for name in _TRUTHS_OF_MATH:
            stack.enter_context(_in_math(name, OPERATORS[name]))
        yield


def is_number(value: object) -> bool:
    """Whether code computes with a value as with a number of Python's."""
    return isinstance(value, (int, float, ReadNumber))


def as_number(tensor: torch.Tensor) -> Optional[ReadNumber]:
    """What `tensor.item()` is where the value is not known; None: no number with a fraction."""
    if tensor.numel() != 1 or not tensor.dtype.is_floating_point:
        return None
    return ReadNumber(tensor.detach().to(torch.float64).reshape(()))


def read_value(value: Any) -> Any:
    """The tensor that holds a number which code has read, and any other value as it is."""
    return value.value if isinstance(value, ReadNumber) else value
