"""How much of a GPU's memory is in use, whoever took it."""

from __future__ import annotations

import ctypes
import threading

PERIOD_S = 0.002


class _Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong)]
    _fields_ += [("used", ctypes.c_ulonglong)]


class MemoryWatch:
    """Of GPU 0, by the driver's own count and without a context on it, so that allocators, CUDA's
    contexts and kernels count alike. `peak`: the most in use inside the block, less what was in
    use when it began, in bytes; memory that was held for less than `PERIOD_S` may be missing.

    Raises:
        OSError: there is no driver.
    """

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libnvidia-ml.so.1")
        self._device = ctypes.c_void_p()
        self.peak = 0
        self._error: OSError | None = None

    def __enter__(self) -> MemoryWatch:
        calls = (
            self._library.nvmlInit_v2(),
            self._library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self._device)),
        )
        if any(calls):
            raise OSError(f"NVML shows no GPU: {calls}")
        self._base = self._used()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._library.nvmlShutdown()
        if self._error:
            raise self._error

    def _used(self) -> int:
        memory = _Memory()
        if status := self._library.nvmlDeviceGetMemoryInfo(self._device, ctypes.byref(memory)):
            raise OSError(f"NVML does not say how much memory is in use: {status}")
        return memory.used

    def _watch(self) -> None:
        try:
            while not self._over.wait(PERIOD_S):
                self.peak = max(self.peak, self._used() - self._base)
        except OSError as error:  # nobody sees a thread's
            self._error = error
