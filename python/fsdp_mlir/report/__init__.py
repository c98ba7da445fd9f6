"""A run as one page that opens anywhere: `python -m fsdp_mlir.report RUN_DIR` (docs/report.md)."""

from .facts import ReportError, read_run
from .page import write_report

__all__ = ["ReportError", "read_run", "write_report"]
