"""The training step of a recipe:

python -m fsdp_mlir.export -o step.pt test/robustness/fuzz/fuzz_step.py --seed=17
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from recipe import Layer, Recipe, generate  # noqa: E402

SAMPLES = 83  # more than a batch for each of five ranks, and not a multiple
VOCABULARY = 11


class Block(nn.Module):
    """One layer, [batch, d_in] -> [batch, d_out]."""

    def __init__(self, layer: Layer, d_in: int):
        super().__init__()
        self.body = layer.body
        self.features = frozenset(layer.features)
        d_out = layer.out
        self.d_out = d_out
        if self.body == "chunked":
            self.weight = _parameter(3 * d_out, d_in)
        elif self.body == "batched":
            self.weight = _parameter(2, d_in, d_out)
        elif self.body == "convolution":
            self.weight = _parameter(2, 1, 3)
            self.mix = _parameter(d_out, 2 * d_in)
        elif self.body == "pair":
            self.first, self.second = nn.Linear(d_in, d_out), nn.Linear(d_out, d_out)
            self.weight = self.second.weight
        else:
            self.weight = _parameter(d_out, d_in)
        self.bias = None if self.has("no_bias") else _parameter(d_out)
        if self.has("scale"):
            self.gain = _parameter(d_out)
        if self.has("layer_norm"):
            self.norm = nn.LayerNorm(d_out)
        if self.has("batch_norm"):
            self.batch_norm = nn.BatchNorm1d(d_out)
        if self.has("unreached"):
            self.spare = _parameter(3, 2)
        if self.has("mean_buffer"):
            self.register_buffer("mean", torch.zeros(d_out))
        if self.has("count_buffer"):
            self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def has(self, feature: str) -> bool:
        return feature in self.features

    def freeze(self) -> None:
        if self.has("frozen"):
            for parameter in self.parameters():
                parameter.requires_grad_(False)
        elif self.has("frozen_bias") and self.bias is not None:
            self.bias.requires_grad_(False)

    def _apply_weight(self, x: torch.Tensor) -> torch.Tensor:
        weight = self.weight
        if self.has("weight_view"):
            weight = weight.reshape(-1)[: weight.numel()].view(weight.shape)
            weight = weight.transpose(0, 1).transpose(0, 1)
        if self.body == "chunked":
            query, key, value = weight.chunk(3)
            return F.linear(x, query) * torch.sigmoid(x @ key.t()) + x @ value.t()
        if self.body == "batched":
            return torch.bmm(x.expand(2, *x.shape), weight).sum(0)
        if self.body == "convolution":
            folded = F.conv1d(x.unsqueeze(1), weight, padding=1)
            return F.linear(folded.flatten(1), self.mix)
        if self.body == "pair":
            inner = torch.tanh(self.first(x))
            return F.linear(inner, weight, self.second.bias)
        return F.linear(x, weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = x
        if self.has("view_in"):
            x = torch.cat([x[:, 1:], x.narrow(1, 0, 1)], dim=1).t().contiguous().t()
        x = self._apply_weight(x)
        if self.has("weight_twice"):
            x = x + 0.1 * self.weight.mean()
        if self.bias is not None:
            x = x + self.bias
        if self.has("detach"):
            x = x + torch.tanh(x.detach())
        if self.has("inplace_slice"):
            x = x.clone()
            x[:, ::2] *= 0.5
            x[0].add_(0.25)
        if self.has("inplace_view"):
            x = x * 1.5
            x.view(-1)[1:].sub_(0.125)
        if self.has("inplace_relu"):
            x = F.relu(x + 0.1, inplace=True)
        if self.has("view_out"):
            x = torch.stack(x.unbind(1), dim=1).flip(1).unsqueeze(0).squeeze(0)
        if self.has("scale"):
            x = x * self.gain
        if self.has("layer_norm"):
            x = self.norm(x)
        if self.has("batch_norm"):
            x = self.batch_norm(x)
        if self.has("mean_buffer"):
            self.mean.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
            x = x - self.mean
        if self.has("count_buffer"):
            self.count += 1
            x = x / self.count.to(x.dtype)
        if self.has("dropout"):
            x = F.dropout(x, 0.25)
        if self.has("residual") and before.shape == x.shape:
            x = x + before
        return x


def _parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(shape) / max(shape[-1], 2) ** 0.5)


def _make_layers(recipe: Recipe) -> list[Block]:
    """The layers in order of use; a shared one is there twice."""
    made: list[tuple[int, Block]] = []
    used: list[Block] = []
    d_in = recipe.width
    for layer in recipe.layers:
        block: Block | None = None
        if "shared" in layer.features:
            fits = [b for d, b in made if d == d_in and b.d_out == layer.out]
            block = fits[-1] if fits else None
        if block is None:
            block = Block(layer, d_in)
            if block.has("tied") and block.body != "pair":
                shape = block.weight.shape
                fits = [b for _, b in made if b.weight.shape == shape]
                if fits:
                    block.weight = fits[-1].weight
            made.append((d_in, block))
        used.append(block)
        d_in = layer.out
    for _, block in made:
        block.freeze()
    return used


class Model(nn.Module):
    """[batch, width], or [batch] tokens, to [batch, classes]."""

    def __init__(self, recipe: Recipe):
        super().__init__()
        torch.manual_seed(recipe.seed)
        self.embedding = None
        if recipe.inputs == "tokens":
            self.embedding = nn.Embedding(VOCABULARY, recipe.width)
        blocks = _make_layers(recipe)
        self.container = recipe.container
        if self.container == "sequential":
            self.layers = nn.Sequential(*blocks)
        elif self.container == "list":
            self.layers = nn.ModuleList(blocks)
        elif self.container == "nested":
            self.layers = nn.ModuleList(nn.Sequential(b, nn.Tanh()) for b in blocks)
        else:
            self.order = [f"layer{i}" for i in range(len(blocks))]
            for name, block in zip(self.order, blocks):
                setattr(self, name, block)
        self.head = nn.Linear(recipe.layers[-1].out, recipe.classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.embedding is not None:
            x = self.embedding(x)
        if self.container == "sequential":
            x = self.layers(x)
        elif self.container == "attributes":
            for name in self.order:
                x = getattr(self, name)(x)
        else:
            for layer in self.layers:
                x = layer(x)
        return self.head(x)


def _loss(recipe: Recipe) -> Any:
    def loss(model: nn.Module, x: Any, y: Any, mask: Any = None) -> torch.Tensor:
        out = model(x)
        if mask is not None:
            out = torch.where(mask, out, 0.5 * out)
        if recipe.loss == "mse":
            return ((out - y) ** 2).mean()
        return F.cross_entropy(out, y)

    return loss


def _data(recipe: Recipe) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(recipe.seed + 1)

    def floats(width: int) -> torch.Tensor:
        return torch.randn(SAMPLES, width, generator=generator)

    def integers(end: int) -> torch.Tensor:
        return torch.randint(0, end, (SAMPLES,), generator=generator)

    tokens, labels = recipe.inputs == "tokens", recipe.loss == "cross_entropy"
    data = {
        "x": integers(VOCABULARY) if tokens else floats(recipe.width),
        "y": integers(recipe.classes) if labels else floats(recipe.classes),
    }
    if recipe.mask:
        data["mask"] = floats(recipe.classes) > 0
    return data


def _optimizer(recipe: Recipe, model: nn.Module) -> torch.optim.Optimizer:
    options = dict(recipe.optimizer)
    kind = getattr(torch.optim, options.pop("name"))
    parameters = [p for p in model.parameters() if p.requires_grad]
    if recipe.groups == 1 or len(parameters) < 2:
        return kind(parameters, **options)
    second = {"params": parameters[1::2], "lr": 0.5 * options["lr"]}
    return kind([{"params": parameters[::2]}, second], **options)


def training_step(argv: list[str]) -> Any:
    from fsdp_mlir import TrainingStep

    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--recipe", help="as JSON; instead of --seed")
    flags = parser.parse_args(argv)
    recipe = Recipe.from_json(flags.recipe) if flags.recipe else generate(flags.seed)
    model = Model(recipe)
    data = _data(recipe)
    return TrainingStep(
        model=model,
        loss=_loss(recipe),
        optimizer=_optimizer(recipe, model),
        inputs={name: value[: recipe.batch].clone() for name, value in data.items()},
        data=data,
        lr_schedule=(lambda step: 1.0 / (1 + step)) if recipe.schedule else None,
        steps=recipe.steps,
        seed=recipe.seed,
    )
