"""Calls PyTorch's kernels on CPUs as an author of hostile plans would, with all that checker and
executor let through, and says which leave their operands' memory.

    python test/numerics/kernels/kernels.py --calls 40             every operator of PyTorch's own samples
    python test/numerics/kernels/kernels.py --calls 500 --only aten::nll_loss_backward
    python test/numerics/kernels/kernels.py --own --calls 500      the runtime's operators

A call is one of PyTorch's operator samples, forward or backward, or one of the runtime's own
operators, with a tensor of another shape, dtype or strides, another number, or indices that lead
elsewhere. What the checker refuses is not called. Each
tensor lies between pages that nobody may touch (GuardPages.cpp), so that a kernel which leaves it
ends its process, one that is forked for some hundred calls.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import pathlib
import random
import resource
import signal
import struct
import subprocess
import sys
import warnings
from typing import Any, Iterator, Optional

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parents[2] / "python")]

import torch  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten  # noqa: E402

from support import chain, own_operators  # noqa: E402

GUARDS = "guard_pages.so"
SAMPLES = 4  # of each operator
FORKED = 400  # calls of one process
CALL_TIMEOUT_S = 3
LARGEST = 20_000  # elements of a sample's tensor
INTEGERS = (-1, 0, 1, 2, 3, 7, -2, -100, 100, 1 << 20, 1 << 31, -(1 << 40))
INDICES = (1 << 40, -(1 << 40), -5, 1000, 1 << 20, (1 << 31) - 1)
DTYPES = (torch.float32, torch.float64, torch.int64, torch.int32, torch.bool, torch.uint8)
_CONSTANTS = (int, float, bool, str, type(None), torch.dtype)

Call = tuple[tuple[Any, ...], dict[str, Any]]


def _is_sample(call: Any) -> bool:
    def fits(leaf: Any) -> bool:
        if not isinstance(leaf, torch.Tensor):
            return isinstance(leaf, _CONSTANTS + (torch.device, torch.layout, torch.memory_format))
        return leaf.layout == torch.strided and leaf.numel() < LARGEST

    return all(fits(leaf) for leaf in tree_leaves(call))


class _Recorder(TorchDispatchMode):
    """Keeps some calls of each operator that a plan may hold."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[str, list[Call]] = {}

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kept = self.calls.setdefault(op.name(), [])
        call = (args, kwargs or {})
        if len(kept) < SAMPLES and op.namespace == "aten" and _is_sample(call):
            if not op._schema.is_mutable:
                kept.append(tree_map(_copy, call))
        return op(*args, **(kwargs or {}))


def _copy(leaf: Any) -> Any:
    """A tensor in memory of its own, whose elements lie there as they did."""
    if not isinstance(leaf, torch.Tensor):
        return leaf
    count = leaf.untyped_storage().nbytes() // leaf.element_size()
    if count > LARGEST:
        return leaf.detach().clone()
    all_of_it = leaf.detach().as_strided((count,), (1,), 0).clone()
    return all_of_it.as_strided(leaf.shape, leaf.stride(), leaf.storage_offset())


def samples() -> dict[str, list[Call]]:
    """Calls by operator that PyTorch's samples make, forward and backward."""
    from support.op_samples import op_db

    recorder = _Recorder()
    for op in op_db:
        real = torch.float32 in op.supported_dtypes("cpu")
        dtype = torch.float32 if real else torch.int64
        if dtype not in op.supported_dtypes("cpu") or op.name.startswith(("torch.ops", "_refs")):
            continue
        needs = real and op.supports_autograd
        inputs = op.sample_inputs("cpu", dtype, requires_grad=needs)
        for _, sample in zip(range(SAMPLES), inputs):
            try:
                with recorder:
                    given = op(sample.input, *sample.args, **sample.kwargs)
                    leaves = [t for t in tree_leaves(given) if isinstance(t, torch.Tensor)]
                    differentiable = [t for t in leaves if t.requires_grad]
                    if differentiable:
                        torch.autograd.backward(
                            differentiable, [torch.ones_like(t) for t in differentiable]
                        )
            except Exception:
                continue  # what the sample cannot do on this machine
    return {name: calls for name, calls in recorder.calls.items() if calls}


def _products(dtype: torch.dtype) -> dict[str, list[Call]]:
    """Two in a row of the same sizes share what oneDNN was asked for."""
    left, right, bias = (torch.rand(s).to(dtype) for s in ((6, 10), (10, 7), (7,)))
    batch = (torch.stack((left, left)), torch.stack((right, right)))
    add = [(bias, left, right), (bias[:1].expand(7), left, right)]
    found: dict[str, list[Call]] = {}
    for kernel in ("onednn", "onednn_linear", "onednn_primitive"):
        found[f"fsdp_mlir::mm.{kernel}"] = [((left, right), {}), ((left, right.clone()), {})]
        found[f"fsdp_mlir::addmm.{kernel}"] = [(args, {}) for args in add]
        if kernel != "onednn_linear":
            found[f"fsdp_mlir::bmm.{kernel}"] = [(batch, {})]
    return found


def _attention(dtype: torch.dtype) -> dict[str, list[Call]]:
    query = torch.rand(2, 5, 3, 8).to(dtype).transpose(1, 2)
    key, value = (torch.rand(2, 3, 9, 8).to(dtype) for _ in range(2))
    sums = torch.rand(2, 5, 3).transpose(1, 2)
    scale = {"attn_mask": None, "scale": 0.5}
    given = (query, query, key, value, query, sums, 0.0)
    attention = "fsdp_mlir::attention"
    return {
        f"{attention}.onednn_primitive": [
            ((query, key, value, 0.0, is_causal), scale) for is_causal in (False, True)
        ],
        f"{attention}_backward.onednn_primitive": [
            ((*given, is_causal), scale) for is_causal in (False, True)
        ],
    }


def own_samples() -> dict[str, list[Call]]:
    """Calls of the runtime's own operators for CPUs, in float32 and bfloat16."""
    own_operators.load()
    tensors = [torch.rand(7, 3), torch.rand(40).to(torch.bfloat16), torch.rand(5).double()]
    found: dict[str, list[Call]] = {
        "fsdp_mlir::power_sum": [((tensors, p), {}) for p in (1.0, 2.0, 3.0, 1e300)],
        "fsdp_mlir::linear_sum_assignment": [
            ((torch.rand(shape), maximize), {})
            for shape in ((5, 9), (9, 5))
            for maximize in (False, True)
        ],
        "fsdp_mlir::batched_nms": [
            ((torch.rand(40, 4), torch.rand(40), torch.arange(40) % 3, count, 0.1), {})
            for count in (None, torch.tensor(30))
        ],
    }
    for dtype in (torch.float32, torch.bfloat16):
        for name, calls in {**_products(dtype), **_attention(dtype)}.items():
            found.setdefault(name, []).extend(calls)
    return found


def _is_index(tensor: torch.Tensor) -> bool:
    return tensor.dtype in (torch.int64, torch.int32)


def _resized(tensor: torch.Tensor, shape: list[int]) -> torch.Tensor:
    if not _is_index(tensor):
        return torch.rand(shape).to(tensor.dtype)
    out = torch.zeros(shape, dtype=tensor.dtype)
    count = min(out.numel(), tensor.numel())
    out.view(-1)[:count] = tensor.reshape(-1)[:count]
    return out


def _other_shape(chosen: random.Random, shape: list[int]) -> list[int]:
    way = chosen.randrange(8)
    if way == 0 or not shape:
        return chosen.choice(([], [1], [2, *shape]))
    if way == 1:
        return shape[1:]
    at = chosen.randrange(len(shape))
    size = shape[at]
    sizes = (max(size - 1, 0), size // 2, 1, 0, size * 3, size + 1)
    return [*shape[:at], chosen.choice(sizes), *shape[at + 1 :]]


def _other_strides(chosen: random.Random, tensor: torch.Tensor) -> torch.Tensor:
    """The same shape in memory of another order, with gaps, or with one row for all."""
    way = chosen.randrange(3)
    if not tensor.dim():
        return tensor
    dim = chosen.randrange(tensor.dim())
    if way == 0:
        return tensor.transpose(0, dim).contiguous().transpose(0, dim)
    if way == 1:
        return tensor.narrow(dim, 0, min(tensor.shape[dim], 1)).expand_as(tensor)
    gaps = torch.stack((tensor, tensor), tensor.dim())
    return gaps.select(-1, chosen.randrange(2))


def change(chosen: random.Random, call: Call) -> Call:
    """A call with one or two of its arguments changed."""
    leaves, spec = tree_flatten(call)
    for _ in range(chosen.choice((1, 1, 1, 2))):
        fit = [i for i, leaf in enumerate(leaves) if type(leaf) in (int, torch.Tensor)]
        if not fit:
            break
        at = chosen.choice(fit)
        leaf = leaves[at]
        if isinstance(leaf, int):
            leaves[at] = chosen.choice(INTEGERS)
        elif chosen.random() < 0.15:
            leaves[at] = _other_strides(chosen, leaf)
        elif _is_index(leaf) and leaf.numel() and chosen.random() < 0.4:
            leaves[at] = leaf.clone()
            count = chosen.choice((1, leaf.numel()))
            leaves[at].view(-1)[:count] = min(
                chosen.choice(INDICES), int(torch.iinfo(leaf.dtype).max)
            )
        elif chosen.random() < 0.1:
            leaves[at] = leaf.to(chosen.choice(DTYPES))
        else:
            leaves[at] = _resized(leaf, _other_shape(chosen, list(leaf.shape)))
    return tree_unflatten(leaves, spec)  # type: ignore[no-any-return]


def _described(argument: Any) -> Any:
    """An argument as check_calls reads it."""
    if isinstance(argument, torch.Tensor):
        dtype = str(argument.dtype).removeprefix("torch.")
        known = {"tensor": list(argument.shape), "dtype": dtype}
        if _is_index(argument) and argument.numel():
            known.update(least=int(argument.min()), most=int(argument.max()))
        return known
    if isinstance(argument, torch.dtype):
        return {"dtype": str(argument).removeprefix("torch.")}
    if isinstance(argument, (torch.device, torch.layout, torch.memory_format)):
        return {}
    if not isinstance(argument, (list, tuple)):
        return argument
    if any(isinstance(member, torch.Tensor) for member in argument):
        return {"tensors": [_described(member) for member in argument]}
    if all(isinstance(member, bool) for member in argument) and argument:
        return {"truths": [int(member) for member in argument]}
    if all(type(member) is int for member in argument):
        return {"integers": list(argument)}
    return {"numbers": list(argument)}


def overload(name: str) -> Any:
    space, _, rest = name.partition("::")
    base, _, variant = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, space), base), variant or "default")


def _line(name: str, call: Call) -> str:
    args, kwargs = call
    arguments = []
    for i, argument in enumerate(overload(name)._schema.arguments):
        if "Generator" in str(argument.real_type):
            arguments.append({"site": 1})
        elif i < len(args) and not argument.kwarg_only:
            arguments.append(_described(args[i]))
        else:
            given = argument.name in kwargs
            arguments.append(_described(kwargs[argument.name]) if given else {})
    base, _, variant = name.partition(".")
    return json.dumps({"name": base, "overload": variant, "arguments": arguments})


def accepted(calls: list[tuple[str, Call]]) -> list[bool]:
    """Whether checker and executor let each call through."""
    text = "\n".join(_line(name, call) for name, call in calls)
    done = subprocess.run(
        [chain.binary("check_calls")], input=text, capture_output=True, text=True, check=True
    )
    return [not why for why in done.stdout.split("\n")[: len(calls)]]


def _run(calls: list[tuple[str, Call]], first: int, written: int) -> None:
    """Calls from the first on; says before each which it is."""
    ctypes.CDLL(str(chain.binary(GUARDS))).guard_tensors(1)
    for at in range(first, min(first + FORKED, len(calls))):
        os.write(written, struct.pack("<I", at))
        name, call = calls[at]
        args, kwargs = tree_map(_copy, call)
        signal.alarm(CALL_TIMEOUT_S)
        try:
            overload(name)(*args, **kwargs)
        except Exception:
            pass  # it refuses its operands
        signal.alarm(0)


def _fork(calls: list[tuple[str, Call]], first: int) -> tuple[int, int]:
    """The signal that ended a process which called some, and its last call."""
    read, written = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1), os.dup2(silent, 2)
        _run(calls, first, written)
        os._exit(0)
    os.close(written)
    with os.fdopen(read, "rb") as file:
        said = file.read()
    _, status = os.waitpid(child, 0)
    ended = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    return ended, struct.unpack("<I", said[-4:])[0]


def crashes(calls: list[tuple[str, Call]]) -> Iterator[tuple[int, int]]:
    """The calls that end their process, and by which signal. A call that takes long is none."""
    first = 0
    while first < len(calls):
        ended, last = _fork(calls, first)
        if ended not in (0, signal.SIGALRM):
            yield last, ended
        first = last + 1


def check(
    per_operator: int, only: Optional[list[str]] = None, seed: int = 0, own: bool = False
) -> list[str]:
    """A line for each call that the checker accepts and whose kernel leaves its operands. `own`:
    of the runtime's operators, in an order by chance."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    warnings.filterwarnings("ignore")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    calls, found = [], own_samples() if own else samples()
    for name in sorted(only or found):
        for i in range(per_operator):
            chosen = random.Random(f"{name} {i} {seed}")
            try:
                calls.append((name, change(chosen, chosen.choice(found[name]))))
            except (RuntimeError, TypeError):
                continue  # a shape that no tensor has
    if own:
        random.Random(seed).shuffle(calls)
    kept = [call for call, fits in zip(calls, accepted(calls)) if fits]
    print(f"{len(calls)} calls of {len(set(n for n, _ in calls))} operators, {len(kept)} accepted")
    with torch.no_grad():
        return [f"{kept[i][0]}: signal {ended}: {_line(*kept[i])}" for i, ended in crashes(kept)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=20, help="of each operator")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--own", action="store_true", help="the runtime's operators")
    parser.add_argument("--only", nargs="*", help="operators, such as aten::mm")
    flags = parser.parse_args()
    if GUARDS not in os.environ.get("LD_PRELOAD", ""):
        preload = {**os.environ, "LD_PRELOAD": str(chain.binary(GUARDS))}
        os.execve(sys.executable, [sys.executable, *sys.argv], preload)
    found = check(flags.calls, flags.only, flags.seed, flags.own)
    print("\n".join(found))
    print(f"{len(found)} calls leave their operands")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
