# SPDX-License-Identifier: Apache-2.0
"""Memory that a client fills itself, against the real service."""

from __future__ import annotations

import ctypes
import json
import os
import struct
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(os.environ["PENSTOCK_SOURCE_DIR"]) / "tests/integration/service"))

import daemon  # noqa: E402
import penstock  # noqa: E402
from penstock.memory import AssembledTable, Piece  # noqa: E402

MIB = 1 << 20


class WithService(unittest.TestCase):
    def setUp(self) -> None:
        self.daemon = self.enterContext(daemon.Daemon(capacity="64MiB"))
        self.service = self.enterContext(penstock.connect(socket=str(self.daemon.socket), name="a name"))


class PrivateTables(WithService):
    def test_pages_are_filled_freed_and_come_back_with_another_serial(self) -> None:
        table = self.service.private_table(100 * MIB)
        self.assertTrue(table.fault(0, 5))
        ctypes.memmove(table.address, b"hello", 5)
        serial = table.serials(0, 5)[0]
        self.assertEqual(0, table.free(MIB))  # It is pinned.
        table.unpin(0, 5)
        self.assertEqual(table.page_bytes, table.free(MIB))
        self.assertTrue(table.fault(0, 5))
        self.assertEqual(b"\0" * 5, ctypes.string_at(table.address, 5))
        self.assertNotIn(table.serials(0, 5)[0], (0, serial))

    def test_what_finds_no_room_is_no_exception_and_wrong_use_is(self) -> None:
        table = self.service.private_table(100 * MIB)
        self.assertFalse(table.fault(0, 80 * MIB))
        with self.assertRaises(penstock.InvalidArgumentError):
            table.fault(0, 101 * MIB)
        with self.assertRaises(penstock.InvalidArgumentError):
            table.serials(100 * MIB, 1)
        with self.assertRaises(penstock.UnpinnedError):
            table.unpin(0, 1)

    def test_a_cut_off_keeps_pages_away(self) -> None:
        table = self.service.private_table(4 * MIB)
        table.set_cutoff(0)
        self.assertFalse(table.fault(0, 1))
        table.set_cutoff(None)
        self.assertTrue(table.fault(0, 1))

    def test_pages_that_others_want_are_named(self) -> None:
        table = self.service.private_table(64 * MIB)
        self.assertTrue(table.fault(0, 64 * MIB))
        self.assertEqual([], list(table.wanted()))
        with penstock.connect(socket=str(self.daemon.socket)) as other:
            self.assertFalse(other.private_table(MIB).fault(0, 1))
        self.assertTrue(daemon.wait_until(lambda: len(table.wanted()) > 0))
        self.assertTrue(all(page < table.pages for page in table.wanted()))

    def test_status_shows_the_name(self) -> None:
        self.assertIn("a name", [one["name"] for one in self.daemon.ask("status")["clients"]])


class AssembledTables(WithService):
    def table(self, service: penstock.Service) -> AssembledTable:
        path = self.daemon.folder / "m.safetensors"
        if not path.exists():
            daemon.write_checkpoint(path, tensors=2, tensor_bytes=9 * MIB)
        start = path.stat().st_size - 18 * MIB
        pieces = [Piece(10 * MIB, 0, start, 9 * MIB, "U8", "U8"), Piece(0, 0, start + 9 * MIB, 9 * MIB, "U8", "U8")]
        with open(path, "rb") as file:
            return service.assembled_table([file.fileno()], pieces)

    def content(self, place: int, nbytes: int) -> bytes:
        return (self.daemon.folder / "m.safetensors").read_bytes()[-18 * MIB + place:][:nbytes]

    def test_two_clients_have_one_copy_and_what_one_makes_private_is_its_own(self) -> None:
        one = self.table(self.service)
        self.assertTrue(one.fault(0, one.nbytes))
        resident = self.daemon.device()["resident_bytes"]
        with penstock.connect(socket=str(self.daemon.socket)) as other:
            two = self.table(other)
            self.assertTrue(two.fault(10 * MIB, 9 * MIB))
            self.assertEqual(resident, self.daemon.device()["resident_bytes"])
            self.assertEqual(one.checkpoints, two.checkpoints)
            self.assertTrue(two.make_private(10 * MIB, 1))
            self.assertEqual(1, two.serials(10 * MIB, 1)[0] & 1)
            self.assertEqual(0, one.serials(10 * MIB, 1)[0] & 1)
            self.assertEqual(self.content(0, 9 * MIB), ctypes.string_at(two.address + 10 * MIB, 9 * MIB))
            ctypes.memmove(two.address + 10 * MIB, b"mine", 4)
            self.assertEqual(resident + one.page_bytes, self.daemon.device()["resident_bytes"])
        self.assertEqual(self.content(0, 4), ctypes.string_at(one.address + 10 * MIB, 4))
        self.assertEqual(self.content(9 * MIB, 9 * MIB), ctypes.string_at(one.address, 9 * MIB))

    def test_what_nobody_else_has_is_there_once_when_it_is_made_private(self) -> None:
        table = self.table(self.service)
        self.assertTrue(table.fault(0, table.nbytes))
        resident = self.daemon.device()["resident_bytes"]
        self.assertTrue(table.make_private(0, table.nbytes))
        self.assertEqual(table.pages * table.page_bytes, table.residency().private_bytes)
        self.assertTrue(daemon.wait_until(lambda: self.daemon.device()["resident_bytes"] == resident))
        self.assertEqual(self.content(0, 4), ctypes.string_at(table.address + 10 * MIB, 4))

    def test_status_names_its_files_as_they_are_named(self) -> None:
        table = self.table(self.service)
        found = self.daemon.ask("status")["checkpoints"]
        self.assertEqual(["m.safetensors"], [one["name"] for one in found if one["id"] in table.checkpoints])

    def test_a_private_page_without_a_pin_or_without_room_is_refused(self) -> None:
        table = self.table(self.service)
        with self.assertRaises(penstock.UnpinnedError):
            table.make_private(0, 1)
        self.assertTrue(table.fault(0, table.nbytes))
        rest = self.service.private_table(64 * MIB)
        self.assertTrue(rest.fault(0, 64 * MIB - table.pages * table.page_bytes))
        self.assertFalse(table.make_private(0, 1))


class Alignment(WithService):
    def test_tensors_start_where_they_are_wanted_with_the_file_s_bytes(self) -> None:
        path = self.daemon.folder / "m.safetensors"
        parts = {"a": b"\1" * 3, "b": bytes(range(200)), "c": b"", "d": b"\7" * (9 * MIB)}
        header, data = {}, b""
        for name, content in parts.items():
            header[name] = {"dtype": "U8", "shape": [len(content)], "data_offsets": [len(data), len(data) + len(content)]}
            data += content
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        path.write_bytes(struct.pack("<Q", len(text)) + text + data)
        checkpoint = self.service.open(path, alignment=64)
        with checkpoint.pin() as pinned:
            for name, content in parts.items():
                memory = pinned[name].memory
                self.assertEqual(content, bytes(memory))
                if content:
                    address = ctypes.addressof(pinned[name]._export())
                    self.assertEqual(0, address % 64, name)
                del memory
        self.assertEqual(parts["d"], checkpoint.read("d"))


class HostBuffers(WithService):
    def test_it_grows_at_its_address_and_gives_its_end_back(self) -> None:
        buffer = self.service.host_buffer(16 * MIB)
        buffer.grow(5000)
        ctypes.memmove(buffer.address + 4999, b"x", 1)
        buffer.grow(MIB)
        ctypes.memmove(buffer.address + MIB - 1, b"y", 1)
        self.assertEqual(b"x", ctypes.string_at(buffer.address + 4999, 1))
        buffer.truncate(5000)
        buffer.grow(2 * MIB)
        self.assertEqual(b"x\0", ctypes.string_at(buffer.address + 4999, 2))
        with self.assertRaises(penstock.InvalidArgumentError):
            buffer.grow(17 * MIB)
        buffer.close()
        self.assertTrue(daemon.wait_until(lambda: self.daemon.ask("status")["host"]["locked_bytes"] == 0))


if __name__ == "__main__":
    unittest.main()
