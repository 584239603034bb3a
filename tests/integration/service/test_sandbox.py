# SPDX-License-Identifier: Apache-2.0
"""Case R01: io_uring refused by a sandbox. The service starts, reads through pread, and says why."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

import daemon

if not daemon.SANITIZED:
    sys.path.insert(0, str(daemon.BUILD / "python"))
    import penstock

REFUSE = str(Path(__file__).with_name("refuse_calls.py"))
SETUP_ENTER_REGISTER, ENTER = "425,426,427", "426"


def refusing(name: str, numbers: str) -> tuple[str, ...]:
    return (sys.executable, REFUSE, name, numbers)


class CaseR01(unittest.TestCase):
    @unittest.skipIf(daemon.SANITIZED, daemon.NO_PACKAGE)
    def test_what_a_sandbox_refuses_costs_speed_only(self) -> None:
        for name, numbers in (("EPERM", SETUP_ENTER_REGISTER), ("ENOSYS", SETUP_ENTER_REGISTER), ("EPERM", ENTER)):
            with self.subTest(name + " " + numbers), daemon.Daemon(words=refusing(name, numbers)) as running:
                reader = running.ask("status")["reader"]
                self.assertEqual("pread", reader["backend"])
                self.assertIn(name, reader["reason"])
                warnings = [line for line in running.log().splitlines() if "warn" in line and "pread" in line]
                self.assertEqual(1, len(warnings), running.log())
                self.assertIn(name, warnings[0])
                path = running.folder / "m.safetensors"
                data = daemon.write_checkpoint(path)
                with penstock.connect(socket=str(running.socket)) as service:
                    checkpoint = service.open(path)
                    self.assertEqual(data, b"".join(checkpoint.read(f"t{index}") for index in range(8)))

    def test_who_demands_it_is_told_and_nothing_starts(self) -> None:
        with daemon.Daemon(words=refusing("EPERM", SETUP_ENTER_REGISTER), extra='[reader]\nio = "uring"\n',
                           wait=False) as running:
            self.assertNotEqual(0, running.process.wait(timeout=10))
            self.assertIn("EPERM", running.log())
            self.assertFalse(running.socket.exists())


if __name__ == "__main__":
    unittest.main()
