# SPDX-License-Identifier: Apache-2.0
"""ComfyUI's own ledger with a stand-in for what others hold. Needs what test_comfyui.py needs, and starts no server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(os.environ["PENSTOCK_BUILD_DIR"]) / "python"))
sys.path.insert(0, str(Path(os.environ["PENSTOCK_SOURCE_DIR"]) / "tests/integration/service"))
sys.path.insert(0, str(Path(os.environ["PENSTOCK_SOURCE_DIR"]) / "tests/integration/comfyui"))

import daemon  # noqa: E402
import server  # noqa: E402

MIB = 1 << 20
PAGE = 8 * MIB


@unittest.skipIf(server.missing(), server.missing())
@unittest.skipIf(daemon.SANITIZED, daemon.NO_PACKAGE)
class Ledger(unittest.TestCase):
    def test_free_memory_shrinks_what_others_hold_by_what_it_lacks(self) -> None:
        import penstock  # Its library can't be loaded where the test is skipped.

        running = self.enterContext(daemon.Daemon(capacity="64MiB"))
        with penstock.connect(socket=str(running.socket)) as service:
            table = service.private_table(64 * MIB)
            self.assertTrue(table.fault(0, 4 * PAGE))
            table.unpin(0, 4 * PAGE)
            self.assertTrue(daemon.wait_until(lambda: running.device()["pinned_bytes"] == 0
                                              and running.device()["resident_bytes"] == 4 * PAGE))
            build = Path(os.environ["PENSTOCK_BUILD_DIR"])
            done = subprocess.run(
                [server.PYTHON, str(server.HERE / "ledger.py"), str(server.NODE), str(PAGE + 1)], cwd=server.COMFYUI,
                env=dict(os.environ, PENSTOCK_SOCKET=str(running.socket), PYTHONPATH=server.COMFYUI,
                         PENSTOCK_LIBRARY=str(build / "lib/libpenstock.so.0")),
                capture_output=True, text=True, check=False, timeout=300)
            self.assertEqual(0, done.returncode, done.stderr[-3000:])
            held = {"before": 4 * PAGE, "after": 2 * PAGE, "unasked": 2 * PAGE, "unsmart": PAGE, "end": PAGE}
            self.assertEqual(held, json.loads(done.stdout.splitlines()[-1]))
            self.assertEqual(PAGE, running.device()["resident_bytes"])


if __name__ == "__main__":
    unittest.main()
