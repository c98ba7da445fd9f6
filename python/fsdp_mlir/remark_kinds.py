"""The figures of the compiler's remarks: lib/Transforms/Remarks.def in Python. `tools/dev docs` writes it."""

from __future__ import annotations

import enum

# The category of what passes changed. The category of a decision is the pass that took it.
CHANGES = "changes"


class Unit(enum.Enum):
    """What a figure is measured in."""

    TEXT = "text"
    COUNT = "count"
    NUMBER = "number"
    BYTES = "bytes"
    MICROSECONDS = "microseconds"
    GFLOP = "gflop"


class M(enum.Enum):
    """The figures, by the keys that they have in remarks."""

    UNIT = "unit"
    REGION = "region"
    STATE = "state"
    RULE = "rule"
    GATHERED = "gathered"
    DTYPE = "dtype"
    RECOMPUTED = "recomputed"
    LAST_PARAMETER = "last_parameter"
    PRODUCT = "product"
    LOGITS = "logits"
    OF = "of"
    MODULE = "module"
    LINE = "line"
    FIRST = "first"
    ARENA = "arena"
    PARAMETERS = "parameters"
    OPTIMIZER_STATES = "optimizer_states"
    READERS = "readers"
    GATHERS = "gathers"
    UPDATES = "updates"
    STARTED = "started"
    MICRO_BATCHES = "micro_batches"
    DIMENSION = "dimension"
    ROWS = "rows"
    ROWS_PER_RANK = "rows_per_rank"
    ELEMENTS = "elements"
    ELEMENTS_PER_RANK = "elements_per_rank"
    PADDING = "padding"
    REPEATED = "repeated"
    OPS = "ops"
    BUCKETS = "buckets"
    MEASURED = "measured"
    GRADIENTS = "gradients"
    MEMBERS = "members"
    NEIGHBOURS = "neighbours"
    MATRICES = "matrices"
    SHAPES = "shapes"
    PER_RANK = "per_rank"
    CHOSEN = "chosen"
    PRODUCTS = "products"
    COVERED = "covered"
    UNCOVERED = "count"
    VALUES = "values"
    AHEAD_OPS = "ahead_ops"
    BEHIND_OPS = "behind_ops"
    DIVISOR = "divisor"
    ORDER = "order"
    BYTES = "bytes"
    BYTES_PER_RANK = "bytes_per_rank"
    FREED_BYTES = "freed_bytes"
    MOST_BYTES = "most_bytes"
    EFFICIENT_BYTES = "efficient_bytes"
    MOVED_BYTES = "moved_bytes"
    PEAK_BYTES = "peak_bytes"
    NAIVE_PEAK_BYTES = "naive_peak_bytes"
    KEPT_PEAK_BYTES = "kept_peak_bytes"
    ARENA_BYTES = "arena_bytes"
    LEAST_BYTES = "least_bytes"
    BYTES_WITHOUT_REUSE = "bytes_without_reuse"
    US = "us"
    ATEN_US = "aten_us"
    US_APART = "us_apart"
    HIDDEN_US = "hidden_us"
    AHEAD_US = "ahead_us"
    BEHIND_US = "behind_us"
    STEP_US = "step_us"
    COMMUNICATION_US = "communication_us"
    EXPOSED_US = "exposed_us"
    NAIVE_STEP_US = "naive_step_us"
    NAIVE_EXPOSED_US = "naive_exposed_us"
    KEPT_STEP_US = "kept_step_us"
    GFLOP_PER_RANK = "gflop_per_rank"
    OPS_BEFORE = "ops_before"
    OPS_AFTER = "ops_after"
    ADDED = "added"
    REMOVED = "removed"
    MOVED = "moved"
    STATE_BYTES_BEFORE = "state_bytes_before"
    STATE_BYTES_AFTER = "state_bytes_after"
    COLLECTIVE_BYTES_BEFORE = "collective_bytes_before"
    COLLECTIVE_BYTES_AFTER = "collective_bytes_after"
    PEAK_BYTES_BEFORE = "peak_bytes_before"
    PEAK_BYTES_AFTER = "peak_bytes_after"


UNITS = {
    "unit": Unit.TEXT,
    "region": Unit.TEXT,
    "state": Unit.TEXT,
    "rule": Unit.TEXT,
    "gathered": Unit.TEXT,
    "dtype": Unit.TEXT,
    "recomputed": Unit.TEXT,
    "last_parameter": Unit.TEXT,
    "product": Unit.TEXT,
    "logits": Unit.TEXT,
    "of": Unit.TEXT,
    "module": Unit.TEXT,
    "line": Unit.TEXT,
    "first": Unit.TEXT,
    "arena": Unit.TEXT,
    "parameters": Unit.COUNT,
    "optimizer_states": Unit.COUNT,
    "readers": Unit.COUNT,
    "gathers": Unit.COUNT,
    "updates": Unit.COUNT,
    "started": Unit.COUNT,
    "micro_batches": Unit.COUNT,
    "dimension": Unit.COUNT,
    "rows": Unit.COUNT,
    "rows_per_rank": Unit.COUNT,
    "elements": Unit.COUNT,
    "elements_per_rank": Unit.COUNT,
    "padding": Unit.COUNT,
    "repeated": Unit.COUNT,
    "ops": Unit.COUNT,
    "buckets": Unit.COUNT,
    "measured": Unit.COUNT,
    "gradients": Unit.COUNT,
    "members": Unit.COUNT,
    "neighbours": Unit.COUNT,
    "matrices": Unit.COUNT,
    "shapes": Unit.COUNT,
    "per_rank": Unit.COUNT,
    "chosen": Unit.COUNT,
    "products": Unit.COUNT,
    "covered": Unit.COUNT,
    "count": Unit.COUNT,
    "values": Unit.COUNT,
    "ahead_ops": Unit.COUNT,
    "behind_ops": Unit.COUNT,
    "divisor": Unit.NUMBER,
    "order": Unit.NUMBER,
    "bytes": Unit.BYTES,
    "bytes_per_rank": Unit.BYTES,
    "freed_bytes": Unit.BYTES,
    "most_bytes": Unit.BYTES,
    "efficient_bytes": Unit.BYTES,
    "moved_bytes": Unit.BYTES,
    "peak_bytes": Unit.BYTES,
    "naive_peak_bytes": Unit.BYTES,
    "kept_peak_bytes": Unit.BYTES,
    "arena_bytes": Unit.BYTES,
    "least_bytes": Unit.BYTES,
    "bytes_without_reuse": Unit.BYTES,
    "us": Unit.MICROSECONDS,
    "aten_us": Unit.MICROSECONDS,
    "us_apart": Unit.MICROSECONDS,
    "hidden_us": Unit.MICROSECONDS,
    "ahead_us": Unit.MICROSECONDS,
    "behind_us": Unit.MICROSECONDS,
    "step_us": Unit.MICROSECONDS,
    "communication_us": Unit.MICROSECONDS,
    "exposed_us": Unit.MICROSECONDS,
    "naive_step_us": Unit.MICROSECONDS,
    "naive_exposed_us": Unit.MICROSECONDS,
    "kept_step_us": Unit.MICROSECONDS,
    "gflop_per_rank": Unit.GFLOP,
    "ops_before": Unit.COUNT,
    "ops_after": Unit.COUNT,
    "added": Unit.TEXT,
    "removed": Unit.TEXT,
    "moved": Unit.COUNT,
    "state_bytes_before": Unit.BYTES,
    "state_bytes_after": Unit.BYTES,
    "collective_bytes_before": Unit.BYTES,
    "collective_bytes_after": Unit.BYTES,
    "peak_bytes_before": Unit.BYTES,
    "peak_bytes_after": Unit.BYTES,
}
