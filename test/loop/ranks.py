"""Two rank processes that stay up and call functions of `calls.py`."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import pathlib
import sys
import traceback
from multiprocessing.connection import wait
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
RANKS, TIMEOUT_S = 2, 120


class Ranks:
    """What a call gives, or the exception that it raised, by rank."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.numbers = itertools.count()
        # A fork server imports PyTorch once for all of them.
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(["torch.distributed.tensor"])
        self.start()

    def start(self) -> None:
        self.pipes, self.workers = [], []
        store = str(self.folder / f"store-{next(self.numbers)}")
        for rank in range(RANKS):
            here, there = self.context.Pipe()
            worker = self.context.Process(target=_serve, args=(there, rank, store), daemon=True)
            worker.start()
            there.close()
            self.pipes.append(here)
            self.workers.append(worker)

    def meeting(self) -> str:
        """A rendezvous that nobody has used."""
        return f"file://{self.folder}/meeting-{next(self.numbers)}"

    def begin(self, function: str, *arguments: Any) -> None:
        for pipe in self.pipes:
            pipe.send((function, arguments))

    def answers(self, expected: int = RANKS) -> list[Any]:
        """By rank; None of those that end without one."""
        answers: dict[int, Any] = {}
        while len(answers) < RANKS:
            waiting = {pipe: r for r, pipe in enumerate(self.pipes) if r not in answers}
            ready = wait(waiting, TIMEOUT_S)
            assert ready, f"ranks {sorted(waiting.values())} did not answer"
            for pipe in ready:
                try:
                    answers[waiting[pipe]] = pipe.recv()
                except (EOFError, ConnectionError):
                    answers[waiting[pipe]] = (None, None)
        return [answers[rank] for rank in range(RANKS)]

    def call(self, function: str, *arguments: Any) -> list[Any]:
        """What a function gives on each rank; fails where it raises on one."""
        self.begin(function, *arguments)
        answers = self.answers()
        errors = [error for error, _ in answers if error]
        assert not errors, "\n".join(errors)
        return [value for _, value in answers]

    def close(self) -> None:
        for pipe, worker in zip(self.pipes, self.workers):
            pipe.close()
            worker.kill()
            worker.join()


def _serve(pipe: Any, rank: int, store: str) -> None:
    for folder in (HERE.parents[1] / "python", HERE.parent):
        sys.path.insert(0, str(folder))
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(RANKS), LOCAL_RANK=str(rank))
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    from loop import calls
    import torch

    torch.set_num_threads(1)
    calls.STORE = store
    while True:
        try:
            function, arguments = pipe.recv()
        except (EOFError, ConnectionError):
            return
        try:
            pipe.send((None, getattr(calls, function)(*arguments)))
        except BaseException:
            pipe.send((traceback.format_exc(), None))
