"""Tests a law of schedules: what is predicted to be exposed is least with
overlap, more in FSDP2's order, and with the naive order it is everything."""

from __future__ import annotations

import json

import pytest

from support import chain
from support.layouts import exported

MODELS = ("gpt-adamw", "gpt2", "tied", "resnet")
# The least step that predictions can tell apart.
RESOLUTION = 1e-3


@pytest.mark.parametrize("layout", ("dim0", "flat gather=copy"))
@pytest.mark.parametrize("cluster", ("local", "h100x8"))
@pytest.mark.parametrize("name", MODELS)
def test_overlap_exposes_least(
    name: str, cluster: str, layout: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    exposed, resolution = {}, 0.0
    for schedule in ("overlap", "fsdp2", "naive"):
        options = f"mesh=4 shard-layout={layout} cluster={cluster} schedule={schedule}"
        step = report(name, options, cluster, tmp_path_factory)
        exposed[schedule] = step["exposed_seconds"]
        resolution = RESOLUTION * step["predicted_seconds"]
    assert exposed["naive"] == pytest.approx(step["communication_seconds"])
    assert exposed["overlap"] <= exposed["fsdp2"] + resolution
    assert exposed["fsdp2"] <= exposed["naive"]


def report(
    name: str, options: str, cluster: str, factory: pytest.TempPathFactory
) -> dict[str, float]:
    """What --fsdp-report predicts of the training step."""
    archive = exported(name, factory)
    ir, out = archive.with_suffix(".mlir"), archive.with_suffix(".report.json")
    if not ir.exists():
        translate = chain.binary("fsdp-translate")
        chain.command([translate, "--import-torchscript", archive, "-o", ir])
    passes = [
        f"--fsdp-pipeline={options}",
        f"--fsdp-report=format=json output={out} cluster={cluster}",
    ]
    chain.command([chain.binary("fsdp-opt"), ir, *passes, "-o", "/dev/null"])
    return json.loads(out.read_text())["programs"]["step"]
