# SPDX-License-Identifier: Apache-2.0
"""The demonstration of packaging/quickstart, with a small checkpoint, on host memory and on each fake GPU."""

from __future__ import annotations

import os
import subprocess
import sys
import unittest
from pathlib import Path

BUILD = Path(os.environ["PENSTOCK_BUILD_DIR"])
DEMO = Path(os.environ["PENSTOCK_SOURCE_DIR"]) / "packaging/quickstart-demo"
MIB = 1 << 20


class Demonstration(unittest.TestCase):
    def setUp(self) -> None:
        if os.environ.get("PENSTOCK_SANITIZED"):
            self.skipTest("requires a build without sanitizers: its Python client can't load a library with them")
        for program in ("bin/penstockd", "bin/penstock", "tests/clients/verify_checkpoint"):
            if not (BUILD / program).exists():
                self.skipTest(f"requires {BUILD / program}")

    def show(self, name: str, *words: str, **more: str) -> str:
        # On a disk, not in a tmpfs: it is about reads.
        folder = BUILD / "demo" / name
        done = subprocess.run([sys.executable, DEMO, "--build", BUILD, "--folder", folder, "--bytes", str(192 * MIB),
                               "--page", "2MiB", *words], env={**os.environ, **more}, capture_output=True, text=True,
                              check=False, timeout=120)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        self.assertNotIn("FAILED", done.stdout)
        return done.stdout

    def test_on_host_memory(self) -> None:
        self.assertIn("host memory", self.show("host", "--device", "host"))

    def test_a_gpu_is_chosen_by_itself(self) -> None:
        self.assertIn(", and cuda-", self.show("cuda", "--fake", "cuda", CUDA_VISIBLE_DEVICES="0"))

    def test_on_hip(self) -> None:
        self.assertIn(", and hip-", self.show("hip", "--fake", "hip", "--device", "hip"))


if __name__ == "__main__":
    unittest.main()
