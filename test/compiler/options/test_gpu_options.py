"""Tests that plans for GPUs have the same bits with every option, and the CPU's numbers: on
imitated GPUs, where copies and collectives run on streams and kernels are PyTorch's for
CPUs."""

from __future__ import annotations

import functools
from typing import Callable

import pytest
import torch

from support import chain, options

# fsdp-run, linked to an imitation of CUDA and NCCL.
PROGRAM = "imitated/fsdp-run"
MODELS = ("gpt", "mlp", "resnet")

Run = Callable[..., chain.Result]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    chain.imitated_gpus()
    folder = tmp_path_factory.mktemp("gpu")
    archives = options.Archives(folder)

    @functools.lru_cache(maxsize=None)
    def run(
        model: str, ranks: int, pipeline: str, flags: tuple[str, ...] = (), step: str = ""
    ) -> chain.Result:
        on_gpus = "device=cuda" in pipeline
        return chain.run_plan(
            archives.lower(model, f"mesh={ranks} {pipeline}", folder / "run", step),
            ranks,
            steps=4,
            extra=flags,
            poison=False,
            program=PROGRAM if on_gpus else "fsdp-run",
        )

    return run


def same_bits(a: chain.Result, b: chain.Result) -> bool:
    return a.losses == b.losses and all(
        torch.equal(a.weights[name], b.weights[name]) for name in a.weights
    )


PLAIN = "device=cuda schedule=naive shard-layout=dim0"


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "ranks, pipeline",
    [
        (1, "schedule=overlap"),
        (2, "schedule=overlap"),
        (3, "schedule=fsdp2 shard-layout=dim0"),
        (2, "schedule=overlap reshard-after-forward=false remat=full"),
        (4, "schedule=overlap reshard-after-forward=2 units=auto"),
        (2, "schedule=overlap offload=params"),
        (3, "schedule=fsdp2 offload=optimizer shard-layout=dim0"),
        (2, "schedule=naive offload=all"),
        (2, "schedule=overlap streams=1 memory-budget-mib=1"),
    ],
)
def test_options_change_no_bit(run: Run, model: str, ranks: int, pipeline: str) -> None:
    assert same_bits(run(model, ranks, f"device=cuda {pipeline}"), run(model, ranks, PLAIN))


# The host updates mlp's offloaded parameters: no optimizer state keeps them from it.
@pytest.mark.parametrize(
    "model, pipeline",
    [
        ("mlp", "schedule=overlap"),
        ("gpt", "schedule=overlap"),
        ("resnet", "schedule=overlap"),
        ("resnet", "schedule=overlap offload=params"),
    ],
)
def test_a_graph_has_the_bits_of_the_streams(run: Run, model: str, pipeline: str) -> None:
    found = run(model, 1, f"device=cuda {pipeline}", ("--cuda-graph",))
    assert "without a CUDA graph" not in found.output
    assert same_bits(found, run(model, 1, PLAIN))


@pytest.mark.parametrize("step", ("--scaler", "--accumulate 3", "--clip-norm 0.5 2"))
def test_what_else_a_step_does_is_in_its_graph(run: Run, step: str) -> None:
    graph = run("gpt", 1, "device=cuda schedule=overlap", ("--cuda-graph",), step)
    assert "without a CUDA graph" not in graph.output
    assert same_bits(graph, run("gpt", 1, PLAIN, (), step))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("ranks", (1, 2))
def test_the_numbers_are_the_cpus(run: Run, model: str, ranks: int) -> None:
    gpu, cpu = run(model, ranks, PLAIN), run(model, ranks, "schedule=naive")
    assert gpu.losses == pytest.approx(cpu.losses, rel=1e-5)
    for name, expected in cpu.weights.items():
        found = gpu.weights[name]
        if name.endswith("qkv.bias"):
            # A bias of keys changes no row's softmax: its gradient is rounding alone, of
            # which AdamW makes whole steps.
            found, expected = found.chunk(3)[0], expected.chunk(3)[0]
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("flags", ((), ("--cuda-graph",), ("--single-communicator",)))
def test_nccl_has_the_bits_of_copies(
    run: Run, model: str, flags: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A sum of two has one order, and a division by two no rounding.
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    found = run(model, 2, "device=cuda schedule=overlap", ("--comm", "nccl", *flags))
    assert "ranks over NCCL" in found.output and "without a CUDA graph" not in found.output
    assert same_bits(found, run(model, 2, PLAIN))


def test_nccl_exchanges_matrices(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    nccl = ("--comm", "nccl", "--cuda-graph")
    found = run("gpt", 2, "device=cuda schedule=overlap", nccl, "--muon")
    assert "without a CUDA graph" not in found.output
    assert same_bits(found, run("gpt", 2, PLAIN, (), "--muon"))
    # Muon's iteration in bfloat16 makes more of last bits: 2e-5 where its products are not oneDNN's.
    most = 1e-5 if torch.ops.mkldnn._is_mkldnn_bf16_supported() else 5e-5
    assert found.losses == pytest.approx(run("gpt", 2, "", (), "--muon").losses, rel=most)
