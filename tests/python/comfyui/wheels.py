# SPDX-License-Identifier: Apache-2.0
"""The published wheels of comfy_aimdo, from the package index: read, and run beside ours; never installed."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

LIST = Path(__file__).with_name("requirements-wheels.txt")
LINES = [line for line in LIST.read_text().splitlines() if line and not line.startswith("#")]
VERSIONS = [line.split()[0].partition("==")[2] for line in LINES]


class Wheels:
    """Downloaded once for a class of tests, side by side."""

    def __init__(self, test: type[unittest.TestCase]) -> None:
        folder = tempfile.TemporaryDirectory()
        test.addClassCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        running = []
        for number, line in enumerate(LINES):
            target = self.folder / str(number)
            target.mkdir()
            (target / "requirements.txt").write_text(line + "\n")
            running.append(subprocess.Popen(
                [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps",
                 "--require-hashes", "--only-binary=:all:", "-d", str(target), "-r", str(target / "requirements.txt")],
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
        self._problems = [(process.communicate()[1], process.returncode) for process in running]

    def path(self, test: unittest.TestCase, number: int) -> Path:
        """Skips the test where the index can't be reached."""
        text, status = self._problems[number]
        found = list((self.folder / str(number)).glob("*.whl"))
        if status != 0 or not found:
            if "HASH" in text.upper() and "MISMATCH" in text.upper():
                test.fail(text)
            test.skipTest(f"requires the package index for {LINES[number].split()[0]}: {text.strip()[-200:]}")
        return found[0]

    def unpacked(self, test: unittest.TestCase, number: int) -> Path:
        """A folder to import it from."""
        target = self.folder / str(number) / "site"
        if not target.exists():
            with zipfile.ZipFile(self.path(test, number)) as archive:
                archive.extractall(target)
        return target
