"""Tests that values are recorded as eager's kernels give them, where PyTorch's rules say otherwise."""

import pathlib

import pytest
import torch
import torch.nn.functional as F
from exporting import assert_same_as_eager, classify, export, sgd
from torch import nn

from fsdp_mlir import TrainingStep


@pytest.mark.parametrize("kept", (True, False))
def test_batch_norm_under_autocast(kept: bool, tmp_path: pathlib.Path) -> None:
    """Tests that the statistics of a batch norm are recorded in the dtype of the kernel's: float32,
    as its weight has it. An evaluation has none of its own, or as a step where none are `kept`."""

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return F.cross_entropy(model(x), y)

    norm = nn.BatchNorm2d(7, track_running_stats=kept)
    model = nn.Sequential(
        nn.Conv2d(3, 7, 3, bias=False), norm, nn.AdaptiveAvgPool2d(1), nn.Flatten()
    )
    inputs = {"x": torch.randn(2, 3, 5, 5), "y": torch.tensor([1, 4])}
    step = TrainingStep(model, loss, sgd(model), inputs, eval_data=inputs)
    exported = export(step, tmp_path)
    for program, shape in (("step", [7]), ("eval", [0] if kept else [7])):
        values = exported.program(program)["values"].values()
        statistics = [value["dtype"] for value in values if value["shape"] == shape]
        assert len(statistics) > 1 and set(statistics) <= {"float32"}


@pytest.mark.parametrize("dtype", ("float32", "float64"))
def test_attention_keeps_sums_in_its_dtype(dtype: str, tmp_path: pathlib.Path) -> None:
    def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        query = key = value = model(x)
        return F.scaled_dot_product_attention(query, key, value).square().mean()

    model = nn.Linear(4, 4).to(getattr(torch, dtype))
    inputs = {"x": torch.randn(2, 3, 5, 4, dtype=getattr(torch, dtype))}
    step = TrainingStep(model, loss, sgd(model), inputs)
    values = export(step, tmp_path).program("step")["values"].values()
    sums = [value["dtype"] for value in values if value["shape"] == [2, 3, 5]]
    assert sums and set(sums) == {dtype}


def test_a_gradient_that_is_not_asked_for(tmp_path: pathlib.Path) -> None:
    """Tests that a batch norm of data records no gradient of them, for its kernel gives none."""
    model = nn.Sequential(nn.BatchNorm1d(5), nn.Linear(5, 3))
    inputs = {"x": torch.randn(4, 5), "y": torch.tensor([1, 0, 2, 1])}
    loss = lambda model, x, y: F.cross_entropy(model(x), y)
    nodes = export(TrainingStep(model, loss, sgd(model), inputs), tmp_path).program()["nodes"]
    (results,) = [n["results"] for n in nodes if n["op"] == "aten::native_batch_norm_backward"]
    assert results[0] is None and None not in results[1:]


@pytest.mark.filterwarnings("ignore:where received a uint8")
def test_a_choice_by_bytes(tmp_path: pathlib.Path) -> None:
    """Tests that each byte but 0 is true, as in masks that are older than booleans."""
    model = nn.Linear(4, 3)
    loss = lambda model, x, kept: torch.where(kept, model(x), 0.0).square().mean()
    inputs = {"x": torch.randn(2, 4), "kept": torch.tensor([[0, 1, 2], [1, 0, 255]]).byte()}
    results = export(TrainingStep(model, loss, sgd(model), inputs), tmp_path).run()
    value = loss(model, **inputs)
    value.backward()
    assert torch.equal(results["loss", ""], value.detach())
    assert torch.equal(results["gradient", "weight"], model.weight.grad)


class Similarities(nn.Linear):
    """As code has them that takes sparse tensors too."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x).to_dense() + self.bias


def test_a_dense_tensor_that_is_made_dense(tmp_path: pathlib.Path) -> None:
    """Tests that the gradient goes through it."""
    assert_same_as_eager(classify(Similarities(8, 3)), tmp_path)


class Spectrum(nn.Module):
    """A mask over frequencies, as models of sounds have it."""

    def __init__(self) -> None:
        super().__init__()
        self.mask = nn.Linear(5, 5)
        self.register_buffer("window", torch.hann_window(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = torch.stft(x, 8, 4, window=self.window, return_complex=True)
        masked = found * self.mask(found.abs().mT).mT.sigmoid()
        return torch.istft(masked, 8, 4, window=self.window, length=x.shape[1])


def test_an_inverse_stft_of_several_signals(tmp_path: pathlib.Path) -> None:
    model = Spectrum()
    loss = lambda model, x: (model(x) - x).square().mean()
    step = TrainingStep(model, loss, sgd(model), {"x": torch.randn(3, 32)})
    exported = export(step, tmp_path)
    results, value = exported.run(), loss(model, **step.inputs)
    value.backward()
    assert torch.equal(results["loss", ""], value.detach())
    # Matrix products of other memory orders.
    torch.testing.assert_close(results["gradient", "mask.weight"], model.mask.weight.grad)
    calls = [n for n in exported.program()["nodes"] if n["op"] == "aten::unfold_backward"]
    sums = {tuple(exported.program()["values"][n["results"][0]]["shape"]) for n in calls}
    assert sums == {(1, 40), (3, 40)}


CAUSAL = nn.Transformer.generate_square_subsequent_mask(5)
PADDING = torch.arange(5) > torch.tensor([[2], [4], [3]])


@pytest.mark.parametrize(
    "options, masks",
    [
        ({}, {}),
        ({"norm_first": True, "activation": "gelu"}, {"src_mask": CAUSAL, "is_causal": True}),
        ({"layer_norm_eps": 1e-3}, {"src_key_padding_mask": PADDING}),
        ({}, {"src_mask": CAUSAL < 0, "src_key_padding_mask": PADDING}),
    ],
)
def test_an_encoder_layer_in_eval_is_its_parts(
    options: dict, masks: dict, tmp_path: pathlib.Path
) -> None:
    """Tests that a frozen layer, of which PyTorch calls one kernel, is captured as what a plan may
    call."""

    def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            target = model[1](x, **masks)
        return F.mse_loss(model[0](x), target)

    layer = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True, **options)
    model = nn.Sequential(nn.Linear(8, 8), layer.eval().requires_grad_(False))
    optimizer = torch.optim.SGD(model[0].parameters(), lr=0.1)
    step = TrainingStep(model, loss, optimizer, {"x": torch.randn(3, 5, 8)})
    ops = assert_same_as_eager(step, tmp_path).ops()
    assert "aten::bmm" in ops and "aten::_transformer_encoder_layer_fwd" not in ops
