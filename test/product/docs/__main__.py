"""Writes what is generated in descriptions and pages: `tools/dev docs`."""

from __future__ import annotations

import pathlib
import subprocess
import sys

from product.docs import examples, pages, timeline
from support import chain


def _write(path: pathlib.Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
        print(f"wrote {path.relative_to(chain.ROOT)}")


try:
    for source in examples.sources():
        _write(source, examples.rewritten(source))
    for page, text in pages.all_pages().items():
        _write(page, text)
    for picture, text in timeline.pictures().items():
        _write(picture, text)
except ValueError as error:
    sys.exit(f"error: {error}")
except subprocess.CalledProcessError as error:
    # The program has said what is wrong with the IR that it was given.
    sys.exit(f"error: an Input block was refused by: {' '.join(map(str, error.cmd))}")
