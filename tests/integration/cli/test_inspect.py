# SPDX-License-Identifier: Apache-2.0
"""penstock inspect: the same verdicts as the parser's, with the path."""

import json
import os
import struct
import tempfile
import unittest
from pathlib import Path

from command import penstock

BASE = b'{"t":{"dtype":"I32","shape":[2,2],"data_offsets":[0,16]}}'


def with_header(text, data=b""):
    return struct.pack("<Q", len(text)) + text + data


class Inspect(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def inspect(self, content, name="a.safetensors"):
        path = self.folder / name
        path.write_bytes(content)
        return penstock("--json", "inspect", path)

    def test_shows_tensors_metadata_and_sizes(self):
        header = b'{"__metadata__":{"format":"pt"},' + BASE[1:] + b" "
        answer = self.inspect(with_header(header, bytes(16)))
        self.assertEqual(answer.code, 0)
        self.assertEqual(answer.json, {
            "format": "safetensors", "bytes": 8 + len(header) + 16, "tensor_bytes": 16,
            "tensors": [{"name": "t", "dtype": "I32", "shape": [2, 2], "offset": 8 + len(header), "bytes": 16}],
            "metadata": {"format": "pt"},
            "warnings": ["tensors that do not start on a multiple of their element's size: 1, the first is \"t\""],
        })

    def test_shows_text_for_people(self):
        (self.folder / "a.safetensors").write_bytes(with_header(BASE + b" " * 7, bytes(16)))
        answer = penstock("inspect", self.folder / "a.safetensors")
        self.assertEqual((answer.code, answer.err), (0, ""))
        self.assertIn("safetensors, 88 B (88 bytes), 1 tensors", answer.out)
        self.assertRegex(answer.out, r"72 +16 I32 +t \[2, 2\]")
        self.assertNotIn("\x1b", answer.out)
        self.assertIn("\x1b[1m", penstock("--color", "always", "inspect", self.folder / "a.safetensors").out)

    def test_case_p01_lfs_pointer(self):
        oid = b"4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393"
        answer = self.inspect(b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize 4976698592\n" % oid)
        self.assertEqual((answer.code, answer.error["kind"]), (1, "lfs_pointer"))
        for part in (str(self.folder / "a.safetensors"), "Git-LFS", "135 bytes found", "4976698592"):
            self.assertIn(part, answer.error["message"])
        self.assertIn("git lfs pull", answer.error["hint"])

    def test_case_p02_other_content(self):
        for start, kind in ((b"<!DOCTYPE html>", "html"), (b'{"error":"Unauthorized"}', "json_text"),
                            (bytes.fromhex("504b030400000808"), "zip"), (bytes.fromhex("80028a0a6cfc9c46"), "pickle"),
                            (bytes.fromhex("8004950000000000"), "pickle"), (b"GGUF\x03\0\0\0", "gguf")):
            with self.subTest(kind=kind):
                answer = self.inspect(start + bytes(16 * 2**20))
                self.assertEqual((answer.code, answer.error["kind"]), (1, kind))

    def test_case_p02_content_counts_and_not_the_name(self):
        answer = self.inspect(with_header(BASE + b" " * 7, bytes(16)), "model.ckpt")
        self.assertEqual(answer.code, 0)
        self.assertEqual(answer.json["warnings"], ["the content is safetensors, the name does not end in .safetensors"])

    def test_case_p03_and_p04_sizes(self):
        file = with_header(BASE, bytes(16))
        for content, kind, said in ((b"", "empty_file", "0 bytes"), (file[:7], "truncated", "1 missing"),
                                    (file[:40], "truncated", "needs 65 bytes, has 40"),
                                    (file[:79], "truncated", "needs 81 bytes, has 79, 2 missing"),
                                    (bytes(81), "preallocated", "header length 0"),
                                    (file + b"abc", "trailing_bytes", "3 extra bytes after offset 81")):
            with self.subTest(said=said):
                answer = self.inspect(content)
                self.assertEqual((answer.code, answer.error["kind"]), (1, kind))
                self.assertIn(said, answer.error["message"])

    def test_refuses_what_is_no_file(self):
        self.assertEqual(penstock("--json", "inspect", self.folder / "missing").error["kind"], "not_found")
        self.assertEqual(penstock("--json", "inspect", self.folder).error["kind"], "not_a_file")
        os.mkfifo(self.folder / "fifo")
        self.assertEqual(penstock("--json", "inspect", self.folder / "fifo").error["kind"], "not_a_file")

    def test_prints_hostile_names_safely(self):
        header = json.dumps({"\x1b[2J\nERROR": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}).encode()
        (self.folder / "a.safetensors").write_bytes(with_header(header, b"x"))
        answer = penstock("inspect", self.folder / "a.safetensors")
        self.assertEqual(answer.code, 0)
        self.assertNotIn("\x1b", answer.out)
        self.assertIn(r"\u001b[2J\u000aERROR", answer.out)

    def test_answers_in_utf8_even_where_the_path_is_not(self):
        path = os.fsencode(self.folder) + b"/\xff.safetensors"
        with open(path, "wb") as file:
            file.write(b"")
        answer = penstock("--json", "inspect", path)
        self.assertEqual(answer.error["kind"], "empty_file")


if __name__ == "__main__":
    unittest.main()
