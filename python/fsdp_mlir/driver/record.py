"""Runs `fsdp_mlir.export` and writes down which files its result depends on.

    python -m fsdp_mlir.driver.record FILES.json EXPORT_ARGUMENTS...

FILES.json is a list of absolute paths: the local modules that were imported and
the files that were read (`sources.py` says which count).
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from ..export import main as export
from .sources import record_sources


def written_before(path: Path, when: float) -> bool:
    """What appeared during the export is a result of it, not a cause."""
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
        Path(target).write_text(json.dumps(known), encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
