# SPDX-License-Identifier: Apache-2.0
"""What the service does for its own sake: the OOM score, locked code, the watchdog of the service manager."""

from __future__ import annotations

import os
import socket
import tempfile
import unittest
from pathlib import Path

import daemon


class Protection(unittest.TestCase):
    def test_says_alive_to_the_service_manager_that_asks(self) -> None:
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(f"{folder}/notify")
            manager.settimeout(20)
            with daemon.Daemon(environment={"NOTIFY_SOCKET": f"{folder}/notify", "WATCHDOG_USEC": "200000"}) as running:
                alive = 0
                while alive < 3:
                    alive += manager.recv(4096) == b"WATCHDOG=1"
                self.assertTrue(running.is_serving())

    @unittest.skipUnless(os.geteuid() == 0, "requires root, to lock memory")
    def test_asks_to_be_killed_last_and_keeps_its_code(self) -> None:
        score = Path("/proc/self/oom_score_adj").read_text(encoding="utf-8").strip()
        with daemon.Daemon() as running:
            process = Path(f"/proc/{running.process.pid}")
            now = (process / "oom_score_adj").read_text(encoding="utf-8").strip()
            if score != "0":
                self.assertEqual(score, now)
            elif now != "-500":  # Without CAP_SYS_RESOURCE.
                self.assertEqual(1, running.log().count("the OOM score stays 0"))
            status = (process / "status").read_text(encoding="utf-8")
            locked = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmLck:"))
            self.assertGreater(locked, 1024)
