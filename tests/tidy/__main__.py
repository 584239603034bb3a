# SPDX-License-Identifier: Apache-2.0
"""Checks what no compiler does: who includes whom, sizes, names, licence lines, documents.

usage: python3 tests/tidy [ROOT]      prints one line a problem, exit status 1 if there is any
"""

import sys
from pathlib import Path

from check import check_tree


def main() -> int:
    root = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else Path(__file__).resolve().parents[2]
    files, problems = check_tree(root)
    for problem in problems:
        print(problem)
    print(f"tidy: {files} files, {len(problems)} problems")
    return 1 if problems or files == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
