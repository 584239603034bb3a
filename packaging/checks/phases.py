# SPDX-License-Identifier: Apache-2.0
"""The phases of the self test, in order. A phase finds out itself whether the tree has what it checks."""

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from commands import jobs, print_tail, run, say
from lint import lint
from outcomes import Case, Outcome
from results import read_cases, read_ctest

BUILD_LIMIT_SECONDS = 3600
TEST_LIMIT_SECONDS = 2400

# Tests that look at the tree or at a model, not at compiled code: once, with the release build.
ONCE = "tidy|model|packaging|python"


@dataclass
class Preset:
    """Builds `preset` and runs the tests that the two label expressions choose."""

    root: Path
    preset: str
    target: str
    include: str
    exclude: str

    @property
    def directory(self) -> Path:
        return self.root / "build" / self.preset

    def log(self, step: str) -> Path:
        return self.root / "build" / "selftest" / f"{self.preset}-{step}.log"

    def labels(self) -> list[str]:
        arguments = []
        if self.include:
            arguments += ["-L", f"^({self.include})$"]
        if self.exclude:
            arguments += ["-LE", f"^({self.exclude})$"]
        return arguments

    def run(self, outcome: Outcome) -> None:
        if not self._step(outcome, "configure", ["cmake", "--preset", self.preset, "-DPENSTOCK_PARTIAL=OFF"]):
            return
        if self._chosen(outcome) == 0:
            outcome.absent = outcome.absent or "no such test in the tree"
            return
        build = ["cmake", "--build", str(self.directory), "-j", str(jobs()), "--target", self.target]
        if self._step(outcome, "build", build):
            self._test(outcome)

    def _step(self, outcome: Outcome, step: str, arguments: list[str]) -> bool:
        say(f"  {step} {self.preset}")
        status = run(arguments, self.log(step), cwd=self.root, limit_seconds=BUILD_LIMIT_SECONDS)
        if status != 0:
            print_tail(self.log(step))
            outcome.fail(f"{step} {self.preset}", f"exit status {status}, see {self.log(step)}")
        return status == 0

    def _chosen(self, outcome: Outcome) -> int:
        listing = subprocess.run(
            ["ctest", "--test-dir", str(self.directory), "--show-only=json-v1", *self.labels()],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        try:
            return len(json.loads(listing.stdout)["tests"])
        except (ValueError, KeyError):
            outcome.fail(f"list {self.preset}", listing.stderr.strip() or "ctest lists nothing")
            return 0

    def _test(self, outcome: Outcome) -> None:
        say(f"  test {self.preset}")
        results = self.directory / "tests" / "results"
        shutil.rmtree(results, ignore_errors=True)
        results.mkdir(parents=True)
        junit = self.directory / "tests" / "ctest.xml"
        junit.unlink(missing_ok=True)
        status = run([*self._fixed_addresses(), "ctest", "--test-dir", str(self.directory), "--output-on-failure", "-j", str(jobs()),
                      "--output-junit", str(junit), *self.labels()],
                     self.log("test"), cwd=self.root, limit_seconds=TEST_LIMIT_SECONDS)
        if junit.exists():
            outcome.cases.extend(read_ctest(junit, results, self.log("test").read_text(errors="replace")))
        if status != 0:
            print_tail(self.log("test"), 200)
            if outcome.count("failed") == 0:
                outcome.fail(f"ctest {self.preset}", f"exit status {status}")

    def _fixed_addresses(self) -> list[str]:
        """The sanitizers of gcc 12 and clang 14 abort at random where mmap has more than 28 random bits."""
        bits = Path("/proc/sys/vm/mmap_rnd_bits")
        if self.preset == "release" or not bits.exists() or int(bits.read_text(encoding="ascii")) <= 28:
            return []
        prefix = ["setarch", "--addr-no-randomize"]
        allowed = subprocess.run([*prefix, "true"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
        return prefix if allowed.returncode == 0 else []


def python_tests(root: Path, outcome: Outcome, with_torch: bool = False) -> None:
    """tests/python in a virtual environment with the versions pinned in its requirements.txt; with torch, and what ComfyUI
    needs, at those of tests/integration/comfyui."""
    tests = root / "tests" / "python"
    requirements = tests / "requirements.txt"
    if not requirements.exists():
        outcome.absent = "no tests/python/requirements.txt in the tree"
        return
    log = root / "build" / "selftest" / "python.log"
    comfyui = root / "tests" / "integration" / "comfyui"
    # Its files list all that is needed, and without dependencies torch is smaller.
    closed = [comfyui / name for name in ("requirements-nodeps.txt", "requirements.txt")] if with_torch else []
    environment = root / "build" / ("venv-torch" if with_torch else "venv")
    python = environment / "bin" / "python"
    if not _made(environment, closed, requirements, log, root):
        outcome.fail("virtual environment", "is there a network and a package index?")
        return
    say("  test python")
    junit = root / "build" / "selftest" / "python.xml"
    junit.unlink(missing_ok=True)
    if "pytest" in requirements.read_text(encoding="utf-8"):
        arguments = [str(python), "-m", "pytest", "-q", f"--junitxml={junit}", str(tests)]
    else:
        arguments = [str(python), str(root / "packaging" / "checks" / "run_unittests.py"), str(tests), str(junit)]
    release = root / "build" / "release"
    status = run(arguments, log, cwd=root, limit_seconds=TEST_LIMIT_SECONDS, environment={
        "PYTHONPATH": str(release / "python"), "PENSTOCK_BUILD_DIR": str(release),
        "PENSTOCK_SOURCE_DIR": str(root), "PYTHONDONTWRITEBYTECODE": "1"})
    if junit.exists():
        outcome.cases.extend(read_cases(junit, "python"))
    if status != 0:
        print_tail(log)
        if outcome.count("failed") == 0:
            outcome.cases.append(Case("python", "failed", f"exit status {status}"))


def _made(environment: Path, closed: list[Path], requirements: Path, log: Path, root: Path) -> bool:
    """A virtual environment with what these files pin, those of `closed` without dependencies; kept until they change."""
    stamp = environment / "installed-requirements.txt"
    wanted = b"".join(one.read_bytes() for one in (*closed, requirements))
    if stamp.exists() and stamp.read_bytes() == wanted:
        return True
    say(f"  virtual environment {environment.name}")
    install = [str(environment / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    for step in (["python3", "-m", "venv", "--clear", str(environment)],
                 *([*install, "--no-deps", "-r", str(one)] for one in closed), [*install, "-r", str(requirements)]):
        if run(step, log, cwd=root, limit_seconds=1800) != 0:
            print_tail(log)
            return False
    stamp.write_bytes(wanted)
    return True


def all_phases(root: Path, with_torch: bool = False) -> dict[str, Callable[[Outcome], None]]:
    """Name -> what to do, in the order in which they run."""
    return {
        "release": Preset(root, "release", "all", "", "bench").run,
        "dev": Preset(root, "dev", "all", "", f"bench|{ONCE}").run,
        "lint": lambda outcome: lint(root, outcome),
        "tsan": Preset(root, "tsan", "tsan_tests", "tsan", "bench").run,
        "fuzz": Preset(root, "fuzz", "fuzz_tests", "fuzz", "bench").run,
        "python": lambda outcome: python_tests(root, outcome, with_torch),
    }
