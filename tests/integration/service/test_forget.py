# SPDX-License-Identifier: Apache-2.0
"""What nobody uses can be forgotten: its file is closed, and the disk that it lies on can be unmounted."""

from __future__ import annotations

import os
import subprocess
import unittest

import daemon
import wire
from on_gpu import OnEachDevice


@unittest.skipUnless(os.geteuid() == 0, "requires root, to mount a disk")
class Forgetting(OnEachDevice, unittest.TestCase):
    def setUp(self) -> None:
        self.daemon = self.enterContext(self.make())
        self.disk = self.daemon.folder / "disk"
        self.disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "penstock-test", self.disk], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", self.disk], stderr=subprocess.DEVNULL, check=False)
        self.file = self.disk / "m.safetensors"
        daemon.write_checkpoint(self.file)

    def unmounts(self) -> bool:
        return subprocess.run(["umount", self.disk], stderr=subprocess.DEVNULL, check=False).returncode == 0

    def test_the_disk_of_an_idle_checkpoint_can_be_unmounted(self) -> None:
        for what in (str(self.file), "--all"):
            answer = self.daemon.ask("load", str(self.file))
            self.assertNotIn("error", answer)
            self.assertFalse(self.unmounts())
            # Evicting alone keeps the entry, and with it the file.
            self.daemon.ask("evict", str(self.file))
            self.assertEqual(1, len(self.daemon.ask("status")["checkpoints"]))
            evicted = self.daemon.ask("evict", "--forget", what)
            self.assertEqual((1, 0), (evicted["forgotten_checkpoints"], evicted["kept_checkpoints"]), evicted)
            self.assertTrue(daemon.wait_until(lambda: not self.daemon.ask("status")["checkpoints"], 10))
        self.assertTrue(daemon.wait_until(self.unmounts, 10))

    def test_what_a_client_has_open_is_kept_until_nobody_asks_for_it(self) -> None:
        with self.daemon.connect() as link:
            attached = wire.attach(link, str(self.file))
            evicted = self.daemon.ask("evict", "--forget", "--all")
            self.assertEqual((0, 1), (evicted["forgotten_checkpoints"], evicted["kept_checkpoints"]), evicted)
            attached.device.close()
        self.assertEqual(1, len(self.daemon.ask("status")["checkpoints"]))


class ForgettingOnCuda(Forgetting):
    vendor = "cuda"


class ForgettingOnHip(Forgetting):
    vendor = "hip"


if __name__ == "__main__":
    unittest.main()
