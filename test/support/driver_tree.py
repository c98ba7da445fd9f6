"""A step file for the driver, with stand-ins for its programs, which write what they were asked."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from fsdp_mlir.driver import programs
from fsdp_mlir.train import main

STEP = """
import torch
import helper
from fsdp_mlir import TrainingStep

PERPLEXITY = True

def training_step(argv):
    print("flags", *argv)
    model = torch.nn.Linear(3, helper.WIDTH)
    x = torch.zeros(8, 3)
    return TrainingStep(
        model=model,
        loss=lambda model, x: model(x).sum(),
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        inputs={"x": x[:2]},
        data={"x": x},
        epochs=2,
    )

def after_training(argv, weights):
    print("trained", argv, sorted(weights))
"""

# Each appends its command line to `log`, and does what the file `script` says.
TOOL = """#!{python}
import json, pathlib, runpy, sys
here = pathlib.Path(__file__).parent
name, argv = pathlib.Path(__file__).name, sys.argv[1:]
if {{"--check-flags", "--check-flags-for"}} & {{*argv}} or "--fsdp-check-options" in argv:
    sys.exit(0)
with open(here / "log", "a") as log:
    log.write(json.dumps([name, *argv]) + "\\n")
if (here / (name + ".fail")).exists():
    sys.stderr.write((here / (name + ".fail")).read_text())
    sys.exit(4)
flag = lambda key: argv[argv.index(key) + 1]
if "--tune" in argv:
    pathlib.Path(flag("--tune")).write_text("a table")
    print("measured 3 of 3 products")
elif name != "fsdp-run":
    pathlib.Path(flag("-o")).write_text(" ".join([name, *argv[:2]]))
else:
    rows = [dict(step=s, loss=1.0 / s, tokens_per_s=7.0) for s in (1, 2, 3, 4)]
    rows[1]["eval_loss"] = 1.0
    rows[2]["units"] = dict(root=dict(grad_norm=2.0))
    metrics = pathlib.Path(flag("--metrics"))
    anew = metrics.with_suffix(".anew")
    anew.write_text("".join(json.dumps(r) + "\\n" for r in rows))
    anew.replace(metrics)
    pathlib.Path(flag("--save")).write_bytes(pathlib.Path(flag("--weights")).read_bytes())
"""


class Tree:
    """A step file with a local module, and stand-ins for the programs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.step = folder / "step.py"
        self.step.write_text(STEP)
        self.helper = folder / "helper.py"
        self.helper.write_text("WIDTH = 2\n")
        self.bin = folder / "bin"
        self.bin.mkdir()
        for name in programs.NAMES:
            tool = self.bin / name
            tool.write_text(TOOL.format(python=sys.executable))
            tool.chmod(0o755)

    def train(self, *flags: str, argv: tuple[str, ...] = ()) -> int:
        options = ["--cache-dir", str(self.folder / "cache"), "--out", str(self.folder / "out")]
        options += ["--no-report"]  # stand-ins have nothing to report
        return main([*options, *flags, str(self.step), *argv])

    def log(self) -> list[list[str]]:
        """The command lines since the last call."""
        path = self.bin / "log"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return [json.loads(line) for line in lines]
