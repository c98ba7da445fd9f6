"""The table of docs/sharding.md: one step, sharded in each way, as the cost model predicts it."""

from __future__ import annotations

import functools
import json
import pathlib
import sys
import tempfile

from support import chain

STEP = pathlib.Path(__file__).with_name("sharding_step.py")
SLOW = pathlib.Path(__file__).with_name("slow_network.toml")
CLUSTERS = {"fast": "h100x8", "slow": str(SLOW)}
WAYS = {
    "DDP": "mesh=16x1",
    "ZeRO-2": "mesh=16 reshard-after-forward=false",
    "ZeRO-3": "mesh=16 reshard-after-forward=true",
    "ZeRO-3, root kept": "mesh=16",
    "hpZ": "mesh=16 reshard-after-forward=8",
    "HSDP": "mesh=2x8 reshard-after-forward=true",
}
GIB, MS = 1 << 30, 1e3


@functools.lru_cache(maxsize=1)
def figures() -> dict[str, dict[str, float]]:
    """Of each way: GiB of a rank and GiB that it sends; ms of a step and those exposed, with each
    network."""
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        archive = folder / "step.pt"
        export = [sys.executable, "-m", "fsdp_mlir.export", "--no-weights", "-o", archive, STEP]
        chain.command(export, env=chain.environment(WORLD_SIZE="16"))
        translate = [chain.binary("fsdp-translate"), "--plan-to-json"]
        for way, options in WAYS.items():
            found[way] = {}
            for network, cluster in CLUSTERS.items():
                options_of = f"{options} device=cuda cluster={cluster}"
                plan = chain.lower(STEP, archive, folder, (), options_of).plan
                facts = json.loads(chain.command([*translate, plan]).stdout)
                step = facts["programs"]["step"]
                sent = sum(c["bytes_sent_per_rank"] for c in step["collectives"])
                memory = sum(arena["bytes"] for arena in facts["arenas"])
                found[way].setdefault("sent", sent / GIB)
                found[way].setdefault("memory", memory / GIB)
                found[way] |= {
                    f"{network} step": step["predicted_us"] / MS,
                    f"{network} exposed": step["exposed_us"] / MS,
                }
    return found


def table() -> str:
    lines = [
        "| | options | memory, GiB | sent, GiB | step, ms (exposed) | with a slow network |",
        "|---|---|---|---|---|---|",
    ]
    for way, row in figures().items():
        times = " | ".join(
            f"{row[f'{network} step']:.0f} ({row[f'{network} exposed']:.0f})"
            for network in CLUSTERS
        )
        lines.append(
            f"| {way} | `{WAYS[way]}` | {row['memory']:.1f} | {row['sent']:.1f} | {times} |"
        )
    return "\n".join(lines)
