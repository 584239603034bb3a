# SPDX-License-Identifier: Apache-2.0
"""What the kernel says of the checkpoints that a service has open, and what it says where the kernel says less."""

from __future__ import annotations

import contextlib
import ctypes
import json
import mmap
import os
import shutil
import subprocess
import tempfile
import unittest
import urllib.request
from pathlib import Path
from typing import Any

import daemon
import wire

PAGE = mmap.PAGESIZE


def missing_requirement() -> str:
    """Empty where the page cache can be traced. Asked of a service: this interpreter may lack what it needs."""
    if os.geteuid() != 0:
        return "requires root, to load BPF programs"
    with daemon.Daemon() as running:
        first = running.ask("doctor")["probes"][0]
    return "" if first["attached"] else f"requires the page cache probe: {first['why']}"


def on_a_disk(folder: Path) -> bool:
    """tmpfs keeps everything in memory: nothing of it is traced."""
    kind = subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True, check=True).stdout.strip()
    return kind not in ("tmpfs", "ramfs")


def mincore_bytes(path: Path) -> int:
    """Bytes of the file in the page cache, by mincore(2)."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    size = path.stat().st_size
    with open(path, "rb") as file:
        address = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
        pages = ctypes.create_string_buffer((size + PAGE - 1) // PAGE)
        if libc.mincore(address, size, pages) != 0:
            raise OSError(ctypes.get_errno(), "mincore")
        libc.munmap(address, size)
    return sum(byte & 1 for byte in pages.raw) * PAGE


def drop(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def series(running: daemon.Daemon) -> dict[str, float]:
    address = running.ask("status")["metrics"]["address"]
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=5) as page:
        lines = page.read().decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}


def programs_of(process: int) -> set[int]:
    """Ids of the BPF programs that the process holds, and negative ones of the maps."""
    found = set()
    for entry in Path(f"/proc/{process}/fdinfo").iterdir():
        text = ""
        with contextlib.suppress(FileNotFoundError):  # It closed that one meanwhile.
            text = entry.read_text()
        for line in text.splitlines():
            kind, _, number = line.partition(":")
            if kind in ("prog_id", "map_id"):
                found.add((1 if kind == "prog_id" else -1) * int(number))
    return found


def programs() -> set[int]:
    """Of all processes."""
    found = set()
    for sign, what in ((1, "prog"), (-1, "map")):
        done = subprocess.run(["bpftool", "--json", what, "list"], capture_output=True, text=True, check=True)
        found |= {sign * one["id"] for one in json.loads(done.stdout)}
    return found


# What the kernel takes back at any time, whoever runs tests.
RECLAIM = ("kswapd", "direct_reclaim", "other_reclaim", "drop_caches")


def stayed(checkpoint: dict[str, Any]) -> int:
    """Bytes that came to the page cache and did not go."""
    traffic = checkpoint["page_cache"]
    return int(traffic["added_bytes"] - sum(traffic["removed_bytes"].values()))


class Probes(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        missing = missing_requirement()
        if missing:
            raise unittest.SkipTest(missing)
        if not on_a_disk(Path(tempfile.gettempdir())):
            raise unittest.SkipTest("requires temporary files on a disk, not on tmpfs")

    def checkpoint(self, running: daemon.Daemon) -> dict[str, object]:
        found: dict[str, object] = running.ask("status")["checkpoints"][0]
        return found

    def test_what_another_process_reads_is_counted_to_the_page_and_by_cause(self) -> None:
        with daemon.Daemon() as running:
            path = running.folder / "m.safetensors"
            daemon.write_checkpoint(path)
            drop(path)
            link = self.enterContext(running.connect())
            wire.hello(link)
            self.assertEqual(wire.CHECKPOINT_REPLY, wire.open_checkpoint(link, str(path)).type)
            self.assertTrue(daemon.wait_until(lambda: "page_cache_bytes" in self.checkpoint(running)))
            before = self.checkpoint(running)
            self.assertTrue(daemon.wait_until(lambda: self.read_whole(path)))
            after, shown = self.agreed(running, path)
            cached = after["page_cache_bytes"]
            self.assertEqual("traced", after["page_cache"]["level"])
            self.assertEqual(cached - before["page_cache_bytes"], stayed(after) - stayed(before))
            self.assertNotIn("major_faults", after["page_cache"])
            parts = after["page_cache"]["parts"]
            self.assertEqual(-(-path.stat().st_size // parts["part_bytes"]), len(parts["resident_bytes"]))
            self.assertEqual(cached, sum(parts["resident_bytes"]))
            self.assertEqual(after["page_cache"]["added_bytes"], sum(parts["added_bytes"]))
            name = f'checkpoint="{after["id"]}"'
            self.assertEqual(cached, shown[f'penstock_checkpoint_bytes{{{name},place="page_cache"}}'])
            self.assertEqual(after["page_cache"]["added_bytes"], shown[f"penstock_page_cache_added_bytes_total{{{name}}}"])
            self.assertEqual(3, shown["penstock_probe_level"])
            self.assertFalse([one for one in shown if "fault_latency" in one and "major" in one])
            drop(path)
            left, shown_then = self.agreed(running, path)
            self.assertLess(left["page_cache_bytes"], cached)
            causes = left["page_cache"]["removed_bytes"]
            taken = {cause: count - after["page_cache"]["removed_bytes"][cause] for cause, count in causes.items()}
            self.assertEqual(cached - left["page_cache_bytes"], sum(taken.values()))
            self.assertGreater(taken["fadvise"], 0)
            self.assertFalse([cause for cause, count in taken.items() if count and cause not in ("fadvise", *RECLAIM)])
            dropped = f'penstock_page_cache_removed_bytes_total{{{name},cause="fadvise"}}'
            self.assertEqual(taken["fadvise"], shown_then[dropped] - shown[dropped])

    @staticmethod
    def read_whole(path: Path) -> bool:
        """Whether all of it is in the page cache then."""
        subprocess.run(["cat", path], stdout=subprocess.DEVNULL, check=True)
        return mincore_bytes(path) >= path.stat().st_size

    def agreed(self, running: daemon.Daemon, path: Path) -> tuple[dict[str, Any], dict[str, float]]:
        """The checkpoint's figures and all metrics while nothing of it comes or goes, and they are mincore's: the kernel's
        reclaim may take a page at any time."""
        found: list[Any] = []

        def look() -> bool:
            found[:] = [self.checkpoint(running), series(running)]
            resident = mincore_bytes(path)
            return found[0]["page_cache_bytes"] == resident and found[0] == self.checkpoint(running)

        self.assertTrue(daemon.wait_until(look), (mincore_bytes(path), found))
        return found[0], found[1]

    def test_faults_are_counted_only_where_that_is_asked_for(self) -> None:
        with daemon.Daemon(extra="[probes]\ntime_faults = true\n") as running:
            attached = {one["name"]: one["attached"] for one in running.ask("doctor")["probes"]}
            if not attached["major_faults"]:
                self.skipTest("requires the probe of major faults")
            self.assertIn("penstock_major_fault_latency_seconds_count", series(running))
            self.assertEqual(4, series(running)["penstock_probe_level"])

    def test_pressure_has_figures_and_a_level(self) -> None:
        with daemon.Daemon() as running:
            self.assertTrue(daemon.wait_until(lambda: "kswapd_wakes" in running.ask("status")["pressure"]))
            pressure = running.ask("status")["pressure"]
            self.assertIn(pressure["level"], ("calm", "some", "full"))
            self.assertGreater(pressure["high_bytes"], pressure["low_bytes"])
            self.assertIn("penstock_pressure_level", series(running))
            if os.path.exists("/proc/pressure/memory"):
                self.assertGreaterEqual(pressure["machine"]["some"]["seconds"], 0)

    def test_of_equals_the_one_that_is_in_the_page_cache_is_evicted_first(self) -> None:
        with daemon.Daemon(capacity="96MiB") as running:
            older, newer, third = (running.folder / f"{name}.safetensors" for name in ("older", "newer", "third"))
            for path in (older, newer, third):
                daemon.write_checkpoint(path, tensors=10)
                drop(path)
            ids = [running.ask("load", str(path))["checkpoint"] for path in (older, newer)]
            drop(older)
            subprocess.run(["cat", newer], stdout=subprocess.DEVNULL, check=True)

            def reload_places() -> list[str]:
                known = {one["id"]: one for one in running.ask("status")["checkpoints"]}
                return [known[one]["reload_from"]["host"] for one in ids]
            self.assertTrue(daemon.wait_until(lambda: reload_places() == ["disk", "page_cache"]), running.ask("status"))
            self.assertNotIn("error", running.ask("load", str(third)))
            evicted = [one for one in running.ask("explain")["decisions"] if one["kind"] == "evict"]
            self.assertEqual({ids[1]}, {one["subject"] for one in evicted})
            self.assertTrue(all(one["inputs"]["reload_from_page_cache_bytes"] > 0 for one in evicted), evicted)

    @unittest.skipUnless(shutil.which("bpftool"), "requires bpftool")
    def test_a_kill_leaves_no_program_and_no_map(self) -> None:
        with daemon.Daemon() as running:
            held = programs_of(running.process.pid)
            self.assertTrue(held & programs())
            running.process.kill()
            running.process.wait()
            self.assertTrue(daemon.wait_until(lambda: not programs() & held), programs() & held)


if __name__ == "__main__":
    unittest.main()
