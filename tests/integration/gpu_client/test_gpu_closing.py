# SPDX-License-Identifier: Apache-2.0
"""Tables on a GPU that are closed while device work reads their pages."""

from __future__ import annotations

import unittest

from test_gpu_clients import PAGE, VENDORS, GpuPrograms, Program, daemon


class GpuClosing(GpuPrograms):
    def test_closing_waits_for_no_device_work(self) -> None:
        for vendor in VENDORS:
            with self.subTest(vendor):
                service = self.serve(vendor, pages=8)
                program, other = self.open(service), self.open(service)
                self.assertEqual("done", program("pin", PAGE, 6 * PAGE))
                self.assertEqual("0", program("hold", PAGE, 6 * PAGE))
                self.assertEqual("done", program("unpin", PAGE, 6 * PAGE))
                self.assertEqual("done", program("close"), "the kernel waits for what comes after this")
                self.assertEqual("6", program("mappings"))
                # It asks for them meanwhile, and is told that they come later.
                other.begin("pin", 7 * PAGE, 4 * PAGE)
                self.assertEqual("done", program("revokes"))
                self.assertEqual("6", program("mappings"))
                self.assertEqual("0", program("let-go"), "it reads all of them at its end")
                self.assertTrue(daemon.wait_until(lambda: program("revokes") == "done" and program("mappings") == "0"))
                self.assertEqual("done", other.end())
                self.assertEqual("same", self.read(other, 7, 4))
                synchronize = "cuCtxSynchronize" if vendor == "cuda" else "hipDeviceSynchronize"
                self.assertEqual("0", program("calls", synchronize))

    def test_a_table_that_is_opened_again_while_work_reads_it_is_the_same(self) -> None:
        for vendor in VENDORS:
            with self.subTest(vendor):
                service = self.serve(vendor)
                program = self.open(service)
                self.assertEqual("done", program("pin", PAGE, 6 * PAGE))
                self.assertEqual("0", program("hold", PAGE, 6 * PAGE))
                self.assertEqual("done", program("unpin", PAGE, 6 * PAGE))
                self.assertEqual("done", program("close"))
                self.assertEqual("done", program("open"))
                self.assertEqual("done", program("look", PAGE, 6 * PAGE), "its pages are there")
                self.assertEqual("0", program("let-go"))
                self.assertEqual("same", self.read(program, 1, 6))
                # A private page is nobody's who opens the table anew.
                self.assertEqual("done", program("private", PAGE, PAGE))
                self.assertEqual("done", program("write", PAGE))
                self.assertEqual("0", program("hold", PAGE, PAGE))
                self.assertEqual("done", program("unpin", PAGE, 6 * PAGE))
                self.assertEqual("done", program("close"))
                self.assertIn("busy", program("open"))
                self.assertEqual("0", program("let-go"))
                self.assertTrue(daemon.wait_until(lambda: program("open") == "done"))
                self.assertEqual("done", program("pin", PAGE, PAGE))
                self.assertEqual("same", self.read(program, 1))

    def test_pages_that_were_never_unpinned_stay_until_the_program_is_idle(self) -> None:
        for vendor in VENDORS:
            with self.subTest(vendor):
                program = self.open(self.serve(vendor), PENSTOCK_FAKE_STREAM_DELAY_US="300000")
                self.assertEqual("done", program("pin", PAGE, 6 * PAGE))
                self.assertEqual("done", program("copy", PAGE, 6 * PAGE))
                self.assertEqual("done", program("close"))
                self.assertEqual("same", program("landed"))
                self.assertEqual("done", program("revokes"))
                self.assertEqual("6", program("mappings"), "nothing tells of the work on them")
                self.assertEqual("done", program("idle"))
                self.assertEqual("0", program("mappings"))

    def test_a_table_that_is_opened_again_has_no_pins_of_before(self) -> None:
        for vendor in VENDORS:
            with self.subTest(vendor):
                program = self.open(self.serve(vendor), PENSTOCK_FAKE_STREAM_DELAY_US="300000")
                self.assertEqual("done", program("pin", PAGE, 6 * PAGE))
                self.assertEqual("done", program("copy", PAGE, 6 * PAGE))
                self.assertEqual("done", program("close"))
                self.assertEqual("done", program("open"))
                self.assertEqual(f"mapped {6 * PAGE} pinned 0 private 0", program("residency"))
                self.assertIn("unpinned", program("unpin", PAGE, PAGE))
                self.assertEqual("same", program("landed"), "what was pinned then stays for that")
                self.assertEqual("done", program("idle"))
                self.assertEqual("done", program("close"))
                self.assertEqual("0", program("mappings"))

    def test_unmaps_that_the_driver_refuses_are_tried_again(self) -> None:
        for vendor in VENDORS:
            with self.subTest(vendor):
                service = self.serve(vendor, pages=8)
                name = "cuMemUnmap" if vendor == "cuda" else "hipMemUnmap"
                program = self.open(service, PENSTOCK_FAKE_FAULTS=";".join(f"{name}:999@{at}" for at in range(1, 20)))
                other = self.open(service)
                self.assertEqual("done", program("pin", PAGE, 6 * PAGE))
                self.assertEqual("same", self.read(program, 1, 6))
                self.assertEqual("done", program("unpin", PAGE, 6 * PAGE))
                self.assertEqual("done", program("close"))
                self.assertNotEqual("0", program("mappings"))
                # The service gives none of that memory to others before it is unmapped.
                other.begin("pin", 7 * PAGE, 4 * PAGE)
                self.assertTrue(daemon.wait_until(lambda: program("revokes") == "done" and program("mappings") == "0"))
                self.assertEqual("done", other.end())
                self.assertEqual("same", self.read(other, 7, 4))

    def late(self, vendor: str, **more: str) -> Program:
        """Its copy out of six unpinned pages begins in 300 ms. A page that is unmapped before ends it."""
        program = self.open(self.serve(vendor), PENSTOCK_FAKE_STREAM_DELAY_US="300000", **more)
        self.assertEqual("done", program("pin", PAGE, 6 * PAGE))
        self.assertEqual("done", program("copy", PAGE, 6 * PAGE))
        self.assertEqual("done", program("unpin", PAGE, 6 * PAGE))
        return program

    def test_a_thread_that_can_not_ask_for_the_work_leaves_it_its_pages(self) -> None:
        for vendor in VENDORS:
            with self.subTest(vendor):
                program = self.late(vendor)
                self.assertEqual("done", program("elsewhere", "close"))
                self.assertEqual("6", program("mappings"))
                self.assertEqual("same", program("landed"))
                self.assertEqual("done", program("revokes"))
                self.assertEqual("0", program("mappings"))

    def test_a_refusal_to_tell_of_the_work_leaves_it_its_pages(self) -> None:
        for vendor in VENDORS:
            with self.subTest(vendor):
                name = "cuEventQuery" if vendor == "cuda" else "hipEventQuery"
                program = self.late(vendor, PENSTOCK_FAKE_FAULTS=f"{name}:400@1;{name}:999@2")
                self.assertEqual("done", program("close"))
                self.assertEqual("done", program("revokes"))
                self.assertEqual("same", program("landed"))
                self.assertEqual("done", program("revokes"))
                self.assertEqual("0", program("mappings"))

    def test_the_end_of_a_client_waits_in_a_thread_without_a_context_too(self) -> None:
        for vendor in VENDORS:
            with self.subTest(vendor):
                program = self.late(vendor)
                self.assertEqual("done", program("elsewhere", "disconnect"))
                self.assertEqual("0", program("mappings"))
                self.assertEqual("same", program("landed"))

    def test_the_end_of_a_client_waits_for_work_that_ends_soon(self) -> None:
        for vendor in VENDORS:
            with self.subTest(vendor):
                program = self.late(vendor)
                self.assertEqual("done", program("disconnect"))
                self.assertEqual("0", program("mappings"))
                self.assertEqual("same", program("landed"))

    def test_the_end_of_a_client_does_not_wait_for_ever(self) -> None:
        program = self.open(self.serve("hip"))
        self.assertEqual("done", program("pin", PAGE, 6 * PAGE))
        self.assertEqual("0", program("hold", PAGE, 6 * PAGE))
        self.assertEqual("done", program("unpin", PAGE, 6 * PAGE))
        self.assertEqual("done", program("disconnect"), "the kernel waits for what comes after this")
        self.assertEqual("6", program("mappings"))
        self.assertEqual("0", program("let-go"))
        self.assertEqual("done", program("connect"))
        self.assertEqual("done", program("revokes"))
        self.assertEqual("0", program("mappings"))


if __name__ == "__main__":
    unittest.main()
