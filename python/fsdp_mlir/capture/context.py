"""What holds while a step is captured: modes, PyTorch's settings, one forward for all."""

from __future__ import annotations

import contextlib
import functools
import gc
import logging
import os
import warnings
from typing import Any, Iterator
from unittest import mock

import torch

# How many objects are made between two collections of garbage among new ones, and how many of these
# are between two among older ones.
_SELDOM = (20_000, 20, 20)


@contextlib.contextmanager
def eval_mode(model: torch.nn.Module) -> Iterator[None]:
    """The model in `eval()`, and afterwards each module in the mode it was in."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


class SharedForward:
    """Lets metrics have the loss's own forwards: a call that metrics repeat with the same tensors
    is the loss's call.

    A second forward would cost time, draw other dropout masks and update buffers twice. That is
    what a loss means that calls its model twice, so that nothing is shared within the loss.

    Attributes:
        in_metrics: whether the loss is computed, and metrics are next.
    """

    def __init__(self) -> None:
        self.in_metrics = False
        self._calls: list[tuple[tuple[Any, ...], dict[str, Any], Any]] = []

    @contextlib.contextmanager
    def of(self, model: torch.nn.Module) -> Iterator[None]:
        """Within it, `model.forward` is shared; it is as it was when the block ends."""
        original = model.forward
        overridden = "forward" in vars(model)

        @functools.wraps(original)
        def forward(*args: Any, **kwargs: Any) -> Any:
            if self.in_metrics:
                for known_args, known_kwargs, known_result in self._calls:
                    if _same(args, known_args) and _same_named(kwargs, known_kwargs):
                        return known_result
            result = original(*args, **kwargs)
            self._calls.append((args, kwargs, result))
            return result

        model.forward = forward
        try:
            yield
        finally:
            if overridden:
                model.forward = original
            else:
                del model.forward


def _same(ours: tuple[Any, ...], theirs: tuple[Any, ...]) -> bool:
    return len(ours) == len(theirs) and all(a is b for a, b in zip(ours, theirs))


def _same_named(ours: dict[str, Any], theirs: dict[str, Any]) -> bool:
    return len(ours) == len(theirs) and all(
        name in theirs and value is theirs[name] for name, value in ours.items()
    )


def said_to_compile() -> Any:
    """Within it, code that asks whether it is being compiled is told so, as by Dynamo."""
    return mock.patch.object(torch.compiler, "_is_compiling_flag", True)


@contextlib.contextmanager
def compiled_code_by_itself() -> Iterator[None]:
    """Within it, what the user's code compiles (`torch.compile`) runs as it is, also while it is traced."""
    with (
        torch.compiler.set_stance("force_eager"),
        torch._dynamo.config.patch(error_on_nested_fx_trace=False),
    ):
        yield


def _refuse_hook(effects: Any, tensor: Any, *args: Any) -> None:
    torch._dynamo.exc.unimplemented(
        gb_type="hook on a tensor",
        context=str(tensor),
        explanation="Dynamo does not follow hooks on gradients.",
        hints=[],
    )


def _refuse_draw(*args: Any) -> None:
    torch._dynamo.exc.unimplemented(
        gb_type="random number of Python's",
        context="",
        explanation="Dynamo would draw one number for all steps.",
        hints=[],
    )


@contextlib.contextmanager
def _no_draws() -> Iterator[None]:
    """Within it, Dynamo does not follow code that draws random numbers from Python's generators, which
    it does for some of them."""
    variables = torch._dynamo.variables
    with (
        mock.patch.object(variables.misc, "call_random_fn", _refuse_draw),
        mock.patch.object(variables.user_defined, "call_random_fn", _refuse_draw),
    ):
        yield


def _functions_unnamed() -> Any:
    """Within it, Dynamo names no function in the lines of a log that nobody asks for: it would read
    every file of the model, and of PyTorch, token by token."""
    if torch._dynamo.output_graph.trace_call_log.isEnabledFor(logging.DEBUG):
        return contextlib.nullcontext()
    return mock.patch.object(torch._dynamo.symbolic_convert, "get_funcname", lambda *_: None)


@contextlib.contextmanager
def capture_settings() -> Iterator[None]:
    """Logging calls in the user's code are dropped from the graph."""
    methods = {value for value in vars(logging.Logger).values() if callable(value)}
    # Dynamo takes a hook on a parameter for something to do behind the forward, which is not done.
    hooks = mock.patch.object(torch._dynamo.side_effects.SideEffects, "register_hook", _refuse_hook)
    with (
        hooks,
        _no_draws(),
        _functions_unnamed(),
        torch._dynamo.config.patch(
            ignore_logging_functions=methods | {print, warnings.warn},
            # Every size and number is what it is in this batch, also after another capture.
            assume_static_by_default=True,
            automatic_dynamic_shapes=False,
            specialize_int=True,
            specialize_float=True,
            capture_scalar_outputs=False,
            # Whose sizes `static_sizes` makes static.
            capture_dynamic_output_shape_ops=True,
            # As matrix products: `eager_kernels` says which.
            allow_rnn=True,
            # Else `add_(other, alpha=a)` is captured as two roundings, where eager has one.
            enable_dynamo_decompositions=False,
        ),
    ):
        yield


def inference_without_gradients() -> Any:
    """Within it, `torch.inference_mode` is `torch.no_grad`: of what is computed with a tensor that
    was made in inference mode AOTAutograd traces no gradient, where eager mode takes a copy."""
    guard = torch._C._InferenceMode
    return mock.patch.object(
        torch._C, "_InferenceMode", lambda mode: torch.no_grad() if mode else guard(False)
    )


@contextlib.contextmanager
def without_pytorchs_log() -> Iterator[None]:
    """Within it PyTorch logs nothing, unless the environment asks it to: what fails in it is tried
    another way, or becomes an error of ours, in front of which no traceback is to stand."""
    if any(os.environ.get(name) for name in ("TORCH_LOGS", "TORCH_LOGS_OUT", "TORCH_TRACE")):
        yield
        return
    handle = logging.Logger.handle

    def without(logger: logging.Logger, record: logging.LogRecord) -> None:
        if record.name.partition(".")[0] != "torch":
            handle(logger, record)

    trace_log = torch._logging._internal.trace_log
    with (
        mock.patch.object(logging.Logger, "handle", without),
        # With a handler there, PyTorch notes a call stack for each size that depends on values.
        mock.patch.object(trace_log, "handlers", []),
    ):
        yield


@contextlib.contextmanager
def seldom_collected() -> Iterator[None]:
    """Within it, Python collects garbage less often: a trace makes many objects, of which most stay, and
    each collection looks at them again, for a tenth of an export's time."""
    before = gc.get_threshold()
    if before[0]:  # else somebody has turned it off
        gc.set_threshold(*_SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*before)
