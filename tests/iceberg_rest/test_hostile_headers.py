"""Forged page tokens and header fields: rejected or ignored, and nothing changes."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from icekeeper.kernel.ids import new_id
from storage.services.warehouses import create_warehouse
from tenancy.actor import INTERNAL
from tenancy.selectors.projects import get_project
from tests.catalog_fixtures import SCHEMA
from tests.harness.fingerprint import Fingerprint
from tests.harness.wsgi_client import ApiClient

pytestmark = pytest.mark.django_db

CreateTable = Callable[..., dict[str, Any]]
Everything = Callable[[], Fingerprint]
T = "/namespaces/ns/tables/t"
LISTINGS = {"namespaces": "/namespaces", "tables": "/namespaces/ns/tables", "views": "/namespaces/ns/views"}


def token_of(document: Any) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(document)).rstrip(b"=").decode()


def listing_key(token: str) -> str:
    """Return the listing that a token belongs to."""
    named = orjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))[1]
    assert isinstance(named, str)
    return named


def fill(catalog: ApiClient, create_table: CreateTable) -> None:
    """Create two of every listed object."""
    for name in ("t", "u"):
        create_table(name)
        assert catalog.post("/namespaces", {"namespace": [f"{name}{name}"]}).status == 200
        view = {"version-id": 1, "timestamp-ms": 1, "schema-id": 0, "summary": {}, "default-namespace": ["ns"]}
        view["representations"] = [{"type": "sql", "sql": "select 1", "dialect": "spark"}]
        body = {"name": f"v{name}", "schema": SCHEMA, "view-version": view, "properties": {}}
        assert catalog.post("/namespaces/ns/views", body).status == 200


@pytest.mark.parametrize("kind", LISTINGS)
def test_a_page_token_is_one_that_was_given_out(kind: str, catalog: ApiClient, create_table: CreateTable) -> None:
    fill(catalog, create_table)
    after = str(new_id())
    tokens = {
        each: catalog.get(f"{LISTINGS[each]}?pageToken=&pageSize=1").json()["next-page-token"] for each in LISTINGS
    }
    listings = {each: listing_key(token) for each, token in tokens.items()}
    others = [listing for each, listing in listings.items() if each != kind]
    kind, named = listings[kind], kind
    good = token_of([1, kind, after])
    # so that the following requests fail for their own reasons
    assert catalog.get(f"{LISTINGS[named]}?pageToken={good}").status == 200
    for document in (
        *([1, other, after] for other in others),
        [1, named, after],
        [1, f"{named} {'0' * 16}", after],
        [2, kind, after],
        [True, kind, after, after],
        [1, kind],
        [1, kind, after, after],
        [1, kind, None],
        [1, kind, 7],
        [1, kind, ""],
        [1, kind, "x"],
        [1, kind, "x' OR '1'='1"],
        [1, kind, "\x00" * 36],
        [1, kind, after.replace("-", "")],
        [1, kind, "{" + after + "}"],
        [1, kind, [after]],
        [[1, kind, after]],
        {"1": kind},
        kind,
        None,
        2**63,
        [[]] * 100,
    ):
        response = catalog.get(f"{LISTINGS[named]}?pageToken={token_of(document)}")
        assert response.refused(400, "InvalidPaginationToken"), document
    for token in (
        good[:-1],
        good[1:],
        good + "AAAA",
        good + "%0A",
        good[:10] + "%2B" + good[11:],
        "%C3%A9",
        "[" * 1000,
        "W1tb" * 10_000,
        token_of([1, kind, "x" * 20_000]),
    ):
        response = catalog.get(f"{LISTINGS[named]}?pageToken={token}")
        assert response.refused(400, "InvalidPaginationToken"), token[:80]


def test_a_token_is_valid_for_its_own_listing_only(
    catalog: ApiClient, create_table: CreateTable, storage_root: Path
) -> None:
    """In another listing it would silently skip the first entries."""
    profile = {"type": "local", "path": str(storage_root / "other")}
    other = create_warehouse(actor=INTERNAL, project=get_project(None), name="other", storage_profile=profile)
    theirs = ApiClient(f"/catalog/v1/{other.pk}")
    assert theirs.post("/namespaces", {"namespace": ["ns"]}).status == 200
    for name in ("secret", "more secret"):
        assert theirs.post("/namespaces/ns/tables", {"name": name, "schema": SCHEMA}).status == 200
    token = theirs.get("/namespaces/ns/tables?pageToken=&pageSize=1").json()["next-page-token"]
    assert len(theirs.get(f"/namespaces/NS/tables?pageToken={token}").json()["identifiers"]) == 1
    create_table("ours")
    assert catalog.get(f"/namespaces/ns/tables?pageToken={token}").refused(400, "InvalidPaginationToken")
    assert theirs.post("/namespaces", {"namespace": ["ms"]}).status == 200
    assert theirs.get(f"/namespaces/ms/tables?pageToken={token}").refused(400, "InvalidPaginationToken")
    roots = theirs.get("/namespaces?pageToken=&pageSize=1").json()["next-page-token"]
    assert theirs.get(f"/namespaces?pageToken={roots}&parent=ns").refused(400, "InvalidPaginationToken")


@pytest.mark.parametrize(
    "given",
    ["", "x", '"', '"x', "W/", 'W/"x"', '"*"', "**", ",", "," * 50_000, '"a", ' * 10_000, "\xff\xfe", "\x00", "\t"],
    ids=lambda given: ascii(given)[:20],
)  # fmt: skip
def test_an_unknown_etag_gets_the_table(given: str, catalog: ApiClient, create_table: CreateTable) -> None:
    created = create_table("t")
    response = catalog.get(T, if_none_match=given)
    assert (response.status, response.json()) == (200, created)


@pytest.mark.parametrize(
    "given",
    ["", " ", "x", "0" * 36, "-" * 36, "\xff" * 36, "\x00" * 36, "1" * 100_000, "01a1ff95e3cc7831a59bb91c90243b4f",
     "urn:uuid:01a1ff95-e3cc-7831-a59b-b91c90243b4f", "01a1ff95-e3cc-7831-a59b-b91c90243b4g", "null",
     "'; DROP TABLE x; --", "\u0660" * 8],
    ids=lambda given: ascii(given)[:20],
)  # fmt: skip
def test_a_key_that_is_none_stops_every_write(
    given: str, catalog: ApiClient, create_table: CreateTable, everything: Everything
) -> None:
    create_table("t")
    before = everything()
    identifier = {"namespace": ["ns"], "name": "t"}
    rename = {"source": identifier, "destination": {"namespace": ["ns"], "name": "x"}}
    change = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
    for response in (
        catalog.post("/namespaces", {"namespace": ["n"]}, idempotency_key=given),
        catalog.post("/namespaces/ns/properties", {"updates": {"a": "b"}}, idempotency_key=given),
        catalog.post("/namespaces/ns/tables", {"name": "x", "schema": SCHEMA}, idempotency_key=given),
        catalog.post(T, change, idempotency_key=given),
        catalog.post(
            "/transactions/commit", {"table-changes": [{"identifier": identifier, **change}]}, idempotency_key=given
        ),
        catalog.post("/tables/rename", rename, idempotency_key=given),
        catalog.post(f"{T}/unregister", {}, idempotency_key=given),
        catalog.delete(T, idempotency_key=given),
    ):
        assert response.refused(400, "InvalidIdempotencyKey")
    assert everything() == before


@pytest.mark.parametrize(
    "query", ["purgeRequested=2", "force=x", "purgeRequested=%00", "force=%FF", "purgeRequested=true&purgeRequested=x"]
)
def test_a_flag_that_is_none_drops_nothing(
    query: str, catalog: ApiClient, create_table: CreateTable, everything: Everything
) -> None:
    create_table("t")
    before = everything()
    assert catalog.delete(f"{T}?{query}").refused(400, "BadRequestException")
    assert everything() == before
