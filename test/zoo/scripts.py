"""Models and losses as scripts write them: PyTorch's examples, small language models, and single
habits that a capture may stumble over."""

from __future__ import annotations

import copy
import math
from typing import Any, Callable

import torch
from torch import nn
from torch.autograd import Function, grad
from torch.distributions import Categorical, Normal
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from entry import Entry, Tensor, classes, numbers, of_logits, of_tokens, of_values, together

WIDTH, LENGTH, LABELS, WORDS = 16, 8, 5, 32
TOKENS = together(x=classes(WORDS, LENGTH), y=classes(WORDS, LENGTH))
DIGITS = together(x=numbers(1, 28, 28), y=classes(10))
VALUES = together(x=numbers(WIDTH), y=numbers(WIDTH))


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


def _penalty(model: nn.Module, x: Tensor) -> Tensor:
    """A gradient penalty, as of WGAN-GP: a gradient of a gradient."""
    x = x.detach().requires_grad_()
    score = model(x)
    (slope,) = grad(score.sum(), x, create_graph=True)
    return score.mean() + 10 * ((slope.flatten(1).norm(dim=1) - 1) ** 2).mean()


class _Energy(nn.Module):
    """Forces as the gradient of an energy, taken in the forward."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(WIDTH, 16), nn.Softplus(), nn.Linear(16, 1))

    def forward(self, x: Tensor) -> Tensor:
        x.requires_grad_()
        return -grad(self.net(x).sum(), x, create_graph=True)[0]


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
    def backward(ctx: Any, slope: Tensor) -> Tensor:
        return slope


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


def _spin(n: int) -> Tensor:
    return torch.randn(n, 12).softmax(-1)


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
    "gradient-penalty": lambda: Entry(
        nn.Sequential(nn.Linear(WIDTH, 16), nn.Tanh(), nn.Linear(16, 1)),
        together(x=numbers(WIDTH)),
        _penalty,
    ),
    "forces": lambda: Entry(_Energy(), VALUES, of_values),
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
