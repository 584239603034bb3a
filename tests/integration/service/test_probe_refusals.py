# SPDX-License-Identifier: Apache-2.0
"""Services that have no probes, or not all of them, serve all the same and say what is missing (C06)."""

from __future__ import annotations

import os
import shutil
import sys
import unittest
from pathlib import Path

import daemon
import wire
from test_probes import mincore_bytes, missing_requirement, programs_of, series

REFUSE = str(Path(__file__).with_name("refuse_calls.py"))
BPF = "321"
REFUSE_MAP = str(Path(__file__).with_name("refuse_map.py"))


class Serves(unittest.TestCase):
    def lines_about_probes(self, running: daemon.Daemon) -> list[str]:
        return [line for line in running.log().splitlines() if "warning" in line and "probe" in line]

    def check_that_it_serves(self, running: daemon.Daemon) -> None:
        path = running.folder / "m.safetensors"
        daemon.write_checkpoint(path)
        self.assertNotIn("error", running.ask("load", str(path)))
        self.assertGreaterEqual(running.device()["resident_bytes"], path.stat().st_size // daemon.MIB * daemon.MIB)

    def check_that_nothing_is_claimed(self, running: daemon.Daemon) -> None:
        """No series of the page cache's causes, which would read as 0 bytes reclaimed."""
        shown = series(running)
        self.assertEqual(0, shown['penstock_probe_attached{probe="page_cache"}'])
        self.assertFalse([name for name in shown if "page_cache_added" in name or "page_cache_removed" in name])


class CaseC06(Serves):
    def test_it_goes_on_by_asking_and_says_what_is_missing(self) -> None:
        with daemon.Daemon(words=(sys.executable, REFUSE, "EPERM", BPF)) as running:
            path = running.folder / "m.safetensors"
            daemon.write_checkpoint(path)
            link = self.enterContext(running.connect())
            wire.hello(link)
            self.assertEqual(wire.CHECKPOINT_REPLY, wire.open_checkpoint(link, str(path)).type)
            said = [line for line in running.log().splitlines() if "no BPF probe is attached" in line]
            self.assertEqual(1, len(said), running.log())
            self.assertIn("EPERM", said[0])
            self.assertTrue(daemon.wait_until(
                lambda: running.ask("status")["checkpoints"][0].get("page_cache_bytes") == mincore_bytes(path)))
            page_cache = running.ask("status")["checkpoints"][0]["page_cache"]
            self.assertIn(page_cache["level"], ("mincore", "cachestat"))
            self.assertNotIn("added_bytes", page_cache)
            shown = series(running)
            self.assertEqual(0, shown['penstock_probe_attached{probe="page_cache"}'])
            self.assertFalse([one for one in shown if "added_bytes" in one or "kswapd_wakes" in one or "oom_kills_total" in one])
            self.check_that_it_serves(running)
            check = next(one for one in running.ask("doctor")["checks"] if one["name"] == "probes")
            self.assertEqual("degraded", check["state"])
            self.assertNotEqual("", check["remedy"])

    def test_who_requires_the_probes_is_told_in_one_line_and_nothing_starts(self) -> None:
        with daemon.Daemon(words=(sys.executable, REFUSE, "EPERM", BPF), extra='[probes]\nebpf = "required"\n',
                           wait=False) as running:
            self.assertEqual(2, running.process.wait(timeout=10))
            lines = running.log().splitlines()
            self.assertEqual(1, len(lines), lines)
            self.assertIn('probes.ebpf is "required"', lines[0])
            self.assertFalse(running.socket.exists())

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "requires root and setpriv")
    def test_the_missing_capability_is_named(self) -> None:
        without = ("setpriv", "--bounding-set", "-sys_admin,-bpf,-perfmon", "--inh-caps", "-sys_admin,-bpf,-perfmon")
        with daemon.Daemon(words=without) as running:
            self.assertIn("CAP_BPF", running.log())
            self.check_that_it_serves(running)
            self.check_that_nothing_is_claimed(running)

    def test_few_descriptors_are_left_to_clients(self) -> None:
        with daemon.Daemon(words=("prlimit", "--nofile=400:400")) as running:
            self.assertIn("LimitNOFILE=", running.log())
            self.assertIn("400 descriptors", running.ask("doctor")["probes"][0]["why"])
            self.assertFalse(any(one["attached"] for one in running.ask("doctor")["probes"]))
            self.assertGreater(64, running.descriptors())

    def test_turned_off_means_asking(self) -> None:
        with daemon.Daemon(extra='[probes]\nebpf = "off"\n') as running:
            self.assertIn('probes.ebpf is "off"', running.log())
            self.assertTrue(daemon.wait_until(lambda: bool(running.ask("doctor").get("probes"))))
            self.assertFalse(any(one["attached"] for one in running.ask("doctor")["probes"]))

    @unittest.skipUnless(shutil.which("prlimit"), "requires prlimit")
    def test_with_little_locked_memory(self) -> None:
        with daemon.Daemon(words=("prlimit", "--memlock=65536:65536")) as running:
            self.check_that_it_serves(running)


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("bpftool"), "requires root and bpftool")
class CaseC06Maps(Serves):
    @classmethod
    def setUpClass(cls) -> None:
        missing = missing_requirement()
        if missing:
            raise unittest.SkipTest(missing)

    def test_one_map_that_is_refused_once_is_made_again(self) -> None:
        with daemon.Daemon(words=(sys.executable, REFUSE_MAP, "EAGAIN", "3")) as running:
            self.check_that_it_serves(running)
            first = running.ask("doctor")["probes"][0]
            self.assertTrue(first["attached"], first)

    def test_one_map_that_is_always_refused_leaves_none_of_the_others(self) -> None:
        with daemon.Daemon(words=(sys.executable, REFUSE_MAP, "EAGAIN", "file_keys")) as running:
            self.check_that_it_serves(running)
            self.check_that_nothing_is_claimed(running)
            said = "".join(self.lines_about_probes(running))
            self.assertIn("map create: EAGAIN", said)
            self.assertEqual(set(), programs_of(running.process.pid))

    def test_who_requires_the_probes_does_not_start_without_a_map(self) -> None:
        with daemon.Daemon(words=(sys.executable, REFUSE_MAP, "EAGAIN", "file_keys"), wait=False,
                           extra='[probes]\nebpf = "required"\n') as running:
            self.assertEqual(2, running.process.wait(timeout=20))
            self.assertIn('probes.ebpf is "required"', running.log())
            self.assertIn("EAGAIN", running.log())


if __name__ == "__main__":
    unittest.main()
