"""Tests that a dtype is one row: of the runtime's table and the exporter's, by every name that
files and libraries give it, from a model to files and back."""

from __future__ import annotations

import json
import pathlib
import re
import zipfile

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from fsdp_mlir import MixedPrecisionPolicy, TrainingStep
from fsdp_mlir.dtypes import DTYPES, DType
from fsdp_mlir.errors import ExportError
from support import chain

ROWS = list(DTYPES.values())
STORABLE = [row for row in ROWS if row.safetensors]
STORED_FLOATS = [row for row in ROWS if row.kind == "StoredFloat"]


def table() -> list[list[str]]:
    """The rows of DTypes.def, column by column."""
    text = (chain.ROOT / "runtime/plan/DTypes.def").read_text()
    rows = re.findall(r"^FSDP_DTYPE\((.*)\)$", text, re.MULTILINE)
    return [[column.strip(' "') for column in row.split(",")] for row in rows]


def mlir_types() -> dict[str, str]:
    """How MLIR prints the element types that the table names by their classes."""

    def printed(column: str) -> str:
        if part := re.fullmatch(r"Complex<(.*)>", column):
            return f"complex<{printed(part[1])}>"
        if width := re.fullmatch(r"(U?)Int<(\d+)>", column):
            return f"{width[1].lower()}i{width[2]}"
        return re.sub(r"^(B?)Float(.*)Type$", lambda m: f"{m[1].lower()}f{m[2]}", column)

    return {row[1]: printed(row[6]) for row in table()}


def test_the_exporters_rows_are_the_runtimes() -> None:
    ours = [
        [r.name, str(r.dtype.itemsize), r.kind, r.safetensors or "nullptr", str(r.scalar_type)]
        for r in ROWS
    ]
    assert [row[1:6] for row in table()] == ours
    format_ = (chain.ROOT / "docs/archive.md").read_text()
    (names,) = re.findall(r"^4\. dtypes: `(.*?)`", format_, re.MULTILINE)
    assert names.split() == [row.name for row in ROWS]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_dtypes_number_is_the_one_of_pytorch(row: DType) -> None:
    @torch.jit.script
    def number(x: torch.Tensor):  # type: ignore[no-untyped-def]
        return x.dtype

    assert number(torch.empty(0, dtype=row.dtype)) == row.scalar_type


def values(row: DType, *shape: int) -> torch.Tensor:
    count = torch.Size(shape).numel()
    numbers = torch.arange(count, dtype=torch.float32).reshape(shape) % 7 - 3
    return (numbers > 0 if row.kind == "Bool" else numbers.abs()).to(row.dtype)


class Model(nn.Module):
    """A buffer of each dtype that files have, frozen parameters and a constant of those that are
    only stored."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 5)
        for row in STORABLE:
            self.register_buffer(f"of_{row.name}", values(row, 3, 2))
        frozen = {row.name: nn.Parameter(values(row, 5, 6), False) for row in STORED_FLOATS}
        self.frozen = nn.ParameterDict(frozen)
        self.table = values(STORED_FLOATS[0], 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x) + self.table.to(torch.float32)
        for weight in self.frozen.values():
            y = y + nn.functional.linear(x, weight.to(torch.float32))
        for row in STORABLE:
            buffer = getattr(self, f"of_{row.name}")
            if row.kind == "Complex":
                buffer = torch.view_as_real(buffer.to(torch.complex128))
            y = y + buffer.to(torch.float32).sum()
        return y


def make_model() -> Model:
    torch.manual_seed(0)
    return Model()


def step(argv: list[str]) -> TrainingStep:
    model = make_model()
    return TrainingStep(
        model=model,
        loss=lambda model, x: model(x).square().mean(),
        optimizer=torch.optim.SGD(model.linear.parameters(), lr=0.01),
        inputs={"x": torch.arange(12.0).reshape(2, 6) / 10},
        steps=2,
    )


@pytest.mark.parametrize("layout", ("dim0", "flat"))
def test_each_goes_from_a_model_to_ranks_and_back(layout: str, tmp_path: pathlib.Path) -> None:
    compiled = chain.compile_step(step, tmp_path, pipeline=f"mesh=2 shard-layout={layout}")
    with zipfile.ZipFile(compiled.archive) as file:
        metadata = json.loads(file.read("step/extra/fsdp.json"))
    buffers = {buffer["fqn"]: buffer["dtype"] for buffer in metadata["buffers"]}
    ir = compiled.ir.read_text()
    plan = chain.plan_text(compiled.plan)
    for row in STORABLE:
        assert buffers[f"of_{row.name}"] == row.name
        assert f"@of_{row.name} buffer : tensor<3x2x{mlir_types()[row.name]}>" in ir
        assert f"buffer of_{row.name}: {row.name} [3, 2], Replicate" in plan
    for row in ROWS:
        # Of a call's values too, which need no file.
        assert f"x{mlir_types()[row.name]}>" in ir

    run = chain.run_plan(compiled, 2)
    before, after = load_file(compiled.weights), run.weights
    kept = [name for name in after if not name.startswith("linear.")]
    assert len(kept) == len(STORABLE) + len(STORED_FLOATS)
    for name in kept:
        assert after[name].dtype == before[name].dtype
        assert torch.equal(after[name].view(torch.uint8), before[name].view(torch.uint8)), name
    # The first loss is eager's.
    x = torch.arange(12.0).reshape(2, 6) / 10
    assert run.losses[0] == make_model()(x).square().mean().item()


def test_what_is_stored_is_not_trained(tmp_path: pathlib.Path) -> None:
    def trainable(argv: list[str]) -> TrainingStep:
        described = step(argv)
        described.model.frozen["float8_e5m2"].requires_grad_()
        return described

    with pytest.raises(
        chain.ChainError, match="the trainable parameter frozen.float8_e5m2 is"
    ) as e:
        chain.compile_step(trainable, tmp_path)
    assert "which is stored and not computed with: it has no sum over ranks" in e.value.output
    with pytest.raises(ExportError, match="reduce_dtype of MixedPrecisionPolicy is float8_e4m3fn"):
        MixedPrecisionPolicy(reduce_dtype=torch.float8_e4m3fn)
