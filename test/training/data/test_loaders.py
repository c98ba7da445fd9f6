"""Tests that loaders of processes beside the ranks train to the same bits, and that each way in
which one can fail is one error."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time
from itertools import chain as chained, islice
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
import torch

from training.data import feeder, step
from training.data.conftest import Train, Trained
from training.data.test_files import as_arrow_shards, eager_losses
from fsdp_mlir.data import feeding
from fsdp_mlir.data.batch_origins import place_of
from fsdp_mlir.report.__main__ import main as report
from support import chain


def command(tokens: pathlib.Path, kind: str, workers: int = 0) -> str:
    environment = f"PYTHONPATH={chain.PYTHON}:{chain.ROOT / 'test'}"
    words = [sys.executable, feeder.__file__, tokens, kind, workers]
    return f"{environment} exec {shlex.join(map(str, words))}"


@pytest.mark.quick
@pytest.mark.parametrize("ranks, workers, kind", ((2, 2, "plain"), (1, 0, "tuples")))
def test_a_loader_trains_to_the_bits_of_tensors(
    ranks: int, workers: int, kind: str, train: Train, tokens, of_tensors
) -> None:
    got = train(ranks, None, "--data-command", command(tokens, kind, workers))
    assert got.losses == of_tensors[ranks].losses and got == of_tensors[ranks]


@pytest.mark.parametrize("ranks", (1, 2))
def test_arrow_files_train_to_the_bits_of_tensors(
    ranks: int, train: Train, tokens, of_tensors, tmp_path: pathlib.Path
) -> None:
    """As the data set of a loader with workers."""
    as_arrow_shards(tokens, tmp_path)
    got = train(ranks, None, "--data-command", command(tmp_path, "arrow", 2))
    assert got.losses == of_tensors[ranks].losses and got == of_tensors[ranks]


@pytest.mark.parametrize("ranks", (1, 2))
def test_parquet_files_train_to_the_bits_of_windows(
    ranks: int, train: Train, tokens, tmp_path: pathlib.Path
) -> None:
    """In blocks, into the second epoch; a run that resumes reads what follows."""
    samples = step.batches_of(step.windows(tokens, dtype="uint16"))
    table = pyarrow.table({name: tensor.tolist() for name, tensor in samples.items()})
    pyarrow.parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=7)
    steps = 15 // ranks + 2
    whole = train(ranks, step.data_of("blocks", str(tokens)), "--steps", steps)
    loader = ["--data-command", command(tmp_path / "rows.parquet", "parquet")]
    got = train(ranks, None, "--steps", steps, *loader)
    assert got.losses == whole.losses and got == whole
    loader += ["--checkpoint-dir", tmp_path / "checkpoints"]
    train(ranks, None, "--steps", steps - 1, *loader)
    rest = train(ranks, None, "--steps", steps, *loader, "--resume", "auto")
    assert rest.losses == whole.losses[-1:] and rest == whole


def test_pytorchs_own_loop_has_the_same_losses(whole_runs, tokens) -> None:
    """With workers whose random numbers change the samples, into the second epoch."""
    steps = 18
    got = whole_runs["noise", 2]
    torch.manual_seed(3)  # as feeder.py does
    loader = feeder.loader_of(str(tokens), "noise", 0, 1, workers=2)
    epochs = []
    for epoch in range(2):
        loader.sampler.set_epoch(epoch)
        epochs.append(list(loader))
    assert got.losses == eager_losses(chained(*epochs), steps)


@pytest.fixture(scope="module")
def whole_runs(plans, tokens) -> dict[tuple[str, int], Trained]:
    """Of 18 steps, into the second epoch, by kind of loader and number of workers."""

    def run(kind: str, workers: int) -> Trained:
        extra = ["--steps", 18, "--data-command", command(tokens, kind, workers)]
        return Trained(chain.run_plan(dataclasses.replace(plans[1], data=None), 1, extra=extra))

    runs = {("noise", workers): run("noise", workers) for workers in (0, 2)}
    return runs | {("state", 2): run("plain", 0)}


@pytest.mark.parametrize(
    "kind, workers, stop",
    (("noise", 0, 16), ("noise", 2, 16), ("stateful", 0, 12), ("state", 2, 15)),
)
def test_a_run_that_resumes_reads_what_follows(
    kind: str,
    workers: int,
    stop: int,
    train: Train,
    tokens,
    whole_runs,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A loader with a state of its own goes on from it, and others make again what was read."""
    monkeypatch.setenv("MADE", str(tmp_path / "made"))
    loader = ["--data-command", command(tokens, kind, workers)]
    folder = ["--checkpoint-dir", tmp_path / "checkpoints"]
    whole = whole_runs["noise" if kind == "stateful" else kind, workers]
    train(1, None, "--steps", stop, *loader, *folder)
    (tmp_path / "made").write_text("")
    rest = train(1, None, "--steps", 18, *loader, *folder, "--resume", "auto")
    assert rest.losses == whole.losses[stop:] and rest == whole
    if kind != "noise":
        made = (tmp_path / "made").read_text().split()
        assert made and made[0] == str(stop % 15)  # of an epoch of 15
    if kind == "stateful":
        (state,) = (tmp_path / "checkpoints").glob("step-*18/*.loader")
        state.write_bytes(state.read_bytes()[:-1] + b"?")
        again = train(1, None, "--steps", 18, *loader, *folder, "--resume", "auto")
        assert f"{state.name} is damaged" in again.output
        assert again.losses == rest.losses and again == whole


def test_nanogpts_get_batch(train: Train, tokens) -> None:
    got = train(1, None, "--data-command", command(tokens, "get_batch"))
    get = feeder.get_batch(str(tokens))
    batches = [dict(zip("xy", get())) for _ in range(6)]
    assert got.losses == eager_losses(batches)


FAULTS = {
    "raises": (
        *(2, "failed at batch 1 of epoch 0: ValueError: the picture is broken"),
        *("worker 1", "sample 19", "feeder.py:"),
    ),
    "killed": (
        *(2, "failed at batch ", " of epoch 0", "DataLoader worker (pid"),
        *("(worker 1, samples ", "19,"),
    ),
    "ends": (0, "was ended by signal 9 (Killed), and batch 1 of epoch 0 is due"),
    "hangs": (
        *(2, "has given nothing for 20 s, and batch 1 of epoch 0 is due", "--data-timeout"),
        "it is at worker 1, sample 19, feeder.py:",
    ),
    "fewer": (0, "batches of an epoch", "rank 0 finds 7", "rank 1 8"),
    "announced": (0, "failed at batch 7 of epoch 0: it has ended after 7 of the 8 batches"),
    "short": (0, "x is int64[2, 8], the plan reads int64[4, 8]", "drop_last=True"),
    "tuples": (
        2,
        "x is int32[4, 8], the plan reads int64[4, 8]",
        "it comes from worker 0, samples ",
    ),
    "nothing": (0, "ended with status 0", "fsdp_mlir.feed()"),
}


@pytest.mark.quick
@pytest.mark.parametrize("samples, is_rest", [(2, True), (8, False)])
def test_drop_last_is_advised_for_smaller_batches_alone(samples: int, is_rest: bool) -> None:
    """Tests that no advice to drop the last batch is given where all are too large."""
    columns = [feeding.Column(name, torch.float32, [(4, 3)], 0, 48) for name in "xy"]
    batch = (torch.ones(samples, 3), torch.ones(samples, 3))
    with pytest.raises(feeding.FeedError, match=rf"y is float32\[{samples}, 3\]") as failed:
        feeding._tensors(batch, ["x", "y"], columns)
    assert str(failed.value).count("drop_last=True") == is_rest  # once for all columns


@pytest.mark.parametrize("batch", [None, 3, "words"])
def test_what_is_no_batch_is_told_as_such(batch: Any) -> None:
    column = feeding.Column("x", torch.float32, [(4, 3)], 0, 48)
    message = (
        f"it is of type {type(batch).__name__}; give a dict of tensors by name, or a tuple of x"
    )
    with pytest.raises(feeding.FeedError, match=message):
        feeding._tensors(batch, ["x"], [column])


@pytest.mark.parametrize("first", (0, 2))
def test_a_batch_without_an_epoch_has_its_own_number(first: int) -> None:
    """While what it holds is looked at, messages are about it and not about the next one."""
    place = feeding.Place()
    place.batch = first
    endless = feeding.batches(lambda: None, None, 0, first, place, None)
    assert [(n, place.batch) for _, n, _ in islice(endless, 2)] == [
        (n, n) for n in (first, first + 1)
    ]


def test_a_loss_of_nan_names_the_sample(tmp_path: pathlib.Path) -> None:
    (tmp_path / "step.py").write_text(NAN_STEP)
    compiled = chain.compile_step(tmp_path / "step.py", tmp_path, pipeline="mesh=1")
    words = [sys.executable, "-m", "fsdp_mlir.driver.feed_step", tmp_path / "step.py"]
    loader = ["--data-command", shlex.join(map(str, words))]
    doubt = (
        "batch 1 of epoch 0 from the loader has NaN in sample 2 of x "
        "(worker 1, sample 6 of the data set)"
    )
    note = f"the loss of step 2 is NaN on rank 0; training goes on .*; {re.escape(doubt)}"
    assert re.search(note, chain.run_plan(compiled, 1, extra=loader).output)
    with pytest.raises(chain.ChainError) as failed:
        chain.run_plan(compiled, 1, extra=[*loader, "--non-finite", "stop"])
    assert doubt in failed.value.output


NAN_STEP = """
import torch
from fsdp_mlir import TrainingStep

class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return {"x": torch.ones(3) if index < 6 else torch.full((3,), torch.nan), "more": "text"}

def training_data(argv):
    return torch.utils.data.DataLoader(Samples(), 4, num_workers=2)

def training_step(argv):
    model = torch.nn.Linear(3, 1)
    return TrainingStep(
        model,
        loss=lambda model, x: model(x).square().mean(),
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        inputs={"x": torch.ones(4, 3)},
        data=training_data([]),
        steps=3,
    )
"""


def processes_of(name: str) -> list[str]:
    """Command lines with `name` in them, of processes that run."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            found += [words] if name in words else []
    return found


@pytest.mark.provokes("FSDP-E0607", "FSDP-E0706", "FSDP-E0707")
@pytest.mark.parametrize("kind", FAULTS)
def test_a_loader_that_fails_is_one_error(
    kind: str, train: Train, tokens, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "tuples":
        monkeypatch.setenv("WRONG", "1")
    mine = tmp_path / "tokens.bin"
    mine.symlink_to(tokens)
    workers, *words = FAULTS[kind]
    extra = ["--data-timeout", 20] if kind == "hangs" else []
    with pytest.raises(chain.ChainError) as failed:
        train(2, None, "--steps", 9, "--data-command", command(mine, kind, workers), *extra)
    output = failed.value.output
    errors = [line for line in output.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and all(word in errors[0] for word in words), output
    assert kind == "fewer" or "[rank " in errors[0]
    # A traceback, and a stack.
    assert (kind in ("raises", "hangs")) == ("in __getitem__" in output)
    assert processes_of(str(mine)) == []


class Places(torch.utils.data.Dataset):
    """Where the process is, as seen from within its samples."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        self.seen.append(place_of(sys._getframe()))
        return index


def test_a_loader_without_workers_knows_where_it_is() -> None:
    places = Places()
    list(torch.utils.data.DataLoader(places, 2))
    assert [re.sub(r":\d+$", "", place) for place in places.seen] == [
        f"sample {i}, test_loaders.py" for i in range(4)
    ]


def test_the_report_names_a_slow_rank(
    train: Train, plans: dict[int, chain.Compiled], tokens, tmp_path: pathlib.Path
) -> None:
    """The other one waits for it in collectives, which are no slower by themselves."""
    loader = ["--data-command", command(tokens, "slow")]
    rows = train(2, None, "--steps", 5, *loader, "--trace", tmp_path / "trace.json").rows
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)))
    shutil.copyfile(plans[2].plan, tmp_path / "step.plan")
    assert report([str(tmp_path)]) == 0
    page = (tmp_path / "report.html").read_text()
    worst = re.search(r"most of it (waits for rank \d, which comes later|passes after)", page)
    assert worst and worst[1] == "waits for rank 1, which comes later"
    assert re.search(r"comes later: it begins its step [\d.]+ ms after the first rank", page)
    assert [row["data_wait_rank"] for row in rows[1:]] == [1] * 4
    assert re.search(r"The slowest rank waits [\d.]+ ms for its batches, .* it is rank 1 in", page)


def test_a_rank_that_is_killed_takes_its_loader_along(
    plans, tokens, tmp_path: pathlib.Path
) -> None:
    mine, metrics = tmp_path / "tokens.bin", tmp_path / "metrics.jsonl"
    mine.symlink_to(tokens)
    compiled = dataclasses.replace(plans[1], data=None)
    words = [*chain.run_arguments(compiled, 1_000_000_000), "--metrics", str(metrics)]
    words += ["--data-command", command(mine, "get_batch")]
    running = subprocess.Popen(words, env=chain.environment(), stdout=subprocess.DEVNULL)
    try:
        while running.poll() is None and not (metrics.exists() and metrics.stat().st_size):
            time.sleep(0.05)
        assert running.poll() is None and processes_of(str(mine))
    finally:
        running.kill()
        running.wait()
    ends = time.monotonic() + 30
    while processes_of(str(mine)) and time.monotonic() < ends:
        time.sleep(0.05)
    assert processes_of(str(mine)) == []


def test_a_worker_that_dies_between_batches_is_named() -> None:
    # In a process of its own: PyTorch tells of dead workers by a signal handler, whatever runs.
    output = chain.command([sys.executable, "-c", DYING_WORKER], env=chain.environment()).stdout
    assert "(worker 1, samples 1, " in output


DYING_WORKER = """
import multiprocessing, os, signal, time
import torch
from fsdp_mlir.data import batch_origins, loader_errors

batch_origins.follow_loaders()
try:
    for batch in torch.utils.data.DataLoader(list(range(8)), num_workers=2):
        workers = sorted(multiprocessing.active_children(), key=lambda worker: worker.name)
        os.kill(workers[1].pid, signal.SIGKILL)
        time.sleep(30)  # in no frame of the loader
except RuntimeError as error:  # the loop's iterator is gone
    print(loader_errors.describe(error))
"""
