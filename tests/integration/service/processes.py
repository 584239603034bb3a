# SPDX-License-Identifier: Apache-2.0
"""What the kernel says of processes, for tests that start and end them."""

from __future__ import annotations

import select
from pathlib import Path


def children_of(pid: int) -> list[int]:
    """The processes that `pid` started and has not collected, by number.

    From their own lines, since /proc/PID/task/TID/children may be cut short, and goes with its thread."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            line = (entry / "stat").read_text(encoding="ascii", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue  # It ended meanwhile.
        if int(line.rpartition(")")[2].split()[1]) == pid:
            found.append(int(entry.name))
    return sorted(found)


def has_ended(pidfd: int) -> bool:
    """Whether this process has ended, collected or not: a signal still reaches one that nobody has collected."""
    watched = select.poll()
    watched.register(pidfd, select.POLLIN)
    return bool(watched.poll(0))
