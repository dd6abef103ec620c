"""Inherited tags, and tags of objects that are dropped, restored or deleted concurrently."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from catalog.models import Namespace, Tabular
from storage.models import Warehouse
from tenancy.models import Securable, TagAttachment, TagDefinition
from tests.catalog_fixtures import SCHEMA
from tests.harness.fingerprint import Fingerprint
from tests.harness.threads import at_once
from tests.harness.wsgi_client import ApiClient
from tests.tag_fixtures import define, good, management, put, shown

pytestmark = pytest.mark.django_db
in_threads = pytest.mark.django_db(transaction=True, serialized_rollback=True)

Everything = Callable[[], Fingerprint]


@pytest.fixture
def api(warehouse: Warehouse) -> ApiClient:
    return ApiClient(f"/management/v1/warehouse/{warehouse.pk}")


# --- effective tags ------------------------------------------------------------------------------------------------


def test_the_nearest_value_wins(catalog: ApiClient, api: ApiClient, things: dict[str, str]) -> None:
    assert catalog.post("/namespaces", {"namespace": ["ns", "in"]}).status == 200
    assert catalog.post("/namespaces/ns%1Fin/tables", {"name": "deep", "schema": SCHEMA}).status == 200
    inner = f"/namespace/{Namespace.objects.get(path__endswith='in').pk}"
    deep = f"/table/{Tabular.objects.get(name='deep').uuid}"
    for name in ("b", "a", "c", "d"):
        define(name)
    for name, targets in {
        "a": {"": "wh"},
        "b": {"": "wh", things["namespace"]: "ns"},
        "c": {"": "wh", things["namespace"]: "ns", inner: "in"},
        "d": {"": "wh", things["namespace"]: "ns", inner: "in", deep: "t"},
    }.items():
        for target, value in targets.items():
            put(api, target, value, name)
    assert shown(api, deep, effective="true") == [
        ("a", "wh", "warehouse"),
        ("b", "ns", "namespace"),
        ("c", "in", "namespace"),
        ("d", "t", None),
    ]
    assert shown(api, deep) == shown(api, deep, effective="false") == [("d", "t", None)]
    assert shown(api, inner, effective="TRUE") == [
        ("a", "wh", "warehouse"), ("b", "ns", "namespace"), ("c", "in", None), ("d", "in", None),
    ]  # fmt: skip
    assert [tag[1:] for tag in shown(api, "", effective="true")] == [("wh", None)] * 4
    warehouse_id = api.base.rpartition("/")[2]
    tags = good(api.get(f"{deep}/tags?effective=true"))["tags"]
    assert tags[0]["inherited-from"] == {"type": "warehouse", "warehouse-id": warehouse_id}
    assert tags[2]["inherited-from"] == {
        "type": "namespace", "warehouse-id": warehouse_id, "namespace-id": inner.rpartition("/")[2],
    }  # fmt: skip
    assert "inherited-from" not in tags[3]
    # the nearest own value is removed: the next one applies
    good(api.delete(f"{deep}/tags/d"))
    assert shown(api, deep, effective="true")[3] == ("d", "in", "namespace")
    assert shown(api, things["table"], effective="true")[3] == ("d", "ns", "namespace")


def test_columns_inherit_nothing_and_give_nothing(api: ApiClient, things: dict[str, str]) -> None:
    define()
    put(api, things["column"])
    assert shown(api, things["table"], effective="true") == []
    put(api, "", "all")
    assert shown(api, f"{things['table']}/column/address.zip", effective="true") == []
    assert shown(api, things["table"], effective="true") == [("pii", "all", "warehouse")]


def test_inheritance_follows_renames_and_moves(catalog: ApiClient, api: ApiClient, things: dict[str, str]) -> None:
    define()
    put(api, things["namespace"], "ns")
    put(api, things["table"], "own")
    for name in ("b", "c"):
        assert catalog.post("/namespaces", {"namespace": [name]}).status == 200
    other = f"/namespace/{Namespace.objects.get(path='b').pk}"
    put(api, other, "b")
    names = [{"namespace": ["ns"], "name": "v"}, {"namespace": ["b"], "name": "v2"}]
    assert catalog.post("/views/rename", {"source": names[0], "destination": names[1]}).status == 204
    assert shown(api, things["view"], effective="true") == [("pii", "b", "namespace")]
    assert api.post(f"{things['namespace']}/move", {"destination": ["c", "ns"]}).status == 200
    assert shown(api, things["table"], effective="true") == [("pii", "own", None)]
    good(api.delete(f"{things['namespace']}/tags/pii"))
    put(api, f"/namespace/{Namespace.objects.get(path='c').pk}", "c")
    assert shown(api, things["generic-table"], effective="true") == [("pii", "c", "namespace")]


@pytest.mark.parametrize("wrong", ["1", "yes", "", "null"])
def test_effective_is_true_or_false(api: ApiClient, things: dict[str, str], wrong: str) -> None:
    for target in things.values():
        assert api.get(f"{target}/tags?effective={wrong}").refused(400, "BadRequestException", "effective")


# --- dropped and deleted objects ----------------------------------------------------------------------------------


def test_tags_are_deleted_with_their_objects(catalog: ApiClient, api: ApiClient, things: dict[str, str]) -> None:
    definition = define()
    for target in things.values():
        put(api, target)
    assert management.delete(f"/tag-definition/{definition}").refused(409, "TagDefinitionInUse", "pii")
    assert catalog.delete("/namespaces/ns/tables/t").status == 204
    assert TagAttachment.objects.count() == 4  # those of the table and its column are deleted
    assert api.get(f"{things['table']}/tags").refused(404, "NoSuchTableException")
    assert catalog.delete("/namespaces/ns?recursive=true").status == 204
    assert [each.securable.type for each in TagAttachment.objects.all()] == ["warehouse"]
    assert management.delete(api.base.removeprefix(management.base)).status == 204
    assert not TagAttachment.objects.exists()
    assert management.delete(f"/tag-definition/{definition}").status == 204


def test_soft_deleted_objects_keep_their_tags(
    catalog: ApiClient, api: ApiClient, things: dict[str, str], soft_delete: int, everything: Everything
) -> None:
    definition = define()
    for kind in ("table", "column"):
        put(api, things[kind], kind)
    table_id = things["table"].rpartition("/")[2]
    assert catalog.delete("/namespaces/ns/tables/t").status == 204
    before = everything()
    for response in (
        api.get(f"{things['table']}/tags"),
        api.get(f"{things['table']}/column-tags"),
        api.get(f"{things['column']}/tags"),
        api.put(f"{things['table']}/tags/pii", {"value": "y"}),
        api.delete(f"{things['column']}/tags/pii"),
    ):
        assert response.refused(404, "NoSuchTableException", table_id)
    assert management.delete(f"/tag-definition/{definition}").refused(409, "TagDefinitionInUse")
    found = good(management.get(f"/tag-definition/{definition}/attachments"))["attachments"]
    assert [each["target"]["table-id"] for each in found] == [table_id, table_id]
    assert everything() == before
    undrop = {"targets": [{"type": "table", "id": table_id}]}
    assert api.post("/deleted-tabulars/undrop", undrop).status == 204
    assert shown(api, things["table"]) == [("pii", "table", None)]
    assert shown(api, things["column"]) == [("pii", "column", None)]


def test_expired_objects_have_no_tags(
    catalog: ApiClient, api: ApiClient, things: dict[str, str], soft_delete: int, do_tasks: Callable[[], int]
) -> None:
    define()
    put(api, things["table"])
    put(api, things["column"])
    assert catalog.delete("/namespaces/ns/tables/t").status == 204
    do_tasks()
    assert not TagAttachment.objects.exists()


# --- concurrency ---------------------------------------------------------------------------------------------------


@in_threads
def test_a_tag_set_concurrently_exists_once(api: ApiClient, things: dict[str, str]) -> None:
    define()
    for target in (things["table"], things["column"], ""):
        values = [str(number) for number in range(6)]
        responses = at_once(*[partial(api.put, f"{target}/tags/pii", {"value": value}) for value in values])
        assert [response.status for response in responses] == [200] * 6
        [(_, value, _)] = shown(api, target)
        assert value in values
    assert TagAttachment.objects.count() == 3


@in_threads
@pytest.mark.parametrize("attempt", range(4))
def test_a_definition_is_deleted_while_its_tag_is_set(api: ApiClient, things: dict[str, str], attempt: int) -> None:
    definition = define()
    targets = ["", things["namespace"], things["table"], things["column"]]
    deleted, *puts = at_once(
        lambda: management.delete(f"/tag-definition/{definition}"),
        *[partial(api.put, f"{target}/tags/pii", {"value": "x"}) for target in targets],
    )
    if deleted.status == 204:
        assert all(response.refused(404, "TagDefinitionNameNotFound") for response in puts)
    else:
        assert deleted.refused(409, "TagDefinitionInUse")
        assert [response.status for response in puts] == [200] * 4
    there = 0 if deleted.status == 204 else 1
    assert (TagDefinition.objects.count(), TagAttachment.objects.count()) == (there, 4 * there)
    assert Securable.objects.filter(type="tag").count() == there


@in_threads
@pytest.mark.parametrize("attempt", range(4))
def test_a_table_is_dropped_while_it_is_tagged(
    catalog: ApiClient, api: ApiClient, things: dict[str, str], attempt: int
) -> None:
    define()
    dropped, *puts = at_once(
        lambda: catalog.delete("/namespaces/ns/tables/t"),
        *[partial(api.put, f"{things[kind]}/tags/pii", {"value": "x"}) for kind in ("table", "column")],
    )
    assert dropped.status == 204, dropped.body
    assert all(response.status == 200 or response.refused(404, "NoSuchTableException") for response in puts)
    assert not TagAttachment.objects.exists()
    assert not Securable.objects.filter(type="table").exists()
