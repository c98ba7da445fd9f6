"""A script whose model and batches are on a GPU, as torch.cuda has it."""

from __future__ import annotations

import itertools
import pathlib
import sys
import tempfile
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import torch
from safetensors.torch import load_file

import fsdp_mlir
from fsdp_mlir.errors import ExportNote
from fsdp_mlir.export import export_step
from training.loop import calls
from training.loop.step import Model, squares

warnings.simplefilter("error")
plan, weights, graph = sys.argv[1:]
own = torch.cuda.Stream()
torch.cuda.set_stream(own)
folder = pathlib.Path(tempfile.mkdtemp())

with fsdp_mlir.load(plan, weights, cuda_graph=bool(graph)) as run:
    for batch in itertools.islice(calls.batches(), 4):
        run(batch)
        run({name: tensor.cuda() for name, tensor in batch.items()})
        assert torch.cuda.current_stream() == own
        torch.ones(3, device="cuda").sum().item()  # waits, which is no news to a script
    evaluated = [run.eval(batch), run.eval({name: t.cuda() for name, t in batch.items()})]
    assert all(torch.equal(one["label"], batch["y"]) for one in evaluated)

    states = run.state_dict(optimizer=True)
    assert states["first.weight"].device == torch.device("cuda", 0)
    assert states["state.first.weight.exp_avg"].is_cuda
    given = torch.randn(9, 6)
    run.load_state_dict({"first.weight": given})
    assert torch.equal(states["first.weight"].cpu(), given)  # it is a view
    other = torch.randn(9, 6)
    states["first.weight"].copy_(other.cuda())
    run.save(folder / "saved.safetensors")
    assert torch.equal(load_file(folder / "saved.safetensors")["first.weight"], other)

    for model in (Model(), Model().cuda()):
        run.copy_to(model)
        assert torch.equal(model.first.weight.detach().cpu(), other)
    run.checkpoint(folder / "checkpoints")
    try:
        run({"x": torch.empty(4, 6, device="meta"), "y": batch["y"]})
    except fsdp_mlir.BatchError as error:
        assert "is on meta, and the plan runs on cuda:0; give it with .cpu()" in str(error)

with fsdp_mlir.load(plan, weights, resume=folder / "checkpoints") as resumed:
    assert resumed.step == 8
    assert torch.equal(resumed.state_dict()["first.weight"].cpu(), other)
assert torch.equal(states["first.weight"].cpu(), other)  # it stays


def exported(device: str) -> tuple[bytes, list[str]]:
    """The weights, and what is said, of a step whose model and batch are on a device."""
    torch.manual_seed(0)
    model = Model().to(device)
    gradient = model.first.weight.grad = torch.ones_like(model.first.weight)
    inputs = {name: tensor.to(device) for name, tensor in batch.items()}
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", ExportNote)
        step = fsdp_mlir.TrainingStep(model, squares, optimizer, inputs)
        archive, weights = export_step(step, folder / f"{device}.pt")
    assert {tensor.device.type for tensor in (*model.parameters(), *step.inputs.values())} == {
        device
    }
    assert model.first.weight.grad is gradient
    return weights.read_bytes(), [str(note.message) for note in said]


assert exported("cpu") == (exported("cuda")[0], [])
assert "is exported from a copy on the CPU" in exported("cuda")[1][0]
print("all as it was")
