"""Reads a torch.optim optimizer and a learning-rate schedule into `fsdp.json`."""

from __future__ import annotations

import copy
import warnings
from typing import Any, Optional

import torch

from .dtypes import dtype_name
from .errors import ExportError
from .names import StateNames
from .rule_capture import capture_rules
from .rule_writer import RuleWriter
from .training_step import TrainingStep

# Flags that change what an optimizer computes, and why a plan has no use for them.
_REFUSED_FLAGS = {
    "capturable": "a plan keeps what changes between steps in memory already",
    "differentiable": "no gradient flows through a plan's updates",
}


# What schedulers keep in a group beside what they change.
_OF_SCHEDULERS = ("initial_lr", "max_lr", "min_lr", "max_momentum", "base_momentum")


def describe_optimizer(
    step: TrainingStep, names: StateNames, table: Optional[list[list[float]]]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The optimizer's identity, groups and rules; and the rules' methods by name.

    `table` are the learning rates that a schedule gives.

    Warns by name of trainable parameters that the optimizer does not hold: they get no update.

    Raises:
        ExportError: a parameter that is not in the model, a step that does not treat each element
            alike or is not the same one in all steps, or groups of several implementations.
    """
    optimizer = step.optimizer
    if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
        raise ExportError(
            "the optimizer has step hooks, and no Python runs while a plan does; remove them"
        )
    _check_flags(optimizer)
    fqns = {id(tensor): fqn for fqn, tensor in names.parameters.items()}
    groups, held, implementations = [], set(), set()
    for index, group in enumerate(optimizer.param_groups):
        members = []
        for tensor in group["params"]:
            if id(tensor) not in fqns:
                raise ExportError(
                    f"parameter group {index} of the optimizer holds a tensor of shape "
                    f"{list(tensor.shape)} that is not a parameter of the model; give the "
                    "optimizer model.parameters() after the model is complete"
                )
            members.append(fqns[id(tensor)])
        held.update(members)
        implementations.add(_implementation(group))
        groups.append({"parameters": members, "hyperparameters": _hyperparameters(group, index)})
    if len(implementations) > 1:
        raise ExportError(
            f"the optimizer's groups differ in implementation ({', '.join(sorted(implementations))}); "
            "give all of them the same foreach and fused"
        )
    for fqn, tensor in names.parameters.items():
        if tensor.requires_grad and fqn not in held:
            warnings.warn(f"{fqn} is trainable but not in the optimizer: it gets no update")
    rates = [group["hyperparameters"]["lr"] for group in groups]
    captured = capture_rules(
        optimizer, [group["parameters"] for group in groups], table[0] if table else rates
    )
    name = optimizer_name(optimizer)
    writers: dict[str, RuleWriter] = {}
    for rule in captured:
        symbol = f"{name.rpartition('.')[2].lower()}.{rule.group}"
        if symbol in writers:
            symbol += f".{dtype_name(rule.dtype, symbol)}"
        while symbol in writers:
            symbol += ".other"
        names.check_symbol(symbol)
        writers[symbol] = RuleWriter(rule, symbol, f"rule_{len(writers)}")
    description = {
        "name": name,
        "implementation": implementations.pop(),
        "groups": groups,
        "rules": [writer.description for writer in writers.values()],
    }
    return description, {w.description["method"]: w.source for w in writers.values()}


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
        if key in ("params", "foreach", "fused", *_REFUSED_FLAGS) or key in _OF_SCHEDULERS:
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
                    f"parameter group {index} of the optimizer has {flag}=True: {why}; leave it out"
                )
    if len({group.get("decoupled_weight_decay") for group in optimizer.param_groups}) > 1:
        raise ExportError(
            "the optimizer's groups differ in decoupled_weight_decay; use torch.optim.AdamW, or "
            "weight_decay=0 in the groups that have none"
        )


def _implementation(group: dict[str, Any]) -> str:
    if group.get("fused"):
        return "fused"
    if group.get("foreach"):
        return "foreach"
    return "for-loop"  # what PyTorch chooses on the CPU


def _plain(value: Any, key: str, index: int) -> Any:
    """A number, truth value, text or list of numbers as JSON has it; None of anything else."""
    if isinstance(value, (tuple, list)):
        members = [_plain(member, key, index) for member in value]
        return members if all(isinstance(member, float) for member in members) else None
    if isinstance(value, torch.Tensor):
        if value.numel() != 1:
            raise ExportError(f"{key} of parameter group {index} has several values; give a number")
        return float(value.item())
    if isinstance(value, (bool, str)):
        return value
    return float(value) if isinstance(value, (int, float)) else None


def length(step: TrainingStep) -> Optional[dict[str, int]]:
    """The default length of a run, as the archive holds it."""
    if step.steps is not None:
        return {"steps": step.steps}
    if step.epochs is not None:
        return {"epochs": step.epochs}
    return None


def learning_rates(step: TrainingStep) -> Optional[list[list[float]]]:
    """A row per step, a column per parameter group: absolute rates. None: constant.

    The table has `steps` rows, or as many as one rank takes in `epochs` (more ranks take fewer
    steps and use its beginning). A scheduler object is stepped once per step, on the optimizer
    itself, whose rates and whose scheduler are put back afterwards.
    """
    schedule = step.lr_schedule
    if schedule is None:
        return None
    if step.steps is not None:
        rows = step.steps
    elif step.epochs is not None and step.steps_per_epoch is not None:
        rows = step.epochs * step.steps_per_epoch
    else:
        raise ExportError("lr_schedule is given without a length; give epochs or steps as well")
    groups = step.optimizer.param_groups
    if not isinstance(schedule, torch.optim.lr_scheduler.LRScheduler):
        rates = [float(group["lr"]) for group in groups]
        return [[rate * float(schedule(row)) for rate in rates] for row in range(rows)]
    if schedule.optimizer is not step.optimizer:
        raise ExportError("lr_schedule belongs to another optimizer; make it with this one")
    return _run_scheduler(schedule, groups, rows)


def _run_scheduler(schedule: Any, groups: list[dict[str, Any]], rows: int) -> list[list[float]]:
    name = type(schedule).__name__
    if isinstance(schedule, torch.optim.lr_scheduler.ReduceLROnPlateau):
        raise ExportError(f"{name} depends on the losses of the run; use one that steps alone")
    # Rates that are tensors are changed in place.
    saved = [{k: copy.deepcopy(v) for k, v in g.items() if k != "params"} for g in groups]
    state = copy.deepcopy(schedule.state_dict())
    table = [[float(group["lr"]) for group in groups]]
    try:
        with warnings.catch_warnings():
            # "lr_scheduler.step() before optimizer.step()": no step is taken here.
            warnings.simplefilter("ignore")
            for _ in range(rows - 1):
                schedule.step()
                table.append([float(group["lr"]) for group in groups])
                for group, values in zip(groups, saved):
                    _check_only_rates_change(group, values, name)
    except ValueError as error:
        raise ExportError(f"{name} cannot be stepped {rows} times: {error}") from error
    finally:
        schedule.load_state_dict(state)
        for group, values in zip(groups, saved):
            group.update(values)
    return table


def _check_only_rates_change(group: dict[str, Any], before: dict[str, Any], name: str) -> None:
    for key, value in before.items():
        if key not in ("lr", "initial_lr") and group[key] != value:
            raise ExportError(
                f"{name} changes {key} as well; only learning rates may change from step to step "
                "(cycle_momentum=False)"
            )
