"""What torch draws in the place of functions of Python's `random` and of `numpy.random`: numbers of the
same distributions.

A number is one that is read from a tensor (`python_floats`), an array is `torch._numpy`'s. What a small
integer or a member of a list decides, as how often a loop runs, is traced once for each.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import math
import sys
from typing import Any, Callable, Iterator, Optional, Sequence

import numpy
import torch
from torch import distributions

from ...errors import note
from ...step.places import at_line, innermost, is_users, said_line
from .array_draws import Array, numbers_of
from .decisions import ask, is_answering
from .python_floats import NumpyNumber, is_number

# Of so many members a decision finds the one that is drawn, where a step decides by values at all.
_MOST_WAYS = 8


@dataclasses.dataclass
class Few:
    """Whole numbers that are drawn among a few, where a step decides by values.

    Attributes:
        are_ways: whether each of them is a way through the step, as code needs that asks for a number of
            Python's. Else the number is one that is read from a tensor.
        were_drawn: whether a step has drawn one.
    """

    are_ways: bool = False
    were_drawn: bool = False


_few = contextvars.ContextVar("_few", default=Few())


@contextlib.contextmanager
def few(are_ways: bool) -> Iterator[Few]:
    """Those of the steps that run within it."""
    token = _few.set(Few(are_ways))
    try:
        yield _few.get()
    finally:
        _few.reset(token)


class NoDraw(Exception):
    """Raised where torch draws nothing like what a function is asked for."""


def note_drawn(line: str, of: str = "Python or NumPy") -> None:
    """Says that what is drawn on a line is others than eager's."""
    what = (
        f"random numbers of {of} are drawn by torch, from the run's own seed: distributed alike, and "
        "others than eager's"
    )
    note(at_line(line, what))


def _parameters(size: Any, *values: Any) -> tuple[torch.Tensor, ...]:
    """Parameters of a distribution as float64, each of `size`, or of the shape that they have together."""
    tensors = [numbers_of(value).to(torch.float64) for value in values]
    shape = torch.broadcast_shapes(*(t.shape for t in tensors)) if size is None else _shape(size)
    return tuple(tensor.expand(shape) for tensor in tensors)


def _shape(size: Any) -> tuple[Any, ...]:
    if size is None:
        return ()
    return tuple(size) if isinstance(size, (tuple, list, torch.Size)) else (size,)


def _given(drawn: torch.Tensor, size: Any) -> Any:
    """What code gets: a number where it asks for one, else an array."""
    return Array(drawn) if size is not None or drawn.dim() else drawn.item()


def _of(distribution: Callable[..., Any], size: Any, *values: Any, whole: bool = False) -> Any:
    drawn = distribution(*_parameters(size, *values)).sample()
    return _given(drawn.to(torch.int64) if whole else drawn, size)


def _random(size: Any = None) -> Any:
    return _given(torch.rand(_shape(size), dtype=torch.float64), size)


def _standard_normal(size: Any = None) -> Any:
    return _given(torch.randn(_shape(size), dtype=torch.float64), size)


def _uniform(low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
    return _of(distributions.Uniform, size, low, high)


def _normal(loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
    loc, scale = _parameters(size, loc, scale)
    return _given(loc + scale * torch.randn(loc.shape, dtype=torch.float64), size)


def _lognormal(mean: Any = 0.0, sigma: Any = 1.0, size: Any = None) -> Any:
    mean, sigma = _parameters(size, mean, sigma)
    return _given((mean + sigma * torch.randn(mean.shape, dtype=torch.float64)).exp(), size)


def _laplace(loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
    return _of(distributions.Laplace, size, loc, scale)


def _gumbel(loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
    return _of(distributions.Gumbel, size, loc, scale)


def _exponential(scale: Any = 1.0, size: Any = None) -> Any:
    (scale,) = _parameters(size, scale)
    return _given(scale * -torch.rand(scale.shape, dtype=torch.float64).neg().log1p(), size)


def _gamma(shape: Any, scale: Any = 1.0, size: Any = None) -> Any:
    return _of(lambda shape, scale: distributions.Gamma(shape, 1 / scale), size, shape, scale)


def _beta(a: Any, b: Any, size: Any = None) -> Any:
    return _of(distributions.Beta, size, a, b)


def _poisson(lam: Any = 1.0, size: Any = None) -> Any:
    return _of(distributions.Poisson, size, lam, whole=True)


def _binomial(n: Any, p: Any, size: Any = None) -> Any:
    return _of(lambda n, p: distributions.Binomial(n, p), size, n, p, whole=True)


def _randint(low: Any, high: Any = None, size: Any = None, dtype: Any = int) -> Any:
    low, high = (0, low) if high is None else (low, high)
    if dtype not in (int, numpy.int64):
        raise NoDraw
    if size is None and all(isinstance(bound, (int, numpy.integer)) for bound in (low, high)):
        return _one_of(range(low, high))
    low, high = map(numbers_of, (low, high))
    shape = torch.broadcast_shapes(low.shape, high.shape) if size is None else _shape(size)
    part = torch.rand(shape, dtype=torch.float64) * (high - low)
    return _given(low + part.floor().to(torch.int64), size)


def _randrange(start: int, stop: Optional[int] = None, step: int = 1) -> Any:
    bounds = (0, start) if stop is None else (start, stop)
    if step == 1:
        return _randint(*bounds)
    return _one_of(range(*bounds, step))


def _one_of(members: Sequence[Any], weights: Any = None) -> Any:
    """One member, each by the same chance, or by those that weights say."""
    place = _places(len(members), (), weights)
    if type(known := place.item()) is int:
        return members[known]
    if isinstance(members, torch.Tensor):
        return members[place]
    if isinstance(members, numpy.ndarray):
        return numbers_of(members)[place].item()
    kinds = set(map(type, members[:1] if isinstance(members, range) else members))
    if kinds not in ({int}, {float}) or _are_ways(members):
        line = said_line(innermost(sys._getframe(1), is_users))
        chosen = (m for n, m in enumerate(members[:-1]) if ask(place == n, line))
        return next(chosen, members[-1])
    if isinstance(members, range):
        return (members.start + members.step * place).item()
    return torch.tensor(members, dtype=torch.float64 if kinds == {float} else None)[place].item()


def _are_ways(members: Sequence[Any]) -> bool:
    """Whether each of them is a way through a step, which decides by values."""
    if not is_answering() or len(members) > _MOST_WAYS:
        return False
    _few.get().were_drawn = True
    return _few.get().are_ways


def _places(count: Any, shape: tuple[Any, ...], weights: Any = None, replace: bool = True) -> Any:
    """The places of members that are drawn, of so many."""
    if not replace and weights is None:
        return torch.randperm(count)[: math.prod(shape)].reshape(shape)
    if weights is None:
        return torch.randint(count, shape)
    return torch.multinomial(numbers_of(weights).double(), math.prod(shape), replace).reshape(shape)


def _choice(a: Any, size: Any = None, replace: bool = True, p: Any = None) -> Any:
    members = range(a) if isinstance(a, (int, numpy.integer)) else a
    if size is None and isinstance(members, (list, tuple, range)):
        return _one_of(members, p)
    tensor = numbers_of(members)
    drawn = tensor[_places(len(tensor), _shape(size), p, replace)]
    if size is None and not drawn.dim() and drawn.dtype == torch.float64:
        return NumpyNumber(drawn)
    return _given(drawn, size)


def _choices(population: Any, weights: Any = None, *, cum_weights: Any = None, k: int = 1) -> Any:
    if cum_weights is not None:
        weights = numpy.diff(cum_weights, prepend=0)
    return [_one_of(population, weights) for _ in range(k)]


def _permuted(members: Any, count: Optional[int] = None) -> list[Any]:
    """The first members of a permutation, of numbers, or of tensors alike."""
    count = len(members) if count is None else count
    places = torch.randperm(len(members))[:count]
    if all(type(member) is int for member in members[:1]) and isinstance(members, range):
        return [(members.start + members.step * place).item() for place in places]
    if all(map(is_number, members)):
        return [number.item() for number in numbers_of(list(members))[places]]
    if not all(isinstance(member, torch.Tensor) for member in members):
        raise NoDraw
    if len({(member.shape, member.dtype) for member in members}) > 1:
        raise NoDraw
    return list(torch.stack(list(members))[places])


def _sample(population: Any, k: int, *, counts: Any = None) -> Any:
    if counts is not None:
        raise NoDraw
    return _permuted(population, k)


def _shuffle(x: Any) -> None:
    if isinstance(x, Array):
        x.tensor.copy_(x.tensor[torch.randperm(len(x))])
    elif isinstance(x, list):
        x[:] = _permuted(x)
    else:
        raise NoDraw


def _permutation(x: Any) -> Any:
    if isinstance(x, (int, numpy.integer)):
        return Array(torch.randperm(x))
    tensor = numbers_of(x)
    return Array(tensor[torch.randperm(len(tensor))])


OF_PYTHON: dict[str, Callable[..., Any]] = {
    "betavariate": lambda alpha, beta: _beta(alpha, beta),
    "choice": lambda seq: _one_of(seq),
    "choices": _choices,
    "expovariate": lambda lambd=1.0: _exponential(1.0 / lambd),
    "gammavariate": lambda alpha, beta: _gamma(alpha, beta),
    "gauss": lambda mu=0.0, sigma=1.0: _normal(mu, sigma),
    "lognormvariate": lambda mu=0.0, sigma=1.0: _lognormal(mu, sigma),
    "normalvariate": lambda mu=0.0, sigma=1.0: _normal(mu, sigma),
    "randint": lambda a, b: _randint(a, b + 1),
    "random": lambda: _random(),
    "randrange": _randrange,
    "sample": _sample,
    "shuffle": _shuffle,
    "uniform": lambda a, b: _uniform(a, b),
}
OF_NUMPY: dict[str, Callable[..., Any]] = {
    "beta": _beta,
    "binomial": _binomial,
    "choice": _choice,
    "exponential": _exponential,
    "gamma": _gamma,
    "gumbel": _gumbel,
    "laplace": _laplace,
    "lognormal": _lognormal,
    "normal": _normal,
    "permutation": _permutation,
    "poisson": _poisson,
    "rand": lambda *size: _random(size or None),
    "randint": _randint,
    "randn": lambda *size: _standard_normal(size or None),
    "shuffle": _shuffle,
    "standard_normal": _standard_normal,
    "uniform": _uniform,
    **dict.fromkeys(("random", "random_sample", "ranf", "sample"), _random),
}
