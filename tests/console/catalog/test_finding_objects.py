"""Links of Lakekeeper's console, lists of warehouses over many projects, shortcuts and the texts of scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from catalog.models import Namespace, Tabular, TabularColumns
from catalog.selectors.search import SearchText, search_for
from icekeeper.kernel.http.paging import Page
from icekeeper.kernel.names import name_key
from storage.models import Warehouse
from storage.selectors import list_warehouses_of_projects_for
from storage.services.warehouses import create_warehouse
from tenancy.actor import INTERNAL, Actor
from tenancy.authz.actions import Can
from tenancy.authz.permission_epoch import permission_epoch
from tenancy.authz.permissions import are_allowed, check_permissions
from tenancy.authz.port import PermissionCheck
from tenancy.models import Project, TagDefinition
from tenancy.models.securable import ObjectRef
from tenancy.selectors.users import search_users
from tenancy.services.projects import create_project
from tenancy.services.tags import put_attachment
from tests.authz.conftest import user
from tests.authz.tree_fixtures import T, give
from tests.console.conftest import Open
from tests.console.test_rights import Ids, grants, ids, without_random_parts  # noqa: F401 - fixtures

pytestmark = [pytest.mark.django_db(databases="__all__"), pytest.mark.both_databases]

HOSTILE = "<img src=x onerror=alert(1)>"
STATIC = Path(__file__).parents[3] / "management" / "static" / "console"


def test_links_of_lakekeeper_lead_to_the_page_of_the_object(
    grants: None,  # noqa: F811
    ids: Ids,  # noqa: F811
    open_as: Open,
) -> None:
    base = f"/ui/warehouse/{ids.warehouse}/namespace"
    engineer = open_as("engineer")
    wanted = {
        f"{base}/open": f"/ui/warehouse/{ids.warehouse}/namespace/{ids.open}/",
        f"{base}/OPEN/table/a": f"/ui/warehouse/{ids.warehouse}/table/{ids.tables['open']}/",
        f"{base}/open/view/v": f"/ui/warehouse/{ids.warehouse}/view/{ids.views['open']}/",
        f"{base}/open/generic-table/g/": f"/ui/warehouse/{ids.warehouse}/generic-table/{ids.generic_tables['open']}/",
    }
    assert {each: engineer.get(each).location for each in wanted} == wanted
    hidden = [engineer.get(f"{base}/{each}") for each in ("closed", "closed/table/a", f"closed{quote(chr(31))}deep")]
    unknown = engineer.get(f"{base}/nothing/table/{quote('a/<b>', safe='')}")
    inside_unknown = engineer.get(f"/ui/warehouse/{uuid4()}/namespace/open/table/a")
    for each in (*hidden, unknown, inside_unknown, engineer.get(f"{base}/open/column/a")):
        assert each.status == 404
        assert without_random_parts(each) == without_random_parts(unknown)


def test_warehouses_of_many_projects_are_one_list(
    grants: None,  # noqa: F811
    open_as: Open,
    storage_root: Path,
) -> None:
    for number in range(6):
        project = create_project(actor=INTERNAL, name=f"project {number}")
        profile = {"type": "local", "path": str(storage_root / f"far {number}")}
        create_warehouse(actor=INTERNAL, project=project, name=f"warehouse {number}", storage_profile=profile)
        give("project_admin", ObjectRef(T.PROJECT, project.pk), user("lead"))
    lead, guest = open_as("lead"), open_as("guest")
    counts = {}
    for address in ("/ui/catalog/", "/ui/warehouse/", "/ui/deleted/", "/ui/task/", "/ui/search/?q=warehouse"):
        page = lead.get(address)
        assert "warehouse 0" in page.text, address
        assert "warehouse 5" in page.text, address
        assert "warehouse 0" not in guest.get(address).text
        permission_epoch.poll()
        lead.get(address)
        counts[address] = lead.get(address).statements
    assert max(counts.values()) <= 15, counts
    projects = list(Project.objects.order_by("created_at", "id"))
    found, has_more = list_warehouses_of_projects_for(actor=user("lead"), projects=projects, limit=3)
    assert (len(found), has_more) == (3, True)


def test_hidden_warehouses_are_not_scanned(
    grants: None,  # noqa: F811
    storage_root: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Beyond the first batch, users who see few warehouses of many have only those checked."""
    for number in range(12):
        profile = {"type": "local", "path": str(storage_root / f"many {number}")}
        create_warehouse(
            actor=INTERNAL, project=Project.objects.get(), name=f"many {number:02}", storage_profile=profile
        )
    for number in (1, 4, 11):
        give("describe", ObjectRef(T.WAREHOUSE, Warehouse.objects.get(name=f"many {number:02}").pk), user("engineer"))
    monkeypatch.setattr("storage.selectors.BATCH_SIZE", 2)
    checked: list[ObjectRef] = []

    def noting(actor: Actor, action: Can, refs: Sequence[ObjectRef]) -> Iterator[bool]:
        checked.extend(refs)
        return are_allowed(actor, action, refs)

    monkeypatch.setattr("storage.selectors.are_allowed", noting)
    projects = list(Project.objects.all())
    for limit, expected in ((1_000, ["wh", "many 01", "many 04", "many 11"]), (2, ["wh", "many 01"])):
        for name, is_few in (("engineer", True), ("lead", False), ("guest", True), ("instance", False)):
            checked.clear()
            found, has_more = list_warehouses_of_projects_for(actor=user(name), projects=projects, limit=limit)
            names = [each.name for each in found]
            if name == "engineer":
                assert (names, has_more) == (expected, limit == 2)
            elif name == "guest":
                assert (names, has_more, checked) == ([], False, [])
            else:
                assert (len(names), has_more) == (min(13, limit), limit == 2)
            assert len(checked) <= (2 + 3 if is_few else 13), name


def test_search_finds_names_tags_locations_and_ids(
    grants: None,  # noqa: F811
    ids: Ids,  # noqa: F811
    open_as: Open,
    lake: dict[str, ObjectRef],
) -> None:
    for scope in ("table", "namespace"):
        definition = TagDefinition.objects.create(
            project_id=ids.project, name=f"PII {scope}", name_key=f"pii {scope}", value_kind="free-text", scope=[scope]
        )
        for name in ("open", "closed"):
            ref = lake[f"{name}.a" if scope == "table" else name]
            put_attachment(definition, ref, field_id=None, value="high")
    location = {row.namespace.levels[-1]: row.location for row in Tabular.objects.filter(name="a")}
    table, namespace = (f"/ui/warehouse/{ids.warehouse}/{kind}" for kind in ("table", "namespace"))
    found = {
        "A": f"{table}/{ids.tables['open']}/",
        "open.a": f"{table}/{ids.tables['open']}/",
        f"id: {ids.tables['open']}": f"{table}/{ids.tables['open']}/",
        ids.open: f"{namespace}/{ids.open}/",
        "pii table": f"{table}/{ids.tables['open']}/",
        "tag: pii table=high": f"{table}/{ids.tables['open']}/",
        "TAG:Pii Namespace": f"{namespace}/{ids.open}/",
        location["open"]: f"{table}/{ids.tables['open']}/",
        f"{location['open']}/data/00000.parquet": f"{table}/{ids.tables['open']}/",
        f"location:{location['open'][:-3]}": f"{table}/{ids.tables['open']}/",
    }
    hidden = ("closed", "closed.a", "deep", ids.tables["closed"], ids.closed, location["closed"])
    nothing = ("name: pii table", "tag: pii table=low", "tag: pii", "%", "_", "id: open")
    engineer, lead, guest = open_as("engineer"), open_as("lead"), open_as("guest")
    for text, url in found.items():
        page = engineer.get(f"/ui/search/?part=results&q={quote(text)}")
        assert f'href="{url}"' in page.text, text
        assert ids.tables["closed"] not in page.text
        assert ids.closed not in page.text
        assert 'href="' not in guest.get(f"/ui/search/?part=results&q={quote(text)}").text
    for text in (*hidden, *nothing):
        assert 'href="' not in engineer.get(f"/ui/search/?part=results&q={quote(text)}").text, text
    for text in hidden:
        assert 'href="' in lead.get(f"/ui/search/?part=results&q={quote(text)}").text, text
    assert "There are more" not in engineer.get("/ui/search/?q=o").text


def test_search_finds_columns(
    grants: None,  # noqa: F811
    ids: Ids,  # noqa: F811
    open_as: Open,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A hit names its columns. Hidden tables neither appear nor displace visible ones, nor do unreadable schemas."""
    names = f"\nid\naddress\naddress.City_{HOSTILE}\n"
    tables = TabularColumns.objects.filter(tabular__uuid__in=ids.tables.values())
    assert tables.update(names=names, keys=name_key(names)) == 2
    table = f'<a href="/ui/warehouse/{ids.warehouse}/table/{ids.tables["open"]}/"'
    engineer, guest = open_as("engineer"), open_as("guest")
    monkeypatch.setattr("catalog.selectors.search.FIRST_BATCH", 1)
    for text in ("address", "column: ADDRESS", "address.ci", "city_"):
        shown = engineer.get(f"/ui/search/?part=results&q={quote(text)}").text
        assert shown.count("<a href=") == shown.count(table) == 1, text
        assert "<code>address" in shown
        assert HOSTILE not in shown
        assert "<a href=" not in guest.get(f"/ui/search/?part=results&q={quote(text)}").text
    assert table in engineer.get("/ui/search/?in=column&q=id").text
    for text in ("name: address", "column: a", "column: addr_ss", "tag: address"):
        assert "<a href=" not in engineer.get(f"/ui/search/?part=results&q={quote(text)}").text, text
    both = engineer.get("/ui/search/?part=results&q=a").text  # the name of the table, too short for a part of a column
    assert table in both
    assert "<code>" not in both

    def without_metadata(actor: Actor, checks: Sequence[PermissionCheck]) -> list[bool]:
        allowed = check_permissions(actor, checks)
        return [is_so and check[0] is not Can.GET_METADATA for is_so, check in zip(allowed, checks, strict=True)]

    monkeypatch.setattr("catalog.selectors.search.check_permissions", without_metadata)
    assert "<a href=" not in engineer.get("/ui/search/?part=results&q=address").text
    assert "<code>" not in engineer.get("/ui/search/?part=results&q=open.a").text


def test_hidden_candidates_do_not_displace_visible_ones(
    grants: None,  # noqa: F811
    ids: Ids,  # noqa: F811
    open_as: Open,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("catalog.selectors.search.FIRST_BATCH", 1)
    engineer = open_as("engineer")
    assert f"/table/{ids.tables['open']}/" in engineer.get("/ui/search/?q=a").text
    monkeypatch.setattr("management.admin.catalog.search.MAX_SHOWN", 1)
    assert "There are more" in open_as("lead").get("/ui/search/?q=a").text
    assert "There are more" not in engineer.get("/ui/search/?in=id&q=a").text
    monkeypatch.setattr("tenancy.authz.builtin.visible_objects.MAX_GRANTS", 0)  # candidates are checked one by one
    assert f"/table/{ids.tables['open']}/" in engineer.get("/ui/search/?q=a").text


def test_hidden_tags_do_not_displace_visible_ones(
    grants: None,  # noqa: F811
    ids: Ids,  # noqa: F811
    open_as: Open,
    lake: dict[str, ObjectRef],
    storage_root: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own, other = Project.objects.get(), create_project(actor=INTERNAL, name="other")
    definitions = {
        each.pk: TagDefinition.objects.create(
            project=each, name="pii", name_key="pii", value_kind="marker", scope=["warehouse", "table"]
        )
        for each in (own, other)
    }
    for project, name in ((other, "x"), (other, "y"), (other, "z"), (own, "hidden")):
        profile = {"type": "local", "path": str(storage_root / name)}
        created = create_warehouse(actor=INTERNAL, project=project, name=name, storage_profile=profile)
        put_attachment(definitions[project.pk], ObjectRef(T.WAREHOUSE, created.pk), field_id=None, value=None)
    for name in ("closed.a", "open.a"):
        put_attachment(definitions[own.pk], lake[name], field_id=None, value=None)
    monkeypatch.setattr("catalog.selectors.search.FIRST_BATCH", 1)
    monkeypatch.setattr("catalog.selectors.search.MAX_SCANNED", 3)  # as many as the own project has
    engineer = open_as("engineer")
    for text in ("pii", "tag: pii"):
        shown = engineer.get(f"/ui/search/?part=results&q={quote(text)}").text
        assert re.findall(r'<a href="([^"]*)"', shown) == [f"/ui/warehouse/{ids.warehouse}/table/{ids.tables['open']}/"]


def test_shortcuts_can_be_switched_off(grants: None, open_as: Open) -> None:  # noqa: F811
    engineer = open_as("engineer")
    page = engineer.get("/ui/")
    assert set(re.findall(r'data-section-key="(\w)"', page.text)) == {"o", "c", "d", "t", "a"}
    assert engineer.post("/ui/profile/", {"action": "switch-shortcuts", "shortcuts": "off"}).status == 302
    assert "ik-shortcuts" not in engineer.get("/ui/").text
    assert engineer.post("/ui/profile/", {"action": "switch-shortcuts", "shortcuts": "on"}).status == 302
    assert "ik-shortcuts" in engineer.get("/ui/").text


def test_scripts_have_no_text_of_their_own() -> None:
    """Texts come from templates, which translate them."""
    for script in STATIC.glob("*.js"):
        code = re.sub(r"(?m)^\s*//.*$|\s// .*$", "", script.read_text())
        texts = re.findall(r"[\"'`]([A-Z][a-z]+ [^\"'`]*)[\"'`]", code)
        assert texts == [], script.name


def test_search_reads_indexes(warehouse: Warehouse) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("the PostgreSQL run has this")
    namespace = Namespace.objects.create(warehouse=warehouse, path="sales", path_key="sales")
    plans = {}
    with connection.cursor() as cursor:
        cursor.execute(_MANY_TABLES, [warehouse.pk, namespace.pk])
        cursor.execute(_THEIR_COLUMNS)
        for index in ("tabular_by_part_of_name", "column_by_part_of_name"):
            cursor.execute("SELECT gin_clean_pending_list(%s)", [index])
        cursor.execute("ANALYZE catalog_tabular, catalog_tabularcolumns, storage_warehouse")
        for text in ("column: total_7777", "column: 77"):
            with CaptureQueriesContext(connection) as captured:
                search_for(actor=INTERNAL, wanted=SearchText.parse(text), projects=[], limit=10)
            (read,) = (each["sql"] for each in captured if "AS part" in each["sql"])
            cursor.execute(f"EXPLAIN {read}")
            plans[text] = "\n".join(row[0] for row in cursor.fetchall())
        for text in ("orders7777", "sales.orders7777", "s3://bucket/a/orders7777", str(uuid4())):
            with CaptureQueriesContext(connection) as captured:
                search_for(actor=INTERNAL, wanted=SearchText.parse(text), projects=[], limit=10)
            (read,) = (
                each["sql"]
                for each in captured
                if 'FROM "catalog_tabular"' in each["sql"] and "AS part" not in each["sql"]
            )
            cursor.execute(f"EXPLAIN {read}")
            plans[text] = "\n".join(row[0] for row in cursor.fetchall())
        with CaptureQueriesContext(connection) as captured:
            search_users(actor=INTERNAL, typed="clerk 77", user_type=None, page=Page("users", None, 10))
        read = next(each["sql"] for each in captured if 'FROM "tenancy_user"' in each["sql"])
        cursor.execute("SET LOCAL enable_seqscan = off")  # there are few users
        cursor.execute(f"EXPLAIN {read}")
        plans["users"] = "\n".join(row[0] for row in cursor.fetchall())
    assert "user_by_part_of_name" in plans["users"]
    assert "user_by_part_of_email" in plans["users"]
    assert "tabular_by_part_of_name" in plans["orders7777"]
    assert "tabular_by_part_of_name" in plans["sales.orders7777"]
    assert "tabular_by_location" in plans["s3://bucket/a/orders7777"]
    assert plans["column: total_7777"].count("column_by_part_of_name") >= 2
    assert "column_by_part_of_name" in plans["column: 77"]
    assert "Seq Scan on catalog_tabular" not in "".join(plans.values())


_MANY_TABLES = """
INSERT INTO catalog_tabular (id, warehouse_id, namespace_id, kind, uuid, name, name_key, location, metadata_location,
                             protected, created_at, updated_at)
SELECT gen_random_uuid(), %s, %s, 'table', gen_random_uuid(), 'orders' || n, 'orders' || n,
       's3://bucket/a/orders' || n, '', false, now(), now()
  FROM generate_series(1, 10000) n
"""

_THEIR_COLUMNS = """
INSERT INTO catalog_tabularcolumns (tabular_id, names, keys)
SELECT id, names, names
  FROM (SELECT id, E'\\nid\\nall_have_it\\n' || replace(name, 'orders', 'total_') || E'\\n' AS names
          FROM catalog_tabular) AS named
"""
