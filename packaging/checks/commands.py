# SPDX-License-Identifier: Apache-2.0
"""Runs a command with its output in a log and a line of progress now and then."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PROGRESS_SECONDS = 15.0
# The largest translation units need this much under the sanitizers.
BYTES_A_JOB = 1.5 * 2**30
_STARTED = time.monotonic()


def say(text: str) -> None:
    print(f"[{time.monotonic() - _STARTED:7.1f} s] {text}", flush=True)


def jobs() -> int:
    """Processors that this process may use, fewer where memory would not suffice for so many compilers."""
    count = len(os.sched_getaffinity(0))
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                count = min(count, int(int(line.split()[1]) * 1024 / BYTES_A_JOB))
    except OSError:
        pass
    return max(1, count)


def run(arguments: list[str], log: Path, *, cwd: Path, limit_seconds: float,
        environment: dict[str, str] | None = None) -> int:
    """Returns the exit status; 124 when the time ran out. The whole output is in `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + limit_seconds
    with open(log, "wb") as output:
        process = subprocess.Popen(arguments, cwd=cwd, stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})},
                                   start_new_session=True)
        try:
            return _wait(process, deadline, log)
        except subprocess.TimeoutExpired:
            say(f"    stopped after {limit_seconds:.0f} s")
            return 124
        finally:
            _end_group(process)


def _wait(process: subprocess.Popen, deadline: float, log: Path) -> int:
    while True:
        try:
            return process.wait(timeout=min(PROGRESS_SECONDS, max(0.01, deadline - time.monotonic())))
        except subprocess.TimeoutExpired:
            if time.monotonic() >= deadline:
                raise
            say(f"    {_last_line(log)[:100]}")


def _end_group(process: subprocess.Popen) -> None:
    """Nothing that a step started outlives it, also after an interrupt."""
    for number, grace_seconds in ((signal.SIGTERM, 20), (signal.SIGKILL, 20)):
        try:
            os.killpg(process.pid, number)
            process.wait(timeout=grace_seconds)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


def _last_line(log: Path) -> str:
    with open(log, "rb") as file:
        file.seek(max(0, log.stat().st_size - 4096))
        lines = [line for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else "..."


def print_tail(log: Path, lines: int = 80) -> None:
    """Shows the end of a log."""
    text = log.read_text(errors="replace").splitlines()
    print(f"----- {log} (last {min(lines, len(text))} of {len(text)} lines)")
    print("\n".join(text[-lines:]))
    print("-----")
    sys.stdout.flush()
