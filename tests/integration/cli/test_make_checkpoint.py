# SPDX-License-Identifier: Apache-2.0
"""penstock make-checkpoint: whole files, equal for equal arguments, and nothing left when it fails."""

import contextlib
import hashlib
import json
import os
import signal
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

from command import LIMIT_SECONDS, PROGRAM, penstock


def tensors_of(content):
    """Name -> bytes, by an independent reader."""
    length, = struct.unpack("<Q", content[:8])
    header = json.loads(content[8:8 + length])
    header.pop("__metadata__")
    data = content[8 + length:]
    return {name: data[entry["data_offsets"][0]:entry["data_offsets"][1]] for name, entry in header.items()}


class MakeCheckpoint(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.path = self.folder / "a.safetensors"

    def make(self, *words, shape="tiny"):
        return penstock("--json", "make-checkpoint", shape, self.path, *words)

    def entries(self):
        return sorted(entry.name for entry in self.folder.iterdir())

    def test_checksums_are_those_of_the_bytes(self):
        answer = self.make("--bytes", "20MiB", shape="sdxl")
        self.assertEqual(answer.code, 0)
        content = self.path.read_bytes()
        self.assertEqual(answer.json["file"], str(self.path))
        self.assertEqual(answer.json["bytes"], len(content))
        self.assertEqual(answer.json["sha256_file"], hashlib.sha256(content).hexdigest())
        self.assertGreaterEqual(len(content), 20 * 2**20)
        self.assertLess(len(content), 21 * 2**20)
        tensors = tensors_of(content)
        self.assertEqual(answer.json["tensors"], len(tensors))
        lines = Path(str(self.path) + ".sha256").read_text().splitlines()
        self.assertEqual(sorted(lines), sorted(f"{hashlib.sha256(data).hexdigest()}  {name}" for name, data in tensors.items()))

    def test_equal_arguments_give_equal_files(self):
        first = self.make("--seed", "5").json["sha256_file"]
        self.assertEqual(self.make("--seed", "5", "--force").json["sha256_file"], first)
        self.assertNotEqual(self.make("--seed", "6", "--force").json["sha256_file"], first)

    def test_the_content_of_a_seed_never_changes(self):
        self.assertEqual(self.make().json["sha256_file"], "6f61929dcaf07c230ddb2280ffc03e342259025b930f0770bf7a34021805f40a")

    def test_inspect_accepts_every_shape(self):
        for shape, size in (("sdxl", ["--bytes", "1MiB"]), ("flux-dev-fp8", ["--bytes", "1MiB"]),
                            ("t5-xxl", ["--bytes", "1MiB"]), ("tiny", [])):
            with self.subTest(shape=shape):
                made = self.make("--force", *size, shape=shape)
                self.assertEqual(made.code, 0)
                self.assertEqual(penstock("--json", "inspect", self.path).json["warnings"], [])

    def test_keeps_what_is_there_unless_forced(self):
        for name in ("a.safetensors", "a.safetensors.sha256"):
            with self.subTest(name=name):
                (self.folder / name).write_text("precious")
                answer = self.make()
                self.assertEqual((answer.code, answer.error["kind"]), (1, "invalid_argument"))
                self.assertIn("exists already", answer.error["message"])
                self.assertEqual(self.entries(), [name])
                self.assertEqual((self.folder / name).read_text(), "precious")
                self.assertEqual(self.make("--force").code, 0)
                self.assertEqual(self.entries(), ["a.safetensors", "a.safetensors.sha256"])
                for entry in self.folder.iterdir():
                    entry.unlink()

    def test_a_missing_folder_is_named(self):
        answer = penstock("--json", "make-checkpoint", "tiny", self.folder / "missing" / "a")
        self.assertEqual(answer.code, 1)
        self.assertIn("missing/a: open: ENOENT", answer.error["message"])

    def test_a_full_disk_is_said_and_nothing_remains(self):
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", self.folder],
                                 capture_output=True, check=False)
        if mounted.returncode != 0:
            self.skipTest("requires the right to mount a tmpfs")
        self.addCleanup(subprocess.run, ["umount", self.folder], check=True)
        answer = self.make("--bytes", "20MiB")
        self.assertEqual((answer.code, answer.error["kind"]), (1, "exhausted"))
        self.assertIn("no room left", answer.error["message"])
        self.assertEqual(self.entries(), [])

    def opened_here(self, process: int) -> int:
        links = []
        for descriptor in Path(f"/proc/{process}/fd").iterdir():
            with contextlib.suppress(OSError):
                links.append(os.readlink(descriptor))
        return sum(link.startswith(str(self.folder)) for link in links)

    def test_an_interruption_leaves_nothing(self):
        child = subprocess.Popen([PROGRAM, "--json", "make-checkpoint", "sdxl", self.path, "--bytes", "4GiB"],
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        self.addCleanup(child.kill)
        # Its handlers stand before its files do, which may be without a name.
        while child.poll() is None and self.opened_here(child.pid) < 2:
            os.sched_yield()
        child.send_signal(signal.SIGTERM)
        out = child.communicate(timeout=LIMIT_SECONDS)[0]
        self.assertEqual(child.returncode, 1)
        self.assertEqual(json.loads(out)["error"]["kind"], "cancelled")
        self.assertEqual(self.entries(), [])


if __name__ == "__main__":
    unittest.main()
