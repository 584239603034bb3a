# SPDX-License-Identifier: Apache-2.0
"""Runs the unittest files of a folder and writes the outcome of each case as JUnit XML.

usage: run_unittests.py FOLDER XML
"""

import sys
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path


class _Recorder(unittest.TextTestResult):
    """Keeps one (case, kind, text) for each case; a case with failing subtests counts once."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.kinds: dict[str, tuple[str, str]] = {}

    def startTest(self, test):
        super().startTest(test)
        self.kinds[test.id()] = ("", "")

    def addError(self, test, err):
        super().addError(test, err)
        self.kinds[test.id()] = ("error", self._exc_info_to_string(err, test))

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.kinds[test.id()] = ("failure", self._exc_info_to_string(err, test))

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.kinds[test.id()] = ("failure", self._exc_info_to_string(err, test))

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.kinds[test.id()] = ("skipped", reason)

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.kinds[test.id()] = ("failure", "passed although it was expected to fail")


def main() -> int:
    folder, output = sys.argv[1:3]
    sys.path.insert(0, folder)
    suite = unittest.defaultTestLoader.discover(folder, pattern="*test*.py", top_level_dir=folder)
    result = unittest.TextTestRunner(verbosity=2, resultclass=_Recorder).run(suite)
    root = ElementTree.Element("testsuite")
    for identity, (kind, text) in result.kinds.items():
        classname, _, name = identity.rpartition(".")
        case = ElementTree.SubElement(root, "testcase", classname=classname, name=name)
        if kind:
            lines = [line for line in text.splitlines() if line.strip()]
            message = text if kind == "skipped" else (lines[-1] if lines else kind)
            ElementTree.SubElement(case, kind, message=message).text = text
    Path(output).parent.mkdir(parents=True, exist_ok=True)
    ElementTree.ElementTree(root).write(output)
    return 0 if result.wasSuccessful() and result.kinds else 1


if __name__ == "__main__":
    sys.exit(main())
