"""Reads a torch.optim optimizer and a learning-rate schedule into `fsdp.json`."""

from __future__ import annotations

import copy
import warnings
from typing import Any, Optional

import torch

from .errors import ExportError
from .names import StateNames
from .training_step import TrainingStep

_RULES = {
    torch.optim.SGD: (
        "sgd",
        ("lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize"),
    ),
    torch.optim.Adam: ("adam", ("lr", "betas", "eps", "weight_decay", "amsgrad", "maximize")),
    torch.optim.AdamW: ("adamw", ("lr", "betas", "eps", "weight_decay", "amsgrad", "maximize")),
}
# Flags that change what an optimizer computes, and why a plan has no use for them.
_REFUSED_FLAGS = {
    "capturable": "a plan keeps what changes between steps in memory already",
    "differentiable": "no gradient flows through a plan's updates",
}


def describe_optimizer(step: TrainingStep, names: StateNames) -> dict[str, Any]:
    """The optimizer's rule, implementation and groups.

    Warns by name of trainable parameters that the optimizer does not hold: they get no update.

    Raises:
        ExportError: another optimizer, a parameter that is not in the model, or a group whose
            options differ from the other groups' in a way that one rule cannot express.
    """
    optimizer = step.optimizer
    if type(optimizer) not in _RULES:
        raise ExportError(
            f"the optimizer is {type(optimizer).__name__}; use torch.optim.SGD, Adam or AdamW"
        )
    if optimizer.state and any(state for state in optimizer.state.values()):
        raise ExportError(
            "the optimizer has state from earlier steps; a run starts from the first one, make a "
            "new optimizer"
        )
    if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
        raise ExportError(
            "the optimizer has step hooks, and no Python runs while a plan does; remove them"
        )
    _check_flags(optimizer)
    rule, keys = _RULES[type(optimizer)]
    if rule == "adam" and optimizer.param_groups[0]["decoupled_weight_decay"]:
        rule = "adamw"
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
        values = {key: _plain(group[key], key, index) for key in keys}
        groups.append({"parameters": members, "hyperparameters": values})
    if len(implementations) > 1:
        raise ExportError(
            f"the optimizer's groups differ in implementation ({', '.join(sorted(implementations))}); "
            "give all of them the same foreach and fused"
        )
    for fqn, tensor in names.parameters.items():
        if tensor.requires_grad and fqn not in held:
            warnings.warn(f"{fqn} is trainable but not in the optimizer: it gets no update")
    return {"rule": rule, "implementation": implementations.pop(), "groups": groups}


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
    if isinstance(value, (tuple, list)):
        return [_plain(member, key, index) for member in value]
    if isinstance(value, torch.Tensor):
        if value.numel() != 1:
            raise ExportError(f"{key} of parameter group {index} has several values; give a number")
        return float(value.item())
    if isinstance(value, bool):
        return value
    return float(value)


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
    elif step.epochs is not None and step.data is not None and step.batch_size:
        samples = next(iter(step.data.values())).shape[0]
        rows = step.epochs * (samples // (step.batch_size * step.accumulate))
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
