#!/usr/bin/env python3
"""Times plans on a GPU beside FSDP2, in turns: test/gpu/README.md."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import sys
import time
from typing import Any, Callable, Optional, Sequence
from unittest import mock

# The tests' packages: `gpu`, `bench`, `support`.
if not __package__:
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from bench import figures, goals, tables
from bench.contestants import Contestant
from bench.models import Model
from bench.plan_runs import PlanRuns
from bench.rounds import Measured, Rounds, Settings, check_losses
from bench.torch_runs import TorchRuns
from bench.turn import Failed, Turn
from gpu import machine, trace
from gpu.cases import CASES, FILES, GPT2, ROOT, STEPS, TIMED, Files
from gpu.memory_watch import MemoryWatch
from support.chain import Compiled

# They start from other numbers of the same distributions.
SAME_LOSS = 0.02


def _alone(name: str, label: str, **more: Any) -> Contestant:
    """On one rank. The first loss alone is compared: others follow from the draws."""
    return Contestant(name, label, ranks=1, coupled=False, **more)


CONTESTANTS = {
    contestant.name: contestant
    for contestant in (
        _alone("fsdp2", "FSDP2 eager", loop="fsdp2"),
        _alone("fsdp2-compile", "FSDP2 torch.compile", loop="fsdp2-compile"),
        _alone("streams", "fsdp-mlir, streams", pipeline=""),
        _alone("cuda-graph", "fsdp-mlir, CUDA graph", pipeline="", flags=("--cuda-graph",)),
        _alone(
            "cudnn",
            "fsdp-mlir, graph, attention of cuDNN",
            pipeline=".cudnn",
            flags=("--cuda-graph",),
        ),
        # One update of both ranks' samples; FSDP2 has no such run: NCCL wants a GPU for each.
        Contestant(
            "two-ranks",
            "fsdp-mlir, two ranks on the GPU",
            pipeline=".2",
            ranks=2,
            coupled=False,
            flags=("--threads",),
        ),
    )
}
# Ours for the goals: the first that takes part.
HEADLINE = ("cudnn", "cuda-graph", "streams")
ON_CPU = ("fsdp2", "streams")
WITH_TWO = ("tiny", "124m")
# As many of each contestant's are kept.
KERNELS = 24


def model(size: str, device: str) -> Model:
    """The goal "fsdp2" is, in this table, ours by FSDP2 eager, at most."""
    flags = STEPS[f"timed-{size}"].flags
    common = tuple(flags[flags.index("--size") : flags.index("--start")])
    batch = flags[flags.index("--batch") :]
    return Model(
        name=size,
        step_file=ROOT / GPT2,
        flags=(*common, *batch),
        steps=20,
        warmup=10,
        rounds=3,
        goals={"fsdp2": 0.9 if size == "124m" else 1.0},
        device=device,
        torch_flags=("--start", device, "--fused"),
        precision="bf16",
    )


class PreparedFiles:
    """What bench.files.Files is where there is a compiler: here the plans are made already."""

    def __init__(self, timed: Model, prepared: Files, folder: pathlib.Path):
        self.model = timed
        self.folder = folder / timed.name
        self.archive = self.folder / "none.pt"
        self._prepared = prepared

    def plan(self, name: str, pipeline: str) -> Compiled:
        """`pipeline` is what a case's name has behind the model's. Raises Failed where there is no
        such plan."""
        case = CASES.get(f"timed-{self.model.name}{pipeline}")
        path = case and self._prepared.plan(case, self.model.device)
        if not path or not path.exists():
            raise Failed(f"there is no plan for {self.model.device}; test/gpu/prepare.py makes it")
        (self.folder / name).mkdir(parents=True, exist_ok=True)
        absent = pathlib.Path()
        return Compiled(
            step_file=self.model.step_file,
            argv=(),
            archive=absent,
            weights=self._prepared.weights(case),
            data=None,
            eval_data=None,
            ir=absent,
            scheduled=absent,
            plan=path,
        )


class Visits:
    """A contestant that is started anew for each turn, and alone on the GPU: not all fit into its
    memory together, and so what each takes can be counted."""

    def __init__(self, start: Callable[[], Any], on_gpu: bool):
        self._start = start
        self._on_gpu = on_gpu

    def take_turn(self, warmup: int, steps: int) -> Turn:
        if not self._on_gpu:
            return self._visit(warmup, steps)
        with MemoryWatch() as memory:
            turn = self._visit(warmup, steps)
        turn.peak_bytes = memory.peak
        return turn

    def _visit(self, warmup: int, steps: int) -> Turn:
        runs = self._start()
        try:
            return runs.take_turn(warmup, steps)
        finally:
            runs.close()

    def close(self) -> None:
        pass


class GpuRounds(Rounds):
    """Everyone in turns, each alone; then once more under a trace of the GPU."""

    def __init__(
        self, timed: Model, settings: Settings, say: Callable[[str], None], prepared: Files
    ):
        super().__init__(timed, settings, say)
        self.files = PreparedFiles(timed, prepared, settings.folder)

    def take_part(self) -> list[Measured]:
        """Raises Failed where two contestants compute different losses."""
        everyone = [Measured(CONTESTANTS[name]) for name in self.settings.names]
        for entry in everyone:
            self.enter(entry, self._start)
        check_losses(self.first, SAME_LOSS)
        self.take_turns()
        return everyone

    def _start(self, contestant: Contestant) -> Visits:
        def start() -> Any:
            if contestant.loop:
                return TorchRuns(contestant, self.model, self.files)
            return PlanRuns(contestant, self.files)

        return Visits(start, on_gpu=self.model.device == "cuda")

    def traces(self, library: pathlib.Path) -> dict[str, list[trace.Entry]]:
        """By contestant; those whose trace is empty are left out."""
        found = {}
        for entry, runs in self.running:
            path = self.files.folder / f"{entry.contestant.name}.trace"
            try:
                with trace.traced(library, path):
                    runs.take_turn(self.model.warmup, self.steps)
                found[entry.contestant.name] = trace.read(path)
            except (Failed, OSError, ValueError) as error:
                self.say(f"{entry.contestant.name} has no trace: {error}")
        return found


def summarise(
    timed: Model, measured: Sequence[Measured], traces: dict[str, list[trace.Entry]]
) -> dict:
    """As bench.figures has them; `idle_share` and `kernels`, the largest and their shares of what
    the GPU does, where a trace says them."""
    by_name = {m.contestant.name: m for m in measured}
    contestants = {name: figures.contestant(m) for name, m in by_name.items()}
    for name, entries in traces.items():
        contestants[name]["idle_share"] = trace.idle_share(entries)
        contestants[name]["kernels"] = dict([*trace.kernels(entries).items()][:KERNELS])
    return {
        "goals": dict(timed.goals),
        "headline": next((n for n in HEADLINE if n in by_name and by_name[n].turns), None),
        "contestants": contestants,
    }


def _memory(model: dict, own: dict) -> Optional[float]:
    theirs = model["contestants"].get("fsdp2", {})
    return own["peak_bytes"] / theirs["peak_bytes"] if "peak_bytes" in theirs else None


def _idle(model: dict, own: dict) -> Optional[float]:
    return 100 * own["idle_share"] if "idle_share" in own else None


def _launch(model: dict, own: dict) -> Optional[float]:
    return 1e3 * own["launch_ms"] if "launch_ms" in own else None


GOALS = (
    goals.Goal(
        "step time, ours ÷ FSDP2 eager",
        lambda model, own: figures.ratio(model, model["headline"], "fsdp2"),
        "fsdp2",
    ),
    goals.Goal("peak of the GPU's memory, ours ÷ FSDP2 eager", _memory, 0.9),
    goals.Goal("host time to launch a step, µs", _launch, 100, digits=0),
    goals.Goal("% of a step in which the GPU runs nothing", _idle, 2.0),
)


def measure(args: argparse.Namespace, say: Callable[[str], None]) -> dict[str, Any]:
    """Prints tables as they come; raises Failed."""
    results: dict[str, Any] = {"machine": machine.describe(), "models": {}}
    library = args.bin / "gpu_trace.so"
    for size in args.models:
        names = [n for n in args.contestants if n != "two-ranks" or size in WITH_TWO]
        settings = Settings(names, args.out / "bench", wire=False, **lengths(args))
        rounds = GpuRounds(model(size, args.device), settings, say, Files(args.plans))
        everyone = rounds.take_part()
        traces: dict[str, list[trace.Entry]] = {}
        if args.no_traces or args.device != "cuda" or not library.exists():
            why = "--no-traces" if args.no_traces else f"no GPU, or no {library.name}"
            say(f"{size}: idle time is not measured: {why}")
        else:
            traces = rounds.traces(library)
        found = results["models"][size] = summarise(rounds.model, everyone, traces)
        print(tables.steps(size, found), flush=True)
        if args.device == "cuda":
            print(tables.goal_lines(found, GOALS), flush=True)
        (args.out / "bench.json").write_text(json.dumps(results, indent=1) + "\n")
    return results


def lengths(args: argparse.Namespace) -> dict[str, int]:
    return {name: value for name in ("steps", "rounds") if (value := getattr(args, name))}


def parse(argv: Optional[Sequence[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="test/gpu/bench.py", description=__doc__)
    flag = parser.add_argument
    sizes = ["tiny", *TIMED]
    flag("--models", nargs="+", choices=sizes, default=[*TIMED], metavar="SIZE", help=f"{sizes}")
    flag("--contestants", nargs="+", choices=CONTESTANTS, metavar="NAME", help=f"{[*CONTESTANTS]}")
    flag("--steps", type=int, metavar="N", help="timed steps of a turn (20)")
    flag("--rounds", type=int, metavar="N", help="turns of each contestant (3)")
    flag(
        "--no-traces", action="store_true", help="do not trace what the GPU does, in one more turn"
    )
    flag("--device", choices=("cuda", "cpu"), default="cuda")
    flag("--bin", type=pathlib.Path, default=ROOT / "out" / "gpu" / "build" / "bin", metavar="DIR")
    flag("--plans", type=pathlib.Path, default=FILES.folder, metavar="DIR", help="of prepare.py")
    flag("--out", type=pathlib.Path, default=ROOT / "out" / "gpu" / "results", metavar="DIR")
    args = parser.parse_args(argv)
    args.contestants = args.contestants or [*(CONTESTANTS if args.device == "cuda" else ON_CPU)]
    args.out.mkdir(parents=True, exist_ok=True)
    args.out, args.bin = args.out.resolve(), args.bin.resolve()
    return args


def main(argv: Optional[Sequence[str]] = None) -> int:
    """The command line; returns the exit status: 0 where someone of this project's was timed on
    each model."""
    args = parse(argv)
    begin = time.monotonic()

    def say(text: str) -> None:
        print(f"[bench] {time.monotonic() - begin:6.1f} s  {text}", flush=True)

    try:
        with mock.patch.dict(os.environ, FSDP_MLIR_BIN=str(args.bin)):
            results = measure(args, say)
    except (Failed, OSError) as error:
        print(f"test/gpu/bench.py: error: {error}", file=sys.stderr)
        return 1
    return 0 if all(found["headline"] for found in results["models"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
