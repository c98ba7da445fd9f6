"""Tests of training that is aware of quantisation: fake quantisation with torch.ao's observers."""

import pathlib
import warnings

import pytest
import torch
from exporting import assert_same_as_eager, classify, export
from torch import nn
from torch.ao import quantization

from fsdp_mlir import ExportError


def prepared(version: int = 1, backend: str = "fbgemm") -> nn.Module:
    """A model with observers of its weights and of what its layers give."""
    layers = nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)
    model = nn.Sequential(quantization.QuantStub(), *layers, quantization.DeQuantStub())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch is moving it to another package
        model.qconfig = quantization.get_default_qat_qconfig(backend, version=version)
        return quantization.prepare_qat(model.train())


@pytest.mark.parametrize("backend", ["fbgemm", "qnnpack"])
def test_observers_that_have_seen_a_batch(tmp_path: pathlib.Path, backend: str) -> None:
    model = prepared(backend=backend)
    model(torch.randn(4, 8))
    exported = assert_same_as_eager(classify(model), tmp_path)
    assert "1.weight_fake_quant.scale" in exported.results("buffer_update")


@pytest.mark.provokes("FSDP-E0213")
def test_observers_without_sizes_are_refused(tmp_path: pathlib.Path) -> None:
    text = r"the buffer 1\.weight_fake_quant.*\.min_val has no elements, .* Run the model once on a"
    with pytest.raises(ExportError, match=text):
        export(classify(prepared()), tmp_path)


@pytest.mark.provokes("FSDP-E0206")
def test_pytorchs_line_that_reads_a_value_is_named(tmp_path: pathlib.Path) -> None:
    """The older observers ask the batch whether what they have seen has a range."""
    model = prepared(version=0)
    model(torch.randn(4, 8))
    text = r"^exporting.py:\d+: .* number in torch/ao/quantization/utils.py:\d+; use what"
    with pytest.raises(ExportError, match=text):
        export(classify(model), tmp_path)
