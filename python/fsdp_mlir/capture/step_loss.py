"""The function that is captured: a step's loss, and what else a program gives of a batch."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Mapping, Optional, Sequence

import torch

from ..dtypes import short_name
from ..errors import E, ExportError
from ..step.places import at_line, line_of_definition
from ..step.turns import Turn
from .context import SharedForward
from .values.python_floats import read_value


class StepLoss(torch.nn.Module):
    """The loss of one batch, given in order of `names`, and its metrics and outputs by name.

    Of several turns, which are evaluated at once, the loss is the sum of theirs, and what each one
    gives has the turn's name behind its own.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        turns: Sequence[Turn],
        outputs: Optional[Callable[..., Any]],
        names: tuple[str, ...],
        shared: SharedForward,
    ) -> None:
        super().__init__()
        self.model = model
        self.loss_functions = [turn.loss for turn in turns]
        self.metrics_functions = [turn.metrics for turn in turns]
        self.outputs_function = outputs
        self.suffixes = [f".{turn.name}" if len(turns) > 1 else "" for turn in turns]
        self.names = names
        self.shared = shared

    def forward(self, *batch: torch.Tensor) -> tuple[Any, Any]:
        inputs = dict(zip(self.names, batch))
        given = (function(self.model, **inputs) for function in self.loss_functions)
        losses = [_as_scalar(read_value(loss)) for loss in given]
        results: dict[str, Any] = {}
        # They see the forward's values but give no gradient. The copy keeps one that is a view of
        # another result from being returned as an alias of it.
        if len(losses) > 1:
            for suffix, value in zip(self.suffixes, losses):
                results[f"loss{suffix}"] = value.detach().clone()
        for suffix, function in zip(
            (*self.suffixes, ""), (*self.metrics_functions, self.outputs_function)
        ):
            if function is None:
                continue
            self.shared.in_metrics = True
            what = "outputs" if function is self.outputs_function else "metrics"
            for name, value in _named(what, function(self.model, **inputs)):
                if name + suffix in results:
                    raise ExportError(
                        E.STEP_RESULT, f"metrics and outputs both return {name}; rename one of them"
                    )
                value = read_value(value)
                if function is not self.outputs_function:
                    value = _as_scalar(value)
                is_tensor = isinstance(value, torch.Tensor)
                results[name + suffix] = value.detach().clone() if is_tensor else value
        whole = losses[0]
        for loss in losses[1:]:
            whole = whole + loss
        return whole, results


class ResultRefused(ExportError):
    """What a step returns is none that a program can give. `of` says which function returns it:
    `loss`, `metrics` or `outputs`."""

    def __init__(self, of: str, message: str, kind: E = E.STEP_RESULT) -> None:
        super().__init__(kind, message)
        self.of = of

    def at_its_line(self, step: Any) -> ExportError:
        """The same with the line where that function of `step` is defined, if there is one
        alone."""
        functions = {"outputs": [step.outputs], "loss": [turn.loss for turn in step.turns]}
        functions["metrics"] = [turn.metrics for turn in step.turns]
        lines = [line_of_definition(f) for f in functions[self.of] if f is not None]
        return ExportError(self.kind, at_line(lines[0] if len(lines) == 1 else "", self.message))


def _as_scalar(value: Any) -> Any:
    """A tensor of one element without dimensions, as `backward()` and `item()` take it with some."""
    if isinstance(value, torch.Tensor) and value.dim() != 0 and value.numel() == 1:
        return value.reshape(())
    return value


def _named(what: str, results: Any) -> Iterable[tuple[str, Any]]:
    """What a step's metrics or outputs are; raises ExportError where they have no names."""
    if isinstance(results, Mapping) and all(isinstance(name, str) for name in results):
        return results.items()
    if isinstance(results, Mapping):
        given = "a dict with names that are no texts"
    else:
        given = "a tensor" if isinstance(results, torch.Tensor) else type(results).__name__
    raise ExportError(
        E.STEP_RESULT, f'{what} returns {given}; return tensors by name, as {{"hits": hits}}'
    )


def check_outputs(loss: Any, metrics: Mapping[str, Any], samples: Optional[int]) -> None:
    """Refuses a loss that is none, and metrics or outputs that no program can give; `samples` of a
    batch, where results may be of each.
    """
    if not isinstance(loss, torch.Tensor):
        what = type(loss).__name__
        raise ResultRefused(
            "loss",
            f"loss returns {what}, which does not depend on the step's tensors; return the scalar "
            "loss tensor itself",
        )
    what = "metric" if samples is None else "output"
    others = f"{what}s"
    if "loss" in metrics:
        raise ResultRefused(
            others, f"{what}s returns loss, which is the loss's own name; call it another"
        )
    for name in metrics:
        if not name.isprintable():
            raise ResultRefused(
                others, f"the {what} {name!r} has a name that cannot be printed; rename it"
            )
    named = {"loss": loss, **{f"{what} {name}": value for name, value in metrics.items()}}
    for name, value in named.items():
        of = "loss" if name == "loss" else others
        if not isinstance(value, torch.Tensor):
            raise ResultRefused(
                of,
                f"{name} is {type(value).__name__}, which is no tensor of the step; return a "
                "scalar tensor, or leave it out",
            )
        if value.dim() != 0 and (samples is None or name == "loss"):
            raise ResultRefused(
                of,
                f"{name} has shape {list(value.shape)}; return a scalar, such as its mean()",
            )
        if value.dim() != 0 and value.shape[0] != samples:
            raise ResultRefused(
                of,
                f"{name} has shape {list(value.shape)}; dimension 0 of what outputs return is the "
                f"sample, and a batch has {samples}",
            )
        if name == "loss" and not value.dtype.is_floating_point:
            raise ResultRefused(
                of, f"loss is {short_name(value.dtype)}; return a floating-point scalar"
            )
