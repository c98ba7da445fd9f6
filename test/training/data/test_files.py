"""Tests that files are trained on where they lie: the bits of tensors, in every order."""

from __future__ import annotations

import json
import os
import pathlib
import sys

import numpy as np
import pyarrow
import pyarrow.ipc
import pyarrow.parquet
import pytest
import torch
from safetensors.torch import save_file
from torch.utils.data import DataLoader, DistributedSampler

from training.data import step
from training.data.conftest import Train, Trained
from fsdp_mlir import ExportError, Parquet, Shards, TrainingStep, Windows
from support import chain


def as_npy(path: pathlib.Path, folder: pathlib.Path) -> Windows:
    np.save(folder / "t.npy", np.fromfile(path, np.uint16))
    return step.windows(folder / "t.npy")


def as_slice_of_a_map(path: pathlib.Path, folder: pathlib.Path) -> Windows:
    whole = np.concatenate([np.full(3000, 9, np.uint16), np.fromfile(path, np.uint16)])
    whole.tofile(folder / "t.bin")
    mapped = np.memmap(folder / "t.bin", dtype=np.uint16, mode="r", offset=2)
    return step.windows(mapped[2999:])


def as_safetensors_shards(path: pathlib.Path, folder: pathlib.Path) -> Shards:
    samples = step.batches_of(step.windows(path, dtype="uint16"))
    for i, (begin, end) in enumerate(((0, 11), (11, 11), (11, 60))):
        part = {name: tensor[begin:end].int() for name, tensor in samples.items()}
        save_file(part, folder / f"{i}.safetensors")
    return Shards(folder)


def as_npy_shards(path: pathlib.Path, folder: pathlib.Path) -> Shards:
    samples = step.batches_of(step.windows(path, dtype="uint16"))
    for name, tensor in samples.items():
        np.save(folder / f"{name}-0.npy", tensor[:50].numpy().astype(np.uint8))
        np.save(folder / f"{name}-1.npy", tensor[50:].numpy().astype(np.uint8))
    return Shards({name: str(folder / f"{name}-*.npy") for name in samples})


def as_two_files(path: pathlib.Path, folder: pathlib.Path) -> Windows:
    # The last token of the first file is the first one of the second: y needs it.
    tokens = np.fromfile(path, np.uint16)
    tokens[: 20 * step.LENGTH + 1].tofile(folder / "0.bin")
    tokens[20 * step.LENGTH :].tofile(folder / "1.bin")
    return step.windows(folder, dtype=np.uint16)


def as_arrow_shards(path: pathlib.Path, folder: pathlib.Path) -> Shards:
    """Batches of a file, and those of a stream, whose rows are lists that may be of any length."""
    samples = step.batches_of(step.windows(path, dtype="uint16"))
    table = pyarrow.table(
        {
            name: pyarrow.FixedSizeListArray.from_arrays(
                tensor.int().flatten().numpy(), step.LENGTH
            )
            for name, tensor in samples.items()
        }
    ).append_column("text", [["no number"] * 60])
    lists = table.select(["x", "y"]).cast(
        pyarrow.schema([(name, pyarrow.list_(pyarrow.int32())) for name in samples])
    )
    with pyarrow.ipc.new_file(folder / "0.arrow", table.schema) as file:
        file.write_table(table[:40], max_chunksize=16)
    with pyarrow.ipc.new_stream(folder / "1.arrow", lists.schema) as file:
        file.write_table(lists[40:])
    return Shards(folder, columns=["x", "y"])


FORMS = (
    as_npy,
    as_slice_of_a_map,
    as_safetensors_shards,
    as_npy_shards,
    as_two_files,
    as_arrow_shards,
)


@pytest.mark.quick
@pytest.mark.parametrize("ranks", (1, 2))
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_files_train_to_the_bits_of_tensors(
    form, ranks: int, train: Train, tokens, of_tensors, tmp_path: pathlib.Path
) -> None:
    got = train(ranks, form(tokens, tmp_path))
    assert got.losses == of_tensors[ranks].losses and got == of_tensors[ranks]


def test_the_archive_holds_a_description(tokens, of_tensors, tmp_path: pathlib.Path) -> None:
    compiled = chain.compile_step(
        step.__file__, tmp_path, ["memmap", str(tokens)], pipeline="mesh=1"
    )
    assert compiled.data is None and not list(tmp_path.glob("*.data.safetensors"))
    description = tmp_path / "step.data.json"
    assert description.stat().st_size < 500
    got = Trained(chain.run_plan(compiled, 1, extra=["--data", description]))
    assert got == of_tensors[1]


def eager_losses(batches, steps: int = 6) -> list[float]:
    net = step.model()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    losses = []
    for _, batch in zip(range(steps), batches):
        optimizer.zero_grad()
        loss = step.loss(net, **{name: tensor.long() for name, tensor in batch.items()})
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_pytorchs_own_loop_has_the_same_losses(tokens, of_tensors) -> None:
    windows = step.windows(tokens, dtype="uint16")
    sampler = DistributedSampler(windows, num_replicas=1, rank=0, seed=3, drop_last=True)
    loader = DataLoader(windows, batch_size=step.BATCH, sampler=sampler, drop_last=True)
    assert eager_losses(loader) == of_tensors[1].losses


def order_of(kind: str, samples: int, ranks: int, epoch: int = 0) -> list[int]:
    """As docs/data.md describes it, of all ranks in turns."""
    if kind == "sequential":
        return list(range(samples))
    if kind == "blocks":
        generator = torch.Generator().manual_seed(3 + epoch)
        count = -(-samples // 7)
        blocks = torch.randperm(count, generator=generator).tolist()
        seeds = torch.randint(2**31, (count,), generator=generator).tolist()
        order = []
        for block, seed in zip(blocks, seeds):
            length = min(7, samples - 7 * block)
            inside = torch.randperm(length, generator=torch.Generator().manual_seed(seed))
            order += (7 * block + inside).tolist()
        return order
    drawn = []
    for rank in range(ranks):
        generator = torch.Generator().manual_seed(3 + rank)
        batches = [torch.randint(samples, (step.BATCH,), generator=generator) for _ in range(6)]
        drawn.append(torch.cat(batches).tolist())
    return [row[i] for i in range(len(drawn[0])) for row in drawn]


@pytest.mark.parametrize("ranks", (1, 2))
@pytest.mark.parametrize("kind", ("sequential", "blocks", "random"))
def test_each_order_of_windows_is_what_the_page_says(
    kind: str, ranks: int, train: Train, tokens, tmp_path: pathlib.Path
) -> None:
    options = {"stride": 1} if kind == "random" else {}
    options |= {"block": 7} if kind == "blocks" else {}
    windows = step.windows(tokens, dtype="uint16", order=kind, **options)
    order = order_of(kind, len(windows), ranks)
    assert kind == "random" or sorted(order) == list(range(len(windows)))
    stored = step.batches_of([windows[i] for i in order])
    save_file(stored, tmp_path / "ordered.safetensors")
    expected = train(ranks, tmp_path / "ordered.safetensors", "--no-shuffle")
    got = train(ranks, windows)
    assert got.losses == expected.losses and got == expected


@pytest.mark.parametrize("kind", ("blocks", "random"))
def test_a_run_that_resumes_reads_what_follows(
    kind: str, train: Train, tokens, tmp_path: pathlib.Path
) -> None:
    windows = step.data_of(kind, str(tokens))
    if kind == "blocks":  # into the second epoch
        windows = step.windows(tokens, dtype="uint16", order="blocks", block=7, stride=24)
    whole = train(2, windows)
    folder = ["--checkpoint-dir", tmp_path / "checkpoints"]
    train(2, windows, "--steps", 4, *folder)
    rest = train(2, windows, *folder, "--resume", "auto")
    assert rest.losses == whole.losses[4:] and rest == whole


def test_four_gibibytes_take_no_memory(plans, tmp_path: pathlib.Path) -> None:
    peaks = {}
    for name, size in (("small", 1 << 16), ("large", 1 << 32)):
        with open(tmp_path / f"{name}.bin", "wb") as file:
            file.truncate(size)
        windows = step.windows(tmp_path / f"{name}.bin", dtype="uint16", order="random", stride=1)
        (tmp_path / f"{name}.json").write_text(windows.description())
        compiled = chain.dataclasses.replace(plans[1], data=None)
        result = chain.run_plan(compiled, 1, extra=["--data", tmp_path / f"{name}.json"])
        peaks[name] = result.summary["memory_peak_bytes"]
    assert len(windows) == (1 << 31) - step.LENGTH
    assert peaks["large"] - peaks["small"] < 10 << 20


@pytest.mark.provokes("FSDP-E0004", "FSDP-E0701", "FSDP-E0703", "FSDP-E0705")
@pytest.mark.parametrize(
    "change, words",
    (
        (lambda d: d["files"][0].update(path="/nowhere.bin"), "cannot open '/nowhere.bin'"),
        (lambda d: d["files"][0].update(bytes=5000), "and had 5000 when it was described"),
        (lambda d: d["columns"].pop(), "it has no y"),
        (lambda d: d["columns"][0].update(dtype="float16"), "samples of x are float16[8]"),
        (lambda d: d["order"].update(kind="sorted"), "unknown kind sorted"),
    ),
)
def test_a_description_that_does_not_fit_is_one_error(
    change, words: str, train: Train, tokens, tmp_path: pathlib.Path
) -> None:
    description = json.loads(step.windows(tokens, dtype="uint16").description())
    change(description)
    (tmp_path / "d.json").write_text(json.dumps(description))
    with pytest.raises(chain.ChainError) as failed:
        train(2, tmp_path / "d.json")
    lines = [line for line in failed.value.output.splitlines() if "error" in line.lower()]
    assert len(lines) == 1 and lines[0].startswith("error: ") and words in lines[0], lines


@pytest.mark.parametrize(
    "data, words",
    (
        (object(), "data is object; give tensors by name"),
        (lambda: None, "data has no length"),
        ({"x": np.zeros((8, 3))}, r"data\['x'\] is ndarray; give a tensor, as torch.as_tensor"),
        (np.zeros(3), "data is ndarray; give tensors by name, Windows"),
    ),
)
def test_what_is_no_data_is_refused_at_once(data, words: str) -> None:
    model = torch.nn.Linear(3, 1)
    with pytest.raises(ExportError, match=words):
        TrainingStep(
            model,
            loss=lambda model, x: model(x).mean(),
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            inputs={"x": torch.zeros(4, 3)},
            data=data,
            epochs=1,
        )


@pytest.mark.provokes("FSDP-E0202", "FSDP-E0701", "FSDP-E0702")
@pytest.mark.parametrize(
    "make, words",
    (
        (lambda t: step.windows(t), "have no dtype"),
        (lambda t: step.windows(t, dtype="uint16", stride=0), "stride is 0"),
        (lambda t: step.windows(t, dtype="float13"), "float13 numbers cannot be read"),
        (lambda t: step.windows(t, dtype="uint16", order="blocks"), "block is the samples"),
        (lambda t: step.windows(t.parent / "none.bin", dtype="uint16"), "No such file"),
        (lambda t: step.windows(np.zeros(9, np.uint16)), "an array in memory"),
        (lambda t: Windows(t, columns={"x": 0}, dtype="uint16"), "x has no length"),
        (lambda t: Shards(t), "is no safetensors file"),
        (lambda t: Shards(t.parent), "there is no .safetensors or .arrow file"),
        (lambda t: Shards(arrow(t, [[1, 2], [3]])), "rows of 1 to 2 numbers"),
        (lambda t: Shards(arrow(t, [1, None])), "column x of .* has rows without a value"),
        (lambda t: Shards(arrow(t, ["text"])), "column x of .* is of string"),
        (lambda t: Shards(arrow(t, [1]), columns=["z"]), "there is no column z"),
        (lambda t: Shards(arrow(t, [1] * 999, compression="lz4")), "x of .* is compressed"),
        (lambda t: Shards(arrow(t, [1]).with_suffix("")), "is no safetensors file"),
        (lambda t: Parquet(t, batch=4), "is no Parquet file"),
        (lambda t: Parquet(parquet(t, [1]), batch=1, columns={"x": "z"}), "no column z; .* have x"),
        (lambda t: list(Parquet(parquet(t, [[1], []]), batch=1)), "rows of 0 to 1 numbers"),
        (lambda t: step.windows(fifo(t, "bin"), dtype="uint16"), "it is not a regular file"),
        (lambda t: step.windows(fifo(t, "npy")), "it is not a regular file"),
        (lambda t: Shards(fifo(t, "safetensors")), "it is not a regular file"),
        (lambda t: Shards(fifo(t, "arrow")), "it is not a regular file"),
        (lambda t: Parquet(fifo(t, "parquet"), batch=1), "it is not a regular file"),
        (lambda t: Shards(headed(t, b"[" * 99_999)), "is no safetensors file"),
        (lambda t: Shards(headed(t, place(-8, 0))), "is no safetensors file"),
        (lambda t: Shards(headed(t, place(0, 2**62))), "is no safetensors file"),
        (lambda t: Shards(headed(t, place(0, "8"))), "is no safetensors file"),
    ),
)
def test_what_cannot_be_read_is_refused_at_once(make, words: str, tokens) -> None:
    with pytest.raises(ExportError, match=words):
        make(tokens)


def fifo(tokens: pathlib.Path, kind: str) -> pathlib.Path:
    path = tokens.with_name(f"fifo.{kind}")
    if not path.exists():
        os.mkfifo(path)
    return path


def headed(tokens: pathlib.Path, header: bytes) -> pathlib.Path:
    path = tokens.with_name("bad.safetensors")
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    return path


def place(begin: object, end: object) -> bytes:
    return json.dumps({"x": {"dtype": "I64", "shape": [1], "data_offsets": [begin, end]}}).encode()


def arrow(tokens: pathlib.Path, values: list, **options) -> pathlib.Path:
    path = tokens.with_name("bad.arrow")
    table = pyarrow.table({"x": values})
    options = pyarrow.ipc.IpcWriteOptions(**options)
    with pyarrow.ipc.new_file(path, table.schema, options=options) as file:
        file.write_table(table)
    path.with_suffix("").write_bytes(path.read_bytes())
    return path


def parquet(tokens: pathlib.Path, values: list) -> pathlib.Path:
    path = tokens.with_name("bad.parquet")
    pyarrow.parquet.write_table(pyarrow.table({"x": values}), path)
    return path


@pytest.mark.provokes("FSDP-E0007")
def test_without_pyarrow_is_an_error(monkeypatch: pytest.MonkeyPatch, tokens) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for make in (lambda: Shards(tokens.with_name("x.arrow")), lambda: Parquet(tokens, batch=1)):
        with pytest.raises(ExportError, match="pyarrow, which is not installed; pip install"):
            make()


@pytest.mark.parametrize("order", ("sequential", "blocks"))
def test_parquet_files_are_read_in_order(order: str, tmp_path: pathlib.Path) -> None:
    """Of ranks in turns, by row groups of 7, of two files; from any batch on."""
    values = torch.arange(60)
    for name, part in (("0", values[:35]), ("1", values[35:])):
        table = pyarrow.table({"id": part.numpy(), "two": [[i, -i] for i in part.tolist()]})
        pyarrow.parquet.write_table(table, tmp_path / f"{name}.parquet", row_group_size=7)
    columns, dtype = {"x": "id", "y": "two"}, {"y": torch.float32}
    for epoch in (0, 1):
        expected = torch.tensor(order_of(order, 60, 2, epoch))
        got = []
        for rank in (0, 1):
            data = Parquet(tmp_path, 4, columns, dtype, order, seed=3, rank=rank, ranks=2)
            assert (len(data), data.samples) == (7, 60)
            data.set_epoch(epoch)
            batches = list(data)
            got.append(torch.cat([batch["x"] for batch in batches]))
            for batch in batches:
                assert batch["y"].dtype == torch.float32
                assert torch.equal(batch["y"], torch.stack([batch["x"], -batch["x"]], 1).float())
            for taken in range(7):
                data.load_state_dict({"epoch": epoch, "batches": taken})
                rest = [batch["x"] for batch in data]
                assert torch.equal(torch.cat(rest), got[-1][4 * taken :])
                assert data.state_dict() == {"epoch": epoch, "batches": 7}
        assert torch.equal(torch.stack(got, 1).flatten(), expected[:56])
