# SPDX-License-Identifier: Apache-2.0
"""Checks each #include of product code against the table. Tests may include what they test."""

import re

import table
from tree import Problem, SourceFile

_INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
# Written by the build.
_GENERATED = re.compile(r"(?:^|/)(?:vmlinux\.h|[\w.]+\.skel\.h)$")


def check_includes(file: SourceFile, known_paths: set[str]) -> list[Problem]:
    if file.kind != "cpp" or file.is_test or file.path.startswith("packaging/"):
        return []
    problems = []
    for number, line in enumerate(file.lines, 1):
        match = _INCLUDE.match(line)
        if not match:
            continue
        own, foreign = match.groups()
        text = _own(file, own, known_paths) if own else _foreign(file, foreign)
        if text:
            problems.append(Problem(file.path, number, text))
    return problems


def _folder_of(path: str) -> str:
    """The longest row of the table that holds the path, or nothing."""
    rows = [row for row in table.MAY_INCLUDE if path == row or path.startswith(row + "/")]
    return max(rows, key=len, default="")


def _within(path: str, places: tuple[str, ...]) -> bool:
    return any(path == place or path.startswith(place + "/") for place in places)


def _own(file: SourceFile, included: str, known_paths: set[str]) -> str:
    if _GENERATED.search(included):
        return "" if file.path.startswith("bpf/") else f'"{included}": skeletons are for bpf/ only'
    if included == "penstock.h":
        included = "service/client/include/penstock.h"
    if included not in known_paths:
        return f'"{included}" is no file of the tree: includes start at its root'
    row, target = _folder_of(file.path), _folder_of(included)
    if file.folder == table.COMPOSITION_ROOT or (row == target and row):
        return ""
    if row == "exporters" and re.search(table.EXPORTERS_MAY_READ, included):
        return ""
    if row and _within(included, table.MAY_INCLUDE[row]):
        return ""
    return f'{row or file.folder} may not include "{included}"'


def _foreign(file: SourceFile, included: str) -> str:
    if _within(file.path, table.PURE) and re.fullmatch(table.IMPURE_HEADERS, included):
        return f"<{included}> in pure code: no system calls, clocks or threads here"
    for pattern, places in table.FOREIGN:
        if re.fullmatch(pattern, included) and not _within(file.path, places):
            return f"<{included}> is for {', '.join(places) or 'tests'} only"
    return ""
