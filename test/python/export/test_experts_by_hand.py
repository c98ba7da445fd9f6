"""Tests of mixtures of experts as scripts write them: a loop over experts, each of which computes the
tokens that chose it, with a branch around an expert without tokens and without one."""

import pathlib
from typing import Any, Callable

import pytest
import torch
import torch.nn.functional as F
from exporting import assert_same_as_eager, classify, export
from torch import Tensor, nn

import fsdp_mlir
from fsdp_mlir import ExportError

EXPERTS = 3


class Mixture(nn.Module):
    """The best experts of each token, all but one of them, as `combine` adds them up; the last one
    gets none."""

    def __init__(self, combine: Callable[..., Tensor], experts: int = EXPERTS) -> None:
        super().__init__()
        self.router = nn.Linear(8, experts)
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(experts))
        self.head = nn.Linear(8, 3)
        self.combine, self.best = combine, experts - 1
        nn.init.constant_(self.router.bias, 0.0)
        self.router.bias.data[-1] = -100.0

    def forward(self, x: Tensor) -> Tensor:
        weights, chosen = self.router(x).softmax(-1).topk(self.best, -1)
        return self.head(self.combine(self.experts, x, weights, chosen))


def by_mask(experts: Any, x: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
    out = torch.zeros_like(x)
    for number, expert in enumerate(experts):
        mask = (chosen == number).any(-1)
        weight = (weights * (chosen == number)).sum(-1, keepdim=True)
        out[mask] += expert(x[mask]) * weight[mask]
    return out


def by_places(experts: Any, x: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
    out = torch.zeros_like(x)
    for number, expert in enumerate(experts):
        rows, which = torch.where(chosen == number)
        out.index_add_(0, rows, expert(x[rows]) * weights[rows, which, None])
    return out


def by_bounded_places(experts: Any, x: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
    out = torch.zeros_like(x)
    for number, expert in enumerate(experts):
        with fsdp_mlir.at_most(4):
            rows, which = torch.where(chosen == number)
        out.index_add_(0, rows, expert(x[rows]) * weights[rows, which, None])
    return out


def by_dense_masks(experts: Any, x: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
    out = torch.zeros_like(x)
    for number, expert in enumerate(experts):
        out = out + expert(x) * (weights * (chosen == number)).sum(-1, keepdim=True)
    return out


def if_some(experts: Any, x: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
    out = torch.zeros_like(x)
    for number, expert in enumerate(experts):
        rows, which = torch.where(chosen == number)
        if rows.numel() == 0:
            continue
        out.index_add_(0, rows, expert(x[rows]) * weights[rows, which, None])
    return out


def those_hit(experts: Any, x: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
    """As Mixtral's experts in Transformers."""
    out = torch.zeros_like(x)
    mask = nn.functional.one_hot(chosen, len(experts)).permute(2, 1, 0)
    for number in torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero():
        which, rows = torch.where(mask[number].squeeze(0))
        out.index_add_(0, rows, experts[number](x[rows]) * weights[rows, which, None])
    return out


@pytest.mark.parametrize(
    "combine, experts",
    [
        (by_mask, EXPERTS),
        (by_places, EXPERTS),
        (by_bounded_places, EXPERTS),
        (if_some, 2),  # each way is a capture, of which three experts have eight
        (those_hit, 2),
    ],
)
def test_experts_without_tokens(tmp_path: pathlib.Path, combine: Callable, experts: int) -> None:
    """Up to the order of sums."""
    step = classify(Mixture(combine, experts))
    results = export(step, tmp_path).run()
    loss = step.loss(step.model, **step.inputs)
    loss.backward()
    torch.testing.assert_close(results["loss", ""], loss.detach())
    for name, parameter in step.model.named_parameters():
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        torch.testing.assert_close(results["gradient", name], gradient)
    assert not results["gradient", f"experts.{experts - 1}.weight"].any()


def test_dense_masks_have_eagers_bits(tmp_path: pathlib.Path) -> None:
    assert_same_as_eager(classify(Mixture(by_dense_masks)), tmp_path)


def those_found(experts: Any, x: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
    return sum(experts[number](x) for number in torch.unique(chosen))


@pytest.mark.provokes("FSDP-E0206")
def test_a_loop_over_experts_that_are_found_is_refused(tmp_path: pathlib.Path) -> None:
    text = "the step decides by a size that depends on values, .* a loop go over all that there"
    with pytest.raises(ExportError, match=rf"^test_experts_by_hand.py:\d+: {text}"):
        export(classify(Mixture(those_found)), tmp_path)


def balances(minlength: int) -> Callable[..., Tensor]:
    """A loss by how many tokens each expert has, and by how much they weigh."""

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        weights, chosen = model(x).softmax(-1).max(-1)
        counts = torch.bincount(chosen, minlength=minlength)
        weighed = chosen.bincount(weights.detach(), minlength)
        return F.cross_entropy(model(x), y) + (model(x) * (counts / 4 + weighed)).mean()

    return loss


def test_how_many_tokens_each_expert_has(tmp_path: pathlib.Path) -> None:
    assert_same_as_eager(classify(nn.Linear(8, 3), loss=balances(3)), tmp_path)


@pytest.mark.parametrize("minlength", (0, 2))
def test_counts_of_the_codes_own_numbers_need_no_size(
    minlength: int, tmp_path: pathlib.Path
) -> None:
    """As of the nodes that each graph of a batch has, for their mean."""

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        owners = torch.arange(len(x)) // 2
        counts = torch.bincount(owners, minlength=minlength)
        sums = torch.zeros(len(counts), 3).index_add(0, owners, model(x))
        return F.cross_entropy(sums / counts[:, None], y[: len(counts)])

    assert_same_as_eager(classify(nn.Linear(8, 3), loss=loss), tmp_path)


@pytest.mark.provokes("FSDP-E0206")
def test_as_many_counts_as_values_say_are_refused(tmp_path: pathlib.Path) -> None:
    text = (
        r"by_hand.py:\d+: how many counts torch.bincount gives depends on values; give it minlength"
    )
    with pytest.raises(ExportError, match=text):
        export(classify(nn.Linear(8, 3), loss=balances(0)), tmp_path)
