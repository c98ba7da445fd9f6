"""Tests that a run may start from weights in any file: what they lack is said by name."""

import json
import os
import pathlib
from typing import Any, Callable

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from fsdp_mlir.archive.start_weights import WeightsError, compose, tensor_reads

Tensors = dict[str, torch.Tensor]


def state(fqn: str, shape: list[int], aliases: list[str] = [], **fields: Any) -> dict[str, Any]:
    return {"fqn": fqn, "shape": shape, "dtype": "float32", "aliases": aliases, **fields}


METADATA = {
    "parameters": [state("a.weight", [3, 2], ["head.weight"]), state("a.bias", [3])],
    "buffers": [state("mean", [3], persistent=True), state("mask", [3], persistent=False)],
}
WEIGHTS = {"head.weight": torch.rand(3, 2), "a.bias": torch.rand(3), "mean": torch.rand(3)}


def one_file(folder: pathlib.Path, weights: Tensors) -> pathlib.Path:
    save_file(weights, folder / "model.safetensors")
    return folder / "model.safetensors"


def a_folder_with_an_index(folder: pathlib.Path, weights: Tensors) -> pathlib.Path:
    places = {}
    for index, (name, tensor) in enumerate(weights.items()):
        places[name] = f"model-{index}.safetensors"
        save_file({name: tensor}, folder / places[name])
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    return folder


def torch_save(folder: pathlib.Path, weights: Tensors) -> pathlib.Path:
    torch.save({"epoch": 3, "state_dict": weights}, folder / "checkpoint.pt")
    return folder / "checkpoint.pt"


@pytest.fixture
def exported(tmp_path: pathlib.Path) -> pathlib.Path:
    own = {name: torch.zeros(shape) for name, shape in (("a.weight", (3, 2)), ("a.bias", 3))}
    others = {"fsdp.buffer.mask": torch.ones(3), "fsdp.constant.0": torch.full((2,), 7.0)}
    save_file({**own, "mean": torch.zeros(3), **others}, tmp_path / "step.safetensors")
    return tmp_path / "step.safetensors"


@pytest.mark.parametrize("write", [one_file, a_folder_with_an_index, torch_save])
def test_weights_of_others_are_completed(
    write: Callable, exported: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "given").mkdir()
    given = write(tmp_path / "given", {**WEIGHTS, "a.bias": WEIGHTS["a.bias"].double()})
    notes = compose(given, exported, METADATA, tmp_path / "start.safetensors")
    assert notes == ["a.bias are cast to the model's dtype"]
    found = load_file(tmp_path / "start.safetensors")
    assert torch.equal(found["a.weight"], WEIGHTS["head.weight"])
    assert torch.equal(found["a.bias"], WEIGHTS["a.bias"].double().float())
    assert torch.equal(found["fsdp.constant.0"], torch.full((2,), 7.0))
    assert torch.equal(found["fsdp.buffer.mask"], torch.ones(3))


@pytest.mark.parametrize(
    "change, text",
    [
        ({"a.bias": None, "bias": torch.rand(3)}, "has no a.bias; it has bias, which the model"),
        ({"mean": torch.rand(4)}, r"mean has shape \[4\] in .* and \[3\] in the model"),
    ],
)
def test_weights_that_do_not_fit(
    change: Tensors, text: str, exported: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    weights = {name: t for name, t in {**WEIGHTS, **change}.items() if t is not None}
    given = one_file(tmp_path, weights)
    with pytest.raises(WeightsError, match=text):
        compose(given, exported, METADATA, tmp_path / "start.safetensors")
    assert not (tmp_path / "start.safetensors").exists()


@pytest.mark.parametrize("wrapper", ["module.", "_orig_mod.", "net.model."])
def test_the_path_of_a_wrapper_is_left_out(
    wrapper: str, exported: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Tests that what DDP, torch.compile and Lightning save is taken, and no one of two models."""
    given = one_file(tmp_path, {wrapper + name: tensor for name, tensor in WEIGHTS.items()})
    notes = compose(given, exported, METADATA, tmp_path / "start.safetensors")
    assert notes == [f"names in {given} are taken without {wrapper} before them"]
    found = load_file(tmp_path / "start.safetensors")
    assert torch.equal(found["a.bias"], WEIGHTS["a.bias"])
    both = {head + name: t.clone() for name, t in WEIGHTS.items() for head in (wrapper, "ema.")}
    with pytest.raises(WeightsError, match="has no "):
        compose(one_file(tmp_path, both), exported, METADATA, tmp_path / "start.safetensors")


def test_files_of_old_versions_are_read(exported: pathlib.Path, tmp_path: pathlib.Path) -> None:
    torch.save(WEIGHTS, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    assert compose(tmp_path / "old.pt", exported, METADATA, tmp_path / "start.safetensors") == []


@pytest.mark.parametrize("write", [one_file, torch_save])
def test_complex_weights_are_taken_in_pairs(
    write: Callable, exported: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "given").mkdir()
    bare = torch.randn(3, dtype=torch.complex64)
    given = write(tmp_path / "given", {**WEIGHTS, "head.weight": bare})
    assert compose(given, exported, METADATA, tmp_path / "start.safetensors") == []
    found = load_file(tmp_path / "start.safetensors")
    assert torch.equal(found["a.weight"], torch.view_as_real(bare))


@pytest.mark.parametrize(
    "value", [torch.eye(3)[0].to_sparse(), torch.empty(3, device="meta")], ids=["sparse", "meta"]
)
def test_what_is_no_dense_tensor_is_refused(
    value: torch.Tensor, exported: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    torch.save({**WEIGHTS, "mean": value}, tmp_path / "given.pt")
    with pytest.raises(WeightsError, match="mean is .* in .*given.pt and a dense float32"):
        compose(tmp_path / "given.pt", exported, METADATA, tmp_path / "start.safetensors")


@pytest.mark.parametrize("name", ["model.safetensors", "model.pt"])
def test_what_is_no_regular_file_is_refused_at_once(name: str, tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(WeightsError, match="it is not a regular file"):
        tensor_reads(tmp_path / name)


@pytest.mark.parametrize(
    "text", ["", "null", "[]", "{}", '{"weight_map": [1]}', '{"weight_map": {"a": 3}}', "[" * 9999]
)
def test_what_is_no_index_is_refused(text: str, tmp_path: pathlib.Path) -> None:
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(text)
    with pytest.raises(WeightsError, match="index.json cannot be read"):
        tensor_reads(index)


@pytest.mark.provokes("FSDP-E0906")
def test_a_pickled_model_is_not_run(exported: pathlib.Path, tmp_path: pathlib.Path) -> None:
    torch.save(nn.Linear(2, 3), tmp_path / "model.pt")
    with pytest.raises(WeightsError, match="alone: it holds torch.nn.modules.linear.Linear; save "):
        compose(tmp_path / "model.pt", exported, METADATA, tmp_path / "start.safetensors")


def test_a_tensor_in_two_files_is_refused(exported: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Where no index says which of them holds it."""
    folder = tmp_path / "given"
    folder.mkdir()
    save_file(WEIGHTS, folder / "model.safetensors")
    save_file({"mean": torch.zeros(3)}, folder / "old.safetensors")
    with pytest.raises(WeightsError, match="mean is in .*model.safetensors and in old.safetensors"):
        compose(folder, exported, METADATA, tmp_path / "start.safetensors")
    places = {name: "model.safetensors" for name in WEIGHTS} | {"other": "old.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    compose(folder, exported, METADATA, tmp_path / "start.safetensors")
    assert torch.equal(load_file(tmp_path / "start.safetensors")["mean"], WEIGHTS["mean"])


def test_a_tensor_twice_in_a_header_is_refused(tmp_path: pathlib.Path) -> None:
    entry = '"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}'
    header = f"{{{entry}, {entry}}}".encode()
    file = tmp_path / "twice.safetensors"
    file.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    with pytest.raises(WeightsError, match="twice.safetensors has a twice in its header"):
        tensor_reads(file)
