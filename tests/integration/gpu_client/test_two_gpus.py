# SPDX-License-Identifier: Apache-2.0
"""One client with tables on two GPUs: each GPU's context, work, revokes and memory are its own."""

from __future__ import annotations

import unittest

from test_gpu_clients import PAGE, VENDORS, GpuDaemon, GpuPrograms, Program, daemon


class TwoGpus(GpuPrograms):
    def serve_two(self, vendor: str, pages: int) -> GpuDaemon:
        if not any((daemon.BUILD / "fakes" / vendor).glob("lib*.so*")):
            self.skipTest("requires the fake drivers")
        return self.enterContext(GpuDaemon(vendor, pages, more={"PENSTOCK_FAKE_DEVICES": "2"}))

    def open_both(self, service: GpuDaemon) -> tuple[Program, list[str]]:
        """A table on each GPU, the second one's and its context current."""
        program = self.start(service)
        ids = program("gpus").split()
        self.assertEqual(2, len(set(ids)), ids)
        self.assertEqual("done", program("open", ids[0]))
        self.assertEqual("done", program("table"))
        self.assertEqual("done", program("gpu", 1))
        self.assertEqual("done", program("open", ids[1]))
        return program, ids

    def test_each_table_is_on_its_own(self) -> None:
        for vendor in VENDORS:
            with self.subTest(vendor):
                service = self.serve_two(vendor, pages=64)
                program, _ = self.open_both(service)
                self.assertEqual("done", program("pin", PAGE, 6 * PAGE))
                self.assertEqual("same", self.read(program, 1, 6))
                used = int(program("used", 1))
                self.assertGreaterEqual(used, 6 * PAGE)
                self.assertLess(int(program("used", 0)), 6 * PAGE)
                # The other GPU's table from a thread that is on this one.
                self.assertEqual("done", program("table"))
                self.assertEqual("done", program("pin", PAGE, 6 * PAGE))
                self.assertEqual("1", program("current"))
                self.assertGreaterEqual(int(program("used", 0)), 6 * PAGE)
                self.assertEqual(used, int(program("used", 1)))
                self.assertEqual("done", program("gpu", 0))
                self.assertEqual("same", self.read(program, 1, 6))
                self.assertEqual("done", program("unpin", PAGE, 6 * PAGE))
                self.assertEqual("done", program("table"))
                self.assertEqual("done", program("elsewhere", "idle"))
                self.assertEqual("0", program("current"))

    def test_a_revoke_asks_for_work_where_it_runs(self) -> None:
        for vendor in VENDORS:
            with self.subTest(vendor):
                service = self.serve_two(vendor, pages=8)
                program, ids = self.open_both(service)
                other = self.start(service)
                self.assertEqual("done", other("gpu", 1))
                self.assertEqual("done", other("open", ids[1]))
                self.assertEqual("done", program("pin", PAGE, 6 * PAGE))
                self.assertEqual("0", program("hold", PAGE, 6 * PAGE))
                self.assertEqual("done", program("unpin", PAGE, 6 * PAGE))
                # The thread goes on to the other GPU, where it takes part in this one's revokes.
                self.assertEqual("done", program("gpu", 0))
                other.begin("pin", 7 * PAGE, 4 * PAGE)
                self.assertTrue(daemon.wait_until(lambda: program("revokes") == "done"
                                                  and self.device(service, ids[1])["stuck_bytes"] == 0
                                                  and program("mappings") == "6"))
                self.assertEqual("0", program("current"))
                self.assertEqual("done", program("elsewhere", "revokes"))
                self.assertEqual("6", program("mappings"), "a kernel of the second GPU reads them")
                self.assertEqual("done", program("gpu", 1))
                self.assertEqual("0", program("let-go"))
                self.assertEqual("done", program("gpu", 0))
                self.assertTrue(daemon.wait_until(lambda: program("revokes") == "done" and program("mappings") != "6"))
                self.assertEqual("0", program("current"))
                self.assertEqual("done", other.end())
                self.assertEqual("same", self.read(other, 7, 4))

    def test_pages_are_unpinned_behind_the_default_stream_of_their_gpu(self) -> None:
        for vendor in VENDORS:
            with self.subTest(vendor):
                program, _ = self.open_both(self.serve_two(vendor, pages=64))
                # A word of the second GPU's work, so that its context is known.
                self.assertEqual("done", program("pin", PAGE, 6 * PAGE))
                self.assertEqual("done", program("unpin", 6 * PAGE, PAGE))
                self.assertEqual("0", program("hold-default", PAGE, 5 * PAGE))
                self.assertEqual("done", program("gpu", 0))
                self.assertEqual("done", program("unpin-default", PAGE, 5 * PAGE))
                self.assertEqual("done", program("close"))
                self.assertEqual("done", program("revokes"))
                self.assertEqual("0", program("current"))
                self.assertNotEqual("0", program("mappings"), "the kernel is on the second GPU's")
                self.assertEqual("done", program("gpu", 1))
                self.assertEqual("0", program("let-go"))
                self.assertEqual("done", program("gpu", 0))
                self.assertTrue(daemon.wait_until(lambda: program("revokes") == "done" and program("mappings") == "0"))

    @staticmethod
    def device(service: GpuDaemon, name: str) -> dict[str, int]:
        (found,) = (one for one in service.ask("status")["devices"] if one["id"] == name)
        return dict(found)


if __name__ == "__main__":
    unittest.main()
