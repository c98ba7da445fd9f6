"""Random training steps, compiled in several ways, against PyTorch.

python test/robustness/fuzz/fuzz.py --seeds 0:200            says which seeds fail
python test/robustness/fuzz/fuzz.py --seeds 17 --shrink      cuts the failing step down
python test/robustness/fuzz/fuzz.py --seeds 17 --shrink --write-case
                                and keeps it, as test/robustness/fuzz/cases/seed-17.mlir
python test/robustness/fuzz/fuzz.py --case test/robustness/fuzz/cases/seed-17.mlir
                                runs the numbers of a kept one again
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import re
import shutil
import sys
import tempfile
import time
import traceback

os.environ.setdefault("OMP_NUM_THREADS", "1")
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1]), str(HERE.parents[2] / "python")]

import torch  # noqa: E402

from recipe import Recipe, generate, smaller  # noqa: E402
from variants import (  # noqa: E402
    Failure,
    check_recipe,
    collective_counts,
    compile_variant,
    opt_flags,
)

CASES = HERE / "cases"
RECIPE_LINE = "// RECIPE: "


def failure_of(recipe: Recipe, folder: pathlib.Path) -> Failure | None:
    """What is wrong with a recipe; `folder` is emptied first and left filled."""
    shutil.rmtree(folder, ignore_errors=True)
    try:
        check_recipe(recipe, folder)
    except Failure as failure:
        return failure
    except Exception:
        # Nothing that a recipe does may end in a traceback.
        return Failure(traceback.format_exc()[-2000:])
    return None


def kind(failure: Failure) -> str:
    """Failures of one kind are taken for one defect while shrinking."""
    text = str(failure).split("\n")[0]
    return re.sub(r"[\d.e+-]+|'[^']*'|\"[^\"]*\"|\S*/\S*", "#", text)[:40]


def shrink(recipe: Recipe, failure: Failure, folder: pathlib.Path) -> tuple[Recipe, Failure]:
    """The smallest recipe on the way down that still fails in the same way."""
    wanted = kind(failure)
    found = True
    while found:
        found = False
        for candidate in smaller(recipe):
            less = failure_of(candidate, folder)
            if less is not None and kind(less) == wanted:
                print(f"  smaller: {candidate.to_json()}", flush=True)
                recipe, failure, found = candidate, less, True
                break
    return recipe, failure


def _count_lines(recipe: Recipe, failure: Failure, folder: pathlib.Path) -> list[str]:
    """CHECK lines: each gather and reduction that the failing variant has without
    `--cse --canonicalize`, and no more of either."""
    ranks, ir = failure.ranks, folder / "step.mlir"
    try:
        variant = next(v for v in recipe.variants if opt_flags(v, ranks, ir) == failure.flags)
        plain = dataclasses.replace(variant, simplify=0)
        plan = compile_variant(opt_flags(plain, ranks, ir), ranks, folder / "counts")
    except (StopIteration, Failure):
        return []
    lines = []
    for key, count in collective_counts(plan).items():
        lines += [f"// CHECK-DAG: = {key.split()[0]}"] * count
    return lines + ["// CHECK-NOT: = all_gather", "// CHECK-NOT: = reduce_scatter"]


def write_case(recipe: Recipe, failure: Failure, folder: pathlib.Path) -> pathlib.Path:
    """Keeps a failing recipe as a lit test: the imported IR must become a plan,
    with the collectives of the same pipeline without `--cse --canonicalize`. The
    recipe stands in it too, so that test_fuzz.py runs the numbers again."""
    failure_of(recipe, folder)
    ir = folder / "step.mlir"
    if not ir.exists():
        raise SystemExit("error: export or import fails, there is no IR to keep")
    flags = failure.flags or ["--fsdp-pipeline=mesh=1"]
    options = " ".join(f'"{flag}"' for flag in flags)
    why = str(failure).split("\n")[0][:200]
    lines = [
        f"// RUN: fsdp-opt %s {options} -o %t.mlir",
        "// RUN: fsdp-translate --fsdp-to-plan %t.mlir -o %t.plan",
        "// RUN: fsdp-translate --plan-to-text %t.plan | FileCheck %s",
        "",
        f"// Tests that a step which once failed compiles: {why}",
        RECIPE_LINE + recipe.to_json(),
        "",
        "// CHECK-LABEL: program step",
        *_count_lines(recipe, failure, folder),
        "",
    ]
    path = CASES / f"seed-{recipe.seed}.mlir"
    CASES.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n" + ir.read_text())
    return path


def read_case(path: pathlib.Path) -> Recipe:
    for line in path.read_text().splitlines():
        if line.startswith(RECIPE_LINE):
            return Recipe.from_json(line[len(RECIPE_LINE) :])
    raise SystemExit(f"error: {path} has no line that starts with {RECIPE_LINE!r}")


def seeds_of(text: str) -> list[int]:
    """`17`, or `0:200` without its end."""
    first, _, end = text.partition(":")
    return list(range(int(first), int(end))) if end else [int(first)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", default="0:20", help="17, or 0:200")
    parser.add_argument("--case", type=pathlib.Path, action="append", default=[])
    parser.add_argument("--shrink", action="store_true")
    parser.add_argument("--write-case", action="store_true")
    parser.add_argument("--keep", type=pathlib.Path, help="folder to leave files in")
    parser.add_argument("--verbose", "-v", action="store_true")
    flags = parser.parse_args()

    torch.set_num_threads(1)
    recipes = [read_case(path) for path in flags.case]
    if not recipes:
        recipes = [generate(seed) for seed in seeds_of(flags.seeds)]
    failed = []
    with tempfile.TemporaryDirectory(prefix="fsdp-fuzz-") as temporary:
        base = flags.keep or pathlib.Path(temporary)
        for recipe in recipes:
            start = time.monotonic()
            folder = base / f"seed-{recipe.seed}"
            failure = failure_of(recipe, folder)
            seconds = time.monotonic() - start
            if flags.verbose:
                state = "fails" if failure else "holds"
                print(f"seed {recipe.seed}: {state} ({seconds:.1f} s)", flush=True)
            if failure is None:
                if flags.keep is None:
                    shutil.rmtree(folder, ignore_errors=True)
                continue
            failed.append(recipe.seed)
            if flags.shrink:
                recipe, failure = shrink(recipe, failure, base / "shrink")
            print(f"error: seed {recipe.seed} on {failure.ranks} ranks: {failure}")
            for flag in failure.flags:
                print(f"  fsdp-opt flag: {flag}")
            print(f"  recipe: {recipe.to_json()}", flush=True)
            if flags.write_case:
                print(f"  kept: {write_case(recipe, failure, base / 'case')}")
    print(f"{len(recipes)} recipes, {len(failed)} fail {failed if failed else ''}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
