# SPDX-License-Identifier: Apache-2.0
"""GPUs whose memory can't be shared: said beforehand, or found out when the driver is asked. Host memory serves."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import daemon
import processes
from test_gpu_devices import VENDORS, GpuDaemon, OnFakes, fakes, needs_fakes

# What MIG slices, confidential computing and some versions refuse only when they are asked.
REFUSALS = (("cuda", "PENSTOCK_FAKE_FAULTS", "cuMemExportToShareableHandle:800", r"export: .* 800 \(not_permitted\)"),
            ("cuda", "PENSTOCK_FAKE_FAULTS", "cuMemMap:801", r"map: .* 801 \(not_supported\)"),
            ("hip", "PENSTOCK_FAKE_QUIRKS", "+keep_until_free", "only when its address range is freed"))


class GpuSharing(OnFakes):
    def test_memory_that_may_not_be_shared_is_said_so_by_doctor(self) -> None:
        needs_fakes(self, "cuda")
        for code, remedy in ((800, "MIG"), (801, "whole tables"), (2, "free some of its memory"),
                             (999, "update the driver")):
            environment = dict(os.environ, LD_LIBRARY_PATH=str(fakes("cuda")), PENSTOCK_SOCKET="/nonexistent/socket",
                               PENSTOCK_FAKE_FAULTS=f"cuMemExportToShareableHandle:{code}")
            done = subprocess.run([daemon.PENSTOCK, "--json", "doctor"], env=environment, capture_output=True,
                                  text=True, check=False)
            checks = [one for one in json.loads(done.stdout)["checks"] if one["name"].startswith("cuda-")]
            self.assertIn(remedy, checks[0]["remedy"], checks)
            self.assertEqual(code in (800, 801), checks[0]["detail"].startswith("usable without sharing: "), checks)
            self.assertIn(f"export: cuMemExportToShareableHandle answered {code}", checks[0]["detail"])

    def test_host_memory_serves_where_no_gpu_can(self) -> None:
        for more in ({"PENSTOCK_FAKE_STUB": "1"}, {"PENSTOCK_FAKE_DEVICES": "0"}, {"PENSTOCK_FAKE_NO_VMM": "1"},
                     {"PENSTOCK_FAKE_FAULTS": "cuInit:803"}):
            with self.subTest(more), GpuDaemon("cuda", **more) as running:
                needs_fakes(self, "cuda")
                self.assertEqual(["host"], [device["kind"] for device in running.ask("status")["devices"]])
                self.assertIn("cuda driver: ", running.log())

    def test_without_page_by_page_memory_nothing_is_shared_there_and_that_is_said_once(self) -> None:
        # Clients then use host memory as the device, and copy whole tables to their GPU.
        for vendor, more, why in (("cuda", {"PENSTOCK_FAKE_NO_VMM": "1"}, "virtual memory management"),
                                  ("cuda", {"PENSTOCK_FAKE_CUDA_VERSION": "10010"}, "lacks cuMemGetAllocationGranularity"),
                                  ("hip", {"LD_LIBRARY_PATH": str(fakes("hip_without_vmm"))},
                                   "lacks hipMemGetAllocationGranularity"),
                                  ("hip", {"PENSTOCK_FAKE_HIP_VERSION": "6.1"}, "6.2"),
                                  ("hip", {"PENSTOCK_FAKE_HIP_VERSION": "7.2"}, "address range")):
            with self.subTest(more):
                running = self.start(vendor, **more)
                self.assertEqual(["host"], [device["kind"] for device in running.ask("status")["devices"]])
                self.assertEqual([], running.writers())
                for _ in range(2):
                    self.load(running, tensors=4)
                lines = [line for line in running.log().splitlines() if "usable_without_vmm" in line]
                self.assertEqual(1, len(lines), running.log())
                self.assertIn(why, lines[0])
                self.assertEqual(0, running.stop())

    def test_host_memory_serves_where_the_driver_refuses_to_share(self) -> None:
        for vendor, name, value, why in REFUSALS:
            with self.subTest(vendor=vendor, value=value):
                running = self.start(vendor, **{name: value})
                self.assertEqual(["host"], [device["kind"] for device in running.ask("status")["devices"]])
                self.assertEqual([], running.writers())
                self.load(running, tensors=4)
                self.assertNotIn("error", running.ask("load", str(running.folder / "m.safetensors"), "--device", "host"))
                lines = [line for line in running.log().splitlines() if "can't be shared" in line]
                self.assertEqual(1, len(lines), running.log())
                self.assertRegex(lines[0], f"device {vendor}-[0-9a-f]{{8}} is not used, .*{why}.*whole tables of their own")
                self.assertEqual(0, running.stop())

    def test_one_gpu_that_can_not_share_takes_no_other_along(self) -> None:
        # The service asks both vendors; one of them refuses. Host memory is there for those who copy from it.
        folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="penstock-both-")))
        for vendor in VENDORS:
            needs_fakes(self, vendor)
            for library in fakes(vendor).glob("lib*.so*"):
                (folder / library.name).symlink_to(library)
        running = self.start("cuda", LD_LIBRARY_PATH=str(folder), PENSTOCK_FAKE_FAULTS="cuMemMap:801")
        self.assertEqual(["hip", "host"], [device["kind"] for device in running.ask("status")["devices"]])
        path = self.load(running, tensors=4)
        self.assertNotIn("error", running.ask("load", str(path), "--device", "host"))
        self.assertEqual(1, len(running.writers()))

    def test_a_service_that_is_killed_takes_the_first_test_of_its_gpu_along(self) -> None:
        needs_fakes(self, "cuda")
        running = self.enterContext(GpuDaemon("cuda", wait=False, PENSTOCK_FAKE_FAULTS="cuMemMap:hang"))
        self.assertTrue(daemon.wait_until(lambda: running.writers() != []))
        (tested,) = running.writers()
        pidfd = os.pidfd_open(tested)
        try:
            running.process.kill()
            running.process.wait()
            self.assertTrue(daemon.wait_until(lambda: processes.has_ended(pidfd)))
        finally:
            os.close(pidfd)

    def test_the_old_layout_of_hip_is_refused(self) -> None:
        running = self.start("hip", PENSTOCK_FAKE_HIP_VERSION="5.2")
        self.assertEqual(["host"], [device["kind"] for device in running.ask("status")["devices"]])
        self.assertRegex(running.log(), "hip driver: broken: .*5.2")


if __name__ == "__main__":
    unittest.main()
