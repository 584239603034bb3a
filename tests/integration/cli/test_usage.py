# SPDX-License-Identifier: Apache-2.0
"""The outer surface that scripts rely on: exit codes, help, version, errors as JSON."""

import os
import unittest

from command import penstock

COMMANDS = ("status", "load", "evict", "scrub", "inspect", "doctor", "explain", "top", "make-checkpoint", "simulate")


class Usage(unittest.TestCase):
    def test_help_names_every_command_and_the_exit_codes(self):
        answer = penstock("--help")
        self.assertEqual((answer.code, answer.err), (0, ""))
        for command in COMMANDS:
            self.assertIn(command, answer.out)
        self.assertIn("3 service not reachable", answer.out)

    def test_version_is_one_line(self):
        answer = penstock("--version")
        self.assertEqual(answer.code, 0)
        self.assertRegex(answer.out, r"^penstock \d+\.\d+\.\d+\n$")

    def test_wrong_usage_is_2_and_says_what_is_wrong(self):
        for words, said in (((), "subcommand"), (("frob",), "unknown command frob"), (("inspect",), "FILE"),
                            (("inspect", "a", "b"), "b"), (("--frob", "status"), "--frob"),
                            (("--color", "sometimes", "status"), "--color"), (("make-checkpoint", "sd1", "x"), "sd1"),
                            (("make-checkpoint", "tiny", "x", "--bytes", "1GB"), "unknown unit"),
                            (("make-checkpoint", "tiny", "x", "--bytes", "0"), "--bytes"),
                            (("make-checkpoint", "tiny", "x", "--seed", "-1"), "--seed")):
            with self.subTest(words=words):
                answer = penstock(*words)
                self.assertEqual((answer.code, answer.out), (2, ""))
                self.assertIn(said, answer.err)

    def test_wrong_usage_with_json_is_one_object_wherever_the_option_stands(self):
        for words in (("--json", "frob"), ("inspect", "--json"), ("frob", "--json")):
            with self.subTest(words=words):
                answer = penstock(*words)
                self.assertEqual(answer.code, 2)
                self.assertEqual(answer.error["kind"], "invalid_argument")
                self.assertEqual(sorted(answer.error), ["hint", "kind", "message"])

    @unittest.skipUnless(os.path.exists("/dev/full"), "requires /dev/full")
    def test_an_answer_that_can_not_be_written_is_a_failure(self):
        with open("/dev/full", "wb") as full:
            answer = penstock("--json", "make-checkpoint", "tiny", "/proc/nowhere", stdout=full, capture_output=False)
        self.assertEqual(answer.code, 1)


if __name__ == "__main__":
    unittest.main()
