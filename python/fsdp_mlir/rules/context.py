"""What holds while an optimizer's step is followed: fake tensors, and functions that take `Number`s."""

from __future__ import annotations

import builtins
import contextlib
import math
from typing import Any, Callable, Iterator

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

from .numbers import Number
from .pairs import complex_numbers
from .trace import Trace

_DRAWS = {"normal", "normal_", "uniform_", "bernoulli_", "exponential_", "log_normal_", "cauchy_"}


class Functions(TorchFunctionMode):
    """Calls whose arguments PyTorch would ask for their values before they are dispatched."""

    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self.trace = trace

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in ("tensor", "as_tensor", "scalar_tensor") and isinstance(args[0], Number):
            dtype = kwargs.get("dtype") or torch.get_default_dtype()
            return self.trace.make((), (), dtype, self.trace.pool.round(args[0].value, dtype))
        if name.startswith("_fused_") and any(isinstance(v, Number) for v in kwargs.values()):
            return self.trace.call(getattr(torch.ops.aten, name).default, args, kwargs)
        if name in _DRAWS and any(isinstance(v, Number) for v in (*args, *kwargs.values())):
            self.trace.fail(f"draws random numbers ({name}), which a plan's update does not")
        result = func(*args, **kwargs)
        # item() gives what it was, in PyTorch's own class.
        return result.node.number if type(result) is torch.SymFloat else result


@contextlib.contextmanager
def following(trace: Trace) -> Iterator[None]:
    """Within it, `trace` follows what runs."""

    def replaced(function: Callable[..., Any], op: str) -> Callable[..., Any]:
        def compute(*args: Any) -> Any:
            args = tuple(arg.item() if isinstance(arg, torch.Tensor) else arg for arg in args)
            if not any(isinstance(arg, Number) for arg in args):
                return function(*args)
            if op == "log" and len(args) == 2:  # of a base, as Python computes it
                return compute(args[0]) / compute(args[1])
            return trace.compute(op, *args)

        return compute

    def chosen(function: Callable[..., Any], is_better: Callable[[Any, Any], Any]) -> Any:
        def choose(*args: Any, **kwargs: Any) -> Any:
            if kwargs or len(args) < 2 or not any(isinstance(arg, Number) for arg in args):
                return function(*args, **kwargs)
            best = args[0]
            for arg in args[1:]:
                best = trace.compute("select_less", *is_better(arg, best), arg, best)
            return best

        return choose

    before = {name: getattr(math, name) for name in ("sqrt", "pow", "exp", "log", "cos")}
    chosen_before = builtins.max, builtins.min
    fakes = FakeTensorMode(allow_non_fake_inputs=True)
    try:
        for name, function in before.items():
            setattr(math, name, replaced(function, "power" if name == "pow" else name))
        # As Python chooses: the first of those that are equal.
        builtins.max = chosen(builtins.max, lambda new, best: (best, new))
        builtins.min = chosen(builtins.min, lambda new, best: (new, best))
        with complex_numbers(), fakes, Functions(trace), trace:
            yield
    finally:
        for name, function in before.items():
            setattr(math, name, function)
        builtins.max, builtins.min = chosen_before
