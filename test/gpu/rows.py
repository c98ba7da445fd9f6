"""What is run, as a table: each row gives checks, and each check a verdict."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re
import shutil
import sys
from typing import Any, Callable, Iterator, Sequence

import torch

from gpu import tensors
from gpu.cases import CASES, Case, of_row
from gpu.lab import Lab, Run, Stopped
from support.trace import Trace

PASS, FAIL, SKIP = "PASS", "FAIL", "SKIP"


@dataclasses.dataclass(frozen=True)
class Check:
    name: str
    verdict: str
    detail: str = ""


Checks = Iterator[Check]


@dataclasses.dataclass(frozen=True)
class Row:
    """`checks` may raise Stopped, which fails it; `anywhere`: a host stands in for a GPU where the
    script itself is tested; `alone`: it counts time or memory of the GPU, and shares it with no
    other row."""

    name: str
    what: str
    checks: Callable[[Lab], Checks]
    anywhere: bool = False
    alone: bool = False


def _check(name: str, passed: bool, detail: str = "") -> Check:
    return Check(name, PASS if passed else FAIL, detail)


def _each(lab: Lab, row: str, check: Callable[[Lab, Case], Check]) -> Checks:
    """A check per case, of which one that stops does not stop the others."""
    for case in of_row(row):
        try:
            yield check(lab, case)
        except Stopped as reason:
            yield Check(case.name, FAIL, str(reason))


TESTS = ("device_tests", "kernels_tests", "device_comm_tests")
# As those of real GPUs are called; most others are of imitated ones.
_ON_GPU = re.compile(r"\bReal|^CudaKernels\.")


def conformance(lab: Lab) -> Checks:
    """GoogleTest's programs. One of which no test ran on the GPU is skipped."""
    for name in TESTS:
        report = lab.scratch / f"{name}.json"
        report.unlink(missing_ok=True)
        ended = lab.command([lab.program(name), f"--gtest_output=json:{report}"], timeout=240)
        if not report.exists():
            yield Check(name, FAIL, ended.error)
            continue
        suites = json.loads(report.read_text())["testsuites"]
        tests = [(f"{s['name']}.{t['name']}", t) for s in suites for t in s["testsuite"]]
        failed = [name for name, test in tests if "failures" in test]
        skipped = [name for name, test in tests if "SKIPPED" in (test["result"], test["status"])]
        passed = {name for name, _ in tests} - {*failed, *skipped}
        on_gpu = [name for name in passed if _ON_GPU.search(name)]
        detail = f"{len(passed)} passed, {len(skipped)} skipped"
        if failed or ended.code:
            yield Check(name, FAIL, f"{detail}; failed: {', '.join(failed) or ended.error}")
        elif not on_gpu:
            yield Check(name, SKIP, f"{detail}; none of them on a GPU")
        else:
            yield Check(name, PASS, f"{detail}; {len(on_gpu)} on a GPU")


def parity(lab: Lab, case: Case) -> Check:
    """The plan for GPUs against the plan for CPUs, both run here."""
    found, expected = lab.run(case, lab.device), lab.run(case, "cpu")
    return compare(case, found, expected)


# What no loss depends on: its gradient is rounding, which Adam scales up to whole steps.
_NOISE = ("key.bias", "k_proj.bias", "qkv.bias")


def compare(case: Case, found: Run, expected: Run) -> Check:
    if len(found.losses) != case.steps or len(expected.losses) != case.steps:
        return Check(case.name, FAIL, f"{len(found.losses)} losses in {case.steps} steps")
    # Of the largest: one near zero has the rounding of the logits that it is a difference of. A
    # NaN is not at most anything.
    largest = max(map(abs, expected.losses))
    losses = [abs(a - b) / largest for a, b in zip(found.losses, expected.losses)]
    passed = all(difference <= case.loss for difference in losses)
    detail = f"losses within {max(losses):.1e} (≤ {case.loss:g}, {case.steps} steps)"
    if case.weights:
        ours, theirs = found.weights(), expected.weights()
        if sorted(ours) != sorted(theirs):
            return Check(case.name, FAIL, "other tensors are saved")
        far = {
            name: tensors.distance(ours[name], value)
            for name, value in theirs.items()
            if not name.endswith(_NOISE)
        }
        worst = max(far, key=lambda name: far[name] if far[name] == far[name] else float("inf"))
        passed = passed and all(value <= 10 * case.loss for value in far.values())
        detail += f", weights within {far[worst]:.1e} (≤ {10 * case.loss:g}, {worst})"
    return _check(case.name, passed, detail)


def of_cases(row: str) -> Callable[[Lab], Checks]:
    return lambda lab: _each(lab, row, parity)


def same_bits(name: str, found: Run, expected: Run) -> Check:
    ours, theirs = found.weights(), expected.weights()
    if found.losses != expected.losses:
        pairs = zip(found.losses, expected.losses)
        step = next((i for i, (a, b) in enumerate(pairs, 1) if a != b), "number")
        return Check(name, FAIL, f"losses differ, first in step {step}")
    different = [
        tensor
        for tensor in theirs.keys() | ours.keys()
        if not (tensor in ours and tensor in theirs)
        or not torch.equal(tensors.bits(ours[tensor]), tensors.bits(theirs[tensor]))
    ]
    if different:
        return Check(name, FAIL, f"{len(different)} tensors differ: {', '.join(different[:3])}")
    detail = f"{len(found.losses)} losses and {len(theirs)} tensors are equal bit for bit"
    return Check(name, PASS, detail)


def _same_as_plain(lab: Lab, name: str, *flags: str) -> Check:
    """A run with these flags has the bits of one without. Where two without differ already, that
    is said: the flags are then not at fault."""
    try:
        plain = lab.run(CASES[name], lab.device)
        check = same_bits(name, lab.run(CASES[name], lab.device, *flags), plain)
        if check.verdict == FAIL:
            again = same_bits(name, lab.run(CASES[name], lab.device, repetition=1), plain)
            same = "the same bits" if again.verdict == PASS else "other bits as well"
            return Check(name, FAIL, f"{check.detail}; without {' '.join(flags)} again: {same}")
        return check
    except Stopped as reason:
        return Check(name, FAIL, str(reason))


def nccl(lab: Lab) -> Checks:
    yield _same_as_plain(lab, "gpt", "--comm", "nccl")
    yield _same_as_plain(lab, "gpt", "--comm", "nccl", "--cuda-graph")
    yield _same_as_plain(lab, "conv", "--comm", "nccl", "--single-communicator")


# Whether all of a case's programs can be captured: ranks that are threads launch their transfers
# together, and updates on the host are none of the GPU's work.
CAPTURED = {
    "mlp": True,
    "mlp-scaler": True,
    "conv": True,
    "gpt": True,
    "gpt-bf16": True,
    "dropout": True,
    "experts": False,
    "experts-bf16": True,
    "transformers-causal-mixtral": False,
    "strange-moco": True,
    "gpt.accumulate-alone": True,
    "gpt.offload-alone": True,
    "gpt.flat": False,
    "gpt.offload-all": False,
}
_NOT_CAPTURED = re.compile(r"runs without a CUDA graph: (.*)")


def graph(lab: Lab) -> Checks:
    """The bits are those of streams. What is not captured says why, where that is to be."""
    for name, captured in CAPTURED.items():
        check = _same_as_plain(lab, name, "--cuda-graph")
        if check.verdict == PASS:
            said = lab.run(CASES[name], lab.device, "--cuda-graph").output
            reason = _NOT_CAPTURED.search(said)
            note = f"; not captured: {reason[1]}" if reason else ""
            check = _check(name, captured == (reason is None), check.detail + note)
        yield check


TRACED: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("gpt", ("--cuda-graph",)),
    ("gpt.flat", ()),
    ("gpt.offload-all", ()),
)


def _traced(check: Check, path: pathlib.Path) -> Check:
    """The check, with what a trace that keeps its format's rules says of rank 0's kernels."""
    try:
        trace = Trace.load(path)
    except AssertionError as error:
        return Check(check.name, FAIL, f"{path.name} breaks the rules of its format: {error}")
    rank0 = trace.process("rank 0")
    kernels = [s for _, s in trace.commands(rank0) if s.category == "kernel"]
    busy, steps = (
        sum(s.end - s.begin for s in slices) for slices in (kernels, trace.track(rank0, "steps"))
    )
    detail = f"{check.detail}; {len(kernels)} kernels in {busy / steps:.1%} of the traced steps"
    return _check(check.name, 0 < busy <= steps, detail)


def traces(lab: Lab) -> Checks:
    """Traced steps have the bits of others, and kernels run for a part of them."""
    for name, flags in TRACED:
        path = lab.scratch / f"{name}.trace.json"
        check = _same_as_plain(lab, name, "--trace", str(path), *flags)
        yield _traced(check, path) if check.verdict == PASS else check


# A case with flags, and the case that goes on from its middle: itself, or as many ranks in another
# layout.
RESUMED: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("gpt", ("--cuda-graph",), "gpt"),
    ("gpt.flat", (), "gpt.dim0"),
    ("gpt.offload-all", (), "gpt.offload-all"),
    ("mlp-scaler", (), "mlp-scaler"),
    ("dropout", ("--cuda-graph",), "dropout"),
)
# What the host takes over.
MOVED = "gpt"


class _Halves:
    """A run that goes on while its checkpoints are written, and what others make of the one in its
    middle."""

    def __init__(self, lab: Lab, case: Case, flags: Sequence[str]):
        self.lab, self.flags, self.middle = lab, flags, case.steps // 2
        folder = lab.scratch / f"{case.name}{''.join(flags)}.checkpoints"
        shutil.rmtree(folder, ignore_errors=True)
        self.checkpoint = folder / f"step-{self.middle:08d}"
        keeping = ("--checkpoint-interval", str(self.middle), "--keep", "0")
        self.first = lab.run(case, lab.device, *flags, "--checkpoint-dir", str(folder), *keeping)

    def resumed(self, heir: Case, device: str) -> Run:
        """The losses of both halves, and what the second one saves."""
        flags = self.flags if device == self.lab.device else ()
        rest = self.lab.run(heir, device, *flags, "--resume", str(self.checkpoint))
        before = [row for row in self.first.metrics if row["step"] <= self.middle]
        return dataclasses.replace(rest, metrics=before + rest.metrics)


def _same_from_checkpoints(lab: Lab, name: str, flags: tuple[str, ...], heir: str) -> Checks:
    whole, halves = lab.run(CASES[name], lab.device, *flags), _Halves(lab, CASES[name], flags)
    yield same_bits(f"{name}, saved", halves.first, whole)
    resumed = halves.resumed(CASES[heir], lab.device)
    yield same_bits(f"{name}, then {heir}", resumed, whole)


def checkpoints(lab: Lab) -> Checks:
    """To save changes no bit, and neither does to go on from what was saved. The host's bits are
    others, and near."""
    for name, flags, heir in RESUMED:
        try:
            yield from _same_from_checkpoints(lab, name, flags, heir)
        except Stopped as reason:
            yield Check(name, FAIL, str(reason))
    case = CASES[MOVED]
    moved = _Halves(lab, case, ()).resumed(case, "cpu")
    near = compare(case, moved, lab.run(case, "cpu"))
    yield dataclasses.replace(near, name=f"{MOVED}, then on the host")


# With samples in a batch.
LOOPS = (("mlp", 2, ()), ("gpt", 4, ()), ("gpt", 4, ("--cuda-graph",)))


def loops(lab: Lab) -> Checks:
    """A script that takes the steps itself has the bits of fsdp-run."""
    script = pathlib.Path(__file__).with_name("loop.py")
    if not [*lab.programs.glob("fsdp_runtime.*.so")]:
        yield Check("loop.py", SKIP, "the extension module is not built: there is no Python.h")
        return
    for name, batch, flags in LOOPS:
        case, saved = CASES[name], lab.scratch / f"{name}{''.join(flags)}.loop.safetensors"
        expected = lab.run(case, lab.device, "--no-shuffle")
        files = lab.plan(case), lab.files.weights(case), lab.files.data(case), saved
        words = [sys.executable, script, *files, batch, case.steps, *flags]
        ended = lab.command(words, FSDP_MLIR_BIN=str(lab.programs), NVIDIA_TF32_OVERRIDE="0")
        title = " ".join((name, *flags))
        if ended.code:
            yield Check(title, FAIL, ended.error)
            continue
        said = json.loads(ended.output.splitlines()[-1])
        metrics = [{"loss": loss} for loss in said["losses"]]
        run = dataclasses.replace(expected, metrics=metrics, saved=saved)
        check = same_bits(title, run, expected)
        yield dataclasses.replace(check, detail=f"{check.detail}, on {said['device']}")


def sanitizer(lab: Lab) -> Checks:
    tool = shutil.which("compute-sanitizer", path=f"{os.environ['PATH']}:/usr/local/cuda/bin")
    if not tool:
        yield Check("memcheck", SKIP, "compute-sanitizer is not installed")
        return
    for name in ("mlp", "gpt", "gpt.flat", "gpt.offload-all"):
        case = CASES[name]
        words = [tool, "--tool", "memcheck", "--error-exitcode", "66"]
        words += [*lab.arguments(case, lab.plan(case)), "--nproc", case.ranks, "--threads"]
        ended = lab.command([*words, "--steps", 2], timeout=240)
        found = re.search(r"ERROR SUMMARY: (\d+ errors?)", ended.output)
        clean = ended.code == 0 and found is not None and found[1] == "0 errors"
        yield _check(name, clean, found[1] if found else ended.error)


def errors(lab: Lab) -> Checks:
    """One clear error each: a line that says `error:` and these words, and no success."""
    two = CASES["gpt.flat"]
    attempts: tuple[tuple[str, Callable[[], Any], str], ...] = (
        (
            "no GPU is visible",
            lambda: lab.attempt(CASES["mlp"], CUDA_VISIBLE_DEVICES=""),
            r"this machine shows none",
        ),
        (
            "out of device memory",
            lambda: lab.attempt(CASES["too-large"]),
            r"\d+ bytes.*\d+ (are )?free.*(remat|offload)",
        ),
        (
            "two processes where one GPU is visible",
            lambda: lab.attempt(two, "--comm", "nccl", CUDA_VISIBLE_DEVICES="0"),
            r"2 ranks are to run on this host, which shows 1 GPU",
        ),
        (
            "two ranks on a plan for one",
            lambda: lab.attempt(CASES["mlp"], "--threads", ranks=2),
            r"the plan's mesh has 1 rank, this run 2",
        ),
        (
            "a plan for CPUs over NCCL",
            lambda: lab.attempt(CASES["mlp"], "--comm", "nccl", device="cpu"),
            r"--comm nccl is for GPUs, and the plan is for CPUs",
        ),
    )
    for name, attempt, words in attempts:
        try:
            ended = attempt()
        except Stopped as reason:
            yield Check(name, FAIL, str(reason))
            continue
        lines = [line for line in ended.output.splitlines() if "error:" in line]
        clear = ended.code not in (0, 124) and any(re.search(words, line) for line in lines)
        yield _check(name, clear, lines[0].strip() if lines else ended.error)


def bench(lab: Lab) -> Checks:
    """That everyone takes part; goals are said, and bind nobody here."""
    script = pathlib.Path(__file__).with_name("bench.py")
    words = [sys.executable, script, "--bin", lab.programs, "--plans", lab.files.folder]
    words += ["--device", lab.device, "--out", lab.scratch.parent]
    ended = lab.command([*words, *("--models", "124m", "--rounds", "2")], timeout=500)
    lines = [line.strip() for line in ended.output.splitlines()]
    goals = [line for line in lines if line.endswith(("met", "nearly"))]
    absent = [line for line in lines if "takes no part" in line]
    yield _check("124m", ended.code == 0, "; ".join([*absent, *goals]) or ended.error)


ROWS = {
    row.name: row
    for row in (
        Row("conformance", "unit tests of devices, kernels and communicators", conformance),
        Row("kernels", "one rank computes what the CPU does, in fp32", of_cases("kernels"), True),
        Row("models", "models of every kind, with their operators", of_cases("models"), True),
        Row("ranks", "ranks as threads on one GPU, in every layout", of_cases("ranks"), True),
        Row("policies", "accumulation, clipping, remat", of_cases("policies"), True),
        Row("offload", "what lives in the host's memory", of_cases("offload"), True),
        Row("precision", "bf16 and fp16 over a hundred steps", of_cases("precision"), True),
        Row("nccl", "NCCL at world size 1", nccl),
        Row("graph", "a replayed step has the bits of a launched one", graph),
        Row("trace", "when each command of a step ran on its stream", traces),
        Row("checkpoints", "a run that goes on from a checkpoint is the whole one", checkpoints),
        Row("loop", "a loop of one's own in Python", loops, True),
        Row("errors", "what cannot run says why in one line", errors),
        Row("sanitizer", "compute-sanitizer finds nothing", sanitizer),
        Row("bench", "step time and memory beside FSDP2", bench, alone=True),
    )
}
