# SPDX-License-Identifier: Apache-2.0
"""The pager seam from several threads, and in forked children."""

from __future__ import annotations

import ctypes
import math
import os
import threading
import unittest
import unittest.mock

from comfyui.seam import MIB, PAGE, WithSeam, enter_context, peek, poke
from penstock.memory import PageTable
from penstock_comfyui import link as links, pager, tables
from penstock_comfyui.surface import model_vbar


class Threads(WithSeam):
    def test_the_interpreter_is_free_while_a_fault_waits(self) -> None:
        vbar = model_vbar.ModelVBAR(4 * MIB, 0)
        part = vbar.alloc(PAGE)
        resume = self.stop_service()
        answer: list[object] = []
        thread = threading.Thread(target=lambda: answer.append(model_vbar.vbar_fault(part)))
        thread.start()
        ran = sum(index for index in range(1000))  # This thread runs.
        self.assertEqual((499500, []), (ran, answer))
        resume()
        thread.join(20)
        self.assertEqual(1, len(answer))
        self.assertIsNotNone(answer[0])

    def test_a_service_that_says_nothing_is_waited_for_once(self) -> None:
        parts = [model_vbar.ModelVBAR(MIB, 0).alloc(8) for _ in range(3)]
        self.enterContext(unittest.mock.patch.object(tables, "FAULT_SECONDS", 0.2))
        self.enterContext(unittest.mock.patch.object(links, "QUESTION_SECONDS", 0.2))
        waited: list[float] = []
        fault = PageTable.fault

        def noted(table: PageTable, offset: int, nbytes: int, timeout: float | None = None) -> bool:
            waited.append(math.inf if timeout is None else timeout)
            return fault(table, offset, nbytes, timeout)

        self.enterContext(unittest.mock.patch.object(PageTable, "fault", noted))
        self.stop_service()
        self.assertEqual([None] * 3, [model_vbar.vbar_fault(part) for part in parts])
        self.assertEqual(0.2, waited[0])
        self.assertEqual({0}, set(waited[1:]), "the next ones ask for what is here")

    def test_threads_pin_and_unpin_the_same_pages(self) -> None:
        vbar = model_vbar.ModelVBAR(4 * MIB, 0)
        parts = [vbar.alloc(PAGE // 3) for _ in range(12)]
        failures: list[BaseException] = []
        served: list[int] = []

        def work(start: int) -> None:
            try:
                enter_context(self.kind)
                for index in range(400):
                    part = parts[(start + index) % len(parts)]
                    # None where another thread has just lowered the cut-off: that is an answer, too.
                    if model_vbar.vbar_fault(part) is not None:
                        poke(part[1], bytes([start]))
                        model_vbar.vbar_unpin(part)
                        served.append(start)
                    if index % 100 == 0:
                        vbar.free_memory(PAGE)
                        vbar.prioritize()
            except BaseException as error:  # noqa: BLE001
                failures.append(error)

        threads = [threading.Thread(target=work, args=(start,)) for start in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([], failures)
        self.assertEqual({0, 1, 2, 3}, set(served))
        self.assertGreater(len(served), 800, "of 1600")
        self.assertEqual(0, self.client()["pinned_bytes"])


class Forks(WithSeam):
    def test_a_child_has_none_of_its_parent_s_pages_and_can_have_its_own(self) -> None:
        vbar = model_vbar.ModelVBAR(4 * MIB, 0)
        part = vbar.alloc(8)
        model_vbar.vbar_fault(part)
        poke(part[1], b"parent")
        child = os.fork()
        if child == 0:
            code = 1
            try:
                model_vbar.vbar_fault(part)
            except RuntimeError:
                own = model_vbar.ModelVBAR(4 * MIB, 0).alloc(8)
                code = 0 if model_vbar.vbar_fault(own) is not None else 2
            except BaseException:  # noqa: BLE001
                code = 3
            os._exit(code)
        self.assertEqual(0, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        self.assertEqual(b"parent", peek(part[1], 6))
        self.assertEqual(PAGE, pager.mapped_bytes())


if __name__ == "__main__":
    unittest.main()
