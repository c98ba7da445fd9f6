"""A network between two ranks that needs as long as their compute."""

from __future__ import annotations

import dataclasses
import pathlib
import statistics
from typing import Any

from bench.turn import Turn

LATENCY_S = 20e-6

# The compiler's preset for ranks of one host, but for the link.
_CLUSTER = """\
name = "throttled"
ranks_per_node = 2
memory_bandwidth = 15e9
launch_seconds = 1e-6
collective_seconds = 2e-6
skew_seconds = 100e-6
flops = {{ float32 = 96e9 }}
intra_node = {{ bandwidth = {bandwidth:.6e}, latency = {latency:.6e} }}
"""


@dataclasses.dataclass(frozen=True)
class Wire:
    """`bytes_per_s` of each rank and channel; `compute_ms` is what a step's transfers take then."""

    bytes_per_s: float
    compute_ms: float

    def flags(self) -> list[str]:
        return ["--throttle", f"{self.bytes_per_s / 1e9:.6g},{LATENCY_S * 1e6:g}"]

    def describe(self, path: pathlib.Path) -> pathlib.Path:
        """Writes the cluster that the compiler schedules for."""
        path.write_text(_CLUSTER.format(bandwidth=self.bytes_per_s, latency=LATENCY_S))
        return path


def traffic(summary: dict[str, Any]) -> tuple[int, int]:
    """Transfers of a step, and bytes that one of two ranks sends in it."""
    rows = summary["collectives"]
    return sum(r["calls_per_step"] for r in rows), sum(r["bytes_per_step"] for r in rows)


def equal_to_compute(turn: Turn) -> Wire:
    """The wire on which what `turn` sent takes as long as what it computed: what is left of its
    steps without the communication that they waited for."""
    exposed = turn.details["exposed_comm_ms"]
    compute = statistics.median(1e3 * s - waited for s, waited in zip(turn.seconds, exposed))
    calls, sent = traffic(turn.details["summary"])
    on_the_wire = max(compute / 1e3 - calls * LATENCY_S, compute / 2e3)
    return Wire(sent / on_the_wire, compute)
