# SPDX-License-Identifier: Apache-2.0
"""Files that the service reads into host buffers."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(os.environ["PENSTOCK_SOURCE_DIR"]) / "tests/integration/service"))

import daemon  # noqa: E402
import hanging_files  # noqa: E402
import penstock  # noqa: E402
from penstock.memory import HostBuffer  # noqa: E402

MIB = 1 << 20
SIZE = 5 * MIB + 12345


def read_again_and_again(socket: str, path: str, started: object) -> None:
    """Until it is killed."""
    with penstock.connect(socket=socket) as service, open(path, "rb") as file:
        buffer = service.host_buffer(8 * MIB)
        buffer.grow(SIZE)
        while True:
            buffer.read(0, file.fileno(), 0, SIZE)
            started.set()  # type: ignore[attr-defined]


class BufferReads(unittest.TestCase):
    def setUp(self) -> None:
        self.daemon = self.enterContext(daemon.Daemon(capacity="64MiB"))
        self.service = self.enterContext(penstock.connect(socket=str(self.daemon.socket)))
        self.path = self.daemon.folder / "weights"
        self.content = os.urandom(SIZE)
        self.path.write_bytes(self.content)

    def buffer(self, nbytes: int = 8 * MIB, service: penstock.Service | None = None) -> HostBuffer:
        buffer = (service or self.service).host_buffer(16 * MIB)
        buffer.grow(nbytes)
        return buffer

    def read(self, buffer: HostBuffer, offset: int, file_offset: int, nbytes: int, path: Path | None = None) -> bytes:
        with open(path or self.path, "rb") as file:
            buffer.read(offset, file.fileno(), file_offset, nbytes, 20)
        return ctypes.string_at(buffer.address + offset, nbytes)

    def client(self) -> dict[str, dict[str, int]]:
        return next(one for one in self.daemon.ask("status")["clients"] if one["pid"] == os.getpid())

    def empty_the_page_cache(self) -> None:
        with open(self.path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def test_bytes_of_any_place_come_to_any_place(self) -> None:
        buffer = self.buffer()
        for cached in (True, False):
            for offset, start, nbytes in ((0, 0, SIZE), (17, 4095, 3 * MIB + 1), (4096, MIB - 1, 2), (1, SIZE - 1, 1)):
                if not cached:
                    self.empty_the_page_cache()
                with self.subTest(cached=cached, offset=offset, start=start, nbytes=nbytes):
                    ctypes.memset(buffer.address, 0xee, 8 * MIB)
                    self.assertEqual(self.content[start:start + nbytes], self.read(buffer, offset, start, nbytes))
                    self.assertEqual(b"\xee" * offset, ctypes.string_at(buffer.address, offset))
                    self.assertEqual(0xee, ctypes.string_at(buffer.address + offset + nbytes, 1)[0])
        read = self.client()["read_into_buffers"]
        self.assertGreater(read["cached_bytes"] + read["direct_bytes"], 2 * SIZE)

    def test_a_range_lies_in_several_pieces_of_a_buffer(self) -> None:
        buffer = self.buffer(5000)
        buffer.grow(3 * MIB)
        buffer.grow(6 * MIB)
        self.assertEqual(self.content, self.read(buffer, 100, 0, SIZE))

    def test_wrong_ranges_and_things_are_refused_by_name(self) -> None:
        buffer = self.buffer(MIB)
        with self.assertRaises(penstock.TruncatedError):
            self.read(buffer, 0, SIZE - 10, 11)
        with self.assertRaises(penstock.InvalidArgumentError):
            self.read(buffer, MIB - 1, 0, 2)
        with self.assertRaises(penstock.InvalidArgumentError):
            buffer.read(0, 9999, 0, 1)
        pipe, other = os.pipe()
        self.addCleanup(os.close, pipe)
        self.addCleanup(os.close, other)
        with self.assertRaises(penstock.NotAFileError):
            buffer.read(0, pipe, 0, 1)
        with open(self.path, "ab") as file, self.assertRaises(penstock.InvalidArgumentError):
            buffer.read(0, file.fileno(), 0, 1)
        self.assertEqual(self.content[:9], self.read(buffer, 0, 0, 9))

    def test_a_file_that_became_shorter_or_another_is_found_out(self) -> None:
        buffer = self.buffer()
        self.assertEqual(self.content[-5:], self.read(buffer, 0, SIZE - 5, 5))
        os.truncate(self.path, MIB)
        with self.assertRaises(penstock.TruncatedError):
            self.read(buffer, 0, SIZE - 5, 5)
        self.path.write_bytes(b"other" * 1000)
        self.assertEqual(b"other", self.read(buffer, 0, 0, 5))

    def test_many_files_are_known_and_forgotten(self) -> None:
        buffer = self.buffer(MIB)
        for number in list(range(100)) * 2:
            path = self.daemon.folder / f"file{number}"
            path.write_bytes(number.to_bytes(2, "little") * 3000)
            self.assertEqual(number.to_bytes(2, "little"), self.read(buffer, 10, 4098, 2, path))

    def test_two_clients_and_several_threads_get_their_own_bytes(self) -> None:
        failures: list[object] = []

        def work(seed: int) -> None:
            try:
                with penstock.connect(socket=str(self.daemon.socket)) as service:
                    buffer = self.buffer(2 * MIB, service)
                    for step in range(20):
                        start = (seed * 7919 * step) % (SIZE - MIB)
                        if self.read(buffer, step, start, MIB) != self.content[start:start + MIB]:
                            failures.append((seed, step))
            except BaseException as error:  # noqa: BLE001
                failures.append(error)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        self.assertEqual([], failures)

    def test_a_buffer_that_is_cut_meanwhile_harms_nobody(self) -> None:
        stop = threading.Event()
        seen: set[str] = set()

        def cut() -> None:
            while not stop.is_set():
                shared.truncate(MIB)
                shared.grow(6 * MIB)

        shared = self.buffer(6 * MIB)
        thread = threading.Thread(target=cut)
        thread.start()
        with open(self.path, "rb") as file:
            for step in range(60):
                if step % 2:
                    self.empty_the_page_cache()
                try:
                    shared.read(0, file.fileno(), 0, SIZE, 20)
                    seen.add("done")
                except penstock.PenstockError as error:
                    seen.add(error.kind)
        stop.set()
        thread.join()
        self.assertLessEqual(seen, {"done", "invalid_argument", "not_found"})
        self.assertEqual(self.content[:100], self.read(self.buffer(), 0, 0, 100))

    def test_a_client_that_is_killed_while_it_reads_leaves_nothing(self) -> None:
        folder = Path(f"/proc/{self.daemon.process.pid}/task")

        def threads() -> int:
            return sum(path.read_text(encoding="ascii").startswith("penstock-buffer") for path in folder.glob("*/comm"))

        self.assertEqual(self.content, self.read(self.buffer(), 0, 0, SIZE))
        own = threads()
        self.assertGreater(own, 0)
        context = multiprocessing.get_context("spawn")
        started = context.Event()
        child = context.Process(target=read_again_and_again, args=(str(self.daemon.socket), str(self.path), started))
        child.start()
        self.assertTrue(started.wait(60))
        self.assertGreater(threads(), own)
        os.kill(child.pid or 0, signal.SIGKILL)
        child.join()
        self.assertTrue(daemon.wait_until(lambda: self.daemon.ask("status")["host"]["locked_bytes"] == 0))
        self.assertTrue(daemon.wait_until(lambda: threads() == own))
        self.assertEqual(self.content, self.read(self.buffer(), 0, 0, SIZE))

    def test_without_a_service_it_says_so(self) -> None:
        buffer = self.buffer(MIB)
        self.read(buffer, 0, 0, 100)
        self.daemon.process.kill()
        self.daemon.process.wait()
        with self.assertRaises((penstock.DisconnectedError, penstock.UnreachableError)):
            self.read(buffer, 0, 0, 100)
        self.assertEqual(self.content[:100], ctypes.string_at(buffer.address, 100))

    @unittest.skipIf(hanging_files.missing_requirement(), hanging_files.missing_requirement())
    def test_a_file_system_that_hangs_holds_up_its_own_client_alone(self) -> None:
        hung = self.enterContext(hanging_files.HangingFiles(self.daemon.folder / "hung", self.content))
        descriptor = os.open(hung.path, os.O_RDONLY)
        self.addCleanup(os.close, descriptor)
        self.addCleanup(hung.thaw)
        buffer = self.buffer()
        buffer.read(0, descriptor, 0, 10, 20)
        late: list[BaseException] = []

        def read() -> None:
            try:
                buffer.read(0, descriptor, 4 * MIB, MIB, 0.3)  # Beyond what the kernel reads ahead.
            except penstock.PenstockError as error:
                late.append(error)

        hung.freeze()
        reading = threading.Thread(target=read)
        reading.start()
        reading.join(20)
        with penstock.connect(socket=str(self.daemon.socket)) as other:
            self.assertEqual(self.content, self.read(self.buffer(service=other), 0, 0, SIZE))
        self.assertEqual(["deadline"], [one.kind for one in late])
        ctypes.memset(buffer.address, 0xaa, 2 * MIB)
        hung.thaw()
        buffer.read(MIB, descriptor, 4 * MIB, MIB, 20)
        self.assertEqual(self.content[4 * MIB:5 * MIB], ctypes.string_at(buffer.address + MIB, MIB))
        # What nobody waited for any more didn't come.
        self.assertEqual(b"\xaa" * MIB, ctypes.string_at(buffer.address, MIB))


if __name__ == "__main__":
    unittest.main()
