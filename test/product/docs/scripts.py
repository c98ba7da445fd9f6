"""Runs a script as a tutorial says: by `python` in one process, or by `torchrun` in some.

The processes are forks of one that has imported what the scripts import, which takes longer than
most of them do by themselves.
"""

from __future__ import annotations

import multiprocessing
import os
import pathlib
import re
import runpy
import shlex
import sys

from product.docs.tutorials import section_of
from support import chain

PRELOAD = ["torch.distributed.tensor", "transformers.trainer", "torch._dynamo"]


def commands(page: str, section: str, program: str) -> list[str]:
    """Those of a section of a tutorial that begin with `program`."""
    return re.findall(rf"^{re.escape(program)} .*$", section_of(page, section), re.MULTILINE)


def run(command: str, folder: pathlib.Path, *flags: str) -> str:
    """Runs `python SCRIPT …` or `torchrun --nproc-per-node N SCRIPT …` in `folder` with further
    flags; returns what rank 0 printed. A flag that is given twice has its last value."""
    words = [*shlex.split(command), *flags]
    ranks = int(words[2]) if words[0] == "torchrun" else 1
    script = words[3:] if words[0] == "torchrun" else words[1:]
    port = chain.free_port()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    outputs = [folder / f"output-{rank}.txt" for rank in range(ranks)]
    processes = []
    for rank in range(ranks):
        where = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks)}
        where |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        place = where if words[0] == "torchrun" else {}
        arguments = (script, str(folder), str(outputs[rank]), place)
        processes.append(context.Process(target=_run, args=arguments, daemon=True))
        processes[-1].start()
    for process in processes:
        process.join(chain.TIMEOUT_S)
    said = [output.read_text() for output in outputs]
    assert [process.exitcode for process in processes] == [0] * ranks, "\n".join(said)
    return said[0]


def _run(script: list[str], folder: str, output: str, environment: dict[str, str]) -> None:
    """In a process of its own: all that a script sees is as in one that was just started."""
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.chdir(folder)
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        os.environ.pop(name, None)
    os.environ.update(environment, XDG_CACHE_HOME=os.path.join(folder, "cache"))
    sys.path[:0] = [os.path.dirname(os.path.abspath(script[0])), str(chain.PYTHON)]
    sys.argv = script

    import torch

    torch.set_num_threads(1)
    runpy.run_path(script[0], run_name="__main__")
