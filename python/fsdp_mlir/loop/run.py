"""`load` and `Run`: a plan's steps inside a loop of one's own (docs/own-loop.md)."""

from __future__ import annotations

import atexit
import math
import operator
import os
import weakref
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence, Union

import torch

from ..driver.given_paths import note_of_saved
from ..errors import E, RunError, warn
from ..options import checked_options
from .arguments import check_load, of_one_batch
from .extension import runtime
from .followed_optimizer import FollowedOptimizer, checked_rates
from .watched import WatchedModel
from ..data.batch_origins import follow_loaders
from ..data.loader_errors import describe, name_samples

Batch = Mapping[str, torch.Tensor]
StepBatch = Union[Batch, Sequence[Batch], None]
PathLike = Union[str, "os.PathLike[str]"]


@checked_options
def load(
    plan: PathLike,
    weights: Optional[PathLike] = None,
    resume: Optional[PathLike] = None,
    *,
    optimizer: Any = None,
    seed: Optional[int] = None,
    weights_from_rank0: bool = False,
    rng: str = "site",
    non_finite: str = "plan",
    cuda_graph: bool = False,
    comm: str = "auto",
    timeout: float = 0,
    meeting_timeout: float = 300,
    rendezvous: str = "env://",
) -> "Run":
    """Loads a compiled plan on this rank. Collective: every rank of the plan calls it.

    The ranks are those of the environment (`RANK`, `WORLD_SIZE`, `MASTER_ADDR`, as torchrun sets
    them); without a word there, this process is the one rank. From then on, what a data set raises
    in a DataLoader has a note that names the sample.

    Args:
        plan: `step.plan`.
        weights: what it starts from: safetensors, an index of several or a folder of them.
        resume: a checkpoint, or a folder of some, of which the newest that is whole is taken.
        optimizer: PyTorch's, or a list of several, whose schedulers the script steps: the run takes
            the learning rates of its groups (the plan's own).
        seed: of random operators (the plan's).
        weights_from_rank0: rank 0 alone has the weights, and sends each rank its part.
        rng: `site`, or `sequential` as eager PyTorch draws behind `torch.manual_seed(seed)`: from a
            stream of the run's own, which a script's other draws do not move.
        non_finite: what becomes of a step whose loss, or a gradient, is not finite: `plan`, what it
            was compiled for; `continue` and `skip` require that of it, and warn; with `stop` all
            ranks raise RunError when they have taken it, and the run can go on.
        cuda_graph: replay each program of a plan for GPUs as a CUDA graph from its third run on.
        comm: `auto`, `shm` or `gloo`; of a plan for GPUs `auto` or `nccl`.
        timeout: seconds that a rank may keep the others waiting; 0: a hundred of the steps that the
            plan expects, and ten minutes at least.
        meeting_timeout: seconds to wait for all ranks here.
        rendezvous: where they meet: `env://`, `tcp://HOST:PORT` or `file:///PATH`.

    Raises:
        RunError: the plan, the weights or the ranks do not fit. RankFailure: another rank failed.
        ExportError: `optimizer` is none.
    """
    check_load(locals())
    followed = None if optimizer is None else FollowedOptimizer(optimizer)
    session = runtime().open(
        plan=os.fspath(plan),
        weights=os.fspath(weights) if weights is not None else "",
        resume=os.fspath(resume) if resume is not None else "",
        seed=seed,
        weights_from_rank0=weights_from_rank0,
        rng=rng,
        non_finite=non_finite,
        cuda_graph=cuda_graph,
        comm=comm,
        timeout=timeout,
        meeting_timeout=math.ceil(meeting_timeout),
        rendezvous=rendezvous,
    )
    name_samples()
    follow_loaders()
    run = Run(session)
    if followed is not None:
        run._follow(followed)
    return run


class Run:
    """One rank of a run whose loop is yours. `load` and `compile` make it.

    All ranks call it alike and in the same order. What only reads (`metrics`, `step`, `lr`) is a
    rank's own and waits for nobody. A call that fails ends the run: the other ranks' calls raise
    RankFailure, and nothing hangs. Used as a context, it is closed at the end, and an exception
    that leaves the context is told to the other ranks, of a DataLoader with its worker and sample.
    """

    __slots__ = (
        "_open",
        "_followed",
        "_watched",
        "_step",
        "_has_grad",
        "rank",
        "size",
        "notes",
        "__weakref__",
    )

    def __init__(self, session: Any) -> None:
        self._open: Any = session
        self._followed: Optional[FollowedOptimizer] = None
        self._watched: Optional[WatchedModel] = None
        # Looked up once: between two steps what looks up has left the caches.
        self._step: Any = session.step
        self._has_grad = torch.is_grad_enabled()  # a script may have none throughout
        self.rank: int = session.rank
        self.size: int = session.size
        self.notes: list[str] = session.notes
        _runs.add(self)

    def __setattr__(self, name: str, value: Any) -> None:
        """Raises RunError: a run has no such attribute, which nobody would read."""
        try:
            super().__setattr__(name, value)
        except AttributeError as error:
            raise RunError(
                E.STEP_ARGUMENT,
                f"a run has no {name!r} that can be set; lr and step are what can",
            ) from error

    def __reduce__(self) -> Any:
        raise RunError(
            E.NOT_SUPPORTED,
            "a run holds memory and other ranks, and cannot be pickled or copied; run.state_dict() "
            "gives its tensors, and run.checkpoint() writes what another run goes on from",
        )

    @of_one_batch
    def __call__(self, batch: StepBatch = None) -> Union[torch.Tensor, dict[str, torch.Tensor]]:
        """Takes a step and returns this rank's loss before its update, float64; of a step of
        several turns the loss of each, by name.

        `batch` names the inputs of the step, on the CPU or on the GPU that the plan runs on, with
        the dtypes and shapes of the export.
        A step of several micro-batches takes as many batches in a list, or one batch that has all
        of them along dimension 0. A plan that reads no data may go without, or takes all of its
        inputs.

        Raises:
            BatchError: the batch is not what the plan reads. A rank that is alone goes on after it.
        """
        if self._has_grad and not torch.is_grad_enabled():
            raise RunError(
                E.RUN_STATE,
                "a step is taken where gradients are off, as in torch.no_grad(), and it would "
                "train all the same; run.eval(batch) evaluates, and eval_data= of TrainingStep "
                "makes its program",
            )
        return self._step(batch)

    def _follow(self, optimizer: FollowedOptimizer) -> None:
        """Takes the learning rates of its groups before each step."""
        self._followed, step, session = optimizer, self._step, self._session

        # It does not hold the run itself: one that nobody holds ends at once.
        def followed(batch: StepBatch) -> Any:
            optimizer.take_rates(session)
            loss = step(batch)
            optimizer.count_step()
            return loss

        self._step = followed

    def _watch(self, model: WatchedModel) -> None:
        """Looks before each step whether the script has changed what is to be trained, and after it
        whether the script uses what it no longer has."""
        self._watched, step, session = model, self._step, self._session
        model.follow(weakref.ref(self))

        def watched(batch: StepBatch) -> Any:
            model.check(session)
            if batch is None:
                model.check_inputs()
            loss = step(batch)
            model.step_is_taken()
            return loss

        self._step = watched

    @of_one_batch
    def eval(self, batch: StepBatch = None) -> dict[str, Union[float, torch.Tensor]]:
        """The loss and the metrics of one batch on this rank, by the plan's program `eval`, and
        the step's `outputs`: tensors of their own, whose dimension 0 is the sample."""
        if self._followed is not None:
            self._followed.check_flags()
        return self._session.evaluate(batch)

    @property
    def metrics(self) -> dict[str, float]:
        """This rank's figures of the last step, named as in docs/metrics.md; empty before it."""
        return self._session.metrics()

    def mean(self, values: Mapping[str, float]) -> dict[str, float]:
        """The means over all ranks, in double, as fsdp-run logs them. Collective."""
        if not isinstance(values, Mapping):
            raise RunError(
                E.STEP_ARGUMENT,
                f"values are {type(values).__name__}; give a dict of numbers by name, as in "
                "run.mean({'loss': loss})",
            )
        return dict(zip(values, self._session.mean([float(v) for v in values.values()])))

    @property
    def step(self) -> int:
        """Steps that are done: what learning rates of a schedule and random numbers go by. Set it
        where states come from elsewhere, on all ranks alike."""
        return self._session.steps

    @step.setter
    def step(self, value: int) -> None:
        try:
            steps = operator.index(value)
        except TypeError:
            steps = -1
        if not 0 <= steps < 2**53:  # a rule computes with it in float64
            raise RunError(
                E.STEP_ARGUMENT,
                f"step is {value!r}; give a whole number from 0 on, and below 2**53",
            )
        self._session.steps = steps

    @property
    def lr(self) -> Union[float, list[float]]:
        """The learning rate of the next step; a list where there are several groups.

        Set on all ranks alike, here or by a scheduler of the optimizer that the run was compiled
        with, whose groups have the same ones. A plan with a schedule has a table of them, which
        cannot be set.
        """
        if self._followed is not None:
            self._followed.take_rates(self._session)
        rates = self._session.rates
        return rates[0] if len(rates) == 1 else rates

    @lr.setter
    def lr(self, value: Union[float, Sequence[float]]) -> None:
        session = self._session
        given = value.tolist() if hasattr(value, "tolist") else value  # a tensor's, NumPy's
        if isinstance(given, (int, float)):
            given = [given] * len(session.rates)
        rates = checked_rates(given, shown=value)
        session.set_rates(rates)
        if self._followed is not None:
            self._followed.put_rates(rates)

    def save(self, path: PathLike) -> None:
        """Writes the weights under their state_dict() names; rank 0 writes. Collective."""
        if self.rank == 0 and (text := note_of_saved(Path(path))) is not None:
            warn(text, RuntimeWarning, stacklevel=2)
        self._session.save(os.fspath(path))

    def checkpoint(self, folder: PathLike, keep: int = 3) -> Path:
        """Writes a checkpoint below `folder` and returns its path when it is whole.

        It is one of fsdp-run (docs/checkpoints.md): `load(..., resume=folder)` goes on from it, on
        any number of ranks. `keep`: the newest ones that stay, 0: all. Collective.
        """
        if not isinstance(keep, int) or keep < 0:
            raise RunError(
                E.STEP_ARGUMENT,
                f"keep is {keep!r}; give the number of checkpoints that stay, or 0 for all",
            )
        return Path(self._session.checkpoint(os.fspath(folder), keep))

    def state_dict(self, optimizer: bool = False) -> dict[str, torch.Tensor]:
        """Parameters and persistent buffers under the model's names. Collective.

        The tensors are views of the memory that the run trains in: they change with each step, and
        who writes into them between two steps changes the weights. One rank has plain tensors.
        Several have DTensors where torch.distributed has a process group, sharded as the plan
        shards them. Copies are given where no view is possible: of parameters in the layout
        `flat`, and, without a process group, of whole tensors.

        With `optimizer`, also the optimizer's states, placed as their parameters are, and for each
        of these parameters the count of its updates: `state.NAME.exp_avg`, `state.NAME.step`, as
        PyTorch's get_optimizer_state_dict() with flatten_optimizer_state_dict names them. Options
        of groups (`param_groups.…`) are the plan's, and not in it.
        """
        from .run_state import state_dict

        return state_dict(self._session, optimizer)

    def load_state_dict(self, states: Mapping[str, torch.Tensor]) -> None:
        """Goes on with what `state_dict()` gave, here or in another run, or with some of it: whole
        tensors or DTensors. `step` is then what the optimizer's counts say. Collective.

        Raises:
            RunError: the run has no such state, or one of another dtype or shape. Nothing changed.
        """
        from .run_state import load_state_dict

        load_state_dict(self._session, states)
        if self._watched is not None:
            self._watched.run_is_given(self._session)

    def copy_to(self, model: torch.nn.Module) -> None:
        """Gives a model's parameters and persistent buffers the trained values, whole on each rank.
        The plan trains in memory of its own: a script's model has its first values until then.
        Collective.

        Raises:
            RunError: the model lacks one of them, or has another shape. Nothing changed.
        """
        from ..step.held_tensors import release_model
        from .run_state import copy_to

        release_model(model)
        copy_to(self._session, model)
        if self._watched is not None:
            self._watched.is_copied_to(model)

    def close(self) -> None:
        """Ends the run. A rank that still waits for this one raises RankFailure. Tensors of
        state_dict() stay."""
        if self._open is not None:
            self._open.close(f"it closed the run after step {self._open.steps}")
            self._open = None
            self._step = lambda batch: self._session

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, kind: Any, error: Optional[BaseException], traceback: Any) -> None:
        if error is not None and self._open is not None:
            self._open.leave(describe(error))
        self.close()

    def __repr__(self) -> str:
        if self._open is None:
            return "<Run, closed>"
        return f"<Run: rank {self.rank} of {self.size}, step {self.step}>"

    @property
    def _session(self) -> Any:
        if self._open is None:
            raise RunError(E.RUN_OVER, "the run is closed; load the plan again")
        return self._open


_runs: "weakref.WeakSet[Run]" = weakref.WeakSet()


def _close_all() -> None:
    """Threads of the runtime end before the interpreter does."""
    for run in list(_runs):
        run.close()


atexit.register(_close_all)
