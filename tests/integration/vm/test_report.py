# SPDX-License-Identifier: Apache-2.0
"""What is read from a guest's serial line, whatever way the guest ended."""

from __future__ import annotations

import unittest

import guest

SAID = """guest: Linux 6.1.0-57-cloud-amd64, up 5.47 s, lockdown [none] integrity confidentiality
guest: begin one
[ RUN      ] A.Works
[       OK ] A.Works (12 ms)
[ RUN      ] A.Breaks
a.cpp:7: Failure
Expected equality of these values:
[  FAILED  ] A.Breaks (3 ms)
[ RUN      ] Kinds/A.Works/ext4
b.cpp:9: Skipped
requires a thing
[  SKIPPED ] Kinds/A.Works/ext4 (0 ms)
[ RUN      ] Kinds/A.Breaks/1
[  FAILED  ] Kinds/A.Breaks/1, where GetParam() = 4-byte object <01-00 00-00> (1 ms)
[  FAILED  ] A.Breaks
guest: end one 1 7.2
guest: begin two
[ RUN      ] A.Works
"""


class Results(unittest.TestCase):
    def test_each_case_has_its_state_and_its_words(self) -> None:
        results = guest.read_results(SAID)
        self.assertEqual("OK", results["one A.Works"].state)
        self.assertEqual("FAILED", results["one A.Breaks"].state)
        self.assertIn("Expected equality", results["one A.Breaks"].text)
        self.assertEqual("SKIPPED", results["one Kinds/A.Works/ext4"].state)
        self.assertIn("requires a thing", results["one Kinds/A.Works/ext4"].text)
        self.assertEqual("FAILED", results["one Kinds/A.Breaks/1"].state)

    def test_a_case_that_a_crash_cut_off_is_a_failure(self) -> None:
        result = guest.read_results(SAID)["two A.Works"]
        self.assertEqual(("FAILED", "it began and did not end"), (result.state, result.text))

    def test_what_was_not_begun_has_no_result(self) -> None:
        self.assertNotIn("two A.Breaks", guest.read_results(SAID))


if __name__ == "__main__":
    unittest.main()
