"""Tests that a model which PyTorch itself distributes is refused, by the name of what to use."""

import pathlib
from typing import Iterator

import pytest
import torch
import torch.distributed as dist
from exporting import classify, export
from torch import nn

from fsdp_mlir import ExportError, fully_shard


@pytest.fixture(scope="module")
def group() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 3))


def test_torchs_fully_shard(group: None, tmp_path: pathlib.Path) -> None:
    from torch.distributed.fsdp import fully_shard as torchs

    sharded = torchs(model(), mesh=dist.device_mesh.init_device_mesh("cpu", (1,)))
    with pytest.raises(ExportError, match="0.weight is a DTensor.*import fully_shard from fsdp_m"):
        export(classify(sharded), tmp_path)


@pytest.mark.provokes("FSDP-E0202")
def test_torchs_mesh(group: None) -> None:
    mesh = dist.device_mesh.init_device_mesh("cpu", (1,))
    with pytest.raises(ExportError, match="mesh is DeviceMesh; give one from fsdp_mlir.init_dev"):
        fully_shard(model(), mesh=mesh)


def test_torchs_policy() -> None:
    from torch.distributed.fsdp import MixedPrecisionPolicy

    with pytest.raises(ExportError, match="is MixedPrecisionPolicy; give fsdp_mlir's Mixed"):
        fully_shard(model(), mp_policy=MixedPrecisionPolicy(torch.bfloat16))


def test_distributed_data_parallel(group: None, tmp_path: pathlib.Path) -> None:
    wrapped = nn.parallel.DistributedDataParallel(model())
    with pytest.raises(ExportError, match="the model is torch's DistributedDataParallel; give the"):
        export(classify(wrapped), tmp_path)


@pytest.mark.provokes("FSDP-E0217")
def test_data_parallel(tmp_path: pathlib.Path) -> None:
    wrapped = nn.Sequential(nn.DataParallel(nn.Linear(8, 8)), nn.Linear(8, 3))
    with pytest.raises(ExportError, match="0 is torch's DataParallel; give the module inside it"):
        export(classify(wrapped), tmp_path)
