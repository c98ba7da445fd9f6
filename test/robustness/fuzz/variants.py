"""Compiles and runs the variants of a recipe, and says what is wrong with them.

What must hold, for a recipe on N ranks:
- one rank has eager PyTorch's bits;
- N ranks are close to eager PyTorch with the mean of the ranks' gradients;
- every variant has the bits of the first: neither units, resharding, reuse of
  memory nor `--cse --canonicalize` between passes may change a number;
- `--cse --canonicalize` changes no count of collectives; one rank has none;
  without resharding backward gathers nothing.
"""

from __future__ import annotations

import pathlib
import re
from typing import Any, Sequence

import torch

from fuzz_step import training_step
from recipe import Recipe, Variant
from support import chain, reference
from support.compare import relative

STEP_FILE = pathlib.Path(__file__).resolve().parent / "fuzz_step.py"
TIMEOUT_S = 60


class Failure(Exception):
    """A recipe does not behave; `command` is fsdp-opt's flags where it showed."""

    def __init__(self, message: str, flags: Sequence[str] = (), ranks: int = 1):
        super().__init__(message)
        self.flags = list(flags)
        self.ranks = ranks


def _errors(error: chain.ChainError) -> str:
    """What a program says is wrong; not the IR that follows."""
    lines = [line for line in error.output.splitlines() if "error:" in line]
    return "\n".join(lines[:5]) or f"exit {error.code}: {error.output[-500:]}"


def _tool(what: str, command: Sequence[Any], flags: Sequence[str], ranks: int) -> str:
    """Runs one program; gives what it writes to stdout."""
    try:
        return chain.command(command, timeout=TIMEOUT_S).stdout
    except chain.ChainError as error:
        raise Failure(f"{what}: {_errors(error)}", flags, ranks)
    except Exception as error:
        raise Failure(f"{what}: {error}", flags, ranks)


def split_pipeline(text: str) -> list[str]:
    """The passes of `builtin.module(a,b{x=1,2},func.func(c))`, outermost ones."""
    inner = text[text.index("(") + 1 : text.rindex(")")]
    passes, depth, start = [], 0, 0
    for i, character in enumerate(inner):
        depth += (character in "({[") - (character in ")}]")
        if character == "," and depth == 0:
            passes.append(inner[start:i])
            start = i + 1
    return [*passes, inner[start:]]


def _options(variant: Variant, ranks: int) -> str:
    text = f"mesh={ranks} units={variant.units} reshard-after-forward={variant.reshard}"
    return text if variant.reuse else text + " algorithm=naive"


def pipeline_text(options: str, ir: pathlib.Path) -> str:
    """The passes that `--fsdp-pipeline` stands for, as text."""
    command = [chain.binary("fsdp-opt"), ir, f"--fsdp-pipeline={options}"]
    try:
        done = chain.command([*command, "--dump-pass-pipeline", "-o", "/dev/null"])
    except chain.ChainError as error:
        raise Failure(f"fsdp-opt: {_errors(error)}", command[2:])
    found = re.search(r"^builtin\.module\(.*?^\)", done.stdout + done.stderr, re.S | re.M)
    if found is None:
        raise Failure("--dump-pass-pipeline prints no pipeline", command[2:])
    return "".join(line.strip() for line in found.group(0).splitlines())


def opt_flags(variant: Variant, ranks: int, ir: pathlib.Path) -> list[str]:
    """fsdp-opt's flags for a variant."""
    options = _options(variant, ranks)
    if not variant.simplify:
        return [f"--fsdp-pipeline={options}"]
    passes = split_pipeline(pipeline_text(options, ir))
    count = len(passes) if variant.simplify < 0 else variant.simplify
    spread: list[str] = []
    for i, name in enumerate(passes):
        spread += [name, "cse", "canonicalize"] if i < count else [name]
    return [f"--pass-pipeline=builtin.module({','.join(spread)})"]


def compile_variant(flags: list[str], ranks: int, folder: pathlib.Path) -> pathlib.Path:
    """From the imported IR to a plan; gives the plan's path."""
    folder.mkdir(parents=True, exist_ok=True)
    ir, out, plan = folder.parent / "step.mlir", folder / "fsdp.mlir", folder / "plan"
    opt, translate = chain.binary("fsdp-opt"), chain.binary("fsdp-translate")
    _tool("fsdp-opt", [opt, ir, *flags, "-o", out], flags, ranks)
    lower = [translate, "--fsdp-to-plan", out, "-o", plan]
    _tool("fsdp-translate --fsdp-to-plan", lower, flags, ranks)
    return plan


def run_variant(plan: pathlib.Path, recipe: Recipe, ranks: int, flags: list[str]) -> chain.Result:
    """All ranks as threads of one process, under --poison."""
    base = plan.parent.parent
    files = [plan.parent / n for n in ("metrics.jsonl", "summary.json", "saved")]
    command = [chain.binary("fsdp-run"), plan, "--threads", "--nproc", ranks]
    command += ["--poison", "--steps", recipe.steps]
    command += ["--weights", base / "step.safetensors"]
    command += ["--data", base / "step.data.safetensors"]
    if ranks == 1:
        command.append("--rng=sequential")
    for flag, file in zip(("--metrics", "--summary", "--save"), files):
        command += [flag, file]
    _tool("fsdp-run", command, flags, ranks)
    return chain.read_result(*files)


def _same(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> str:
    """What differs in bits, or nothing."""
    if sorted(one) != sorted(two):
        return f"saved names differ: {sorted(set(one) ^ set(two))}"
    bad = [name for name in one if not _equal(one[name], two[name])]
    return "" if not bad else "tensors differ: " + ", ".join(bad)


def _equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)


def _check_bits(
    what: str,
    result: chain.Result,
    losses: list[float],
    state: dict[str, torch.Tensor],
    flags: list[str],
    ranks: int,
) -> None:
    if result.losses != losses:
        raise Failure(f"{what}: losses {result.losses}, not {losses}", flags, ranks)
    bad = _same(state, result.weights)
    if bad:
        raise Failure(f"{what}: {bad}", flags, ranks)


def _check_close(
    result: chain.Result, expected: reference.Trained, flags: list[str], ranks: int
) -> None:
    """Against PyTorch with averaged gradients: 1e-5 of each tensor's norm."""
    what = "differs from averaged gradients"
    for got, want in zip(result.losses, expected.mean_losses):
        if abs(got - want) > 1e-5 * max(abs(want), 1e-3):
            raise Failure(f"{what}: loss {got} is not {want}", flags, ranks)
    if sorted(result.weights) != sorted(expected.state):
        names = set(result.weights) ^ set(expected.state)
        raise Failure(f"{what}: saved names {sorted(names)}", flags, ranks)
    for name, value in expected.state.items():
        got = result.weights[name]
        if got.shape != value.shape or got.dtype != value.dtype:
            raise Failure(f"{what}: shape or dtype of {name}", flags, ranks)
        error = relative(got, value)
        if error > 1e-5 and float((got - value).abs().max()) > 1e-6:
            raise Failure(f"{what}: {name}, {error:.2e} of its norm", flags, ranks)


def collective_counts(plan: pathlib.Path) -> dict[str, int]:
    """Collectives of the step program by kind and region, from the plan's text."""
    counts: dict[str, int] = {}
    for line in chain.plan_text(plan).splitlines():
        found = re.search(r"\b(all_gather|reduce_scatter|all_reduce)\b", line)
        if found:
            region = re.search(r"\b(forward|backward)\b", line)
            key = " ".join([found.group(1), *([region.group(1)] if region else [])])
            counts[key] = counts.get(key, 0) + 1
    return counts


def check_recipe(recipe: Recipe, folder: pathlib.Path) -> None:
    """Raises Failure where the recipe does not behave."""
    folder.mkdir(parents=True, exist_ok=True)
    argv = [f"--recipe={recipe.to_json()}"]
    archive, ir = folder / "step.pt", folder / "step.mlir"
    try:
        chain.export(STEP_FILE, archive, argv)
    except chain.ChainError as error:
        raise Failure(f"export: {_errors(error)}")
    translate = chain.binary("fsdp-translate")
    _tool("import", [translate, "--import-torchscript", archive, "-o", ir], [], 1)

    flags = ["--fsdp-pipeline=mesh=1"]
    plan = compile_variant(flags, 1, folder / "sequential")
    if collective_counts(plan):
        raise Failure(f"one rank has {collective_counts(plan)}", flags)
    result = run_variant(plan, recipe, 1, flags)
    eager = reference.eager(training_step(argv), recipe.steps)
    what = "one rank differs from eager PyTorch"
    _check_bits(what, result, eager.mean_losses, eager.state, flags, 1)
    _check_variants(recipe, argv, folder, recipe.ranks)


def _check_variants(recipe: Recipe, argv: list[str], folder: pathlib.Path, ranks: int) -> None:
    first: chain.Result | None = None
    done: dict[bytes, str] = {}
    for number, variant in enumerate(recipe.variants):
        flags = opt_flags(variant, ranks, folder / "step.mlir")
        plan = compile_variant(flags, ranks, folder / f"variant{number}")
        _check_counts(variant, plan, flags, ranks, folder / f"plain{number}")
        content = plan.read_bytes()
        if content in done:
            continue
        done[content] = str(variant)
        result = run_variant(plan, recipe, ranks, flags)
        if first is None:
            first = result
            if ranks > 1 and not recipe.random_ops:
                expected = reference.averaged(training_step(argv), ranks, recipe.steps)
                _check_close(result, expected, flags, ranks)
            continue
        what = f"{variant} differs from {recipe.variants[0]}"
        _check_bits(what, result, first.losses, first.weights, flags, ranks)


def _check_counts(
    variant: Variant,
    plan: pathlib.Path,
    flags: list[str],
    ranks: int,
    folder: pathlib.Path,
) -> None:
    counts = collective_counts(plan)
    if ranks == 1 and counts:
        raise Failure(f"one rank has {counts}", flags, ranks)
    if variant.reshard == "false" and counts.get("all_gather backward"):
        raise Failure(f"{variant}: {counts}, though nothing is resharded", flags, ranks)
    if not variant.simplify:
        return
    plain = [f"--fsdp-pipeline={_options(variant, ranks)}"]
    expected = collective_counts(compile_variant(plain, ranks, folder))
    if counts != expected:
        message = f"{variant}: {counts}, but {expected} without --cse --canonicalize"
        raise Failure(message, flags, ranks)
