"""Runs programs in copies of a process that has loaded its libraries.

A program that begins with PyTorch spends a quarter of a second on that, which is
more than most tests need. ForkServer.cpp, preloaded into the program, waits where its
main() would begin and forks for every command line. What runs is the program's
own main() in a process of its own.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pathlib
import selectors
import signal
import socket
import struct
import subprocess
import time
from typing import Sequence

NUMBER = struct.Struct("=i")
# What libraries read of the environment while they are loaded.
READ_AT_START = ("LD_", "OMP_", "GOMP_", "KMP_", "MKL_", "GLIBC_", "MALLOC_", "TORCH_", "CUDA_")


class ForkServer:
    """A program that waits for command lines until this process ends; threads and forks of it
    may use it too. `libraries` are those that the program would load only while it runs."""

    def __init__(
        self,
        program: pathlib.Path,
        preload: pathlib.Path,
        libraries: Sequence[pathlib.Path],
        env: dict[str, str],
    ):
        self.program, self.loaded_with = program, read_at_start(env)
        self.socket, there = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with there:
            self.process = subprocess.Popen(
                [str(program), *map(str, libraries)],
                pass_fds=[there.fileno()],
                env={**env, "LD_PRELOAD": str(preload), "FORK_SERVER": str(there.fileno())},
            )
        atexit.register(self.close)

    def number(self, answer: Pipe) -> int:
        """The process that runs, once it does."""
        data = os.read(answer.here, NUMBER.size)
        assert data, f"{self.program}, which waits for command lines, has ended"
        return NUMBER.unpack(data)[0]

    def close(self) -> None:
        self.socket.close()
        self.process.wait()

    def can_run(self, env: dict[str, str]) -> bool:
        """Whether the program would have loaded alike in an environment."""
        return read_at_start(env) == self.loaded_with

    def run(
        self, arguments: list[str], timeout: float, env: dict[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """As `subprocess.run` with `capture_output`, for a command line of this program."""
        words = [os.getcwd(), str(len(arguments)), *arguments]
        words += [f"{name}={value}" for name, value in env.items()]
        packet = b"".join(os.fsencode(word) + b"\0" for word in words)
        with contextlib.ExitStack() as files:
            output, errors, answer = (Pipe(files) for _ in range(3))
            ends = [pipe.there for pipe in (output, errors, answer)]
            socket.send_fds(self.socket, [packet], ends)
            for pipe in (output, errors, answer):
                pipe.close_there()
            process = self.number(answer)
            try:
                read_all((output, errors, answer), timeout)
            except TimeoutError:
                os.kill(process, signal.SIGKILL)
                raise subprocess.TimeoutExpired(arguments, timeout, output.data) from None
            (status,) = NUMBER.unpack(answer.data)
        code = os.waitstatus_to_exitcode(status)
        return subprocess.CompletedProcess(arguments, code, output.text(), errors.text())


def read_at_start(env: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(READ_AT_START)}


class Pipe:
    """What another process writes until its end is closed."""

    def __init__(self, files: contextlib.ExitStack):
        self.here, self.there = os.pipe()
        self.data = b""
        files.callback(os.close, self.here)
        files.callback(self.close_there)

    def close_there(self) -> None:
        if self.there >= 0:
            os.close(self.there)
        self.there = -1

    def text(self) -> str:
        # As files are read that are opened as text.
        return self.data.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")


def read_all(pipes: Sequence[Pipe], timeout: float) -> None:
    """Raises TimeoutError where one of them is open after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    with selectors.DefaultSelector() as waiting:
        for pipe in pipes:
            waiting.register(pipe.here, selectors.EVENT_READ, pipe)
        while waiting.get_map():
            ready = waiting.select(deadline - time.monotonic())
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                part = os.read(key.fd, 1 << 16)
                key.data.data += part
                if not part:
                    waiting.unregister(key.fd)
