"""Odd training scripts, as people write them: each its own small research."""

from __future__ import annotations

import copy
import math
from typing import Any, Callable

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, parametrize

from entry import Entry, Tensor, classes, numbers, of_logits, of_tokens, of_values, together

WIDTH, LENGTH, LABELS, WORDS = 12, 8, 5, 20
VALUES = together(x=numbers(WIDTH), y=numbers(WIDTH))
ROWS = together(x=numbers(LENGTH, WIDTH), y=classes(LABELS))
TOKENS = together(x=classes(WORDS, LENGTH), y=classes(WORDS, LENGTH))


class _FourierMixing(nn.Module):
    """FNet's mixing with learned filters over frequencies, as of GFNet."""

    def __init__(self) -> None:
        super().__init__()
        self.filter = nn.Parameter(torch.randn(LENGTH // 2 + 1, WIDTH, 2) * 0.1)
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, LABELS)

    def forward(self, x: Tensor) -> Tensor:
        modes = torch.fft.rfft(x, dim=1, norm="ortho") * torch.view_as_complex(self.filter)
        x = x + torch.fft.irfft(modes, n=x.size(1), dim=1, norm="ortho")
        return self.head(self.norm(torch.fft.fft2(x).real).mean(1))


class _Capsules(nn.Module):
    """Routing by agreement: coefficients that gradients do not pass, but in the last round."""

    def __init__(self) -> None:
        super().__init__()
        self.votes = nn.Parameter(torch.randn(1, LENGTH, LABELS, 6, WIDTH) * 0.1)

    @staticmethod
    def squash(s: Tensor) -> Tensor:
        norm = s.norm(dim=-1, keepdim=True)
        return norm**2 / (1 + norm**2) * s / (norm + 1e-8)

    def forward(self, x: Tensor) -> Tensor:
        votes = (self.votes @ x[:, :, None, :, None]).squeeze(-1)
        still, logits = votes.detach(), torch.zeros(len(x), LENGTH, LABELS, 1)
        for i in range(3):
            share = logits.softmax(2)
            if i == 2:
                return self.squash((share * votes).sum(1)).norm(dim=-1)
            out = self.squash((share * still).sum(1))
            logits = logits + (still * out[:, None]).sum(-1, keepdim=True)
        raise AssertionError


def _margins(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    lengths, wanted = model(x), F.one_hot(y, LABELS)
    missed = wanted * F.relu(0.9 - lengths) ** 2
    return (missed + 0.5 * (1 - wanted) * F.relu(lengths - 0.1) ** 2).sum(1).mean()


class _Ode(nn.Module):
    """dx/dt by fourth-order Runge-Kutta with a fixed step."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(WIDTH + 1, 16), nn.Tanh(), nn.Linear(16, WIDTH))
        self.register_buffer("times", torch.linspace(0, 1, 5))

    def slope(self, t: Tensor, x: Tensor) -> Tensor:
        return self.net(torch.cat((x, t.expand(len(x), 1)), -1))

    def forward(self, x: Tensor) -> Tensor:
        for t, end in zip(self.times[:-1], self.times[1:]):
            h = end - t
            a = self.slope(t, x)
            b = self.slope(t + h / 2, x + h / 2 * a)
            c = self.slope(t + h / 2, x + h / 2 * b)
            d = self.slope(end, x + h * c)
            x = x + h / 6 * (a + 2 * b + 2 * c + d)
        return x


class _Discrete(nn.Module):
    """A VAE of Gumbel-softmax letters, straight through."""

    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = nn.Linear(WIDTH, 3 * 4), nn.Linear(3 * 4, WIDTH)
        self.register_buffer("temperature", torch.tensor(1.0))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.encode(x).view(-1, 3, 4)
        letters = F.gumbel_softmax(logits, tau=1.0, hard=True) / self.temperature.clone()
        q = logits.log_softmax(-1)
        self.temperature.mul_(0.99)
        return self.decode(letters.flatten(1)), (q.exp() * (q + math.log(4))).sum((1, 2)).mean()


def _bound(model: nn.Module, x: Tensor) -> Tensor:
    out, apart = model(x)
    return F.mse_loss(out, x) + 0.1 * apart


class _Codes(nn.Module):
    """VQ-VAE whose codes are moving averages of what they stand for."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(WIDTH, 4), nn.Linear(4, WIDTH)
        self.register_buffer("codes", torch.randn(6, 4))
        self.register_buffer("counts", torch.ones(6))
        self.register_buffer("sums", self.codes.clone())

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z = self.inner(x)
        nearest = (z.pow(2).sum(1, True) - 2 * z @ self.codes.T + self.codes.pow(2).sum(1)).argmin(
            1
        )
        hot = F.one_hot(nearest, 6).type_as(z)
        found = hot @ self.codes
        if self.training:
            with torch.no_grad():
                self.counts.data.mul_(0.9).add_(hot.sum(0), alpha=0.1)
                self.sums.data.mul_(0.9).add_(hot.T @ z, alpha=0.1)
                n = self.counts.sum()
                smooth = (self.counts + 1e-5) / (n + 6e-5) * n
                self.codes.data.copy_(self.sums / smooth[:, None])
        return self.outer(z + (found - z).detach()), F.mse_loss(z, found.detach())


class _Mixture(nn.Module):
    """A density of Gaussians; the loss is its logarithm, by `torch.distributions`."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(WIDTH, 16), nn.Linear(16, 3 * (1 + 2 * WIDTH))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        from torch import distributions as D

        weights, means, scales = self.head(self.body(x).tanh()).split([3, 3 * WIDTH, 3 * WIDTH], -1)
        parts = D.Normal(means.view(-1, 3, WIDTH), scales.view(-1, 3, WIDTH).exp())
        mixture = D.MixtureSameFamily(D.Categorical(logits=weights), D.Independent(parts, 1))
        return -mixture.log_prob(y).mean()


class _Moco(nn.Module):
    """A queue of keys from a moving average of the model."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Sequential(nn.Linear(WIDTH, 16), nn.ReLU(), nn.Linear(16, 8))
        self.key = copy.deepcopy(self.query)
        for parameter in self.key.parameters():
            parameter.requires_grad = False
        self.register_buffer("queue", F.normalize(torch.randn(8, 6), dim=0))
        self.register_buffer("place", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def enqueue(self, keys: Tensor) -> None:
        columns = (self.place + torch.arange(len(keys))) % self.queue.shape[1]
        self.queue[:, columns] = keys.T
        self.place[0] = (self.place[0] + len(keys)) % self.queue.shape[1]

    def forward(self, x: Tensor) -> Tensor:
        q = F.normalize(self.query(x), dim=1)
        with torch.no_grad():
            k = F.normalize(self.key(x.flip(-1)), dim=1)
        positive = torch.einsum("nc,nc->n", [q, k]).unsqueeze(-1)
        negative = torch.einsum("nc,ck->nk", [q, self.queue.clone().detach()])
        logits = torch.cat([positive, negative], dim=1) / 0.07
        self.enqueue(k)
        return F.cross_entropy(logits, torch.zeros(len(x), dtype=torch.long))


class _Dino(nn.Module):
    """A teacher that is kept as buffers, the moving average of the student; and a centre."""

    def __init__(self) -> None:
        super().__init__()
        self.student = nn.Sequential(nn.Linear(WIDTH, 16), nn.GELU(), nn.Linear(16, 10))
        for name, parameter in self.student.named_parameters():
            self.register_buffer("teacher_" + name.replace(".", "_"), parameter.detach().clone())
        self.register_buffer("center", torch.zeros(1, 10))

    def forward(self, x: Tensor) -> Tensor:
        names = [name for name, _ in self.student.named_parameters()]
        teacher = {name: getattr(self, "teacher_" + name.replace(".", "_")) for name in names}
        with torch.no_grad():
            for name, parameter in self.student.named_parameters():
                teacher[name].mul_(0.996).add_(parameter.detach(), alpha=0.004)
            wanted = torch.func.functional_call(self.student, teacher, (x,))
            target = ((wanted - self.center) / 0.04).softmax(-1)
            self.center.mul_(0.9).add_(wanted.mean(0, keepdim=True), alpha=0.1)
        return -(target * (self.student(x.flip(-1)) / 0.1).log_softmax(-1)).sum(-1).mean()


class _Hyper(nn.Module):
    """A network that makes another one's weights from a task, for each sample."""

    def __init__(self) -> None:
        super().__init__()
        self.target = nn.Linear(WIDTH, WIDTH)
        self.task = nn.Embedding(LABELS, 6)
        shapes = {name: p.shape for name, p in self.target.named_parameters()}
        self.makers = nn.ModuleDict({n: nn.Linear(6, s.numel()) for n, s in shapes.items()})
        self.target.requires_grad_(False)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        code = self.task(y)
        weights = {
            name: maker(code).view(-1, *self.target.get_parameter(name).shape)
            for name, maker in self.makers.items()
        }
        call = lambda w, row: torch.func.functional_call(self.target, w, (row,))  # noqa: E731
        return torch.vmap(call)(weights, x)


class _Kan(nn.Module):
    """Kolmogorov and Arnold: a spline for each edge, by the recursion of Cox and de Boor."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("grid", torch.linspace(-2, 2, 9).expand(WIDTH, -1).contiguous())
        self.spline = nn.Parameter(torch.randn(WIDTH, WIDTH, 5) * 0.1)
        self.base = nn.Parameter(torch.randn(WIDTH, WIDTH) * 0.1)

    def bases(self, x: Tensor) -> Tensor:
        x, grid = x.unsqueeze(-1), self.grid
        b = ((x >= grid[:, :-1]) & (x < grid[:, 1:])).to(x.dtype)
        for k in range(1, 4):
            left = (x - grid[:, : -(k + 1)]) / (grid[:, k:-1] - grid[:, : -(k + 1)])
            right = (grid[:, k + 1 :] - x) / (grid[:, k + 1 :] - grid[:, 1:(-k)])
            b = left * b[..., :-1] + right * b[..., 1:]
        return b

    def forward(self, x: Tensor) -> Tensor:
        spline = F.linear(self.bases(x).view(x.size(0), -1), self.spline.view(WIDTH, -1))
        return F.linear(F.silu(x), self.base) + spline


class _LowRank(nn.Module):
    """LoRA as a parametrization of a frozen, normed and weight-normed network."""

    def __init__(self, rank: int = 2) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.randn(rank, WIDTH) * 0.1)
        self.b = nn.Parameter(torch.zeros(WIDTH, rank))

    def forward(self, weight: Tensor) -> Tensor:
        return weight + self.b @ self.a


def _lora() -> nn.Module:
    first, last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
    model = nn.Sequential(first, nn.GELU(), parametrizations.weight_norm(nn.Linear(WIDTH, WIDTH)))
    model.append(parametrizations.spectral_norm(nn.Linear(WIDTH, WIDTH))).append(last)
    model.requires_grad_(False)
    for layer in (first, last):
        parametrize.register_parametrization(layer, "weight", _LowRank())
    return model


def _normed() -> nn.Module:
    def layer() -> nn.Linear:
        return nn.Linear(WIDTH, WIDTH)

    return nn.Sequential(
        parametrizations.weight_norm(layer()),
        nn.Tanh(),
        parametrizations.spectral_norm(layer()),
        nn.Tanh(),
        parametrizations.orthogonal(layer()),
    )


class _SetTransformer(nn.Module):
    """Attention to learned points, and pooling by a learned seed."""

    def __init__(self) -> None:
        super().__init__()
        self.points = nn.Parameter(torch.randn(1, 3, WIDTH))
        self.seed = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.into, self.back, self.pool = (
            nn.MultiheadAttention(WIDTH, 2, batch_first=True) for _ in range(3)
        )
        self.head = nn.Linear(WIDTH, LABELS)

    def forward(self, x: Tensor) -> Tensor:
        points = self.points.repeat(len(x), 1, 1)
        h, _ = self.into(points, x, x)
        x = x + self.back(x, h, h, need_weights=False)[0]
        pooled, weights = self.pool(self.seed.expand(len(x), -1, -1), x, x)
        return self.head(pooled.squeeze(1)) + weights.mean()


class _Rwkv(nn.Module):
    """A linear recurrence over time with a largest exponent taken out, tied to its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.key, self.value, self.gate = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.decay, self.first = nn.Parameter(torch.rand(WIDTH)), nn.Parameter(torch.rand(WIDTH))
        self.mix = nn.Parameter(torch.full((1, 1, WIDTH), 0.5))
        self.shift = nn.ZeroPad2d((0, 0, 1, -1))
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x: Tensor) -> Tensor:
        h = self.embedding(x)
        mixed = h * self.mix + self.shift(h) * (1 - self.mix)
        k, v, r = self.key(mixed), self.value(mixed), self.gate(mixed).sigmoid()
        num, den = torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0])
        most, out = torch.full_like(k[:, 0], -1e38), []
        for t in range(x.shape[1]):
            top = torch.maximum(most, self.first + k[:, t])
            old, new = (most - top).exp(), (self.first + k[:, t] - top).exp()
            out.append((old * num + new * v[:, t]) / (old * den + new))
            top = torch.maximum(most - self.decay.exp(), k[:, t])
            old, new = (most - self.decay.exp() - top).exp(), (k[:, t] - top).exp()
            num, den, most = old * num + new * v[:, t], old * den + new, top
        return self.head(h + r * torch.stack(out, 1))


class _Unet(nn.Module):
    """Skips kept in a list, with group norms and a transposed convolution."""

    def __init__(self) -> None:
        super().__init__()
        sizes = [1, 4, 8]
        self.down = nn.ModuleList(nn.Conv2d(i, o, 3, padding=1) for i, o in zip(sizes, sizes[1:]))
        self.norms = nn.ModuleList(nn.GroupNorm(2, o) for o in sizes[1:])
        self.up = nn.ModuleList(nn.ConvTranspose2d(o, o, 2, 2) for o in (8, 8))
        self.join = nn.ModuleList((nn.Conv2d(16, 8, 1), nn.Conv2d(12, 4, 1)))
        self.out = nn.Conv2d(4, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        skips: list[Tensor] = []
        for conv, norm in zip(self.down, self.norms):
            x = F.silu(norm(conv(x)), inplace=True)
            skips.append(x)
            x = F.max_pool2d(x, 2)
        for up, join in zip(self.up, self.join):
            x = join(torch.cat((up(x), skips.pop()), 1))
        return self.out(x)


class _Convolved(nn.Module):
    """A graph convolution over an edge list with self loops, degrees by `index_add`."""

    def __init__(self) -> None:
        super().__init__()
        edges = torch.tensor([[0, 1, 2, 3, 4, 5, 6, 7, 0, 3], [1, 2, 3, 4, 5, 6, 7, 0, 4, 6]])
        self.register_buffer("edges", edges)
        self.first, self.last = nn.Linear(WIDTH, 16, bias=False), nn.Linear(16, LABELS)
        self.attention = nn.Parameter(torch.randn(2 * 16) * 0.1)

    def forward(self, x: Tensor) -> Tensor:
        loops = torch.arange(LENGTH).repeat(2, 1)
        source, target = torch.cat((self.edges, self.edges.flip(0), loops), 1)
        h = self.first(x)
        score = F.leaky_relu(
            torch.cat((h[:, source], h[:, target]), -1) @ self.attention, 0.2
        ).exp()
        whole = torch.zeros(len(x), LENGTH).index_add_(1, target, score)
        share = score / whole[:, target]
        out = torch.zeros_like(h).index_add(1, target, share.unsqueeze(-1) * h[:, source])
        return self.last(F.elu(out)).max(1)[0]


def _alone(model: nn.Module, x: Tensor) -> Tensor:
    return model(x)


def _of(make: Callable[[], nn.Module], batch: Any, loss: Any) -> Callable[[], Entry]:
    return lambda: Entry(make(), batch, loss)


ONE = together(x=numbers(WIDTH))
MODELS: dict[str, Callable[[], Entry]] = {
    "fourier-mixing": _of(_FourierMixing, ROWS, of_logits),
    "capsules": _of(_Capsules, ROWS, _margins),
    "neural-ode": _of(_Ode, VALUES, of_values),
    "gumbel-vae": _of(_Discrete, ONE, _bound),
    "vq-vae-averages": _of(_Codes, ONE, _bound),
    "norms-of-weights": _of(_normed, VALUES, of_values),
    "mixture-density": _of(_Mixture, VALUES, lambda model, x, y: model(x, y)),
    "moco": _of(_Moco, ONE, _alone),
    "dino": _of(_Dino, ONE, _alone),
    "hypernetwork": _of(
        _Hyper,
        together(x=numbers(WIDTH), y=classes(LABELS)),
        lambda model, x, y: F.mse_loss(model(x, y), x),
    ),
    "kan": _of(_Kan, VALUES, of_values),
    "lora-of-parametrized": _of(_lora, VALUES, of_values),
    "graph-attention": _of(_Convolved, ROWS, of_logits),
    "unet": _of(_Unet, together(x=numbers(1, 8, 8)), lambda model, x: F.mse_loss(model(x), x)),
    "set-transformer": _of(_SetTransformer, ROWS, of_logits),
    "rwkv": _of(_Rwkv, TOKENS, of_tokens),
}
