# SPDX-License-Identifier: Apache-2.0
"""Who reads what ComfyUI wants to have in host buffers."""

from __future__ import annotations

import ctypes
import random
import unittest
import unittest.mock
from typing import Any

import penstock
from comfyui.seam import MIB, WithSeam, daemon, peek, poke
from penstock.memory import HostBuffer
from penstock_comfyui.host_memory import READ_BY_SERVICE_LEAST
from penstock_comfyui import read_ahead
from penstock_comfyui.surface import host_buffer, model_vbar


class ServiceReads(WithSeam):
    capacity = "64MiB"

    def test_the_service_reads_what_it_can_and_this_process_the_rest(self) -> None:
        path = self.daemon.folder / "file"
        path.write_bytes(random.Random(1).randbytes(5 * MIB))
        buffer = host_buffer.HostBuffer(5 * MIB)
        much = READ_BY_SERVICE_LEAST

        def read(mode: str, nbytes: int = much) -> int:
            """Bytes that the service read of those that were asked for."""
            before = self.read_by_service()
            ctypes.memset(buffer.get_raw_address(), 0, 5 * MIB)
            with open(path, mode) as file:
                buffer.read_file_slice(file, 3, nbytes, offset=5)
            self.assertEqual(path.read_bytes()[3:3 + nbytes], ctypes.string_at(buffer.get_raw_address() + 5, nbytes))
            return self.read_by_service() - before

        self.assertGreaterEqual(read("rb"), much)
        self.assertEqual(0, read("rb", much - 1), "it takes longer to ask for")
        self.assertEqual(0, read("r+b"), "it may be written at any time")
        self.enterContext(unittest.mock.patch("penstock_comfyui.link._said", set()))
        with unittest.mock.patch.object(HostBuffer, "read", side_effect=penstock.BusyError("too many")), \
                self.assertLogs("penstock", "WARNING") as said:
            self.assertEqual([0, 0], [read("rb"), read("rb")])
        self.assertEqual(1, len(said.output))
        self.assertIn("files are read by ComfyUI itself: busy", said.output[0])
        with unittest.mock.patch.object(HostBuffer, "read", side_effect=penstock.DeadlineError("too late")), \
                self.assertRaises(RuntimeError):
            read("rb")

    def pages(self) -> tuple[Any, int]:
        """Of a model, in which a file is read; its address."""
        part = model_vbar.ModelVBAR(64 * MIB, 0).alloc(self.much)
        self.assertIsNotNone(model_vbar.vbar_fault(part))
        self.addCleanup(model_vbar.vbar_unpin, part)
        return part, part[1]

    much = read_ahead.PARTS * read_ahead.PART + READ_BY_SERVICE_LEAST + 7

    def test_what_goes_to_pages_is_read_by_the_service_too(self) -> None:
        path = self.daemon.folder / "large"
        path.write_bytes(random.Random(2).randbytes(self.much + 5))
        _, address = self.pages()

        def read(nbytes: int = self.much) -> int:
            poke(address, bytes(self.much))
            before = self.read_by_service()
            with open(path, "rb") as file:
                host_buffer.read_file_to_device(file, 5, nbytes, 0, address, 0)
            self.assertEqual(path.read_bytes()[5:][:nbytes], peek(address, nbytes))
            return self.read_by_service() - before

        self.assertGreaterEqual(read(), self.much)
        self.assertGreaterEqual(read(), self.much, "a buffer that was used before")
        self.assertEqual(read_ahead.PARTS * read_ahead.PART, self.client()["locked_host_bytes"])
        read_ahead.let_go()
        self.assertTrue(daemon.wait_until(lambda: self.client()["locked_host_bytes"] == 0))
        self.assertEqual(0, read(READ_BY_SERVICE_LEAST - 1))
        parts = HostBuffer.read
        answers = iter((False, True))

        def refused_later(*arguments: Any) -> None:
            if next(answers):
                raise penstock.BusyError("too many")
            parts(*arguments)

        with unittest.mock.patch.object(HostBuffer, "read", refused_later):
            self.assertGreater(read(), 0, "what is left is read here")
        with unittest.mock.patch.object(HostBuffer, "grow", side_effect=penstock.ExhaustedError("no locked memory")):
            read_ahead.let_go()
            self.assertEqual(0, read())
        with unittest.mock.patch.object(HostBuffer, "read", side_effect=penstock.IoError("bad sector")), \
                self.assertRaises(RuntimeError):
            read()
        self.assertEqual(0, self.client()["locked_host_bytes"])

    def test_a_file_that_ends_early_is_an_error(self) -> None:
        path = self.daemon.folder / "short"
        path.write_bytes(bytes(self.much - 9))
        _, address = self.pages()
        with open(path, "rb") as file, self.assertRaises(RuntimeError):
            host_buffer.read_file_to_device(file, 0, self.much, 0, address, 0)

    def read_by_service(self) -> int:
        figures: Any = self.client().get("read_into_buffers", {})
        return sum(figures.values())


if __name__ == "__main__":
    unittest.main()
