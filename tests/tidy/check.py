# SPDX-License-Identifier: Apache-2.0
"""All checks over a whole tree."""

from pathlib import Path

import table
from includes import check_includes
from layout import check_designs, check_layout
from names import check_names
from tree import Problem, read_tree


def check_tree(root: Path) -> tuple[int, list[Problem]]:
    """Returns how many files were looked at, and what is wrong with them."""
    files = list(read_tree(root))
    source_paths = {file.path for file in files}
    problems: list[Problem] = []
    for file in files:
        problems += check_layout(file)
        problems += check_includes(file, source_paths)
        problems += check_names(file, table.PURE)
    documents = {path for folder in table.MAY_INCLUDE for path in [f"{folder}/DESIGN.md"] if (root / path).is_file()}
    problems += check_designs(documents, source_paths, list(table.MAY_INCLUDE))
    return len(files), sorted(problems, key=lambda problem: (problem.path, problem.line))
