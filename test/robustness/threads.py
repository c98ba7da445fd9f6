"""Trains small models with ranks that are threads of one process: over each transport, inline and
with threads for streams, while checkpoints are written, steps traced and units logged. All runs of a
plan end with the same bits.

    python test/robustness/threads.py BIN

BIN has the `fsdp-run` to try: one with ThreadSanitizer ends at the first race. `build/bin` compiles
the plans.
"""

from __future__ import annotations

import hashlib
import itertools
import pathlib
import subprocess
import sys
import tempfile

TEST = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TEST))

from support import chain, step_files  # noqa: E402

CLASSIFIER = step_files.PARITY / "classifier.py"
PLANS = {
    "mesh=2 streams=3": 2,
    "mesh=3 streams=3 shard-layout=flat gather=map": 3,
    "mesh=2x2 streams=3 offload=all": 4,
}
WAYS = list(itertools.product(("shm", "gloo"), ("inline", "threads")))
STEPS = 6
TIMEOUT_S = 600


def train(program: pathlib.Path, compiled: chain.Compiled, ranks: int, *way: str) -> str:
    """The digest of the weights that a run ends with."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder)
        command = [
            str(program),
            *chain.run_arguments(compiled, STEPS)[1:],
            "--threads",
            "--nproc",
            ranks,
        ]
        command += ["--save", out / "saved", "--metrics", out / "metrics", "--trace", out / "trace"]
        command += ["--checkpoint-dir", out / "checkpoints", "--checkpoint-interval", 2]
        command += ["--log-units", "--log-grad-norm", *way]
        done = subprocess.run(
            [str(word) for word in command], capture_output=True, text=True, timeout=TIMEOUT_S
        )
        if done.returncode:
            sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
        return hashlib.sha256((out / "saved").read_bytes()).hexdigest()


def main() -> None:
    program = pathlib.Path(sys.argv[1]) / "fsdp-run"
    with tempfile.TemporaryDirectory() as folder:
        for number, (pipeline, ranks) in enumerate(PLANS.items()):
            work = pathlib.Path(folder) / str(number)
            compiled = chain.compile_step(CLASSIFIER, work, pipeline=pipeline)
            ends = {
                train(program, compiled, ranks, "--comm", comm, "--host-streams", streams)
                for comm, streams in WAYS
            }
            if len(ends) > 1:
                sys.exit(f"{pipeline}: runs over {WAYS} end with different weights")
            print(f"{pipeline}: {len(WAYS)} runs of {ranks} ranks")


if __name__ == "__main__":
    main()
