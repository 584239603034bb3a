# SPDX-License-Identifier: Apache-2.0
"""Who reads what ComfyUI wants to have in host buffers."""

from __future__ import annotations

import ctypes
import random
import unittest
import unittest.mock
from typing import Any

import penstock
from comfyui.seam import MIB, WithSeam
from penstock.memory import HostBuffer
from penstock_comfyui.host_memory import READ_BY_SERVICE_LEAST
from penstock_comfyui.surface import host_buffer


class ServiceReads(WithSeam):
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
        self.assertIn("read into host buffers by ComfyUI itself: busy", said.output[0])
        with unittest.mock.patch.object(HostBuffer, "read", side_effect=penstock.DeadlineError("too late")), \
                self.assertRaises(RuntimeError):
            read("rb")

    def read_by_service(self) -> int:
        figures: Any = self.client().get("read_into_buffers", {})
        return sum(figures.values())


if __name__ == "__main__":
    unittest.main()
