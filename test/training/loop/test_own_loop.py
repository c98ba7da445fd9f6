"""Tests that a loop of one's own on one rank trains to the bits of fsdp-run."""

from __future__ import annotations

import copy
import itertools
import math
import pathlib
import signal
import threading
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch.utils.data import DataLoader

import fsdp_mlir
from fsdp_mlir.data.loader_errors import describe
from support import chain
from support.freed import freed

from . import calls, step
from .conftest import Compile

STEPS = 15  # more than an epoch


def load(compiled: chain.Compiled, **options: Any) -> fsdp_mlir.Run:
    return fsdp_mlir.load(compiled.plan, compiled.weights, **options)


@pytest.mark.quick
@pytest.mark.parametrize("layout", ("dim0", "flat"))
@pytest.mark.parametrize("micro_batches", (1, 2))
def test_a_loop_has_the_bits_of_fsdp_run(
    layout: str, micro_batches: int, compile_step: Compile, tmp_path: pathlib.Path
) -> None:
    compiled = compile_step(f"mesh=1 shard-layout={layout}", "--accumulate", str(micro_batches))
    expected = chain.run_plan(compiled, 1, steps=STEPS)
    with load(compiled) as run:
        feed = calls.batches(micro_batches)
        losses = [run(batch).item() for batch in itertools.islice(feed, STEPS)]
        assert run.step == STEPS
        assert losses == expected.losses
        assert run.metrics["accuracy"] == expected.metrics[-1]["accuracy"]
        run.save(tmp_path / "saved.safetensors")
        with pytest.warns(RuntimeWarning, match="safetensors file, which torch.load does not read"):
            run.save(tmp_path / "saved.pt")
        states = run.state_dict()
    assert states.keys() == expected.weights.keys()
    saved = load_file(tmp_path / "saved.safetensors")
    for name, value in expected.weights.items():
        assert torch.equal(saved[name], value), name
        assert torch.equal(states[name], value), name


def test_micro_batches_may_be_given_one_by_one(compile_step: Compile) -> None:
    compiled = compile_step("mesh=1", "--accumulate", "2")
    together = next(calls.batches(2))
    halves = [{name: t[part] for name, t in together.items()} for part in (slice(4), slice(4, 8))]
    with load(compiled) as run:
        expected = run(together)
    with load(compiled) as run:
        with pytest.raises(fsdp_mlir.BatchError, match="give the 2 micro-batches in a list, or as"):
            run(halves[0])
        assert run(halves) == expected


def test_tensors_that_are_not_row_major_are_copied(compile_step: Compile) -> None:
    compiled = compile_step("mesh=1")
    batch = next(calls.batches())
    with load(compiled) as run:
        expected = run(batch)
    batch["x"] = batch["x"].t().contiguous().t()
    assert not batch["x"].is_contiguous()
    with load(compiled) as run:
        assert run(batch) == expected


def test_an_evaluation_has_the_bits_of_fsdp_run(
    compile_step: Compile, tmp_path: pathlib.Path
) -> None:
    compiled = compile_step("mesh=1")
    extra = ["--eval-data", compiled.eval_data, "--eval-outputs", tmp_path / "outputs.safetensors"]
    (row,) = [
        row
        for row in chain.run_plan(compiled, 1, steps=3, extra=extra).metrics
        if "eval_loss" in row
    ]
    data = calls.samples()
    with load(compiled) as run:
        for batch in itertools.islice(calls.batches(), 3):
            run(batch)
        parts = [
            run.eval({name: tensor[i : i + 4] for name, tensor in data.items()})
            for i in range(0, len(data["y"]), 4)
        ]
        model = step.Model().eval()
        model.load_state_dict(run.state_dict())
    for name in ("loss", "accuracy", "largest"):
        assert sum(part[name] for part in parts) / len(parts) == row[f"eval_{name}"]
    written = load_file(tmp_path / "outputs.safetensors")
    assert written.keys() == {"logits", "label", "first"}
    for name, value in written.items():
        assert torch.equal(value, torch.cat([part[name] for part in parts])), name
    with pytest.raises(chain.ChainError, match="--eval-outputs needs --eval-data FILE"):
        chain.run_plan(compiled, 1, steps=3, extra=extra[2:])
    expected = step.of_samples(model, **data)
    assert torch.equal(written["label"], data["y"])
    for name in ("logits", "first"):
        torch.testing.assert_close(written[name], expected[name].detach())


def test_inputs_that_repeat_may_be_given(compile_step: Compile) -> None:
    """A step that is exported without data is what a loop gives batches to."""
    compiled = compile_step("mesh=1", "--no-data")
    expected = chain.run_plan(compiled, 1, steps=2).losses
    example = {name: tensor[:4] for name, tensor in calls.samples().items()}
    with load(compiled) as run:
        assert [run().item(), run(example).item()] == expected
        with pytest.raises(fsdp_mlir.BatchError, match="the batch has no 'y'"):
            run({"x": example["x"]})


def test_two_runs_of_a_process_are_apart(compile_step: Compile) -> None:
    compiled = compile_step("mesh=1")
    batches = list(itertools.islice(calls.batches(), 4))
    with load(compiled) as run:
        expected = [run(batch).item() for batch in batches]
    first, second = load(compiled), load(compiled)
    with pytest.raises(fsdp_mlir.RunError, match="cannot be pickled or copied; run.state_dict()"):
        copy.deepcopy(first)
    both = [(first(batch).item(), second(batch).item()) for batch in batches]
    assert both == [(loss, loss) for loss in expected]


def test_an_interrupt_is_heard_after_calls_of_two_threads(compile_step: Compile) -> None:
    """Calls that overlap end in any order, and Python has its own handler back behind the last."""
    compiled = compile_step("mesh=1")
    batch = next(calls.batches())

    def train(run: fsdp_mlir.Run) -> None:
        for _ in range(100):
            run(batch)

    with load(compiled) as first, load(compiled) as second:
        threads = [threading.Thread(target=train, args=(run,)) for run in (first, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_states_are_views_that_outlive_the_run(compile_step: Compile) -> None:
    compiled = compile_step("mesh=1 shard-layout=flat")
    batches = calls.batches()
    run = load(compiled)
    bias = run.state_dict()["head.bias"]
    before = bias.clone()
    run(next(batches))
    assert not torch.equal(bias, before)
    assert torch.equal(bias, run.state_dict()["head.bias"])
    bias.fill_(0.5)
    assert (run.state_dict()["head.bias"] == 0.5).all()
    run.close()
    del run
    torch.empty(1 << 20).fill_(1)  # what memory is free is used
    assert (bias == 0.5).all()
    assert bias.shape == (3,)


def of_freed_weights(model: torch.nn.Module) -> torch.nn.Module:
    for parameter in model.parameters():
        parameter.data = freed(parameter)
    return model


@pytest.mark.provokes("FSDP-E0807")
def test_a_model_is_given_the_trained_weights(compile_step: Compile) -> None:
    model, batch = step.Model(), next(calls.batches())
    with load(compile_step("mesh=1")) as run:
        run(batch)
        run.copy_to(model)
        assert step.loss(model.eval(), **batch).item() == run.eval(batch)["loss"]
        for other, words in (
            (torch.nn.Linear(6, 9), "the model has no first.weight"),
            (torch.nn.ModuleDict({"first": torch.nn.Linear(6, 8)}), r"first.weight is \[8, 6\]"),
            (step.Model().to("meta"), "first.weight of the model is on meta; give it memory"),
            (of_freed_weights(step.Model()), "first.weight of the model has no memory for its"),
        ):
            with pytest.raises(fsdp_mlir.RunError, match=words):
                run.copy_to(other)


def test_tensors_of_the_interpreter_are_its_own(compile_step: Compile) -> None:
    """The runtime's allocator serves those who run a step, and them alone."""
    kept = torch.arange(1000.0)
    feed = calls.batches()
    with load(compile_step("mesh=1")) as run:
        made = [torch.full((64,), float(run(next(feed)))) for _ in range(5)]
        grown = torch.arange(3)
        grown.resize_(4096)
        views = {value.data_ptr() for value in run.state_dict().values()}
    assert torch.equal(kept, torch.arange(1000.0))
    assert all((tensor == tensor[0]).all() for tensor in made)
    assert views.isdisjoint(tensor.data_ptr() for tensor in made)


@pytest.mark.provokes("FSDP-E0807", "FSDP-E0202")
def test_learning_rates_are_read_and_set(compile_step: Compile) -> None:
    compiled = compile_step("mesh=1")
    feed = calls.batches()
    with load(compiled) as run:
        assert run.lr == [0.01, 0.02]
        run.lr = 0.0
        before = {name: p.clone() for name, p in run.state_dict().items() if "weight" in name}
        run(next(feed))
        after = run.state_dict()
        assert all(torch.equal(after[name], value) for name, value in before.items())
        run.lr = [0.5, 0.0]
        run(next(feed))
        after = run.state_dict()
        assert torch.equal(after["head.weight"], before["head.weight"])
        assert not torch.equal(after["first.weight"], before["first.weight"])
        with pytest.raises(fsdp_mlir.RunError, match="3 learning rates are given"):
            run.lr = [1.0, 2.0, 3.0]
        run.lr = 0.5
        for rates in ("fast", "5", None, ["fast", 0.1], math.nan, math.inf, -0.1, [0.1, math.nan]):
            with pytest.raises(fsdp_mlir.RunError, match="lr is .*; give a number from 0 on, or a"):
                run.lr = rates
        assert run.lr == [0.5, 0.5]
        with pytest.raises(fsdp_mlir.RunError, match="no 'lrr' that can be set; lr and step"):
            run.lrr = 0.1
        with pytest.raises(fsdp_mlir.RunError, match="no 'metrics' that can be set"):
            run.metrics = {}
        with pytest.raises(fsdp_mlir.RunError, match="values are float; give a dict of numbers"):
            run.mean(0.5)
        run(next(feed))
        for rates in (torch.tensor(0.25), torch.tensor([0.25, 0.25]), np.float32(0.25)):
            run.lr = rates
            assert run.lr == [0.25, 0.25]


@pytest.mark.provokes("FSDP-E0202")
def test_steps_and_counts_are_whole_numbers(compile_step: Compile) -> None:
    with load(compile_step("mesh=1")) as run:
        for steps in (7, torch.tensor(7)):
            run.step = steps
            assert run.step == 7
        for steps in (-1, 2.5, "2", None, 2**53, 2**64):
            with pytest.raises(fsdp_mlir.RunError, match="step is .*; give a whole number from 0"):
                run.step = steps
        for keep in (-1, 1.5, None):
            with pytest.raises(fsdp_mlir.RunError, match="keep is .*; give the number of"):
                run.checkpoint("/nowhere", keep=keep)


@pytest.mark.provokes("FSDP-E0807")
@pytest.mark.parametrize(
    "states, words",
    [
        ([], "states are a dict of tensors by name, and not list"),
        ({"head.bias": [0.0] * 3}, "head.bias is list; give a tensor"),
        ({"head.bias": torch.empty(3, device="meta")}, "head.bias is on meta and has no values"),
        ({"head.bias": freed(torch.empty(3))}, "head.bias has no memory for its elements"),
        ({"state.head.bias.step": freed(torch.ones(1))}, "bias.step has no memory for its"),
        (
            {"head.bias": torch.zeros(4)},
            r"head.bias is float32\[4\], and the run's is float32\[3\]",
        ),
        ({"state.head.bias.step": -5}, "state.head.bias.step is -5; give the count of updates"),
    ],
)
def test_invalid_states_are_refused_and_change_nothing(
    states: Any, words: str, compile_step: Compile
) -> None:
    with load(compile_step("mesh=1")) as run:
        before = {name: value.clone() for name, value in run.state_dict().items()}
        with pytest.raises(fsdp_mlir.RunError, match=words):
            run.load_state_dict(states)
        run.load_state_dict(before)  # the run goes on
        assert run.step == 0


def test_a_schedule_keeps_its_learning_rates(compile_step: Compile) -> None:
    feed = calls.batches()
    with load(compile_step("mesh=1", "--schedule")) as run:
        rates = [(run.lr, run(next(feed)))[0][0] for _ in range(4)]
        assert rates == [0.01, 0.01, 0.005, 0.005]
        with pytest.raises(fsdp_mlir.RunError, match="a schedule of learning rates for 12 steps"):
            run.lr = 0.1


BAD = {
    "missing": (lambda b: {"x": b["x"]}, "the batch has no 'y'; the plan reads x and y"),
    "unknown": (lambda b: {**b, "z": b["x"]}, "'z', which the plan does not read"),
    "dtype": (lambda b: {**b, "x": b["x"].double()}, "is float64, and the plan reads float32"),
    "shape": (lambda b: {**b, "x": b["x"][:3]}, "shape [3, 6], and the plan reads [4, 6]"),
    "device": (lambda b: {**b, "x": b["x"].to("meta")}, "is on meta"),
    "sparse": (lambda b: {**b, "x": b["x"].to_sparse()}, "no plain dense tensor"),
    "nested": (lambda b: {**b, "x": nested(b["x"])}, "no plain dense tensor"),
    "freed": (lambda b: {**b, "x": freed(b["x"])}, "no memory for all of its elements"),
    "cut": (lambda b: {**b, "x": freed(b["x"], left=92)}, "no memory for all of its elements"),
    "no tensor": (lambda b: {**b, "x": 3}, "batch['x'] is no tensor"),
    "no dict": (lambda b: b["x"], "a dict of tensors by name, and not Tensor"),
    "none": (lambda b: None, "the step needs a batch; the plan reads x and y"),
    "too many": (lambda b: [b, b], "2 batches are given for a step of 1 micro-batches"),
}


def nested(tensor: torch.Tensor) -> torch.Tensor:
    with warnings.catch_warnings(action="ignore"):  # it is a prototype
        return torch.nested.nested_tensor(list(tensor))


@pytest.mark.parametrize("name", BAD)
def test_a_bad_batch_is_refused_and_the_run_goes_on(name: str, compile_step: Compile) -> None:
    spoil, words = BAD[name]
    batch = next(calls.batches())
    with load(compile_step("mesh=1")) as run:
        with pytest.raises(fsdp_mlir.BatchError) as caught:
            run(spoil(batch))
        assert words in str(caught.value)
        assert run.step == 0
        run(batch)
        assert run.step == 1


def test_a_loader_that_raises_names_worker_and_sample(compile_step: Compile) -> None:
    """As the other ranks are told: test_two_ranks.py."""
    with load(compile_step("mesh=1")):
        with pytest.raises(ValueError) as raised:
            list(DataLoader(calls.Broken(), 4, num_workers=2))
    said = describe(raised.value)
    assert said.startswith("ValueError: no more pictures (worker 1, sample 5, calls.py:")


@pytest.mark.parametrize("micro_batches", (1, 2))
def test_a_loss_of_nan_names_the_sample(micro_batches: int, compile_step: Compile) -> None:
    """And training goes on, as PyTorch does, or stops where somebody wants to know."""
    compiled = compile_step("mesh=1", "--accumulate", str(micro_batches))
    together = next(calls.batches(micro_batches))
    row = together["x"].shape[0] - 1
    together["x"][row, 2] = torch.nan
    words = f"batch['x'] has NaN in sample {row}; it comes from sample "
    with load(compiled) as run:
        with pytest.warns(RuntimeWarning, match="the loss of step 1 is NaN on rank 0; training"):
            assert run(together).isnan()
        assert run.step == 1
    with load(compiled, non_finite="stop") as run:
        with pytest.raises(fsdp_mlir.RunError) as raised:
            run(together)
        assert f"its update is applied; {words}" in str(raised.value)
        assert run.step == 1 and run.metrics["loss"] != run.metrics["loss"]
    with pytest.raises(fsdp_mlir.RunError, match="non_finite=skip needs a plan that can skip"):
        load(compiled, non_finite="skip")
    with pytest.raises(fsdp_mlir.RunError, match="give plan, continue, stop or skip"):
        load(compiled, non_finite="apply")


@pytest.mark.provokes("FSDP-E0602", "FSDP-E0806")
def test_bad_files_are_errors(compile_step: Compile, tmp_path: pathlib.Path) -> None:
    compiled = compile_step("mesh=1")
    for plan, weights, words in (
        (tmp_path / "none.plan", compiled.weights, "none.plan"),
        (compiled.weights, compiled.weights, "not a plan"),
        (compiled.plan, tmp_path / "none", "none"),
        (compiled.plan, None, "pass weights=FILE"),
    ):
        with pytest.raises(fsdp_mlir.RunError, match=words):
            fsdp_mlir.load(plan, weights)
    with pytest.raises(fsdp_mlir.RunError, match="mesh has 2 ranks.*torchrun --nproc-per-node 2"):
        load(compile_step("mesh=2"))
    with pytest.raises(fsdp_mlir.RunError, match="comm is 'tcp'; give auto, shm, gloo or nccl"):
        load(compiled, comm="tcp")
    with load(compiled) as run:
        with pytest.raises(fsdp_mlir.RunError, match="cannot write /nowhere/x"):
            run.save("/nowhere/x")
        run(next(calls.batches()))
    with pytest.raises(fsdp_mlir.RunError, match="the run is closed; load the plan again"):
        run.metrics


def test_a_checkpoint_goes_on_bit_by_bit(compile_step: Compile, tmp_path: pathlib.Path) -> None:
    compiled = compile_step("mesh=1")
    batches = list(itertools.islice(calls.batches(), 10))
    with load(compiled) as run:
        expected = [run(batch).item() for batch in batches]
    with load(compiled) as run:
        for batch in batches[:6]:
            run(batch)
        assert run.checkpoint(tmp_path / "kept") == tmp_path / "kept" / "step-00000006"
    with load(compiled, resume=tmp_path / "kept") as run:
        assert run.step == 6
        assert [run(batch).item() for batch in batches[6:]] == expected[6:]
    # fsdp-run goes on from it as well, with the same samples.
    extra = ["--checkpoint-dir", tmp_path / "kept", "--resume", "auto"]
    assert chain.run_plan(compiled, 1, steps=10, extra=extra).losses == expected[6:]
