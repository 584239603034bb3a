# SPDX-License-Identifier: Apache-2.0
"""A service that is there and says nothing: prompts go on without it, after a moment each."""

from __future__ import annotations

import asyncio
import ctypes
import time
import unittest
import unittest.mock
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import penstock
from comfyui.management import boundaries_of
from comfyui.recorded_caller import filed_model
from comfyui.seam import KIB, MIB, WithSeam, daemon
from penstock import errors
from penstock.memory import Piece
from penstock_comfyui import holdings, host_memory, link as links, pager, panel, safe_points, shared_tables, tables
from penstock_comfyui.link import SilentError, link

LIMIT = 0.3


class Silent(WithSeam):
    def setUp(self) -> None:
        super().setUp()
        self.enterContext(unittest.mock.patch.multiple(links, QUESTION_SECONDS=LIMIT, HEARD_SECONDS=0.0, _said=set()))
        self.enterContext(unittest.mock.patch.object(holdings, "REPORT_SECONDS", LIMIT))
        self.enterContext(unittest.mock.patch.multiple(safe_points, LOOK_SECONDS=0, PROMISED_SECONDS=0, STATUS_SECONDS=0))
        self.assertIsNotNone(link.service())

    def waits(self, call: Any) -> list[float]:
        """What the service was asked meanwhile: the most seconds that each question waits."""
        answer, asked = link.answer, []

        def noted(ask: Any, seconds: float | None = None) -> Any:
            asked.append(links.QUESTION_SECONDS if seconds is None else seconds)
            return answer(ask, seconds)

        with unittest.mock.patch.object(link, "answer", noted):
            call()
        return asked

    def test_a_prompt_asks_once_and_the_next_one_not_at_all(self) -> None:
        management, executor = boundaries_of(self, [])

        def prompt() -> None:
            asyncio.run(executor.execute_async(1))
            management.load_models_gpu([], 0)
            management.reset_cast_buffers()

        self.stop_service()
        with self.assertLogs("penstock", "WARNING") as said:
            self.assertEqual([LIMIT], self.waits(prompt))
        self.assertIn("did not answer within 0.3 s", said.output[0])
        self.assertIsNone(link.present())
        self.assertEqual([], self.waits(prompt))

    def test_a_report_that_is_not_answered_is_the_last_for_a_while(self) -> None:
        service = link.service()
        self.stop_service()
        management = SimpleNamespace(current_loaded_models=[])
        report, told = penstock.Service.report, []

        def noted(one: Any, held: Any, timeout: float | None) -> None:
            told.append(timeout)
            report(one, held, timeout)

        with unittest.mock.patch.object(link, "service", return_value=service), self.assertLogs("penstock", "WARNING"), \
                unittest.mock.patch.object(penstock.Service, "report", noted):
            for _ in range(2):
                self.assertEqual([], self.waits(holdings.Holdings(management).dropped))
        self.assertEqual([LIMIT], told)
        self.assertIsNone(link.present())

    def test_what_a_call_of_the_library_would_wait_for_is_not_begun(self) -> None:
        self.stop_service()
        with self.assertLogs("penstock", "WARNING"):
            self.assertEqual([LIMIT], self.waits(lambda: self.assertIsNone(link.service())))
        self.assertEqual([], self.waits(lambda: self.assertIsNone(link.service())))
        self.assertEqual(503, panel.status()[0])
        with self.assertRaises(RuntimeError):
            host_memory.LockedBuffer(MIB).extend(MIB)

    def test_a_host_buffer_neither_grows_nor_is_cut_nor_read_into(self) -> None:
        path = self.daemon.folder / "file"
        path.write_bytes(b"x" * host_memory.READ_BY_SERVICE_LEAST)
        buffer = host_memory.LockedBuffer(3 * host_memory.GRANULE)
        buffer.extend(2 * host_memory.GRANULE)
        resume = self.stop_service()

        def use() -> None:
            with open(path, "rb") as file:
                buffer.read(0, file.fileno(), 0, host_memory.READ_BY_SERVICE_LEAST)
            buffer.truncate(host_memory.GRANULE - 1)
            with self.assertRaises(RuntimeError):
                buffer.extend(2 * host_memory.GRANULE)

        with self.assertLogs("penstock", "WARNING"):
            self.assertEqual([LIMIT], self.waits(use))
        self.assertEqual(b"x", ctypes.string_at(buffer.address + 77, 1))
        resume()
        link._next_try = 0  # The time is over.
        buffer.truncate(host_memory.GRANULE - 1)
        self.assertEqual(host_memory.GRANULE, buffer.granted)

    def test_one_that_stops_right_after_an_answer_is_waited_for_once_and_not_for_long(self) -> None:
        """Whatever the call is: the library has the same limit in all of them."""
        path = self.daemon.folder / "m.safetensors"
        caller = filed_model(path, 12, 200 * KIB)
        buffer = host_memory.LockedBuffer(3 * host_memory.GRANULE)
        buffer.extend(2 * host_memory.GRANULE)
        files = {"cut": lambda: buffer.truncate(host_memory.GRANULE), "grown": lambda: self.refused(buffer),
                 "private": lambda: self.assertIsNone(tables.make_table(MIB, 0)),
                 "shared": lambda: self.assertIsNone(self.share(path)), "opened": lambda: self.open(path),
                 "freed": lambda: caller.vbar._pages._shared and caller.vbar._pages._shared.drop_unused()}
        caller.load()
        resume = self.stop_service()
        for name, call in files.items():
            link._next_try, link._away, link._heard = 0.0, False, time.monotonic() + 3600  # It has answered just now.
            with self.subTest(name), self.assertLogs("penstock", "WARNING"):
                links._said.clear()
                self.assertLessEqual(len(self.waits(call)), 1)
                self.assertIsNone(link.present())
        resume()

    def share(self, path: Path) -> Any:
        with open(path, "rb") as file:
            return shared_tables.make_table([file.fileno()], [Piece(0, 0, 512, 512, "U8", "U8")], 0)

    def open(self, path: Path) -> None:
        """As `reads` does it."""
        service = link.present()
        assert service is not None
        with self.assertRaises(SilentError):
            link.patiently(service, lambda: service.open(path))

    def refused(self, buffer: host_memory.LockedBuffer) -> None:
        with self.assertRaises(RuntimeError):
            buffer.extend(2 * host_memory.GRANULE)

    def test_a_slow_file_is_waited_for_while_the_service_answers(self) -> None:
        service = link.service()
        assert service is not None
        late = iter((errors.DeadlineError("slow"), errors.DeadlineError("slow"), None))

        def opened() -> str:
            problem = next(late)
            if problem is not None:
                raise problem
            return "opened"

        self.assertEqual("opened", link.patiently(service, opened))
        with unittest.mock.patch.object(links, "OPEN_SECONDS", 0), self.assertRaises(errors.DeadlineError) as slow:
            late = iter((errors.DeadlineError("slow"),))
            link.patiently(service, opened)
        self.assertNotIsInstance(slow.exception, SilentError)
        self.assertIs(service, link.present())

    def test_a_slow_fault_is_no_silent_service_unless_that_says_nothing_else(self) -> None:
        def slow(seconds: float) -> bool:
            raise errors.DeadlineError("slow")

        with self.assertLogs("penstock", "WARNING") as said:
            self.assertFalse(tables._asked(slow))
        self.assertIn("disk", said.output[0])
        self.assertIsNotNone(link.present())
        self.stop_service()
        self.assertFalse(tables._asked(slow))
        self.assertIsNone(link.present())

    def test_a_greeting_that_is_not_answered_is_not_waited_for_at_each_load(self) -> None:
        for limit, retry in ((0.0, links.SILENT_SECONDS), (3600.0, links.RETRY_SECONDS)):
            link.reset("/nonexistent")
            with unittest.mock.patch.object(links, "QUESTION_SECONDS", limit):
                before = time.monotonic()
                self.assertIsNone(link.service())
            self.assertLessEqual(before + retry, link._next_try)
            self.assertLess(link._next_try, before + retry + 10)

    def test_it_is_used_again_once_it_answers(self) -> None:
        self.enterContext(unittest.mock.patch.object(links, "SILENT_SECONDS", 0.1))
        resume = self.stop_service()
        with self.assertLogs("penstock", "INFO") as said:
            self.assertIsNone(link.service())
            time_up = time.monotonic() + 0.1
            self.assertTrue(daemon.wait_until(lambda: time.monotonic() >= time_up))
            self.assertIsNone(link.service(), "asked again, and silent again")
            resume()
            self.assertTrue(daemon.wait_until(lambda: link.service() is not None))
        self.assertIn("the service is back", said.output[-1])
        self.assertIsNotNone(link.present())

    def test_a_booking_that_comes_too_late_is_given_back(self) -> None:
        service = link.service()
        assert service is not None
        resume = self.stop_service()
        with self.assertRaises(SilentError), self.assertLogs("penstock", "WARNING"):
            link.answer(lambda: service.admit(work=100 * KIB, timeout=0))
        resume()
        with penstock.connect(socket=str(self.daemon.socket)) as other, other.admit(work=8 * MIB):
            pass  # All of it is free.

    def test_a_process_without_another_thread_asks_nothing_and_fails_nothing(self) -> None:
        with unittest.mock.patch("threading.Thread.start", side_effect=RuntimeError("can't start new thread")):
            with self.assertRaises(penstock.ExhaustedError):
                link.answer(lambda: None)
            self.assertEqual({}, safe_points.recent_status())
        self.assertIsNotNone(link.present())

    def test_what_the_service_refuses_is_an_answer(self) -> None:
        service = link.service()
        assert service is not None
        with self.assertRaises(penstock.PenstockError) as refusal:
            link.answer(lambda: service.admit(work=1 << 50, timeout=0))
        self.assertNotIsInstance(refusal.exception, SilentError)
        self.assertIs(service, link.present())


if __name__ == "__main__":
    unittest.main()
