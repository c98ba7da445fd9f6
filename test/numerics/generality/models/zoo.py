"""Small models, each with one trait that a compiler may get wrong."""

import argparse
from typing import Callable

import torch
from torch import nn
from torch.nn import functional as F

from fsdp_mlir import TrainingStep

Tensor = torch.Tensor
BATCH, SAMPLES = 4, 53


def numbers(*shape: int, seed: int = 2) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def integers(high: int, *shape: int, seed: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(high, shape, generator=generator)


def step_of(
    model: nn.Module,
    loss: Callable[..., Tensor],
    data: dict[str, Tensor] | None,
    optimizer: torch.optim.Optimizer | None = None,
    **fields: object,
) -> TrainingStep:
    if optimizer is None:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    if "inputs" not in fields:
        fields["inputs"] = {name: value[:BATCH] for name, value in data.items()}
    return TrainingStep(model=model, loss=loss, optimizer=optimizer, data=data, seed=9, **fields)


def regression(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return F.mse_loss(model(x), y)


def odd() -> TrainingStep:
    """Every dimension odd: shards of four ranks are uneven, one is empty."""
    sizes = (17, 3, 5, 7, 17)
    layers = [nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])]
    model = nn.Sequential(*(m for layer in layers for m in (layer, nn.Tanh())))
    data = {"x": numbers(SAMPLES, 17), "y": numbers(SAMPLES, 17, seed=8)}
    return step_of(model, regression, data)


class Halves(nn.Module):
    def __init__(self, dtype: torch.dtype):
        super().__init__()
        sizes = (17, 13, 29, 7)
        self.layers = nn.ModuleList(nn.Linear(a, b, dtype=dtype) for a, b in zip(sizes, sizes[1:]))

    def forward(self, x: Tensor) -> Tensor:
        x = x.to(self.layers[0].weight.dtype)
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x.float()


def halves(dtype: torch.dtype = torch.bfloat16, **optimizer: float) -> TrainingStep:
    """Trained parameters of 16 bits, whose elements do not fill a processor's vectors."""
    model = Halves(dtype)
    data = {"x": numbers(SAMPLES, 17), "y": numbers(SAMPLES, 7, seed=8)}
    return step_of(
        model, regression, data, torch.optim.SGD(model.parameters(), lr=0.3, **optimizer)
    )


def halves_with_momentum() -> TrainingStep:
    """The same in float16, with decay and state."""
    return halves(torch.float16, momentum=0.9, weight_decay=0.1)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(19, 6)
        self.blocks = nn.ModuleList(nn.Linear(6, 6) for _ in range(2))
        self.head = nn.Linear(6, 19, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = torch.tanh(block(x))
        return self.head(x)


def tied() -> TrainingStep:
    """One parameter under two names."""

    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        return F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())

    return step_of(Tied(), loss, {"tokens": integers(19, SAMPLES, 5)})


def frozen() -> TrainingStep:
    """A whole frozen layer, and a frozen weight beside a trained bias."""
    model = nn.Sequential(*(nn.Sequential(nn.Linear(9, 9), nn.ReLU()) for _ in range(3)))
    model[0].requires_grad_(False)
    model[1][0].weight.requires_grad_(False)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=1e-2)
    data = {"x": numbers(SAMPLES, 9), "y": numbers(SAMPLES, 9, seed=8)}
    return step_of(model, regression, data, optimizer)


class Adapted(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Linear(9, 9, dtype=torch.bfloat16).requires_grad_(False)
        self.down = nn.Linear(9, 2, bias=False)
        self.up = nn.Linear(2, 9, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        base = self.base(x.to(self.base.weight.dtype))
        return torch.tanh(base.to(x.dtype) + self.up(self.down(x)))


def adapters() -> TrainingStep:
    """Frozen weights in bfloat16 beside trained ones in float32."""
    model = nn.Sequential(*(Adapted() for _ in range(3)))
    trained = [p for p in model.parameters() if p.requires_grad]
    data = {"x": numbers(SAMPLES, 9), "y": numbers(SAMPLES, 9, seed=8)}
    return step_of(model, regression, data, torch.optim.Adam(trained, lr=1e-2))


class Unreached(nn.Module):
    def __init__(self):
        super().__init__()
        self.used = nn.Linear(5, 7)
        self.unused = nn.Linear(5, 7)

    def forward(self, x: Tensor) -> Tensor:
        return self.used(x)


def unreached() -> TrainingStep:
    """A parameter that no loss reaches gets no update, not even decay."""
    model = Unreached()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.5)
    data = {"x": numbers(SAMPLES, 5), "y": numbers(SAMPLES, 7, seed=8)}
    return step_of(model, regression, data, optimizer)


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(7, 7)
        self.blocks = nn.ModuleList(nn.Linear(7, 7) for _ in range(2))
        self.again = self.first

    def forward(self, x: Tensor) -> Tensor:
        x = torch.sigmoid(self.first(x))
        for block in self.blocks:
            x = torch.tanh(block(block(x)))
        return self.again(x)


def twice() -> TrainingStep:
    """Modules that are called twice, and one with two names."""
    data = {"x": numbers(SAMPLES, 7), "y": numbers(SAMPLES, 7, seed=8)}
    return step_of(Twice(), regression, data)


class Contrast(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(7, 5), nn.Linear(3, 5)
        self.scale = nn.Parameter(torch.tensor(2.6))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        x, y = F.normalize(self.left(x)), F.normalize(self.right(y))
        return x @ y.t() * self.scale.exp()


class NamedLikePrograms(nn.Linear):
    """Its own names are those of programs and of an optimizer's rule, which the IR has beside it."""

    def __init__(self) -> None:
        super().__init__(17, 7)
        self.step = nn.Parameter(numbers(7))
        self.sgd = nn.ParameterList([nn.Parameter(numbers(17))])
        self.register_buffer("accumulate", torch.tensor(0))

    def forward(self, x: Tensor) -> Tensor:
        self.accumulate += 1
        return super().forward(x * self.sgd[0]) * self.step / self.accumulate


def names() -> TrainingStep:
    model = NamedLikePrograms()
    data = {"x": numbers(SAMPLES, 17), "y": numbers(SAMPLES, 7, seed=8)}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return step_of(model, regression, data, optimizer)


def scalar() -> TrainingStep:
    """A parameter without dimensions, as CLIP's, and numbers beside a loss without."""

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        logits = model(x, y)
        target = torch.arange(len(logits))
        both = F.cross_entropy(logits, target) + F.cross_entropy(logits.t(), target)
        return both / 2 + 0.5

    return step_of(Contrast(), loss, {"x": numbers(SAMPLES, 7), "y": numbers(SAMPLES, 3, seed=8)})


def forwards() -> TrainingStep:
    """Several forwards before one backward, as preferences are trained: one
    without gradients, and one whose result is used in part."""
    model = nn.Sequential(nn.Linear(7, 9), nn.Tanh(), nn.Linear(9, 5))

    def loss(model: nn.Module, chosen: Tensor, rejected: Tensor) -> Tensor:
        with torch.no_grad():
            reference = model(chosen + rejected)
        margin = model(chosen) - model(rejected)[:, :1] - reference
        return F.softplus(-margin.sum(-1)).mean()

    data = {"chosen": numbers(SAMPLES, 7), "rejected": numbers(SAMPLES, 7, seed=8)}
    return step_of(model, loss, data)


class Middle(nn.Module):
    def __init__(self):
        super().__init__()
        self.outer = nn.Linear(7, 7)
        self.inner = nn.Linear(7, 7)

    def forward(self, x: Tensor, scales: dict[str, float]) -> tuple[Tensor, Tensor]:
        return self.inner(torch.sigmoid(x)) * scales["x"], self.outer(x)


class Disorder(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(7, 3)
        self.middle = Middle()
        self.first = nn.Linear(5, 7)

    def forward(self, x: Tensor) -> Tensor:
        x, unused = self.middle(torch.tanh(self.first(x)), {"x": 2.0})
        return self.last(x)


def disorder() -> TrainingStep:
    """Modules that are defined in another order than they are called in, an
    argument that is no tensor, and a result that nobody uses."""
    data = {"x": numbers(SAMPLES, 5), "y": numbers(SAMPLES, 3, seed=8)}
    return step_of(Disorder(), regression, data)


def dropout() -> TrainingStep:
    """Three random sites, of which the module draws two and the loss one."""
    model = nn.Sequential(nn.Linear(9, 16), nn.Dropout(0.3), nn.Linear(16, 3))

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        noisy = model(x) + 0.1 * torch.rand_like(y)
        return F.mse_loss(F.dropout(noisy, 0.2), y)

    data = {"x": numbers(SAMPLES, 9), "y": numbers(SAMPLES, 3, seed=8)}
    return step_of(model, loss, data)


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 6, padding_idx=0)
        self.scale = nn.Parameter(torch.ones(6))
        self.register_buffer("table", torch.arange(66.0).view(11, 6) / 66)
        self.register_buffer("seen", torch.zeros(11, dtype=torch.int64))
        self.register_buffer("hidden", torch.zeros(6), persistent=False)

    def forward(self, ids: Tensor, mask: Tensor, weight: Tensor) -> Tensor:
        self.seen += F.one_hot(ids, 11).sum((0, 1))
        x = self.embedding(ids) * self.scale + self.table[ids]
        with torch.no_grad():
            self.hidden.mul_(0.9).add_(x.detach().mean((0, 1)), alpha=0.1)
        x = torch.where(mask.unsqueeze(-1), x, self.hidden)
        return (x.sum(-1) * weight.to(x.dtype)).masked_fill(~mask, 0.0)


def mixed() -> TrainingStep:
    """Integer, boolean, int32 and constant inputs; buffers of every kind."""

    def loss(model: nn.Module, ids: Tensor, mask: Tensor, weight: Tensor, shift: Tensor) -> Tensor:
        return (model(ids, mask, weight) - shift).square().mean()

    data = {
        "ids": integers(11, SAMPLES, 5),
        "mask": integers(2, SAMPLES, 5, seed=4).bool(),
        "weight": integers(4, SAMPLES, 5, seed=5).to(torch.int32),
    }
    inputs = {name: value[:BATCH] for name, value in data.items()}
    inputs["shift"] = torch.linspace(-1, 1, 5)
    return step_of(Mixed(), loss, data, inputs=inputs)


def shared() -> TrainingStep:
    """Inputs that are views of one storage; no data, so each step repeats."""
    base = numbers(BATCH, 32)
    model = nn.Linear(6, 6)
    # Those that are multiplied begin at 64 bytes, as each value of a plan does:
    # a matrix product's last bits depend on it.
    inputs = {"x": base[:, :6], "y": base[:, 3:9], "z": base[:, 16:22]}

    def loss(model: nn.Module, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
        return F.mse_loss(model(x), y) + model(z).abs().mean()

    return step_of(model, loss, None, inputs=inputs)


def groups() -> TrainingStep:
    """Two parameter groups and a learning rate for each step."""
    model = nn.Sequential(nn.Linear(5, 11), nn.Tanh(), nn.Linear(11, 3))
    optimizer = torch.optim.SGD(
        [
            {"params": model[0].parameters(), "lr": 0.1, "momentum": 0.8},
            {"params": model[2].parameters(), "weight_decay": 0.1},
        ],
        lr=0.05,
        momentum=0.9,
        nesterov=True,
    )
    data = {"x": numbers(SAMPLES, 5), "y": numbers(SAMPLES, 3, seed=8)}
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20)
    fields = {"lr_schedule": schedule, "steps": 20}
    return step_of(model, regression, data, optimizer, **fields)


def amsgrad() -> TrainingStep:
    """Adam's further options, and a norm in eval()."""
    norm = nn.BatchNorm1d(11).eval()
    model = nn.Sequential(nn.Linear(5, 11), norm, nn.Tanh(), nn.Linear(11, 3))
    optimizer = torch.optim.Adam(
        model.parameters(), lr=1e-2, amsgrad=True, weight_decay=0.1, betas=(0.8, 0.95)
    )
    data = {"x": numbers(SAMPLES, 5), "y": numbers(SAMPLES, 3, seed=8)}
    return step_of(model, regression, data, optimizer)


def turned() -> TrainingStep:
    """A constant that is not row-major."""
    turn = numbers(4, 3, seed=7).t()

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return F.mse_loss(model(x) @ turn, y)

    data = {"x": numbers(SAMPLES, 5), "y": numbers(SAMPLES, 4, seed=8)}
    return step_of(nn.Linear(5, 3), loss, data)


class Rests(torch.optim.Optimizer):
    """Leaves out its second step by a rate of 0: the factor of the gradient is -0.0 then."""

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:
        for group in self.param_groups:
            for param in group["params"]:
                state = self.state[param]
                state["step"] = state.get("step", 0) + 1
                rate = 0.0 if state["step"] == 2 else group["lr"]
                param.add_(param.grad, alpha=-rate)


def rests() -> TrainingStep:
    model = nn.Linear(5, 3)
    data = {"x": numbers(SAMPLES, 5), "y": numbers(SAMPLES, 3, seed=8)}
    return step_of(model, regression, data, Rests(model.parameters(), {"lr": 0.1}))


MODELS = {
    model.__name__: model
    for model in (
        odd,
        halves,
        halves_with_momentum,
        tied,
        frozen,
        adapters,
        unreached,
        twice,
        forwards,
        disorder,
        dropout,
        mixed,
        shared,
        groups,
        amsgrad,
        names,
        scalar,
        turned,
        rests,
    )
}


def training_step(argv: list[str]) -> TrainingStep:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=tuple(MODELS), required=True)
    flags = parser.parse_args(argv)
    torch.manual_seed(0)
    return MODELS[flags.model]()
