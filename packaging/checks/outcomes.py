# SPDX-License-Identifier: Apache-2.0
"""Values that the phases hand to the report."""

from dataclasses import dataclass, field

PASSED = "passed"
FAILED = "failed"
SKIPPED = "skipped"


@dataclass(frozen=True)
class Case:
    """One test case: a gtest case, a python test, or a whole program that ctest runs."""

    name: str
    state: str
    reason: str = ""


@dataclass
class Outcome:
    """What one phase did. `absent` says why it had nothing to do; that is no failure."""

    phase: str
    cases: list[Case] = field(default_factory=list)
    seconds: float = 0.0
    absent: str = ""

    def count(self, state: str) -> int:
        return sum(1 for case in self.cases if case.state == state)

    def fail(self, name: str, reason: str) -> None:
        self.cases.append(Case(name, FAILED, reason))
