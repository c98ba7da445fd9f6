"""The command line of `tools/dev bench`."""

from __future__ import annotations

import argparse
import json
import pathlib
import subprocess
import sys
import time

from bench import (
    checkpoints,
    compile_time,
    figures,
    loader,
    models,
    own_loop,
    pages,
    saving,
    share,
    tables,
    threads,
    timelines,
    watching,
)
from bench.contestants import CONTESTANTS, DEFAULT
from bench.models import MODELS
from bench.rounds import Rounds, Settings, measure_idle
from bench.turn import Failed
from fsdp_mlir.driver.flags import positive
from support.chain import ROOT, ChainError

# Each is a module: what it measures, and how that reads.
ALONE = {
    "saving": saving,
    "loop": own_loop,
    "loader": loader,
    "share": share,
    "threads": threads,
    "watching": watching,
}
SECTIONS = ("steps", "overlap", "compile", "checkpoints", *ALONE, "timelines")


def listed(known: list[str], text: str) -> list[str]:
    if text == "all":
        return known
    names = [name for name in text.split(",") if name]
    for name in names:
        if name not in known:
            raise argparse.ArgumentTypeError(f"{name!r} is unknown; there are {', '.join(known)}")
    if not names:
        raise argparse.ArgumentTypeError("the list is empty")
    return list(dict.fromkeys(names))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tools/dev bench", description="Times this project and PyTorch in turns."
    )
    flag = parser.add_argument

    def choice(name: str, known: list[str], default: list[str]) -> None:
        text = f"all, or some of {', '.join(known)} ({','.join(default)})"
        flag(name, type=lambda t: listed(known, t), default=default, metavar="A,B", help=text)

    choice("--models", [*MODELS], [*models.DEFAULT])
    choice("--contestants", [*CONTESTANTS], [*DEFAULT])
    choice("--sections", [*SECTIONS], ["steps", "overlap"])
    flag("--steps", type=positive, metavar="N", help="timed steps of a turn (the model's)")
    flag("--rounds", type=positive, metavar="N", help="turns of each contestant (the model's)")
    flag("--quick", action="store_true", help="two rounds, all models but mid")
    flag("--optimizer", choices=("for-loop", "fused"), default="fused", help="of this project")
    flag("--out", type=pathlib.Path, default=pathlib.Path("out/bench"), metavar="DIR")
    flag("--show", type=pathlib.Path, metavar="JSON", help="measure nothing: an earlier run's")
    flag(
        "--update-docs",
        action="store_true",
        help="write docs/bench.json, the charts, and the figures in the pages",
    )
    return parser.parse_args()


def build() -> None:
    """Builds what is timed; behind the flags, of which a wrong one then costs no build.

    Raises:
        Failed: it could not be built, which has been said.
    """
    if subprocess.run([ROOT / "tools" / "dev", "build"]).returncode:
        raise Failed("there is nothing to measure: see above")


def measure(args: argparse.Namespace, say) -> figures.Figures:
    """Raises what the sections raise; prints tables as they come."""
    results: figures.Figures = {"machine": figures.machine(), "models": {}}
    folder = args.out.resolve()
    settings = Settings(
        names=args.contestants if "steps" in args.sections else (),
        folder=folder,
        fused=args.optimizer == "fused",
        wire="overlap" in args.sections,
        steps=args.steps,
        rounds=args.rounds or (2 if args.quick else None),
    )
    if settings.names or settings.wire:
        say("idle processes")
        idle = measure_idle(settings)
        for name in args.models:
            if args.quick and name == "mid":
                continue
            rounds = Rounds(MODELS[name], settings, say)
            measured = rounds.measure(idle)
            results["models"][name] = figures.summarise(MODELS[name], measured, rounds.wires)
            show_model(name, results["models"][name])
            figures.write(results, args.out)
    if "compile" in args.sections:
        results["compile"] = compile_time.measure(folder / "compile", say)
        print(tables.compile_times(results["compile"]), flush=True)
    for name, section in ALONE.items():
        if name in args.sections:
            results[name] = section.measure(folder / name, say)
            print(section.text(results[name]), flush=True)
    for name in args.models if "checkpoints" in args.sections else ():
        found = checkpoints.measure(folder / "checkpoints" / name, say, MODELS[name])
        results.setdefault("checkpoints", {})[name] = found
        print(checkpoints.text(name, found), flush=True)
    if "timelines" in args.sections:
        results["timelines"] = timelines.measure(folder / "timelines", say)
    return results


def show_model(name: str, model: figures.Figures) -> None:
    for text in (tables.steps(name, model), tables.overlap(model), tables.goal_lines(model)):
        if text:
            print(text, flush=True)


def show(results: figures.Figures) -> None:
    for name, model in results["models"].items():
        show_model(name, model)
    if results.get("compile"):
        print(tables.compile_times(results["compile"]))


def main() -> int:
    args = parse()
    begin = time.monotonic()

    def say(text: str) -> None:
        print(f"[bench] {time.monotonic() - begin:6.1f} s  {text}", flush=True)

    try:
        if args.show:
            results = json.loads(args.show.read_text())
            show(results)
        else:
            build()
            results = measure(args, say)
            say(f"wrote {figures.write(results, args.out)}")
        if args.update_docs:
            for path in pages.update(results, ROOT):
                say(f"wrote {path}")
    except (Failed, ChainError, OSError) as error:
        print(f"tools/dev bench: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
