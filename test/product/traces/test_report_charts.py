"""Tests that the pictures of a run's page show what matters, and can be told apart."""

from __future__ import annotations

import re

import pytest
from fsdp_mlir.report.charts import line_chart

from support import chain


@pytest.mark.quick
def test_a_long_curve_keeps_what_stands_out() -> None:
    """Of 100,000 steps a picture has no room for all; one that is far off must be seen."""
    points = [(float(step), 2.0) for step in range(100_000)]
    points[50_003] = (50_003.0, 500.0)
    drawn = line_chart("loss", "", [("training", points)])
    assert len(drawn) < 20_000 and ">500</text>" in drawn


@pytest.mark.quick
def test_each_line_of_a_chart_has_a_colour() -> None:
    style = (chain.ROOT / "python" / "fsdp_mlir" / "report" / "page.css").read_text()
    lines = [(f"loss {i}", [(1.0, 1.0), (2.0, 2.0)]) for i in range(12)]
    for name in re.findall(r'class="line (\w+)"', line_chart("loss", "", lines)):
        assert f".{name} {{ stroke: " in style, name


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.quick
def test_colours_can_be_told_apart() -> None:
    """Text has the contrast that WCAG 2 asks of it (4.5), and so have bars and areas (3)."""
    style = (chain.ROOT / "python" / "fsdp_mlir" / "report" / "page.css").read_text()
    script = (chain.ROOT / "python" / "fsdp_mlir" / "report" / "page.js").read_text()
    (on_bars,) = re.findall(r'fillStyle = "(#\w{6})"', script)
    light, dark = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    colours: dict[str, str] = {}
    for block in (light, dark):
        colours.update(re.findall(r"--(\w+): (#\w{6})", block))
        for ground in (colours["ground"], colours["raised"]):
            for name in ("text", "quiet", "link"):
                assert contrast(colours[name], ground) >= 4.5, name
        bars = ("kernel", "update", "copy", "collective", "exposed")
        for name in bars:
            assert contrast(on_bars, colours[name]) >= 4.5, name
        for name in (*bars, "focus", *(f"c{i}" for i in range(10))):
            assert contrast(colours[name], colours["ground"]) >= 3, name
