"""Steps that select elements by a mask, and what they are compared with."""

from typing import Callable

import torch
from exporting import Exported, sgd
from torch import Tensor, nn

from fsdp_mlir import TrainingStep

WIDTH, ROWS, LABELS = 4, 6, 3
Body = Callable[[nn.Linear, Tensor, Tensor, Tensor], Tensor]
MASKS = {
    "some": [1, 0, 0, 1, 1, 0],
    "none": [0] * 6,
    "all": [1] * 6,
    "first": [1, 0, 0, 0, 0, 0],
    "last": [0, 0, 0, 0, 0, 1],
}


class Model(nn.Module):
    """Two layers, of which `body` makes a loss."""

    def __init__(self, body: Body) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.other = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, LABELS)
        self.norm = nn.LayerNorm(WIDTH)
        self.clusters = nn.AdaptiveLogSoftmaxWithLoss(WIDTH, 20, [5, 10], div_value=1.5)
        self.body = body

    def forward(self, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
        return self.body(self, x, m, y)


def batch(name: str) -> dict[str, Tensor]:
    """Rows with NaN in one that no mask but `all` takes."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(ROWS, WIDTH, generator=generator)
    if not MASKS[name][2]:
        x[2] = torch.nan
    y = torch.randint(LABELS, (ROWS,), generator=generator)
    return {"x": x, "m": torch.tensor(MASKS[name], dtype=torch.bool), "y": y}


def step_of(body: Body) -> TrainingStep:
    model = Model(body)
    return TrainingStep(
        model=model,
        loss=lambda model, x, m, y: model(x, m, y),
        optimizer=sgd(model),
        inputs=batch("some"),
    )


def compare(step: TrainingStep, exported: Exported, inputs: dict[str, Tensor]) -> None:
    """Loss and gradients within rounding; NaN where eager has one, and nowhere else."""
    exported.weights.update({f"fsdp.input.{name}": value for name, value in inputs.items()})
    step.model.zero_grad()
    loss = step.loss(step.model, **inputs)
    loss.backward()
    results = exported.run()
    torch.testing.assert_close(results["loss", ""], loss.detach(), equal_nan=True)
    for name, parameter in step.model.named_parameters():
        if ("gradient", name) in results:
            torch.testing.assert_close(
                results["gradient", name],
                parameter.grad,
                equal_nan=True,
                rtol=1e-5,
                atol=1e-6,
                msg=lambda text: f"{name}: {text}",
            )


def rows_of(model: Model, x: Tensor, m: Tensor) -> Tensor:
    return model.layer(x[m])
