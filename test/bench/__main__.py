"""The command line of `tools/dev bench`."""

from __future__ import annotations

import argparse
import pathlib
import sys
import time

from bench.contestants import CONTESTANTS, DEFAULT
from bench.models import MODELS
from bench.report import machine, summarise, table, write_json
from bench.rounds import measure
from bench.turn import Failed
from support.chain import ChainError


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not positive")
    return value


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
    flag("--models", type=lambda text: listed([*MODELS], text), default=[*MODELS], metavar="A,B")
    flag(
        "--contestants",
        type=lambda text: listed([*CONTESTANTS], text),
        default=[*DEFAULT],
        metavar="A,B",
        help=f"all, or some of {', '.join(CONTESTANTS)}",
    )
    flag("--steps", type=positive, metavar="N", help="timed steps of a turn (the model's)")
    flag("--rounds", type=positive, default=5, metavar="N", help="turns of each contestant (5)")
    flag("--quick", action="store_true", help="two rounds of a quarter of the steps")
    flag("--optimizer", choices=("for-loop", "fused"), default="fused", help="of this project")
    flag("--out", type=pathlib.Path, default=pathlib.Path("out/bench"), metavar="DIR")
    return parser.parse_args()


def main() -> int:
    args = parse()
    begin = time.monotonic()

    def say(text: str) -> None:
        print(f"[bench] {time.monotonic() - begin:6.1f} s  {text}", flush=True)

    results = {"machine": machine(), "models": {}}
    try:
        for name in args.models:
            model = MODELS[name]
            steps = args.steps or (max(2, model.steps // 4) if args.quick else model.steps)
            rounds = min(2, args.rounds) if args.quick else args.rounds
            measured = measure(
                model,
                args.contestants,
                rounds,
                steps,
                args.out.resolve(),
                args.optimizer == "fused",
                say,
            )
            results["models"][name] = summarise(model, measured)
            print(table(name, results["models"][name]), flush=True)
    except (Failed, ChainError, OSError) as error:
        print(f"tools/dev bench: error: {error}", file=sys.stderr)
        return 1
    written = write_json(results, args.out)
    say(f"wrote {written}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
