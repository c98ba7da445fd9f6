"""Tests that what functions under `functools.lru_cache` keep of a capture is forgotten."""

import functools
import pathlib
import threading

import torch
import torch.nn.functional as F
from exporting import assert_same_as_eager, classify, export
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from fsdp_mlir.capture.state.function_caches import FunctionCaches

LOCK = threading.Lock()  # at which Dynamo gives up


@functools.lru_cache
def places(count: int) -> torch.Tensor:
    return torch.arange(count).repeat_interleave(2)


def keeps_a_table(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    with LOCK:
        return F.cross_entropy(model(x), y) + (model(x).mean(1) * places(4)[y]).mean()


def test_a_table_that_a_function_keeps(tmp_path: pathlib.Path) -> None:
    places.cache_clear()
    exported = assert_same_as_eager(classify(nn.Linear(8, 3), loss=keeps_a_table), tmp_path)
    assert not any("lru_cache" in note for note in exported.notes)


@functools.lru_cache
def noise(count: int) -> torch.Tensor:
    return torch.randn(count)


def keeps_noise(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    with LOCK:
        return F.cross_entropy(model(x), y) + (model(x).mean(1) * noise(len(y))).mean()


def test_noise_that_a_function_keeps_is_a_note(tmp_path: pathlib.Path) -> None:
    noise.cache_clear()
    exported = export(classify(nn.Linear(8, 3), loss=keeps_noise), tmp_path)
    assert [note for note in exported.notes if "what noise computes" in note]


def test_a_cache_that_is_made_after_others_were_looked_for_is_found() -> None:
    FunctionCaches()
    kept = functools.lru_cache(lambda: torch.ones(3))
    with FakeTensorMode():
        kept()
    FunctionCaches().forget_captured()
    assert kept.cache_info().currsize == 0
