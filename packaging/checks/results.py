# SPDX-License-Identifier: Apache-2.0
"""Reads what ctest and the test programs wrote, and counts single cases.

ctest knows programs. A program that wrote `results/<test>.xml` is replaced by the cases in there, unless
ctest calls it failed and the file shows no failure: then its own verdict (a leak at exit, a crash, a
timeout) is one failed case more.
"""

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from outcomes import FAILED, PASSED, SKIPPED, Case


# The console alone says how a program failed: "Timeout", "Exception: SegFault".
_CONSOLE = re.compile(r"Test +#\d+: (\S+) \.*\*\*\*(.+?) +[\d.]+ sec")


def read_ctest(junit: Path, results: Path, console: str = "") -> list[Case]:
    """All cases of one run of ctest, from its --output-junit file and the programs' own files."""
    causes = dict(_CONSOLE.findall(console))
    cases: list[Case] = []
    for test in ElementTree.parse(junit).getroot().iter("testcase"):
        cases.extend(_cases_of_program(test, results, causes))
    return cases


def _cases_of_program(test: ElementTree.Element, results: Path, causes: dict[str, str]) -> list[Case]:
    name = test.get("name", "?")
    verdict = _verdict_of_ctest(test, causes)
    own_file = results / f"{name}.xml"
    if not own_file.exists():
        return [verdict]
    try:
        cases = read_cases(own_file, name)
    except ElementTree.ParseError as error:
        return [Case(name, FAILED, f"{own_file.name} can't be parsed: {error}; {verdict.reason}")]
    if not cases:
        return [Case(name, FAILED, "the program ran no case")]
    if verdict.state == FAILED and not any(case.state == FAILED for case in cases):
        cases.append(verdict)
    return cases


def _verdict_of_ctest(test: ElementTree.Element, causes: dict[str, str]) -> Case:
    name = test.get("name", "?")
    status = test.get("status", "")
    if status == "run":
        return Case(name, PASSED)
    if status == "notrun":
        skipped = test.find("skipped")
        message = skipped.get("message", "") if skipped is not None else ""
        # A program that ctest could not start has no "SKIP_" in its message, and is no skip.
        if "SKIP_" in message or "SKIP_RETURN_CODE" in message:
            return Case(name, SKIPPED, _last_line(test) or message)
        return Case(name, FAILED, message or "ctest did not run it")
    if status == "disabled":
        return Case(name, FAILED, "disabled tests are not allowed")
    cause = causes.get(name, status or "failed")
    return Case(name, FAILED, f"{cause}: {_last_line(test)}".rstrip(": "))


def _last_line(test: ElementTree.Element) -> str:
    lines = [line.strip() for line in (test.findtext("system-out") or "").splitlines() if line.strip()]
    return lines[-1] if lines else ""


def read_cases(path: Path, program: str) -> list[Case]:
    """Cases of a JUnit file as gtest, pytest and our unittest runner write it."""
    cases = []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = f"{program}: {case.get('classname', '')}.{case.get('name', '?')}"
        problems = case.findall("failure") + case.findall("error")
        skipped = case.find("skipped")
        if problems:
            cases.append(Case(name, FAILED, _beginning(problems[0])))
        elif skipped is not None or case.get("result") == "skipped":
            reason = _skip_reason(skipped) if skipped is not None else ""
            cases.append(Case(name, SKIPPED, reason or "no reason given"))
        elif case.get("status", "run") == "notrun":
            cases.append(Case(name, SKIPPED, "filtered out"))
        else:
            cases.append(Case(name, PASSED))
    return cases


def _beginning(element: ElementTree.Element) -> str:
    """pytest and our runner have the cause last in the text and in `message`, gtest has place and cause."""
    return " ".join((element.get("message") or element.text or "").split())[:200]


def _skip_reason(element: ElementTree.Element) -> str:
    """gtest puts `file:line` above the text that the test gave."""
    text = element.get("message") or element.text or ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].rpartition(":")[2].isdigit():
        lines = lines[1:]
    return " ".join(lines)
