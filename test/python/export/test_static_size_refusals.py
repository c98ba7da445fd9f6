"""Tests that steps whose sizes depend on values in ways that no mask stands for are refused with
their line."""

import pathlib

import pytest
import torch
import torch.nn.functional as F
from exporting import export
from selected_rows import WIDTH, Body, Model, step_of
from torch import Tensor

from fsdp_mlir import ExportError


def loops(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
    return torch.stack([model.layer(row).sum() for row in x[m]]).sum()


def writes_from_the_end(model: Model, x: Tensor, m: Tensor, y: Tensor) -> Tensor:
    rows = model.layer(x[m]).clone()
    rows[-1:] = 0
    return rows.sum()


REFUSED: dict[str, tuple[Body, str]] = {
    "writes-rows": (
        writes_from_the_end,
        r"aten::slice .* cannot take with a mask: it counts from the end",
    ),
    "loop": (loops, r"the step decides by a size that depends on values.* or use torch.where"),
    "median": (
        lambda s, x, m, y: s.layer(x[m]).median(),
        r"of aten::index has a shape .* aten::median cannot take with a mask; compute all elements",
    ),
    "batch-norm": (
        lambda s, x, m, y: F.batch_norm(s.layer(x[m]), None, None, training=True).sum(),
        r"which aten::_native_batch_norm_legit cannot take with a mask",
    ),
    "no-bound": (
        lambda s, x, m, y: s.layer(torch.zeros(int(y.sum().item()), WIDTH)).sum(),
        r"nothing says how large it can be; say it by `with fsdp_mlir.at_most\(n\):`",
    ),
    "number": (
        lambda s, x, m, y: s.layer(torch.nan_to_num(x)).sum() * len(str(y.float().sum().item())),
        r"the step reads a tensor's value as a Python number",
    ),
    "to-numpy": (
        lambda s, x, m, y: s.layer(x).sum() * sum((m.nonzero() + 1).numpy().tolist()[0]),
        r"the step gives a tensor to NumPy",
    ),
    "list": (
        lambda s, x, m, y: s.layer(x).sum() * [1, 2, 3, 4, 5, 6, 7][x[m].shape[0]],
        r"the step decides by a size that depends on values",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(tmp_path: pathlib.Path, name: str) -> None:
    body, message = REFUSED[name]
    with pytest.raises(ExportError, match=r"^test_static_size_refusals.py:\d+: .*" + message):
        export(step_of(body), tmp_path)
