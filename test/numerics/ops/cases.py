"""PyTorch's own operator samples, one for each operator and overload.

A case is one sample of one entry of `op_db` (CPU, float32). Of an entry's
samples the first is taken, and then each that reaches an overload of the
operator itself which none before it reached: `add` gives one case with a tensor
and one with a number. Which overloads a sample reaches is asked of the
dispatcher.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
import warnings
from typing import Any, Iterator

import numpy
import torch
from torch.utils._python_dispatch import TorchDispatchMode

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal import common_methods_invocations
    from torch.testing._internal.opinfo.core import OpInfo, SampleInput

from support.op_samples import op_db

SEED = 0

# Around random operators op_db puts a context that seeds PyTorch's stream, which
# no graph can hold. Without it they draw from the step's own stream.
common_methods_invocations.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)


@dataclasses.dataclass(frozen=True, order=True)
class Case:
    """Sample number `sample` of the entry `op`, `variant`; `overload` is the
    ATen overload that it was chosen for."""

    op: str
    variant: str
    sample: int
    overload: str

    @property
    def label(self) -> str:
        return f"{self.op}.{self.variant}" if self.variant else self.op

    @property
    def argv(self) -> list[str]:
        """The flags that make `op_step.py` build this case."""
        return [
            f"--op={self.op}",
            f"--variant={self.variant}",
            f"--sample={self.sample}",
        ]


def entry(op: str, variant: str) -> OpInfo:
    """The entry of `op_db` with that name; KeyError where there is none."""
    for info in op_db:
        if info.name == op and info.variant_test_name == variant:
            return info
    raise KeyError(f"op_db has no entry {op!r} {variant!r}")


def entries() -> list[OpInfo]:
    """The entries that take float32 on CPU, sorted by name."""
    chosen = [info for info in op_db if info.supports_dtype(torch.float32, "cpu")]
    return sorted(chosen, key=lambda info: (info.name, info.variant_test_name))


def samples(info: OpInfo) -> Iterator[SampleInput]:
    """The entry's samples: the same values in each process."""
    torch.manual_seed(SEED)
    random.seed(SEED)
    numpy.random.seed(SEED)
    return iter(info.sample_inputs("cpu", torch.float32, requires_grad=info.supports_autograd))


def sample(case: Case) -> SampleInput:
    info = entry(case.op, case.variant)
    return next(itertools.islice(samples(info), case.sample, None))


class _Overloads(TorchDispatchMode):
    """Collects the overloads that reach the dispatcher."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func)
        if name not in self.seen:
            self.seen.append(name)
        return func(*args, **(kwargs or {}))


def _base(overload: str) -> str:
    return overload.split(".")[1].strip("_")


def cases_of(info: OpInfo, limit: int = 400) -> list[Case]:
    """The cases of one entry, from its first `limit` samples."""
    chosen: list[Case] = []
    seen: set[str] = set()
    name = info.name.split(".")[-1].strip("_")
    for number, one in enumerate(list(itertools.islice(samples(info), limit))):
        with _Overloads() as reached, torch.no_grad():
            try:
                info.op(one.input, *one.args, **one.kwargs)
            except Exception:
                # Is decided where the case is run, against eager PyTorch.
                pass
        # A composite reaches many operators; those of its own name count.
        own = [o for o in reached.seen if _base(o) == name] or reached.seen[-1:]
        new = [o for o in own if o not in seen]
        if chosen and (not new or all(_base(o) != name for o in new)):
            continue
        seen.update(own)
        overload = new[-1] if new else ""
        chosen.append(Case(info.name, info.variant_test_name, number, overload))
    return chosen


def all_cases() -> list[Case]:
    """Every case, sorted; takes about a minute."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sorted(itertools.chain.from_iterable(map(cases_of, entries())))
