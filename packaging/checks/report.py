# SPDX-License-Identifier: Apache-2.0
"""The end of the self test: what failed, what was skipped and why, a table, and the closing line."""

from outcomes import FAILED, PASSED, SKIPPED, Outcome


def print_report(outcomes: list[Outcome]) -> int:
    """Returns the exit status: 0 only if something ran and nothing failed."""
    _print_cases(outcomes, SKIPPED)
    _print_cases(outcomes, FAILED)
    width = max(len(outcome.phase) for outcome in outcomes)
    print(f"\n{'phase':<{width}}  {'seconds':>8}  {'passed':>7}  {'failed':>7}  {'skipped':>7}")
    for outcome in outcomes:
        counts = "  ".join(f"{outcome.count(state):>7}" for state in (PASSED, FAILED, SKIPPED))
        note = f"  ({outcome.absent})" if outcome.absent else ""
        print(f"{outcome.phase:<{width}}  {outcome.seconds:>8.1f}  {counts}{note}")
    passed, failed, skipped = (sum(outcome.count(state) for outcome in outcomes)
                               for state in (PASSED, FAILED, SKIPPED))
    if passed + failed == 0:
        print("\nNothing ran, and that is a failure.")
    print(f"\n{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return 0 if failed == 0 and passed > 0 else 1


def _print_cases(outcomes: list[Outcome], state: str) -> None:
    """Cases with the same name and reason, which several builds ran, share one line."""
    phases: dict[tuple[str, str], list[str]] = {}
    for outcome in outcomes:
        for case in outcome.cases:
            if case.state == state:
                phases.setdefault((case.name, case.reason), []).append(outcome.phase)
    if phases:
        print(f"\n{state}:")
    for (name, reason), where in phases.items():
        print(f"  {name} [{', '.join(where)}]: {reason}")
