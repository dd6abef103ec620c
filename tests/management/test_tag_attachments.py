"""List the objects that have a tag, with filters and pages."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest

from storage.models import Warehouse
from tenancy.models import TagAttachment
from tests.harness.fingerprint import Fingerprint
from tests.harness.statement_counts import counting
from tests.harness.wsgi_client import ApiClient
from tests.tag_fixtures import ALL, NO_ONE, define, good, management, put

pytestmark = pytest.mark.django_db

Everything = Callable[[], Fingerprint]


@pytest.fixture
def api(warehouse: Warehouse) -> ApiClient:
    return ApiClient(f"/management/v1/warehouse/{warehouse.pk}")


def attachments(definition: str, **query: str) -> list[dict[str, Any]]:
    asked = "&".join(f"{name}={quote(value)}" for name, value in query.items())
    response = management.get(f"/tag-definition/{definition}/attachments?{asked}")
    found: list[dict[str, Any]] = good(response)["attachments"]
    return found


def test_everything_that_carries_a_tag(api: ApiClient, things: dict[str, str]) -> None:
    definition, _ = define(), define("other")
    for kind, target in things.items():
        put(api, target, kind)
        put(api, target, "no", "other")
    warehouse = {"warehouse-id": api.base.rpartition("/")[2]}
    ids = {kind: target.split("/")[2] for kind, target in things.items() if target}
    field_id = TagAttachment.objects.filter(field_id__isnull=False)[0].field_id
    found = attachments(definition)
    assert [each["target"] for each in found] == [
        {"type": "warehouse", **warehouse},
        {"type": "namespace", **warehouse, "namespace-id": ids["namespace"]},
        {"type": "table", **warehouse, "table-id": ids["table"]},
        {"type": "view", **warehouse, "view-id": ids["view"]},
        {"type": "generic-table", **warehouse, "generic-table-id": ids["generic-table"]},
        {"type": "column", **warehouse, "table-id": ids["table"], "field-id": field_id},
    ]
    assert all(each.keys() == {"target", "value", "source", "created-at"} for each in found)
    changed = put(api, things["table"], "new")
    row = attachments(definition)[2]
    assert (row["value"], row["updated-at"], row["source"]) == ("new", changed["applied-at"], "manual")
    for kind in ALL:
        assert [each["target"]["type"] for each in attachments(definition, targetType=kind)] == [kind]
    assert attachments(definition, warehouseId=NO_ONE) == []
    assert len(attachments(definition, warehouseId=warehouse["warehouse-id"].upper())) == 6


def test_attachments_by_value_and_time(api: ApiClient, things: dict[str, str]) -> None:
    definition, marker = define(), define("certified", "marker")
    put(api, things["table"], "Low")
    put(api, things["view"], "low")
    put(api, things["column"], "low")
    put(api, things["view"], None, "certified")
    assert [each["target"]["type"] for each in attachments(definition, value="low")] == ["view", "column"]
    assert [each["target"]["type"] for each in attachments(definition, value="Low")] == ["table"]
    assert attachments(definition, value="LOW") == attachments(definition, value="") == []
    assert attachments(marker, value="") == []
    assert len(attachments(marker)) == 1
    at = [datetime.fromisoformat(each["created-at"]) for each in attachments(definition)]
    second = at[1].isoformat()
    assert [each["target"]["type"] for each in attachments(definition, createdAfter=second)] == ["view", "column"]
    assert [each["target"]["type"] for each in attachments(definition, createdBefore=second)] == ["table", "view"]
    assert len(attachments(definition, createdAfter=second, createdBefore=second, targetType="view")) == 1
    assert attachments(definition, createdAfter=(at[2] + timedelta(microseconds=1)).isoformat()) == []
    assert attachments(definition, createdBefore=second, createdAfter=at[2].isoformat()) == []
    assert attachments(definition, createdAfter="0001-01-01T00:00:00Z", createdBefore="9999-12-31T23:59:59Z")


@pytest.mark.parametrize(
    "wrong",
    [
        "createdAfter=yesterday", "createdAfter=2026-01-01", "createdAfter=2026-01-01T00:00:00", "createdBefore=",
        "createdBefore=2026-13-01T00:00:00Z", "createdAfter=0001-01-01T00:00:00%2B23:00", "createdAfter=%F0%9F%92%A9",
        "createdBefore=9999-12-31T23:59:59-23:00", "createdAfter=2026-01-01T00:00:00+01:00",
        "targetType=cluster", "targetType=", "targetType=TABLE", "warehouseId=x", "warehouseId=", "pageSize=0",
    ],
)  # fmt: skip
def test_filters_that_are_refused(bootstrapped: None, wrong: str) -> None:
    response = management.get(f"/tag-definition/{define()}/attachments?{wrong}")
    assert response.refused(400, "BadRequestException", wrong.partition("=")[0])


def test_pages_of_attachments(api: ApiClient, things: dict[str, str]) -> None:
    definition = define()
    for target in things.values():
        put(api, target)
    target = f"/tag-definition/{definition}/attachments"
    seen, last, token = list[str](), "", ""
    for _ in range(3):
        body = good(management.get(f"{target}?pageSize=2&value=x&pageToken={token}"))
        assert len(body["attachments"]) == 2
        seen += [each["target"]["type"] for each in body["attachments"]]
        last, token = token, body.get("next-page-token", "")
    assert (seen, token) == (ALL, "")
    # A token of other filters is rejected.
    assert management.get(f"{target}?pageToken={last}").refused(400, "InvalidPaginationToken")
    other = define("other")
    response = management.get(f"/tag-definition/{other}/attachments?value=x&pageToken={last}")
    assert response.refused(400, "InvalidPaginationToken")


def test_reads_cost_the_same_however_many_tags_there_are(
    api: ApiClient, things: dict[str, str], create_table: Callable[..., dict[str, Any]]
) -> None:
    definition = define()

    def costs() -> dict[str, int]:
        found = {}
        for client, target in (
            (management, "/tag-definition"),
            (management, f"/tag-definition/{definition}/attachments"),
            (api, f"{things['table']}/tags?effective=true"),
            (api, f"{things['column']}/tags"),
            (api, f"{things['table']}/column-tags"),
        ):
            with counting() as seen:
                good(client.get(target))
            found[target.partition("/")[2]] = seen["statements"]
        return found

    for target in things.values():
        put(api, target)
    before = costs()
    for number in range(20):
        define(f"t{number}")
        put(api, f"/table/{create_table(f'more {number}')['metadata']['table-uuid']}")
        for target in things.values():
            put(api, target, name=f"t{number}")
    assert costs() == before
    assert len(attachments(definition)) == 26
