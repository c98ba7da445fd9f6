"""Tests that what a run has besides its steps knows of turns: checkpoints on other ranks and for
PyTorch, TensorBoard, traces, the report, GPUs."""

from __future__ import annotations

import json
import pathlib
import shutil
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from fsdp_mlir.checkpoint import load, save
from fsdp_mlir.checkpoint.command_line import main as checkpoint_command
from fsdp_mlir.checkpoint.reader import open_checkpoint
from fsdp_mlir.report.__main__ import main as report
from support import chain
from support.trace import Trace

from .conftest import Compile
from .turns_step import fresh

LOSSES = ("loss", "loss.discriminator", "loss.generator")
LAYOUTS = ("dim0", "flat")


def train(compiled: chain.Compiled, ranks: int, *flags: Any, steps: int) -> chain.Result:
    return chain.run_plan(compiled, ranks, steps=steps, extra=flags)


def losses(result: chain.Result) -> list[list[float]]:
    return [[row[name] for name in LOSSES] for row in result.metrics if "loss" in row]


def same(one: chain.Result, other: chain.Result) -> bool:
    return all(torch.equal(other.weights[name], value) for name, value in one.weights.items())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_two_ranks_go_on_bit_by_bit(
    layout: str, compile_turns: Compile, tmp_path: pathlib.Path
) -> None:
    compiled = compile_turns(f"mesh=2 shard-layout={layout}", "--data")
    whole = train(compiled, 2, steps=6)
    folder = ("--checkpoint-dir", tmp_path)
    begin = losses(train(compiled, 2, *folder, steps=3))
    rest = train(compiled, 2, *folder, "--resume", "auto", steps=6)
    assert begin + losses(rest) == losses(whole)
    assert same(whole, rest)


def contents(path: pathlib.Path) -> dict[str, bytes]:
    """Each tensor of a checkpoint; of what each rank has, rank 0's."""
    with open_checkpoint(path) as checkpoint:
        tensors = checkpoint.manifest.tensors
        return {tensor.name: checkpoint.read(tensor).tobytes() for tensor in tensors}


@pytest.mark.parametrize("layouts", (LAYOUTS, LAYOUTS[::-1]), ids=" then ".join)
def test_states_come_back_from_other_ranks(
    layouts: tuple[str, str], compile_turns: Compile, tmp_path: pathlib.Path
) -> None:
    """From two ranks to one and back; nothing is trained on the way."""
    from_here: tuple[Any, ...] = ()
    for name, ranks, layout in (("first", 2, 0), ("one", 1, 1), ("back", 2, 1)):
        compiled = compile_turns(f"mesh={ranks} shard-layout={layouts[layout]}", "--data")
        train(compiled, ranks, "--checkpoint-dir", tmp_path / name, *from_here, steps=3)
        from_here = ("--resume", tmp_path / name)
    assert contents(tmp_path / "first") == contents(tmp_path / "one") == contents(tmp_path / "back")


def command(*arguments: Any) -> int:
    return checkpoint_command([str(argument) for argument in arguments])


@pytest.fixture
def kept(compile_turns: Compile, tmp_path: pathlib.Path) -> tuple[chain.Compiled, pathlib.Path]:
    """A run of one rank, and its checkpoint after three steps."""
    compiled = compile_turns("mesh=1", "--data")
    train(compiled, 1, "--checkpoint-dir", tmp_path / "run", steps=3)
    return compiled, tmp_path / "run"


def assert_has(model: torch.nn.Module, optimizers: dict[str, Any], path: pathlib.Path) -> None:
    """The values of a checkpoint after three steps, in the model and in both optimizers."""
    own = dict(model.state_dict())
    for optimizer in optimizers.values():
        for name, parameter in model.named_parameters():
            for key, value in optimizer.state.get(parameter, {}).items():
                if key == "step":
                    assert value == 3
                else:
                    own[f"{name}/{key}"] = value
    with open_checkpoint(path) as checkpoint:
        stored = {t.name: checkpoint.tensor(t) for t in checkpoint.manifest.tensors}
    assert own.keys() == stored.keys()
    for name, value in stored.items():
        assert torch.equal(own[name], value), name


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_a_distributed_checkpoint_has_both_optimizers(
    kept: tuple[chain.Compiled, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    """Of different classes; and it comes back as it was."""
    compiled, path = kept
    archive = ("--archive", compiled.archive)
    assert command("export", path, "--to", "dcp", *archive, "-o", tmp_path / "dcp") == 0
    model, optimizers = fresh()
    both = list(optimizers.values())
    state = dict(zip(("model", "optim"), get_state_dict(model, both)))
    dcp.load(state, checkpoint_id=tmp_path / "dcp", no_dist=True)
    set_state_dict(model, both, model_state_dict=state["model"], optim_state_dict=state["optim"])
    assert_has(model, optimizers, path)
    assert optimizers["generator"].param_groups[0]["betas"] == (0.5, 0.99)
    assert optimizers["discriminator"].param_groups[0]["momentum"] == 0.9

    flags = ("--from", "dcp", *archive, "-o", tmp_path / "made")
    assert command("import", tmp_path / "dcp", *flags) == 0
    assert contents(tmp_path / "made") == contents(path)
    whole = train(compiled, 1, steps=6)
    rest = train(compiled, 1, "--resume", tmp_path / "made", steps=6)
    assert losses(rest) == losses(whole)[3:]


def test_scripts_load_and_save_both_optimizers(
    kept: tuple[chain.Compiled, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    _, path = kept
    model, optimizers = fresh()
    assert load(path, model, list(optimizers.values())) == 3
    assert_has(model, optimizers, path)
    save(tmp_path / "saved", model, list(optimizers.values()), 3)
    assert contents(tmp_path / "saved") == contents(path)


def test_other_formats_have_the_weights(
    kept: tuple[chain.Compiled, pathlib.Path],
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of a file of torch.save, which has one optimizer's state, the error says what has them."""
    compiled, path = kept
    assert command("export", path, "--to", "safetensors", "-o", tmp_path / "hf") == 0
    model, _ = fresh()
    model.load_state_dict(load_file(tmp_path / "hf" / "model.safetensors"))
    to_torch = ("export", path, "--to", "torch", "--archive", compiled.archive)
    assert command(*to_torch, "-o", tmp_path / "out.pt") == 1
    assert "the optimizers sgd, adamw, and a file of torch.save" in capsys.readouterr().err
    assert command(*to_torch, "--no-optimizer", "-o", tmp_path / "out.pt") == 0
    saved = torch.load(tmp_path / "out.pt", weights_only=True)["model"]
    assert all(torch.equal(saved[name], value) for name, value in model.state_dict().items())


def test_what_is_watched_has_each_turn(compile_turns: Compile, tmp_path: pathlib.Path) -> None:
    """TensorBoard, the trace and the page of the report."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    compiled = compile_turns("mesh=2", "--data", "--clip", "1.0")
    trace = tmp_path / "trace.json"
    result = train(compiled, 2, "--tensorboard", tmp_path / "events", "--trace", trace, steps=4)
    reader = EventAccumulator(str(tmp_path / "events"))
    reader.Reload()
    for name in (*LOSSES[1:], "grad_norm.discriminator", "grad_norm.generator"):
        expected = [row[name] for row in result.metrics]
        assert [event.value for event in reader.Scalars(name)] == pytest.approx(expected), name

    traced = Trace.load(trace)
    rank = traced.process("rank 0")
    assert [step.args["step"] for step in traced.track(rank, "steps")] == [3, 3, 4, 4]
    names = " ".join(command.name for _, command in traced.commands(rank))
    assert "generator" in names and "discriminator" in names

    shutil.copyfile(compiled.plan, tmp_path / "step.plan")
    rows = [json.dumps(row) + "\n" for row in result.metrics]
    (tmp_path / "metrics.jsonl").write_text("".join(rows))
    assert report([str(tmp_path)]) == 0
    page = (tmp_path / "report.html").read_text()
    for turn in ("discriminator", "generator"):
        assert page.count(turn) > 1, turn


@pytest.mark.parametrize("pipeline", ("schedule=overlap", "schedule=overlap offload=optimizer"))
def test_gpus_take_turns_with_the_same_bits(pipeline: str, compile_turns: Compile) -> None:
    """On imitated ones: two ranks as threads, and one whose steps are graphs."""
    chain.imitated_gpus()

    def on_gpus(ranks: int, options: str, *flags: Any) -> chain.Result:
        compiled = compile_turns(f"mesh={ranks} device=cuda {options}", "--data")
        program = "imitated/fsdp-run"
        return chain.run_plan(compiled, ranks, steps=4, extra=flags, poison=False, program=program)

    plain = "schedule=naive shard-layout=dim0"
    for ranks in (1, 2):
        one, other = on_gpus(ranks, plain), on_gpus(ranks, pipeline)
        assert losses(one) == losses(other) and same(one, other)
    graph = on_gpus(1, "schedule=overlap", "--cuda-graph")
    assert losses(graph) == losses(on_gpus(1, plain))
