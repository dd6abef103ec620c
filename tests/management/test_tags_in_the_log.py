"""Each change of a tag definition or attachment writes one audit log line; requests without a change write none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pytest_django import DjangoCaptureOnCommitCallbacks

from catalog.models import Tabular
from storage.models import Warehouse
from tenancy.models import TagAttachment
from tests.harness.log_lines import log_lines
from tests.harness.wsgi_client import ApiClient, Response
from tests.management.warehouse_request_fixtures import refuse
from tests.tag_fixtures import ALL, define, management

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

PROJECT = "00000000-0000-0000-0000-000000000000"
Reported = Callable[[Callable[[], Any]], list[dict[str, Any]]]


@pytest.fixture
def api(warehouse: Warehouse) -> ApiClient:
    return ApiClient(f"/management/v1/warehouse/{warehouse.pk}")


@pytest.fixture
def reported(django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks) -> Reported:
    """Return the audit lines of `act`, with its transactions treated as committed."""

    def of(act: Callable[[], Any]) -> list[dict[str, Any]]:
        with log_lines("icekeeper.audit") as lines, django_capture_on_commit_callbacks(execute=True):
            act()
        usual = {"timestamp", "level", "logger", "request_id"}
        return [{name: line[name] for name in line if name not in usual} for line in lines.read()]

    return of


def test_definitions(bootstrapped: None, reported: Reported) -> None:
    ids: list[str] = []
    created = reported(lambda: ids.append(define("pii\\")))
    always = {"id": ids[0], "by": "anonymous", "project": PROJECT}
    assert created == [{"message": "tag-definition.created", **always, "named": "pii\\"}]
    target, body = f"/tag-definition/{ids[0]}", {"name": "privacy", "scope": ALL}
    changed = {"message": "tag-definition.updated", **always, "named": "privacy"}
    assert reported(lambda: management.post(target, body)) == [changed]
    assert reported(lambda: management.post(target, body | {"scope": ["table"]})) == []
    deleted = {"message": "tag-definition.deleted", "grants": 0, "grants_on": {}, "granted": []}
    assert reported(lambda: management.delete(target)) == [{**changed, **deleted}]
    assert reported(lambda: management.delete(target)) == []


def test_tags_on_objects(
    api: ApiClient, things: dict[str, str], reported: Reported, monkeypatch: pytest.MonkeyPatch
) -> None:
    definition, marker = define(), define("certified", "marker")
    here = api.base.rpartition("/")[2]
    always = {"by": "anonymous", "project": PROJECT, "warehouse": here}
    table = things["table"].strip("/").replace("/", ":")

    def put(kind: str, body: dict[str, Any], name: str = "pii") -> Callable[[], Response]:
        return lambda: api.put(f"{things[kind]}/tags/{name}", body)

    def taken_off(kind: str) -> Callable[[], Response]:
        return lambda: api.delete(f"{things[kind]}/tags/pii")

    on = {"message": "tag.attached", "id": definition, **always, "named": "pii", "target": table}
    assert reported(put("table", {"value": "low"})) == [on | {"value": "low"}]
    assert reported(put("table", {"value": "low"})) == []  # unchanged
    assert reported(put("table", {"value": "a\n{}"})) == []  # rejected
    assert reported(put("table", {"value": "high"})) == [on | {"value": "high"}]
    [line] = reported(put("column", {"value": "x"}))
    field_id = TagAttachment.objects.filter(field_id__isnull=False)[0].field_id
    assert line == on | {"field_id": field_id, "value": "x"}
    [line] = reported(put("warehouse", {}, "certified"))
    assert line == on | {"id": marker, "named": "certified", "target": f"warehouse:{here}"}
    off = on | {"message": "tag.detached"}
    assert reported(taken_off("table")) == [off]
    assert reported(taken_off("table")) == []
    assert reported(taken_off("column")) == [off | {"field_id": field_id}]
    refuse(monkeypatch)
    view = Tabular.objects.get(kind="view")
    denied = {
        "message": "access.denied", "by": "anonymous", "type": "view", "id": str(view.pk), "action": "manage_tags",
        "reason": "CannotSeeResource",
    }  # fmt: skip
    assert [reported(put("view", {"value": "x"})), reported(taken_off("view"))] == [[denied], [denied]]
