# SPDX-License-Identifier: Apache-2.0
"""What the tests of the pager seam share: a service with small pages, and the seam's modules connected to it."""

from __future__ import annotations

import ctypes
import os
import unittest
import unittest.mock
from pathlib import Path

import daemon
from penstock_comfyui.link import link

KIB = 1 << 10
MIB = 1 << 20
PAGE = 256 * KIB


def config(socket: Path, capacity: str, locked: str = "64MiB") -> str:
    return (f'[service]\nsocket = "{socket}"\nsocket_group = ""\nrevoke_deadline = "1s"\n[host]\nlocked_bytes = "{locked}"\n'
            f'[device.host]\nenabled = "on"\ncapacity = "{capacity}"\nheadroom = "0"\npage_bytes = "256KiB"\n'
            '[metrics]\nlisten = "127.0.0.1:0"\n')


def poke(address: int, data: bytes) -> None:
    ctypes.memmove(address, data, len(data))


class SmallDaemon(daemon.Daemon):
    """penstockd with pages of 256 KiB on host memory."""

    def __init__(self, capacity: str, locked: str = "64MiB") -> None:
        self.locked = locked
        super().__init__(capacity=capacity)

    def default_config(self, capacity: str, extra: str) -> str:
        return config(self.socket, capacity, self.locked)


class WithSeam(unittest.TestCase):
    capacity = "8MiB"
    locked = "64MiB"

    def setUp(self) -> None:
        self.enterContext(unittest.mock.patch("penstock_comfyui.link.RETRY_SECONDS", 0.1))
        self.daemon = self.enterContext(SmallDaemon(self.capacity, self.locked))
        link.reset(str(self.daemon.socket))
        self.addCleanup(link.reset, "/nonexistent")
        # Test cases outlive their tests, and what they hold is counted.
        before = set(vars(self))
        self.addCleanup(lambda: [delattr(self, name) for name in set(vars(self)) - before])

    def restart(self) -> None:
        """Until it answers: its log still says of the run before that it is ready."""
        self.daemon.start()
        self.assertTrue(daemon.wait_until(lambda: "devices" in self.daemon.ask("status")))

    def client(self) -> dict[str, object]:
        """What the service says of this process."""
        return next(one for one in self.daemon.ask("status")["clients"] if one["pid"] == os.getpid())
