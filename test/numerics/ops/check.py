"""Sends one case the whole way and compares it with eager PyTorch.

export -> import -> passes -> plan -> run on one rank, under `--poison`, with
PyTorch's own random stream. The loss, the updated parameters and every output
must have eager's bits.
"""

from __future__ import annotations

import pathlib
import re
import tempfile
import warnings

import torch

from cases import Case
from op_step import NotComparable, make_model, training_step
from support import chain
from support.outcomes import CLOSE, NOT_COMPARABLE, PASSED, WRONG
from support.outcomes import Outcome, Stage, failure, message, same_bits, train

STEP_FILE = pathlib.Path(__file__).resolve().parent / "op_step.py"
TOOL_TIMEOUT_S = 120

# Operators whose result is memory that nothing wrote: no two runs of eager
# PyTorch agree. They are run like the others, but their outputs not compared.
UNINITIALISED = {
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
    "resize_",
    "resize_as_",
}

# Operators whose gradient eager PyTorch computes by a formula that it chooses by
# the values (is there a zero? which elements does the mask take? how long is the
# longest target?). A graph has no such choice: it holds the general formula, whose
# rounding differs. Their parameters must agree within this part of the norm, all
# else bit for bit. (Of this sample of ctc_loss, whose scores are sums of 50 steps,
# eager's own gradient in float32 is 2.4e-5 off the one in float64.)
CHOSEN_BY_VALUE = {
    "cumprod": 1e-5,
    "masked.cumprod": 1e-5,
    "masked_fill": 1e-5,
    "nn.functional.ctc_loss": 3e-5,
    "prod": 1e-5,
}


def _eager(case: Case) -> tuple[float, dict[str, torch.Tensor]]:
    """The loss and the state after one step of PyTorch."""
    step = training_step(case.argv)
    torch.manual_seed(step.seed)
    loss = step.loss(step.model, **step.inputs)
    loss.backward()
    step.optimizer.step()
    return float(loss), {k: v.detach() for k, v in step.model.state_dict().items()}


def _is_close(case: Case, result: chain.Result) -> bool:
    """Whether only parameters differ, and those by rounding."""
    _, state = _eager(case)
    for name, value in state.items():
        got = result.weights[name]
        if same_bits(value, got):
            continue
        if not re.fullmatch(r"p\d+", name) or got.shape != value.shape:
            return False
        gap = float((got.double() - value.double()).norm())
        if not gap <= CHOSEN_BY_VALUE[case.op] * float(value.double().norm()):
            return False
    return True


def _difference(case: Case, result: chain.Result) -> str:
    """What differs from eager, or nothing."""
    loss, state = _eager(case)
    if sorted(state) != sorted(result.weights):
        return f"saved tensors differ: {sorted(set(state) ^ set(result.weights))}"
    bad = []
    for name, value in state.items():
        if value.is_complex() and not result.weights[name].is_complex():
            value = torch.view_as_real(value)  # held in pairs
        if not same_bits(value, result.weights[name]):
            got = result.weights[name]
            far = "shape or dtype"
            if got.shape == value.shape and got.dtype == value.dtype:
                wide = torch.complex128 if value.is_complex() else torch.float64
                gap = (got.to(wide) - value.to(wide)).abs()
                far = f"by at most {float(gap.max()):.3g}"
            bad.append(f"{name} {far}")
    if len(result.losses) != 1:
        bad.append(f"{len(result.losses)} losses were logged")
    elif torch.tensor(result.losses[0], dtype=torch.float32) != torch.tensor(loss):
        bad.append(f"loss {result.losses[0]!r} is not {loss!r}")
    return "; ".join(bad)


def check(case: Case, folder: pathlib.Path) -> Outcome:
    """Runs the case in `folder`; never raises for what the case does."""
    folder.mkdir(parents=True, exist_ok=True)
    trace = Stage(folder)
    trace.enter("eager")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            make_model(case)
            archive = folder / "step.pt"
            trace.enter("export")
            chain.export(STEP_FILE, archive, case.argv)
            result = train(archive, folder, trace, 1, 1, TOOL_TIMEOUT_S)
            trace.enter("compare")
            if case.op in UNINITIALISED:
                return Outcome(NOT_COMPARABLE, "", "its result is uninitialised memory")
            bad = _difference(case, result)
            if bad and "loss" not in bad and case.op in CHOSEN_BY_VALUE:
                if _is_close(case, result):
                    return Outcome(CLOSE, "compare", "eager chooses the formula")
        except NotComparable as error:
            return Outcome(NOT_COMPARABLE, "eager", message(str(error)))
        except Exception as error:
            return failure(error, folder, trace)
    return Outcome(WRONG, "compare", bad) if bad else Outcome(PASSED)


def scratch() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="fsdp-ops-")
