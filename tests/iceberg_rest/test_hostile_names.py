"""Names with a special meaning in paths, shells, databases or Unicode: legal ones are stored unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from storage.models import Warehouse
from storage.services.warehouses import create_warehouse
from tenancy.actor import INTERNAL
from tenancy.selectors.projects import get_project
from tests.catalog_fixtures import SCHEMA
from tests.harness.fingerprint import Fingerprint
from tests.harness.wsgi_client import ApiClient, call

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

CreateTable = Callable[..., dict[str, Any]]
Everything = Callable[[], Fingerprint]

VIEW: dict[str, Any] = {
    "schema": SCHEMA,
    "properties": {},
    "view-version": {
        "version-id": 1,
        "schema-id": 0,
        "timestamp-ms": 1_700_000_000_000,
        "summary": {},
        "default-namespace": ["ns"],
        "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
    },
}
LEGAL = (
    "a/b", "%2F", "a%2Fb", "..%2f", "...", "*", "%", "_", "${x}", "$(reboot)", "`id`", "{0}", "%s", '"', "\\", "a\\b",
    "'; DROP TABLE x; --", "?", "#", "&a=b", ";", "<script>", "tables", "namespaces", "null", "NULL", "None", "-1",
    "a b", "+", "~", "C:", "file:///etc/passwd", "ns.t", "\u0430", "\u1e9e", "\u0130", "\u2603", "\U0001f9ca",
    "n" * 255, "\U0001f9ca" * 255,
)  # fmt: skip
BAD = (
    "", " ", "\t", "\u00a0", "\u3000", ".", "..", "a\x00b", "\x00", "a\nb", "a\rb", "a\x1bb", "a\x1fb", "a\x7fb",
    "a\x85b", "a\u202eb", "a\u2066b", "a\u200eb", "a\u200bb", "a\ufeffb", "a\u2028b", "a\u2029b", "a\u00adb",
    "n" * 256, "\ufdfa" * 255, 7, None, True, [], {}, ["a"],
)  # fmt: skip
DOTS = {"%2E", "%2E%2E"}


@pytest.fixture
def two(catalog: ApiClient, create_table: CreateTable) -> None:
    """Create the table `t` and the view `v`."""
    create_table("t")
    assert catalog.post("/namespaces/ns/views", {"name": "v", **VIEW}).status == 200


@pytest.mark.parametrize("name", LEGAL, ids=ascii)
def test_a_legal_name_is_only_a_name(name: str, catalog: ApiClient, two: None) -> None:
    segment = quote(name, safe="").replace(".", "%2E")
    for kind, target, source in (("table", "tables", "t"), ("view", "views", "v")):
        create = {"name": name, "schema": SCHEMA} if kind == "table" else {"name": name, **VIEW}
        created = catalog.post(f"/namespaces/ns/{target}", create)
        assert created.status == 200, created.body
        assert catalog.get(f"/namespaces/ns/{target}/{segment}").json() == created.json()
        listed = catalog.get(f"/namespaces/ns/{target}").json()["identifiers"]
        assert {"namespace": ["ns"], "name": name} in listed
        assert catalog.delete(f"/namespaces/ns/{target}/{segment}").status == 204
        rename = {
            "source": {"namespace": ["ns"], "name": source},
            "destination": {"namespace": ["ns"], "name": name},
        }
        assert catalog.post(f"/{target}/rename", rename).status == 204
        assert catalog.head(f"/namespaces/ns/{target}/{segment}").status == 204
        assert catalog.head(f"/namespaces/ns/{target}/{source}").status == 404
        assert catalog.delete(f"/namespaces/ns/{target}/{segment}").status == 204


@pytest.mark.parametrize("name", BAD, ids=lambda name: ascii(name)[:40])
def test_a_bad_name_is_given_to_nothing(
    name: Any, catalog: ApiClient, create_table: CreateTable, two: None, everything: Everything
) -> None:
    free = create_table("free")["metadata-location"]
    assert catalog.post("/namespaces/ns/tables/free/unregister").status == 200
    before = everything()
    destination = {"namespace": ["ns"], "name": name}
    for target, body in (
        ("/namespaces", {"namespace": [name]}),
        ("/namespaces", {"namespace": ["ns", name]}),
        ("/namespaces/ns/tables", {"name": name, "schema": SCHEMA}),
        ("/namespaces/ns/tables", {"name": name, "schema": SCHEMA, "stage-create": True}),
        ("/namespaces/ns/views", {"name": name, **VIEW}),
        ("/namespaces/ns/register", {"name": name, "metadata-location": free}),
        ("/namespaces/ns/register-view", {"name": name, "metadata-location": free}),
        ("/tables/rename", {"source": {"namespace": ["ns"], "name": "t"}, "destination": destination}),
        ("/views/rename", {"source": {"namespace": ["ns"], "name": "v"}, "destination": destination}),
    ):
        assert catalog.post(target, body).refused(400, "BadRequestException"), (target, body)
    assert everything() == before


@pytest.mark.parametrize("name", [name for name in (*BAD, *LEGAL) if isinstance(name, str)], ids=ascii)
def test_an_unknown_name_is_not_found(name: str, catalog: ApiClient, two: None, everything: Everything) -> None:
    """As table, view, namespace and level. A NUL or a segment of dots is rejected before the path is used."""
    before = everything()
    segment = quote(name, safe="").replace(".", "%2E")
    change = {"requirements": [], "updates": []}
    for target, wire_type in (
        (f"/namespaces/ns/tables/{segment}", "NoSuchTableException"),
        (f"/namespaces/{segment}/tables/t", "NoSuchTableException"),
        (f"/namespaces/ns%1F{segment}/tables/t", "NoSuchTableException"),
        (f"/namespaces/ns/views/{segment}", "NoSuchViewException"),
        (f"/namespaces/{segment}/views/v", "NoSuchViewException"),
        (f"/namespaces/{segment}", "NoSuchNamespaceException"),
        (f"/namespaces/ns%1F{segment}", "NoSuchNamespaceException"),
    ):
        is_malformed = "%00" in target or target.split("/")[2] in DOTS or target.split("/")[-1] in DOTS
        responses = [catalog.get(target), catalog.delete(target)]
        if wire_type != "NoSuchNamespaceException":
            responses.append(catalog.post(target, change))
        for response in responses:
            refused = (400, "BadRequestException") if is_malformed else (404, wire_type)
            assert response.refused(*refused), (target, response.body)
        assert catalog.head(target).status in {400, 404}
    for source in ({"namespace": ["ns"], "name": name}, {"namespace": [name], "name": "t"}):
        rename = {"source": source, "destination": {"namespace": ["ns"], "name": "x"}}
        assert catalog.post("/tables/rename", rename).refused(404, "NoSuchTableException")
        assert catalog.post("/views/rename", rename).refused(404, "NoSuchViewException")
        entry = {"identifier": source, **change}
        response = catalog.post("/transactions/commit", {"table-changes": [entry]})
        assert response.refused(404, "NoSuchTableException"), response.body
    assert everything() == before


@pytest.mark.parametrize("segment", ["%FF", "%C0%80", "%ED%A0%80", "a%80b", "%E2%98"])
def test_a_name_that_is_no_text(segment: str, catalog: ApiClient, two: None, everything: Everything) -> None:
    before = everything()
    for target in (
        f"/namespaces/{segment}",
        f"/namespaces/ns/tables/{segment}",
        f"/namespaces/{segment}/tables/t",
        f"/namespaces/ns/views/{segment}",
    ):
        for response in (catalog.get(target), catalog.delete(target)):
            assert response.refused(400, "BadRequestException", "not UTF-8")
    assert everything() == before


@pytest.mark.parametrize(
    ("first", "second"),
    [("stra\u00dfe", "STRASSE"), ("caf\u00e9", "cafe\u0301"), ("a1", "\uff41\u2460"), ("\ufb01x", "FIX")],
)
def test_names_that_look_alike_in_one_script_are_the_same(
    first: str, second: str, catalog: ApiClient, create_table: CreateTable, everything: Everything
) -> None:
    create_table(first)
    before = everything()
    again = catalog.post("/namespaces/ns/tables", {"name": second, "schema": SCHEMA})
    assert again.refused(409, "AlreadyExistsException")
    assert catalog.post("/namespaces/ns/views", {"name": second, **VIEW}).refused(409, "AlreadyExistsException")
    assert everything() == before


def test_similar_names_of_two_scripts_are_different(catalog: ApiClient, create_table: CreateTable) -> None:
    """Latin and Cyrillic: the catalog keeps them apart; users who grant privileges must do so, too."""
    for name in ("copa", "\u0441\u043e\u0440\u0430"):
        assert create_table(name) == catalog.get(f"/namespaces/ns/tables/{quote(name)}").json()
    assert len(catalog.get("/namespaces/ns/tables").json()["identifiers"]) == 2


def test_another_warehouse_has_none_of_ours(
    catalog: ApiClient, two: None, storage_root: Any, warehouse: Warehouse, everything: Everything
) -> None:
    profile = {"type": "local", "path": str(storage_root / "other")}
    other = create_warehouse(actor=INTERNAL, project=get_project(None), name="other", storage_profile=profile)
    theirs = ApiClient(f"/catalog/v1/{other.pk}")
    before = everything()
    change = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
    assert theirs.get("/namespaces/ns").refused(404, "NoSuchNamespaceException")
    assert theirs.get("/namespaces").json() == {"namespaces": []}
    for response in (
        theirs.get("/namespaces/ns/tables/t"),
        theirs.delete("/namespaces/ns/tables/t?purgeRequested=true&force=true"),
        theirs.post("/namespaces/ns/tables/t", change),
        theirs.post(
            "/transactions/commit", {"table-changes": [{"identifier": {"namespace": ["ns"], "name": "t"}, **change}]}
        ),
        theirs.post(
            "/tables/rename",
            {"source": {"namespace": ["ns"], "name": "t"}, "destination": {"namespace": ["ns"], "name": "x"}},
        ),
    ):
        assert response.refused(404, "NoSuchTableException")
    assert everything() == before


@pytest.mark.parametrize(
    "form", ["{}x", "x{}", "urn:uuid:{}", "%7B{}%7D", "{}%20", "+{}", "{}%00", "{}%1F", "", "*", "%2E%2E", "wh"]
)
def test_a_prefix_has_one_spelling(form: str, warehouse: Warehouse, two: None, everything: Everything) -> None:
    before = everything()
    prefix = form.format(warehouse.pk)
    for method, target in (
        ("GET", "/namespaces"),
        ("GET", "/namespaces/ns/tables/t"),
        ("DELETE", "/namespaces/ns/views/v"),
    ):
        response = call(method, f"/catalog/v1/{prefix}{target}")
        assert (response.status, response.error["type"]) in {
            (400, "PrefixIsNotWarehouseID"),
            (400, "BadRequestException"),
        }
    assert everything() == before
