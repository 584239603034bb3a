# SPDX-License-Identifier: Apache-2.0
"""The self test must not miss a failure: how its verdict follows from what ctest and programs wrote."""

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "packaging" / "checks"))

from outcomes import Case, Outcome  # noqa: E402
from report import print_report  # noqa: E402
from results import read_ctest  # noqa: E402

PASSING = '<testcase name="Works" classname="Suite" status="run" result="completed"/>'
FAILING = ('<testcase name="Breaks" classname="Suite" status="run" result="completed">'
           '<failure message="a.cpp:5&#x0A;Expected: 1"/></testcase>')
SKIPPING = ('<testcase name="Skips" classname="Suite" status="run" result="skipped">'
            '<skipped message="../a.cpp:4&#x0A;requires a GPU&#x0A;"/></testcase>')


class Verdicts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def read(self, status, own=None, child="", console=""):
        """One test `unit_a` as ctest saw it, with or without a file of its own."""
        junit = self.folder / "ctest.xml"
        junit.write_text(f'<testsuite><testcase name="unit_a" status="{status}">{child}</testcase></testsuite>',
                         encoding="utf-8")
        if own is not None:
            (self.folder / "unit_a.xml").write_text(own, encoding="utf-8")
        return read_ctest(junit, self.folder, console)

    def states(self, *arguments, **options):
        return [case.state for case in self.read(*arguments, **options)]

    def test_cases_of_a_program_count_singly(self):
        own = f"<testsuites><testsuite>{PASSING}{SKIPPING}{FAILING}</testsuite></testsuites>"
        cases = self.read("fail", own)
        self.assertEqual(["passed", "skipped", "failed"], [case.state for case in cases])
        self.assertEqual("requires a GPU", cases[1].reason)
        self.assertEqual("unit_a: Suite.Breaks", cases[2].name)
        self.assertIn("a.cpp:5", cases[2].reason)

    def test_a_program_that_fails_without_a_failed_case_is_a_failure(self):
        self.assertEqual(["passed", "failed"], self.states("fail", f"<testsuites>{PASSING}</testsuites>"))

    def test_a_program_that_crashed_wrote_nothing(self):
        console = " 3/10 Test  #3: unit_a ........***Exception: SegFault  0.00 sec\n"
        self.assertEqual([Case("unit_a", "failed", "Exception: SegFault")], self.read("fail", console=console))

    def test_a_program_that_ran_no_case_is_a_failure(self):
        self.assertEqual(["failed"], self.states("run", "<testsuites/>"))

    def test_a_file_that_was_cut_is_a_failure(self):
        self.assertEqual(["failed"], self.states("run", "<testsuites><testcase"))

    def test_a_program_without_a_file_counts_once(self):
        self.assertEqual(["passed"], self.states("run"))

    def test_a_skip_by_exit_status_has_the_last_line_as_its_reason(self):
        child = '<skipped message="SKIP_RETURN_CODE=77"/><system-out>words\nrequires spin\n</system-out>'
        self.assertEqual([Case("unit_a", "skipped", "requires spin")], self.read("notrun", child=child))

    def test_a_program_that_is_not_there_is_no_skip(self):
        child = '<skipped message="Unable to find executable"/>'
        self.assertEqual(["failed"], self.states("notrun", child=child))

    def test_disabling_a_test_is_a_failure(self):
        self.assertEqual(["failed"], self.states("disabled"))

    def test_a_status_that_ctest_may_invent_is_a_failure(self):
        self.assertEqual(["failed"], self.states("surprise"))


class Report(unittest.TestCase):
    def report(self, *cases):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            status = print_report([Outcome("release", list(cases)), Outcome("fuzz", absent="no such test")])
        return status, output.getvalue()

    def test_the_last_line_counts(self):
        status, text = self.report(Case("a", "passed"), Case("b", "passed"), Case("c", "skipped", "requires x"))
        self.assertEqual(0, status)
        self.assertEqual("2 passed, 0 failed, 1 skipped", text.splitlines()[-1])
        self.assertIn("requires x", text)

    def test_one_failure_fails_all(self):
        status, text = self.report(Case("a", "passed"), Case("b", "failed", "broken"))
        self.assertEqual(1, status)
        self.assertEqual("1 passed, 1 failed, 0 skipped", text.splitlines()[-1])
        self.assertIn("b [release]: broken", text)

    def test_nothing_ran_is_a_failure(self):
        self.assertEqual(1, self.report()[0])
        self.assertEqual(1, self.report(Case("a", "skipped", "requires x"))[0])


if __name__ == "__main__":
    unittest.main()
