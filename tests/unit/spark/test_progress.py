"""Progress output and error messages of the demo."""

from __future__ import annotations

import io
import re

import pytest

from tasks.spark.progress import PipelineStep, StepFailedError, check, one_line, run_steps

JAVA_ERROR = """An error occurred while calling o42.sql.
: org.apache.iceberg.exceptions.RESTException: Error occurred while processing GET request
\tat org.apache.iceberg.rest.HTTPClient.execute(HTTPClient.java:335)
Caused by: java.net.ConnectException: Connection refused
\t... 5 more
"""


def test_each_step_shows_its_number_title_time_and_result() -> None:
    out = io.StringIO()
    run_steps((PipelineStep("load", lambda run: f"{run} rows"), PipelineStep("verify", lambda run: "fine")), 7, out=out)
    assert re.fullmatch(r"\[1/2\] load      0\.0 s  7 rows\n\[2/2\] verify    0\.0 s  fine\n", out.getvalue())


def test_the_first_failing_step_ends_the_run_in_one_line() -> None:
    done = []

    def fail(_: None) -> str:
        check([], "3 rows\n instead of 4")
        return "unreachable"

    def note(_: None) -> str:
        done.append(1)
        return ""

    steps = (PipelineStep("first", fail), PipelineStep("second", note))
    out = io.StringIO()
    with pytest.raises(StepFailedError) as raised:
        run_steps(steps, None, out=out)
    assert str(raised.value) == "step [1/2] first: 3 rows"
    assert out.getvalue().endswith("FAILED\n")
    assert done == []


def test_an_error_from_java_is_said_with_its_cause() -> None:
    assert one_line(RuntimeError(JAVA_ERROR)) == (
        "org.apache.iceberg.exceptions.RESTException: Error occurred while processing GET request "
        "(cause: java.net.ConnectException: Connection refused)"
    )


def test_an_error_without_text_is_named_by_its_class() -> None:
    assert one_line(KeyError()) == "KeyError"
