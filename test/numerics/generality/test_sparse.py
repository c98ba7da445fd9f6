"""Tests that embeddings with sparse gradients train as PyTorch's, by dense ones, and that other sparse
tensors are refused by the user's line."""

from __future__ import annotations

import pathlib
from typing import Any, Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fsdp_mlir import ExportError, TrainingStep
from fsdp_mlir.export import export_step
from support import chain, reference

STEPS = 3


class Words(nn.Module):
    """An embedding, one in bags, and one by the function; each has words twice."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(12, 6, sparse=True, padding_idx=1)
        self.bags = nn.EmbeddingBag(12, 6, sparse=True, mode="sum")
        self.table = nn.Parameter(torch.randn(12, 6))
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        by_function = F.embedding(x, self.table, sparse=True)
        return self.head((self.words(x) + self.words(x + 1) + by_function).mean(1) + self.bags(x))


Optimizer = Callable[[Any], torch.optim.Optimizer]
OPTIMIZERS: dict[str, Optimizer] = {
    "SGD": lambda own: torch.optim.SGD(own, lr=0.1),
    "momentum": lambda own: torch.optim.SGD(own, lr=0.1, momentum=0.9),
    "Adagrad": lambda own: torch.optim.Adagrad(own, lr=0.1),
}


def training_step(new: Optimizer) -> TrainingStep:
    torch.manual_seed(1)
    model = Words()
    inputs = {"x": torch.tensor([[0, 3, 3, 5], [1, 2, 10, 0]]), "y": torch.tensor([0, 2])}
    loss = lambda model, x, y: F.cross_entropy(model(x), y)
    return TrainingStep(model, loss, new(model.parameters()), inputs)


@pytest.mark.quick
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_embeddings_train_as_pytorchs(name: str, ranks: int, tmp_path: pathlib.Path) -> None:
    make = lambda argv=(): training_step(OPTIMIZERS[name])
    trained = reference.averaged(make(), ranks, STEPS)
    compiled = chain.compile_step(make, tmp_path, pipeline=f"mesh={ranks}")
    run = chain.run_plan(compiled, ranks, steps=STEPS)
    assert run.losses == pytest.approx(trained.mean_losses, rel=1e-6)
    for key, value in trained.state.items():
        # Of a word that occurs twice a sparse update is two updates, a dense one is of their sum.
        torch.testing.assert_close(run.weights[key], value, rtol=1e-6, atol=1e-7)


def test_a_warning_says_that_the_gradient_is_dense(tmp_path: pathlib.Path) -> None:
    with pytest.warns(UserWarning, match="has sparse=True, and its gradient is dense here"):
        export_step(training_step(OPTIMIZERS["SGD"]), tmp_path / "step.pt")


@pytest.mark.provokes("FSDP-E0223")
def test_an_optimizer_of_sparse_gradients_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(
        ExportError, match="SparseAdam updates the rows .* use Adam, SGD or Adagrad"
    ):
        export_step(training_step(lambda own: torch.optim.SparseAdam(own)), tmp_path / "step.pt")


def edges() -> Tensor:
    return torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 2]]), torch.ones(2), (4, 4))


OF_A_SCRIPT = edges()


class Graph(nn.Module):
    def __init__(self, held: str) -> None:
        super().__init__()
        self.layer, self.held = nn.Linear(8, 3), held
        if held in ("coo", "csr"):
            self.register_buffer("edges", edges() if held == "coo" else edges().to_sparse_csr())
        elif "attribute" in held:
            self.edges = edges() if held == "attribute" else edges().to_sparse_csr()

    def forward(self, x: Tensor) -> Tensor:
        if self.held.startswith("beside"):  # the model, as an adjacency that a script loads
            held = OF_A_SCRIPT.to_dense() if "dense" in self.held else OF_A_SCRIPT
            return torch.sparse.mm(held, self.layer(x))
        if self.held == "made":
            return torch.sparse.mm(edges(), self.layer(x))
        if self.held == "converted":
            return torch.sparse.mm(x.relu().to_sparse(), self.layer.weight.t())
        return torch.sparse.mm(self.edges, self.layer(x))


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.parametrize(
    "held, text",
    [
        ("coo", r"the buffer edges is a sparse tensor \(sparse_coo\)"),
        ("csr", r"the buffer edges is a sparse tensor \(sparse_csr\)"),
        ("attribute", "the step computes with a sparse tensor"),
        ("csr attribute", "the step computes with a sparse tensor"),
        ("beside", "the step computes with a sparse tensor"),
        ("beside, dense in the step", "the step computes with a sparse tensor"),
        ("made", "the step computes with a sparse tensor"),
        ("converted", "the step (makes|computes with) a sparse tensor"),
    ],
)
def test_sparse_tensors_are_refused(held: str, text: str, tmp_path: pathlib.Path) -> None:
    model = Graph(held)
    step = TrainingStep(
        model,
        lambda model, x: model(x).square().mean(),
        torch.optim.SGD(model.parameters(), lr=0.1),
        {"x": torch.ones(4, 8)},
    )
    with pytest.raises(ExportError, match=rf"^test_sparse.py:\d+: {text}.*, and plans have dense"):
        export_step(step, tmp_path / "step.pt")


def test_a_sparse_tensor_of_trained_values_is_refused(tmp_path: pathlib.Path) -> None:
    """As PEFT's SHiRA adds one to a weight: its backward is of sparse tensors."""
    model = nn.Linear(4, 4)
    places = torch.tensor([[0, 1, 2], [1, 2, 3]])

    def loss(model: nn.Module, x: Tensor) -> Tensor:
        added = torch.sparse_coo_tensor(places, model.bias[:3], (4, 4))
        return (x @ (model.weight + added)).square().mean()

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ExportError, match="the step computes with a sparse tensor, and plans have"):
        export_step(
            TrainingStep(model, loss, optimizer, {"x": torch.ones(4, 4)}), tmp_path / "a.pt"
        )


def test_a_librarys_class_is_named_by_its_line(tmp_path: pathlib.Path) -> None:
    """Of torchvision, whose folder's name begins as PyTorch's does."""
    from torchvision.ops import MLP

    model = MLP(8, [3])
    model.register_buffer("edges", edges())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = TrainingStep(model, lambda model, x: model(x).sum(), optimizer, {"x": torch.ones(4, 8)})
    with pytest.raises(ExportError, match=r"^misc.py:\d+: the buffer edges is a sparse tensor"):
        export_step(step, tmp_path / "step.pt")


def dense(x: Tensor, rows: Tensor, columns: Tensor, values: Tensor, count: int) -> Tensor:
    """What the error says to write."""
    return x.new_zeros(count, x.shape[1]).index_add(0, rows, values[:, None] * x[columns])


def test_what_the_error_says_is_the_product() -> None:
    matrix, x = edges().coalesce(), torch.randn(4, 3)
    found = dense(x, *matrix.indices(), matrix.values(), 4)
    assert torch.equal(found, torch.sparse.mm(matrix, x))
