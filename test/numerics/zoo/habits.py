"""Habits of scripts that a capture may stumble over, each in a small model."""

from __future__ import annotations

import copy
from typing import Any, Callable

import torch
from torch import nn
from torch.autograd import Function, grad
from torch.nn import functional as F

from entry import Entry, Tensor, classes, numbers, of_logits, of_values, together

WIDTH, LABELS = 16, 5
VALUES = together(x=numbers(WIDTH), y=numbers(WIDTH))


def _penalty(model: nn.Module, x: Tensor) -> Tensor:
    """A gradient penalty, as of WGAN-GP: a gradient of a gradient."""
    x = x.detach().requires_grad_()
    score = model(x)
    (gradient,) = grad(score.sum(), x, create_graph=True)
    return score.mean() + 10 * ((gradient.flatten(1).norm(dim=1) - 1) ** 2).mean()


class _Energy(nn.Module):
    """Forces as the gradient of an energy, taken in the forward."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(WIDTH, 16), nn.Softplus(), nn.Linear(16, 1))

    def forward(self, x: Tensor) -> Tensor:
        x.requires_grad_()
        return -grad(self.net(x).sum(), x, create_graph=True)[0]


class _Switch(nn.Module):
    """A mixture of experts that masks by multiplication."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, 4)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        weights, chosen = self.gate(x).softmax(-1).topk(2)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            out = out + expert(x) * ((chosen == i) * weights).sum(-1, keepdim=True)
        return out


class _Gather(_Switch):
    """The same with the samples of each expert picked out: shapes depend on values."""

    def forward(self, x: Tensor) -> Tensor:
        weights, chosen = self.gate(x).softmax(-1).max(-1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            rows = torch.nonzero(chosen == i).squeeze(-1)
            out[rows] = expert(x[rows]) * weights[rows, None]
        return out


class _Round(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.round()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


class _Quantizer(nn.Module):
    """As of VQ-VAE: the nearest code, a straight-through gradient, an average of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(WIDTH, 4), nn.Linear(4, WIDTH)
        self.codes = nn.Embedding(6, 4)
        self.register_buffer("used", torch.zeros(6))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z = self.inner(x)
        nearest = torch.cdist(z, self.codes.weight).argmin(-1)
        self.used.mul_(0.9).add_(F.one_hot(nearest, 6).float().sum(0), alpha=0.1)
        quantized = self.codes(nearest)
        commitment = F.mse_loss(quantized.detach(), z) + F.mse_loss(quantized, z.detach())
        return self.outer(z + (quantized - z).detach()), commitment


def _quantizer_loss(model: nn.Module, x: Tensor) -> Tensor:
    out, commitment = model(x)
    return F.mse_loss(out, x) + 0.25 * commitment


class _Fourier(nn.Module):
    """A Fourier neural operator's layer: complex weights."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4, 6, dtype=torch.cfloat) * 0.1)
        self.lift, self.head = nn.Conv1d(1, 4, 1), nn.Conv1d(4, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.lift(x.unsqueeze(1))
        modes = torch.fft.rfft(x)
        out = torch.zeros_like(modes)
        out[:, :, :6] = torch.einsum("bix,iox->box", modes[:, :, :6], self.weight)
        return self.head(F.gelu(torch.fft.irfft(out, n=x.size(-1)))).squeeze(1)


class _Lora(nn.Module):
    """A frozen layer with a trained correction of low rank."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(WIDTH, WIDTH).requires_grad_(False)
        self.a, self.b = nn.Linear(WIDTH, 2, bias=False), nn.Linear(2, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + 0.5 * self.b(self.a(x))


class _Unet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down, self.middle = nn.Conv2d(1, 4, 3, 1, 1), nn.Conv2d(4, 8, 3, 1, 1)
        self.time = nn.Embedding(10, 8)
        self.up, self.out = nn.ConvTranspose2d(8, 4, 2, 2), nn.Conv2d(8, 1, 3, 1, 1)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        first = F.silu(self.down(x))
        x = F.silu(self.middle(F.max_pool2d(first, 2)) + self.time(t)[:, :, None, None])
        return self.out(torch.cat((self.up(x), first), 1))


def _diffusion(model: nn.Module, x: Tensor) -> Tensor:
    """Noise of a random step is predicted, as in DDPM."""
    t = torch.randint(0, 10, (x.shape[0],))
    level = torch.linspace(0.99, 0.1, 10)[t][:, None, None, None]
    noise = torch.randn_like(x)
    return F.mse_loss(model(level.sqrt() * x + (1 - level).sqrt() * noise, t), noise)


class _Momentum(nn.Module):
    """As of BYOL: a target network that is a copy, here kept as it starts."""

    def __init__(self) -> None:
        super().__init__()
        self.online = nn.Sequential(nn.Linear(WIDTH, 8), nn.BatchNorm1d(8), nn.Linear(8, 8))
        self.target = copy.deepcopy(self.online).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            target = F.normalize(self.target(x.flip(-1)), dim=-1)
        return 2 - 2 * (F.normalize(self.online(x), dim=-1) * target).sum(-1)


def _nt_xent(model: nn.Module, x: Tensor) -> Tensor:
    """SimCLR's loss, of two noisy views."""
    z = F.normalize(torch.cat((model(x + 0.1 * torch.randn_like(x)), model(x))), dim=-1)
    scores = z @ z.T / 0.5
    scores = scores.masked_fill(torch.eye(len(z), dtype=torch.bool), float("-inf"))
    n = len(x)
    return F.cross_entropy(scores, torch.arange(2 * n).roll(n))


def _drop_twice(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """R-Drop: the same batch twice, with other masks."""
    a, b = F.log_softmax(model(x), -1), F.log_softmax(model(x), -1)
    apart = F.kl_div(a, b, reduction="batchmean", log_target=True)
    return (F.nll_loss(a, y) + F.nll_loss(b, y)) / 2 + apart


def _masked_mean(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Boolean indexing: the number of elements depends on values."""
    wrong = (model(x) - y) ** 2
    return wrong[y > 0].mean()


def _stop_early(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """A branch on a value."""
    loss = F.mse_loss(model(x), y)
    return loss * 0.5 if loss.item() > 1 else loss


def _classifier(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 16), *layers, nn.Linear(16, WIDTH))


class _Calls(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.last, self.function = nn.Linear(WIDTH, 8), nn.Linear(8, WIDTH), function

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.function(self.first(x)))


class _Deformed(nn.Module):
    """torchvision's deformable convolution."""

    def __init__(self) -> None:
        super().__init__()
        from torchvision.ops import DeformConv2d

        self.offset, self.conv = nn.Conv2d(3, 18, 3, padding=1), DeformConv2d(3, 4, 3, padding=1)
        self.head = nn.Linear(4, LABELS)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.conv(x, self.offset(x)).mean((2, 3)))


class _Regions(nn.Module):
    """torchvision's pooling of regions, one for each image."""

    def __init__(self, pool: str) -> None:
        super().__init__()
        from torchvision import ops

        self.pool = getattr(ops, pool)
        self.conv, self.head = nn.Conv2d(3, 4, 3, padding=1), nn.Linear(4 * 9, LABELS)

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[0]
        boxes = torch.tensor([[i, 1.0, 1.0, 8.0, 8.0] for i in range(n)])
        return self.head(self.pool(self.conv(x), boxes, 3).flatten(1))


def _vision(model: nn.Module) -> Entry:
    return Entry(model, together(x=numbers(3, 12, 12), y=classes(LABELS)), of_logits)


class _PositionSensitive(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        from torchvision.ops import PSRoIAlign

        self.conv, self.pool = nn.Conv2d(3, 8, 3, padding=1), PSRoIAlign(2, 1.0, 2)
        self.head = nn.Linear(8, LABELS)

    def forward(self, x: Tensor) -> Tensor:
        boxes = [x.new_tensor([[1.0, 1.0, 8.0, 8.0]]) for _ in range(x.shape[0])]
        return self.head(self.pool(self.conv(x), boxes).flatten(1))


def _region_batch() -> tuple[Any, Any]:
    return together(x=numbers(3, 12, 12), y=classes(LABELS)), of_logits


def _focal(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    from torchvision.ops import sigmoid_focal_loss

    return sigmoid_focal_loss(model(x), y, reduction="mean")


def _boxes(model: nn.Module, x: Tensor) -> Tensor:
    from torchvision.ops import complete_box_iou_loss

    corner, size = model(x).chunk(2, -1)
    found = torch.cat((corner, corner + F.softplus(size)), -1)
    wanted = torch.cat((x[:, :2], x[:, :2] + x[:, 2:4].abs() + 0.1), -1)
    return complete_box_iou_loss(found, wanted, reduction="mean")


def _stochastic() -> nn.Module:
    from torchvision.ops import StochasticDepth

    return StochasticDepth(0.3, "row")


MODELS: dict[str, Callable[[], Entry]] = {
    "gradient-penalty": lambda: Entry(
        nn.Sequential(nn.Linear(WIDTH, 16), nn.Tanh(), nn.Linear(16, 1)),
        together(x=numbers(WIDTH)),
        _penalty,
    ),
    "forces": lambda: Entry(_Energy(), VALUES, of_values),
    "experts": lambda: Entry(_Switch(), VALUES, of_values),
    "experts-by-nonzero": lambda: Entry(_Gather(), VALUES, of_values),
    "straight-through": lambda: Entry(_Calls(_Round.apply), VALUES, of_values),
    "vector-quantizer": lambda: Entry(_Quantizer(), together(x=numbers(WIDTH)), _quantizer_loss),
    "fourier-operator": lambda: Entry(_Fourier(), VALUES, of_values),
    "lora": lambda: Entry(_Lora(), VALUES, of_values),
    "diffusion": lambda: Entry(_Unet(), together(x=numbers(1, 8, 8)), _diffusion),
    "byol": lambda: Entry(_Momentum(), together(x=numbers(WIDTH)), lambda m, x: m(x).mean()),
    "simclr": lambda: Entry(
        nn.Sequential(nn.Linear(WIDTH, 16), nn.ReLU(), nn.Linear(16, 8)),
        together(x=numbers(WIDTH)),
        _nt_xent,
    ),
    "r-drop": lambda: Entry(
        _classifier(nn.Dropout(0.2)), together(x=numbers(WIDTH), y=classes(WIDTH)), _drop_twice
    ),
    "boolean-index": lambda: Entry(_classifier(nn.ReLU()), VALUES, _masked_mean),
    "branch-on-value": lambda: Entry(_classifier(nn.ReLU()), VALUES, _stop_early),
    "sort": lambda: Entry(_Calls(lambda x: x.sort(-1).values), VALUES, of_values),
    "cumulative-sum": lambda: Entry(_Calls(lambda x: x.cumsum(-1)), VALUES, of_values),
    "einsum": lambda: Entry(
        _Calls(lambda x: torch.einsum("bi,bj->bij", x, x).mean(-1)), VALUES, of_values
    ),
    "half-the-rows": lambda: Entry(
        _Calls(lambda x: x * x[:, ::2].sum(-1, True)), VALUES, of_values
    ),
    "linear-algebra": lambda: Entry(
        _Calls(lambda x: torch.linalg.solve(torch.eye(8) * 3 + x.T @ x, x.T).T), VALUES, of_values
    ),
    "vmap": lambda: Entry(_Calls(torch.vmap(lambda x: x * x.sum())), VALUES, of_values),
    "gumbel": lambda: Entry(_Calls(lambda x: F.gumbel_softmax(x, hard=True)), VALUES, of_values),
    "autocast": lambda: Entry(
        _classifier(nn.ReLU()),
        VALUES,
        lambda m, x, y: torch.autocast("cpu", torch.bfloat16)(of_values)(m, x, y),
    ),
    "autocast-batch-norm": lambda: Entry(
        nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(800, LABELS)),
        together(x=numbers(3, 12, 12), y=classes(LABELS)),
        lambda m, x, y: torch.autocast("cpu", torch.bfloat16)(of_logits)(m, x, y),
    ),
    "deformable-convolution": lambda: _vision(_Deformed()),
    "roi-align": lambda: _vision(_Regions("roi_align")),
    "roi-pool": lambda: _vision(_Regions("roi_pool")),
    "ps-roi-align": lambda: Entry(_PositionSensitive(), *_region_batch()),
    "focal-loss": lambda: Entry(
        _classifier(nn.ReLU()),
        together(x=numbers(WIDTH), y=lambda n: torch.randint(2, (n, WIDTH)).float()),
        _focal,
    ),
    "box-loss": lambda: Entry(nn.Linear(WIDTH, 4), together(x=numbers(WIDTH)), _boxes),
    "stochastic-depth": lambda: Entry(_classifier(_stochastic()), VALUES, of_values),
}
