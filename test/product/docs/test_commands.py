"""Tests that the commands of the pages work: all flags exist, and what a reader can run by itself is
run, in the order of the pages."""

from __future__ import annotations

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
from typing import Iterator, NamedTuple

import pytest
import yaml

from support import chain

DOCS = chain.ROOT / "docs"
PROGRAMS = ("fsdp-opt", "fsdp-translate", "fsdp-run")
MODULE = "python -m fsdp_mlir."
_BEGINS = re.compile(
    r"(?:\w+=\S+ )*(?:torchrun|mpirun|srun|fsdp-(?:opt|translate|run)|python -m)\b"
)


class Command(NamedTuple):
    page: str
    text: str
    fenced: bool

    def words(self) -> list[str]:
        """Without the comment behind it, and without what stands for flags of the reader's own."""
        return shlex.split(re.sub(r"\[[^]]*\]|\$\w+", "", self.text), comments=True)


def commands() -> Iterator[Command]:
    for path in (chain.ROOT / "README.md", *sorted(DOCS.rglob("*.md"))):
        text, name = path.read_text(), path.relative_to(chain.ROOT).as_posix()
        for language, block in re.findall(r"^```(\w*)\n(.*?)^```", text, re.M | re.S):
            if language in ("", "bash"):
                lines = [line for line in block.splitlines() if _BEGINS.match(line)]
                yield from (Command(name, line, True) for line in lines)
        inline = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
        for code in re.findall(r"`([^`\n]+)`", inline):
            if _BEGINS.match(code) and " " in code and code.count("'") % 2 == 0:
                yield Command(name, code, False)


COMMANDS = list(commands())


def flags_of(program: str) -> set[str]:
    """All that a program knows."""
    if program.startswith(MODULE):
        flag = "--help-all" if program.endswith(".train") else "--help"
        words = [sys.executable, "-m", program.removeprefix("python -m "), flag]
        return set(re.findall(r"--[\w-]+", chain.command(words).stdout))
    if program == "fsdp-run":
        listed = chain.command([chain.binary(program), "--list-flags"]).stdout
        hidden = {"--explain"}
        return hidden | {line.partition("\t")[0] for line in listed.splitlines()}
    text = chain.command([chain.binary(program), "--help-all"]).stdout
    return set(re.findall(r"--[\w-]+", text))


def owner_of(words: list[str]) -> tuple[str, list[str]]:
    """The program of ours in a command, and what stands behind it."""
    for i, word in enumerate(words):
        if word in PROGRAMS:
            return word, words[i + 1 :]
        if word == "-m" and words[i + 1].startswith("fsdp_mlir."):
            return f"python -m {words[i + 1]}", words[i + 2 :]
    return "", []


def test_every_flag_exists() -> None:
    known: dict[str, set[str]] = {}
    found = 0
    for command in COMMANDS:
        program, rest = owner_of(command.words())
        if not program or program.endswith((".checkpoint", ".feed_step")):
            continue  # subcommands have flags of their own: they are run below
        if program == f"{MODULE}train":
            # Behind the step file stand its own flags.
            ends = [i for i, word in enumerate(rest) if word.endswith(".py")]
            rest = rest[: ends[0]] if ends else rest
        if program not in known:
            known[program] = flags_of(program)
        for word in rest:
            flag = word.partition("=")[0]
            if flag.startswith("--") and flag != "--":
                found += 1
                assert flag in known[program], f"{command.page}: {command.text}"
    assert found > 100


def test_a_pods_command_is_one_of_ours() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", (DOCS / "launching.md").read_text(), re.S)
    service, job = yaml.safe_load_all(blocks[0])
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["command"] == ["bash", "-c"]
    words = Command("", container["args"][0], True).words()
    assert words[0] == "fsdp-run"
    assert {word for word in words if word.startswith("--")} <= flags_of("fsdp-run")
    # The first pod has the name that the others call.
    name = f"{job['metadata']['name']}-0.{pod['subdomain']}"
    assert pod["subdomain"] == service["metadata"]["name"] and name in words


# Rows of tables that stand for themselves, besides what is in fences.
ROWS = ("docs/training.md", "docs/kernels.md")
NOT_RUN = {
    r"…|NAME=VALUE": "parts are left out",
    r"--nnodes|HOST|node0": "several machines: test_tutorials.py and test_launch.py have them",
    r"^srun|^mpirun": "test_launch.py starts ranks as they do",
    r"mesh=2 device=cuda": "needs a GPU: test/gpu",
    r"python/examples": "test_tutorials.py",
    r"^fsdp-run --tune$|^fsdp-opt --fsdp-report$|kernels=fast' STEP": "part of a command, or slow",
}
# Pages in the order in which one makes what the next reads.
ORDER = ("docs/training.md", "docs/checkpoints.md")


def to_run() -> list[Command]:
    chosen = [c for c in COMMANDS if c.fenced or c.page in ROWS]
    chosen = [c for c in chosen if not any(re.search(p, c.text) for p in NOT_RUN)]
    return sorted(chosen, key=lambda c: ORDER.index(c.page) if c.page in ORDER else len(ORDER))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Where a reader stands, with a step file and what the pages say lies there."""
    folder = tmp_path_factory.mktemp("reader")
    shutil.copy(pathlib.Path(__file__).with_name("commands_step.py"), folder / "STEP.py")
    toml = re.search(r"```toml\n(.*?)```", (DOCS / "clusters.md").read_text(), re.S)
    (folder / "boxes.toml").write_text(toml[1])
    (folder / "saved").symlink_to("exported")
    for name in ("before", "after"):
        (folder / f"{name}.plan").symlink_to("step.plan")
    return folder


def run(text: str, folder: pathlib.Path) -> "subprocess.CompletedProcess[str]":
    paths = [
        str(chain.binary("fsdp-run").parent),
        os.path.dirname(sys.executable),
        os.environ["PATH"],
    ]
    environment = chain.environment(PATH=":".join(paths), XDG_CACHE_HOME=str(folder / "cache"))
    return subprocess.run(
        ["bash", "-c", text],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=chain.TIMEOUT_S,
    )


def test_the_readmes_own_model_trains(tmp_path: pathlib.Path) -> None:
    code = re.search(r"```python\n(.*?)```", (chain.ROOT / "README.md").read_text(), re.S)
    (tmp_path / "STEP.py").write_text(code[1])
    result = run("python -m fsdp_mlir.train --nproc 2 STEP.py", tmp_path)
    assert result.returncode == 0, result.stderr
    losses = [float(loss) for loss in re.findall(r"epoch \d/3  loss ([\d.]+)", result.stdout)]
    assert len(losses) == 3 and losses[2] < losses[0], result.stdout


def test_what_a_reader_can_run_works(folder: pathlib.Path) -> None:
    chosen = to_run()
    assert len(chosen) > 25
    done = set()
    for command in chosen:
        text = re.sub(r"\[[^]]*\]", "", command.text).replace("out/NAME", "out/STEP")
        if text in done:
            continue
        done.add(text)
        result = run(text, folder)
        assert result.returncode == 0, f"{command.page}: {text}\n{result.stdout}{result.stderr}"
