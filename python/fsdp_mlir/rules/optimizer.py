"""Reads a torch.optim optimizer into `fsdp.json`."""

from __future__ import annotations

import dataclasses
import math
import warnings
from types import MappingProxyType
from typing import Any, Container, Iterator, Mapping, Optional, Sequence

import torch

from ..capture.graph.program import Setting
from ..dtypes import dtype_name
from ..errors import E, ExportError, listed
from ..step.names import StateNames
from ..step.optimizer_list import parts_of
from ..step.places import at_line
from .capture import Rule, capture_rules
from .group_entries import described
from .writer import RuleWriter
from .schedule import OF_SCHEDULERS, Schedule, constant_rates
from ..step.training_step import TrainingStep

# Flags that change what an optimizer computes, and why a plan has no use for them.
_REFUSED_FLAGS = {
    "capturable": "a plan keeps what changes between steps in memory already",
    "differentiable": "no gradient flows through a plan's updates",
}


@dataclasses.dataclass
class StepOptimizer:
    """The optimizer of a step, or several.

    Attributes:
        groups: as the archive has them.
        rules: each with the optimizer that it is of.
    """

    groups: list[dict[str, Any]]
    rules: list[tuple[torch.optim.Optimizer, Rule]]

    @property
    def held(self) -> set[str]:
        """The parameters in its groups."""
        return {fqn for group in self.groups for fqn in group["parameters"]}

    def describe(self, missed: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
        """The archive's entry, and the rules' methods by name.

        Args:
            missed: by parameter, the buffer that counts the steps without its gradient.

        Raises:
            ExportError: an optimizer has numbers that follow from each step, of such a parameter.
        """
        writers: dict[str, RuleWriter] = {}
        for optimizer, whole in self.rules:
            for rule in _apart(whole, missed):
                if rule.missed:
                    _check_counted(
                        optimizer,
                        rule,
                        f"values decide whether a step gives {rule.parameters[0]} a gradient, without "
                        "which it takes no step; give it one in each step, as by adding `0.0 * "
                        "p.sum()` to the loss, or use another optimizer",
                    )
                symbol = _symbol(rule, optimizer_name(optimizer), writers)
                writers[symbol] = RuleWriter(rule, symbol, f"rule_{len(writers)}")
        rules = [writer.description for writer in writers.values()]
        sources = {w.description["method"]: w.source for w in writers.values()}
        return {"groups": self.groups, "rules": rules}, sources


def read_optimizer(
    step: TrainingStep,
    names: StateNames,
    schedule: Optional[Schedule],
    settings: Mapping[str, Setting] = MappingProxyType({}),
) -> StepOptimizer:
    """Follows the step of the optimizer, or of several.

    Warns by name of trainable parameters that no optimizer holds: they get no update.

    Args:
        settings: by parameter, what sets it in front of its update.

    Raises:
        ExportError: a parameter that is not in the model, a step that does not treat each element
            alike or is not the same one in all steps, or groups of several implementations.
    """
    parts = parts_of(step.optimizer)
    schedule = schedule or constant_rates(step.optimizer)
    if len(parts) > 1 and step.scaler is not None:
        raise ExportError(
            E.OPTIMIZER,
            "a GradScaler skips the step of each optimizer by itself, which is not there; give one "
            "optimizer, or bfloat16, which needs no scaler",
        )
    read = StepOptimizer([], [])
    for part in parts:
        first = len(read.groups)
        own = _describe_groups(part, names, first)
        read.groups += own
        _warn_of_modes(part)
        captured = capture_rules(
            part, [group["parameters"] for group in own], schedule.part(first, len(own)), settings
        )
        for rule in captured:
            if step.scaler is not None:
                _check_counted(
                    part,
                    rule,
                    "a GradScaler skips steps that only the run knows; leave the scaler out, or use "
                    "another optimizer",
                )
            rule.parameters = [fqn for fqn in rule.parameters if fqn in names.parameters]
            if rule.parameters:
                rule.group += first
                read.rules.append((part, rule))
    for group in read.groups:
        group["parameters"] = [fqn for fqn in group["parameters"] if fqn in names.parameters]
    held = read.held
    warn_untrained(
        [fqn for fqn, p in names.parameters.items() if p.requires_grad and fqn not in held],
        "not in the optimizer",
    )
    return read


def _apart(rule: Rule, missed: Mapping[str, str]) -> Iterator[Rule]:
    """A rule for each set of its parameters that lack their gradients together."""
    sets: dict[Optional[str], list[str]] = {}
    for fqn in rule.parameters:
        sets.setdefault(missed.get(fqn), []).append(fqn)
    for name, parameters in sets.items():
        yield dataclasses.replace(rule, parameters=parameters, missed=name)


def _describe_groups(
    optimizer: torch.optim.Optimizer, names: StateNames, first: int
) -> list[dict[str, Any]]:
    """The groups of one optimizer, of which the first has the number `first`."""
    # What wraps an optimizer without being made as one has none.
    kinds = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")
    if any(getattr(optimizer, kind, None) for kind in kinds):
        raise ExportError(
            E.OPTIMIZER,
            "the optimizer has step hooks, and no Python runs while a plan does; remove them",
        )
    _check_flags(optimizer)
    if isinstance(optimizer, torch.optim.SparseAdam):
        raise ExportError(
            E.OPTIMIZER,
            "SparseAdam updates the rows that a sparse gradient has, and gradients are dense in a "
            "plan, also those of an embedding with sparse=True; use Adam, SGD or Adagrad",
        )
    # A parameter that the step changes and nothing trains is a buffer, which it may hold all the same.
    fqns = {id(t): fqn for fqn, t in (*names.buffers.items(), *names.parameters.items())}
    groups, implementations = [], set()
    for index, group in enumerate(optimizer.param_groups):
        members = []
        for tensor in group["params"]:
            if id(tensor) not in fqns:
                raise ExportError(
                    E.OPTIMIZER,
                    f"parameter group {index} of the optimizer holds a tensor of shape "
                    f"{list(tensor.shape)} that is not a parameter of the model; where the "
                    "loss uses it, make its module a part of the model, else give the optimizer "
                    "model.parameters() after the model is complete",
                )
            members.append(fqns[id(tensor)])
        implementations.add(_implementation(group))
        groups.append(
            {
                "optimizer": optimizer_name(optimizer),
                "implementation": _implementation(group),
                "parameters": members,
                "hyperparameters": _hyperparameters(group, first + index),
            }
        )
    if len(implementations) > 1:
        raise ExportError(
            E.OPTIMIZER,
            f"the optimizer's groups differ in implementation ({', '.join(sorted(implementations))}); "
            "give all of them the same foreach and fused",
        )
    return groups


def _symbol(rule: Rule, optimizer: str, taken: Container[str]) -> str:
    symbol = f"{optimizer.rpartition('.')[2].lower()}.{rule.group}"
    if rule.shape is not None:
        symbol += "." + "x".join(map(str, rule.shape))
    if rule.missed is not None:
        symbol += rule.missed.removeprefix("fsdp")
    if symbol in taken:
        symbol += f".{dtype_name(rule.dtype, symbol)}"
    while symbol in taken:
        symbol += ".other"
    return symbol


def warn_untrained(names: Sequence[str], why: str) -> None:
    """Says which parameters get no update though they require gradients; nothing where none do."""
    if names:
        is_one = len(names) == 1
        be, they = ("is", "it gets") if is_one else ("are", "they get")
        warnings.warn(f"{listed(names)} {be} trainable but {why}: {they} no update")


def _warn_of_modes(optimizer: torch.optim.Optimizer) -> None:
    """A schedule-free optimizer has other weights to evaluate than those that it trains."""
    kind = type(optimizer)
    if callable(getattr(kind, "eval", None)) and callable(getattr(kind, "train", None)):
        warnings.warn(
            f"{kind.__name__} has eval(), which puts other weights into the model, and no Python runs "
            "while a plan does: a run evaluates and saves the weights that it trains; docs/own-loop.md "
            "(schedule-free optimizers) has a loop that evaluates the others"
        )


def _check_counted(optimizer: torch.optim.Optimizer, rule: Rule, why: str) -> None:
    """Raises ExportError where numbers of a rule follow from each step, some of which are skipped."""
    for former in rule.formers:
        what = (
            f"the step of {type(optimizer).__name__} keeps a number in {described(former.name)} that "
            f"follows from every step before, and {why}"
        )
        raise ExportError(E.OPTIMIZER, at_line(former.next.where, what))


def optimizer_name(optimizer: torch.optim.Optimizer) -> str:
    """`adamw` of torch.optim's AdamW; of any other class its module and name."""
    kind = type(optimizer)
    if getattr(torch.optim, kind.__name__, None) is not kind:
        return f"{kind.__module__}.{kind.__qualname__}"
    # Adam that decays the parameter itself is AdamW, under either name.
    if kind.__name__ in ("Adam", "AdamW"):
        return "adamw" if optimizer.param_groups[0]["decoupled_weight_decay"] else "adam"
    return kind.__name__.lower()


def _hyperparameters(group: dict[str, Any], index: int) -> dict[str, Any]:
    """What describes a group in plain values, but for what chooses the implementation."""
    values = {}
    for key, value in group.items():
        if key in ("params", "foreach", "fused", *_REFUSED_FLAGS) or key in OF_SCHEDULERS:
            continue
        plain = _plain(value, key, index)
        if plain is not None:
            values[key] = plain
    return values


def _check_flags(optimizer: torch.optim.Optimizer) -> None:
    for index, group in enumerate(optimizer.param_groups):
        for flag, why in _REFUSED_FLAGS.items():
            if group.get(flag):
                raise ExportError(
                    E.OPTIMIZER,
                    f"parameter group {index} of the optimizer has {flag}=True: {why}; leave it out",
                )
    if len({group.get("decoupled_weight_decay") for group in optimizer.param_groups}) > 1:
        raise ExportError(
            E.OPTIMIZER,
            "the optimizer's groups differ in decoupled_weight_decay; use torch.optim.AdamW, or "
            "weight_decay=0 in the groups that have none",
        )


def _implementation(group: dict[str, Any]) -> str:
    if group.get("fused"):
        return "fused"
    if group.get("foreach"):
        return "foreach"
    return "for-loop"  # what PyTorch chooses on the CPU


def _plain(value: Any, key: str, index: int) -> Any:
    """A number, truth value, text or list of numbers as JSON has it; None of anything else.

    Raises:
        ExportError: a tensor of several values, NaN, or an infinite learning rate.
    """
    if isinstance(value, (tuple, list)):
        members = [_plain(member, key, index) for member in value]
        return members if all(isinstance(member, float) for member in members) else None
    if isinstance(value, torch.Tensor):
        if value.numel() != 1:
            raise ExportError(
                E.OPTIMIZER, f"{key} of parameter group {index} has several values; give a number"
            )
        value = value.item()
    if isinstance(value, (bool, str)):
        return value
    if not isinstance(value, (int, float)):
        return None
    if math.isinf(value) and key != "lr":
        return None
    if not math.isfinite(value):
        raise ExportError(
            E.OPTIMIZER, f"{key} of parameter group {index} is {value}; give a finite number"
        )
    return float(value)
