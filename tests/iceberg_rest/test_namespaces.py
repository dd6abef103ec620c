from __future__ import annotations

from typing import Any

import pytest

from catalog.models import Namespace
from tenancy.models import Securable
from tests.wsgi_client import ApiClient

pytestmark = pytest.mark.django_db


def test_a_namespace_is_made_loaded_listed_and_dropped(catalog: ApiClient) -> None:
    made = catalog.post("/namespaces", {"namespace": ["Sales"], "properties": {"owner": "ann"}})
    assert (made.status, made.json()) == (200, {"namespace": ["Sales"], "properties": {"owner": "ann"}})
    assert catalog.get("/namespaces/Sales").json() == {"namespace": ["Sales"], "properties": {"owner": "ann"}}
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
def test_any_printable_name_makes_the_round_trip(catalog: ApiClient, segment: str, name: str) -> None:
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
        ["\ufdfa" * 200],  # one ligature unfolds into eighteen letters
        list("abcdef"),
        ["system"],
        ["Information_Schema"],
    ],
)
def test_bad_names_are_refused_and_change_nothing(catalog: ApiClient, levels: Any) -> None:
    answer = catalog.post("/namespaces", {"namespace": levels})
    assert answer.status == 400
    assert answer.error["type"] in {"BadRequestException", "NamespaceDepthExceeded", "ReservedNamespace"}
    assert not Namespace.objects.exists()
    assert not Securable.objects.filter(type="namespace").exists()


@pytest.mark.parametrize("properties", [[], "x", {"a": 1}, {"a": None}, {"a": {"b": "c"}}, {"a": "\x00"}])
def test_bad_properties_are_refused(catalog: ApiClient, properties: Any) -> None:
    answer = catalog.post("/namespaces", {"namespace": ["n"], "properties": properties})
    assert answer.refused(400, "BadRequestException", "properties")
    assert not Namespace.objects.exists()


def test_properties_are_merged(catalog: ApiClient, namespace: str) -> None:
    update = catalog.post("/namespaces/ns/properties", {"updates": {"a": "1", "b": "2"}})
    assert update.json() == {"updated": ["a", "b"], "removed": [], "missing": []}
    update = catalog.post("/namespaces/ns/properties", {"updates": {"a": "3"}, "removals": ["b", "c", "c"]})
    assert update.json() == {"updated": ["a"], "removed": ["b"], "missing": ["c"]}
    assert catalog.get("/namespaces/ns").json()["properties"] == {"a": "3"}


def test_a_key_in_both_lists_is_unprocessable(catalog: ApiClient, namespace: str) -> None:
    answer = catalog.post("/namespaces/ns/properties", {"updates": {"a": "1"}, "removals": ["a"]})
    assert answer.refused(422, "UnprocessableEntityException", "a")
    assert catalog.get("/namespaces/ns").json()["properties"] == {}


def test_a_missing_namespace_is_404_everywhere(catalog: ApiClient) -> None:
    for answer in (
        catalog.get("/namespaces/no"),
        catalog.delete("/namespaces/no"),
        catalog.post("/namespaces/no/properties", {"updates": {"a": "1"}}),
        catalog.get("/namespaces/no/tables"),
        catalog.get("/namespaces/a%00b%1F"),
        catalog.get("/namespaces/" + "n" * 2000),
    ):
        if answer.error["type"] != "BadRequestException":  # NUL is refused before anything looks at the path
            assert answer.refused(404, "NoSuchNamespaceException", "Namespace does not exist: ")


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
    assert len(catalog.get("/namespaces?pageSize=2").json()["namespaces"]) == 6  # no pageToken: everything


@pytest.mark.parametrize("token", ["x", "!!", "WzEsInRhYmxlcyIsIngiXQ", "%00", "null", "e30", "%E2%98%83"])
def test_forged_page_tokens_are_refused(catalog: ApiClient, token: str) -> None:
    answer = catalog.get(f"/namespaces?pageToken={token}")
    assert answer.status == 400
    assert answer.error["type"] in {"InvalidPaginationToken", "BadRequestException"}


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
