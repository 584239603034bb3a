# SPDX-License-Identifier: Apache-2.0
"""What the service does for its own sake: the OOM score, locked code, the watchdog of the service manager."""

from __future__ import annotations

import os
import re
import socket
import tempfile
import unittest
from pathlib import Path

import daemon


def flags_of_stack(process: Path, thread: str) -> list[str]:
    """Of the mapping (smaps(5)) where the stack of the thread with that name ends now."""
    tasks = [task for task in (process / "task").iterdir() if (task / "comm").read_text().strip() == thread]
    words: list[str] = []
    while len(words) < 3:  # It runs at the moment.
        words = (tasks[0] / "syscall").read_text().split()
    top = int(words[-2], 16)
    within = False
    for line in (process / "smaps").read_text(encoding="utf-8").splitlines():
        if found := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            within = int(found[1], 16) <= top < int(found[2], 16)
        elif within and line.startswith("VmFlags:"):
            return line.split()[1:]
    return []


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
            for name in ("penstockd", "penstock-press", "penstock-host"):
                self.assertIn("lo", flags_of_stack(process, name), name)
            report = running.ask("doctor")["checks"]
            protection = next(check for check in report if check["name"] == "protection")
            self.assertEqual("ok", protection["state"], protection)

    @unittest.skipUnless(os.geteuid() == 0, "requires root, to give up a right")
    def test_says_what_could_not_be_locked(self) -> None:
        with daemon.Daemon(words=("setpriv", "--bounding-set", "-ipc_lock")) as running:
            protection = next(check for check in running.ask("doctor")["checks"] if check["name"] == "protection")
            self.assertEqual("degraded", protection["state"], protection)
            self.assertIn("CAP_IPC_LOCK", protection["remedy"])
            # A thread locks as much of its stack as the limit allows.
            self.assertIn("lo", flags_of_stack(Path(f"/proc/{running.process.pid}"), "penstock-press"))
