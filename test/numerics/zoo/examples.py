"""Models and losses of PyTorch's examples, and small language models as nanoGPT writes them."""

from __future__ import annotations

import math
from typing import Any, Callable

import torch
from torch import nn
from torch.distributions import Categorical, Normal
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from entry import Entry, Tensor, classes, numbers, of_tokens, of_values, together

WIDTH, LENGTH, LABELS, WORDS = 16, 8, 5, 32
TOKENS = together(x=classes(WORDS, LENGTH), y=classes(WORDS, LENGTH))
DIGITS = together(x=numbers(1, 28, 28), y=classes(10))


class _Mnist(nn.Module):
    """pytorch/examples, mnist."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 8, 3), nn.Conv2d(8, 16, 3)
        self.dropout1, self.dropout2 = nn.Dropout(0.25), nn.Dropout(0.5)
        self.fc1, self.fc2 = nn.Linear(2304, 32), nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.conv2(F.relu(self.conv1(x))))
        x = self.dropout1(F.max_pool2d(x, 2)).flatten(1)
        return F.log_softmax(self.fc2(self.dropout2(F.relu(self.fc1(x)))), dim=1)


class _RowByRow(nn.Module):
    """pytorch/examples, mnist_rnn."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(28, 16, batch_first=True)
        self.norm, self.head = nn.BatchNorm1d(16), nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        output, _ = self.rnn(x.reshape(-1, 28, 28))
        return F.log_softmax(self.head(self.norm(output[:, -1])), dim=1)


def _nll(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return F.nll_loss(model(x), y)


class _WordLstm(nn.Module):
    """pytorch/examples, word_language_model: sequence first, hidden state detached, tied."""

    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.2)
        self.encoder = nn.Embedding(WORDS, WIDTH)
        self.rnn = nn.LSTM(WIDTH, WIDTH, 2, dropout=0.2)
        self.decoder = nn.Linear(WIDTH, WORDS)
        self.decoder.weight = self.encoder.weight

    def forward(self, x: Tensor) -> Tensor:
        weight = next(self.parameters())
        hidden = (weight.new_zeros(2, x.shape[0], WIDTH), weight.new_zeros(2, x.shape[0], WIDTH))
        output, _ = self.rnn(self.drop(self.encoder(x.t())), hidden)
        return self.decoder(self.drop(output)).transpose(0, 1)


class _WordTransformer(nn.Transformer):
    """pytorch/examples, word_language_model: the mask is kept in an attribute."""

    def __init__(self) -> None:
        super().__init__(WIDTH, 2, 2, dim_feedforward=32, dropout=0.1)
        self.src_mask = None
        self.input_emb, self.decoder = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)
        position = torch.arange(LENGTH).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, WIDTH, 2) * (-math.log(10000.0) / WIDTH))
        pe = torch.zeros(LENGTH, 1, WIDTH)
        pe[:, 0, 0::2], pe[:, 0, 1::2] = torch.sin(position * div_term), torch.cos(
            position * div_term
        )
        self.register_buffer("pe", pe)

    def forward(self, x: Tensor) -> Tensor:
        x = x.t()
        if self.src_mask is None or self.src_mask.size(0) != len(x):
            self.src_mask = torch.log(torch.tril(torch.ones(len(x), len(x))))
        x = self.input_emb(x) * math.sqrt(WIDTH) + self.pe[: x.size(0)]
        return self.decoder(self.encoder(x, mask=self.src_mask)).transpose(0, 1)


class _Vae(nn.Module):
    """pytorch/examples, vae."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.mean, self.logvar = nn.Linear(784, 32), nn.Linear(32, 4), nn.Linear(32, 4)
        self.fc3, self.fc4 = nn.Linear(4, 32), nn.Linear(32, 784)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        hidden = F.relu(self.fc1(x.view(-1, 784)))
        mean, logvar = self.mean(hidden), self.logvar(hidden)
        std = torch.exp(0.5 * logvar)
        z = mean + torch.randn_like(std) * std
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z)))), mean, logvar


def _vae_loss(model: nn.Module, x: Tensor) -> Tensor:
    image, mean, logvar = model(x)
    bce = F.binary_cross_entropy(image, x.view(-1, 784), reduction="sum")
    return (bce - 0.5 * torch.sum(1 + logvar - mean.pow(2) - logvar.exp())) / x.shape[0]


def _vae_distributions(model: nn.Module, x: Tensor) -> Tensor:
    image, mean, logvar = model(x)
    posterior, prior = Normal(mean, (0.5 * logvar).exp()), Normal(0.0, 1.0)
    z = posterior.rsample()
    likelihood = Normal(image, 0.5).log_prob(x.flatten(1)).sum(-1)
    return (posterior.log_prob(z) - prior.log_prob(z)).sum(-1).mean() - likelihood.mean()


def _generator() -> nn.Module:
    """pytorch/examples, dcgan."""
    return nn.Sequential(
        *(nn.ConvTranspose2d(8, 16, 4, 1, 0, bias=False), nn.BatchNorm2d(16), nn.ReLU(True)),
        *(nn.ConvTranspose2d(16, 8, 4, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(True)),
        *(nn.ConvTranspose2d(8, 3, 4, 2, 1, bias=False), nn.Tanh()),
    )


def _discriminator() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(3, 8, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True)),
        *(nn.Conv2d(8, 16, 4, 2, 1, bias=False), nn.BatchNorm2d(16), nn.LeakyReLU(0.2, True)),
        *(nn.Conv2d(16, 1, 4, 1, 0, bias=False), nn.Flatten(0)),
    )


def _adversarial(model: nn.Module, noise: Tensor) -> Tensor:
    scores = model["critic"](model["generator"](noise))
    return F.binary_cross_entropy_with_logits(scores, torch.ones_like(scores))


class _SuperResolution(nn.Module):
    """pytorch/examples, super_resolution."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(1, 16, 5, 1, 2), nn.ReLU(), nn.Conv2d(16, 8, 3, 1, 1), nn.ReLU()),
            *(nn.Conv2d(8, 4, 3, 1, 1), nn.PixelShuffle(2)),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


class _Siamese(nn.Module):
    """pytorch/examples, siamese_network."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 4, 7, 3), nn.ReLU(), nn.Flatten(), nn.Linear(256, 8))
        self.head = nn.Sequential(nn.Linear(16, 8), nn.ReLU(inplace=True), nn.Linear(8, 1))

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.sigmoid(self.head(torch.cat((self.body(a), self.body(b)), 1)))


class _Graph(nn.Module):
    """pytorch/examples, gcn: a normalised adjacency among the inputs."""

    def __init__(self, attention: bool) -> None:
        super().__init__()
        self.w1, self.w2 = nn.Linear(WIDTH, 8, bias=False), nn.Linear(8, LABELS, bias=False)
        self.attention = nn.Parameter(torch.randn(16, 1) * 0.1) if attention else None

    def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
        h = self.w1(x)
        if self.attention is not None:
            scores = F.leaky_relu(h @ self.attention[:8] + (h @ self.attention[8:]).mT, 0.2)
            mask = torch.full_like(scores, -9e15)
            adjacency = F.softmax(torch.where(adjacency > 0, scores, mask), dim=-1)
        return F.log_softmax(adjacency @ self.w2(F.elu(adjacency @ h)), dim=-1)


def _graph(attention: bool) -> Entry:
    batch = together(
        x=numbers(12, WIDTH),
        adjacency=lambda n: torch.rand(n, 12, 12).softmax(-1),
        y=classes(LABELS, 12),
    )
    return Entry(
        _Graph(attention),
        batch,
        lambda model, x, adjacency, y: F.nll_loss(model(x, adjacency).flatten(0, 1), y.flatten()),
    )


class _Policy(nn.Module):
    """pytorch/examples, reinforcement_learning (actor_critic)."""

    def __init__(self) -> None:
        super().__init__()
        self.affine, self.actor, self.critic = nn.Linear(4, 16), nn.Linear(16, 2), nn.Linear(16, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = F.relu(self.affine(x))
        return F.softmax(self.actor(x), dim=-1), self.critic(x)


def _actor_critic(model: nn.Module, x: Tensor, action: Tensor, reward: Tensor) -> Tensor:
    probabilities, value = model(x)
    advantage = reward - value.squeeze(-1)
    policy = -(Categorical(probabilities).log_prob(action) * advantage.detach()).mean()
    return policy + F.smooth_l1_loss(value.squeeze(-1), reward)


class _Sequence(nn.Module):
    """pytorch/examples, time_sequence_prediction: two cells in a loop, in float64."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm1, self.lstm2, self.linear = nn.LSTMCell(1, 8), nn.LSTMCell(8, 8), nn.Linear(8, 1)

    def forward(self, x: Tensor) -> Tensor:
        outputs = []
        zeros = torch.zeros(x.size(0), 8, dtype=torch.double)
        h, c, h2, c2 = zeros, zeros, zeros, zeros
        for step in x.split(1, dim=1):
            h, c = self.lstm1(step, (h, c))
            h2, c2 = self.lstm2(h, (h2, c2))
            outputs += [self.linear(h2)]
        return torch.cat(outputs, dim=1)


class _GptBlock(nn.Module):
    def __init__(self, flash: bool) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH, bias=False), nn.LayerNorm(WIDTH, bias=False)
        self.c_attn, self.c_proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.fc, self.out, self.flash = nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH), flash
        self.register_buffer("bias", torch.tril(torch.ones(1, 1, LENGTH, LENGTH)))

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.size()
        q, k, v = (
            part.view(b, t, 2, c // 2).transpose(1, 2)
            for part in self.c_attn(self.ln_1(x)).split(c, dim=2)
        )
        if self.flash:
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.1, is_causal=True)
        else:
            scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            scores = scores.masked_fill(self.bias[:, :, :t, :t] == 0, float("-inf"))
            y = F.softmax(scores, dim=-1) @ v
        x = x + self.c_proj(y.transpose(1, 2).contiguous().view(b, t, c))
        return x + self.out(F.gelu(self.fc(self.ln_2(x))))


class _Gpt(nn.Module):
    """As nanoGPT (flash) and minGPT write it: parts in a ModuleDict, the loss in the forward."""

    def __init__(self, flash: bool, recompute: bool = False) -> None:
        super().__init__()
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(WORDS, WIDTH),
                "wpe": nn.Embedding(LENGTH, WIDTH),
                "h": nn.ModuleList(_GptBlock(flash) for _ in range(2)),
                "ln_f": nn.LayerNorm(WIDTH),
            }
        )
        self.lm_head = nn.Linear(WIDTH, WORDS, bias=False)
        self.transformer.wte.weight = self.lm_head.weight
        self.recompute = recompute

    def forward(self, idx: Tensor, targets: Any = None) -> tuple[Tensor, Any]:
        _, t = idx.size()
        assert t <= LENGTH, f"Cannot forward sequence of length {t}"
        x = self.transformer.wte(idx) + self.transformer.wpe(torch.arange(0, t))
        for block in self.transformer.h:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
        logits = self.lm_head(self.transformer.ln_f(x))
        flat = logits.view(-1, logits.size(-1))
        return logits, F.cross_entropy(flat, targets.view(-1), ignore_index=-1)


def _second(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return model(x, y)[1]


MODELS: dict[str, Callable[[], Entry]] = {
    "mnist": lambda: Entry(_Mnist(), DIGITS, _nll),
    "mnist-rnn": lambda: Entry(_RowByRow(), DIGITS, _nll),
    "word-lstm": lambda: Entry(_WordLstm(), TOKENS, of_tokens),
    "word-transformer": lambda: Entry(_WordTransformer(), TOKENS, of_tokens),
    "vae": lambda: Entry(_Vae(), together(x=lambda n: torch.rand(n, 28, 28)), _vae_loss),
    "vae-distributions": lambda: Entry(_Vae(), together(x=numbers(28, 28)), _vae_distributions),
    "dcgan-generator": lambda: Entry(
        nn.ModuleDict({"generator": _generator(), "critic": _discriminator()}),
        together(noise=numbers(8, 1, 1)),
        _adversarial,
    ),
    "super-resolution": lambda: Entry(
        _SuperResolution(), together(x=numbers(1, 8, 8), y=numbers(1, 16, 16)), of_values
    ),
    "siamese": lambda: Entry(
        _Siamese(),
        together(a=numbers(1, 28, 28), b=numbers(1, 28, 28), y=classes(2)),
        lambda model, a, b, y: F.binary_cross_entropy(model(a, b).squeeze(), y.float()),
    ),
    "graph-convolution": lambda: _graph(False),
    "graph-attention": lambda: _graph(True),
    "actor-critic": lambda: Entry(
        _Policy(), together(x=numbers(4), action=classes(2), reward=numbers()), _actor_critic
    ),
    "time-sequence": lambda: Entry(
        _Sequence().double(),
        together(x=lambda n: torch.randn(n, 9).double(), y=lambda n: torch.randn(n, 9).double()),
        of_values,
    ),
    "nanogpt": lambda: Entry(_Gpt(True), TOKENS, _second),
    "mingpt": lambda: Entry(_Gpt(False), TOKENS, _second),
    "gpt-checkpointed": lambda: Entry(_Gpt(True, True), TOKENS, _second),
}
