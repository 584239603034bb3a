# SPDX-License-Identifier: Apache-2.0
"""Names that say nothing, and words and calls that have no place in the tree."""

import re

from source_text import without_literals
from tree import Problem, SourceFile

BANNED_PARTS = {"manager", "helper", "helpers", "util", "utils", "impl", "base"}
# `dataplane/base` is a folder's name; for files the others hold.
BANNED_FILE_PARTS = BANNED_PARTS - {"base"}

_TYPES = {
    "cpp": re.compile(r"\b(?:class|struct|union|concept|enum(?:\s+class|\s+struct)?)\s+"
                      r"(?:\[\[\w+\]\]\s*|alignas\([^()]*\)\s*)?([A-Za-z_]\w*)|\busing\s+([A-Za-z_]\w*)\s*="),
    "python": re.compile(r"^\s*class\s+(\w+)(\b)"),
}

# Everywhere, comments included.
_WORDS = re.compile(r"\b(TODO|FIXME|XXX|DISABLED_\w*)\b|\b\w*?(DISABLED_)")
# C and C++ only, outside comments and literals.
_CODE = (
    (re.compile(r"\bthrow\b(?!\s*\(\s*\))"), "throw: errors are values (Result)"),
    (re.compile(r"\bstd::format\b"), "std::format is absent in gcc 12: use fmt"),
    (re.compile(r"\bstd::(?:ranges::)?views\b"), "std::views does not compile with clang 14"),
    (re.compile(r"\bstd::expected\b"), "std::expected is C++23: use Result"),
)
_TEST_CODE = (
    (re.compile(r"\b(?:sleep_for|sleep_until|usleep|nanosleep)\b"),
     "a sleep hides a race: wait for the event, with a bound"),
)
_PURE_CODE = (
    (re.compile(r"_clock::now\b|\bclock_gettime\b"), "a clock in pure code: time is an argument"),
)


def check_names(file: SourceFile, pure: tuple[str, ...]) -> list[Problem]:
    problems = _file_name(file)
    if file.is_checker:
        return problems
    for number, line in enumerate(file.lines, 1):
        for match in _WORDS.finditer(line):
            problems.append(Problem(file.path, number, f"{match.group()}: do it or leave it out"))
    code = without_literals(file.text).split("\n") if file.kind == "cpp" else file.lines
    rules = list(_CODE) if file.kind == "cpp" else []
    if file.kind == "cpp" and file.is_test:
        rules += _TEST_CODE
    if file.path.startswith(tuple(folder + "/" for folder in pure)):
        rules += _PURE_CODE
    types = _TYPES.get(file.kind)
    for number, line in enumerate(code, 1):
        problems += [Problem(file.path, number, text) for pattern, text in rules if pattern.search(line)]
        for match in types.finditer(line) if types else ():
            problems += _type_name(file, number, match.group(1) or match.group(2))
    return problems


def _type_name(file: SourceFile, number: int, name: str) -> list[Problem]:
    banned = BANNED_PARTS & parts_of(name)
    return [Problem(file.path, number, f"{name}: '{part}' says nothing about it") for part in sorted(banned)]


def _file_name(file: SourceFile) -> list[Problem]:
    banned = BANNED_FILE_PARTS & parts_of(file.name.partition(".")[0])
    return [Problem(file.path, 1, f"'{part}' in a file's name says nothing about it") for part in sorted(banned)]


def parts_of(name: str) -> set[str]:
    """FooBarHTTPBaz_qux -> foo, bar, http, baz, qux."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name.replace("-", "_"))
    return {word.lower() for word in words}
