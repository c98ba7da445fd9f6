"""Training steps of papers, as their scripts on GitHub write them."""

from __future__ import annotations

import copy
from typing import Any, Callable

import torch
from torch import nn
from torch.distributions import Normal
from torch.nn import functional as F

from entry import Entry, Tensor, classes, numbers, of_logits, together

WIDTH, LABELS, LENGTH = 12, 5, 6
ONE = together(x=numbers(WIDTH))


def _perceptron(*widths: int) -> nn.Sequential:
    layers = [nn.Linear(one, next_) for one, next_ in zip(widths, widths[1:])]
    return nn.Sequential(*(part for layer in layers for part in (layer, nn.Tanh())))[:-1]


class _Agent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.critic, self.actor = _perceptron(WIDTH, 16, 1), _perceptron(WIDTH, 16, 3)
        self.log_std = nn.Parameter(torch.zeros(1, 3))


def _ppo(
    model: Any, seen: Tensor, action: Tensor, old: Tensor, gain: Tensor, returns: Tensor
) -> Tensor:
    means = model.actor(seen)
    policy = Normal(means, model.log_std.expand_as(means).exp())
    ratio = (policy.log_prob(action).sum(1) - old).exp()
    gain = (gain - gain.mean()) / (gain.std() + 1e-8)
    loss = torch.max(-gain * ratio, -gain * ratio.clamp(0.8, 1.2)).mean()
    value = F.mse_loss(model.critic(seen).view(-1), returns)
    return loss - 0.01 * policy.entropy().sum(1).mean() + 0.5 * value


class _SoftActorCritic(nn.Module):
    """Two critics, and two that follow them."""

    def __init__(self) -> None:
        super().__init__()
        self.actor = _perceptron(WIDTH, 16, 6)
        self.critics = nn.ModuleList(_perceptron(WIDTH + 3, 16, 1) for _ in range(2))
        self.targets = copy.deepcopy(self.critics).requires_grad_(False)
        self.log_alpha = nn.Parameter(torch.zeros(1))

    def act(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        mean, spread = self.actor(seen).chunk(2, -1)
        policy = Normal(mean, (-5 + 3.5 * (spread.tanh() + 1)).exp())
        drawn = policy.rsample()
        action = drawn.tanh()
        chance = policy.log_prob(drawn) - torch.log(1 - action.pow(2) + 1e-6)
        return action, chance.sum(1, keepdim=True)


def _least(critics: nn.ModuleList, seen: Tensor, action: Tensor) -> Tensor:
    values = [critic(torch.cat((seen, action), 1)) for critic in critics]
    return torch.min(*values)


def _sac(model: Any, seen: Tensor, then: Tensor, action: Tensor, reward: Tensor) -> Tensor:
    with torch.no_grad():
        chosen, chance = model.act(then)
        value = _least(model.targets, then, chosen) - model.log_alpha.exp() * chance
        wanted = reward + 0.99 * value.view(-1)
    inputs = torch.cat((seen, action), 1)
    loss = sum(F.mse_loss(critic(inputs).view(-1), wanted) for critic in model.critics)
    chosen, chance = model.act(seen)
    with torch.no_grad():
        for one, target in zip(model.critics.parameters(), model.targets.parameters()):
            target.data.copy_(0.005 * one.data + 0.995 * target.data)
    loss = (
        loss
        + (model.log_alpha.exp().detach() * chance - _least(model.critics, seen, chosen)).mean()
    )
    return loss - (model.log_alpha.exp() * (chance.detach() - 3)).mean()


def _maml(model: nn.Module, x: Tensor, y: Tensor, new_x: Tensor, new_y: Tensor) -> Tensor:
    """A copy of the model learns each task, and the model by how well the copies do."""
    total = torch.zeros(())
    for task in zip(x, y, new_x, new_y):
        learner = copy.deepcopy(model)
        inner = F.mse_loss(learner(task[0]), task[1])
        found = torch.autograd.grad(inner, learner.parameters(), create_graph=True)
        moved = {n: p - 0.01 * g for (n, p), g in zip(model.named_parameters(), found)}
        total = total + F.mse_loss(torch.func.functional_call(model, moved, task[2]), task[3])
    return total / len(x)


class _Barlow(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(WIDTH, 16), nn.BatchNorm1d(16), nn.ReLU(inplace=True))
        self.norm = nn.BatchNorm1d(16, affine=False)

    def forward(self, x: Tensor) -> Tensor:
        one, other = self.body(x + 0.1 * torch.randn_like(x)), self.body(1.1 * x)
        alike = self.norm(one).T @ self.norm(other)
        alike.div_(len(x))
        others = alike.flatten()[:-1].view(15, 17)[:, 1:].flatten()
        return torch.diagonal(alike).add_(-1).pow_(2).sum() + 0.005 * others.pow_(2).sum()


class _Byol(nn.Module):
    """Its target is a copy, which the first step makes."""

    def __init__(self) -> None:
        super().__init__()
        self.online, self.predict = _perceptron(WIDTH, 16, 8), _perceptron(8, 16, 8)
        self.target: Any = None

    def forward(self, x: Tensor) -> Tensor:
        if self.target is None:
            self.target = copy.deepcopy(self.online).requires_grad_(False)
        with torch.no_grad():
            for one, target in zip(self.online.parameters(), self.target.parameters()):
                target.data = 0.99 * target.data + 0.01 * one.data
            wanted = F.normalize(self.target(1.1 * x), dim=-1)
        return 2 - 2 * (F.normalize(self.predict(self.online(x)), dim=-1) * wanted).sum(-1).mean()


def _byol_begun() -> nn.Module:
    model = _Byol()
    model(torch.zeros(2, WIDTH))
    return model


class _Crf(nn.Module):
    """The chance of a path of tags, over those of all paths."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.GRU(WIDTH, 8, batch_first=True), nn.Linear(8, LABELS)
        self.begins = nn.Parameter(torch.randn(LABELS) * 0.1)
        self.moves = nn.Parameter(torch.randn(LABELS, LABELS) * 0.1)

    def forward(self, x: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        if not mask[:, 0].all():
            raise ValueError("a sequence has no first element")
        scores, rows = self.head(self.body(x)[0]), torch.arange(len(x))
        path = self.begins[tags[:, 0]]
        path += scores[rows, 0, tags[:, 0]]
        every = self.begins + scores[:, 0]
        for i in range(1, LENGTH):
            step = self.moves[tags[:, i - 1], tags[:, i]] + scores[rows, i, tags[:, i]]
            path += step * mask[:, i]
            following = torch.logsumexp(every[:, :, None] + self.moves + scores[:, i, None], 1)
            every = torch.where(mask[:, i, None], following, every)
        return (torch.logsumexp(every, 1) - path).mean()


class _Pointer(nn.Module):
    """A decoder that points at each element once."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.encode = nn.Linear(2, 16), nn.GRU(16, 16, batch_first=True)
        self.decode, self.start = nn.GRUCell(16, 16), nn.Parameter(torch.zeros(16))
        self.keys, self.query, self.score = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 1)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        embedded, loss = self.embed(x), torch.zeros(())
        states, (hidden,) = self.encode(embedded)
        given = self.start.expand(len(x), -1)
        done = torch.zeros(x.shape[:2], dtype=torch.bool)
        for i in range(x.shape[1]):
            hidden = self.decode(given, hidden)
            both = torch.tanh(self.keys(states) + self.query(hidden)[:, None])
            scores = self.score(both).squeeze(-1).masked_fill(done, float("-inf"))
            loss = loss + F.cross_entropy(scores, y[:, i])
            done = done.scatter(1, y[:, i : i + 1], True)
            given = embedded[torch.arange(len(x)), y[:, i]]
        return loss


class _SpectralNorm(nn.Module):
    """With vectors in frozen parameters, and the normed weight as an attribute."""

    def __init__(self, module: nn.Linear) -> None:
        super().__init__()
        self.module, weight = module, module.weight.data
        del module._parameters["weight"]
        module.weight_bar = nn.Parameter(weight)
        for name, size in zip("uv", weight.shape):
            vector = F.normalize(torch.randn(size), dim=0)
            module.register_parameter(name, nn.Parameter(vector, requires_grad=False))

    def forward(self, x: Tensor) -> Tensor:
        module, weight = self.module, self.module.weight_bar
        module.v.data = F.normalize(torch.mv(weight.data.t(), module.u.data), dim=0)
        module.u.data = F.normalize(torch.mv(weight.data, module.v.data), dim=0)
        module.weight = weight / module.u.dot(weight.mv(module.v))
        return module(x)


def _spectral() -> nn.Module:
    first, last = _SpectralNorm(nn.Linear(WIDTH, 16)), _SpectralNorm(nn.Linear(16, LABELS))
    return nn.Sequential(first, nn.ReLU(), last)


def _of_model(model: nn.Module, **inputs: Tensor) -> Tensor:
    return model(**inputs)


def _of(make: Callable[[], nn.Module], batch: Any, loss: Any = _of_model) -> Callable[[], Entry]:
    return lambda: Entry(make(), batch, loss)


TASKS = together(**dict.fromkeys(("x", "y", "new_x", "new_y"), numbers(5, 1)))
STATES = dict(seen=numbers(WIDTH), action=numbers(3))
ONE_EACH = numbers()
MODELS: dict[str, Callable[[], Entry]] = {
    "ppo": _of(_Agent, together(**STATES, old=ONE_EACH, gain=ONE_EACH, returns=ONE_EACH), _ppo),
    "sac": _of(_SoftActorCritic, together(**STATES, then=numbers(WIDTH), reward=ONE_EACH), _sac),
    "maml": _of(lambda: _perceptron(1, 16, 16, 1), TASKS, _maml),
    "barlow-twins": _of(_Barlow, ONE),
    "byol": _of(_byol_begun, ONE),
    "byol-target-of-first-step": _of(_Byol, ONE),
    "crf": _of(
        _Crf,
        together(
            x=numbers(LENGTH, WIDTH),
            tags=classes(LABELS, LENGTH),
            mask=lambda n: torch.arange(LENGTH) < torch.randint(2, LENGTH + 1, (n, 1)),
        ),
    ),
    "pointer-network": _of(
        _Pointer,
        together(x=numbers(5, 2), y=lambda n: torch.stack([torch.randperm(5) for _ in range(n)])),
    ),
    "spectral-norm-by-hand": _of(
        _spectral, together(x=numbers(WIDTH), y=classes(LABELS)), of_logits
    ),
}
