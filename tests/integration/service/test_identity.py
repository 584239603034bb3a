# SPDX-License-Identifier: Apache-2.0
"""Case G05: one file by many names is one checkpoint; another file under the same name is another."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path

import daemon
from on_gpu import OnEachDevice

if not daemon.SANITIZED:
    sys.path.insert(0, str(daemon.BUILD / "python"))
    import penstock


class CaseG05(OnEachDevice, unittest.TestCase):
    def setUp(self) -> None:
        self.daemon = self.enterContext(self.make())
        self.file = self.daemon.folder / "m.safetensors"
        daemon.write_checkpoint(self.file)

    def load(self, path: Path) -> str:
        answer = self.daemon.ask("load", str(path))
        self.assertNotIn("error", answer)
        return str(answer["checkpoint"])

    def read_bytes(self) -> int:
        return int(self.daemon.device()["read_bytes"])

    def names(self) -> list[Path]:
        hard, soft = self.daemon.folder / "hard.safetensors", self.daemon.folder / "soft.safetensors"
        os.link(self.file, hard)
        soft.symlink_to(self.file)
        return [self.file, hard, soft]

    def test_links_that_arrive_together_are_loaded_once(self) -> None:
        loads = [subprocess.Popen([daemon.PENSTOCK, "--json", "load", name], env=self.daemon.environment,
                                  stdout=subprocess.DEVNULL) for name in self.names() * 3]
        self.assertEqual([0] * len(loads), [load.wait(timeout=60) for load in loads])
        status = self.daemon.ask("status")
        self.assertEqual(1, len(status["checkpoints"]))
        self.assertEqual(1, status["parses"])
        if self.read_bytes() > self.file.stat().st_size + 4096:
            self.fail("some of it was read twice: " + self.daemon.story())

    @unittest.skipIf(daemon.SANITIZED, daemon.NO_PACKAGE)
    def test_each_name_shows_the_bytes_of_the_file(self) -> None:
        content = self.file.read_bytes()
        with penstock.connect(socket=str(self.daemon.socket)) as service:
            for name in self.names():
                checkpoint = service.open(name)
                data = b"".join(checkpoint.read(f"t{index}") for index in range(8))
                self.assertTrue(content.endswith(data) and len(data) == 8 * 4 * daemon.MIB, name)
            # In place, and as long as before: whoever opens it now must not see what was resident.
            daemon.write_checkpoint(self.file, seed=2)
            fresh = service.open(self.file)
            self.assertTrue(self.file.read_bytes().endswith(b"".join(fresh.read(f"t{index}") for index in range(8))))

    @contextlib.contextmanager
    def mounted(self, *words: str) -> Iterator[Path]:
        """A folder with something mounted on it; skips where that is not allowed."""
        folder = self.daemon.folder / "mounted"
        folder.mkdir()
        if subprocess.run(["mount", *words, str(folder)], capture_output=True, check=False).returncode:
            self.skipTest("requires the right to mount: mount " + " ".join(words))
        try:
            yield folder
        finally:
            # Lazily: the service may have a file of it open.
            subprocess.run(["umount", "-l", folder], check=True)

    def test_a_bind_mount_is_the_same_file(self) -> None:
        with self.mounted("--bind", str(self.daemon.folder)) as folder:
            loads = [subprocess.Popen([daemon.PENSTOCK, "--json", "load", name], env=self.daemon.environment,
                                      stdout=subprocess.DEVNULL) for name in (*self.names(), folder / "m.safetensors")]
            self.assertEqual([0] * len(loads), [load.wait(timeout=60) for load in loads])
            self.assertEqual(1, self.daemon.ask("status")["parses"])

    @unittest.skipIf(daemon.SANITIZED, daemon.NO_PACKAGE)
    def test_a_file_seen_through_an_overlay_has_its_bytes(self) -> None:
        # The overlay shows another device number: a checkpoint of its own, with a load of its own.
        lower, empty = self.daemon.folder / "lower", self.daemon.folder / "empty"
        lower.mkdir()
        empty.mkdir()
        shutil.copyfile(self.file, lower / "m.safetensors")
        with self.mounted("-t", "overlay", "-o", f"lowerdir={lower}:{empty}", "overlay") as folder:
            with penstock.connect(socket=str(self.daemon.socket)) as service:
                checkpoint = service.open(folder / "m.safetensors")
                data = b"".join(checkpoint.read(f"t{index}") for index in range(8))
                self.assertTrue(self.file.read_bytes().endswith(data))

    @unittest.skipIf(daemon.SANITIZED, daemon.NO_PACKAGE)
    def test_a_reflink_copy_is_another_checkpoint(self) -> None:
        # It shares blocks on the disk, not the file: either may be written later without the other.
        image = self.daemon.folder / "image"
        with open(image, "wb") as disk:
            disk.truncate(256 * daemon.MIB)
        if not shutil.which("mkfs.btrfs"):
            self.skipTest("requires mkfs.btrfs (btrfs-progs)")
        subprocess.run(["mkfs.btrfs", "-q", image], check=True, capture_output=True)
        with self.mounted("-o", "loop", str(image)) as folder:
            original, copy = folder / "m.safetensors", folder / "copy.safetensors"
            daemon.write_checkpoint(original)
            subprocess.run(["cp", "--reflink=always", original, copy], check=True)
            self.assertNotEqual(self.load(original), self.load(copy))
            self.assertEqual(2, self.daemon.ask("status")["parses"])
            content = original.read_bytes()
            with open(copy, "r+b") as target:
                target.seek(-4 * daemon.MIB, os.SEEK_END)
                target.write(bytes(4 * daemon.MIB))
            with penstock.connect(socket=str(self.daemon.socket)) as service:
                for path in (original, copy):
                    checkpoint = service.open(path)
                    data = b"".join(checkpoint.read(f"t{index}") for index in range(8))
                    self.assertTrue(path.read_bytes().endswith(data), path)
            self.assertEqual(content, original.read_bytes())

    def test_a_copy_is_another_checkpoint(self) -> None:
        copy = self.daemon.folder / "copy.safetensors"
        shutil.copyfile(self.file, copy)
        self.assertNotEqual(self.load(self.file), self.load(copy))
        self.assertEqual(2, self.daemon.ask("status")["parses"])

    def test_a_new_file_at_the_same_path_is_loaded_anew(self) -> None:
        old = self.load(self.file)
        self.file.unlink()
        daemon.write_checkpoint(self.file, seed=2)
        self.assertNotEqual(old, self.load(self.file))

    def test_content_written_in_place_with_its_time_put_back_is_loaded_anew(self) -> None:
        old = self.load(self.file)
        before = self.file.stat()
        other = self.daemon.folder / "other.safetensors"
        daemon.write_checkpoint(other, seed=3)
        with open(self.file, "r+b") as target:
            target.write(other.read_bytes())
        os.utime(self.file, ns=(before.st_atime_ns, before.st_mtime_ns))
        self.assertEqual(before.st_mtime_ns, self.file.stat().st_mtime_ns)
        self.assertNotEqual(old, self.load(self.file))

    def test_a_file_renamed_over_the_path_is_loaded_anew(self) -> None:
        old = self.load(self.file)
        other = self.daemon.folder / "other.safetensors"
        daemon.write_checkpoint(other, seed=4)
        other.rename(self.file)
        self.assertNotEqual(old, self.load(self.file))

    def test_the_pages_of_a_replaced_file_are_given_back(self) -> None:
        self.load(self.file)
        resident = self.daemon.device()["resident_bytes"]
        with open(self.file, "r+b") as target:
            head = target.read(8)
            target.seek(0)
            target.write(head)
        self.load(self.file)
        self.assertTrue(daemon.wait_until(lambda: self.daemon.device()["resident_bytes"] <= resident))


class CaseG05OnCuda(CaseG05):
    vendor = "cuda"


class CaseG05OnHip(CaseG05):
    vendor = "hip"


if __name__ == "__main__":
    unittest.main()
