"""PyTorch's training loops: each makes everything, and returns a function that takes one step and
returns its loss, which on a GPU is there a step later."""

from __future__ import annotations

import json
import zipfile
from typing import Any, Callable, Iterator, Union

import torch
import torch.distributed as dist

from support.reference import batches, load_step

Advance = Callable[[], Union[float, torch.Tensor]]
BATCHES = 64
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def _load(task: dict[str, Any]) -> tuple[Any, Iterator[dict[str, torch.Tensor]]]:
    """The step, and its batches: made beforehand, so that choosing samples costs no time."""
    torch.set_num_threads(1)
    if task["device"] == "cuda":
        torch.cuda.set_device(task["rank"] % torch.cuda.device_count())
    step = load_step(task["step_file"], task["flags"])
    feed = (
        {name: tensor.to(task["device"]) for name, tensor in batch.items()}
        for batch in batches(step, task["rank"], task["ranks"])
    )
    ready = [next(feed) for _ in range(BATCHES)]

    def endless() -> Iterator[dict[str, torch.Tensor]]:
        yield from ready
        yield from feed

    torch.manual_seed(step.seed)
    return step, endless()


def _group(task: dict[str, Any]) -> None:
    store = dist.FileStore(task["store"], task["ranks"])
    backend = "nccl" if task["device"] == "cuda" else "gloo"
    dist.init_process_group(backend, store=store, rank=task["rank"], world_size=task["ranks"])


def _train(step: Any, model: Any, feed: Iterator[dict[str, torch.Tensor]]) -> Advance:
    launched: list[torch.cuda.Event] = []

    def advance() -> Union[float, torch.Tensor]:
        batch = next(feed)
        step.optimizer.zero_grad()
        loss = step.loss(model, **batch)
        loss.backward()
        step.optimizer.step()
        if not loss.is_cuda:
            return loss.item()
        # The host is a step ahead of the GPU, as with a plan, and no further.
        launched.append(torch.cuda.Event())
        launched[-1].record()
        if len(launched) > 1:
            launched.pop(0).synchronize()
        return loss.detach()

    return advance


def eager(task: dict[str, Any]) -> Advance:
    """Unsharded; each rank trains a model of its own."""
    step, feed = _load(task)
    return _train(step, step.model, feed)


def ddp(task: dict[str, Any]) -> Advance:
    _group(task)
    step, feed = _load(task)
    return _train(step, torch.nn.parallel.DistributedDataParallel(step.model), feed)


def _gather_matrices() -> None:
    """Makes Muon work with parts of matrices, with as little communication as FSDP2 allows: the
    momentum stays with a rank's rows, and what Newton's and Schulz's iteration reads of it is
    gathered, in its bfloat16; each rank iterates on the whole matrix."""
    from torch.distributed.tensor import DTensor, distribute_tensor
    from torch.optim import _muon

    iterate = _muon._zeropower_via_newtonschulz

    def gathered(update: torch.Tensor, *numbers: Any) -> torch.Tensor:
        if not isinstance(update, DTensor):
            return iterate(update, *numbers)
        whole = iterate(update.bfloat16().full_tensor(), *numbers)
        # All ranks have the same bits: nothing is to be sent.
        return distribute_tensor(whole, update.device_mesh, update.placements, src_data_rank=None)

    _muon._zeropower_via_newtonschulz = gathered


def _gather_for_adafactor() -> None:
    """Makes Adafactor work with parts of parameters: each rank gathers every gradient, updates whole
    parameters of its own, which all ranks have alike, and keeps its rows of them."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    own_step = torch.optim.Adafactor.step
    wholes: dict[torch.Tensor, torch.Tensor] = {}

    @torch.no_grad()
    def step(self: torch.optim.Adafactor, closure: Any = None) -> None:
        parts = [group["params"] for group in self.param_groups]
        for part in (part for group in parts for part in group if isinstance(part, DTensor)):
            if part not in wholes:
                wholes[part] = torch.nn.Parameter(part.full_tensor().clone())
            wholes[part].grad = part.grad.full_tensor()
        for group in self.param_groups:
            group["params"] = [wholes.get(part, part) for part in group["params"]]
        own_step(self)
        for group, own in zip(self.param_groups, parts):
            group["params"] = own
        for part, whole in wholes.items():
            rows = distribute_tensor(
                whole.detach(), part.device_mesh, part.placements, src_data_rank=None
            )
            part.copy_(rows)

    torch.optim.Adafactor.step = step


def _fsdp2(compiled: bool, reshard: bool) -> Callable[[dict[str, Any]], Advance]:
    """Each block is a unit, and compiled as a graph of its own; the root takes the rest."""

    def loop(task: dict[str, Any]) -> Advance:
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        _group(task)
        _gather_matrices()
        _gather_for_adafactor()
        step, feed = _load(task)
        name_of = {id(p): name for name, p in step.model.named_parameters()}
        policy: dict[str, Any] = {} if reshard else {"reshard_after_forward": False}
        if task["precision"]:
            policy["mp_policy"] = MixedPrecisionPolicy(DTYPES[task["precision"]], torch.float32)
        for block in getattr(step.model, "blocks", ()):
            if compiled:
                block.compile(fullgraph=True)
            fully_shard(block, **policy)
        fully_shard(step.model, **policy)
        # The optimizer was made for the whole parameters; it has no state yet.
        sharded = dict(step.model.named_parameters())
        for group in step.optimizer.param_groups:
            group["params"] = [sharded[name_of[id(p)]] for p in group["params"]]
        return _train(step, step.model, feed)

    return loop


def graph(task: dict[str, Any]) -> Advance:
    """The exported step by TorchScript's interpreter, without autograd, and an optimizer over half
    of the elements in one piece: what two ranks cannot do without. Weights do not change."""
    from safetensors.torch import load_file

    torch.set_num_threads(1)
    archive = task["archive"]
    with zipfile.ZipFile(archive) as records:
        name = next(name for name in records.namelist() if name.endswith("fsdp.json"))
        description = json.loads(records.read(name))
    # Operator by operator as captured: nothing is fused or removed.
    torch._C._jit_set_profiling_executor(False)
    torch._C._set_graph_executor_optimize(False)
    run = torch.jit.load(archive).step
    _, feed = _load(task)
    tensors = load_file(task["weights"])
    arguments = description["programs"]["step"]["arguments"]

    def value(argument: dict[str, Any], batch: dict[str, torch.Tensor]) -> torch.Tensor:
        role, fqn = argument["role"], argument.get("fqn")
        if role == "cotangent":
            return torch.ones(())
        if role == "input":
            return batch[fqn]
        return tensors.get(fqn, tensors.get(f"fsdp.buffer.{fqn}"))

    elements = sum(
        torch.Size(parameter["shape"]).numel() for parameter in description["parameters"]
    )
    half = torch.nn.Parameter(torch.zeros((elements + 1) // 2))
    half.grad = torch.zeros_like(half)
    optimizer = torch.optim.AdamW([half], fused=True)

    def advance() -> float:
        batch = next(feed)
        with torch.inference_mode():
            results = run(*[value(argument, batch) for argument in arguments])
        loss = results[0].item()
        del results
        optimizer.step()
        return loss

    return advance


LOOPS: dict[str, Callable[[dict[str, Any]], Advance]] = {
    "eager": eager,
    "ddp": ddp,
    "fsdp2": _fsdp2(compiled=False, reshard=True),
    "fsdp2-zero2": _fsdp2(compiled=False, reshard=False),
    "fsdp2-compile": _fsdp2(compiled=True, reshard=True),
    "graph": graph,
}
