"""A browser without a window, for tests of pages: Chromium, over the pipe of its debugging protocol."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
from typing import Any, Iterator

PROGRAMS = ("chromium-headless-shell", "chromium")
SECONDS = 60
# Keys that are no text, by their code in the protocol.
CODES = {"Tab": 9, "Enter": 13, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}

Json = dict[str, Any]


def program() -> str | None:
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


class Page:
    """A page that is open. `complaints` are errors of its scripts, and what it asked a server for."""

    def __init__(self, incoming: Any, outgoing: Any) -> None:
        self._in, self._out = incoming, outgoing
        self._numbers = itertools.count(1)
        self._session: str | None = None
        self._events: list[str] = []
        self.complaints: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Json:
        """The answer; events that come meanwhile are noted."""
        number = next(self._numbers)
        message: Json = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        self._out.flush()
        while True:
            got = self._receive()
            if got.get("id") == number:
                assert "error" not in got, got["error"]
                return got["result"]

    def _receive(self) -> Json:
        text = bytearray()
        while (byte := self._in.read(1)) != b"\0":
            assert byte, "the browser has ended"
            text += byte
        got = json.loads(text)
        event, given = got.get("method"), got.get("params", {})
        if event:
            self._events.append(event)
        if event == "Runtime.exceptionThrown":
            self.complaints.append(str(given["exceptionDetails"]))
        if event == "Log.entryAdded" and given["entry"]["level"] == "error":
            self.complaints.append(given["entry"]["text"])
        if event == "Network.requestWillBeSent":
            url = given["request"]["url"]
            if not url.startswith(("file:", "data:")):
                self.complaints.append(f"asks for {url}")
        return got

    def open(
        self, path: pathlib.Path, width: int, height: int = 800, scheme: str = "light"
    ) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", features=[feature])
        self._events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        while "Page.loadEventFired" not in self._events:
            self._receive()

    def value(self, expression: str) -> Any:
        got = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in got, got
        return got["result"].get("value")

    def press(self, key: str) -> None:
        how: Json = {"key": key}
        how |= {"windowsVirtualKeyCode": CODES[key]} if key in CODES else {"text": key}
        self.call("Input.dispatchKeyEvent", type="keyDown", **how)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def picture(self, path: pathlib.Path) -> None:
        """What a reader sees, as PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))


@contextlib.contextmanager
def page() -> Iterator[Page]:
    """A page of a browser that ends with it; skips where there is no browser."""
    import pytest

    browser = program()
    if not browser:
        pytest.skip(f"there is no browser; install {PROGRAMS[0]}, as tools/dev test does")
    to_read, outgoing = os.pipe()
    incoming, to_write = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        # The browser reads 3 and writes 4.
        flags = "--no-sandbox --disable-gpu --remote-debugging-pipe about:blank"
        command = f'exec {browser} {flags} --user-data-dir="$1" 3<&{to_read} 4>&{to_write}'
        process = subprocess.Popen(
            ["bash", "-c", command, "bash", profile],
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": profile},
        )
        os.close(to_read)
        os.close(to_write)
        try:
            with os.fdopen(outgoing, "wb") as out, os.fdopen(incoming, "rb") as answers:
                yield Page(answers, out)
        finally:
            process.kill()
            process.wait(SECONDS)
