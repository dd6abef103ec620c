"""The policies as sources: formatted by `opa fmt`, without findings of `opa check --strict`, and as documented."""

from __future__ import annotations

import re

import pytest

from tests.opa.opa_request_fixtures import POLICIES
from tests.opa.test_operations import ROWS
from tests.parts import opa

pytestmark = pytest.mark.part("opa")

PAGE = (POLICIES.parents[1] / "docs" / "trino-opa.md").read_text()


def test_policies_are_formatted() -> None:
    done = opa.run("fmt", "--list", "--fail", POLICIES)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_policies_pass_the_strict_check_by_version_1_of_rego() -> None:
    done = opa.run("check", "--strict", POLICIES)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_every_file_has_one_subject_and_says_which() -> None:
    files = sorted(POLICIES.iterdir())
    assert [path.name for path in files] == [
        "authz.rego", "catalog.rego", "open.rego", "operations.rego", "settings.rego", "trino.rego",
    ]  # fmt: skip
    for path in files:
        assert path.read_text().startswith("# ")


def test_every_setting_is_documented_and_every_documented_one_is_read() -> None:
    read = set(re.findall(r'"((?:TRINO|LAKEKEEPER)_(?:[A-Z]|_(?!%))+)"', (POLICIES / "settings.rego").read_text()))
    documented = set(re.findall(r"`((?:TRINO|LAKEKEEPER)_[A-Z_]+)`", PAGE))
    assert read == documented


def test_every_operation_that_is_asked_about_is_documented() -> None:
    operations = {operation for operation, *_ in ROWS}
    keys = re.findall(r'^\t"(\w+)": ["{]', (POLICIES / "operations.rego").read_text(), re.MULTILINE)
    alone = re.findall(r'demands\("(\w+)"', (POLICIES / "operations.rego").read_text())
    assert {*keys, *alone} == operations
    assert [name for name in operations if f"`{name}`" not in PAGE] == []
