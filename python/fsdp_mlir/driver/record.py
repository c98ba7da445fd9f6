"""Runs `fsdp_mlir.export` and writes down which files and variables its result depends on.

    python -m fsdp_mlir.driver.record SOURCES.json EXPORT_ARGUMENTS...

SOURCES.json has `files`, absolute paths of the local modules that were imported and the files that
were read, and `variables`, what was read of the environment (`sources.py` says which count).
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from ..export import main as export
from .sources import record_sources


def written_before(path: Path, when: float) -> bool:
    """Whether a file was there before the export. One that appeared during it is a result, not a cause."""
    try:
        return path.stat().st_mtime < when
    except OSError:
        return False


def main() -> int:
    target, *arguments = sys.argv[1:]
    started = time.time()
    with record_sources(arguments) as sources:
        status = export(arguments)
    if status == 0:
        files = sources.files | sources.modules
        known = sorted(str(path) for path in files if written_before(path, started))
        read = {"files": known, "variables": sources.variables}
        Path(target).write_text(json.dumps(read), encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
