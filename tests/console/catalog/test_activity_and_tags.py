"""Tabs of tables and namespaces: activity by kind, dropped objects, and tags with their origin."""

from __future__ import annotations

import re

import pytest

from catalog.models import Snapshot
from tasks.models import Task
from tenancy.actor import INTERNAL
from tenancy.models import OutboxEvent, Project, TagAttachment, TagDefinition
from tenancy.models.securable import ObjectRef
from tenancy.services.tags import create_tag_definition, put_attachment
from tests.authz.conftest import user
from tests.authz.tree_fixtures import give
from tests.console.catalog.test_finding_objects import HOSTILE
from tests.console.conftest import Open
from tests.console.test_rights import Ids, grants, ids  # noqa: F401 - fixtures
from tests.harness.named_callers import CallerClient

pytestmark = [pytest.mark.django_db(databases="__all__"), pytest.mark.both_databases]


def test_activity_shows_what_the_user_may_see(
    grants: None,  # noqa: F811
    ids: Ids,  # noqa: F811
    open_as: Open,
    lake: dict[str, ObjectRef],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own_id = lake["open.a"].id
    for number in range(5):
        Snapshot.objects.create(
            tabular_id=own_id, snapshot_id=100 + number, timestamp_ms=1_700_000_000_000 + number,
            summary={"operation": "append"}, committed_by="oidc~spark", engine=HOSTILE,
        )  # fmt: skip
    Task.objects.create(
        queue="tabular_purge", warehouse_id=ids.warehouse, entity_type="table", entity_id=own_id, entity_name=["a"]
    )
    for milliseconds in (-(10**14), 10**18):  # writers may claim any time
        Snapshot.objects.create(tabular_id=own_id, snapshot_id=milliseconds, timestamp_ms=milliseconds, summary={})
    base = f"/ui/warehouse/{ids.warehouse}/table/{ids.tables['open']}/activity/"
    lead, engineer = open_as("lead"), open_as("engineer")
    whole = lead.get(base).text
    for shown in ("append 104", "tabular_purge", "createTable", "?kind=audit", "oidc~spark"):
        assert shown in whole
    assert HOSTILE not in whole
    assert "createTable" not in lead.get(f"{base}?kind=commit").text
    assert OutboxEvent.objects.filter(object_key=f"table:{own_id}").exists()
    assert "table.created" in lead.get(f"{base}?kind=audit").text
    seen = engineer.get(base).text
    assert "append 104" in seen
    for hidden in ("createTable", "?kind=audit", "?kind=event"):
        assert hidden not in seen
    assert "createTable" not in engineer.get(f"{base}?kind=event").text
    assert lead.get(f"{base}?kind=x").status == 400
    assert lead.get(f"{base}?before=x").status == 400
    monkeypatch.setattr("management.admin.catalog.activity_tab.ROWS_A_PAGE", 2)
    found, url = list[str](), "?kind=commit"
    while url:
        page = lead.get(base + url).text
        found += re.findall(r"append (\d+)", page)
        following = re.search(r'href="(\?kind=commit&amp;before=[^"]+)"', page)
        url = following[1].replace("&amp;", "&") if following else ""
    assert found == ["104", "103", "102", "101", "100"]


def test_tags_of_an_object(
    grants: None,  # noqa: F811
    ids: Ids,  # noqa: F811
    open_as: Open,
    lake: dict[str, ObjectRef],
) -> None:
    kinds = {"owner": TagDefinition.ValueKind.FREE_TEXT, "pii": TagDefinition.ValueKind.MARKER}
    kinds["team"] = TagDefinition.ValueKind.FREE_TEXT
    tags = {
        name: create_tag_definition(
            actor=INTERNAL, project=Project.objects.get(), name=name, description=None, value_kind=kind,
            scope=["namespace", "table"], allowed_values=[],
        )
        for name, kind in kinds.items()
    }  # fmt: skip
    put_attachment(tags["owner"], lake["open"], field_id=None, value=HOSTILE)
    base = f"/ui/warehouse/{ids.warehouse}/table/{ids.tables['open']}"
    lead, engineer, guest = open_as("lead"), open_as("engineer"), open_as("guest")
    page = lead.get(f"{base}/properties/").text
    assert "namespace open" in page
    assert HOSTILE not in page
    assert '<option value="team">' in page
    assert lead.post(f"{base}/tags/", {"action": "attach", "name": "pii"}).location.endswith("/properties/")
    assert lead.post(f"{base}/tags/", {"action": "attach", "name": "team", "value": "blue"}).status == 302
    own = set(
        TagAttachment.objects.filter(securable__object_id=lake["open.a"].id).values_list("definition__name", "value")
    )
    assert own == {("pii", None), ("team", "blue")}
    lead.post(f"{base}/tags/", {"action": "attach", "name": "pii", "value": "x"})
    assert "is a marker and has none" in lead.get(f"{base}/properties/").text
    lead.post(f"{base}/tags/", {"action": "attach", "name": "nothing"})
    assert lead.post(f"{base}/tags/", {"action": "nonsense", "name": "pii"}).status == 400
    shown = engineer.get(f"{base}/properties/").text
    assert "blue" in shown
    assert "/tags/" not in shown
    for name, status in (("engineer", 403), ("guest", 404)):
        browser = engineer if name == "engineer" else guest
        assert browser.post(f"{base}/tags/", {"action": "detach", "name": "pii"}).status == status
    assert TagAttachment.objects.count() == 3
    assert lead.post(f"{base}/tags/", {"action": "detach", "name": "pii"}).status == 302
    assert not TagAttachment.objects.filter(definition=tags["pii"]).exists()
    put_attachment(tags["owner"], lake["open.a"], field_id=1, value="on the column")
    schema = lead.get(f"{base}/schema/").text
    assert schema.count("owner=on the column") == 1
    assert HOSTILE not in schema


def test_dropped_objects_of_a_namespace(
    grants: None,  # noqa: F811
    ids: Ids,  # noqa: F811
    open_as: Open,
    root: CallerClient,
    lake: dict[str, ObjectRef],
    soft_delete: int,
) -> None:
    give("ownership", lake["open.a"], user("owner"))
    assert root.delete("/namespaces/open/tables/a").status == 204
    address = f"/ui/warehouse/{ids.warehouse}/namespace/{ids.open}/deleted/"
    assert ids.tables["open"] in open_as("lead").get(address).text
    assert ids.tables["closed"] not in open_as("lead").get(address).text
    assert open_as("guest").get(address).status == 404
