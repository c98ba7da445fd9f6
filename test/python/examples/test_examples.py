"""Tests that the examples describe the jobs that their documentation names."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from safetensors.torch import load_file

from fsdp_mlir.export import export_step
from fsdp_mlir.driver.progress import archive_metadata
from fsdp_mlir.step.training_step import load_training_step

EXAMPLES = Path(__file__).resolve().parents[3] / "python" / "examples"
SMALL = "--vocab_size 300 --seq_len 16 --layers 2 --width 16 --heads 2 --batch_size 4".split()


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))

    def load(name: str) -> ModuleType:
        return importlib.import_module(name)

    return load


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n\n".join(f"paragraph {i} is about the number {i * i}" for i in range(400)))
    return path


def train(step, batch: int) -> list[float]:
    """Losses of one epoch of plain PyTorch."""
    losses = []
    data = step.data
    for start in range(0, len(next(iter(data.values()))) - batch + 1, batch):
        value = step.loss(step.model, **{k: v[start : start + batch] for k, v in data.items()})
        step.optimizer.zero_grad()
        value.backward()
        step.optimizer.step()
        losses.append(value.item())
    return losses


@pytest.mark.quick
def test_linear_classifier(example) -> None:
    """Tests the classifier's shapes, and that its accuracy rises on two ranks' batches."""
    step = example("linear_classifier").training_step([])
    assert step.model.weight.shape == (10, 128)
    assert step.data["x"].shape == (1024, 128)
    assert step.inputs["x"].shape == (32, 128)
    assert step.epochs == 3
    assert step.optimizer.param_groups[0]["lr"] == 0.01
    before = step.metrics(step.model, **step.data)["accuracy"]
    losses = train(step, 64)
    assert losses[-1] < losses[0]
    assert step.metrics(step.model, **step.data)["accuracy"] > before


def test_simple_model(example) -> None:
    """Tests the two layers and Adam."""
    step = example("simple_model").training_step([])
    shapes = [tuple(p.shape) for p in step.model.parameters()]
    assert shapes == [(256, 256), (256,), (10, 256), (10,)]
    assert isinstance(step.optimizer, torch.optim.Adam)
    assert step.inputs["x"].shape == (32, 256)
    losses = train(step, 64)
    assert losses[-1] < losses[0]


def test_fsdp2_transformer(example) -> None:
    """Tests that its units are FSDP2's, that --plain has none, and that it learns."""
    transformer = example("fsdp2_transformer")
    step = transformer.training_step([])
    modules = [step.model, *step.model.layers]
    assert all(type(module).__name__.startswith("FSDP") for module in modules)
    assert type(transformer.training_step(["--plain"]).model) is transformer.Transformer
    losses = train(step, 32)
    assert losses[-1] < losses[0]


def test_fsdp2_transformers_policies(
    example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tests that its flags are policies of every unit, and refuse what cannot be."""
    monkeypatch.setenv("WORLD_SIZE", "4")
    transformer = example("fsdp2_transformer")
    flags = "--replicas 2 --mixed-precision --accumulate 2 --max-norm 1 --offload --layers 1"
    export_step(transformer.training_step(flags.split()), tmp_path / "step.pt")
    metadata = archive_metadata(tmp_path / "step.pt")
    assert metadata["mesh"]["shape"] == [2, 2]
    assert metadata["accumulate"] == 2
    assert metadata["clip_grad_norm"]["max_norm"] == 1
    for unit in metadata["units"]:
        assert (unit["param_dtype"], unit["reduce_dtype"]) == ("bfloat16", "float32")
        assert unit["offload"]
    with pytest.raises(SystemExit, match="does not divide 4 ranks"):
        transformer.training_step(["--replicas", "3"])


def test_gpt(example, text: Path) -> None:
    """Tests the model's shapes, its targets and its learning rates."""
    step = example("gpt_wikitext2").training_step([*SMALL, "--data", str(text)])
    assert step.model(step.inputs["idx"]).shape[:2] == (4, 16)
    assert step.data["idx"].shape[1] == 16
    assert torch.equal(step.data["idx"][0, 1:], step.data["targets"][0, :-1])
    assert step.lr_schedule(0) < step.lr_schedule(step.epochs)
    last = step.epochs * (len(step.data["idx"]) // 4)
    assert step.lr_schedule(last) == pytest.approx(0.1)
    assert step.eval_data is not None
    losses = train(step, 4)
    assert sum(losses[-5:]) < sum(losses[:5])


def test_gpt_tied_head(example, text: Path) -> None:
    """Tests that --tied makes the head and the embedding one parameter."""
    step = example("gpt_wikitext2").training_step([*SMALL, "--tied", "--data", str(text)])
    assert step.model.head.weight is step.model.token.weight


def test_gpt_ranks_share_the_steps(example, text: Path, monkeypatch) -> None:
    """Tests that the learning rate reaches its end on any number of ranks."""
    gpt = example("gpt_wikitext2")
    monkeypatch.setenv("WORLD_SIZE", "2")
    step = gpt.training_step([*SMALL, "--data", str(text)])
    last = step.epochs * (len(step.data["idx"]) // 2 // 4)
    assert step.lr_schedule(last) == pytest.approx(0.1)
    assert step.lr_schedule(last - 1) > 0.1


def test_gpt_sample(example, text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Tests that the trained weights continue a text."""
    gpt = example("gpt_wikitext2")
    argv = [*SMALL, "--data", str(text), "--sample", "paragraph 1"]
    step = gpt.training_step(argv)
    capsys.readouterr()
    gpt.after_training(argv, step.model.state_dict())
    assert "sample: paragraph 1" in capsys.readouterr().out


def test_default_text_is_pythons_documentation(example) -> None:
    """Tests that there is text on every machine, and that validation is not training."""
    train_text, valid_text, description = example("corpus").load_text(None)
    assert "pydoc_data" in description
    assert len(train_text) > 200_000
    paragraphs = set(train_text.split("\n\n"))
    assert not any(p in paragraphs for p in valid_text.split("\n\n") if p)


def test_folder_of_text_and_parquet(example, tmp_path: Path) -> None:
    """Tests that splits are found by a word of the name."""
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table({"text": ["one\n", "two\n"]})
    pyarrow.parquet.write_table(table, tmp_path / "train-00000-of-00001.parquet")
    (tmp_path / "wiki.valid.tokens").write_text("three")
    (tmp_path / "wiki.test.tokens").write_text("four")
    assert example("corpus").load_text(str(tmp_path))[:2] == ("one\ntwo\n", "three")


@pytest.mark.parametrize("names", [(), ("train.txt",)])
def test_folder_without_splits_is_refused(example, tmp_path: Path, names) -> None:
    """Tests that the missing file is named."""
    for name in names:
        (tmp_path / name).write_text("text")
    with pytest.raises(SystemExit, match="no (train|valid) file"):
        example("corpus").load_text(str(tmp_path))


def test_bad_sources_are_refused(example, tmp_path: Path) -> None:
    """Tests that what cannot be read is said in a line."""
    corpus = example("corpus")
    with pytest.raises(SystemExit, match="no such file or folder"):
        corpus.load_text(str(tmp_path / "none"))
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    with pytest.raises(SystemExit, match="not a UTF-8"):
        corpus.load_text(str(tmp_path / "latin.txt"))


def test_too_little_text_is_refused(example, tmp_path: Path) -> None:
    """Tests that the number of sequences and of those needed is said."""
    (tmp_path / "short.txt").write_text("a few words")
    with pytest.raises(SystemExit, match="fewer than one batch"):
        example("gpt_wikitext2").training_step([*SMALL, "--data", str(tmp_path / "short.txt")])


def test_wikitext2_without_its_package(example, monkeypatch) -> None:
    """Tests that a machine without `datasets` is told which files to give."""
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(SystemExit, match="--data FOLDER"):
        example("corpus").load_text("wikitext2")


def test_llama_is_built_on_meta(example, tmp_path: Path) -> None:
    llama = str(EXAMPLES / "llama3.py")
    step = load_training_step(llama, "--start meta --size debug --seq_len 16".split())
    assert all(parameter.is_meta for parameter in step.model.parameters())
    export_step(step, tmp_path / "llama.pt")
    stored = load_file(tmp_path / "llama.safetensors")
    names = {"cosine", "sine"}
    assert set(stored) == {f"fsdp.buffer.{n}" for n in names} | {
        "fsdp.input.tokens",
        "fsdp.input.targets",
    }
    torch.testing.assert_close(stored["fsdp.buffer.cosine"][0], torch.ones(16))


@pytest.mark.quick
@pytest.mark.parametrize("name", ("hf_trainer", "lightning_strategy", "generate", "mnist"))
def test_what_people_copy_is_short(name: str) -> None:
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) <= 160
