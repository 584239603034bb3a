# SPDX-License-Identifier: Apache-2.0
"""Drivers that never return from a call: in the service, and in the process that fills the memory."""

from __future__ import annotations

import json
import os
import subprocess
import time
import unittest

import daemon
import processes
from test_gpu_devices import MEMORY_CALLS, PAGE, VENDORS, OnFakes

COPY_CALLS = {"cuda": "cuMemcpyHtoDAsync", "hip": "hipMemcpyHtoDAsync"}
FIRST_COPY = 3  # Of a writer that has passed its self-test, which copies twice.


class GpuHangs(OnFakes):
    def test_a_writer_that_hangs_in_a_copy_is_replaced(self) -> None:
        # The watchdog takes ten seconds to be sure, so both vendors at once.
        all_running = {vendor: self.start(vendor, extra='[device.host]\nenabled = "on"\n', PENSTOCK_FAKE_DEVICES="2",
                                          PENSTOCK_FAKE_FAULTS=f"{COPY_CALLS[vendor]}:hang@{FIRST_COPY + 1}")
                       for vendor in VENDORS}
        loads = {}
        for vendor, running in all_running.items():
            path = running.folder / "m.safetensors"
            daemon.write_checkpoint(path, tensors=1, tensor_bytes=256 << 10)
            self.assertNotIn("error", running.ask("load", str(path)), "one copy is none too many")
            self.assertEqual(0, running.device()["writer_losses"])
            other = running.folder / "n.safetensors"
            daemon.write_checkpoint(other, tensors=1, tensor_bytes=256 << 10, seed=2)
            loads[vendor] = self.enterContext(subprocess.Popen([daemon.PENSTOCK, "--json", "load", str(other)], text=True,
                                                               env=running.environment, stdout=subprocess.PIPE))
        for vendor, running in all_running.items():
            with self.subTest(vendor):
                # Meanwhile the others go on.
                second = running.ask("status")["devices"][1]["id"]
                for device in (second, "host"):
                    self.assertNotIn("error", running.ask("load", str(running.folder / "m.safetensors"), "--device", device))
                self.assertIsNone(loads[vendor].poll())
        for vendor, running in all_running.items():
            with self.subTest(vendor):
                said, _ = loads[vendor].communicate(timeout=40)
                self.assertNotIn("error", json.loads(said), "the load is tried again with the next writer")
                self.assertEqual(1, running.device()["writer_losses"])
                self.assertEqual(["ready"] * 3, [device["state"] for device in running.ask("status")["devices"]])
                self.assertEqual(2, len(running.writers()))
                self.assertEqual(0, running.stop())

    def test_a_writer_that_hangs_does_not_hold_up_the_stop(self) -> None:
        for vendor in VENDORS:
            with self.subTest(vendor):
                running = self.start(vendor, PENSTOCK_FAKE_FAULTS=f"{COPY_CALLS[vendor]}:hang@{FIRST_COPY}")
                path = running.folder / "m.safetensors"
                daemon.write_checkpoint(path)
                with subprocess.Popen([daemon.PENSTOCK, "load", str(path)], env=running.environment, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL) as load:
                    self.assertTrue(daemon.wait_until(lambda: running.device()["used_bytes"] > 0))
                    (writer,) = running.writers()
                    pidfd = os.pidfd_open(writer)
                    try:
                        began = time.monotonic()
                        running.stop(20)
                        self.assertLess(time.monotonic() - began, 4.0)
                        self.assertTrue(daemon.wait_until(lambda: processes.has_ended(pidfd)))
                    finally:
                        os.close(pidfd)
                    load.wait(20)

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
                        self.assertTrue(daemon.wait_until(lambda: processes.has_ended(pidfd)))
                    finally:
                        os.close(pidfd)
                    load.wait(20)
                self.assertRegex(running.log(), f"device {vendor}-[0-9a-f]{{8}}: its driver has not returned from create")


if __name__ == "__main__":
    unittest.main()
