# SPDX-License-Identifier: Apache-2.0
"""clang-format over all sources; clang-tidy over the product's, with the flags and precompiled headers of the dev build."""

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from commands import jobs, say
from outcomes import FAILED, PASSED, Case, Outcome

FOLDERS = ("dataplane", "bpf", "service", "exporters")
FILE_LIMIT_SECONDS = 300


def _tidy(root: Path, source: str) -> str:
    """Empty, or what clang-tidy found."""
    try:
        process = subprocess.run(["clang-tidy-14", "--quiet", "-p", str(root / "build" / "dev"), source],
                                 cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, text=True, check=False, timeout=FILE_LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        return f"{source}: clang-tidy took more than {FILE_LIMIT_SECONDS} s\n"
    return process.stdout if process.returncode != 0 else ""


def _format(root: Path, outcome: Outcome) -> None:
    listed = subprocess.run(["git", "ls-files", "*.cpp", "*.hpp", "*.c", "*.h"], cwd=root, stdout=subprocess.PIPE,
                            text=True, check=False).stdout.split()
    if not listed:
        outcome.absent = "not a git checkout: no list of sources to look at"
        return
    say(f"  clang-format, {len(listed)} files")
    process = subprocess.run(["clang-format-14", "--dry-run", "-Werror", "--", *listed], cwd=root,
                             stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    wrong = sorted({line.split(":")[0] for line in process.stderr.splitlines() if ": error: " in line})
    for file in wrong:
        print(f"{file}: not formatted: clang-format-14 -i {file}")
    reason = f"{len(wrong)} of {len(listed)} files are not formatted" if wrong else process.stderr[:200]
    outcome.cases.append(Case("clang-format", FAILED if process.returncode else PASSED,
                              reason if process.returncode else ""))


def lint(root: Path, outcome: Outcome) -> None:
    _format(root, outcome)
    database = root / "build" / "dev" / "compile_commands.json"
    if not database.exists():
        outcome.absent = "build/dev has no compile_commands.json"
        return
    sources = sorted({entry["file"] for entry in json.loads(database.read_text(encoding="utf-8"))
                      if _is_product(root, entry["file"])})
    if not sources:
        outcome.absent = "no sources in the tree"
        return
    say(f"  clang-tidy, {len(sources)} files")
    with ThreadPoolExecutor(jobs()) as pool:
        found = [text for text in pool.map(lambda source: _tidy(root, source), sources) if text]
    for text in found:
        print(text)
    reason = f"{len(found)} of {len(sources)} files have problems" if found else ""
    outcome.cases.append(Case("clang-tidy", FAILED if found else PASSED, reason))


def _is_product(root: Path, file: str) -> bool:
    path = Path(file)
    return path.is_relative_to(root) and path.relative_to(root).parts[0] in FOLDERS
