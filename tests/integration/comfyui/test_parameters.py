# SPDX-License-Identifier: Apache-2.0
"""The real ComfyUI's encoders and decoders without DynamicVRAM: their weights are the service's pages. Needs what
test_comfyui.py needs, and starts no server."""

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

import daemon  # noqa: E402
import server  # noqa: E402


@unittest.skipIf(server.missing(), server.missing())
class Parameters(unittest.TestCase):
    def test_what_has_the_models_dtype_is_not_copied_and_makes_the_same(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="penstock-comfyui-")))
        running = self.enterContext(daemon.Daemon(capacity="256MiB"))
        subprocess.run([server.PYTHON, str(server.HERE / "models.py"), str(folder), "float32"], check=True)
        (folder / "vae/taesd.safetensors").rename(folder / "decoder.safetensors")
        done = subprocess.run(
            [server.PYTHON, str(server.HERE / "take_parameters.py"), str(server.NODE), str(folder)], cwd=server.COMFYUI,
            env=dict(os.environ, PENSTOCK_SOCKET=str(running.socket), PYTHONPATH=server.COMFYUI, OMP_NUM_THREADS="2",
                     PENSTOCK_LIBRARY=str(Path(os.environ["PENSTOCK_BUILD_DIR"]) / "lib/libpenstock.so.0")),
            capture_output=True, text=True, check=False, timeout=600)
        self.assertEqual(0, done.returncode, done.stderr[-3000:])
        found = json.loads(done.stdout.splitlines()[-1])
        print(f"\n{self.id()}: {found}")
        self.assertEqual({"text", "vision", "background", "decoder"}, set(found))
        for kind, figures in found.items():
            self.assertTrue(figures["same"], kind)
            # All but what no file has, or what is narrower there.
            self.assertGreater(figures["shown"], figures["bytes"] * 9 // 10, kind)


if __name__ == "__main__":
    unittest.main()
