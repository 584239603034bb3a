# SPDX-License-Identifier: Apache-2.0
"""This build's own tests of probes and cgroups inside guests with other kernels: one test here for each case there."""

from __future__ import annotations

import os
import re
import unittest
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ClassVar

import guest
import guest_kernel
from guest import Program, Report

# Without acceleration, beside whatever else the machine does: quiet, a guest takes a tenth of it.
LIMIT_SECONDS = 400.0
SMALL = "PENSTOCK_PROBE_FILE_MIB=4 PENSTOCK_PROBE_ROUNDS={}"
# What depends on the kernel. Rights and their texts are the same everywhere.
PROBES = ("*Exactness*:ReclaimProbes.*:FaultProbe.*:PressureWatching.*:ProbeTracking.ATwin*:ProbeTracking.WhatTmpfs*:"
          "ProbeLevels.AllProbes*:ProbeLevels.WithoutBpfTheKernel*:ProbeLevels.NothingStays*")
ALL = (Program("tests/bin/integration_probes", PROBES, SMALL.format(10)), Program("tests/bin/guest_tests", "*", SMALL.format(10)))
LOCKED = (Program("tests/bin/integration_probes", "*Exactness.*/ext4:*Exactness.ALimit*/overlay:ProbeLevels.AllProbes*:"
                  "ReclaimProbes.ALimit*:FaultProbe.Major*", SMALL.format(1)),
          Program("tests/bin/guest_tests", "*Causes.*/ext4:ServiceUnderV2.Reports*", SMALL.format(1)))


class Guests:
    """The boots, two at a time: the emulator has one processor for each."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(max(1, min(2, len(os.sched_getaffinity(0)))))
        self.boots: dict[type, Future[Report]] = {}

    def start(self, guests: list[type[InAGuest]]) -> None:
        for one in guests:
            kernel = guest_kernel.find(one.release)
            if not isinstance(kernel, str):
                self.boots[one] = self.pool.submit(guest.boot, kernel, list(one.programs), one.words, LIMIT_SECONDS)


class InAGuest(unittest.TestCase):
    """One guest; its cases become tests when this file is read."""

    release: ClassVar[str]
    words: ClassVar[str] = ""  # For its kernel.
    programs: ClassVar[tuple[Program, ...]]
    report: ClassVar[Report]

    @classmethod
    def setUpClass(cls) -> None:
        kernel = guest_kernel.find(cls.release)
        lacking = guest.missing() or (kernel if isinstance(kernel, str) else "")
        if lacking:
            raise unittest.SkipTest(lacking)
        cls.report = guests.boots[cls].result()

    def test_the_guest_comes_to_its_end(self) -> None:
        self.assertEqual("", self.report.ended, self.report.tail())
        self.assertIn(f"Linux {self.release}.", self.report.said)
        self.assertNotRegex(self.report.console, r"BUG:|Oops|Call Trace|general protection", self.report.tail())

    @classmethod
    def add_case(cls, program: Program, case: str) -> None:
        def test(self: InAGuest) -> None:
            result = self.report.results.get(f"{program.name} {case}")
            if result is None:
                self.fail(f"the guest did not come to it: {self.report.ended or 'its program ended early'}")
            if result.state == "SKIPPED":
                self.skipTest(result.text)
            self.assertEqual("OK", result.state, f"{result.text}\n----- console:\n{self.report.console[-1500:]}")

        name = "test_" + re.sub(r"\W+", "_", f"{program.name} {case}")
        setattr(cls, name, test)


class Debian61(InAGuest):
    release, programs = "6.1", ALL


class Debian612(InAGuest):
    release, programs = "6.12", ALL


class Debian61WithLockdown(InAGuest):
    release, programs, words = "6.1", LOCKED, "lockdown=confidentiality"

    def test_the_kernel_is_locked_down(self) -> None:
        self.assertIn("[confidentiality]", self.report.said)


class Debian612WithLockdown(InAGuest):
    release, programs, words = "6.12", LOCKED, "lockdown=confidentiality"

    def test_the_kernel_is_locked_down(self) -> None:
        self.assertIn("[confidentiality]", self.report.said)


KINDS: list[type[InAGuest]] = [Debian61, Debian612, Debian61WithLockdown, Debian612WithLockdown]
guests = Guests()


def setUpModule() -> None:
    if not guest.missing():
        guests.start(KINDS)


def tearDownModule() -> None:
    guests.pool.shutdown(wait=True, cancel_futures=True)


def load_tests(loader: unittest.TestLoader, _tests: unittest.TestSuite, _pattern: str | None) -> unittest.TestSuite:
    """The base is no guest."""
    suite = unittest.TestSuite()
    for kind in KINDS:
        for program in kind.programs:
            for case in program.cases():
                kind.add_case(program, case)
        suite.addTests(loader.loadTestsFromTestCase(kind))
    return suite


if __name__ == "__main__":
    unittest.main()
