"""The declared members of updates, requirements and reports are those that the engine reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NotRequired, get_origin

import pytest

from catalog.iceberg.metrics_reports import REPORTS, read_metrics_report
from catalog.iceberg.requirements import (
    TABLE_REQUIREMENTS,
    VIEW_REQUIREMENTS,
    check_requirements,
    check_view_requirements,
)
from catalog.iceberg.updates import TABLE_UPDATES
from catalog.iceberg.views import VIEW_UPDATES
from icekeeper.kernel.errors.types import BadRequest
from tests.catalog_fixtures import COMMIT_REPORT, SCAN_REPORT
from tests.unit.iceberg.document_fixtures import table
from tests.unit.iceberg.test_hostile import LEGAL, error_of
from tests.unit.iceberg.views import test_hostile as views
from tests.unit.iceberg.views.document_fixtures import view


def required(members: Mapping[str, Any]) -> set[str]:
    return {name for name, kind in members.items() if get_origin(kind) is not NotRequired}


@pytest.mark.parametrize("update", LEGAL, ids=lambda update: update["action"])
def test_members_of_an_update_of_a_table(update: dict[str, Any]) -> None:
    members = TABLE_UPDATES[update["action"]].members
    assert required(members) <= update.keys() - {"action"} <= members.keys()
    for name in required(members):
        text = error_of(table(), [{key: value for key, value in update.items() if key != name}])
        assert text is not None
        assert f"{name}: required field is missing" in text


@pytest.mark.parametrize("update", views.LEGAL, ids=lambda update: update["action"])
def test_members_of_an_update_of_a_view(update: dict[str, Any]) -> None:
    members = VIEW_UPDATES[update["action"]].members
    assert required(members) <= update.keys() - {"action"} <= members.keys()
    for name in required(members):
        text = views.error_of(view(2), [{key: value for key, value in update.items() if key != name}])
        assert text is not None
        assert f"{name}: required field is missing" in text


@pytest.mark.parametrize("kind", TABLE_REQUIREMENTS)
def test_members_of_a_requirement_of_a_table(kind: str) -> None:
    for name in required(TABLE_REQUIREMENTS[kind].members):
        with pytest.raises(BadRequest, match=f"{name}: required field is missing"):
            check_requirements(table(), [{"type": kind}])


@pytest.mark.parametrize("kind", VIEW_REQUIREMENTS)
def test_members_of_a_requirement_of_a_view(kind: str) -> None:
    for name in required(VIEW_REQUIREMENTS[kind]):
        with pytest.raises(BadRequest, match=f"{name}: required field is missing"):
            check_view_requirements(view(2), [{"type": kind}])


@pytest.mark.parametrize("report", [SCAN_REPORT, COMMIT_REPORT], ids=lambda report: report["report-type"])
def test_members_of_a_report(report: dict[str, Any]) -> None:
    members = REPORTS[report["report-type"]]
    assert required(members) <= report.keys() - {"report-type"} <= members.keys()
    read_metrics_report(report)
    for name in required(members):
        with pytest.raises(BadRequest, match=f"{name}: required field is missing"):
            read_metrics_report({key: value for key, value in report.items() if key != name})
