# SPDX-License-Identifier: Apache-2.0
"""A real memory cgroup with a limit, of v1 or v2, below the cgroup of this process."""

from __future__ import annotations

import os
from pathlib import Path


class LimitedCgroup:
    """Made by make(); the end of the `with` removes it."""

    def __init__(self, path: Path, v1: bool) -> None:
        self.path, self.v1 = path, v1

    @staticmethod
    def make(limit_bytes: int) -> LimitedCgroup | str:
        """Or the missing requirement."""
        lines = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()]
        v1 = next((path for _, names, path in lines if "memory" in names.split(",")), None)
        unified = next((path for number, _, path in lines if number == "0"), None)
        own, kind = (v1, "cgroup") if v1 is not None else (unified, "cgroup2")
        for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
            before, after = line.split(" - ", 1)
            root, where = before.split()[3:5]
            if own is None or root != "/" or after.split()[0] != kind or (v1 and "memory" not in after.split()[2]):
                continue
            parent = Path(where + own)
            if not v1 and "memory" not in (parent / "cgroup.subtree_control").read_text(encoding="utf-8"):
                return "requires a cgroup whose memory controller children may use"
            group = LimitedCgroup(parent / f"penstock-test-{os.getpid()}", v1 is not None)
            try:
                group.path.mkdir()
                group.write("memory.limit_in_bytes" if v1 else "memory.max", str(limit_bytes))
            except OSError as error:
                return f"requires the right to make a limited cgroup: {error}"
            return group
        return "requires the memory controller of cgroups, mounted from its root"

    def write(self, name: str, text: str) -> None:
        (self.path / name).write_text(text, encoding="utf-8")

    def kills(self) -> int:
        """How often the kernel killed in there."""
        name = "memory.oom_control" if self.v1 else "memory.events"
        words = dict(line.split() for line in (self.path / name).read_text(encoding="utf-8").splitlines())
        return int(words["oom_kill"])

    def enter(self) -> tuple[str, ...]:
        """Words before a command that run it in there."""
        return ("sh", "-c", f'echo $$ > "{self.path}/cgroup.procs" && exec "$@"', "sh")

    def __enter__(self) -> LimitedCgroup:
        return self

    def __exit__(self, *_: object) -> None:
        self.path.rmdir()
