"""`TrainingStep`: what a step file describes, checked when it is made."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence, Union

import numpy as np
import torch

from .arguments import require
from .clipping import Norm, check_clipping
from ..data.checks import (
    Data,
    LoaderData,
    batches_per_epoch,
    check_data,
    check_same_columns,
    column_names,
)
from ..data.files import FileData
from ..errors import E, ExportError
from .init_recorder import active_recorder, record_init
from .memory import FREED, is_freed
from ..data.loader_epochs import batch_count
from .optimizer_list import OptimizerList, Optimizers, parts_of
from ..options import checked_options
from .scaler import check_scaler
from .places import own_line
from .programs import Batch, check_batches, check_constants
from .turns import Losses, MetricsOfTurns, turns_of

Scheduler = torch.optim.lr_scheduler.LRScheduler
Schedule = Union[Scheduler, Sequence[Scheduler], Callable[[int], float]]


def is_schedulers(value: Any) -> bool:
    members = value if isinstance(value, (list, tuple)) else [value]
    return bool(members) and all(isinstance(member, Scheduler) for member in members)


class TrainingStep:
    """A model, its loss and its optimizer, and the data it trains on.

    Args:
        model: the module to train, in the mode (train, or eval for single layers) it trains in.
        loss: `loss(model, **inputs)`, a floating scalar: the mean over the local batch. Or a dict
            of such functions that train in turn on each batch, as a GAN's `{"discriminator": …,
            "generator": …}`; a turn sees what those before it did to the parameters.
        optimizer: a `torch.optim.Optimizer` over the model's parameters; or a list of some, each
            of parameters of its own, as `[Muon(matrices), AdamW(others)]`. With several losses a
            dict of the same keys: what a turn's optimizer does not hold, the turn does not change,
            and has no gradient of.
        inputs: one rank's batch by name; dimension 0 is the local batch. Shapes are static. Or a
            list of such batches, one for each shape that batches have, as sequence lengths: a
            program for each, whose choice is the batch's.
        data: tensors by input name whose dimension 0 is the sample; or `Windows` or `Shards`,
            files that stay where they are. Inputs it does not name are constants. Or a `DataLoader`
            or another iterable of batches, or a function that gives a batch: it runs in a process
            beside each rank and gives all inputs. Without data every step repeats `inputs`.
        lr_schedule: a `torch.optim.lr_scheduler` object on `optimizer`, a list of them on several
            optimizers, or a function from the step (0-based) to a factor of each group's rate.
        lr_schedule_every: "step" or "epoch": what the schedule counts, and behind which it is
            stepped. None: steps, with a warning where its numbers look like epochs.
        epochs: the default length of a run.
        steps: the same in steps; at most one of both is given.
        eval_data: as `data`, for the `eval` program: `loss` with the model in `eval()`.
        metrics: `metrics(model, **inputs)`, further scalars by name, computed without gradient;
            with several losses a dict of such functions by turn.
        outputs: the same of the `eval` program alone, and tensors too, whose dimension 0 is the
            sample: what an evaluation gives for each one.
        seed: of the data order and of random ops.
        accumulate: micro-batches per step. `inputs` is one of them, and a step takes this many
            consecutive ones; what fills no step at an epoch's end is left out. The step is that
            of the mean of their losses.
        clip_grad_norm: `max_norm`, or `(max_norm, norm_type)`, of all gradients before each update,
            as `torch.nn.utils.clip_grad_norm_` has them; the norm is logged as `grad_norm`.
        clip_grad_value: what each element of a gradient may be at most, as `clip_grad_value_`.
        scaler: a `torch.amp.GradScaler`, for float16: its scale, factors and interval. A step in
            which any rank's gradient is infinite or NaN changes no parameter and no optimizer
            state on any rank, and lowers the scale, which is logged as `loss_scale`.

    Raises:
        ExportError: an argument is of the wrong type, or the arguments do not fit each other.
    """

    @checked_options
    def __init__(
        self,
        model: torch.nn.Module,
        loss: Losses,
        optimizer: Union[Optimizers, Mapping[str, Optimizers]],
        inputs: Union[Batch, Sequence[Batch]],
        data: Optional[Data] = None,
        lr_schedule: Optional[Schedule] = None,
        lr_schedule_every: Optional[str] = None,
        epochs: Optional[int] = None,
        steps: Optional[int] = None,
        eval_data: Optional[Data] = None,
        metrics: Optional[MetricsOfTurns] = None,
        outputs: Optional[Callable[..., Mapping[str, torch.Tensor]]] = None,
        seed: int = 0,
        accumulate: int = 1,
        clip_grad_norm: Optional[Norm] = None,
        clip_grad_value: Optional[float] = None,
        scaler: Optional[torch.amp.GradScaler] = None,
    ) -> None:
        require(isinstance(model, torch.nn.Module), "model", "a torch.nn.Module", model)
        require(
            outputs is None or callable(outputs),
            "outputs",
            "a function outputs(model, **inputs) that returns tensors by name",
            outputs,
        )
        if outputs is not None and eval_data is None:
            raise ExportError(
                E.STEP_ARGUMENT, "outputs are what an evaluation gives; give eval_data as well"
            )
        _check_schedule(lr_schedule, lr_schedule_every)
        valid = _is_int(seed) and 0 <= seed < 2**63
        require(valid, "seed", "an integer of at least 0 and below 2**63", seed)
        for name, value in (("epochs", epochs), ("steps", steps)):
            require(
                value is None or (_is_int(value) and value > 0), name, "a positive integer", value
            )
        if epochs is not None and steps is not None:
            raise ExportError(
                E.STEP_ARGUMENT,
                "both epochs and steps are given; give the one that sets the length",
            )

        self.made_at = own_line(sys._getframe(1))
        self.model = model
        self.loss = loss
        self.turns = turns_of(loss, optimizer, metrics)
        parts = [part for turn in self.turns for part in parts_of(turn.optimizer)]
        self.optimizer = parts[0] if len(parts) == 1 else OptimizerList(parts)
        self.batches = _check_inputs(inputs)
        self.inputs = self.batches[0]
        self.data = _check_kind("data", data, self.inputs)
        self.lr_schedule = lr_schedule
        self.lr_schedule_every = lr_schedule_every
        self.epochs = epochs
        self.steps = steps
        self.eval_data = _check_kind("eval_data", eval_data, self.inputs)
        self.metrics = metrics
        self.outputs = outputs
        self.seed = seed
        self.accumulate = checked_accumulate(accumulate)
        self.scaler = check_scaler(scaler)
        self.clip_grad_norm, self.clip_grad_value = check_clipping(clip_grad_norm, clip_grad_value)
        self.recorder = active_recorder()
        check_batches(self.batches, self.accumulate)
        if len(self.turns) > 1:
            self._check_options_of_turns()
        for turn in self.turns:
            key = f"[{turn.name!r}]" if turn.name else ""
            _check_call(f"loss{key}", turn.loss, model, self.inputs)
            if turn.metrics is not None:
                _check_call(f"metrics{key}", turn.metrics, model, self.inputs)
        if outputs is not None:
            _check_call("outputs", outputs, model, self.inputs)
        if self.data is not None:
            for batch in self.batches:
                check_data("data", self.data, batch)
            check_constants(self.batches, column_names(self.data))
        if self.eval_data is not None:  # a loop of one's own may evaluate other shapes too
            check_data("eval_data", self.eval_data, self.inputs)
            if self.data is not None:
                check_same_columns(self.data, self.eval_data)
        if epochs is not None and isinstance(self.data, LoaderData):
            if batch_count(self.data.loader) is None:
                raise ExportError(
                    E.STEP_ARGUMENT,
                    "epochs is given, and data has no length (no len()); give steps instead",
                )
        if epochs is not None and self.data is None:
            raise ExportError(
                E.STEP_ARGUMENT,
                "epochs is given without data, so an epoch has no length; give steps instead",
            )

    def _check_options_of_turns(self) -> None:
        """Raises ExportError: an option belongs to a single loss, and has no meaning with several."""
        names = ", ".join(turn.name for turn in self.turns)
        if self.accumulate > 1:
            raise ExportError(
                E.NOT_SUPPORTED,
                f"accumulate is {self.accumulate}, and loss has the turns {names}, each of which "
                "would need all micro-batches before the next one begins; give larger batches",
            )
        if self.scaler is not None:
            raise ExportError(
                E.NOT_SUPPORTED,
                f"a scaler is given, and loss has the turns {names}; a GradScaler skips each "
                "optimizer's step by itself, which is not there: use bfloat16, which needs no scaler",
            )

    @property
    def batch_size(self) -> Optional[int]:
        """Samples per rank and micro-batch; None where there is no data set."""
        named = self.data if self.data is not None else self.eval_data
        if named is None:
            return None
        return self.inputs[column_names(named)[0]].shape[0]

    def steps_per_epoch(self, ranks: int) -> Optional[int]:
        """The number of steps in an epoch; None where an epoch has no length."""
        if self.data is None or self.batch_size is None:
            return None
        name = column_names(self.data)[0]
        sizes = [batch[name].shape[0] for batch in self.batches]
        batches = batches_per_epoch(self.data, sizes, ranks)
        return None if batches is None else batches // self.accumulate


def checked_accumulate(value: int) -> int:
    """How many micro-batches a step takes.

    Raises:
        ExportError: it is none.
    """
    require(_is_int(value) and value > 0, "accumulate", "a positive integer", value)
    return value


def load_training_step(path: Union[str, Path], argv: Sequence[str] = ()) -> TrainingStep:
    """Runs the step file at `path`, and its `training_step(argv)`.

    Raises:
        ExportError: the file is missing, does not run, or does not define a training step.
    """
    with as_script(path, argv):
        return training_step_of(load_step_file(path), path, argv)


@contextlib.contextmanager
def as_script(path: Union[str, Path], argv: Sequence[str]) -> Iterator[None]:
    """Within it a step file finds its flags in `sys.argv` too, as a script does: a parser that is
    given none reads them there, and says the file's name."""
    before, sys.argv = sys.argv, [str(path), *argv]
    try:
        yield
    finally:
        sys.argv = before


def load_step_file(path: Union[str, Path]) -> ModuleType:
    """Runs the step file at `path`; raises ExportError where it is no Python file.

    The step file's own folder is put first on `sys.path`, as Python does for a script, and stays
    there: the loss may import when it is captured.
    """
    file = Path(path)
    if not file.is_file():
        raise ExportError(E.STEP_FILE, f"{path}: no such step file")
    folder = str(file.resolve().parent)
    if folder in sys.path:
        sys.path.remove(folder)
    sys.path.insert(0, folder)
    # Never the file's own name: a step file called tokenizers.py must not hide the package.
    name = "fsdp_mlir_step_" + "".join(c if c.isalnum() else "_" for c in file.stem)
    spec = importlib.util.spec_from_file_location(name, file.resolve())
    if spec is None or spec.loader is None:
        raise ExportError(E.STEP_FILE, f"{path}: not a Python file; a step file's name ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def training_step_of(
    module: ModuleType, path: Union[str, Path], argv: Sequence[str] = ()
) -> TrainingStep:
    """What the `training_step(argv)` of a step file gives; raises ExportError."""
    function = getattr(module, "training_step", None)
    if not callable(function):
        raise ExportError(
            E.STEP_FILE,
            f"{path}: defines no function training_step(argv); it must return a TrainingStep",
        )
    try:
        inspect.signature(function).bind(list(argv))
    except TypeError:
        raise ExportError(
            E.STEP_FILE,
            f"{path}: training_step does not take one argument; define training_step(argv), whose "
            "argv are the step file's own flags",
        ) from None
    with record_init():
        step = function(list(argv))
    if not isinstance(step, TrainingStep):
        raise ExportError(
            E.STEP_FILE,
            f"{path}: training_step returned {type(step).__name__}; return a TrainingStep",
        )
    return step


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_schedule(schedule: Any, every: Any) -> None:
    require(
        schedule is None or callable(schedule) or is_schedulers(schedule),
        "lr_schedule",
        "a torch.optim.lr_scheduler object or a function from step to factor",
        schedule,
    )
    require(every in (None, "step", "epoch"), "lr_schedule_every", '"step" or "epoch"', every)
    if every is not None and schedule is None:
        raise ExportError(
            E.STEP_ARGUMENT,
            "lr_schedule_every is given without lr_schedule; give the schedule that it is about",
        )


def _check_tensors(what: str, tensors: Any) -> dict[str, torch.Tensor]:
    if not isinstance(tensors, Mapping):
        raise ExportError(
            E.STEP_INPUTS, f"{what} is {type(tensors).__name__}; give a dict of tensors by name"
        )
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not name.isidentifier():
            raise ExportError(
                E.STEP_INPUTS, f"{what} has the name {name!r}; names are Python identifiers"
            )
        if isinstance(tensor, (np.ndarray, list, tuple)):
            raise ExportError(
                E.STEP_INPUTS,
                f"{what}[{name!r}] is {type(tensor).__name__}; give a tensor, as torch.as_tensor() "
                "makes it",
            )
        if not isinstance(tensor, torch.Tensor):
            raise ExportError(
                E.STEP_INPUTS,
                f"{what}[{name!r}] is {type(tensor).__name__}; give a tensor (numbers that do not "
                "change between steps belong in the loss)",
            )
        if tensor.requires_grad:
            raise ExportError(
                E.STEP_INPUTS,
                f"{what}[{name!r}] requires gradients; give it detached, or make it a parameter",
            )
        if tensor.layout != torch.strided:
            raise ExportError(
                E.STEP_INPUTS, f"{what}[{name!r}] is not a dense tensor; call to_dense() on it"
            )
        if is_freed(tensor):
            raise ExportError(E.STEP_INPUTS, f"{what}[{name!r}] {FREED}")
    return dict(tensors)


def _check_inputs(inputs: Any) -> list[dict[str, torch.Tensor]]:
    if not isinstance(inputs, (list, tuple)):
        return [_check_tensors("inputs", inputs)]
    if not inputs:
        raise ExportError(E.STEP_INPUTS, "inputs is an empty list; give a batch of each shape")
    return [_check_tensors(f"inputs[{number}]", batch) for number, batch in enumerate(inputs)]


def _check_kind(what: str, data: Any, inputs: Mapping[str, torch.Tensor]) -> Optional[Data]:
    if data is None or isinstance(data, FileData):
        return data
    if isinstance(data, (Mapping, torch.Tensor, str)):
        return _check_tensors(what, data)
    is_array = isinstance(data, np.ndarray)
    if not is_array and (hasattr(data, "__iter__") or callable(data)):
        return LoaderData(data, list(inputs))
    raise ExportError(
        E.STEP_INPUTS,
        f"{what} is {type(data).__name__}; give tensors by name, Windows, Shards, a DataLoader or "
        "another iterable of batches, or a function that gives a batch",
    )


def _check_call(what: str, function: Callable[..., Any], model: Any, inputs: Any) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a callable that does not tell its parameters
        return
    try:
        signature.bind(model, **inputs)
    except TypeError as error:
        raise ExportError(
            E.STEP_INPUTS,
            f"{what} cannot be called as {what}(model, {', '.join(inputs)}): {error}; its "
            "parameters are the names of inputs",
        ) from error
