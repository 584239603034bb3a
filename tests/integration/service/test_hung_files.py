# SPDX-License-Identifier: Apache-2.0
"""Files whose filesystem has stopped answering when the service lets go of them."""

from __future__ import annotations

import os
import time
import unittest

import daemon
import hanging_files
import wire

IDLE_ENTRIES_MAX = 256


@unittest.skipIf(hanging_files.missing_requirement(), hanging_files.missing_requirement())
class LetGo(unittest.TestCase):
    def setUp(self) -> None:
        self.daemon = self.enterContext(daemon.Daemon())
        model = self.daemon.folder / "m"
        daemon.write_checkpoint(model)
        self.content = model.read_bytes()
        self.hung = self.enterContext(hanging_files.HangingFiles(self.daemon.folder / "hung", self.content))

    def open_hung(self, link: object) -> None:
        descriptor = os.open(self.hung.path, os.O_RDONLY)
        try:
            wire.send_checkpoint(link, descriptor, "m.safetensors")  # type: ignore[arg-type]
            self.assertNotEqual(wire.FAILURE, wire.receive(link).type)  # type: ignore[arg-type]
        finally:
            os.close(descriptor)

    def page_cache_bytes(self, name: str) -> int | None:
        return next(one.get("page_cache_bytes") for one in self.daemon.ask("status")["checkpoints"] if one["name"] == name)

    def test_an_entry_that_is_dropped_keeps_nobody(self) -> None:
        with self.daemon.connect() as link:
            wire.hello(link)
            self.open_hung(link)
        with self.daemon.connect() as link:
            wire.hello(link)
            for number in range(IDLE_ENTRIES_MAX + 1):
                path = self.daemon.folder / f"m{number}"
                daemon.write_sparse_checkpoint(path, 1, 4096)
                wire.open_checkpoint(link, str(path), request=number + 2)
            self.hung.freeze()
        self.assertTrue(daemon.wait_until(lambda: "fuse" in self.daemon.stacks()), self.daemon.stacks())
        start = time.monotonic()
        found = [one["name"] for one in self.daemon.ask("status")["checkpoints"]]
        self.assertNotIn("m.safetensors", found)
        self.assertLess(time.monotonic() - start, 5, "it waits for the filesystem")
        with self.daemon.connect() as link:
            wire.hello(link)
            wire.open_checkpoint(link, str(self.daemon.folder / "m"))
            self.assertTrue(daemon.wait_until(lambda: self.page_cache_bytes("m") is not None), "nobody looks at files any more")
        self.hung.thaw()
        self.assertTrue(daemon.wait_until(lambda: "fuse" not in self.daemon.stacks()), self.daemon.stacks())

    def test_a_second_descriptor_of_a_file_keeps_nobody(self) -> None:
        with self.daemon.connect() as link, self.daemon.connect() as other:
            for one in (link, other):
                wire.hello(one)
            self.open_hung(link)
            descriptor = os.open(self.hung.path, os.O_RDONLY)
            # No process may be started now: it would close its copy of the descriptor, and wait.
            self.hung.freeze()
            try:
                wire.send_checkpoint(link, descriptor, "m.safetensors", request=3)
                self.assertTrue(daemon.wait_until(lambda: "fuse" in self.daemon.stacks()), self.daemon.stacks())
                answer = wire.open_checkpoint(other, str(self.daemon.folder / "m"))
                self.assertNotEqual(wire.FAILURE, answer.type)
            finally:
                self.hung.thaw()
            self.assertNotEqual(wire.FAILURE, wire.receive(link).type)
            os.close(descriptor)


if __name__ == "__main__":
    unittest.main()
