"""The permission to read the feed of events: hidden warehouses, tokens of service accounts, the audit trail."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from events.selectors import feed_waits
from storage.models import Warehouse
from storage.services.warehouses import create_warehouse
from tenancy.actor import INTERNAL, Actor
from tenancy.audit import occurrences
from tenancy.audit.collector import collector
from tenancy.authz.builtin.backend import BuiltinAuthorizer
from tenancy.models import AuditRecord, Project
from tenancy.models.securable import ObjectRef
from tenancy.selectors.projects import get_project
from tenancy.services.access_tokens import create_token
from tenancy.services.projects import create_project, delete_project
from tenancy.services.users import create_service_account
from tests.authz.conftest import user
from tests.authz.tree_fixtures import T, give
from tests.events.event_fixtures import update
from tests.events.feed_fixtures import page, publish, subjects
from tests.harness.named_callers import CallerClient, NamedCallers
from tests.harness.wsgi_client import ApiClient
from tests.token_fixtures import TokenClient

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
EVENTS = "/management/v1/events"


@pytest.fixture
def start(tree: dict[str, ObjectRef], builtin: BuiltinAuthorizer) -> int:
    """The cursor before an event of the warehouse, one of its project, and one of another project."""
    start, project = publish(), get_project(None).pk
    update("in warehouse", warehouse=Warehouse.objects.get().pk, project=project)
    update("in project", project=project)
    update("elsewhere", project="other")
    publish()
    return start


@pytest.fixture
def reader(callers: NamedCallers) -> Callable[[str], CallerClient]:
    def of(name: str) -> CallerClient:
        callers.user(name)
        return CallerClient(EVENTS, name)

    return of


@pytest.mark.parametrize(
    ("privilege", "on", "statuses"),
    [
        ("operator", "server", (200, 200, 200)),
        ("admin", "server", (200, 200, 200)),
        ("project_admin", "project", (403, 200, 200)),
        ("read_events", "project", (403, 200, 200)),
        ("read_events", "wh", (403, 403, 200)),
        ("describe", "wh", (403, 403, 403)),
        ("ownership", "wh", (403, 403, 403)),
        ("select", "table", (403, 403, 403)),
        ("describe", "project", (403, 403, 403)),
        ("describe", "tag", (403, 403, 404)),
        (None, "", (403, 403, 404)),
    ],
)
def test_rights(
    start: int, tree: dict[str, ObjectRef], reader: Callable[[str], CallerClient],
    privilege: str | None, on: str, statuses: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    anna = reader("anna")
    if privilege is not None and on != "tag":
        give(privilege, tree[on], user("anna"))
    project, warehouse = tree["project"].id, tree["wh"].id
    queries = ("", f"projectId={project}", f"warehouseId={warehouse}")
    responses = [anna.get(f"?after={start}&{query}") for query in queries]
    assert tuple(each.status for each in responses) == statuses
    expected = (["in warehouse", "in project", "elsewhere"], ["in warehouse", "in project"], ["in warehouse"])
    for response, found in zip(responses, expected, strict=True):
        if response.status == 200:
            assert [each["subject"] for each in response.json()["events"]] == found
    monkeypatch.setattr(feed_waits, "MAX_STREAM_SECONDS", 0)
    assert tuple(anna.get(f"?{query}", accept="text/event-stream").status for query in queries) == statuses


def test_hidden_and_missing_warehouses_are_the_same(
    start: int, tree: dict[str, ObjectRef], reader: Callable[[str], CallerClient]
) -> None:
    anna, hidden, missing = reader("anna"), str(tree["wh"].id), "0198e0f4-3f6e-7c31-8c7d-000000000000"
    texts = []
    for each in (hidden, missing):
        response = anna.get(f"?warehouseId={each}")
        assert response.refused(404, "NoSuchWarehouseException", each)
        texts.append(response.error["message"].replace(each, ""))
    assert texts[0] == texts[1]


def test_a_service_account_has_the_feed_of_one_warehouse(
    start: int, tree: dict[str, ObjectRef], access_tokens: None, storage_root: object
) -> None:
    profile = {"type": "local", "path": f"{storage_root}/second"}
    second = create_warehouse(actor=INTERNAL, project=get_project(None), name="second", storage_profile=profile)
    update("in second", warehouse=second.pk, project=get_project(None).pk)
    publish()
    robot = create_service_account(actor=INTERNAL, name="robot").user_id
    give("read_events", tree["wh"], Actor(user_id=robot))
    texts = {
        scope: create_token(actor=INTERNAL, user_id=robot, name=scope, scopes=[scope]).text
        for scope in ("management:read", "catalog")
    }
    client = TokenClient(texts["management:read"], EVENTS)
    response = client.get(f"?after={start}&warehouseId={tree['wh'].id}")
    assert (response.status, [each["subject"] for each in response.json()["events"]]) == (200, ["in warehouse"])
    assert client.get(f"?warehouseId={second.pk}").refused(404, "NoSuchWarehouseException")
    assert client.get("").refused(403, "ServerActionForbidden")
    assert client.get(f"?projectId={tree['project'].id}").refused(403, "ProjectActionForbidden")
    wrong = TokenClient(texts["catalog"], EVENTS).get(f"?warehouseId={tree['wh'].id}")
    assert wrong.refused(403, "InsufficientScope")
    assert ApiClient(EVENTS).get("").refused(401, "MissingAuthorizationHeader")


def test_events_of_an_earlier_project_with_the_same_id(
    start: int, tree: dict[str, ObjectRef], reader: Callable[[str], CallerClient]
) -> None:
    create_project(actor=INTERNAL, name="Lab", project_id="lab")
    update("earlier", project="lab")
    delete_project(actor=INTERNAL, project_id="lab")
    create_project(actor=INTERNAL, name="Lab", project_id="lab")
    update("later", project="lab")
    publish()
    anna, root = reader("anna"), reader("root")
    give("read_events", ObjectRef(T.PROJECT, "lab"), user("anna"))
    give("operator", tree["server"], user("root"))
    publish()
    shown = [each["type"] for each in page(f"after={start}&projectId=lab", client=anna)["events"]]
    assert shown == ["createProject", "updateTable", "createGrant"]
    assert subjects(f"after={start}&projectId=lab&type=updateTable", client=anna) == ["later"]
    assert subjects(f"after={start}&projectId=lab&type=updateTable", client=root) == ["earlier", "later"]
    Project.objects.filter(pk="lab").delete()
    assert anna.get("?projectId=lab").refused(403, "ProjectActionForbidden"), "as for a project that is hidden"
    assert subjects(f"after={start}&projectId=lab&type=updateTable", client=root) == ["earlier", "later"]


def test_a_read_is_audited_once_an_hour(
    start: int, tree: dict[str, ObjectRef], reader: Callable[[str], CallerClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    give("read_events", tree["wh"], user("anna"))
    give("read_events", tree["wh"], user("bert"))
    query = f"?warehouseId={tree['wh'].id}"
    for _ in range(3):
        reader("anna").get(query)
        reader("anna").get(f"{query}&after=latest&limit=7")
    reader("anna").get(f"{query}&type=dropTable&payload=ids")
    reader("bert").get(query)
    reader("carl").get(query)
    collector.write_due()
    rows = AuditRecord.objects.filter(event="events.read").order_by("actor", "details")
    found = [(row.actor, row.object_type, row.object_id, json.loads(row.details)) for row in rows]
    of_warehouse = ("warehouse", str(tree["wh"].id))
    given = {"warehouse": str(tree["wh"].id), "payload": "full"}
    narrow = given | {"types": ["dropTable"], "payload": "ids"}
    assert sorted(found, key=str) == sorted(
        [
            ("oidc~anna", *of_warehouse, given),
            ("oidc~anna", *of_warehouse, narrow),
            ("oidc~bert", *of_warehouse, given),
        ],
        key=str,
    )
    assert {row.count for row in rows} == {6, 1}
    for _ in range(4):
        reader("anna").get(query)
    collector.write_due()
    assert AuditRecord.objects.filter(event="events.read").count() == 3
    collector.write_due(is_last=True)
    assert sum(row.count for row in AuditRecord.objects.filter(event="events.read")) == 12
    assert occurrences.EVENT_READ_INTERVAL == 3600
    assert [row.actor for row in AuditRecord.objects.filter(event="access.denied")] == ["oidc~carl"]
