"""Tests that an archive is what docs/archive.md says, to the last record and digest."""

import hashlib
import json
import pathlib
import re
import zipfile

import pytest
import safetensors
import torch
from exporting import Exported, classify, export
from torch import nn

from fsdp_mlir.archive.container import build_archive, serialise
from fsdp_mlir.errors import ExportError
from fsdp_mlir.archive.weights import save_tensors


@pytest.fixture
def exported(tmp_path: pathlib.Path) -> Exported:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 7), nn.BatchNorm1d(7), nn.Dropout(0.1), nn.Linear(7, 3))
    x, y = torch.randn(9, 8), torch.randint(3, (9,))
    step = classify(model, eval_data={"x": x, "y": y}, data={"x": x}, epochs=2, seed=7)
    return export(step, tmp_path)


def graph_nodes(exported: Exported, name: str) -> list:
    skipped = ("prim::Constant", "prim::ListConstruct", "prim::ListUnpack", "prim::TupleConstruct")
    graph = exported.module._c._get_method(name).graph
    return [node for node in graph.nodes() if node.kind() not in skipped]


def test_every_record_is_listed_with_its_digest(exported: Exported, tmp_path: pathlib.Path) -> None:
    listed = exported.metadata["sha256"]["records"]
    with zipfile.ZipFile(tmp_path / "step.pt") as file:
        records = {name.partition("/")[2]: file.read(name) for name in file.namelist()}
    del records["extra/fsdp.json"]
    assert {n: hashlib.sha256(d).hexdigest() for n, d in records.items()} == listed


def test_the_metadata_digest_leaves_itself_out(exported: Exported, tmp_path: pathlib.Path) -> None:
    with zipfile.ZipFile(tmp_path / "step.pt") as file:
        data = file.read("step/extra/fsdp.json")
    digest = exported.metadata["sha256"]["metadata"]
    blank, count = re.subn(rb'("metadata":")[0-9a-f]{64}', rb"\1", data)
    assert count == 1 and hashlib.sha256(blank).hexdigest() == digest
    assert data == serialise(exported.metadata)


def test_a_name_that_is_no_text_is_one_in_the_metadata() -> None:
    """As a file's is to a locale without its characters."""
    said = json.loads(serialise({"source": "gr\udcc3\udcb6sse.py \U0001f480", "bad": "\udcff"}))
    assert said == {"source": "grösse.py \U0001f480", "bad": "\ufffd"}


def test_nodes_stand_in_the_order_of_the_loaded_graph(exported: Exported) -> None:
    for name in ("step", "eval"):
        found = [(node.kind(), node.schema().split("(")[0]) for node in graph_nodes(exported, name)]
        described = []
        for node in exported.program(name)["nodes"]:
            overload = f".{node['overload']}" if node["overload"] else ""
            described.append((node["op"], node["op"] + overload))
        assert found == described


def test_value_names_survive_loading(exported: Exported) -> None:
    for name in ("step", "eval"):
        for node, entry in zip(graph_nodes(exported, name), exported.program(name)["nodes"]):
            names = [re.sub(r"\.\d+$", "", output.debugName()) for output in node.outputs()]
            assert names == [n for n in entry["results"] if n is not None]


def test_every_value_is_described_once(exported: Exported) -> None:
    program = exported.program()
    names = [a["name"] for a in program["arguments"]]
    names += [n for node in program["nodes"] for n in node["results"] if n is not None]
    assert len(set(names)) == len(names)
    assert set(names) == set(program["values"])
    assert all(re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) for name in names)


def test_the_one_cotangent_is_the_losss(exported: Exported) -> None:
    program = exported.program()
    (cotangent,) = [a for a in program["arguments"] if a["role"] == "cotangent"]
    assert program["values"][cotangent["name"]]["shape"] == []
    assert program["results"][0]["role"] == "loss"


def test_phases_modules_and_lines(exported: Exported) -> None:
    nodes = exported.program()["nodes"]
    phases = [node["phase"] for node in nodes]
    assert phases == sorted(phases, reverse=True)  # all of forward, then all of backward
    for phase in ("forward", "backward"):
        modules = {node["module"] for node in nodes if node["phase"] == phase}
        assert {"0", "1", "3"} <= modules
    assert all(re.fullmatch(r"[\w.]+\.py:\d+", node["source"]) for node in nodes)


def test_the_rest_of_the_metadata(exported: Exported) -> None:
    metadata = exported.metadata
    assert (metadata["format"], metadata["format_version"]) == ("fsdp-mlir", 10)
    assert metadata["torch_version"] == torch.__version__.partition("+")[0]
    assert metadata["source"] == "a_step.py"
    assert metadata["length"] == {"epochs": 2} and metadata["seed"] == 7
    assert metadata["rank_metrics"] == [] and metadata["schedule"] is None
    assert [(i["name"], i["source"]) for i in metadata["inputs"]] == [
        ("x", "data"),
        ("y", "repeat"),
    ]
    assert [m["path"] for m in metadata["modules"]] == ["", "0", "1", "2", "3"]
    assert [m["class"] for m in metadata["modules"]][:2] == ["Sequential", "Linear"]
    assert [b["dtype"] for b in metadata["buffers"]] == ["float32", "float32", "int64"]


def test_weights_hold_each_tensor_once_and_name_its_aliases(tmp_path: pathlib.Path) -> None:
    model = nn.Sequential(nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False))
    model[1].weight = model[0].weight
    exported = export(classify(model), tmp_path)
    assert set(exported.weights) == {"0.weight", "fsdp.input.x", "fsdp.input.y"}
    with safetensors.safe_open(tmp_path / "step.safetensors", "pt") as file:
        assert file.metadata() == {"1.weight": "0.weight"}


def test_a_parameter_that_is_not_row_major(tmp_path: pathlib.Path) -> None:
    """It is held row by row."""
    model = nn.Linear(8, 3)
    model.weight = nn.Parameter(torch.randn(8, 3).t())
    exported = export(classify(model), tmp_path)
    assert exported.metadata["parameters"][0]["strides"] == [8, 1]
    assert torch.equal(exported.weights["weight"], model.weight.detach())


@pytest.mark.parametrize(
    "dtype",
    [torch.bool, torch.uint8, torch.int16, torch.int64, torch.bfloat16, torch.float16]
    + [torch.float64, torch.complex64],
)
def test_tensors_of_any_dtype_are_written_as_they_are(
    tmp_path: pathlib.Path, dtype: torch.dtype
) -> None:
    import safetensors.torch

    tensors = {
        "a": torch.arange(6).reshape(2, 3).to(dtype).t(),
        "empty": torch.empty(0, 3, dtype=dtype),
        "scalar": torch.tensor(1).to(dtype),
    }
    save_tensors(tmp_path / "t.safetensors", tensors)
    loaded = safetensors.torch.load_file(tmp_path / "t.safetensors")
    for name, tensor in tensors.items():
        assert loaded[name].dtype == dtype and torch.equal(loaded[name], tensor)


def test_tensor_data_starts_at_aligned_offsets(tmp_path: pathlib.Path) -> None:
    save_tensors(tmp_path / "t.safetensors", {"a": torch.ones(3)})
    data = (tmp_path / "t.safetensors").read_bytes()
    assert int.from_bytes(data[:8], "little") % 8 == 0


def test_a_link_is_replaced_and_not_followed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "of-another").write_text("kept")
    (tmp_path / "t.safetensors").symlink_to(tmp_path / "of-another")
    save_tensors(tmp_path / "t.safetensors", {"a": torch.ones(3)})
    assert (tmp_path / "of-another").read_text() == "kept"
    assert not (tmp_path / "t.safetensors").is_symlink()


def test_the_same_step_gives_the_same_bytes(tmp_path: pathlib.Path) -> None:
    files = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        torch.manual_seed(0)
        export(classify(nn.Linear(8, 3)), tmp_path / name)
        files.append({p.name: p.read_bytes() for p in (tmp_path / name).iterdir()})
    assert files[0] == files[1]


@pytest.mark.provokes("FSDP-E0303")
def test_a_description_that_does_not_fit_the_graph_is_refused() -> None:
    source = "  def step(self: __torch__.Step, x: Tensor) -> Tuple[Tensor]:\n"
    source += "    y = torch.mul(x, 2)\n    return (y,)\n"
    node = {"op": "aten::mul", "overload": "Tensor", "source": "model.py:3"}
    with pytest.raises(ExportError, match="model.py:3: TorchScript reads the op aten::mul.Tensor"):
        build_archive(
            {"step": source},
            {"programs": {"step": {"nodes": [node]}}, "optimizer": {"rules": []}},
        )


def test_archives_load_where_only_cpus_are(exported: Exported, tmp_path: pathlib.Path) -> None:
    with zipfile.ZipFile(tmp_path / "step.pt") as file:
        code = file.read("step/code/__torch__.py").decode()
    devices = set(re.findall(r'torch\.device\("([^"]+)"\)', code))
    assert devices <= {"cpu"}
