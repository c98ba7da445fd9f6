"""Runs a random training step by a plan and by eager PyTorch, and says what that came to.

What must hold of a step:
- it is refused with an error of ours that names a line of it;
- or it is taken, and its steps have the losses and the weights that eager PyTorch has, or it was said
  that they may differ.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import importlib.util
import pathlib
import re
import sys
import tempfile
import warnings
from typing import Callable, Iterator, Optional

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parents[2] / "python")]

import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402

import fsdp_mlir  # noqa: E402

_WRONG = "WRONG"
Batch = dict[str, Tensor]


@dataclasses.dataclass
class Ran:
    """What a run of some steps came to.

    Attributes:
        error: what the step behind the last loss ended with; None: all steps ran.
    """

    losses: list[float]
    weights: dict[str, Tensor]
    error: Optional[Exception] = None


@dataclasses.dataclass(frozen=True)
class Fuzz:
    """A kind of random steps.

    Attributes:
        source: the file of a seed's step, which has a class `Model`.
        loss: of a model and a batch.
        places: a refusal names one of these.
        near: how far numbers may be from eager's, relative to the largest of a tensor.
        optimizer: of the parameters to be trained. One that moves and decays them without a gradient
            of theirs shows whether a step without one leaves them alone.
        ends_with_eager: whether a run has to end where eager has an error.
        may_differ: what is said of a step whose numbers may be others.
    """

    source: Callable[[int], str]
    batches: Callable[[], list[Batch]]
    loss: Callable[..., Tensor]
    optimizer: Callable[[Iterator[nn.Parameter]], torch.optim.Optimizer]
    places: tuple[str, ...] = ()
    near: float = 0.0
    ends_with_eager: bool = False
    may_differ: Optional[str] = None

    def outcome(self, seed: int, folder: pathlib.Path) -> str:
        """What a seed came to: "same", "differs as it says: ...", "refused: ...", "eager fails: ...", or
        "WRONG: ..."."""
        path = folder / f"step_of_seed_{seed}.py"
        path.write_text(self.source(seed))
        make = made(path)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            theirs = self._eager(make())
            if theirs.error is not None and not self.ends_with_eager:
                return f"eager fails: {type(theirs.error).__name__}"
            try:
                ours = self._by_plan(make())
            except fsdp_mlir.ExportError as error:
                named = any(place in str(error) for place in (f"{path.name}:", *self.places))
                return f"refused: {error}" if named else f"{_WRONG}: no line in: {error}"
            except Exception as error:
                return f"{_WRONG}: {type(error).__name__}: {error}"
        found = self._compared(ours, theirs)
        if self.may_differ and any(self.may_differ in str(each.message) for each in said):
            return found.replace(_WRONG, "differs as it says")
        return found

    def _optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return self.optimizer(p for p in model.parameters() if p.requires_grad)

    def _eager(self, model: nn.Module) -> Ran:
        optimizer = self._optimizer(model)
        ran = Ran([], {})
        try:
            for batch in self.batches():
                value = self.loss(model, **batch)
                value.backward()
                optimizer.step()
                optimizer.zero_grad()
                ran.losses.append(value.item())
        except Exception as error:
            ran.error = error
        ran.weights = dict(model.state_dict())
        return ran

    def _by_plan(self, model: nn.Module) -> Ran:
        step = fsdp_mlir.TrainingStep(
            model, self.loss, self._optimizer(model), inputs=self.batches()[0]
        )
        ran = Ran([], {})
        with fsdp_mlir.compile(step) as run:
            try:
                for batch in self.batches():
                    ran.losses.append(float(run(batch)))
            except Exception as error:
                ran.error = error
                return ran
            ran.weights = {name: value.clone() for name, value in run.state_dict().items()}
        return ran

    def _compared(self, ours: Ran, theirs: Ran) -> str:
        for step, (one, other) in enumerate(zip(ours.losses, theirs.losses)):
            if not self._is_near(torch.tensor(one), torch.tensor(other)):
                return f"{_WRONG}: step {step} has the loss {one}, eager {other}"
        if len(ours.losses) > len(theirs.losses):
            return f"{_WRONG}: step {len(theirs.losses)} trains on, eager fails: {theirs.error!r}"
        if len(ours.losses) < len(theirs.losses):
            return f"{_WRONG}: step {len(ours.losses)} fails, eager's does not: {ours.error!r}"
        if theirs.error is not None:
            return f"both fail: {type(theirs.error).__name__}"
        other = [n for n, v in ours.weights.items() if not self._is_near(v, theirs.weights[n])]
        return f"{_WRONG}: {', '.join(other)} of eager are others" if other else "same"

    def _is_near(self, one: Tensor, other: Tensor) -> bool:
        largest = other.double().nan_to_num(0.0, 0.0, 0.0).abs().amax().clamp(min=1.0).item()
        bound = self.near * largest
        return torch.allclose(one.double(), other.double(), rtol=0, atol=bound, equal_nan=True)

    def main(self, description: str) -> None:
        """Tries the seeds that a command line asks for; exits with 1 where one is wrong."""
        parser = argparse.ArgumentParser(description=description)
        parser.add_argument("--seeds", default="0:200", help="FIRST:LAST, or one (0:200)")
        parser.add_argument("--show", action="store_true", help="print every step and its outcome")
        parser.add_argument("--refusals", action="store_true", help="count refusals by their text")
        options = parser.parse_args()
        counts: collections.Counter[str] = collections.Counter()
        refusals: collections.Counter[str] = collections.Counter()
        with tempfile.TemporaryDirectory() as folder:
            for seed in _seeds(options.seeds):
                found = self.outcome(seed, pathlib.Path(folder))
                kind, _, text = found.partition(": ")
                counts[kind] += 1
                if kind == "refused":
                    refusals[re.sub(r"\S+\.py:\d+: ", "", text)] += 1
                if options.show or is_wrong(found):
                    body = self.source(seed).rpartition("    def forward")[2]
                    print(f"seed {seed}: {found}\n    def forward{body}", flush=True)
        for text, count in refusals.most_common() if options.refusals else ():
            print(f"{count} refused: {text}")
        print(", ".join(f"{kind} {count}" for kind, count in sorted(counts.items())))
        sys.exit(_WRONG in counts)


def made(path: pathlib.Path) -> Callable[[], nn.Module]:
    """Makes the model of a file, each time with the same weights."""

    def make() -> nn.Module:
        specification = importlib.util.spec_from_file_location(path.stem, path)
        assert specification is not None and specification.loader is not None
        module = importlib.util.module_from_spec(specification)
        sys.modules[path.stem] = module
        specification.loader.exec_module(module)  # anew: its classes keep things, too
        torch.manual_seed(0)
        return module.Model()

    return make


def is_wrong(found: str) -> bool:
    return found.startswith(_WRONG)


def _seeds(text: str) -> Iterator[int]:
    first, _, last = text.partition(":")
    yield from range(int(first), int(last or int(first) + 1))
