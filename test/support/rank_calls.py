"""Two rank processes that stay up and take calls, one after the other."""

from __future__ import annotations

import itertools
import multiprocessing
import pathlib
import traceback
from multiprocessing.connection import wait
from typing import Any, Callable

RANKS, TIMEOUT_S = 2, 240


class RankCalls:
    """Each process runs `target(pipe, rank, store)`, which ends in `serve`; the store's file is of
    these processes alone."""

    def __init__(
        self, target: Callable[[Any, int, str], None], folder: pathlib.Path, preload: str
    ) -> None:
        self.target, self.folder = target, folder
        self.numbers = itertools.count()
        # A fork server imports PyTorch once for all of them.
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload([preload])
        self.start()

    def start(self) -> None:
        self.pipes, self.workers = [], []
        store = str(self.folder / f"store-{next(self.numbers)}")
        for rank in range(RANKS):
            here, there = self.context.Pipe()
            worker = self.context.Process(
                target=self.target, args=(there, rank, store), daemon=True
            )
            worker.start()
            there.close()
            self.pipes.append(here)
            self.workers.append(worker)

    def begin(self, function: str, *arguments: Any) -> None:
        for pipe in self.pipes:
            pipe.send((function, arguments))

    def answers(self) -> list[Any]:
        """By rank the error and what the function gave; None of those that end without a word."""
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


def serve(pipe: Any, find: Callable[[str], Callable[..., Any]]) -> None:
    """Answers calls of the functions that `find` gives by name, until nobody asks."""
    while True:
        try:
            function, arguments = pipe.recv()
        except (EOFError, ConnectionError):
            return
        try:
            pipe.send((None, find(function)(*arguments)))
        except BaseException:
            pipe.send((traceback.format_exc(), None))
