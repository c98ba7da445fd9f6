"""Tests that the site names each page once, and that its API page names what the package has.

`tools/dev site` builds it, and finds links that lead nowhere.
"""

from __future__ import annotations

import re
from typing import Any, Iterator

import pytest
import yaml

import fsdp_mlir
from support import chain

DOCS = chain.ROOT / "docs"
# The README, which tools/site_hooks.py puts there.
FIRST = "index.md"


def named(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    for item in nav if isinstance(nav, list) else nav.values() if isinstance(nav, dict) else ():
        yield from named(item)


@pytest.mark.quick
def test_the_site_names_each_page_once() -> None:
    nav = list(named(yaml.safe_load((chain.ROOT / "mkdocs.yml").read_text())["nav"]))
    pages = [str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")]
    assert sorted(nav) == sorted([FIRST, *pages])


@pytest.mark.quick
def test_the_api_page_names_what_the_package_has() -> None:
    text = (DOCS / "api.md").read_text()
    names = re.findall(r"^<!-- api fsdp_mlir\.([\w.]+)\.(\w+) -->$", text, re.MULTILINE)
    assert sorted(name for _, name in names) == sorted(fsdp_mlir.__all__)
    where = {**{name: "errors" for name in fsdp_mlir.__all__}, **fsdp_mlir._MODULES}
    assert {name: module for module, name in names} == where


@pytest.mark.quick
def test_links_of_the_readme_lead_somewhere() -> None:
    targets = re.findall(r"\]\(([^)\s#:]+)", (chain.ROOT / "README.md").read_text())
    assert targets
    assert [target for target in targets if not (chain.ROOT / target).exists()] == []


@pytest.mark.quick
def test_tests_that_troubleshooting_names_exist() -> None:
    found = re.findall(r"`([\w/]+\.(?:py|cpp))::(\w+)`", (DOCS / "troubleshooting.md").read_text())
    assert len(found) >= 8, "a fault has no test"
    for file, test in found:
        text = (chain.ROOT / "test" / file).read_text()
        assert f"\ndef {test}(" in text or f", {test})" in text, f"{file}::{test}"
