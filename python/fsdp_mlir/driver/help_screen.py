"""The screen of `python -m fsdp_mlir.train --help`; --help-all has every flag."""

from __future__ import annotations

import argparse
from typing import Any

SCREEN = """\
fsdp_mlir.train: trains a step file on sharded ranks: export, import, shard, plan, run.

  python -m fsdp_mlir.train --nproc 2 STEP.py [the step file's own flags]

Run
  --nproc N                 ranks on this machine (1)
  --steps N, --epochs N     length of the run (the step file's)
  --accumulate K            micro-batches per step (the step file's)
  --weights PATH            start from these: safetensors, a folder of them, or a torch.save
  --out DIR                 results (out/NAME of the step file)
  --config FILE             flags from a TOML file, as a run leaves them in OUT/run.toml

Compile
  --pipeline OPTIONS        as in 'units=class:Block remat=full' (docs/options.md)
  --dry-run                 show the commands and stop
  --no-cache                do every stage again

Checkpoints
  --checkpoint-interval N   write one every N steps, into OUT/checkpoints
  --resume auto|PATH        go on from the newest, or from this one

Watch
  --log-interval N          log every N steps (1)
  --eval-interval N         evaluate every N steps, not at each epoch's end
  --trace FILE              when each command of some steps ran, for ui.perfetto.dev
  --tensorboard, --wandb    send the metrics there too
  --verbose                 show each stage's command and output

Several machines (docs/launching.md)
  --nnodes N, --node-rank N, --master-addr HOST, --master-port PORT

  --help-all                every flag
"""


class ShowScreen(argparse.Action):
    """Prints the screen and ends the program."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(SCREEN, end="")
        parser.exit()
