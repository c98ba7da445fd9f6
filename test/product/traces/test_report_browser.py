"""Tests a report as readers see it: in a browser, at two widths, in light and dark, by the keyboard
alone."""

from __future__ import annotations

import pathlib
import shutil
from typing import Iterator

import pytest
from fsdp_mlir.report import read_run, write_report

from support import browser
from product.traces.test_report import main

WIDTHS = (375, 1280)


@pytest.fixture(scope="module")
def report(run_folder: pathlib.Path) -> pathlib.Path:
    assert main([str(run_folder)]) == 0
    return run_folder / "report.html"


@pytest.fixture(scope="module")
def page() -> Iterator[browser.Page]:
    with browser.page() as opened:
        yield opened


# Colours of texts and of what they stand on, as far as they are worse than WCAG 2 wants.
TOO_PALE = """(() => {
  const parts = (text) => text.match(/[\\d.]+/g).map(Number);
  const linear = (v) => ((v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const luminance = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const c = parts(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] === 1) return c;
    }
    return [255, 255, 255];
  };
  const found = new Set();
  for (const e of document.querySelectorAll("body *")) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
    if (e.closest("script, style") || !e.checkVisibility()) continue;
    if (e.namespaceURI !== "http://www.w3.org/1999/xhtml") continue;
    const [a, b] = [luminance(parts(getComputedStyle(e).color)), luminance(ground(e))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) found.add(`${e.tagName} ${e.className}: ${contrast.toFixed(2)}`);
  }
  return [...found];
})()"""
COLOURS = """(() => {
  const c = document.getElementById("ID"), seen = new Set();
  const data = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
  for (let i = 0; i < data.length; i += 4) seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
  return seen.size;
})()"""


@pytest.mark.parametrize("scheme", ("light", "dark"))
@pytest.mark.parametrize("width", WIDTHS)
def test_it_can_be_read(
    width: int, scheme: str, report: pathlib.Path, page: browser.Page, tmp_path: pathlib.Path
) -> None:
    page.open(report, width, scheme=scheme)
    assert page.complaints == []
    assert page.value("document.documentElement.scrollWidth") <= width, "it scrolls sideways"
    assert page.value(TOO_PALE) == []
    for picture in ("timeline", "memory-picture"):
        assert page.value(COLOURS.replace("ID", picture)) > 5, f"{picture} shows nothing"
    small = "[...document.querySelectorAll('body *')].filter(e => e.checkVisibility() && "
    small += "parseFloat(getComputedStyle(e).fontSize) < 12).length"
    assert page.value(small) == 0
    page.picture(tmp_path / f"{width}-{scheme}.png")  # for who wants to look


def test_the_keyboard_is_enough(report: pathlib.Path, page: browser.Page) -> None:
    page.open(report, WIDTHS[1])
    page.press("Tab")
    assert page.value("document.activeElement.className") == "skip", "the first stop leads on"
    reached = set()
    while page.value("document.activeElement.id") != "timeline":
        page.press("Tab")
        where = page.value("document.activeElement.outerHTML")
        assert where not in reached, "the timeline cannot be reached"
        reached.add(where)
        outline = "getComputedStyle(document.activeElement).outlineStyle"
        assert page.value(outline) != "none", f"nothing shows that {where[:80]} has the focus"
    told, bars = "document.getElementById('bar').textContent", set()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp"):
        page.press(key)
        bars.add(page.value(told))
    assert len(bars) >= 3 and all("µs" in bar or "ms" in bar or " ns" in bar for bar in bars)
    whole = page.value("document.getElementById('timeline').toDataURL()")
    page.press("Enter")
    zoomed = page.value("document.getElementById('timeline').toDataURL()")
    assert zoomed != whole
    page.press("0")
    assert page.value("document.getElementById('timeline').toDataURL()") == whole
    page.press("Tab")
    assert page.value("document.activeElement.id") != "timeline", "it can be left"
    assert page.complaints == []


def test_names_are_shown_as_they_are(
    run_folder: pathlib.Path, page: browser.Page, tmp_path: pathlib.Path
) -> None:
    """A name that looks like HTML, or that ends a script, is text; a mark that turns the direction
    of what stands behind it is seen; and a long name makes no page scroll sideways."""
    shutil.copytree(run_folder, tmp_path, dirs_exist_ok=True)
    name = "</script><b>&\u202e" + "x" * 300
    for file in ("trace.json", "step.remarks.yaml"):
        text = (tmp_path / file).read_text()
        (tmp_path / file).write_text(text.replace("blocks.0", name))
    run = read_run(tmp_path)
    for program in run.plan["programs"].values():
        program["memory"]["device"]["at"] = name
    write_report(run, tmp_path / "report.html")
    assert "\u202e" not in (tmp_path / "report.html").read_text()
    page.open(tmp_path / "report.html", WIDTHS[0])
    page.value("document.querySelectorAll('details').forEach((part) => (part.open = true))")
    assert page.complaints == []
    assert page.value("document.documentElement.scrollWidth") <= WIDTHS[0]
    shown = "document.querySelector('#SECTION').textContent.includes('</script><b>&\\\\u202exx')"
    for section in ("memory", "decisions"):
        assert page.value(shown.replace("SECTION", section)), section
    drawn = "JSON.parse(document.querySelector('#facts').textContent).commands"
    assert page.value(f"{drawn}.some((c) => c.name.includes('</script><b>&\\\\u202exx'))")
