"""Hostile bodies for every operation that reads one: the same error everywhere, and no change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from catalog.services.commit.service import MAX_TABLES
from tests.catalog_fixtures import SCHEMA
from tests.harness.fingerprint import Fingerprint
from tests.harness.wsgi_client import ApiClient

pytestmark = pytest.mark.django_db

CreateTable = Callable[..., dict[str, Any]]
Everything = Callable[[], Fingerprint]
MEGABYTE = 1024 * 1024

TARGETS = (
    "/namespaces",
    "/namespaces/ns/properties",
    "/namespaces/ns/tables",
    "/namespaces/ns/tables/t",
    "/namespaces/ns/tables/t/metrics",
    "/namespaces/ns/register",
    "/namespaces/ns/views",
    "/namespaces/ns/views/v",
    "/namespaces/ns/register-view",
    "/tables/rename",
    "/views/rename",
    "/transactions/commit",
)
LEGAL = (
    b'"namespace":["new"],"name":"new","updates":[],"requirements":[],"removals":[],"report-type":"scan-report",'
    b'"schema":{"type":"struct","fields":[]},"properties":{},"table-changes":[],"overwrite":false,'
    b'"source":{"namespace":["ns"],"name":"t"},"destination":{"namespace":["ns"],"name":"new"}'
)
"""What most operations would act on."""


def within(value: bytes) -> bytes:
    """A valid body with `value` three levels deep, in a member that no operation reads."""
    return b'{%s,"more":[{"inner":[%s]}]}' % (LEGAL, value)


@pytest.fixture
def populated(catalog: ApiClient, create_table: CreateTable) -> None:
    create_table("t", properties={"owner": "ann"})
    version = {
        "version-id": 1, "schema-id": 0, "timestamp-ms": 1, "summary": {}, "default-namespace": ["ns"],
        "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
    }  # fmt: skip
    view = {"name": "v", "schema": SCHEMA, "view-version": version, "properties": {}}
    assert catalog.post("/namespaces/ns/views", view).status == 200


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.usefixtures("populated")
def test_every_operation_rejects_invalid_json(target: str, catalog: ApiClient, everything: Everything) -> None:
    before = everything()
    for value, text in (
        (b"18446744073709551616", "64 bits"),
        (b"-9223372036854775809", "64 bits"),
        (b"1e999", "64 bits"),
        (b"-1e999", "64 bits"),
        (b"9" * 10 * MEGABYTE, "64 bits"),
        (b"NaN", "NaN"),
        (b"-Infinity", "Infinity"),
        (b'{"a":1,"a":1}', "appears twice"),
        (b'{"a":{"b":[{"c":1,"d":2,"c":3}]}}', "appears twice"),
        (b'{"\\u0061":1,"a":2}', "appears twice"),
        (b'"\xff"', "not UTF-8"),
        (b'"\xc0\x80"', "not UTF-8"),
        (b'"\xed\xa0\x80"', "not UTF-8"),
        (b'"\\ud800"', "Malformed JSON"),
        (b'{"\\udfff":1}', "Malformed JSON"),
        (b"[" * 255 + b"]" * 255, "Malformed JSON"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested too deep"),
        (b'"' + b"a" * 10 * MEGABYTE, "Malformed JSON"),
        (b"01", "Malformed JSON"),
        (b"1 // one", "Malformed JSON"),
        (b"'a'", "Malformed JSON"),
        (b"[1,]", "Malformed JSON"),
        (b'"a\nb"', "Malformed JSON"),
    ):
        assert catalog.post(target, raw=within(value)).refused(400, "BadRequestException", text), value[:50]
    for body in (
        b"\xff\xfe{\x00}\x00",
        b"\xef\xbb\xbf{%s}" % LEGAL,
        b"{%s}{}" % LEGAL,
        b"[{%s}]" % LEGAL,
        b'"x"',
        b"1",
    ):
        assert catalog.post(target, raw=body).refused(400, "BadRequestException", "Malformed"), body[:50]
    assert everything() == before


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.usefixtures("populated")
def test_no_operation_reads_more_than_the_limit(target: str, catalog: ApiClient, everything: Everything) -> None:
    before = everything()
    body = within(b'"' + b"a" * 32 * MEGABYTE + b'"')
    assert catalog.post(target, raw=body).refused(413, "PayloadTooLargeException", "33554432 bytes")
    assert everything() == before


@pytest.mark.parametrize("kind", [None, True, 7, 1.5, "x", [], [[]], {"a": {}}])
@pytest.mark.usefixtures("populated")
def test_every_member_of_every_body_has_one_type(kind: Any, catalog: ApiClient, everything: Everything) -> None:
    """Replace each member in turn by a value of another type; where that is legal, the rest of the body is invalid."""
    before = everything()
    for target, body in (
        ("/namespaces", {"namespace": kind}),
        ("/namespaces/ns/properties", {"updates": [kind], "removals": []}),
        ("/namespaces/ns/properties", {"updates": {}, "removals": [kind, 1]}),
        ("/namespaces/ns/properties", {"updates": {"a": [kind]}}),
        ("/namespaces/ns/tables", {"name": [kind], "schema": SCHEMA}),
        ("/namespaces/ns/tables", {"name": "x", "schema": kind}),
        ("/namespaces/ns/tables", {"name": "x", "schema": SCHEMA, "properties": {"a": [kind]}}),
        ("/namespaces/ns/tables", {"name": "x", "schema": SCHEMA, "write-order": [kind]}),
        ("/namespaces/ns/tables", {"name": "x", "schema": SCHEMA, "partition-spec": [kind]}),
        ("/namespaces/ns/tables/t", {"requirements": [kind], "updates": []}),
        ("/namespaces/ns/tables/t", {"requirements": [], "updates": [kind]}),
        ("/namespaces/ns/register", {"name": "x", "metadata-location": kind}),
        ("/namespaces/ns/register", {"name": [kind], "metadata-location": "file:///x"}),
        ("/namespaces/ns/views", {"name": "x", "schema": SCHEMA, "properties": {}, "view-version": kind}),
        ("/namespaces/ns/views/v", {"updates": [kind]}),
        ("/namespaces/ns/views/v", {"updates": [], "requirements": [kind]}),
        ("/namespaces/ns/register-view", {"name": "x", "metadata-location": kind}),
        ("/tables/rename", {"source": kind, "destination": {"namespace": ["ns"], "name": "x"}}),
        ("/tables/rename", {"source": {"namespace": ["ns"], "name": "t"}, "destination": kind}),
        ("/tables/rename", {"source": {"namespace": [[kind]], "name": "t"}, "destination": {}}),
        ("/views/rename", {"source": {"namespace": ["ns"], "name": "v"}, "destination": kind}),
        ("/transactions/commit", {"table-changes": [kind]}),
        ("/transactions/commit", {"table-changes": {"a": kind}}),
    ):
        response = catalog.post(target, body)
        assert response.status == 400, (target, body, response.body)
        types = {"BadRequestException", "InvalidLocation", "TableIdentifierRequiredForCommitTransaction"}
        assert response.error["type"] in types, (target, body, response.body)
    assert everything() == before


@pytest.mark.parametrize("number", [MAX_TABLES + 1, 10_000])
@pytest.mark.usefixtures("populated")
def test_a_transaction_has_a_largest_size(number: int, catalog: ApiClient, everything: Everything) -> None:
    before = everything()
    update = {"action": "set-properties", "updates": {"a": "b"}}
    changes = [
        {"identifier": {"namespace": ["ns"], "name": f"t{index}"}, "requirements": [], "updates": [update]}
        for index in range(number)
    ]
    response = catalog.post("/transactions/commit", {"table-changes": changes})
    assert response.refused(400, "BadRequestException", f"1000 tables at most, this one names {number}")
    assert everything() == before
