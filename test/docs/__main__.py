"""Writes what is generated in descriptions and pages: `tools/dev docs`."""

from __future__ import annotations

import pathlib

from docs import examples, pages
from support import chain


def _write(path: pathlib.Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
        print(f"wrote {path.relative_to(chain.ROOT)}")


for source in examples.sources():
    _write(source, examples.rewritten(source))
for page, text in pages.all_pages().items():
    _write(page, text)
