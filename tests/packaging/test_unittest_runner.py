# SPDX-License-Identifier: Apache-2.0
"""The runner that turns unittest files into countable cases."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CHECKS = Path(__file__).resolve().parents[2] / "packaging" / "checks"
sys.path.insert(0, str(CHECKS))

from results import read_cases  # noqa: E402

SAMPLE = """
import unittest
class A(unittest.TestCase):
    def test_a(self): pass
    def test_b(self): self.fail("no")
    def test_c(self): raise RuntimeError("no")
    @unittest.skip("requires x")
    def test_d(self): pass
    def test_e(self):
        for i in range(3):
            with self.subTest(i): self.assertEqual(0, i)
"""


class Runner(unittest.TestCase):
    def run_on(self, text):
        with tempfile.TemporaryDirectory() as folder:
            if text:
                (Path(folder) / "test_sample.py").write_text(text, encoding="utf-8")
            output = Path(folder) / "out" / "x.xml"
            process = subprocess.run([sys.executable, str(CHECKS / "run_unittests.py"), folder, str(output)],
                                     capture_output=True, check=False)
            return process.returncode, sorted(case.state for case in read_cases(output, "x"))

    def test_states(self):
        status, states = self.run_on(SAMPLE)
        self.assertEqual(1, status)
        self.assertEqual(["failed", "failed", "failed", "passed", "skipped"], states)

    def test_a_file_that_does_not_load(self):
        self.assertEqual((1, ["failed"]), self.run_on("import does_not_exist\n"))

    def test_a_folder_without_tests(self):
        self.assertEqual((1, []), self.run_on(""))


if __name__ == "__main__":
    unittest.main()
