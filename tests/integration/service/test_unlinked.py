# SPDX-License-Identifier: Apache-2.0
"""A checkpoint whose file was removed: nothing of it is kept once nobody uses it, and whoever uses it goes on."""

from __future__ import annotations

import contextlib
import os
import unittest
from pathlib import Path
from typing import Any

import daemon
import wire
from on_gpu import OnEachDevice


class Unlinked(OnEachDevice, unittest.TestCase):
    def setUp(self) -> None:
        self.daemon = self.enterContext(self.make())
        self.file = self.daemon.folder / "removed.safetensors"
        daemon.write_checkpoint(self.file)

    def held(self) -> list[str]:
        """Descriptors and mappings of the file that the service has."""
        process = Path(f"/proc/{self.daemon.process.pid}")
        found = [line for line in (process / "maps").read_text().splitlines() if self.file.name in line]
        for entry in (process / "fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                link = os.readlink(entry)
                if self.file.name in link:
                    found.append(link)
        return found

    def checkpoints(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.daemon.ask("status")["checkpoints"]
        return found

    def test_nothing_of_it_is_kept_when_nobody_uses_it(self) -> None:
        self.assertNotIn("error", self.daemon.ask("load", str(self.file)))
        self.assertTrue(self.held())
        self.file.unlink()
        self.assertTrue(daemon.wait_until(lambda: not self.held(), 10), self.held())
        self.assertEqual([], self.checkpoints())

    def test_it_goes_on_for_whoever_uses_it(self) -> None:
        with self.daemon.connect() as link:
            attached = wire.attach(link, str(self.file))
            self.file.unlink()
            noticed = daemon.wait_until(lambda: self.checkpoints()[0].get("unlinked", False), 10)
            self.assertTrue(noticed, self.checkpoints())
            self.assertIn("page_cache_bytes", self.checkpoints()[0])
            attached.device.send(wire.device_message(wire.FAULT, attached.table, attached.pages - 1, 1, request=1))
            self.assertEqual(wire.GRANTS, wire.receive_device(attached.device)[0])
            self.assertTrue(self.held())
            attached.device.close()
        self.assertTrue(daemon.wait_until(lambda: not self.held(), 10), self.held())

    def test_what_never_had_a_name_stays_warm(self) -> None:
        memory = os.memfd_create("nameless")
        os.write(memory, self.file.read_bytes())
        with self.daemon.connect() as link:
            wire.attach(link, f"/proc/self/fd/{memory}").device.close()
        os.close(memory)
        self.assertNotIn("error", self.daemon.ask("load", str(self.file)))
        self.file.unlink()
        # Both are looked at together: what would let go of the one lets go of the other not later.
        self.assertTrue(daemon.wait_until(lambda: not self.held(), 10), self.held())
        self.assertEqual(1, len(self.checkpoints()))


class UnlinkedOnCuda(Unlinked):
    vendor = "cuda"


class UnlinkedOnHip(Unlinked):
    vendor = "hip"


if __name__ == "__main__":
    unittest.main()
