# SPDX-License-Identifier: Apache-2.0
"""Runs the phases of the self test; packaging/selftest calls it after installing what is missing."""

import argparse
import sys
import time
import traceback
from pathlib import Path

from commands import jobs, say
from outcomes import Outcome
from phases import all_phases
from report import print_report


def main() -> int:
    root = Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(prog="packaging/selftest")
    parser.add_argument("--list", action="store_true", help="show the phases")
    parser.add_argument("--with-torch", action="store_true",
                        help="run the python phase where torch and ComfyUI's other packages are: in build/venv-torch, into "
                             "which the versions of tests/integration/comfyui/requirements*.txt are installed (3 GB)")
    parser.add_argument("phase", nargs="*", help="run only these")
    arguments = parser.parse_args()
    phases = all_phases(root, arguments.with_torch)
    if arguments.list:
        print("\n".join(phases))
        return 0
    unknown = [name for name in arguments.phase if name not in phases]
    if unknown:
        parser.error(f"no such phase: {', '.join(unknown)}; there are {', '.join(phases)}")

    say(f"{root}, {jobs()} jobs at once")
    outcomes = []
    for name in arguments.phase or phases:
        say(f"phase {name}")
        outcome = Outcome(name)
        started = time.monotonic()
        try:
            phases[name](outcome)
        except Exception as error:  # A phase that breaks must not take the report with it.
            traceback.print_exc()
            outcome.fail(f"phase {name}", repr(error))
        outcome.seconds = time.monotonic() - started
        outcomes.append(outcome)
        say(f"phase {name}: {outcome.absent or str(outcome.count('passed')) + ' passed'}, "
            f"{outcome.count('failed')} failed, {outcome.count('skipped')} skipped, {outcome.seconds:.0f} s")
    return print_report(outcomes)


if __name__ == "__main__":
    sys.exit(main())
