"""Generators of NumPy's that a step makes without a seed, `numpy.random.default_rng()`, or keeps: torch
draws their numbers, as it does those of NumPy's own generator (`drawn_by_torch`)."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Sequence

import numpy
import torch

from .draws import OF_NUMPY, NoDraw
from .python_floats import ReadNumber


def _integers(
    low: Any, high: Any = None, size: Any = None, dtype: Any = int, endpoint: bool = False
) -> Any:
    low, high = (0, low) if high is None else (low, high)
    return OF_NUMPY["randint"](low, high + bool(endpoint), size, dtype)


def _choice(
    a: Any,
    size: Any = None,
    replace: bool = True,
    p: Any = None,
    axis: int = 0,
    shuffle: bool = True,
) -> Any:
    if axis != 0:
        raise NoDraw
    return OF_NUMPY["choice"](a, size, replace, p)


def _of_dtype(draw: Callable[[Any], Any]) -> Callable[..., Any]:
    def drawn(size: Any = None, dtype: Any = numpy.float64) -> Any:
        if size is None and dtype != numpy.float64:
            raise NoDraw
        return draw(size) if size is None else draw(size).astype(numpy.dtype(dtype).name)

    return drawn


_OF_GENERATORS = {
    **OF_NUMPY,
    "choice": _choice,
    "integers": _integers,
    **{name: _of_dtype(OF_NUMPY[name]) for name in ("random", "standard_normal")},
}
OF_KIND = {numpy.random.Generator: _OF_GENERATORS, numpy.random.RandomState: OF_NUMPY}
# What makes generators, and what generators of NumPy's are made of.
MAKERS: tuple[Callable[..., Any], ...] = (numpy.random.default_rng, numpy.random.RandomState)
BIT_GENERATORS: tuple[type, ...] = tuple(
    getattr(numpy.random, name) for name in "MT19937 PCG64 PCG64DXSM Philox SFC64".split()
)

# Kinds of numbers that a step has read, kept or drawn.
_READ = (ReadNumber, torch.Tensor, torch.SymInt)

StandIn = Callable[[Callable[..., Any], Callable[..., Any], Any], Callable[..., Any]]


class StandInGenerator:
    """Stands for a generator, also where code asks what it is.

    Args:
        generator: one like it.
        stand_in: gives what draws in the place of a method of the generator, or calls that.
    """

    __class__ = property(lambda self: type(self.__dict__["generator"]))

    def __init__(self, generator: Any, stand_in: StandIn) -> None:
        self.__dict__.update(generator=generator, stand_in=stand_in)

    def __getattr__(self, name: str) -> Any:
        generator, stand_in = self.__dict__["generator"], self.__dict__["stand_in"]
        original = getattr(generator, name)
        if name.startswith("_") or not callable(original):
            return original
        return stand_in(original, _draw_of(type(generator), name), generator)


def _draw_of(kind: type, name: str) -> Callable[..., Any]:
    draw = OF_KIND[kind].get(name)

    def drawn(*args: Any, **kwargs: Any) -> Any:
        if draw is None:
            raise NoDraw
        try:
            inspect.signature(draw).bind(*args, **kwargs)
        except TypeError:
            raise NoDraw from None
        return draw(*args, **kwargs)

    return drawn


def is_seeded(args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Whether these arguments of a maker say what a generator draws."""
    return any(value is not None for value in (*args, *kwargs.values()))


def has_unknown(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether one of them is a number that differs from step to step."""
    return any(isinstance(value, _READ) for value in (*args, *kwargs.values()))
