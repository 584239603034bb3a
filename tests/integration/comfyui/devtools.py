# SPDX-License-Identifier: Apache-2.0
"""A Chromium of a test's own, driven by the DevTools protocol over a pair of descriptors."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

PROGRAM = os.environ.get("PENSTOCK_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or ""

# The key's DOM name: its number, and the text that it types.
KEYS = {"Tab": (9, ""), "Enter": (13, "\r"), "Escape": (27, ""), "ArrowRight": (39, "")}
SHIFT = 8


def missing() -> str:
    """What it takes to start one and isn't there; empty: nothing."""
    return "" if PROGRAM else "requires chromium"


class Browser:
    """One page. Events are kept, in order; the end of the `with` stops it."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self._number = 0
        self._session = ""
        self._received = b""
        self._answers: dict[int, dict[str, Any]] = {}
        self._profile = tempfile.TemporaryDirectory(prefix="penstock-browser-", ignore_cleanup_errors=True)
        self._socket, other = socket.socketpair()
        with other, open(Path(self._profile.name) / "log", "wb") as log:
            # It reads from 3 and writes to 4. A session of its own: it has children.
            self._process = subprocess.Popen(
                ["bash", "-c", f'exec "$@" 3<&{other.fileno()} 4>&{other.fileno()}', "bash", PROGRAM, "--headless=new",
                 "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
                 "--disable-component-update", "--disable-extensions", "--remote-debugging-pipe", "--window-size=1280,900",
                 f"--user-data-dir={self._profile.name}", "about:blank"],
                pass_fds=(other.fileno(),), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        try:
            target = self.send("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Network", "Log"):
                self.send(f"{domain}.enable")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._socket.close()
        self._profile.cleanup()

    def send(self, method: str, seconds: float = 120, **parameters: Any) -> dict[str, Any]:
        """Its result."""
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._socket.sendall(json.dumps(message).encode() + b"\0")
        end = time.monotonic() + seconds
        while number not in self._answers:
            self._receive(end)
        answer = self._answers.pop(number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def _receive(self, end: float) -> None:
        """What comes next, waited for until then."""
        self._socket.settimeout(max(end - time.monotonic(), 0.001))
        part = self._socket.recv(1 << 16)
        if not part:
            raise RuntimeError("the browser ended: " + (Path(self._profile.name) / "log").read_text(errors="replace")[-2000:])
        *messages, self._received = (self._received + part).split(b"\0")
        for message in map(json.loads, messages):
            if "id" in message:
                self._answers[message["id"]] = message
            else:
                self.events.append(message)

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression; promises are waited for."""
        result = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True, userGesture=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def until(self, expression: str, seconds: float = 120) -> Any:
        """Its first value that is true."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = self.run(expression)
            if found:
                return found
            self.run("new Promise(done => setTimeout(done, 50))")
        raise RuntimeError(f"not within {seconds} s: {expression}")

    def open(self, url: str) -> None:
        self.events.clear()
        self.send("Page.navigate", url=url)

    def press(self, key: str, modifiers: int = 0) -> None:
        """Down and up, as a keyboard does it: where it goes is the browser's to say."""
        code, text = KEYS[key]
        for kind in ("keyDown" if text else "rawKeyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, modifiers=modifiers,
                      **({"text": text} if text and kind == "keyDown" else {}))

    def colours(self, scheme: str) -> None:
        """What the system prefers: light or dark."""
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def before_each_page(self, script: str) -> None:
        self.send("Page.addScriptToEvaluateOnNewDocument", source=script)

    def picture(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"]))

    def seen(self, method: str, of: Callable[[dict[str, Any]], Any] = lambda parameters: parameters) -> list[Any]:
        """Of all events of a kind since the page was opened. Those that were sent before this call are there."""
        self.run("0")
        return [of(one["params"]) for one in self.events if one["method"] == method]

    def requests(self) -> list[str]:
        return self.seen("Network.requestWillBeSent", lambda parameters: parameters["request"]["url"])

    def errors(self) -> list[str]:
        """What a console would show in red."""
        thrown = self.seen("Runtime.exceptionThrown", lambda one: json.dumps(one["exceptionDetails"]))
        said = self.seen("Runtime.consoleAPICalled", lambda one: json.dumps(one) if one["type"] in ("error", "assert") else "")
        logged = self.seen("Log.entryAdded", lambda one: json.dumps(one["entry"]) if one["entry"]["level"] == "error" else "")
        return [one for one in thrown + said + logged if one]
