# SPDX-License-Identifier: Apache-2.0
"""A real worker of comfy-env that asks for a budget, answered out of the service. Needs what test_comfyui.py needs, and the
published wheel of comfy-env (the package index)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(os.environ["PENSTOCK_BUILD_DIR"]) / "python"))
sys.path.insert(0, str(Path(os.environ["PENSTOCK_SOURCE_DIR"]) / "tests/integration/service"))
sys.path.insert(0, str(Path(os.environ["PENSTOCK_SOURCE_DIR"]) / "tests/integration/comfyui"))

import daemon  # noqa: E402
import server  # noqa: E402

MIB = 1 << 20
GIB = 1 << 30
CAPACITY = 2 * GIB  # For bookings: nothing is loaded here.
WHEEL = Path(os.environ["PENSTOCK_SOURCE_DIR"]) / "tests/python/comfyui/requirements-comfy-env.txt"


@unittest.skipIf(server.missing(), server.missing())
@unittest.skipIf(daemon.SANITIZED, daemon.NO_PACKAGE)
class EnvWorker(unittest.TestCase):
    folder: Path

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="penstock-comfyui-")))
        done = subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps",
                               "--require-hashes", "--only-binary=:all:", "-d", str(cls.folder), "-r", str(WHEEL)],
                              capture_output=True, text=True, check=False)
        found = list(cls.folder.glob("*.whl"))
        if done.returncode != 0 or not found:
            raise unittest.SkipTest(f"requires the package index for comfy-env: {done.stderr.strip()[-200:]}")
        with zipfile.ZipFile(found[0]) as archive:
            archive.extractall(cls.folder)
        needed = subprocess.run([server.PYTHON, "-c", "import comfy_env.isolation.pool"], capture_output=True, text=True,
                                check=False, env=dict(os.environ, PYTHONPATH=str(cls.folder)))
        if needed.returncode != 0:
            raise unittest.SkipTest(f"requires what comfy-env imports: {needed.stderr.strip().splitlines()[-1]}")

    def load_in_a_worker(self, running: daemon.Daemon, nbytes: int) -> dict[str, Any]:
        build = Path(os.environ["PENSTOCK_BUILD_DIR"])
        done = subprocess.run(
            [server.PYTHON, str(server.HERE / "env_worker.py"), str(server.NODE), str(self.folder), str(nbytes)],
            cwd=server.COMFYUI, capture_output=True, text=True, check=False, timeout=600,
            env=dict(os.environ, PENSTOCK_SOCKET=str(running.socket), PYTHONPATH=server.COMFYUI, TMPDIR=str(self.folder),
                     PENSTOCK_LIBRARY=str(build / "lib/libpenstock.so.0")))
        self.assertEqual(0, done.returncode, done.stderr[-4000:])
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        self.assertNotEqual(found["parent"], found["worker"]["process"])
        self.assertEqual(1, found["worker"]["loaded"])
        return found

    def test_its_load_is_booked_before_it_hears_of_it(self) -> None:
        import penstock  # Its library can't be loaded where the test is skipped.

        running = self.enterContext(daemon.Daemon(capacity=str(CAPACITY)))
        with penstock.connect(socket=str(running.socket)) as other, other.admit(work=256 * MIB):
            found = self.load_in_a_worker(running, 64 * MIB)
        (answered,) = found["replies"]
        self.assertLessEqual({"model_info", "num_streams", "pin_state", "total_size"}, set(answered["request"]))
        reply = answered["reply"]
        self.assertEqual({"device", "extra_reserved_vram", "vram_state", "device_free_bytes"}, set(reply))
        self.assertGreater(answered["need"], int(found["worker"]["size"] * 1.1))
        # The other client's bytes, and the worker's.
        self.assertEqual([256 * MIB + answered["need"]], found["booked"])
        self.assertEqual(256 * MIB, found["left"])
        self.assertEqual(CAPACITY - 256 * MIB, reply["device_free_bytes"])
        # It keeps everything else free.
        sees = 40 * GIB
        self.assertEqual(found["margin"] + sees - reply["device_free_bytes"], found["worker"]["reserve"])

    def test_what_does_not_fit_any_more_is_said_to_it(self) -> None:
        import penstock

        running = self.enterContext(daemon.Daemon(capacity=str(CAPACITY)))
        with penstock.connect(socket=str(running.socket)) as other, other.admit(work=CAPACITY - 128 * MIB):
            found = self.load_in_a_worker(running, 64 * MIB)
        (answered,) = found["replies"]
        self.assertGreater(answered["need"], 128 * MIB)
        self.assertEqual([CAPACITY], found["booked"])  # As much as there is, and its weights fit.
        self.assertEqual(128 * MIB, answered["reply"]["device_free_bytes"])


if __name__ == "__main__":
    unittest.main()
