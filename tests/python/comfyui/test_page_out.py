# SPDX-License-Identifier: Apache-2.0
"""VBARs whose owner is told before a page goes."""

from __future__ import annotations

import unittest
import unittest.mock

import penstock
from comfyui.seam import MIB, PAGE, WithSeam, daemon, peek, poke
from penstock.memory import PrivateTable
from penstock_comfyui import devices, safe_points
from penstock_comfyui.surface import model_vbar


class PageOut(WithSeam):
    capacity = "2MiB"

    def setUp(self) -> None:
        super().setUp()
        self.gone: list[tuple[int, int]] = []
        self.vbar = model_vbar.ModelVBAR(4 * MIB, 0, pageout_callback=self.page_out)
        self.keep = False

    def page_out(self, offset: int, size: int) -> None:
        if self.keep:
            raise ValueError("not now")
        # It must still be readable.
        self.content = peek(self.vbar.base_addr + offset, 1)
        self.gone.append((offset, size))

    def use(self, part: object) -> None:
        self.assertIsNotNone(model_vbar.vbar_fault(part))
        model_vbar.vbar_unpin(part)

    def test_the_callback_comes_before_its_page_goes(self) -> None:
        part = self.vbar.alloc(PAGE)
        self.assertIsNotNone(model_vbar.vbar_fault(part))
        poke(part[1], b"x")
        model_vbar.vbar_unpin(part)
        self.assertEqual(PAGE, self.vbar.free_memory(1e30))
        self.assertEqual(([(0, PAGE)], b"x"), (self.gone, self.content))

    def test_its_pages_go_when_it_is_closed_whoever_agrees(self) -> None:
        self.use(self.vbar.alloc(PAGE))
        self.keep = True
        self.vbar.close()
        self.assertTrue(daemon.wait_until(lambda: self.daemon.device()["resident_bytes"] == 0))
        self.assertEqual([], self.gone)

    def test_a_page_whose_callback_fails_stays(self) -> None:
        self.use(self.vbar.alloc(PAGE))
        self.keep = True
        with self.assertLogs("penstock", "ERROR"):
            self.assertEqual(0, self.vbar.free_memory(1e30))
        self.assertEqual(PAGE, self.vbar.loaded_size())

    def test_another_model_s_fault_makes_it_page_out(self) -> None:
        for _ in range(8):
            self.use(self.vbar.alloc(PAGE))
        other = model_vbar.ModelVBAR(4 * MIB, 0)
        self.assertIsNotNone(model_vbar.vbar_fault(other.alloc(PAGE)))
        self.assertEqual([(7 * PAGE, PAGE)], self.gone)

    def full_device_and_another_client(self) -> tuple[list[object], PrivateTable]:
        parts = [self.vbar.alloc(PAGE) for _ in range(8)]
        for part in parts:
            self.use(part)
        other = self.enterContext(penstock.connect(socket=str(self.daemon.socket)))
        table = other.private_table(4 * MIB)
        self.assertFalse(table.fault(0, PAGE, 1))
        return parts, table

    def test_another_client_gets_as_much_as_it_wants_at_the_next_end_of_a_node(self) -> None:
        _, table = self.full_device_and_another_client()
        self.assertEqual([], self.gone)
        safe_points.start_prompt()
        safe_points.end_node()
        self.assertTrue(table.fault(0, PAGE, 1))
        self.assertEqual([(7 * PAGE, PAGE)], self.gone)
        safe_points.end_node()
        self.assertEqual(3, len(self.gone), "more when that was too little")

    def test_another_client_gets_a_page_at_the_end_of_a_prompt(self) -> None:
        _, table = self.full_device_and_another_client()
        safe_points.end_prompt()
        self.assertTrue(table.fault(0, PAGE, 1))
        self.assertEqual(1, len(self.gone))
        safe_points.start_prompt()

    def test_a_fault_gives_another_client_one_page_and_not_all_that_it_was_asked_for(self) -> None:
        parts, table = self.full_device_and_another_client()
        self.enterContext(unittest.mock.patch.object(safe_points, "LOOK_SECONDS", 0))
        self.assertIsNotNone(model_vbar.vbar_fault(parts[0]))
        self.enterContext(unittest.mock.patch.object(safe_points, "LOOK_SECONDS", 3600))
        self.assertEqual([(7 * PAGE, PAGE)], self.gone)
        devices.wait_for(0)
        safe_points.with_service(lambda service: service.set_idle(True))  # On a GPU nobody takes a page in between.
        self.assertTrue(table.fault(0, PAGE, 1))
        self.assertEqual([(7 * PAGE, PAGE)], self.gone)



if __name__ == "__main__":
    unittest.main()
