# SPDX-License-Identifier: Apache-2.0
"""tests/gpu/check when its time is short, and when it is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

CHECK = Path(__file__).with_name("check")
BUILD = os.environ["PENSTOCK_BUILD_DIR"]


class Check(unittest.TestCase):
    def setUp(self) -> None:
        self.out = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="penstock-check-")))

    def start(self, *words: str, **more: str) -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, CHECK, "--prebuilt", BUILD, "--dry-run", "--out", self.out, *words],
                                stdout=subprocess.PIPE, text=True, env={**os.environ, **more})

    def lines(self) -> list[dict[str, object]]:
        try:
            text = (self.out / "gpu_check.jsonl").read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def test_what_has_no_time_left_is_skipped_by_name(self) -> None:
        start = time.monotonic()
        check = self.start("--budget", "7")
        table, _ = check.communicate(timeout=60)
        self.assertEqual(0, check.returncode, table)
        self.assertLess(time.monotonic() - start, 7 + 5)
        rows = self.lines()
        skipped = [row for row in rows if str(row["why"]).startswith("requires more time")]
        self.assertTrue(skipped, table)
        # Each of the experiments of each driver is named, run or not.
        for run in ("fake-cuda", "fake-hip-7.1"):
            named = {row["id"] for row in rows if row["run"] == run}
            self.assertLessEqual({f"E{number}" for number in range(1, 14)} | {"load", "fault", "kernels"}, named, table)
        result = json.loads((self.out / "gpu_check.json").read_text(encoding="utf-8"))
        self.assertEqual(len(rows), sum(len(run) for run in result["runs"].values()))

    def test_a_tool_of_the_driver_that_hangs_is_left_behind(self) -> None:
        tools = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="penstock-tools-")))
        (tools / "nvidia-smi").write_text("#!/bin/sh\ntrap '' TERM INT\nexec sleep 1000\n", encoding="utf-8")
        (tools / "nvidia-smi").chmod(0o755)
        check = self.start("--budget", "7", PATH=f"{tools}:{os.environ['PATH']}")
        table, _ = check.communicate(timeout=60)
        self.assertEqual(0, check.returncode, table)
        result = json.loads((self.out / "gpu_check.json").read_text(encoding="utf-8"))
        self.assertIn("no answer", result["machine"]["nvidia_smi"])

    def test_a_run_that_is_killed_leaves_its_figures(self) -> None:
        check = self.start()
        end = time.monotonic() + 60
        while not any(row.get("figures") for row in self.lines() if row["id"] != "contract"):
            self.assertLess(time.monotonic(), end)
            self.assertIsNone(check.poll())
            time.sleep(0.01)
        check.send_signal(signal.SIGKILL)
        check.communicate()
        self.assertFalse((self.out / "gpu_check.json").exists())
        self.assertTrue(any(row.get("figures") for row in self.lines()))


if __name__ == "__main__":
    unittest.main()
