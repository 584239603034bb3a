# SPDX-License-Identifier: Apache-2.0
"""Bad files and bad clients: a clear error, the service goes on, others are served."""

from __future__ import annotations

import contextlib
import os
import struct
import sys
import unittest

import daemon
import wire
from on_gpu import OnEachDevice

if not daemon.SANITIZED:
    sys.path.insert(0, str(daemon.BUILD / "python"))
    import penstock
    from penstock.memory import Piece


class BadFiles(OnEachDevice, unittest.TestCase):
    def setUp(self) -> None:
        self.daemon = self.enterContext(self.make())

    def refusal(self, content: bytes) -> dict[str, str]:
        path = self.daemon.folder / "bad.safetensors"
        path.write_bytes(content)
        error: dict[str, str] = self.daemon.ask("load", str(path))["error"]
        return error

    def test_a_cut_an_empty_and_a_foreign_file_are_told_apart(self) -> None:
        header = b'{"t":{"dtype":"I32","shape":[2,2],"data_offsets":[0,16]}}'
        whole = struct.pack("<Q", len(header)) + header + bytes(16)
        for content, kind in ((whole[:79], "truncated"), (b"", "empty_file"), (b"<!DOCTYPE html>" + bytes(4096), "html"),
                              (whole + b"abc", "trailing_bytes"), (bytes(81), "preallocated"),
                              (b"PK\3\4" + bytes(4096), "zip")):
            with self.subTest(kind):
                error = self.refusal(content)
                self.assertEqual(kind, error["kind"], error)
                self.assertIn(str(self.daemon.folder / "bad.safetensors"), error["message"])
        self.assertTrue(self.daemon.is_serving())
        self.assertEqual([], self.daemon.ask("status")["checkpoints"])

    def test_a_folder_and_a_pipe_are_no_checkpoints(self) -> None:
        os.mkfifo(self.daemon.folder / "pipe")
        for path in (self.daemon.folder, self.daemon.folder / "pipe"):
            with self.subTest(str(path)):
                # Folders will be checkpoints one day; until then that is said.
                self.assertIn(self.daemon.ask("load", str(path))["error"]["kind"], ("not_a_file", "not_built"))
        self.assertTrue(self.daemon.is_serving())


@unittest.skipIf(daemon.SANITIZED, daemon.NO_PACKAGE)
class CaseP01(OnEachDevice, unittest.TestCase):
    def test_a_pointer_among_shards_fails_the_whole_and_is_named(self) -> None:
        with self.make() as running, contextlib.ExitStack() as files:
            good, pointer = (running.folder / f"model-0000{number}-of-00002.safetensors" for number in (1, 2))
            daemon.write_checkpoint(good, tensors=1, tensor_bytes=4096)
            pointer.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4d" * 32
                                + b"\nsize 4976698592\n")
            self.assertEqual(135, pointer.stat().st_size)
            shards = [files.enter_context(open(path, "rb")).fileno() for path in (good, pointer)]
            start = good.stat().st_size - 4096
            pieces = [Piece(4096 * number, number, start, 4096, "U8", "U8") for number in range(2)]
            with penstock.connect(socket=str(running.socket)) as service:
                with self.assertRaises(penstock.errors.LfsPointerError) as refused:
                    service.assembled_table(shards, pieces)
                said = str(refused.exception)
                for part in (str(pointer), "135 bytes", "4976698592", "Git-LFS pointer"):
                    self.assertIn(part, said)
                # No part of it is a model: nothing is resident, and the good shard is nobody's.
                self.assertEqual(0, running.device()["resident_bytes"])
                self.assertFalse([one for one in running.ask("status")["checkpoints"] if one["clients"] > 0])
                if self.vendor != "host":  # Whose pages only a process with its runtime can map.
                    self.assertNotIn("error", running.ask("load", str(good)))
                    return
                table = service.assembled_table(shards[:1], pieces[:1])
                self.assertTrue(table.fault(0, 4096))
                table.unpin(0, 4096)


class BadClients(OnEachDevice, unittest.TestCase):
    def setUp(self) -> None:
        self.daemon = self.enterContext(self.make())

    def test_another_protocol_number_is_refused_with_both_numbers(self) -> None:
        with self.daemon.connect() as link:
            answer = wire.hello(link, protocol=77)
            self.assertEqual(wire.REFUSED, answer.type)
            self.assertEqual((wire.PROTOCOL, 77), struct.unpack_from("<II", answer.body))
            with self.assertRaises(ConnectionError):
                wire.receive(link)
        self.assertTrue(self.daemon.is_serving())

    def test_garbage_ends_the_session_and_nothing_else(self) -> None:
        good = self.enterContext(self.daemon.connect())
        self.assertEqual(wire.HELLO_REPLY, wire.hello(good).type)
        for garbage in (b"x", os.urandom(24), os.urandom(4096), b"\0" * 65536):
            with self.daemon.connect() as link:
                link.send(garbage)
                with self.assertRaises(ConnectionError):
                    while True:
                        wire.receive(link)
        # A good head with a bad body is answered before the end.
        with self.daemon.connect() as link:
            wire.hello(link)
            wire.send(link, wire.OPEN_TABLE, b"short", request=9)
            self.assertEqual(wire.FAILURE, wire.receive(link).type)
        self.assertEqual(wire.FAILURE, wire.open_table(good, 12345).type)
        self.assertTrue(self.daemon.is_serving())

    def test_connections_that_say_nothing_lock_nobody_out(self) -> None:
        with contextlib.ExitStack() as mute:
            for _ in range(200):
                mute.enter_context(self.daemon.connect())
            with self.daemon.connect() as link:
                self.assertEqual(wire.HELLO_REPLY, wire.hello(link).type)
            # 64 of a user may be mute; those beyond are gone, the oldest first, and the others follow in 5 s.
            self.assertTrue(daemon.wait_until(lambda: self.daemon.sockets() < 80), f"{self.daemon.sockets()} sockets")
            self.assertTrue(daemon.wait_until(lambda: self.daemon.sockets() < 16), f"{self.daemon.sockets()} sockets")

    def test_the_first_message_must_be_a_greeting(self) -> None:
        with self.daemon.connect() as link:
            answer = wire.open_table(link, 1)
            self.assertEqual(wire.FAILURE, answer.type)
            self.assertIn("hello", wire.failure_text(answer))

    def test_garbage_on_a_device_socket_ends_that_session_alone(self) -> None:
        path = self.daemon.folder / "m.safetensors"
        daemon.write_checkpoint(path)
        with self.daemon.connect() as link:
            attached = wire.attach(link, str(path))
            attached.device.send(os.urandom(64))
            with self.assertRaises(ConnectionError):
                wire.receive(link)
            attached.device.close()
        with self.daemon.connect() as link:
            attached = wire.attach(link, str(path))
            # A page that the table does not have.
            attached.device.send(wire.device_message(wire.FAULT, attached.table, attached.pages, 1, request=1))
            with self.assertRaises(ConnectionError):
                wire.receive(link)
            attached.device.close()
        self.assertTrue(self.daemon.is_serving())

    def test_a_client_that_does_not_read_stops_nobody(self) -> None:
        path = self.daemon.folder / "m.safetensors"
        daemon.write_checkpoint(path, tensors=16)
        mute = self.enterContext(self.daemon.connect())
        attached = wire.attach(mute, str(path))
        # Grants pile up unread, and questions unanswered.
        for page in range(attached.pages):
            attached.device.send(wire.device_message(wire.FAULT, attached.table, page, 1, request=page + 1))
        for request in range(10, 60):
            wire.send(mute, wire.QUERY, struct.pack("<II", 0, 2) + b"{}", request=request)
        for _ in range(5):
            self.assertTrue(self.daemon.is_serving())
        with self.daemon.connect() as link:
            other = wire.attach(link, str(path))
            other.device.send(wire.device_message(wire.FAULT, other.table, 0, other.pages, request=1))
            granted = 0
            while granted < other.pages:  # At once, or as their copies end.
                kind, batch, frames = wire.receive_device(other.device)
                self.assertEqual(wire.GRANTS, kind)
                granted += len(frames)
                for frame in frames:
                    os.close(frame)
                other.device.send(wire.device_message(wire.GRANTED, batch=batch))
            self.assertEqual(other.pages, granted)
            other.device.close()
        attached.device.close()

    def test_too_many_unanswered_requests_are_answered_busy_or_served(self) -> None:
        with self.daemon.connect() as link:
            wire.hello(link)
            for request in range(2, 202):
                wire.send(link, wire.QUERY, struct.pack("<II", 0, 2) + b"{}", request=request)
                self.assertNotEqual(wire.HELLO_REPLY, wire.receive(link).type)
        self.assertTrue(self.daemon.is_serving())


class BadFilesOnCuda(BadFiles):
    vendor = "cuda"


class BadFilesOnHip(BadFiles):
    vendor = "hip"


class CaseP01OnCuda(CaseP01):
    vendor = "cuda"


class CaseP01OnHip(CaseP01):
    vendor = "hip"


class BadClientsOnCuda(BadClients):
    vendor = "cuda"


class BadClientsOnHip(BadClients):
    vendor = "hip"


if __name__ == "__main__":
    unittest.main()
