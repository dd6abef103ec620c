"""Table properties that cannot change after they are set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.harness.wsgi_client import ApiClient

pytestmark = pytest.mark.django_db

CreateTable = Callable[..., dict[str, Any]]
Files = Callable[[], list[str]]

KEY = {"encryption.key-id": "keyA"}


def set_key(key: str) -> dict[str, Any]:
    return {"action": "set-properties", "updates": {"encryption.key-id": key}}


REMOVE_KEY = {"action": "remove-properties", "removals": ["encryption.key-id"]}


@pytest.mark.parametrize(
    ("updates", "wire_type", "text"),
    [
        ([set_key("keyB")], "ImmutablePropertyModification", "Cannot modify immutable property: encryption.key-id"),
        ([REMOVE_KEY], "ImmutablePropertyRemoval", "Cannot remove immutable property: encryption.key-id"),
        ([REMOVE_KEY, set_key("keyB")], "ImmutablePropertyModification", "Cannot modify immutable property"),
        ([set_key("")], "ImmutablePropertyModification", "Cannot modify immutable property"),
    ],
)
def test_the_encryption_key_of_a_table_is_immutable(
    catalog: ApiClient, create_table: CreateTable, files: Files, updates: list[Any], wire_type: str, text: str
) -> None:
    created = create_table(properties=KEY)
    before = files()
    refused = catalog.post("/namespaces/ns/tables/t", {"requirements": [], "updates": updates})
    assert refused.refused(400, wire_type, text)
    change = {"identifier": {"namespace": ["ns"], "name": "t"}, "requirements": [], "updates": updates}
    assert catalog.post("/transactions/commit", {"table-changes": [change]}).refused(400, wire_type, text)
    assert catalog.get("/namespaces/ns/tables/t").json() == created
    assert files() == before


@pytest.mark.parametrize("updates", [[set_key("keyA")], [REMOVE_KEY, set_key("keyA")]])
def test_the_encryption_key_may_be_sent_again(
    catalog: ApiClient, create_table: CreateTable, updates: list[dict[str, Any]]
) -> None:
    created = create_table(properties=KEY)
    committed = catalog.post("/namespaces/ns/tables/t", {"requirements": [], "updates": updates})
    assert committed.status == 200
    assert committed.json()["metadata-location"] == created["metadata-location"]


def test_a_table_without_an_encryption_key_may_get_one(catalog: ApiClient, create_table: CreateTable) -> None:
    create_table()
    body = {"requirements": [], "updates": [set_key("keyA")]}
    assert catalog.post("/namespaces/ns/tables/t", body).json()["metadata"]["properties"] == KEY
