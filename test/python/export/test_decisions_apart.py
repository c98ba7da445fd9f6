"""Tests of steps that decide by values in each of their layers: more ways than can be traced, so that each
place is traced with the others as they are."""

import pathlib

import pytest
import torch
import torch.nn.functional as F
from exporting import compare, export, sgd
from torch import Tensor, fx, nn

from fsdp_mlir import ExportError, TrainingStep
from fsdp_mlir.capture.ways.draw_order import DrawOrder

WIDTH, EXPERTS, ROWS = 4, 3, 8


class Layered(nn.Module):
    """Linear layers, with one that decides behind each."""

    def __init__(self, *deciding: nn.Module) -> None:
        super().__init__()
        self.linears = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(len(deciding) + 1))
        self.deciding = nn.ModuleList(deciding)

    def forward(self, x: Tensor) -> Tensor:
        for linear, deciding in zip(self.linears, self.deciding):
            x = deciding(linear(x))
        return self.linears[-1](x)


class FirstBatch(nn.Module):
    """Takes its mean and deviation from the first batch, as activation normalization does."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(WIDTH))
        self.register_buffer("ready", torch.tensor(False))
        self.register_buffer("mean", torch.zeros(WIDTH))
        self.register_buffer("deviation", torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        if not self.ready:
            with torch.no_grad():
                self.mean.copy_(x.mean(0))
                self.deviation.copy_(x.std(0) + 0.1)
                self.ready.fill_(True)
        return (x - self.mean) / self.deviation * self.scale


class Range(nn.Module):
    """Follows the range of what it is given, from nothing on, as quantization does."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("low", torch.zeros(1))
        self.register_buffer("high", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        low, high = x.detach().amin(), x.detach().amax()
        if self.low.min() > -1e-6 and self.high.max() < 1e-6:
            self.low, self.high = self.low + low, self.high + high
        else:
            self.low = self.low * 0.9 + low * 0.1
            self.high = self.high * 0.9 + high * 0.1
        return x * (self.high - self.low)


class Experts(nn.Module):
    """Leaves out the experts that no row of the batch asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, EXPERTS)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(EXPERTS))

    def forward(self, x: Tensor) -> Tensor:
        weight, choice = self.gate(x).softmax(-1).max(-1)
        result = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            mask = choice == number
            if mask.any():
                result = result + expert(x) * (weight * mask).unsqueeze(-1)
        return x + result


class OwnRows(nn.Module):
    """Gives each expert that is hit its own rows."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, 5)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(5))

    def forward(self, x: Tensor) -> Tensor:
        weight, choice = self.gate(x).softmax(-1).max(-1)
        result = torch.zeros_like(x)
        hits = F.one_hot(choice, len(self.experts)).sum(0) > 0
        for number in hits.nonzero().flatten():
            (rows,) = torch.where(choice == number)
            result[rows] += self.experts[number](x[rows]) * weight[rows, None]
        return x + result


class StackedExperts(nn.Module):
    """As DBRX's: two experts of four for each row. Their weights are one tensor, and their mask has a
    class more, which stands for none and would end the step in an error."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, 4)
        self.up = nn.Parameter(torch.randn(4 * WIDTH, WIDTH))
        self.down = nn.Parameter(torch.randn(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        weights, choice = self.gate(x).softmax(-1).topk(2)
        result = torch.zeros_like(x)
        mask = F.one_hot(choice, 5).permute(2, 1, 0)
        for (number,) in (mask.sum((-1, -2)) > 0).nonzero():
            which, rows = torch.where(mask[number])
            up, down = (w.view(-1, WIDTH, WIDTH)[number] for w in (self.up, self.down))
            given = (x[rows] @ up * x[rows]) @ down * weights[rows, which, None]
            result.index_add_(0, rows, given)
        return x + result


class LeftOut(nn.Module):
    """A layer that values leave out, as LayerDrop does."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        if (x.sum() * 100).sin() > 0:
            return x
        return (x + self.linear(self.norm(x)).relu()) / 0.9


class Checked(nn.Module):
    """Ends in an error where numbers are none, and clips them where they are large."""

    def forward(self, x: Tensor) -> Tensor:
        if x.isnan().any():
            raise ValueError("not a number")
        return x.tanh() if x.abs().max() > 1 else x


class Counted(nn.Module):
    """Remembers in Python how often it has decided which way."""

    def forward(self, x: Tensor) -> Tensor:
        often = 0
        for bound in range(5):
            if x.sum() > bound:
                x, often = x.sin(), often + 1
        return x if often > 2 else -x


class Emptied(nn.Module):
    """Ends in an error only where it has decided before that there is nothing to stack."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        for bound in range(3):
            if x.amax() > bound:
                self.seen[bound] += 1
        parts = []
        if x.sum() > 0:
            x = x + x.sin()
        else:
            parts.append(x.square())
        return torch.stack(parts).sum(0) if x[0, 0] > 0 else x


def step_of(model: nn.Module) -> TrainingStep:
    return TrainingStep(
        model=model,
        loss=lambda model, x, y: F.mse_loss(model(x), y),
        optimizer=sgd(model),
        inputs={name: torch.randn(ROWS, WIDTH) for name in "xy"},
    )


def test_each_place_decides_for_itself(tmp_path: pathlib.Path) -> None:
    torch.manual_seed(1)
    step = step_of(Layered(FirstBatch(), Range(), Experts(), Checked()))
    exported = export(step, tmp_path)
    for trial in range(6):
        # Few other rows ask for few experts; states are new or known, layer by layer.
        rows = torch.randn(1 + trial // 2, WIDTH) * 4**trial / 50
        step.inputs["x"] = rows.repeat(ROWS, 1)[:ROWS].contiguous()
        for name, buffer in step.model.named_buffers():
            is_known = int(name.split(".")[1]) % 3 < trial % 4
            buffer.copy_(torch.rand(buffer.shape) + 0.5 if is_known else torch.zeros(()))
        compare(step, exported, step.inputs)


def test_layers_that_are_left_out(tmp_path: pathlib.Path) -> None:
    """A gradient then goes to the layer before as it is."""
    torch.manual_seed(1)
    step = step_of(nn.Sequential(nn.Linear(WIDTH, WIDTH), *(LeftOut() for _ in range(5))))
    exported = export(step, tmp_path)
    for trial in range(8):
        step.inputs["x"] = torch.randn(ROWS, WIDTH)
        compare(step, exported, step.inputs)


@pytest.mark.parametrize(
    "ways, numbers",
    [
        (["abc", "abc"], [[0, 1, 2], [0, 1, 2]]),
        (["abc", "ac", "bc"], [[0, 1, 2], [0, 2], [1, 2]]),  # a layer is left out
        (["ac", "abc", "axc"], [[0, 1], [0, 2, 1], [0, 2, 1]]),  # more, or something else, is drawn
        (["abbbc", "abc"], [[0, 1, 2, 3, 4], [0, 1, 4]]),
    ],
)
def test_which_draws_are_one(ways: list[str], numbers: list[list[int]]) -> None:
    order = DrawOrder()
    for lines, expected in zip(ways, numbers, strict=True):
        graph = fx.Graph()
        for line in lines:
            draw = graph.call_function(torch.ops.aten.rand.default, ([2],))
            draw.meta["stack_trace"] = line
        assert list(order.numbers(graph.nodes).values()) == expected


@pytest.mark.parametrize("experts", [OwnRows, StackedExperts])
def test_experts_that_are_hit(tmp_path: pathlib.Path, experts: type) -> None:
    """Their rows overwrite one tensor, one expert after the other. A product that adds zeros for the other
    rows has other last bits on some processors, as those with AVX-512."""
    torch.manual_seed(1)
    step = step_of(Layered(experts()))
    exported = export(step, tmp_path)
    for trial in range(4):
        step.inputs["x"] = torch.randn(1 + trial, WIDTH).repeat(ROWS, 1)[:ROWS].contiguous()
        compare(step, exported, step.inputs, tolerance=1e-7)


@pytest.mark.provokes("FSDP-E0206")
@pytest.mark.parametrize("deciding", [Counted, Emptied])
def test_what_python_remembers_is_refused(tmp_path: pathlib.Path, deciding: type) -> None:
    text = r"^test_decisions_apart.py:\d+: .*what one decision changes"
    with pytest.raises(ExportError, match=text):
        export(step_of(Layered(deciding())), tmp_path)
