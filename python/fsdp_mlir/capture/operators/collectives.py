"""A step's own collectives: `torch.distributed` as code finds it on each rank of a plan.

All of them are made of one operator, the sum over all ranks, and of this rank's number. What ranks
gather is the sum of tensors that have a place for each rank, of which each rank fills its own.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from typing import Any, Callable, Iterator, NoReturn, Optional, Sequence
from unittest import mock

import torch
import torch.distributed.nn
from torch import distributed
from torch.distributed import _functional_collectives as functional
from torch.distributed import distributed_c10d
from torch.nn.modules.batchnorm import SyncBatchNorm, _BatchNorm

from ...errors import E, ExportError
from ..graph import own_operators
from ..values.decisions import ask
from ..values.python_numbers import as_symbol
from ..values.replaced_names import ReplacedNames

Tensor = torch.Tensor


class Ranks:
    """The ranks that a step is captured for.

    Attributes:
        count: how many there are; None: nobody has said it.
        computed: whether the step computes with their number.
        numbered: whether its code asks for this rank's number.
        number: what the run that is traced is told of that; None: a number that is a value.
    """

    def __init__(self, count: Optional[int]) -> None:
        self.count = count
        self.computed = self.numbered = False
        self.number: Optional[int] = None


_captured_for: list[Ranks] = []


@contextlib.contextmanager
def collectives_of(ranks: Ranks) -> Iterator[None]:
    """Within it, code finds a process group of these ranks, whose number is known."""
    _captured_for.append(ranks)
    try:
        with (
            _EVERYWHERE.replaced(),
            mock.patch.object(SyncBatchNorm, "forward", _synchronised),
        ):
            yield
    finally:
        _captured_for.pop()


# What a rank knows of itself and of the others


@torch._dynamo.assume_constant_result
def _count() -> int:
    (ranks,) = _captured_for[-1:]
    assert ranks.count is not None
    ranks.computed = True
    return ranks.count


def _is_initialized() -> bool:
    return True


def _get_world_size(group: Any = None) -> int:
    _require_all(group)
    return _count()


def _get_rank(group: Any = None) -> int:
    _require_all(group)
    number = _told_number()
    if number is not None:
        return number
    rank = own_operators.rank()
    return rank.item() if torch.compiler.is_dynamo_compiling() else as_symbol(rank)


@torch._dynamo.assume_constant_result
def _told_number() -> Optional[int]:
    (ranks,) = _captured_for[-1:]
    ranks.numbered = True
    return ranks.number


def asked_number(ranks: Ranks, line: str) -> int:
    """This rank's number, as a decision of the step's that its code on a line is in need of."""
    assert ranks.count is not None
    rank, last = own_operators.rank(), ranks.count - 1
    return next((number for number in range(last) if ask(rank.eq(number), line)), last)


def _get_backend(group: Any = None) -> str:
    _require_all(group)
    return "gloo"


def _require_all(group: Any) -> None:
    if group is not None:
        raise _refused("a group of some ranks (group=)")


def _refused(what: str) -> ExportError:
    return ExportError(
        E.OPERATOR_REFUSED,
        f"the step communicates by {what}; it may sum, average, multiply, gather, scatter sums and broadcast "
        "among all ranks, and take the largest and the least",
    )


def _get_default_group() -> NoReturn:
    """Stands for what functions of PyTorch begin with that have nothing in their place here."""
    raise _refused(f"torch.distributed.{sys._getframe(1).f_code.co_name}")


# What all others are made of


def _sum(own: Tensor) -> Tensor:
    if own.dtype == torch.bool:
        raise _refused("a sum of truth values")
    return own_operators.sum_over_ranks(own.contiguous())


def _gathered(own: Tensor) -> Tensor:
    """All ranks' tensors, one behind the other in a new first dimension."""
    if own.dtype == torch.bool:
        return _gathered(own.to(torch.uint8)).to(torch.bool)
    # To -0.0 any number can be added without a change.
    empty = 0 if not (own.is_floating_point() or own.is_complex()) else -0.0
    places = own.new_full((_count(), *own.shape), empty)
    return _sum(places.index_copy(0, own_operators.rank().reshape(1), own[None]))


def _own_part(parts: Tensor) -> Tensor:
    """This rank's part of what has one for each rank."""
    return parts.index_select(0, own_operators.rank().reshape(1))[0]


def _reduced(own: Tensor, op: Any) -> Tensor:
    # By its name, where it has one: Dynamo does not compare members of ReduceOp.
    name = op if isinstance(op, str) else str(op).rpartition(".")[2].lower()
    if name == "sum":
        return _sum(own)
    if name == "avg":
        return _sum(own) / _count()
    if name == "product":
        return _gathered(own).prod(0)
    if name == "max":
        return _gathered(own).amax(0)
    if name == "min":
        return _gathered(own).amin(0)
    raise _refused(f"the reduction {name}")


class _Done:
    """What a collective gives that was asked not to wait."""

    def wait(self, *_: Any) -> bool:
        return True

    def is_completed(self) -> bool:
        return True


def _put(into: Tensor, values: Tensor, is_asynchronous: bool) -> Optional[_Done]:
    """Collectives in place have no gradient: that of the tensor they change stays as it was."""
    with torch.no_grad():
        into.copy_(values.reshape(into.shape))
    return _Done() if is_asynchronous else None


# Those of torch.distributed, in place


def _all_reduce(tensor: Tensor, op: Any = "sum", group: Any = None, async_op: bool = False) -> Any:
    _require_all(group)
    return _put(tensor, _reduced(tensor.detach(), op), async_op)


def _reduce(
    tensor: Tensor,
    dst: Optional[int] = None,
    op: Any = "sum",
    group: Any = None,
    async_op: bool = False,
    group_dst: Optional[int] = None,
) -> Any:
    _require_all(group)
    own, root = tensor.detach(), _root(dst, group_dst)
    here = own_operators.rank() == root
    return _put(tensor, torch.where(here, _reduced(own, op), own), async_op)


def _broadcast(
    tensor: Tensor,
    src: Optional[int] = None,
    group: Any = None,
    async_op: bool = False,
    group_src: Optional[int] = None,
) -> Any:
    _require_all(group)
    return _put(tensor, _gathered(tensor.detach())[_root(src, group_src)], async_op)


def _root(of_all: Optional[int], of_group: Optional[int]) -> int:
    root = of_all if of_all is not None else of_group or 0
    if not 0 <= root < _count():
        raise _refused(f"a rank {root} of {_count()}")
    return root


def _all_gather(
    tensor_list: Sequence[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False
) -> Any:
    _require_all(group)
    for into, part in zip(tensor_list, _gathered(tensor.detach()).unbind()):
        _put(into, part, False)
    return _Done() if async_op else None


def _all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Any:
    _require_all(group)
    return _put(output_tensor, _gathered(input_tensor.detach()), async_op)


def _reduce_scatter_tensor(
    output: Tensor,
    input: Tensor,
    op: Any = "sum",
    group: Any = None,
    async_op: bool = False,
) -> Any:
    _require_all(group)
    parts = _reduced(input.detach(), op).reshape(_count(), *output.shape)
    return _put(output, _own_part(parts), async_op)


def _reduce_scatter(
    output: Tensor,
    input_list: Sequence[Tensor],
    op: Any = "sum",
    group: Any = None,
    async_op: bool = False,
) -> Any:
    return _reduce_scatter_tensor(output, torch.stack(list(input_list)), op, group, async_op)


def _barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Any:
    _require_all(group)
    return _Done() if async_op else None


# Those with gradients


def _differentiable_all_reduce(tensor: Tensor, op: Any = "sum", group: Any = None) -> Tensor:
    _require_all(group)
    return _reduced(tensor, op)


def _differentiable_all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    _require_all(group)
    return _gathered(tensor).unbind()


def _differentiable_broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    _require_all(group)
    return _gathered(tensor)[_root(src, None)]


# Those that give a new tensor


def _functional_all_reduce(self: Tensor, reduceOp: str, group: Any, tag: str = "") -> Tensor:
    _require_all(group)
    return _reduced(self, reduceOp)


def _functional_all_gather(self: Tensor, gather_dim: int, group: Any, tag: str = "") -> Tensor:
    _require_all(group)
    return torch.cat(_gathered(self).unbind(), gather_dim)


def _functional_reduce_scatter(
    self: Tensor, reduceOp: str, scatter_dim: int, group: Any, tag: str = ""
) -> Tensor:
    _require_all(group)
    return _own_part(torch.stack(_reduced(self, reduceOp).chunk(_count(), scatter_dim)))


def _wait_tensor(tensor: Tensor) -> Tensor:
    return tensor


_FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    distributed_c10d._get_default_group: _get_default_group,
    distributed.is_initialized: _is_initialized,
    distributed.get_world_size: _get_world_size,
    distributed.get_rank: _get_rank,
    distributed.get_backend: _get_backend,
    distributed.all_reduce: _all_reduce,
    distributed.reduce: _reduce,
    distributed.broadcast: _broadcast,
    distributed.all_gather: _all_gather,
    distributed.all_gather_into_tensor: _all_gather_into_tensor,
    distributed.reduce_scatter: _reduce_scatter,
    distributed.reduce_scatter_tensor: _reduce_scatter_tensor,
    distributed.barrier: _barrier,
    distributed.nn.functional.all_reduce: _differentiable_all_reduce,
    distributed.nn.functional.all_gather: _differentiable_all_gather,
    distributed.nn.functional.broadcast: _differentiable_broadcast,
    functional.all_reduce: _functional_all_reduce,
    functional.all_gather_tensor: _functional_all_gather,
    functional.all_gather_tensor_autograd: _functional_all_gather,
    functional.reduce_scatter_tensor: _functional_reduce_scatter,
    functional.reduce_scatter_tensor_autograd: _functional_reduce_scatter,
    functional.wait_tensor: _wait_tensor,
}
_EVERYWHERE = ReplacedNames(_FUNCTIONS.items())


# Batch norms


def _synchronised(self: Any, input: Tensor) -> Tensor:
    """Stands for `SyncBatchNorm.forward`, whose kernels are for GPUs alone. As there, statistics of half
    precision's numbers are in float32."""
    if not self.training or _captured_for[-1].count == 1:
        return _BatchNorm.forward(self, input)
    _require_all(self.process_group)
    self._check_input_dim(input)
    self._check_non_zero_input_channels(input)
    is_half = input.dtype in (torch.float16, torch.bfloat16)
    x = input.float() if is_half else input
    dims = [0, *range(2, x.dim())]
    variance, mean = torch.var_mean(x, dims, correction=0)
    means, variances = _gathered(torch.stack((mean, variance))).unbind(1)
    mean = means.mean(0)
    variance = (variances + (means - mean).square()).mean(0)
    if self.track_running_stats:
        _track(self, mean.detach(), variance.detach(), _count() * x.numel() // x.shape[1])
    of_channels = functools.partial(torch.reshape, shape=(-1, *[1] * (x.dim() - 2)))
    result = (x - of_channels(mean)) * of_channels((variance + self.eps).rsqrt())
    if self.weight is not None:
        result = result * of_channels(self.weight) + of_channels(self.bias)
    return result.to(input.dtype)


def _track(norm: Any, mean: Tensor, variance: Tensor, samples: int) -> None:
    """Adds the statistics of so many samples of each channel to the running ones."""
    with torch.no_grad():
        norm.num_batches_tracked.add_(1)
        share: Any = norm.momentum
        if share is None:  # the average of all batches so far
            share = 1.0 / norm.num_batches_tracked.double()
        unbiased = variance * (samples / (samples - 1))
        for running, batch in ((norm.running_mean, mean), (norm.running_var, unbiased)):
            running.copy_(running * (1 - share) + batch * share)
