# SPDX-License-Identifier: Apache-2.0
"""Boots a guest without acceleration, and reads from its serial lines what became of each test."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from guest_kernel import Kernel
from initramfs import Initramfs, tool

BUILD = Path(os.environ["PENSTOCK_BUILD_DIR"])
HERE = Path(__file__).parent
EMULATOR = "qemu-system-x86_64"
# The watchdogs measure the emulator's share of this machine. The rest spares an emulated processor work.
KERNEL_WORDS = ("console=ttyS0 panic=-1 quiet psi=1 nowatchdog rcupdate.rcu_cpu_stall_suppress=1 mitigations=off "
                "init_on_alloc=0")
FORMATTERS = ("mkfs.ext4", "mkfs.xfs", "mkfs.btrfs", "btrfs")
MEMORY_MIB = 896
DISK_BYTES = 8 << 30  # Sparse.


@dataclass(frozen=True)
class Program:
    """What a guest runs: a program of gtest, and which of its cases."""

    path: str  # Below the build directory.
    filter: str = "*"
    environment: str = ""

    @property
    def name(self) -> str:
        return Path(self.path).name

    def line(self) -> str:
        return f"{self.name} {self.environment} exec /penstock/{self.path} --gtest_color=no '--gtest_filter={self.filter}'"

    @cache
    def cases(self) -> list[str]:
        """All that it would run, in its own words."""
        listed = subprocess.run([BUILD / self.path, "--gtest_list_tests", f"--gtest_filter={self.filter}"],
                                capture_output=True, text=True, check=True, timeout=60)
        cases, suite = [], ""
        for line in listed.stdout.splitlines():
            word = line.split("#")[0].rstrip()
            if word.startswith("  "):
                cases.append(suite + word.strip())
            elif word.endswith("."):
                suite = word
        return cases


@dataclass
class Result:
    """Of one case: "OK", "FAILED" or "SKIPPED", and what it said."""

    state: str
    text: str


@dataclass
class Report:
    """What a guest told."""

    results: dict[str, Result] = field(default_factory=dict)
    said: str = ""  # On the line of results,
    console: str = ""  # and by its kernel.
    ended: str = ""  # Why it ended, if not of itself.

    def tail(self) -> str:
        """The end of all that it said."""
        return "\n".join([f"----- {self.ended or 'the guest ended'}; results:", *self.said.splitlines()[-25:],
                          "----- console:", *self.console.splitlines()[-40:], "-----"])


def missing() -> str:
    """What this machine lacks for guests of any kernel; else empty."""
    if tool(EMULATOR) is None:
        return f"requires {EMULATOR} (package qemu-system-x86)"
    busybox = tool("busybox")
    if busybox is None or subprocess.run(["ldd", busybox], capture_output=True, check=False).returncode == 0:
        return "requires a static busybox (package busybox-static)"
    lacking = [name for name in FORMATTERS if tool(name) is None]
    return f"requires {', '.join(lacking)}" if lacking else ""


def make_initramfs(kernel: Kernel, programs: list[Program], path: Path) -> None:
    archive = Initramfs(BUILD)
    archive.add("init", (HERE / "init").read_bytes(), 0o755)
    archive.add("tests", "".join(program.line() + "\n" for program in programs).encode())
    archive.add("environment", b"export LC_ALL=C LD_LIBRARY_PATH=/penstock/lib PENSTOCK_OWN_MACHINE=1 PENSTOCK_BUILD_DIR=/penstock\n")
    archive.add("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n")
    archive.add("etc/group", b"root:x:0:\nnogroup:x:65534:\n")
    archive.add_folder("modules")
    for number, (name, content) in enumerate(kernel.chosen_modules()):
        archive.add(f"modules/{number:02}-{name}.ko", content)
    for name in ("busybox", *FORMATTERS):
        found = tool(name)
        assert found is not None
        archive.add_program(found, f"bin/{name}")
    for name in (*(program.path for program in programs), "bin/penstockd", "bin/penstock", "bin/penstock-writer"):
        archive.add_program(BUILD / name, f"penstock/{name}")
    archive.write(path)


def boot(kernel: Kernel, programs: list[Program], words: str, limit_seconds: float) -> Report:
    """Runs the programs in a guest whose kernel is told `words`."""
    with tempfile.TemporaryDirectory(prefix="penstock-guest-", dir=BUILD) as name:
        folder = Path(name)
        make_initramfs(kernel, programs, folder / "initramfs")
        with open(folder / "disk", "wb") as disk:
            disk.truncate(DISK_BYTES)
        subprocess.run([str(tool("mkfs.ext4")), "-q", "-F", "-b", "4096", "-O", "^has_journal", str(folder / "disk")],
                       check=True)
        command = [str(tool(EMULATOR)), "-accel", "tcg", "-cpu", "max", "-smp", "1", "-m", str(MEMORY_MIB),
                   "-display", "none", "-no-reboot", "-nodefaults", "-kernel", str(kernel.image),
                   "-initrd", str(folder / "initramfs"), "-append", f"{KERNEL_WORDS} {words}",
                   "-drive", f"file={folder / 'disk'},format=raw,if=virtio,cache=unsafe,discard=unmap",
                   "-serial", f"file:{folder / 'console'}", "-serial", f"file:{folder / 'said'}"]
        report = Report()
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True, errors="replace") as process:
            try:
                _, errors = process.communicate(timeout=limit_seconds)
                if process.returncode != 0:
                    report.ended = f"{EMULATOR} ended with {process.returncode}: {errors.strip()[-500:]}"
            except subprocess.TimeoutExpired:
                report.ended = f"the guest hung: stopped after {limit_seconds:.0f} s"
            finally:
                process.kill()
        report.said, report.console = (_text(folder / one) for one in ("said", "console"))
        report.results = read_results(report.said)
        if not report.ended and "guest: done" not in report.said:
            report.ended = "the guest crashed"
        return report


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace").replace("\r", "") if path.exists() else ""


_PROGRAM = re.compile(r"^guest: (begin|end) (\S+)")
_BEGIN = re.compile(r"^\[ RUN      \] (\S+)$")
_END = re.compile(r"^\[ +(OK|FAILED|SKIPPED) +\] (\S+?),?(?: .*)?\(\d+ ms\)$")


def read_results(said: str) -> dict[str, Result]:
    """By program and case; a case that began and did not end is a failure."""
    results: dict[str, Result] = {}
    lines: list[str] = []
    program = current = ""
    for line in said.splitlines():
        begun, ended, border = _BEGIN.match(line), _END.match(line), _PROGRAM.match(line)
        if border:
            program, current = border[2], ""
        elif begun:
            current, lines = begun[1], []
            results[f"{program} {current}"] = Result("FAILED", "it began and did not end")
        elif ended and ended[2] == current:
            results[f"{program} {current}"] = Result(ended[1], "\n".join(lines).strip())
            current = ""
        else:
            lines.append(line)
    return results
