"""Reports of the compatibility kit, and the conditions under which a run fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rck.kit import SUITES, environment
from tests.rck.results import MAX_REASON, Expected, Results, read_expected, server_errors

REPORT = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="JUnit Jupiter" tests="5" skipped="1" failures="1" errors="1">
<testcase name="testAppend()" classname="TableTests" time="0.1"/>
<testcase name="createTableTransaction(int)[2]" classname="TableTests"><system-out>said</system-out></testcase>
<testcase name="testLoadTable()" classname="TableTests" time="0.1">
<failure message="Expecting code to raise a throwable.&#10;&#9;at Some.line"><![CDATA[stack]]></failure>
</testcase>
<testcase name="testMetrics(Path)" classname="TableTests" time="0.1">
<error type="java.io.IOException"><![CDATA[java.io.IOException: closed
\tat Some.line(Some.java:1)]]></error>
</testcase>
<testcase name="listTablesInEmptyNamespace()" classname="TableTests" time="0.1">
<skipped><![CDATA[TestAbortedException: assumption was not met due to: [Only valid for some]
\tat Some.line(Some.java:1)]]></skipped>
</testcase>
</testsuite>"""

EMPTY_NAMESPACE = {"listTablesInEmptyNamespace": "our reason"}


@pytest.fixture
def results(tmp_path: Path) -> Results:
    (tmp_path / "report.xml").write_text(REPORT)
    return Results.read(tmp_path / "report.xml")


def test_a_report_shows_results_and_reasons_in_one_line(results: Results) -> None:
    assert results == Results(
        passed=["testAppend", "createTableTransaction(int)[2]"],
        failed={
            "testLoadTable": "Expecting code to raise a throwable.",
            "testMetrics(Path)": "java.io.IOException: closed",
        },
        skipped={
            "listTablesInEmptyNamespace": "TestAbortedException: assumption was not met due to: [Only valid for some]"
        },
    )


def test_no_report_is_no_test(tmp_path: Path) -> None:
    assert Results.read(tmp_path / "report.xml") == Results()


def test_a_long_reason_is_cut(tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text(REPORT.replace("Expecting code", "Expecting " + "word " * 1000))
    reason = Results.read(tmp_path / "report.xml").failed["testLoadTable"]
    assert len(reason) <= MAX_REASON
    assert reason.endswith(" ...")


def test_expected_results_give_no_complaint() -> None:
    results = Results(passed=["a", "b"], skipped={"listTablesInEmptyNamespace": "the kit's reason"})
    assert results.complaints(Expected(2, EMPTY_NAMESPACE)) == []


@pytest.mark.parametrize(
    ("results", "complaint"),
    [
        (Results(["a", "b"], {"c": "why"}, EMPTY_NAMESPACE), "failed: c: why"),
        (Results(["a", "b"], {}, EMPTY_NAMESPACE | {"c": "why"}), "skipped without leave: c: why"),
        (Results(["a", "b"]), "was to be skipped and was not: listTablesInEmptyNamespace"),
        (Results(["a"], {}, EMPTY_NAMESPACE), "1 tests passed instead of 2"),
        (Results(["a", "b", "c"], {}, EMPTY_NAMESPACE), "3 tests passed instead of 2"),
    ],
)
def test_everything_else_is_a_complaint(results: Results, complaint: str) -> None:
    assert results.complaints(Expected(2, EMPTY_NAMESPACE)) == [complaint]


def test_each_suite_has_its_numbers_and_each_skip_its_reason() -> None:
    expected = read_expected()
    assert set(expected) == {suite.name for suite in SUITES}
    assert sum(suite.passed for suite in expected.values()) == 152
    assert all(reason for suite in expected.values() for reason in suite.skipped.values())


def test_server_errors_are_found_in_the_log() -> None:
    lines = [
        '{"message": "request", "method": "GET", "path": "/catalog/v1/x", "status": 404}',
        '{"message": "request", "method": "DELETE", "path": "/catalog/v1/y", "status": 500}',
        '{"message": "no request at all"}',
        "Traceback: no JSON at all",
    ]
    assert server_errors(lines) == ["the server returned 500 to DELETE /catalog/v1/y"]


def test_settings_of_somebodys_catalog_do_not_reach_the_kit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CATALOG_URI", "https://production.example/catalog")
    assert "CATALOG_URI" not in environment()
