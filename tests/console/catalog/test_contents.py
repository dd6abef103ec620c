"""The contents of namespaces and warehouses, and the levels of the tree: in the order of names, filtered by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit
from uuid import UUID, uuid4

import psycopg
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from catalog.models import Namespace, Tabular
from catalog.selectors import open_levels
from catalog.selectors.children import Child, list_children_for
from icekeeper.kernel.db import sql
from icekeeper.kernel.http.paging import Page
from icekeeper.kernel.names import LEVEL_SEPARATOR, name_key
from storage.models import Warehouse
from storage.services.warehouses import create_warehouse
from tenancy.actor import INTERNAL
from tenancy.authz.securables import add_securable
from tenancy.models import Project
from tenancy.models.securable import ObjectRef
from tenancy.services.projects import create_project
from tests.authz.conftest import user
from tests.authz.tree_fixtures import T, give
from tests.console.conftest import Open
from tests.console.sign_in.browser import Browser
from tests.console.sign_in.browser import Page as ShownPage
from tests.console.test_rights import Ids, grants, ids, without_random_parts  # noqa: F401 - fixtures

pytestmark = [
    pytest.mark.django_db(databases="__all__"), pytest.mark.both_databases,
    pytest.mark.usefixtures("grants"),
]  # fmt: skip

MARKUP = "<img src=x onerror=alert(1)>"
HOSTILE = [
    f"{MARKUP}\"'&amp;", "50%", "a_b", "axb", "back\\slash", "Straße", "ﬁle", "Ünïcode", "été", "日本", "dot.ted",
    "a/b", "'; DROP TABLE t--", "{{ 7*7 }}",
]  # fmt: skip
NUMBERED = [f"orders {number:03}" for number in range(110, 0, -1)]


def add_tables(namespace_id: UUID, names: Sequence[str], kind: str = "table") -> dict[str, ObjectRef]:
    namespace = Namespace.objects.get(pk=namespace_id)
    rows = [
        Tabular(
            warehouse_id=namespace.warehouse_id, namespace=namespace, kind=kind, uuid=uuid4(), name=name,
            name_key=name_key(name), location=f"file:///t/{uuid4()}", metadata_location="",
        )
        for name in names
    ]  # fmt: skip
    Tabular.objects.bulk_create(rows)
    refs: dict[str, ObjectRef] = {row.name: ObjectRef(T(kind), row.pk) for row in rows}
    for ref in refs.values():
        add_securable(*ref, parent=ObjectRef(T.NAMESPACE, namespace_id))
    return refs


def add_namespaces(warehouse_id: UUID, parent_id: UUID | None, names: Sequence[str]) -> dict[str, ObjectRef]:
    parent = None if parent_id is None else Namespace.objects.get(pk=parent_id)
    above, above_key = ("", "") if parent is None else (f"{parent.path}\x1f", f"{parent.path_key}\x1f")
    rows = [
        Namespace(warehouse_id=warehouse_id, parent=parent, path=above + name, path_key=above_key + name_key(name))
        for name in names
    ]
    Namespace.objects.bulk_create(rows)
    refs: dict[str, ObjectRef] = {row.levels[-1]: ObjectRef(T.NAMESPACE, row.pk) for row in rows}
    for ref in refs.values():
        own_parent = ObjectRef(T.WAREHOUSE, warehouse_id) if parent is None else ObjectRef(T.NAMESPACE, parent.pk)
        add_securable(*ref, parent=own_parent)
    return refs


def names_on(text: str) -> list[str]:
    """Return the names of the rows of the table of contents."""
    return [unescape(each) for each in re.findall(r'<a class="ik-name" href="[^"]*"><svg.*?</svg>([^<]*)</a>', text)]


def nodes_in(text: str) -> list[str]:
    return [unescape(each) for each in re.findall(r'<a role="treeitem".*?<span>([^<]*)</span></a>', text)]


def next_url(text: str) -> str | None:
    found = re.search(r'href="(\?[^"]*)">Next 50', text)
    return None if found is None else unescape(found[1])


def more_url(text: str) -> str | None:
    found = re.search(r'class="ik-tree-more" [^>]*data-src="([^"]*)"', text)
    return None if found is None else unescape(found[1])


def read_all(browser: Browser, address: str, query: str = "") -> list[list[str]]:
    """Return the names on each page of the contents."""
    pages: list[list[str]] = []
    following: str | None = query or "?"
    while following is not None:
        page = browser.get(address + following)
        assert page.status == 200
        pages.append(names_on(page.text))
        following = next_url(page.text)
    return pages


def in_order(names: Sequence[str], namespace_id: UUID) -> list[str]:
    """Return the names in the order of the database, which may be that of a language."""
    found = Tabular.objects.filter(namespace_id=namespace_id, name__in=names).order_by("name_key")
    return list(found.values_list("name", flat=True))


def test_contents_are_in_the_order_of_names(ids: Ids, open_as: Open) -> None:  # noqa: F811
    namespace_id = UUID(ids.open)
    add_tables(namespace_id, HOSTILE + NUMBERED)
    add_namespaces(UUID(ids.warehouse), namespace_id, ["zone", "Area", *HOSTILE])
    pages = read_all(open_as("lead"), f"/ui/warehouse/{ids.warehouse}/namespace/{ids.open}/")
    assert [len(each) for each in pages[:-1]] == [50] * (len(pages) - 1)
    shown = [each for page in pages for each in page]
    of_namespace = Namespace.objects.filter(parent_id=namespace_id).order_by("path_key")
    expected = [each.levels[-1] for each in of_namespace]
    assert set(expected) == {"zone", "Area", *HOSTILE}
    assert shown == expected + in_order(["a", "b", "v", "g", *HOSTILE, *NUMBERED], namespace_id)
    of_warehouse = read_all(open_as("lead"), f"/ui/warehouse/{ids.warehouse}/")
    assert of_warehouse == [["closed", "open"]]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("%", ["50%"]), ("_", ["a_b"]), ("\\", ["back\\slash"]), ("'", [HOSTILE[0], "'; DROP TABLE t--"]),
        ('"', [HOSTILE[0]]), (MARKUP, [HOSTILE[0]]), ("STRASSE", ["Straße"]), ("fi", ["ﬁle"]), ("ÜNÏ", ["Ünïcode"]),
        ("e\u0301T", ["été"]), ("日", ["日本"]), (".", ["dot.ted"]), ("/", ["a/b"]), ("  dot ", ["dot.ted"]),
        ("{{", ["{{ 7*7 }}"]), ("nothing", []), ("x" * 300, []), (f"n{LEVEL_SEPARATOR}5", []),
        ("open", []), ("*", ["{{ 7*7 }}"]), ("a?b", []),
    ],
)  # fmt: skip
def test_a_filter_finds_parts_of_names(ids: Ids, open_as: Open, typed: str, expected: list[str]) -> None:  # noqa: F811
    add_tables(UUID(ids.open), HOSTILE)
    add_namespaces(UUID(ids.warehouse), UUID(ids.open), HOSTILE)
    page = open_as("lead").get(f"/ui/warehouse/{ids.warehouse}/namespace/{ids.open}/?name={quote(typed)}")
    assert page.status == 200
    names = names_on(page.text)
    assert sorted(names) == sorted(expected * 2), "a namespace and a table of each name"
    assert MARKUP not in page.text
    assert next_url(page.text) is None
    assert ("No tables match" in page.text) == (not expected)
    assert ('href="?">Clear filters' in page.text) == (not expected)
    in_tree = open_as("lead").get(f"/ui/catalog/tree/?node=namespace:{ids.warehouse}:{ids.open}&q={quote(typed)}")
    assert nodes_in(in_tree.text) == names
    assert MARKUP not in in_tree.text
    assert ("No names match" in in_tree.text) == (not expected)


def test_pages_keep_the_filter(ids: Ids, open_as: Open) -> None:  # noqa: F811
    add_tables(UUID(ids.open), HOSTILE + NUMBERED)
    add_namespaces(UUID(ids.warehouse), None, NUMBERED)
    lead = open_as("lead")
    for address in (f"/ui/warehouse/{ids.warehouse}/namespace/{ids.open}/", f"/ui/warehouse/{ids.warehouse}/"):
        pages = read_all(lead, address, "?name=ORDERS+")
        assert [len(each) for each in pages] == [50, 50, 10]
        assert [each for page in pages for each in page] == sorted(NUMBERED)
        second = lead.get(f"{address}{next_url(lead.get(f'{address}?name=orders').text)}")
        assert 'value="orders"' in second.text
        assert 'href="?name=orders">First 50' in second.text
    of_warehouse = lead.get(f"/ui/warehouse/{ids.warehouse}/?name=nothing").text
    assert "No namespaces match" in of_warehouse
    assert "Create the first table" not in of_warehouse


def test_tokens_of_other_lists_are_rejected(ids: Ids, open_as: Open) -> None:  # noqa: F811
    add_tables(UUID(ids.open), NUMBERED)
    add_tables(UUID(ids.closed), NUMBERED)
    lead, base = open_as("lead"), f"/ui/warehouse/{ids.warehouse}/namespace"
    assert lead.get(f"{base}/{ids.open}/?name=%00").status == 400
    given = next_url(lead.get(f"{base}/{ids.open}/?name=orders").text)
    assert given is not None
    token = parse_qs(given[1:])["after"][0]
    for wrong in (
        f"{base}/{ids.closed}/?name=orders&after={token}", f"{base}/{ids.open}/?after={token}",
        f"{base}/{ids.open}/?name=order&after={token}", f"{base}/{ids.open}/?name=orders&after={token[:-1]}",
        f"{base}/{ids.open}/?name=orders&after=%00", f"{base}/{ids.open}/?after=0.", f"{base}/{ids.open}/?after=9.x",
        f"/ui/warehouse/{ids.warehouse}/?name=orders&after={token}",
        f"/ui/catalog/tree/?node=namespace:{ids.warehouse}:{ids.open}&q=orders&after={token}",
        f"/ui/catalog/tree/?node=namespace:{ids.warehouse}:{ids.open}&after=nonsense",
    ):  # fmt: skip
        assert lead.get(wrong).status == 400, wrong
    assert lead.get(f"{base}/{ids.open}/?name=Orders&after={token}").status == 400, "another text on the page"
    assert lead.get(f"{base}/{ids.open}/{given}").status == 200


def test_hidden_names_do_not_shorten_pages(
    ids: Ids,  # noqa: F811
    open_as: Open,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A user who sees some of the objects has full pages of those, and learns nothing of the others."""
    namespace_id = UUID(ids.closed)
    refs = add_tables(namespace_id, [*NUMBERED, "secret 1", "secret 2"])
    below = add_namespaces(UUID(ids.warehouse), namespace_id, ["seen", "secret"])
    for name in NUMBERED[::10]:
        give("select", refs[name], user("engineer"))
    give("select", below["seen"], user("engineer"))
    engineer, address = open_as("engineer"), f"/ui/warehouse/{ids.warehouse}/namespace/{ids.closed}/"
    expected = ["seen", *sorted(NUMBERED[::10])]
    for is_known in (True, False):
        if not is_known:
            monkeypatch.setattr("tenancy.authz.builtin.visible_objects.MAX_GRANTS", 0)
        found, token = list_some(ids, namespace_id, None)
        rest: list[str] = []
        while token is not None:
            some, token = list_some(ids, namespace_id, token)
            rest += some
        assert found + rest == expected
        assert len(found) == 5
        assert read_all(engineer, address) == [expected]
        assert read_all(engineer, address, "?name=se") == [["seen"]]
        nothing = engineer.get(f"{address}?name=secret")
        unknown = engineer.get(f"{address}?name=unknown")
        assert without_times(nothing) == without_times(unknown).replace("unknown", "secret")
        tree = engineer.get(f"/ui/catalog/tree/?node=namespace:{ids.warehouse}:{ids.closed}&q=e")
        assert nodes_in(tree.text) == expected


def without_times(page: ShownPage) -> str:
    return re.sub(r"<time.*?</time>", "", without_random_parts(page))


def list_some(ids: Ids, namespace_id: UUID, token: str | None) -> tuple[list[str], str | None]:  # noqa: F811
    found, following = list_children_for(
        actor=user("engineer"), warehouse_id=UUID(ids.warehouse), namespace_id=namespace_id,
        page=Page("some", token, 5),
    )  # fmt: skip
    assert following is None or (len(following), len(found)) == (1_744, 5)
    return [each.name for each in found], following


def test_a_page_ends_after_many_hidden_names(
    ids: Ids,  # noqa: F811
    open_as: Open,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    namespace_id, longest = UUID(ids.closed), "ﷺ" * 56 + "z"
    refs = add_tables(namespace_id, [*NUMBERED, longest])
    give("select", refs[longest], user("engineer"))
    monkeypatch.setattr("tenancy.authz.builtin.visible_objects.MAX_GRANTS", 0)
    monkeypatch.setattr("catalog.selectors.visible_pages.BATCH_SIZE", 10)
    monkeypatch.setattr("catalog.selectors.visible_pages.MAX_SCANNED", 100)
    engineer, address = open_as("engineer"), f"/ui/warehouse/{ids.warehouse}/namespace/{ids.closed}/"
    first = engineer.get(address)
    assert "Nothing found yet" in first.text
    pages = read_all(engineer, address)
    assert pages == [[], [longest]]
    assert read_all(open_as("lead"), address, f"?name={quote(longest)}") == [[longest]]


def test_large_levels_of_the_tree_have_a_filter(ids: Ids, open_as: Open) -> None:  # noqa: F811
    namespace_id, lead = UUID(ids.open), open_as("lead")
    level = f"/ui/catalog/tree/?node=namespace:{ids.warehouse}:{ids.open}"
    assert "ik-tree-filter" not in lead.get(level).text
    add_tables(namespace_id, NUMBERED + HOSTILE)
    whole = lead.get(level).text
    names = in_order(["a", "b", "v", "g", *NUMBERED, *HOSTILE], namespace_id)
    assert nodes_in(whole) == names[:100]
    source = re.match(r'\s*<li role="treeitem" class="ik-tree-filter" [^>]*><input [^>]*data-src="([^"]*)"', whole)
    assert source is not None
    assert unescape(source[1]) == level.replace(":", "%3A")
    at_table = lead.get(f"/ui/catalog/tree/?at=table:{ids.warehouse}:{ids.tables['open']}").text
    assert at_table.count("ik-tree-filter") == 1
    filtered = lead.get(f"{level}&q=orders").text
    assert "ik-tree-filter" not in filtered
    following = more_url(filtered)
    assert following is not None
    assert parse_qs(urlsplit(following).query)["q"] == ["orders"]
    rest = lead.get(following).text
    assert nodes_in(filtered) + nodes_in(rest) == sorted(NUMBERED)
    assert more_url(rest) is None
    without_text = lead.get(f"{level}&q=").text
    assert nodes_in(without_text) == names[:100]
    assert "ik-tree-filter" not in without_text, "the script keeps the field that the user types in"
    after = more_url(whole)
    assert after is not None
    assert nodes_in(lead.get(after).text) == names[100:]
    assert "ik-tree-filter" not in lead.get(after).text
    assert lead.get(following.replace("q=orders", "q=order")).status == 400
    for name in ("guest", "engineer"):
        hidden = open_as(name).get(f"/ui/catalog/tree/?node=namespace:{ids.warehouse}:{ids.closed}&q=a")
        assert hidden.status == 404


@pytest.fixture
def many(warehouse: Warehouse) -> dict[str, UUID]:
    """A namespace with 3,000 tables, two with 2,000 namespaces each, and 300 small ones."""
    rows = {}
    for name in ("tables", "namespaces", "others", *(f"small {number}" for number in range(300))):
        rows[name] = Namespace(warehouse=warehouse, path=name, path_key=name)
    Namespace.objects.bulk_create(rows.values())
    Namespace.objects.bulk_create(
        Namespace(warehouse=warehouse, parent=parent, path=f"{parent.path}\x1f{n}", path_key=f"{parent.path}\x1f{n}")
        for n in range(2_000)
        for parent in (rows["namespaces"], rows["others"])
    )
    Tabular.objects.bulk_create(
        Tabular(
            warehouse=warehouse, namespace=rows["tables"] if number < 3_000 else rows[f"small {number % 300}"],
            kind="table", uuid=uuid4(), name=f"t{number}", name_key=f"t{number}", location=str(number),
            metadata_location="",
        )
        for number in range(3_300)
    )  # fmt: skip
    return {name: row.pk for name, row in rows.items()}


def test_warehouses_and_projects_of_the_tree_are_in_the_order_of_names(
    ids: Ids,  # noqa: F811
    open_as: Open,
    storage_root: Path,
) -> None:
    lead = open_as("lead")
    for name in ("zz", MARKUP, "Älpha", "alpha"):
        profile = {"type": "local", "path": str(storage_root / str(uuid4()))}
        create_warehouse(actor=INTERNAL, project=Project.objects.get(), name=name, storage_profile=profile)
    text = lead.get("/ui/catalog/tree/").text
    assert nodes_in(text) == [MARKUP, "alpha", "wh", "zz", "Älpha"]
    assert MARKUP not in text
    for name in ("second", "First"):
        project = create_project(actor=INTERNAL, name=name)
        give("project_admin", ObjectRef(T.PROJECT, project.pk), user("lead"))
    shown = nodes_in(lead.get("/ui/catalog/tree/").text)
    assert [each for each in shown if each in {"First", "second"}] == ["First", "second"]
    assert len(shown) == 3
    assert nodes_in(lead.get(f"/ui/catalog/tree/?node=project:{ids.project}").text)[0] == MARKUP


def explain(statement: str, params: Sequence[Any]) -> str:
    """Return the plan of a statement of `fetch_all`; on PostgreSQL as prepared, without knowledge of its parameters."""
    if connection.vendor != "postgresql":
        with connection.cursor() as cursor:
            converted = [sql._as_sqlite(connection, each) for each in params]
            cursor.execute(f"EXPLAIN QUERY PLAN {sql._for_sqlite(statement)}", converted)
            return "\n".join(str(row[3]) for row in cursor.fetchall())
    with connection.cursor() as settings:
        settings.execute("SET LOCAL plan_cache_mode = force_generic_plan")
    with psycopg.Cursor(connection.connection) as cursor:
        cursor.execute(f"EXPLAIN {statement}", params, prepare=True)
        return "\n".join(str(row[0]) for row in cursor.fetchall())


def explain_sent(read: Callable[[], Any]) -> str:
    """Return the plans of the ordered statements that `read` sends by the ORM."""
    with CaptureQueriesContext(connection) as captured:
        read()
    sent = [each["sql"] for each in captured if each["sql"].endswith(" LIMIT 51")]
    assert sent
    plans: list[str] = []
    with connection.cursor() as cursor:
        for statement in sent:
            cursor.execute(f"{'EXPLAIN' if connection.vendor == 'postgresql' else 'EXPLAIN QUERY PLAN'} {statement}")
            plans += [str(row[-1]) for row in cursor.fetchall()]
    return "\n".join(plans)


def uses(index: str) -> str:
    return f"Index Scan using {index}" if connection.vendor == "postgresql" else f"USING INDEX {index}"


def test_ordered_pages_read_an_index(
    warehouse: Warehouse, many: dict[str, UUID], monkeypatch: pytest.MonkeyPatch
) -> None:
    def list_in(namespace: str | None, token: str | None) -> tuple[list[Child], str | None]:
        namespace_id = None if namespace is None else many[namespace]
        return list_children_for(
            actor=INTERNAL, warehouse_id=warehouse.pk, namespace_id=namespace_id, page=Page("plan", token, 50)
        )

    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE catalog_tabular, catalog_namespace")
    for name, index in (
        ("tables", "tabular_name_once_per_namespace"), ("namespaces", "namespace_by_name"),
        (None, "namespace_by_name"),
    ):  # fmt: skip
        token = list_in(name, None)[1]
        assert token is not None
        for after in (None, token):
            plan = explain_sent(partial(list_in, name, after))
            assert uses(index) in plan, (name, plan)
            assert not re.search("Sort|Seq Scan|FOR ORDER BY", plan), (name, plan)
    sent: list[tuple[str, Sequence[Any]]] = []

    def fetch_all(alias: str, statement: str, params: Sequence[Any]) -> list[sql.Row]:
        sent.append((statement, params))
        return sql.fetch_all(alias, statement, params)

    monkeypatch.setattr(open_levels, "fetch_all", fetch_all)
    opened = open_levels.read_open_levels_for(
        actor=INTERNAL, warehouse_id=warehouse.pk, namespace_ids=[many["tables"], many["namespaces"]],
        page=Page("plan", None, 50),
    )  # fmt: skip
    assert opened is not None
    assert [len(children) for children, _ in opened] == [50, 50, 50]
    ((statement, params),) = sent
    plan = explain(statement, params)
    assert plan.count(uses("tabular_name_once_per_namespace")) == 2, plan
    assert plan.count(uses("namespace_by_name")) == 3, plan
    assert "Seq Scan" not in plan
    assert plan.count("Sort Key") <= 1, "the rows of all levels together"
