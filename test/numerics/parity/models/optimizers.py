"""A small network under each optimizer and each way to write its options."""

import argparse
from typing import Callable

import torch
from torch import nn
from torch.optim import (
    ASGD,
    SGD,
    Adadelta,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    Muon,
    NAdam,
    Optimizer,
    RAdam,
    RMSprop,
    Rprop,
    lr_scheduler,
)

from fsdp_mlir import TrainingStep


def groups(model: nn.Sequential, *options: dict) -> list[dict]:
    """The three layers' parameters, each with options of its own."""
    layers = [layer for layer in model if isinstance(layer, nn.Linear)]
    return [{"params": layer.parameters(), **o} for layer, o in zip(layers, options, strict=True)]


def without_decay_of_biases(model: nn.Sequential) -> list[dict]:
    named = list(model.named_parameters())
    return [
        {"params": [p for n, p in named if n.endswith("weight")], "betas": (0.8, 0.99)},
        {"params": [p for n, p in named if n.endswith("bias")], "weight_decay": 0.0, "lr": 3e-3},
    ]


def sgd(model: nn.Sequential, **flags: bool) -> Optimizer:
    momentum = {"momentum": 0.9, "nesterov": True}
    damped = {"momentum": 0.8, "dampening": 0.3, "maximize": True}
    return SGD(groups(model, momentum, damped, {"weight_decay": 0.1}), lr=0.05, **flags)


class Lion(Optimizer):
    """As its authors write it: nothing of it is known but its step."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None) -> None:
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                state = self.state[p]
                if len(state) == 0:
                    state["exp_avg"] = torch.zeros_like(p)
                exp_avg = state["exp_avg"]
                p.data.mul_(1 - group["lr"] * group["weight_decay"])
                update = exp_avg * beta1 + p.grad * (1 - beta1)
                p.add_(update.sign_(), alpha=-group["lr"])
                exp_avg.mul_(beta2).add_(p.grad, alpha=1 - beta2)


class ScheduleFree(Optimizer):
    """As the package `schedulefree` writes it: numbers of a group follow from those of the step
    before, and gradients are taken between a parameter and its average."""

    def __init__(self, params, lr=1e-2, betas=(0.9, 0.999), adaptive=True, warmup_steps=4) -> None:
        numbers = {"k": 0, "weight_sum": 0.0, "lr_max": -1.0, "scheduled_lr": 0.0}
        options = {"lr": lr, "betas": betas, "adaptive": adaptive, "warmup_steps": warmup_steps}
        super().__init__(params, {**options, **numbers, "train_mode": False})

    def train(self) -> None:
        self._set_mode(True, lambda beta1: 1 - beta1)

    def eval(self) -> None:
        """Puts the averages into the parameters."""
        self._set_mode(False, lambda beta1: 1 - 1 / beta1)

    @torch.no_grad()
    def _set_mode(self, train: bool, weight: Callable[[float], float]) -> None:
        for group in self.param_groups:
            for p in group["params"] if group["train_mode"] != train else ():
                if "z" in self.state[p]:
                    p.lerp_(end=self.state[p]["z"], weight=weight(group["betas"][0]))
            group["train_mode"] = train

    @torch.no_grad()
    def step(self, closure=None) -> None:
        for group in self.param_groups:
            if not group["train_mode"]:
                raise RuntimeError("call optimizer.train() before the first step")
            (beta1, beta2), k = group["betas"], group["k"]
            rate = group["lr"] * (
                (k + 1) / group["warmup_steps"] if k < group["warmup_steps"] else 1
            )
            group["scheduled_lr"] = rate
            largest = group["lr_max"] = max(rate, group["lr_max"])
            weight_sum = group["weight_sum"] = group["weight_sum"] + largest**2
            try:
                share = largest**2 / weight_sum
            except ZeroDivisionError:
                share = 0
            for p in (p for p in group["params"] if p.grad is not None):
                state, update = self.state[p], p.grad
                if "z" not in state:
                    state["z"] = torch.clone(p)
                    state["exp_avg_sq"] = torch.zeros_like(p)
                if group["adaptive"]:
                    state["exp_avg_sq"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                    square = state["exp_avg_sq"].div(1 - beta2 ** (k + 1))
                    update = p.grad.div_(square.sqrt_().add_(1e-8))
                p.lerp_(end=state["z"], weight=share)
                p.add_(update, alpha=rate * (beta1 * (1 - share) - 1))
                state["z"].sub_(update, alpha=rate)
            group["k"] = k + 1


class Eigenbasis(Optimizer):
    """Adam in the eigenbasis of both sides of a matrix, as SOAP: bases are in a list, and made anew
    in every third step, by a decomposition."""

    def __init__(self, params, lr=1e-2, betas=(0.9, 0.95), every=3) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "every": every})

    @torch.no_grad()
    def step(self, closure=None) -> None:
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                state, grad = self.state[p], p.grad
                if not state:
                    state["step"] = 0
                    state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(p), torch.zeros_like(p)
                    state["sides"] = [torch.zeros(size, size) for size in p.shape]
                    state["bases"] = [torch.eye(size) for size in p.shape]
                state["step"] += 1
                for dim, side in enumerate(state["sides"]):
                    turned = grad.movedim(dim, 0).reshape(len(side), -1)
                    side.lerp_(turned @ turned.T, 1 - beta2)
                state["exp_avg"].lerp_(grad, 1 - beta1)
                average = state["exp_avg"]
                for basis in state["bases"]:
                    grad, average = (torch.tensordot(x, basis, ([0], [0])) for x in (grad, average))
                state["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
                update = average / (state["exp_avg_sq"] / (1 - beta2 ** state["step"])).sqrt().add_(
                    1e-8
                )
                for basis in state["bases"]:
                    update = torch.tensordot(update, basis, ([0], [1]))
                p.add_(update, alpha=-group["lr"])
                if state["step"] % group["every"] == 1:
                    state["bases"] = [torch.linalg.eigh(x)[1] for x in state["sides"]]


def schedule_free(params, **options) -> Optimizer:
    optimizer = ScheduleFree(params, **options)
    optimizer.train()
    return optimizer


OPTIMIZERS: dict[str, Callable[[nn.Sequential], Optimizer | list[Optimizer]]] = {
    "adam": lambda model: Adam(
        groups(model, {"amsgrad": True}, {"maximize": True}, {"weight_decay": 0.0, "eps": 1e-5}),
        weight_decay=0.1,
    ),
    "adam-decoupled": lambda model: Adam(
        model.parameters(), weight_decay=0.1, decoupled_weight_decay=True
    ),
    "adam-foreach": lambda model: Adam(
        groups(model, {"amsgrad": True}, {"maximize": True}, {"weight_decay": 0.1}), foreach=True
    ),
    "adamw": lambda model: AdamW(without_decay_of_biases(model), lr=1e-2, weight_decay=0.2),
    "adamw-foreach": lambda model: AdamW(
        groups(model, {"amsgrad": True}, {"maximize": True}, {"lr": 0.1}), foreach=True
    ),
    "sgd": sgd,
    "sgd-foreach": lambda model: sgd(model, foreach=True),
    # On sizes whose parts fill the kernels' vectors.
    "adam-fused": lambda model: Adam(
        groups(model, {"amsgrad": True}, {"maximize": True}, {"weight_decay": 0.1}), fused=True
    ),
    "adadelta": lambda model: Adadelta(model.parameters(), weight_decay=0.1),
    "adagrad": lambda model: Adagrad(
        groups(model, {"lr_decay": 0.1}, {"maximize": True}, {"weight_decay": 0.1}),
        initial_accumulator_value=0.5,
    ),
    "adamax": lambda model: Adamax(model.parameters(), weight_decay=0.1),
    "asgd": lambda model: ASGD(
        groups(model, {"t0": 6}, {"maximize": True}, {"lambd": 0.1, "weight_decay": 0.1})
    ),
    "eigenbasis": lambda model: Eigenbasis(model.parameters()),
    "lion": lambda model: Lion(model.parameters()),
    "muon": lambda model: [
        Muon([layer.weight for layer in model if isinstance(layer, nn.Linear)], lr=0.02),
        AdamW([layer.bias for layer in model if isinstance(layer, nn.Linear)], lr=1e-2),
    ],
    "nadam": lambda model: NAdam(
        groups(model, {}, {"maximize": True}, {"betas": (0.8, 0.9), "momentum_decay": 0.1}),
        weight_decay=0.1,
        decoupled_weight_decay=True,
    ),
    "nadam-one-cycle": lambda model: NAdam(model.parameters()),
    "radam": lambda model: RAdam(
        groups(model, {}, {"maximize": True}, {"betas": (0.8, 0.9)}),
        weight_decay=0.1,
        decoupled_weight_decay=True,
    ),
    "rmsprop": lambda model: RMSprop(
        groups(model, {"momentum": 0.9}, {"centered": True}, {"weight_decay": 0.1})
    ),
    "rprop": lambda model: Rprop(model.parameters()),
    "schedule-free": lambda model: schedule_free(without_decay_of_biases(model)),
    "schedule-free-from-zero-flat": lambda model: schedule_free(
        groups(model, {"lr": 0.1}, {"lr": 0.2}, {"warmup_steps": 0}), adaptive=False
    ),
    "adamw-fused": lambda model: AdamW(without_decay_of_biases(model), fused=True),
    "adamw-one-cycle": lambda model: AdamW(without_decay_of_biases(model)),
    "adam-fused-one-cycle": lambda model: Adam(model.parameters(), fused=True),
    "sgd-one-cycle": lambda model: SGD(
        groups(model, {"nesterov": True}, {"weight_decay": 0.1}, {"maximize": True}), momentum=0.9
    ),
    "adamw-rising-decay": lambda model: AdamW(without_decay_of_biases(model)),
}


class RisingDecay(lr_scheduler.LRScheduler):
    """Keeps rates and raises the weight decay, as schedules for vision transformers do."""

    def get_lr(self) -> list[float]:
        for group in self.optimizer.param_groups:
            group["weight_decay"] = 0.01 * self.last_epoch
        return [group["lr"] for group in self.optimizer.param_groups]


def schedule(
    name: str, optimizer: Optimizer | list[Optimizer]
) -> lr_scheduler.LRScheduler | Callable[[int], float]:
    if isinstance(optimizer, list):
        return lambda step: 0.9**step
    if name.endswith("one-cycle"):
        return lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=20)
    if name.endswith("rising-decay"):
        return RisingDecay(optimizer)
    if "from-zero" in name:
        return lambda step: step / 20
    return lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 3, T_mult=2)


def training_step(argv: list[str]) -> TrainingStep:
    parser = argparse.ArgumentParser()
    parser.add_argument("--optimizer", choices=tuple(OPTIMIZERS), required=True)
    flags = parser.parse_args(argv)
    sizes = (32, 32, 32, 32) if "fused" in flags.optimizer else (5, 11, 7, 3)

    generator = torch.Generator().manual_seed(2)
    x = torch.randn(53, sizes[0], generator=generator)
    y = torch.randn(53, sizes[-1], generator=generator)
    torch.manual_seed(0)
    layers = [nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])]
    model = nn.Sequential(*(m for layer in layers for m in (layer, nn.Tanh())))
    optimizer = OPTIMIZERS[flags.optimizer](model)

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return nn.functional.mse_loss(model(x), y)

    return TrainingStep(
        model=model,
        loss=loss,
        optimizer=optimizer,
        inputs={"x": x[:4], "y": y[:4]},
        data={"x": x, "y": y},
        lr_schedule=schedule(flags.optimizer, optimizer),
        steps=20,
    )
