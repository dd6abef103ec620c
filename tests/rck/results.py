"""Results of one suite, read from its report and compared with the expected ones."""

from __future__ import annotations

import json
import re
import textwrap
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from xml.etree import ElementTree as ET

EXPECTED = Path(__file__).with_name("expected.toml")
MAX_REASON = 400


@dataclass(frozen=True)
class Expected:
    """The number of tests that pass, and those that are skipped with their reasons."""

    passed: int
    skipped: Mapping[str, str]


@dataclass
class Results:
    """The tests of one suite by name: those that passed, and the reason of each that failed or was skipped."""

    passed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, report: Path) -> Self:
        """Read JUnit's XML; a missing report is a suite without tests."""
        results = cls()
        if not report.exists():
            return results
        for case in ET.parse(report).iter("testcase"):  # noqa: S314  written by the kit just now
            name = case.attrib["name"].removesuffix("()")
            failure = next((found for kind in ("failure", "error") if (found := case.find(kind)) is not None), None)
            skip = case.find("skipped")
            if failure is not None:
                results.failed[name] = _reason(failure)
            elif skip is not None:
                results.skipped[re.sub(r"\(.*", "", name)] = _reason(skip)
            else:
                results.passed.append(name)
        return results

    def complaints(self, expected: Expected) -> list[str]:
        """Return the differences from the expected results, one line each."""
        found = [f"failed: {name}: {reason}" for name, reason in self.failed.items()]
        found += [
            f"skipped without leave: {name}: {reason}"
            for name, reason in self.skipped.items()
            if name not in expected.skipped
        ]
        found += [f"was to be skipped and was not: {name}" for name in expected.skipped if name not in self.skipped]
        if len(self.passed) != expected.passed:
            found.append(f"{len(self.passed)} tests passed instead of {expected.passed}")
        return found


def read_expected() -> dict[str, Expected]:
    """Read the expected results by suite from `expected.toml`."""
    suites = tomllib.loads(EXPECTED.read_text(encoding="utf-8"))
    return {name: Expected(suite["passed"], suite["skipped"]) for name, suite in suites.items()}


def server_errors(log_lines: Iterable[str]) -> list[str]:
    """Return the requests with a 5xx response: the kit hides some (failed clean-up is only a warning)."""
    found = []
    for line in log_lines:
        try:
            entry: Any = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and isinstance(entry.get("status"), int) and entry["status"] >= 500:
            found.append(f"the server returned {entry['status']} to {entry.get('method')} {entry.get('path')}")
    return found


def _reason(element: ET.Element) -> str:
    """Return the test's message as one line of bounded length, without a stack trace."""
    said = element.get("message") or element.text or element.get("type") or "no reason given"
    return textwrap.shorten(re.split(r"\n\s*at ", said)[0], MAX_REASON, placeholder=" ...")
