# SPDX-License-Identifier: Apache-2.0
"""Stray writes into resident pages: found by checksums, reported, and read again from the file."""

from __future__ import annotations

import contextlib
import os
import re
import time
import unittest
from collections.abc import Callable
from pathlib import Path

import daemon
from test_gpu_devices import PAGE, GpuDaemon, needs_device_code, needs_fakes

MIB = 1 << 20


def flip_in_mapping(pid: int, name: str, offset: int) -> int:
    """Flips a byte of each shared mapping of that name in the process; returns how many there are."""
    flipped = 0
    for line in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines():
        if name not in line or "rw-s" not in line:
            continue
        start, end = (int(word, 16) for word in line.split()[0].split("-"))
        # A frame may be several mappings; the one with the offset counts.
        first = int(line.split()[2], 16)
        if not first <= offset < first + end - start:
            continue
        with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
            memory.seek(start + offset - first)
            byte = memory.read(1)
            memory.seek(start + offset - first)
            memory.write(bytes([byte[0] ^ 0xff]))
        flipped += 1
    return flipped


def flip_in_frame(pid: int, offset: int) -> int:
    """Flips a byte of each frame of a fake GPU that the process has a descriptor of; returns how many there are."""
    frames = {}
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # Others come and go.
            if re.search(r"memfd:fake-\w+ device \d", os.readlink(entry)):
                frames[entry.stat().st_ino] = entry
    for entry in frames.values():
        with open(entry, "r+b", buffering=0) as frame:
            byte = os.pread(frame.fileno(), 1, offset)
            os.pwrite(frame.fileno(), bytes([byte[0] ^ 0xff]), offset)
    return len(frames)


class ScrubCase(unittest.TestCase):
    def load(self, running: daemon.Daemon) -> tuple[Path, int]:
        path = running.folder / "m.safetensors"
        daemon.write_checkpoint(path, tensors=8)
        self.assertNotIn("error", running.ask("load", str(path)))
        return path, running.device()["used_bytes"]

    def watch(self, running: daemon.Daemon, path: Path, pages: int, flip: Callable[[], int]) -> None:
        self.assertGreater(flip(), 0)
        self.assertIn("corrupt_pages", running.ask("scrub", str(path)))
        # By this request, or in the background just before it.
        self.assertGreater(running.device()["corrupt_pages"], 0)
        # Read again, by itself, and right.
        self.assertTrue(daemon.wait_until(lambda: running.device()["resident_bytes"] == pages))
        time_limit = time.monotonic() + 20
        while running.ask("scrub", str(path))["scrubbed_bytes"] < pages:
            self.assertLess(time.monotonic(), time_limit)
        self.assertEqual(0, running.ask("scrub", str(path))["corrupt_pages"])
        decisions = [one for one in running.ask("explain")["decisions"] if one["kind"] == "corrupt"]
        found = running.device()["corrupt_pages"]
        self.assertGreater(found, 0)
        self.assertEqual(found, sum(one["repeated"] for one in decisions))
        self.assertEqual("its bytes are not those that were loaded", decisions[0]["reason"])
        self.assertIn("is corrupt: its checksum is", running.log())


class Scrub(ScrubCase):
    def test_of_gpu_frames(self) -> None:
        for vendor in ("cuda", "hip"):
            needs_fakes(self, vendor)
            with self.subTest(vendor), GpuDaemon(vendor) as running:
                path, pages = self.load(running)
                # At once: nobody has summed up anything since the load.
                self.watch(running, path, pages,
                           lambda service=running: flip_in_frame(service.process.pid, 12 * MIB))
                self.assertEqual({"scrubbed_bytes": pages, "corrupt_pages": 0}, running.ask("scrub", str(path)))

    def test_of_host_frames(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("requires root: the memory of another process")
        with daemon.Daemon() as running:
            path, pages = self.load(running)
            # Host memory that is sealed has its first sum in its turn: nobody but the service can write to it.
            first = running.ask("scrub", str(path))
            self.assertEqual({"scrubbed_bytes": pages, "corrupt_pages": 0}, first)
            self.watch(running, path, pages,
                       lambda: flip_in_mapping(running.process.pid, "penstock-frame", 5 * MIB))


class ScrubOnCuda(ScrubCase):
    vendor = "cuda"
    # What takes memory, streams, events, and starts a kernel.
    calls = {"memory": "cuMemHostAlloc", "stream": "cuStreamCreate", "launch": "cuLaunchKernel", "event": "cuEventCreate"}

    def needs_device_code(self) -> None:
        needs_device_code(self)

    def test_flips_at_any_time_after_the_load(self) -> None:
        needs_fakes(self, self.vendor)
        # Sums that take long: one may be under way when the byte is flipped, and when the scrub is asked for.
        for delay in ("20", "2000"):
            with self.subTest(delay), GpuDaemon(self.vendor, PENSTOCK_FAKE_STREAM_DELAY_US=delay) as running:
                path, pages = self.load(running)
                for turn in range(1, 5):
                    self.assertGreater(flip_in_frame(running.process.pid, 12 * MIB), 0)
                    self.assertIn("corrupt_pages", running.ask("scrub", str(path)))
                    self.assertEqual(turn * pages // PAGE, running.device()["corrupt_pages"])
                    self.assertNotIn("error", running.ask("load", str(path)))

    def test_sums_that_fail_cost_neither_the_writer_nor_a_load(self) -> None:
        needs_fakes(self, self.vendor)
        self.needs_device_code()
        # Of memory, streams, events and launches of a sum alone; for good, or once.
        for call, when in (("memory", "2@2+"), ("stream", "2@4+"), ("launch", "701@1+"), ("launch", "2@1"),
                           ("event", "2@3")):
            fault = f"{self.calls[call]}:{when}"
            with self.subTest(fault), GpuDaemon(self.vendor, PENSTOCK_FAKE_FAULTS=fault) as running:
                path, pages = self.load(running)
                if fault.endswith("+"):
                    self.assertTrue(daemon.wait_until(lambda: "scrubbing is off" in running.log(), 10))
                    self.assertRegex(running.log(), fr"device {self.vendor}-[0-9a-f]{{8}}: scrubbing is off for 20 s: ")
                    self.assertEqual("device_unhealthy", running.ask("scrub", str(path))["error"]["kind"])
                else:
                    self.assertTrue(daemon.wait_until(
                        lambda: running.ask("scrub", str(path)).get("scrubbed_bytes") == pages, 10))
                self.assertEqual(0, running.device()["writer_losses"])
                self.assertEqual("ready", running.device()["state"])
                running.ask("evict", "--all")
                self.assertNotIn("error", running.ask("load", str(path)))
                self.assertEqual(1, running.log().count("scrubbing is off") if fault.endswith("+") else 1)

    def test_a_scrub_that_kills_its_writers_never_quarantines_the_gpu(self) -> None:
        needs_fakes(self, self.vendor)
        self.needs_device_code()
        with GpuDaemon(self.vendor, PENSTOCK_FAKE_FAULTS=f"{self.calls['launch']}:719!@1+") as running:
            path, pages = self.load(running)
            self.assertTrue(daemon.wait_until(lambda: running.device()["writer_losses"] == 1))
            self.assertTrue(running.wait_for_state("ready"))
            for _ in range(8):
                self.assertIn("error", running.ask("scrub", str(path)))
                running.ask("evict", "--all")
                self.assertNotIn("error", running.ask("load", str(path)))
            self.assertEqual(pages, running.device()["resident_bytes"])
            self.assertEqual(1, running.device()["writer_losses"])
            self.assertIn("was lost while one was taken", running.log())

    def test_the_background_finds_it_without_being_asked(self) -> None:
        needs_fakes(self, self.vendor)
        with GpuDaemon(self.vendor) as running:
            path = running.folder / "m.safetensors"
            daemon.write_checkpoint(path, tensors=8)
            self.assertNotIn("error", running.ask("load", str(path)))
            flip_in_frame(running.process.pid, 12 * MIB)
            self.assertTrue(daemon.wait_until(lambda: running.device()["corrupt_pages"] > 0, 20))


class ScrubOnHip(ScrubOnCuda):
    vendor = "hip"
    calls = {"memory": "hipHostMalloc", "stream": "hipStreamCreateWithFlags", "launch": "hipModuleLaunchKernel",
             "event": "hipEventCreateWithFlags"}

    def needs_device_code(self) -> None:
        if not (daemon.BUILD / "generated/device_code/gfx90a.hsaco").exists():
            self.skipTest("requires device code: a clang that knows gfx90a, and a build without sanitizers")


if __name__ == "__main__":
    unittest.main()
