# SPDX-License-Identifier: Apache-2.0
"""Sizes of files and functions, the licence line, one DESIGN.md a module."""

from functions import functions_of
from tree import Problem, SourceFile

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
LICENCE = "SPDX-License-Identifier: Apache-2.0"
_COMMENT = {"cpp": "// ", "spin": "// ", "python": "# ", "bash": "# ", "cmake": "# "}
# BPF programs carry a second licence, that the kernel asks for.
_COMMENT_OF_C = "/* "


def check_layout(file: SourceFile) -> list[Problem]:
    return _licence(file) + _sizes(file)


def _licence(file: SourceFile) -> list[Problem]:
    lines = [line for line in file.lines[:2] if not line.startswith("#!")]
    first = lines[0] if lines else ""
    comments = (_COMMENT[file.kind], _COMMENT_OF_C) if file.kind in ("cpp", "spin") else (_COMMENT[file.kind],)
    if any(first.startswith(comment + "SPDX-License-Identifier: ") for comment in comments) and (
            "Apache-2.0" in first):
        return []
    return [Problem(file.path, 1, f"the first line must be '{_COMMENT[file.kind]}{LICENCE}'")]


def _sizes(file: SourceFile) -> list[Problem]:
    problems = []
    if len(file.lines) > FILE_LINES_MAX:
        problems.append(Problem(file.path, FILE_LINES_MAX + 1,
                                f"{len(file.lines)} lines, at most {FILE_LINES_MAX} allowed"))
    try:
        functions = functions_of(file)
    except SyntaxError as error:
        return problems + [Problem(file.path, error.lineno or 1, f"can't be parsed: {error.msg}")]
    for function in functions:
        if function.lines > FUNCTION_LINES_MAX:
            problems.append(Problem(file.path, function.first_line,
                                    f"{function.name} has {function.lines} lines, "
                                    f"at most {FUNCTION_LINES_MAX} allowed"))
    return problems


def check_designs(paths: set[str], source_paths: set[str], folders: list[str]) -> list[Problem]:
    """A module that has code says in DESIGN.md what it is for."""
    problems = []
    for folder in folders:
        has_code = any(path.startswith(folder + "/") and path.endswith((".cpp", ".hpp", ".h", ".c"))
                       for path in source_paths)
        if has_code and f"{folder}/DESIGN.md" not in paths:
            problems.append(Problem(f"{folder}/DESIGN.md", 1, "is missing"))
    return problems
