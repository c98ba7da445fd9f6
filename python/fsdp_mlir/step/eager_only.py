"""What a script may do beside its loss that no plan does: refused, or told."""

from __future__ import annotations

import contextlib
import inspect
import warnings
from typing import Any, Callable, Iterator
from unittest import mock

import torch

from ..errors import E, ExportError
from .optimizer_list import parts_of
from .training_step import TrainingStep


def check_eager_only(step: TrainingStep) -> None:
    """Warns of a model in eval().

    Raises:
        ExportError: the optimizer's `step` is not its class's, or the step is exported in a mode of
            PyTorch's that is not the step's own.
    """
    if torch._C._is_any_autocast_enabled():
        raise ExportError(
            E.MODEL_WRAPPED,
            "the step is exported under torch.autocast, which would cast the optimizer too; write "
            "`with torch.autocast` into the loss, whose casts a plan has",
        )
    if torch.is_inference_mode_enabled():
        raise ExportError(
            E.MODEL_WRAPPED,
            "the step is exported under torch.inference_mode, in which nothing has a gradient; "
            "leave it before",
        )
    for optimizer in parts_of(step.optimizer):
        replaced = vars(optimizer).get("step")
        own = inspect.unwrap(type(optimizer).step)
        # A learning-rate scheduler wraps it, to see that it is called.
        if replaced is not None and inspect.unwrap(replaced) is not own:
            raise ExportError(
                E.MODEL_WRAPPED,
                "the optimizer's step is replaced, and no Python runs while a plan does; give the "
                "optimizer as its class makes it",
            )
    if not any(module.training for module in step.model.modules()):
        warnings.warn(
            "the whole model is in eval(): it trains without dropout, and with the statistics that "
            "BatchNorm has now; call model.train() unless that is meant"
        )


@contextlib.contextmanager
def no_side_effects() -> Iterator[None]:
    """Within it, a loss that calls `backward()`, whose gradients would be lost, that scales itself,
    or that seeds PyTorch's generator, which no plan draws from, is an error."""

    def refusing(why: str) -> Callable[..., None]:
        def refuse(*args: Any, **kwargs: Any) -> None:
            raise ExportError(E.MODEL_WRAPPED, why)

        return refuse

    backward = refusing(
        "the loss calls backward(); return the loss, the step computes its gradients. Those that the "
        "loss itself computes with, as of an input, torch.autograd.grad gives"
    )
    scale = refusing(
        "the loss calls scale() of a GradScaler; return the loss as it is, and give "
        "TrainingStep(scaler=...) the scaler"
    )
    seed = refusing(
        "the loss calls torch.manual_seed(), and a plan draws other numbers in each step; seed "
        "before the step, or make what shall be the same in each step a constant"
    )
    with contextlib.ExitStack() as stack:
        for owner, name, instead in (
            (torch.Tensor, "backward", backward),
            (torch.autograd, "backward", backward),
            (torch.amp.GradScaler, "scale", scale),
            (torch, "manual_seed", seed),
            (torch.random, "manual_seed", seed),
        ):
            stack.enter_context(mock.patch.object(owner, name, instead))
        yield
