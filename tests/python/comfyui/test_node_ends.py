# SPDX-License-Identifier: Apache-2.0
"""Where nodes and prompts end, with ComfyUI's DynamicVRAM and without it."""

from __future__ import annotations

import asyncio
import unittest
import unittest.mock
from typing import Any

from comfyui.management import boundaries_of
from comfyui.seam import MIB, WithSeam
from penstock_comfyui import holdings, lent_files, others, safe_points, work, workers
from penstock_comfyui.link import link


class NodeEnds(WithSeam):
    def setUp(self) -> None:
        super().setUp()
        self.enterContext(unittest.mock.patch.object(holdings, "NODE_SECONDS", 0.0))
        self.said: list[str] = []
        self.enterContext(unittest.mock.patch.object(safe_points, "end_node", lambda: self.said.append("answered")))
        self.enterContext(unittest.mock.patch.object(holdings.Holdings, "_tell", lambda *_: self.said.append("told")))
        self.enterContext(unittest.mock.patch.object(holdings.Holdings, "_computed_now", lambda _: [self.said.append("looked")]))

    def run_prompt(self, dynamic: bool, *nodes: Any) -> list[str]:
        """What was called after the last node had begun."""
        management, executor = boundaries_of(self, self.said, dynamic)
        management.current_loaded_models = []
        asyncio.run(executor.execute_async(list(nodes)))
        return self.said[self.said.index("prompt") + 1:]

    def book(self) -> None:
        service = link.service()
        assert service is not None
        workers._booked["/worker"] = service.admit(work=MIB)
        work._booked["host"] = service.admit(work=MIB, timeout=0)
        one = others.OnDevice("host", 0)
        one._booked.append(service.admit(work=MIB, timeout=0))
        self.kept = one
        self.assertEqual(3 * MIB, self.booked())

    def booked(self) -> int:
        return int(self.daemon.device()["booked_bytes"])

    def test_without_dynamic_vram_bookings_end_with_the_node(self) -> None:
        self.run_prompt(False, self.book, lambda: self.assertEqual(0, self.booked()))

    def test_and_with_it_too(self) -> None:
        self.run_prompt(True, self.book, lambda: self.assertEqual(0, self.booked()))

    def test_after_models_went_what_the_device_had_for_them_goes_and_is_told(self) -> None:
        management, executor = boundaries_of(self, self.said)
        with unittest.mock.patch.object(lent_files, "give_back", lambda: self.said.append("given")):
            management.unload_all_models()
            executor.reset()
        self.assertEqual(["unload", "given", "told", "forgot", "given", "told"], [one for one in self.said if one != "looked"])

    def test_what_no_node_s_end_gave_back_goes_with_the_prompt(self) -> None:
        management, executor = boundaries_of(self, self.said, dynamic=True)
        management.reset_cast_buffers = lambda: None

        async def fails(*_: Any) -> Any:
            raise ValueError

        self.book()
        with self.assertRaises(ValueError), unittest.mock.patch("execution.execute", fails):
            asyncio.run(executor.execute_async([None]))
        self.assertEqual(0, self.booked())

    def test_a_node_that_fails_ends_too(self) -> None:
        def fails() -> None:
            self.book()
            raise ValueError

        with self.assertRaises(ValueError):
            self.run_prompt(False, fails)
        self.assertIn("answered", self.said)
        self.assertEqual(0, self.booked())

    def test_asks_and_reports_come_once_a_node_either_way(self) -> None:
        self.assertEqual(["synchronize", "answered", "looked", "told", "synchronize", "looked", "told"],
                         self.run_prompt(False, lambda: None))
        self.said.clear()
        self.assertEqual(["looked", "reset", "answered", "told", "synchronize", "looked", "told"],
                         self.run_prompt(True, lambda: None))

    def test_without_dynamic_vram_the_device_is_waited_for_only_now_and_then(self) -> None:
        with unittest.mock.patch.object(holdings.Holdings, "due", lambda _: False):
            self.assertEqual(["synchronize", "looked", "told"], self.run_prompt(False, lambda: None))


if __name__ == "__main__":
    unittest.main()
