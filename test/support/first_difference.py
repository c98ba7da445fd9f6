"""Names the first operator of a plan that gives what eager PyTorch does not have, bit for bit.

    PYTHONPATH=python:test python -m support.first_difference STEP.py [ARGUMENTS...]

The step is compiled for one rank, and runs once by the plan and once by eager PyTorch, in one
process. Of the operators that the plan calls, the first one is told whose operands eager has and
whose result it has not, with the calls of the same operator in eager: they say how the operands
lay in memory there.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import pathlib
import sys
import tempfile
from typing import Any, Iterator, Optional, Sequence

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import fsdp_mlir
from fsdp_mlir.capture.library_defaults import every_layer
from support import chain, reference


@dataclasses.dataclass(frozen=True)
class Value:
    """A tensor's bits, row by row, and how it lies in memory."""

    digest: bytes
    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Value:
        bits = tensor.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes()
        digest = hashlib.blake2b(f"{tensor.dtype} ".encode() + bits, digest_size=16).digest()
        return cls(digest, tensor.dtype, tuple(tensor.shape), tensor.stride())

    def __str__(self) -> str:
        return f"{list(self.shape)} strides {list(self.strides)}"


@dataclasses.dataclass(frozen=True)
class Call:
    operator: str
    operands: tuple[Value, ...]
    results: tuple[Value, ...]

    def __str__(self) -> str:
        operands, results = (
            ", ".join(map(str, values)) for values in (self.operands, self.results)
        )
        return f"{self.operator}({operands}) -> {results}"


class Calls(TorchDispatchMode):
    """The operators that run within it, and all the bits that they had in hand."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []
        self.known: set[bytes] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        operands = _values((args, kwargs))
        results = func(*args, **kwargs)
        call = Call(str(func), operands, _values(results))
        self.calls.append(call)
        # What was written in place is behind the call.
        for value in (*operands, *call.results, *_values((args, kwargs))):
            self.known.add(value.digest)
        return results


def _values(tree: Any) -> tuple[Value, ...]:
    tensors = [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]
    return tuple(Value.of(tensor) for tensor in tensors if tensor.layout == torch.strided)


#: What they give does not come from their operands, or is a part of them.
_WITHOUT_BITS = tuple(
    f"aten.{name}" for name in ("new_", "empty", "zeros_like", "ones_like", "full_like", "narrow")
)


def first_difference(planned: Calls, eager: Calls) -> Optional[Call]:
    """The first call of the plan whose operands eager has, and whose result, of floating-point
    numbers, it has not: masks and counts are often made in another way."""
    for call in planned.calls:
        known = all(value.digest in eager.known for value in call.operands)
        if not call.operands or not known or call.operator.startswith(_WITHOUT_BITS):
            continue
        if any(v.digest not in eager.known for v in call.results if v.dtype.is_floating_point):
            return call
    return None


def calls_like(call: Call, eager: Calls) -> Iterator[Call]:
    """Of the same operator, with some of the operands."""
    bits = {value.digest for value in call.operands}
    for other in eager.calls:
        same = other.operator.split(".")[1] == call.operator.split(".")[1]
        if same and bits & {value.digest for value in other.operands}:
            yield other


def run_both(step_file: pathlib.Path, argv: Sequence[str], folder: pathlib.Path) -> list[Calls]:
    """The plan's calls, and eager's."""
    compiled = chain.compile_step(step_file, folder, argv, pipeline="mesh=1")
    step = reference.load_step(step_file, argv)
    batch = next(reference.batches(step, 0, 1))
    torch.manual_seed(step.seed)
    with every_layer(step.model), Calls() as eager:
        step.loss(step.model, **batch).backward()
        step.optimizer.step()
    weights = compiled.archive.with_suffix(".safetensors")
    run = fsdp_mlir.load(compiled.plan, weights=weights, rng="sequential")
    with run, Calls() as planned:
        run({name: tensor.clone() for name, tensor in batch.items()})
    return [planned, eager]


def main() -> int:
    if len(sys.argv) < 2:
        print(__doc__)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        planned, eager = run_both(pathlib.Path(sys.argv[1]), sys.argv[2:], pathlib.Path(folder))
    call = first_difference(planned, eager)
    if call is None:
        print(f"none of {len(planned.calls)} calls gives what eager does not have")
        return 0
    print(f"the plan: {call}")
    for other in calls_like(call, eager):
        print(f"eager:    {other}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
