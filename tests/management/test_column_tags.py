"""Tags on columns, which follow the field id when a column is renamed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from catalog.models import TabularMetadata
from catalog.selectors.tables.metadata_cache import metadata_cache
from storage.models import Warehouse
from tenancy.models import TagAttachment
from tests.harness.fingerprint import Fingerprint
from tests.harness.wsgi_client import ApiClient
from tests.tag_fixtures import define, good, management, put, shown

pytestmark = pytest.mark.django_db

Everything = Callable[[], Fingerprint]


@pytest.fixture
def api(warehouse: Warehouse) -> ApiClient:
    return ApiClient(f"/management/v1/warehouse/{warehouse.pk}")


def columns(api: ApiClient, things: dict[str, str]) -> dict[int, list[str]]:
    found = good(api.get(f"{things['table']}/column-tags"))["columns"]
    return {each["field-id"]: [tag["name"] for tag in each["tags"]] for each in found}


def column(things: dict[str, str], name: str) -> str:
    return f"{things['table']}/column/{quote(name, safe='')}"


def set_schema(catalog: ApiClient, fields: list[dict[str, Any]]) -> None:
    schema = {"type": "struct", "schema-id": 1, "fields": fields}
    updates = [{"action": "add-schema", "schema": schema}, {"action": "set-current-schema", "schema-id": -1}]
    response = catalog.post("/namespaces/ns/tables/t", {"requirements": [], "updates": updates})
    assert response.status == 200, response.body


def test_columns_at_any_depth(api: ApiClient, things: dict[str, str]) -> None:
    define("b")
    define("a")
    for name in ("id", "address.zip", "phones.element", "a/b %", "address"):
        put(api, column(things, name), name, "b")
        assert shown(api, column(things, name)) == [("b", name, None)]
    put(api, column(things, "id"), name="a")
    ids = {field.field_id: field.value for field in TagAttachment.objects.filter(definition__name="b")}
    fields = {name: field_id for field_id, name in ids.items()}
    assert columns(api, things) == {field_id: ["a", "b"] if field_id == fields["id"] else ["b"] for field_id in ids}
    assert len(fields) == 5
    [tag] = good(api.get(f"{column(things, 'address.zip')}/tags?effective=true"))["tags"]
    assert good(api.get(f"{things['table']}/column-tags"))["columns"][-1]["tags"]
    assert tag["value"] == "address.zip"
    assert shown(api, things["table"]) == []


NO_COLUMNS = [
    "no", "ID", "zip", "phones.key", "phones.", "address.zip.x", ".id", "i\uff44", "%", "c" * 3000, "a\nb",
]  # fmt: skip


@pytest.mark.parametrize("name", NO_COLUMNS)
def test_unknown_columns(api: ApiClient, things: dict[str, str], name: str, everything: Everything) -> None:
    define()
    before = everything()
    target = f"{column(things, name)}/tags"
    for response in (api.get(target), api.put(f"{target}/pii", {"value": "x"}), api.delete(f"{target}/pii")):
        assert response.refused(404, "ColumnNotFound")
    assert everything() == before


def test_tags_follow_a_column_not_its_name(catalog: ApiClient, api: ApiClient, things: dict[str, str]) -> None:
    define()
    put(api, column(things, "id"), "the id")
    fields = catalog.get("/namespaces/ns/tables/t").json()["metadata"]["schemas"][0]["fields"]
    renamed = [fields[0] | {"name": "number"}, *fields[1:]]
    set_schema(catalog, renamed)
    assert shown(api, column(things, "number")) == [("pii", "the id", None)]
    assert api.get(f"{column(things, 'id')}/tags").refused(404, "ColumnNotFound", "id")
    new = {"id": 99, "name": "id", "type": "string", "required": False}
    set_schema(catalog, [*renamed, new])
    assert shown(api, column(things, "id")) == []


def test_tags_of_a_dropped_column_stay_with_its_field_id(
    catalog: ApiClient, api: ApiClient, things: dict[str, str]
) -> None:
    definition = define()
    put(api, column(things, "address.zip"), "here")
    [field_id] = columns(api, things)
    fields = catalog.get("/namespaces/ns/tables/t").json()["metadata"]["schemas"][0]["fields"]
    without = [field for field in fields if field["name"] != "address"]
    set_schema(catalog, without)
    assert api.get(f"{column(things, 'address.zip')}/tags").refused(404, "ColumnNotFound")
    assert columns(api, things) == {field_id: ["pii"]}
    assert management.delete(f"/tag-definition/{definition}").refused(409, "TagDefinitionInUse")
    [attachment] = good(management.get(f"/tag-definition/{definition}/attachments"))["attachments"]
    assert attachment["target"]["field-id"] == field_id
    back = {"requirements": [], "updates": [{"action": "set-current-schema", "schema-id": 0}]}
    assert catalog.post("/namespaces/ns/tables/t", back).status == 200
    assert shown(api, column(things, "address.zip")) == [("pii", "here", None)]


def test_columns_of_large_metadata_in_the_store(catalog: ApiClient, api: ApiClient, things: dict[str, str]) -> None:
    """As for metadata that is too large to be stored in the database."""
    define()
    TabularMetadata.objects.update(document=None)
    metadata_cache._documents.clear()
    metadata_cache._parsed.clear()
    put(api, column(things, "id"))
    assert shown(api, column(things, "id")) == [("pii", "x", None)]
