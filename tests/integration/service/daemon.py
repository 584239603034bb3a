# SPDX-License-Identifier: Apache-2.0
"""A penstockd of a test's own, in a folder of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

BUILD = Path(os.environ["PENSTOCK_BUILD_DIR"])
PENSTOCKD = BUILD / "bin/penstockd"
PENSTOCK = BUILD / "bin/penstock"
VERIFY = BUILD / "tests/clients/verify_checkpoint"
CHECKED = BUILD / "tests/clients/checked_service"  # penstockd over a device that checks the rules of its seam.
MIB = 1 << 20
# A library with sanitizers can't be loaded into an interpreter without them.
SANITIZED = bool(os.environ.get("PENSTOCK_SANITIZED"))
NO_PACKAGE = "requires a build without sanitizers"


def wait_until(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Whether the condition came true within the time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def write_checkpoint(path: Path, tensors: int = 8, tensor_bytes: int = 4 * MIB, seed: int = 1) -> bytes:
    """A safetensors file of U8 tensors t0, t1, ... with content that depends on the seed; returns its data."""
    header, offset = {}, 0
    for index in range(tensors):
        header[f"t{index}"] = {"dtype": "U8", "shape": [tensor_bytes], "data_offsets": [offset, offset + tensor_bytes]}
        offset += tensor_bytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    block = bytes((seed * 131 + index * 7) % 256 for index in range(4093))
    data = (block * (offset // len(block) + 1))[:offset]
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return data


def write_sparse_checkpoint(path: Path, tensors: int, tensor_bytes: int) -> None:
    """As write_checkpoint, but all zeros, and without a block on the disk."""
    header = {f"t{index}": {"dtype": "U8", "shape": [tensor_bytes],
                            "data_offsets": [index * tensor_bytes, (index + 1) * tensor_bytes]}
              for index in range(tensors)}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text)
    os.truncate(path, 8 + len(text) + tensors * tensor_bytes)


class Daemon:
    """Starts at once; stop() or the end of the `with` ends it."""

    def __init__(self, capacity: str = "256MiB", extra: str = "", wait: bool = True, config: str | None = None,
                 environment: dict[str, str] | None = None, words: tuple[str, ...] = (),
                 program: Path = PENSTOCKD) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-test-")
        self.folder = Path(self._folder.name)
        self.socket = self.folder / "run/penstock.sock"
        self.config = self.folder / "penstock.toml"
        self.log_path = self.folder / "log"
        self.config.write_text(config if config is not None else self.default_config(capacity, extra), encoding="utf-8")
        self.environment = dict(os.environ, PENSTOCK_SOCKET=str(self.socket), **(environment or {}))
        self.words = words
        self.program = program
        self.start(wait)

    def default_config(self, capacity: str, extra: str) -> str:
        return (f'[service]\nsocket = "{self.socket}"\nsocket_group = ""\nrevoke_deadline = "300ms"\n'
                f'[device.host]\nenabled = "on"\ncapacity = "{capacity}"\n'
                + ('' if "[metrics]" in extra else '[metrics]\nlisten = "127.0.0.1:0"\n') + extra)

    def start(self, wait: bool = True) -> None:
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen([*self.words, str(self.program), "--config", str(self.config)], stderr=log,
                                            env=self.environment)
        if wait and not wait_until(lambda: self.is_ready() or self.process.poll() is not None, 30):
            raise RuntimeError("penstockd did not become ready: " + self.log())
        if wait and self.process.poll() is not None:
            raise RuntimeError("penstockd ended: " + self.log())

    def is_ready(self) -> bool:
        return "ready: penstockd" in self.log()

    def log(self) -> str:
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def __enter__(self) -> Daemon:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._folder.cleanup()

    def stop(self, seconds: float = 10.0) -> int:
        """SIGTERM and the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=seconds)

    def ask(self, *words: str) -> dict[str, Any]:
        """The JSON answer of a command, failures included."""
        done = subprocess.run([PENSTOCK, "--json", *words], env=self.environment, capture_output=True, text=True,
                              check=False, timeout=60)
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def device(self) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("status")["devices"][0]
        return found

    def story(self) -> str:
        """What it did and what it says of itself, for the message of a test that fails."""
        parts = [json.dumps(self.device(), indent=1)]
        parts += [json.dumps(one) for one in self.ask("explain")["decisions"]]
        return "\n".join([*parts, self.log()])

    def _links(self) -> list[str]:
        folder = f"/proc/{self.process.pid}/fd"
        links = []
        for name in os.listdir(folder):
            with contextlib.suppress(FileNotFoundError):
                links.append(os.readlink(f"{folder}/{name}"))
        return links

    def descriptors(self) -> int:
        """Those that it has open, without frames."""
        return sum("penstock-frame" not in link for link in self._links())

    def sockets(self) -> int:
        return sum(link.startswith("socket:") for link in self._links())

    def frames(self) -> int:
        """Frames that are alive: in use, or made ahead."""
        return sum("penstock-frame" in link for link in self._links())

    def threads(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/task"))

    def stacks(self) -> str:
        """Where in the kernel its threads wait. Needs root."""
        return "\n".join(path.read_text(encoding="utf-8")
                         for path in Path(f"/proc/{self.process.pid}/task").glob("*/stack"))

    def connect(self) -> socket.socket:
        link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        link.connect(str(self.socket))  # Waits where the backlog is full.
        link.settimeout(20)
        return link

    def is_serving(self) -> bool:
        """Another client gets its answer."""
        return bool(self.ask("status").get("devices"))


def run_daemon(config: str, *words: str, seconds: float = 10.0) -> subprocess.CompletedProcess[str]:
    """penstockd with a configuration that it is expected to refuse, or that it only prints."""
    with tempfile.TemporaryDirectory(prefix="penstock-test-") as folder:
        path = Path(folder) / "penstock.toml"
        path.write_text(config, encoding="utf-8")
        with contextlib.suppress(FileNotFoundError):
            return subprocess.run([PENSTOCKD, "--config", path, *words], capture_output=True, text=True, check=False,
                                  timeout=seconds)
    raise RuntimeError(f"{PENSTOCKD} is not built")
