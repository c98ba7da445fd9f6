"""One rank of a PyTorch contestant: `python -m bench.worker` with a JSON object as its argument.

It answers lines of JSON on its standard input, `{"steps": N}`, by a line on its standard output:
`{"seconds": [per step], "losses": [per step], "peak_bytes": N}`, or `{"error": "..."}`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any


def peak_bytes() -> int:
    """The most that this process has had resident so far."""
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def answer(advance: Any, count: int) -> dict[str, Any]:
    seconds, losses = [], []
    for _ in range(count):
        begin = time.perf_counter()
        losses.append(advance())
        seconds.append(time.perf_counter() - begin)
    return {"seconds": seconds, "losses": [*map(float, losses)], "peak_bytes": peak_bytes()}


def main() -> None:
    task = json.loads(sys.argv[1])
    if task["device"] == "cpu":
        # Before PyTorch is there: its threads inherit the core.
        os.sched_setaffinity(0, {task["rank"]})
    # Libraries write to standard output; the answers have a channel of their own.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(reply: dict[str, Any]) -> None:
        print(json.dumps(reply), file=answers, flush=True)

    try:
        from bench.loops import LOOPS

        advance = LOOPS[task["loop"]](task)
        say({"ready": True})
        for line in sys.stdin:
            say(answer(advance, json.loads(line)["steps"]))
    except Exception as error:
        first = str(error).strip().splitlines() or ["no message"]
        say({"error": f"{type(error).__name__}: {first[0]}"})
        raise


if __name__ == "__main__":
    main()
