"""Tests that kernels are measured once, refused where they are another machine's, and that a plan
with fast ones trains as eager PyTorch to 1e-5, with the same bits over transports and runs."""

from __future__ import annotations

import pathlib
import re
import tomllib
from typing import Any

import pytest
import torch

from fsdp_mlir import TrainingStep
from fsdp_mlir.capture.operators.library_defaults import every_layer
from support import chain, reference

GPT = pathlib.Path(__file__).parent / "models" / "gpt.py"
# Sums of less than 256 products have one order, and the same bits, in all kernels.
SIZES = ("--width", "256", "--layers", "1")
RANKS, STEPS = 2, 5
ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> chain.Compiled:
    folder = tmp_path_factory.mktemp("kernels")
    options = f"mesh={RANKS} shard-layout=flat"
    return chain.compile_step(GPT, folder / "exact", SIZES, pipeline=options)


def tune(plan: pathlib.Path, table: pathlib.Path, check: bool = True) -> str:
    done = chain.command([chain.binary("fsdp-run"), plan, "--tune", table], check=check)
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def table(exact: chain.Compiled) -> pathlib.Path:
    path = exact.plan.parents[1] / "kernels.toml"
    assert re.match(r"measured (\d+) of \1 products in .* by ATen, .*", tune(exact.plan, path))
    return path


@pytest.fixture(scope="module")
def fast(exact: chain.Compiled, table: pathlib.Path) -> chain.Compiled:
    """By the measured table, but as if ATen's kernels took a second: of products as small as a
    test's they are the fastest."""
    slow = table.with_name("slow.toml")
    slow.write_text(re.sub(r"\baten = [^,} ]+", "aten = 1.0", table.read_text()))
    options = f"mesh={RANKS} shard-layout=flat kernels=fast kernel-table={slow}"
    return chain.lower(GPT, exact.archive, exact.plan.parents[1] / "fast", pipeline=options)


def run(compiled: chain.Compiled, *extra: str, threads: bool = False) -> chain.Result:
    return chain.run_plan(compiled, RANKS, threads=threads, steps=STEPS, extra=extra)


def same(a: chain.Result, b: chain.Result) -> bool:
    return a.losses == b.losses and all(torch.equal(w, b.weights[n]) for n, w in a.weights.items())


@pytest.mark.quick
def test_fast_kernels_train_as_exact_ones(exact: chain.Compiled, fast: chain.Compiled) -> None:
    text = chain.plan_text(fast.plan)
    # Each product of the step and of the evaluation; none is ATen's.
    assert len(re.findall(r"fsdp_mlir::(mm|addmm)\.onednn", text)) >= 20
    assert not re.findall(rf"aten::(mm|addmm|{ATTENTION}|{ATTENTION}_backward)\(", text)
    expected, once = run(exact), run(fast)
    assert once.losses == pytest.approx(expected.losses, rel=0, abs=1e-5)
    assert not same(once, expected)  # they are other kernels
    # Other transports put operands at other addresses.
    for again in (run(fast), run(fast, "--comm", "gloo"), run(fast, threads=True)):
        assert same(again, once)
    # What they give lies where the plan has it, and what they need in its scratch.
    assert once.summary["outputs_copied"] == {"count": 0, "bytes": 0}
    assert once.summary["step_allocated_bytes"] == 0


def test_a_product_is_measured_once(exact: chain.Compiled, table: pathlib.Path) -> None:
    before = table.read_bytes()
    assert tune(exact.plan, table).startswith("measured 0 of ")
    assert table.read_bytes() == before
    # Each has all the kernels of its family, and what it lacks is added.
    products = tomllib.loads(before.decode())["products"]
    assert all("aten" in times and "onednn_primitive" in times for times in products.values())
    assert {"mm", "addmm", ATTENTION, f"{ATTENTION}_backward"} == {p.split()[0] for p in products}
    lacking = table.with_name("lacking.toml")
    lines = before.decode().splitlines(keepends=True)
    lacking.write_text("".join(lines[:-1]))
    assert tune(exact.plan, lacking).startswith("measured 1 of ")
    assert tomllib.loads(lacking.read_text())["products"].keys() == products.keys()


def test_types_of_16_bits_are_computed_in_float32_where_they_are_slow(
    tmp_path: pathlib.Path,
) -> None:
    """A plan whose products are slow on this processor is told so; one with fast kernels trains as
    it does, to bfloat16's digits."""
    options, table = f"mesh={RANKS} shard-layout=flat", tmp_path / "kernels.toml"
    argv = ("--precision", "bf16", "--layers", "1", "--width", "64")
    exact = chain.compile_step(GPT, tmp_path / "exact", argv, pipeline=options)
    tune(exact.plan, table)
    options += f" kernels=fast kernel-table={table}"
    fast = chain.lower(GPT, exact.archive, tmp_path / "fast", argv, pipeline=options)
    slow, quick = run(exact), run(fast)
    assert quick.losses == pytest.approx(slow.losses, rel=1e-2)
    text = chain.plan_text(fast.plan)
    flags = pathlib.Path("/proc/cpuinfo").read_text()
    if "avx2" not in flags or "avx512f" in flags:
        assert "of 16 bits are slow" not in slow.output
        return
    assert re.search(
        r"note: \d+ matrix products.* are slow on .*; compile the plan with kernels=fast ",
        slow.output,
    )
    assert "of 16 bits are slow" not in quick.output
    assert re.search(r"fsdp_mlir::mm\.float32", text)
    assert not re.findall(r"aten::(mm|addmm)\(", text)


def image_classifier(argv: list[str]) -> TrainingStep:
    """ResNet-18 or ViT on 16 images of noise: sums of batch normalization over 4 values at least,
    since over two their signs alone would be left, and each last bit another run."""
    from torchvision import models

    torch.manual_seed(0)
    model = {
        "resnet18": lambda: models.resnet18(num_classes=10),
        "vit": lambda: models.VisionTransformer(64, 8, 2, 4, 128, 512, num_classes=10),
    }[argv[0]]()
    data = {"x": torch.randn(16, 3, 64, 64), "y": torch.randint(10, (16,))}
    return TrainingStep(
        model=model,
        loss=lambda model, x, y: torch.nn.functional.cross_entropy(model(x), y),
        optimizer=torch.optim.SGD(model.parameters(), lr=0.01),
        inputs={name: tensor[:4] for name, tensor in data.items()},
        data=data,
        epochs=1,
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("step", "argv"),
    [(GPT, SIZES), (image_classifier, ("resnet18",)), (image_classifier, ("vit",))],
    ids=["gpt", "resnet18", "vit"],
)
def test_fifty_steps_stay_with_eagers(
    step: Any, argv: tuple[str, ...], tmp_path: pathlib.Path
) -> None:
    steps, options = 50, f"mesh={RANKS} shard-layout=flat"
    compiled = chain.compile_step(step, tmp_path / "exact", argv, pipeline=options)
    measured = tmp_path / "kernels.toml"
    tune(compiled.plan, measured)
    options += f" kernels=fast kernel-table={measured}"
    fast = chain.lower(
        compiled.step_file, compiled.archive, tmp_path / "fast", argv, pipeline=options
    )
    eager = reference.load_step(compiled.step_file, list(argv))
    with every_layer(eager.model):
        expected = reference.averaged(eager, RANKS, steps).mean_losses
    losses = chain.run_plan(fast, RANKS, steps=steps).losses
    assert losses == pytest.approx(expected, rel=0, abs=1e-5)


@pytest.mark.provokes("FSDP-E0406")
def test_what_is_of_another_machine_is_refused(
    exact: chain.Compiled, table: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    other = tmp_path / "other.toml"
    other.write_text(re.sub(r"\ncpu = .*", '\ncpu = "Abacus 3000"', table.read_text()))
    before = other.read_bytes()
    refused = "was measured on Abacus 3000, and this is "
    assert refused in tune(exact.plan, other, check=False)
    assert other.read_bytes() == before
    options = f"mesh=2 kernels=fast kernel-table={other}"
    with pytest.raises(chain.ChainError, match=refused):
        chain.lower(GPT, exact.archive, tmp_path, pipeline=options)
    gpus = chain.lower(GPT, exact.archive, tmp_path, pipeline="mesh=2 device=cuda")
    assert "measures kernels of CPUs, and the plan is for GPUs" in tune(
        gpus.plan, tmp_path / "none.toml", check=False
    )
    assert not (tmp_path / "none.toml").exists()
    # Of another cluster it is that one's own.
    chain.lower(GPT, exact.archive, tmp_path, pipeline=f"{options} cluster=h100x8")
