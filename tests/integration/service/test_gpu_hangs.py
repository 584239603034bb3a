# SPDX-License-Identifier: Apache-2.0
"""Drivers that never return from a call: in the service, and in the process that fills the memory."""

from __future__ import annotations

import os
import subprocess
import time
import unittest

import daemon
from test_gpu_devices import MEMORY_CALLS, PAGE, VENDORS, OnFakes


class GpuHangs(OnFakes):
    def test_a_driver_that_hangs_does_not_hold_up_the_stop(self) -> None:
        for vendor in VENDORS:
            with self.subTest(vendor):
                running = self.start(vendor, PENSTOCK_FAKE_FAULTS=f"{MEMORY_CALLS[vendor]}Create:hang@2")
                path = running.folder / "m.safetensors"
                daemon.write_checkpoint(path, tensors=24)
                with subprocess.Popen([daemon.PENSTOCK, "load", str(path)], env=running.environment, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL) as load:
                    self.assertTrue(daemon.wait_until(lambda: running.device()["resident_bytes"] == PAGE))
                    (writer,) = running.writers()
                    pidfd = os.pidfd_open(writer)
                    try:
                        began = time.monotonic()
                        self.assertEqual(1, running.stop(20))
                        self.assertLess(time.monotonic() - began, 4.0)
                        self.assertTrue(daemon.wait_until(lambda: not self.lives(pidfd)))
                    finally:
                        os.close(pidfd)
                    load.wait(20)
                self.assertRegex(running.log(), f"device {vendor}-[0-9a-f]{{8}}: its driver has not returned from create")


if __name__ == "__main__":
    unittest.main()
