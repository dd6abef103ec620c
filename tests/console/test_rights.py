"""Each page shows to a user what the APIs show to the same user, and hides what they hide."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self
from uuid import uuid4

import pytest

from storage.models import Warehouse
from tenancy.models import Project, Securable
from tenancy.models.securable import ObjectRef
from tests.authz.conftest import user
from tests.authz.tree_fixtures import give
from tests.console.conftest import Open
from tests.console.sign_in.browser import Browser
from tests.harness.named_callers import CallerClient
from tests.harness.routes import CONSOLE_ROUTES
from tests.harness.wsgi_client import call
from tests.management.warehouse_request_fixtures import use_settings

pytestmark = pytest.mark.django_db(databases="__all__")

USERS = ("instance", "lead", "engineer", "guest")
HIDDEN_NAMES = ("closed", "deep")
"""Names of `lake` that neither the engineer nor the user without grants may learn."""


@dataclass(frozen=True)
class Ids:
    """Ids that clients see, of `lake`."""

    warehouse: str
    project: str
    open: str
    closed: str
    tables: Mapping[str, str]
    views: Mapping[str, str]
    generic_tables: Mapping[str, str]


@pytest.fixture
def ids(lake: dict[str, ObjectRef], root: CallerClient, warehouse: Warehouse) -> Ids:
    listed = root.get("/namespaces?returnUuids=true&pageToken=").json()
    namespaces = {levels[0]: uuid for levels, uuid in zip(listed["namespaces"], listed["namespace-uuids"], strict=True)}
    tables, views, generic_tables = {}, {}, {}
    for namespace in ("open", "closed"):
        found = root.get(f"/namespaces/{namespace}/tables?returnUuids=true&pageToken=").json()
        tables[namespace] = found["table-uuids"][0]
        views[namespace] = root.get(f"/namespaces/{namespace}/views?returnUuids=true&pageToken=").json()["table-uuids"][
            0
        ]
        address = f"/lakekeeper/v1/{warehouse.pk}/namespaces/{namespace}/generic-tables"
        listed = call("GET", address, headers={"authorization": "Bearer root"}).json()
        generic_tables[namespace] = listed["identifiers"][0]["id"]
    project = Project.objects.get()
    return Ids(str(warehouse.pk), project.pk, namespaces["open"], namespaces["closed"], tables, views, generic_tables)


@pytest.fixture
def grants(lake: dict[str, ObjectRef], client: Callable[[str], CallerClient], monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the four users their permissions; the instance admin has no grant."""
    for name in USERS:
        client(name)
    project = ObjectRef(Securable.Type.PROJECT, Project.objects.get().pk)
    give("project_admin", project, user("lead"))
    give("select", lake["open"], user("engineer"))
    use_settings(monkeypatch, instance_admins=["oidc~instance"])


def pages_and_calls(ids: Ids) -> dict[str, str]:
    """Return the path of the API that reads the same object, by the address of its page."""
    warehouse, management = f"/ui/warehouse/{ids.warehouse}", "/management/v1"
    catalog = f"/catalog/v1/{ids.warehouse}/namespaces"
    compared = {
        f"/ui/project/{ids.project}/": f"{management}/project/{ids.project}",
        f"{warehouse}/": f"{management}/warehouse/{ids.warehouse}",
        f"{warehouse}/overview/": f"{management}/warehouse/{ids.warehouse}",
        f"{warehouse}/storage/": f"{management}/warehouse/{ids.warehouse}",
        f"{warehouse}/rules/": f"{management}/warehouse/{ids.warehouse}",
        f"{warehouse}/tasks/": f"{management}/warehouse/{ids.warehouse}",
        f"{warehouse}/statistics/": f"{management}/warehouse/{ids.warehouse}",
        f"/ui/audit/?project={ids.project}": f"{management}/audit?projectId={ids.project}",
        f"/ui/audit/export/?format=csv&project={ids.project}": f"{management}/audit/export?projectId={ids.project}",
    }
    for name, namespace_id in (("open", ids.open), ("closed", ids.closed)):
        compared |= {
            f"{warehouse}/namespace/{namespace_id}/": f"{catalog}/{name}",
            f"{warehouse}/namespace/{namespace_id}/properties/": f"{catalog}/{name}",
            f"{warehouse}/namespace/{namespace_id}/activity/": f"{catalog}/{name}",
            f"{warehouse}/namespace/{namespace_id}/deleted/": f"{catalog}/{name}",
        }
    for namespace, uuid in ids.tables.items():
        for tab in ("files/", "preview/"):
            compared[f"{warehouse}/table/{uuid}/{tab}"] = f"{catalog}/{namespace}/tables/a/credentials"
        for tab in ("", "schema/", "snapshots/", "usage/", "health/", "properties/", "activity/", "metadata/"):
            compared[f"{warehouse}/table/{uuid}/{tab}"] = f"{management}/warehouse/{ids.warehouse}/table/{uuid}/actions"
    for uuid in ids.views.values():
        for tab in ("", "schema/", "versions/", "properties/", "activity/", "metadata/"):
            compared[f"{warehouse}/view/{uuid}/{tab}"] = f"{management}/warehouse/{ids.warehouse}/view/{uuid}/actions"
    for uuid in ids.generic_tables.values():
        for tab in ("", "properties/", "activity/"):
            path = f"{management}/warehouse/{ids.warehouse}/generic-table/{uuid}/actions"
            compared[f"{warehouse}/generic-table/{uuid}/{tab}"] = path
    return compared


def assert_nothing_hidden(name: str, address: str, text: str) -> None:
    """Fail if a page shows the engineer or the guest a hidden name."""
    if name in {"engineer", "guest"}:
        assert not [hidden for hidden in HIDDEN_NAMES if hidden in text.replace("disclosed", "")], address


@pytest.mark.parametrize("name", USERS)
def test_pages_have_the_status_of_the_api(grants: None, ids: Ids, open_as: Open, name: str) -> None:
    browser = open_as(name)
    statuses = {}
    compared = pages_and_calls(ids)
    for address in compared:
        page = browser.get(address)
        statuses[address] = page.status
        assert_nothing_hidden(name, address, page.text)
    headers = {"authorization": f"Bearer {name}"}
    of_api = {path: call("GET", path, headers=headers).status for path in dict.fromkeys(compared.values())}
    expected = {address: of_api[path] for address, path in compared.items()}
    if expected[f"/ui/project/{ids.project}/"] == 403:  # the APIs return 403 for a hidden project, as Lakekeeper does
        expected |= dict.fromkeys((f"/ui/project/{ids.project}/", f"/ui/audit/?project={ids.project}"), 404)
        expected[f"/ui/audit/export/?format=csv&project={ids.project}"] = 404
    assert statuses == expected
    assert 200 in statuses.values() or name == "guest"


@pytest.mark.parametrize("name", ["engineer", "guest"])
def test_hidden_names_appear_on_no_page(grants: None, ids: Ids, open_as: Open, name: str) -> None:
    """Pages of lists, levels of the tree and searches; the test above has the pages of objects."""
    browser = open_as(name)
    for address in (
        "/ui/", "/ui/catalog/", "/ui/warehouse/", "/ui/deleted/", "/ui/task/", "/ui/statistics/",
        f"/ui/catalog/tree/?node=warehouse:{ids.warehouse}",
        f"/ui/catalog/tree/?at=table:{ids.warehouse}:{ids.tables['closed']}",
    ):  # fmt: skip
        assert_nothing_hidden(name, address, browser.get(address).text)
    for typed in (*HIDDEN_NAMES, ids.closed, ids.tables["closed"]):
        for address in (
            f"/ui/search/?q={typed}", f"/ui/warehouse/{ids.warehouse}/?name={typed}",
            f"/ui/warehouse/{ids.warehouse}/namespace/{ids.open}/?name={typed}", f"/ui/principals/?q={typed}",
            f"/ui/catalog/tree/?node=warehouse:{ids.warehouse}&q={typed}",
        ):  # fmt: skip
            page = browser.get(address)
            assert_nothing_hidden(name, address, page.text.replace(typed, ""))  # pages repeat what the user typed


def test_hidden_and_unknown_objects_have_the_same_page(grants: None, ids: Ids, open_as: Open) -> None:
    browser = open_as("guest")

    def shown(address: str) -> tuple[int, str]:
        page = browser.get(address)
        return page.status, without_random_parts(page)

    for kind, hidden in (("table", ids.tables["closed"]), ("view", ids.views["closed"]), ("namespace", ids.closed)):
        unknown = shown(f"/ui/warehouse/{ids.warehouse}/{kind}/{uuid4()}/")
        assert shown(f"/ui/warehouse/{ids.warehouse}/{kind}/{hidden}/") == unknown
        assert unknown[0] == 404
    assert shown(f"/ui/warehouse/{uuid4()}/") == shown(f"/ui/warehouse/{ids.warehouse}/")
    tree = "/ui/catalog/tree/?at=warehouse:"
    assert shown(f"{tree}{uuid4()}") == shown(f"{tree}{ids.warehouse}")
    for address in (
        "/ui/project/{}/", "/ui/project/{}/access/", "/ui/project/{}/settings/", "/ui/catalog/tree/?node=project:{}",
        "/ui/access/?project={}", "/ui/access/review/?project={}", "/ui/role/?project={}", "/ui/tag/?project={}",
        "/ui/deleted/?project={}", "/ui/audit/?project={}",
    ):  # fmt: skip
        status, page = shown(address.format(ids.project))
        assert (status, page.replace(ids.project, "unknown")) == shown(address.format("unknown")), address


def pages_of_changes(ids: Ids) -> dict[str, tuple[str, str]]:
    """Return the API's list of allowed actions on the object, and the action that is needed, by the page's address."""
    warehouse, management = f"/ui/warehouse/{ids.warehouse}", f"/management/v1/warehouse/{ids.warehouse}"
    needed = {f"{warehouse}/add-namespace/": (f"{management}/actions", "create_namespace")}
    for namespace_id in (ids.open, ids.closed):
        for page, action in (
            ("add-namespace", "create_namespace"), ("move", "move"), ("drop", "delete"),
            ("edit-properties", "update_properties"),
        ):  # fmt: skip
            path = f"{management}/namespace/{namespace_id}/actions"
            needed[f"{warehouse}/namespace/{namespace_id}/{page}/"] = (path, action)
    for kind, uuid in (
        *(("table", each) for each in ids.tables.values()), ("view", ids.views["open"]),
        ("generic-table", ids.generic_tables["open"]),
    ):  # fmt: skip
        for page, action in (("rename", "rename"), ("drop", "drop"), ("edit-properties", "commit")):
            if (kind, page) != ("generic-table", "edit-properties"):
                needed[f"{warehouse}/{kind}/{uuid}/{page}/"] = (f"{management}/{kind}/{uuid}/actions", action)
    return needed


@pytest.mark.parametrize("name", USERS)
def test_pages_of_changes_need_the_action_of_the_api(grants: None, ids: Ids, open_as: Open, name: str) -> None:
    give("modify", ObjectRef(Securable.Type.NAMESPACE, ids.open), user("engineer"))
    browser = open_as(name)
    statuses, expected, shown = {}, {}, ""
    allowed: dict[str, tuple[int, list[str]]] = {}
    for address, (path, action) in pages_of_changes(ids).items():
        if path not in allowed:
            found = call("GET", path, headers={"authorization": f"Bearer {name}"})
            allowed[path] = found.status, [each["action"] for each in found.json().get("allowed-actions", [])]
            shown += browser.get(f"{address.rstrip('/').rpartition('/')[0]}/").text
        status, actions = allowed[path]
        expected[address] = status if status != 200 or action in actions else 403
        statuses[address] = browser.get(address).status
        if expected[address] != 200:
            assert browser.post(address, {"action": "nonsense", "name-0": "a"}).status in {400, 403, 404}, address
        if address.endswith("edit-properties/") or expected[address] != 200:
            continue
        assert address in shown, "the control of an allowed action"
    assert statuses == expected
    assert not [address for address, status in expected.items() if status != 200 and address in shown]


class _NamingProcess:
    """In place of the process that runs SQL: the statement names one table, and has no rows."""

    def __init__(self, *_: object) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def ask(self, frame: bytes) -> Any:
        sql = json.loads(frame).get("sql")
        named = {"tables": [sql.split()[-1].split(".")]} if sql else {"columns": [], "rows": []}
        return {**named, "has-more": False, "bytes": 0}


@pytest.mark.parametrize("name", USERS)
def test_sql_reads_the_tables_of_the_api(
    grants: None, ids: Ids, open_as: Open, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("catalog.services.sql_query.BoundedProcess", _NamingProcess)
    browser = open_as(name)
    texts, statuses = {}, {}
    for table in ("open.a", "closed.a", "closed.unknown"):
        namespace, _, own_name = table.partition(".")
        path = f"/catalog/v1/{ids.warehouse}/namespaces/{namespace}/tables/{own_name}/credentials"
        expected = call("GET", path, headers={"authorization": f"Bearer {name}"}).status
        sql = f"SELECT 1 FROM {table}"  # noqa: S608
        page = browser.post("/ui/sql/", {"action": "run", "warehouse": ids.warehouse, "sql": sql})
        statuses[table] = page.status
        assert page.status == expected, table
        error = page.text.partition('"ik-sql-error"')[2].partition("</pre>")[0] or without_random_parts(page)
        texts[table] = error.replace(table, "")
    if statuses["closed.a"] == 404:
        assert texts["closed.a"] == texts["closed.unknown"]


def without_random_parts(page: Any) -> str:
    """Return the text of a page without its request id and the CSRF token, which differ each time."""
    text: str = page.text.replace(page.header("X-Request-Id"), "")
    before, _, after = text.partition('name="csrfmiddlewaretoken" value="')
    return before + after.partition('"')[2]


def test_pages_need_a_session(bootstrapped: None) -> None:
    """Every address of the console, except those of sign-in and sign-out, leads to the sign-in page."""
    open_pages = {"sign_out", "callback", "signed_out"}
    for route in (each for each in CONSOLE_ROUTES if "sign-in" not in each.pattern):
        page = Browser().get(route.target({"tab": "contents", "project_id": "p"}))
        if route.name in open_pages:
            assert page.status in {200, 302, 400, 403, 405}, route
        else:
            assert (page.status, page.location.partition("?")[0]) == (302, "/ui/sign-in/"), route


def test_forged_changes_of_tasks_are_refused(
    grants: None, ids: Ids, open_as: Open, lake: dict[str, ObjectRef], root: CallerClient, soft_delete: int
) -> None:
    owner = open_as("owner")
    give("ownership", lake["open.a"], user("owner"))
    assert root.delete("/namespaces/open/tables/a").status == 204
    tasks = call(
        "POST", f"/management/v1/warehouse/{ids.warehouse}/task/list", body=b"{}",
        headers={"authorization": "Bearer root"},
    ).json()["tasks"]  # fmt: skip
    address = f"/ui/warehouse/{ids.warehouse}/task/{tasks[0]['task-id']}/"
    for name, status in (("guest", 404), ("engineer", 403)):
        refused = open_as(name).post(address, {"action": "cancel"})
        assert refused.status == status, refused.text
    assert open_as("lead").post(address, {"action": "nonsense"}).status == 400
    assert "action=cancel" in open_as("lead").get(address).text
    assert "action=cancel" in owner.get(address).text, "by the table"
    assert open_as("lead").post(address, {"action": "cancel"}).status == 302
    assert root.head("/namespaces/open/tables/a").status == 204


def test_pages_are_private_and_restricted(grants: None, ids: Ids, open_as: Open) -> None:
    for address in ("/ui/", f"/ui/warehouse/{ids.warehouse}/table/{uuid4()}/", "/ui/nope/", "/ui/sign-in/"):
        page = open_as("lead").get(address)
        policy = page.header("Content-Security-Policy")
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert page.header("Cache-Control") == "private, no-store"
        assert page.header("X-Frame-Options") == "DENY"
        assert page.header("X-Content-Type-Options") == "nosniff"
