"""Names of columns that commits keep for the search of the console."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from catalog.iceberg.column_names import MAX_CHARACTERS, MAX_COLUMNS, find_columns, read_column_names
from catalog.models import TabularColumns, TabularMetadata
from catalog.selectors.column_search import find_by_column
from catalog.services.missing_totals import fill_missing_totals
from storage.models import Warehouse
from tests.catalog_fixtures import snapshot
from tests.harness.wsgi_client import ApiClient
from tests.iceberg_rest.test_views import create_view, replace  # noqa: F401 - fixture

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def struct(*fields: tuple[str, Any], first: int = 1) -> dict[str, Any]:
    return {
        "type": "struct",
        "fields": [
            {"id": number, "name": name, "type": column_type, "required": False}
            for number, (name, column_type) in enumerate(fields, start=first)
        ],
    }


NESTED = struct(
    ("ID", "long"),
    ("address", struct(("City", "string"), ("100%_zip", "string"), first=10)),
    ("tags", {"type": "list", "element-id": 20, "element-required": False, "element": struct(("k", "int"), first=21)}),
)


def keys_of(name: str) -> str:
    return TabularColumns.objects.get(tabular__name=name).keys


def found(text: str) -> list[tuple[str, bool]]:
    return [(each.name, each.is_exact) for each in find_by_column(text, None, 10)]


def test_columns_follow_the_current_schema(
    catalog: ApiClient,
    create_table: Callable[..., dict[str, Any]],
    create_view: Callable[..., dict[str, Any]],  # noqa: F811
    warehouse: Warehouse,
) -> None:
    def commit(*updates: dict[str, Any]) -> None:
        response = catalog.post("/namespaces/ns/tables/t", {"requirements": [], "updates": list(updates)})
        assert response.status == 200, response.body

    at = create_table("t", schema=NESTED)["metadata"]["last-updated-ms"]
    create_table("other")
    create_view("v")
    row = TabularColumns.objects.get(tabular__name="t")
    assert row.names == "\nID\naddress\naddress.City\naddress.100%_zip\ntags\ntags.element.k\n"
    assert keys_of("other") == "\nid\nname\n"
    assert found("CITY") == found("address.city") == [("t", True)]
    assert found("dress.ci") == found("ity") == [("t", False)]
    assert found("100%_z") == [("t", False)]
    assert found("k") == [("t", True)]
    for text in ("ci", "%", "10%zip", "", "city\nID", "\0", "other"):
        assert found(text) == [], text
    assert [each for each, _ in found("id")][:2] == ["t", "other"]
    # Neither properties nor snapshots nor a schema that is not current write the row.
    TabularColumns.objects.filter(tabular__name="t").update(keys="\nkept\n")
    commit({"action": "set-properties", "updates": {"a": "b"}})
    commit({"action": "add-snapshot", "snapshot": snapshot(1, at=at)})
    wider = struct(*((each["name"], each["type"]) for each in NESTED["fields"]), ("added", "int"))
    wider["fields"][-1]["id"] = 30
    commit({"action": "add-schema", "schema": wider})
    assert keys_of("t") == "\nkept\n"
    commit({"action": "set-current-schema", "schema-id": 1})
    assert found("added") == [("t", True)]
    commit({"action": "set-current-schema", "schema-id": 0})
    assert found("added") == []
    # A view follows its current version.
    before = keys_of("v")
    schema = {**struct(("total", "long")), "schema-id": 1}
    version = TABLELESS | {"schema-id": -1, "timestamp-ms": at}
    current = {"action": "set-current-view-version", "view-version-id": -1}
    added = [{"action": "add-schema", "schema": schema}, {"action": "add-view-version", "view-version": version}]
    assert replace(catalog, *added, current).status == 200
    assert keys_of("v") == "\ntotal\n" != before
    # Renamed objects keep their row, dropped ones are not found.
    names = {"source": {"namespace": ["ns"], "name": "t"}, "destination": {"namespace": ["ns"], "name": "u"}}
    assert catalog.post("/tables/rename", names).status == 204
    assert found("city") == [("u", True)]
    # Objects of an older version are filled, and those that cannot be read are not tried again.
    kept = dict(TabularColumns.objects.values_list("tabular__name", "keys"))
    TabularColumns.objects.all().delete()
    TabularMetadata.objects.filter(tabular__name="other").update(document=b"[]")
    assert fill_missing_totals(warehouse.project_id, lambda: None) == 3
    assert dict(TabularColumns.objects.values_list("tabular__name", "keys")) == kept | {"other": ""}
    assert fill_missing_totals(warehouse.project_id, lambda: None) == 0
    assert catalog.delete("/namespaces/ns/tables/u").status == 204
    assert found("city") == []
    assert TabularColumns.objects.count() == 2


TABLELESS = {
    "version-id": 2,
    "summary": {},
    "default-namespace": ["ns"],
    "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}],
}


def test_names_are_bounded_and_separated() -> None:
    many = read_column_names(struct(*((f"c{number}", "int") for number in range(MAX_COLUMNS + 5))))
    assert many.names.count("\n") == MAX_COLUMNS + 1
    long = read_column_names(struct(*((f"{'x' * 10_000}{number}", "int") for number in range(20))))
    assert len(long.names) <= MAX_CHARACTERS + 1
    deep: Any = "int"
    for level in range(400):
        deep = struct(("n" * 50, deep), first=level)
    assert len(read_column_names(deep).names) <= MAX_CHARACTERS + 1
    assert read_column_names(struct(("a\nb\0", "int"))).keys == "\na b\ufffd\n"
    assert read_column_names(None).names == read_column_names({"fields": 7}).names == ""
    assert find_columns("\nid_x\na.ID\nid\nvalid\n", "id", limit=3) == ["a.ID", "id", "id_x"]
