# SPDX-License-Identifier: Apache-2.0
"""What measure.py finds that is no matter of time: a model is read once for two servers, and lies in memory once. Needs what
test_comfyui.py needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(os.environ["PENSTOCK_SOURCE_DIR"]) / "tests/integration/service"))
sys.path.insert(0, str(Path(os.environ["PENSTOCK_SOURCE_DIR"]) / "tests/integration/comfyui"))

import server  # noqa: E402

MIB = 1 << 20
SIZE = ("8", "3")  # 630 MiB.


@unittest.skipIf(server.missing(), server.missing())
class Measured(unittest.TestCase):
    def test_two_servers_read_a_model_once_and_have_it_once(self) -> None:
        # Where reading comes from a disk: the temporary folder may lie in memory.
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="penstock-comfyui-", dir=os.environ["PENSTOCK_BUILD_DIR"]))
        done = subprocess.run([sys.executable, str(server.HERE / "measure.py"), "--models", f"{folder}/models", *SIZE],
                              capture_output=True, text=True, check=False)
        self.assertEqual(0, done.returncode, done.stdout[-2000:] + done.stderr[-3000:])  # It compares the pixels.
        print(f"\n{self.id()}: {done.stdout}")
        found = json.loads(done.stdout)
        model, plain = found["model_bytes"], found["plain"]
        for side in ("penstock", "dynamic"):
            with self.subTest(side):
                figures = found[side]
                self.assertLess(figures["disk_bytes"], model * 5 // 4)
                # Plain ones have a copy each, beside what prompts leave in all of them.
                self.assertGreater(plain["weights_bytes"], model * 9 // 5)
                self.assertGreater(plain["weights_bytes"] - figures["weights_bytes"], model * 3 // 4)
                self.assertLess(figures["resident_bytes"], model * 5 // 4)
                self.assertLess(figures["page_cache_bytes"], model // 2, "no other copy there")


if __name__ == "__main__":
    unittest.main()
