from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings

from catalog.models import Namespace, Tabular
from storage.models import Warehouse
from tenancy.models import Securable
from tests.catalog_fixtures import chosen
from tests.harness.wsgi_client import ApiClient

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def test_a_namespace_is_created_loaded_listed_and_dropped(catalog: ApiClient, warehouse: Warehouse) -> None:
    created = catalog.post("/namespaces", {"namespace": ["Sales"], "properties": {"owner": "ann"}})
    namespace_id = str(Namespace.objects.get().pk)
    added = {"location": f"{warehouse.location}/", "namespace_id": namespace_id}
    sales = {"namespace": ["Sales"], "properties": {"owner": "ann", **added}}
    assert (created.status, created.json()) == (200, sales)
    assert catalog.get("/namespaces/Sales").json() == sales
    assert catalog.head("/namespaces/Sales").status == 204
    assert catalog.get("/namespaces").json() == {"namespaces": [["Sales"]]}
    assert catalog.delete("/namespaces/Sales").status == 204
    assert catalog.head("/namespaces/Sales").status == 404
    assert catalog.get("/namespaces").json() == {"namespaces": []}
    assert not Securable.objects.filter(type="namespace").exists()


def test_names_are_looked_up_without_case_and_keep_their_spelling(catalog: ApiClient) -> None:
    catalog.post("/namespaces", {"namespace": ["Straße"]})
    assert catalog.get("/namespaces/STRASSE").json()["namespace"] == ["Straße"]
    assert catalog.post("/namespaces", {"namespace": ["strasse"]}).refused(
        409, "AlreadyExistsException", "Namespace already exists: strasse"
    )


def test_nested_namespaces_list_direct_children_only(catalog: ApiClient) -> None:
    for levels in (["a"], ["a", "b"], ["a", "b", "c"], ["a", "x"]):
        assert catalog.post("/namespaces", {"namespace": levels}).status == 200
    assert catalog.get("/namespaces").json() == {"namespaces": [["a"]]}
    assert catalog.get("/namespaces?parent=a").json() == {"namespaces": [["a", "b"], ["a", "x"]]}
    assert catalog.get("/namespaces?parent=a%1Fb").json() == {"namespaces": [["a", "b", "c"]]}
    assert catalog.get("/namespaces?parent=a%251Fb").json() == {"namespaces": [["a", "b", "c"]]}  # encoded twice
    assert catalog.get("/namespaces?parent=").json() == {"namespaces": [["a"]]}
    assert catalog.get("/namespaces/a%1Fb").json()["namespace"] == ["a", "b"]
    assert catalog.get("/namespaces?parent=nope").refused(
        404, "NoSuchNamespaceException", "Namespace does not exist: nope"
    )
    assert catalog.delete("/namespaces/a").refused(409, "NamespaceNotEmptyException", "is not empty")


def test_the_parent_must_exist(catalog: ApiClient) -> None:
    assert catalog.post("/namespaces", {"namespace": ["no", "child"]}).refused(
        404, "NoSuchNamespaceException", "Namespace does not exist: no"
    )
    assert not Namespace.objects.exists()


@pytest.mark.parametrize(
    ("segment", "name"),
    [
        ("a%2Fb", "a/b"),
        ("with+space", "with space"),
        ("with%20space", "with space"),
        ("plus%2Bplus", "plus+plus"),
        ("dot.ted", "dot.ted"),
        ("%E2%98%83", "☃"),
        ("100%25", "100%"),
        ("q%22uo%27te", "q\"uo'te"),
        ("%24%7Bx%7D%2A%3F", "${x}*?"),
    ],
)
def test_any_printable_name_survives_the_round_trip(catalog: ApiClient, segment: str, name: str) -> None:
    assert catalog.post("/namespaces", {"namespace": [name]}).status == 200
    assert catalog.get(f"/namespaces/{segment}").json()["namespace"] == [name]
    assert catalog.delete(f"/namespaces/{segment}").status == 204


@pytest.mark.parametrize(
    "levels",
    [
        None,
        [],
        "ns",
        [""],
        ["  "],
        [1],
        [None],
        [["a"]],
        ["a", ""],
        ["."],
        [".."],
        ["a\x1fb"],
        ["a\x00b"],
        ["a\nb"],
        ["a\u202eb"],
        ["a\ufeff"],
        ["n" * 2000],
        ["\ufdfa" * 200],  # one ligature, normalized to eighteen letters
        list("abcdef"),
        ["system"],
        ["Information_Schema"],
    ],
)
def test_bad_names_are_refused_and_change_nothing(catalog: ApiClient, levels: Any) -> None:
    response = catalog.post("/namespaces", {"namespace": levels})
    assert response.status == 400
    assert response.error["type"] in {"BadRequestException", "NamespaceDepthExceeded", "ReservedNamespace"}
    assert not Namespace.objects.exists()
    assert not Securable.objects.filter(type="namespace").exists()


@pytest.mark.parametrize("path", ["system", "Examples", "mine", "mine%1Fbelow", "%EF%BC%B3ystem"])
def test_reserved_names_are_not_dropped(catalog: ApiClient, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    for levels in (["mine"], ["mine", "below"]):
        assert catalog.post("/namespaces", {"namespace": levels}).status == 200
    reserved = settings.ICEKEEPER.model_copy(update={"reserved_namespaces": ["Mine"]})
    monkeypatch.setattr(settings, "ICEKEEPER", reserved)
    for query in ("", "?force=true", "?recursive=true&force=true"):
        assert catalog.delete(f"/namespaces/{path}{query}").refused(400, "ReservedNamespace")
    assert Namespace.objects.count() == 2


@pytest.mark.parametrize("properties", [[], "x", {"a": 1}, {"a": None}, {"a": {"b": "c"}}, {"a": "\x00"}])
def test_bad_properties_are_refused(catalog: ApiClient, properties: Any) -> None:
    response = catalog.post("/namespaces", {"namespace": ["n"], "properties": properties})
    assert response.refused(400, "BadRequestException", "properties")
    assert not Namespace.objects.exists()


def test_properties_are_merged(catalog: ApiClient, namespace: str) -> None:
    update = catalog.post("/namespaces/ns/properties", {"updates": {"a": "1", "b": "2"}})
    assert update.json() == {"updated": ["a", "b"], "removed": [], "missing": []}
    update = catalog.post("/namespaces/ns/properties", {"updates": {"a": "3"}, "removals": ["b", "c", "c"]})
    assert update.json() == {"updated": ["a"], "removed": ["b"], "missing": ["c"]}
    assert chosen(catalog.get("/namespaces/ns").json()["properties"]) == {"a": "3"}


def test_a_key_in_both_lists_is_unprocessable(catalog: ApiClient, namespace: str) -> None:
    response = catalog.post("/namespaces/ns/properties", {"updates": {"a": "1"}, "removals": ["a"]})
    assert response.refused(422, "UnprocessableEntityException", "a")
    assert chosen(catalog.get("/namespaces/ns").json()["properties"]) == {}


def test_a_missing_namespace_is_404_everywhere(catalog: ApiClient) -> None:
    for response in (
        catalog.get("/namespaces/no"),
        catalog.delete("/namespaces/no"),
        catalog.post("/namespaces/no/properties", {"updates": {"a": "1"}}),
        catalog.get("/namespaces/no/tables"),
        catalog.get("/namespaces/a%00b%1F"),
        catalog.get("/namespaces/" + "n" * 2000),
    ):
        if response.error["type"] != "BadRequestException":  # NUL is rejected before the path is used
            assert response.refused(404, "NoSuchNamespaceException", "Namespace does not exist: ")


def test_listing_pages_are_stable_under_insertion(catalog: ApiClient) -> None:
    for number in range(5):
        catalog.post("/namespaces", {"namespace": [f"n{number}"]})
    first = catalog.get("/namespaces?pageToken=&pageSize=2").json()
    assert first["namespaces"] == [["n0"], ["n1"]]
    catalog.post("/namespaces", {"namespace": ["late"]})
    second = catalog.get(f"/namespaces?pageSize=2&pageToken={first['next-page-token']}").json()
    assert second["namespaces"] == [["n2"], ["n3"]]
    third = catalog.get(f"/namespaces?pageSize=2&pageToken={second['next-page-token']}").json()
    assert third == {"namespaces": [["n4"], ["late"]]}
    assert len(catalog.get("/namespaces?pageSize=2").json()["namespaces"]) == 6  # without pageToken: all entries


@pytest.mark.parametrize("token", ["x", "!!", "WzEsInRhYmxlcyIsIngiXQ", "%00", "null", "e30", "%E2%98%83"])
def test_forged_page_tokens_are_refused(catalog: ApiClient, token: str) -> None:
    response = catalog.get(f"/namespaces?pageToken={token}")
    assert response.status == 400
    assert response.error["type"] in {"InvalidPaginationToken", "BadRequestException"}


@pytest.mark.parametrize("size", ["0", "-1", "x", "1e3", "99999999999999", ""])
def test_bad_page_sizes_are_refused(catalog: ApiClient, size: str) -> None:
    assert catalog.get(f"/namespaces?pageToken=&pageSize={size}").refused(400, "BadRequestException", "pageSize")


def test_an_unknown_or_malformed_prefix(catalog: ApiClient) -> None:
    stranger = ApiClient("/catalog/v1/0198e0f4-3f6e-7c31-8c7d-9b7b8f2a1d44")
    assert stranger.get("/namespaces").refused(404, "NoSuchWarehouseException")
    assert stranger.post("/namespaces", {"namespace": ["a"]}).refused(404, "NoSuchWarehouseException")
    for prefix in ("wh", "0198e0f43f6e7c318c7d9b7b8f2a1d44", "%7B0198e0f4-3f6e-7c31-8c7d-9b7b8f2a1d44%7D", "%2e%2e%2f"):
        assert ApiClient(f"/catalog/v1/{prefix}").get("/namespaces").error["type"] in {
            "PrefixIsNotWarehouseID",
            "BadRequestException",
        }


def test_the_prefix_may_be_percent_encoded(catalog: ApiClient, warehouse: Warehouse) -> None:
    """Sail percent-encodes each hyphen."""
    for encoded in (
        str(warehouse.pk).replace("-", "%2D"),
        "".join(f"%{ord(letter):02x}" for letter in str(warehouse.pk)),
    ):
        client = ApiClient(f"/catalog/v1/{encoded}")
        assert client.post("/namespaces", {"namespace": [encoded]}).status == 200
        assert client.get("/namespaces").json() == catalog.get("/namespaces").json()
        assert client.delete(f"/namespaces/{encoded.replace('%', '%25')}").status == 204
        assert client.get("/namespaces/missing").refused(404, "NoSuchNamespaceException")
    for encoded in ("%FF", "%2", str(warehouse.pk).replace("-", "%252D")):
        assert ApiClient(f"/catalog/v1/{encoded}").get("/namespaces").refused(400, "PrefixIsNotWarehouseID")


def test_listings_have_uuids_and_protection_on_request(catalog: ApiClient) -> None:
    for levels in (["a"], ["a", "x"], ["b"], ["a", "y"]):
        assert catalog.post("/namespaces", {"namespace": levels}).status == 200
    Namespace.objects.filter(path__in=["b", "a\x1fx"]).update(protected=True)
    ids = {namespace.path: str(namespace.pk) for namespace in Namespace.objects.all()}
    both = "returnUuids=true&returnProtectionStatus=True"
    assert catalog.get(f"/namespaces?{both}").json() == {
        "namespaces": [["a"], ["b"]],
        "namespace-uuids": [ids["a"], ids["b"]],
        "protection-status": [False, True],
    }
    assert catalog.get(f"/namespaces?parent=a&{both}").json() == {
        "namespaces": [["a", "x"], ["a", "y"]],
        "namespace-uuids": [ids["a\x1fx"], ids["a\x1fy"]],
        "protection-status": [True, False],
    }
    page = catalog.get(f"/namespaces?parent=a&{both}&pageToken=&pageSize=1").json()
    assert (page["namespace-uuids"], page["protection-status"]) == ([ids["a\x1fx"]], [True])
    page = catalog.get(f"/namespaces?parent=a&{both}&pageSize=1&pageToken={page['next-page-token']}").json()
    assert page == {
        "namespaces": [["a", "y"]], "namespace-uuids": [ids["a\x1fy"]], "protection-status": [False]
    }  # fmt: skip
    assert catalog.get("/namespaces?returnUuids=false&returnProtectionStatus=false").json() == {
        "namespaces": [["a"], ["b"]]
    }
    assert catalog.get(f"/namespaces?parent=b&{both}").json() == {
        "namespaces": [], "namespace-uuids": [], "protection-status": []
    }  # fmt: skip


def test_listings_of_tables_have_uuids_and_protection_on_request(catalog: ApiClient, create_table: Any) -> None:
    uuids = [create_table(name)["metadata"]["table-uuid"] for name in ("t", "u", "v")]
    Tabular.objects.filter(name="u").update(protected=True)
    both = "returnUuids=true&returnProtectionStatus=true"
    listed = catalog.get(f"/namespaces/ns/tables?{both}").json()
    assert [each["name"] for each in listed["identifiers"]] == ["t", "u", "v"]
    assert (listed["table-uuids"], listed["protection-status"]) == (uuids, [False, True, False])
    first = catalog.get(f"/namespaces/ns/tables?{both}&pageToken=&pageSize=2").json()
    rest = catalog.get(f"/namespaces/ns/tables?{both}&pageSize=2&pageToken={first['next-page-token']}").json()
    assert (first["table-uuids"], rest["table-uuids"]) == (uuids[:2], uuids[2:])
    assert catalog.get("/namespaces/ns/tables").json() == {"identifiers": listed["identifiers"]}


def test_a_load_returns_the_uuid_on_request(catalog: ApiClient, namespace: str) -> None:
    loaded = catalog.get("/namespaces/NS").json()
    assert catalog.get("/namespaces/NS?returnUuid=false").json() == loaded
    with_uuid = catalog.get("/namespaces/NS?returnUuid=true").json()
    assert with_uuid == loaded | {"namespace-uuid": str(Namespace.objects.get().pk)}
    assert with_uuid["namespace-uuid"] == loaded["properties"]["namespace_id"]


@pytest.mark.parametrize("value", ["yes", "1", "", "null", "%00"])
def test_boolean_query_parameters_are_true_or_false(catalog: ApiClient, namespace: str, value: str) -> None:
    for target in (
        f"/namespaces?returnUuids={value}",
        f"/namespaces?returnProtectionStatus={value}",
        f"/namespaces/ns?returnUuid={value}",
        f"/namespaces/ns/tables?returnUuids={value}",
        f"/namespaces/ns/tables?returnProtectionStatus={value}",
    ):
        assert catalog.get(target).refused(400, "BadRequestException")


@pytest.mark.parametrize("segment", ["a%20b%1Fc+d", "a+b%1fc%20d", "a+b\x1fc+d", "A%20B%1FC%2BD"])
def test_levels_are_distinguished_however_they_are_encoded(catalog: ApiClient, segment: str) -> None:
    for levels in (["a b"], ["a b", "c d"], ["a b", "c+d"]):
        assert catalog.post("/namespaces", {"namespace": levels}).status == 200
    expected = ["a b", "c+d"] if "%2B" in segment else ["a b", "c d"]
    assert catalog.get(f"/namespaces/{segment}").json()["namespace"] == expected
    assert catalog.head(f"/namespaces/{segment}").status == 204
    assert catalog.get(f"/namespaces/{segment}/tables").json() == {"identifiers": []}


@pytest.mark.parametrize("parent", ["a+b%1Fc", "a%20b%1fc", "a%2520b%251Fc", "a%2Bb%251Fc", "A%20B%1FC"])
def test_the_parent_is_read_once_or_twice_encoded(catalog: ApiClient, parent: str) -> None:
    for levels in (["a b"], ["a b", "c"], ["a b", "c", "child"]):
        assert catalog.post("/namespaces", {"namespace": levels}).status == 200
    assert catalog.get(f"/namespaces?parent={parent}").json() == {"namespaces": [["a b", "c", "child"]]}


def test_a_dot_separates_nothing(catalog: ApiClient) -> None:
    for levels in (["a"], ["a", "b"], ["a.b"]):
        assert catalog.post("/namespaces", {"namespace": levels}).status == 200
    assert catalog.get("/namespaces/a.b").json()["namespace"] == ["a.b"]
    assert catalog.get("/namespaces?parent=a.b").json() == {"namespaces": []}


def test_five_levels_are_created_and_a_deeper_one_does_not_exist(catalog: ApiClient) -> None:
    for depth in range(1, 6):
        assert catalog.post("/namespaces", {"namespace": list("abcde")[:depth]}).status == 200
    assert catalog.post("/namespaces", {"namespace": list("abcdef")}).refused(
        400, "NamespaceDepthExceeded", "exceeds maximum depth"
    )
    deep = "%1F".join("abcdef")
    for response in (
        catalog.get(f"/namespaces/{deep}"),
        catalog.delete(f"/namespaces/{deep}"),
        catalog.get(f"/namespaces?parent={deep}"),
        catalog.get(f"/namespaces/{deep}/tables"),
        catalog.post(f"/namespaces/{deep}/properties", {"updates": {}}),
    ):
        assert response.refused(404, "NoSuchNamespaceException", "Namespace does not exist: a.b.c.d.e.f")
    assert catalog.get(f"/namespaces/{deep}/tables/t").refused(404, "NoSuchTableException")
    assert Namespace.objects.count() == 5


def test_every_level_is_looked_up_without_case(catalog: ApiClient) -> None:
    catalog.post("/namespaces", {"namespace": ["Übung"]})
    catalog.post("/namespaces", {"namespace": ["ÜBUNG", "\uff37ide"]})
    assert catalog.get("/namespaces/u%CC%88bung%1FWIDE").json()["namespace"] == ["Übung", "\uff37ide"]
    assert catalog.get("/namespaces?parent=%C3%9CBUNG").json() == {"namespaces": [["Übung", "\uff37ide"]]}
    assert catalog.post("/namespaces", {"namespace": ["übung", "wide"]}).refused(409, "AlreadyExistsException")


def test_the_levels_above_a_new_namespace_keep_their_spelling(catalog: ApiClient) -> None:
    for asked, stored in (
        (["Sales"], ["Sales"]),
        (["sales", "EU"], ["Sales", "EU"]),
        (["SALES", "eu", "North"], ["Sales", "EU", "North"]),
    ):
        body, key = {"namespace": asked}, {"Idempotency-Key": str(uuid4())}
        created = catalog.post("/namespaces", body, **key)
        assert (created.status, created.json()["namespace"]) == (200, stored)
        assert catalog.post("/namespaces", body, **key).json() == created.json()
    assert sorted(Namespace.objects.values_list("path", "path_key")) == [
        ("Sales", "sales"),
        ("Sales\x1fEU", "sales\x1feu"),
        ("Sales\x1fEU\x1fNorth", "sales\x1feu\x1fnorth"),
    ]
    assert catalog.get("/namespaces?parent=sales").json() == {"namespaces": [["Sales", "EU"]]}
    assert catalog.get("/namespaces?parent=sales%1FEU").json() == {"namespaces": [["Sales", "EU", "North"]]}
    assert catalog.post("/namespaces", {"namespace": ["sales", "no", "x"]}).refused(
        404, "NoSuchNamespaceException", "Namespace does not exist: sales.no"
    )


def test_keys_of_properties_keep_their_case(catalog: ApiClient) -> None:
    properties = {"Owner": "Ann", "owner": "ann", "created-AT": "", "Location": "x", "☃": "${y}", "": "z"}
    catalog.post("/namespaces", {"namespace": ["n"], "properties": properties})
    assert chosen(catalog.get("/namespaces/n").json()["properties"]) == properties
    catalog.post("/namespaces/n/properties", {"removals": ["owner", "LOCATION"], "updates": {"OWNER": "x"}})
    del properties["owner"]
    assert chosen(catalog.get("/namespaces/n").json()["properties"]) == properties | {"OWNER": "x"}


def test_properties_of_the_server_are_passed_over(catalog: ApiClient) -> None:
    claimed = {"namespace_id": "mine", "managed_access": "true"}
    created = catalog.post("/namespaces", {"namespace": ["n"], "properties": {"a": "b", **claimed}}).json()
    namespace_id = str(Namespace.objects.get().pk)
    assert created["properties"]["namespace_id"] == namespace_id
    assert chosen(created["properties"]) == {"a": "b"}
    update = catalog.post("/namespaces/n/properties", {"updates": {"c": "d", **claimed}})
    assert update.json() == {"updated": ["c"], "removed": [], "missing": []}
    update = catalog.post("/namespaces/n/properties", {"removals": ["a", "namespace_id"]})
    assert update.json() == {"updated": [], "removed": ["a"], "missing": ["namespace_id"]}
    properties = catalog.get("/namespaces/n").json()["properties"]
    assert (chosen(properties), properties["namespace_id"]) == ({"c": "d"}, namespace_id)
    assert Namespace.objects.get().properties == {"c": "d"}


def test_a_large_map_of_properties_is_refused(catalog: ApiClient, namespace: str) -> None:
    for updates in ({"a": "x" * 10_000_000}, {f"k{number}": "v" * 100 for number in range(20_000)}):
        assert catalog.post("/namespaces/ns/properties", {"updates": updates}).refused(
            400, "BadRequestException", "larger than"
        )
        response = catalog.post("/namespaces", {"namespace": ["n"], "properties": updates})
        assert response.refused(400, "BadRequestException", "larger than")
    assert Namespace.objects.get().properties == {}
