"""Responses of Lakekeeper's routes have the members that its documents describe, and no others.

Strict clients reject unknown members. The responses are the examples of our OpenAPI documents, which are recorded from
the real server.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from icekeeper.version import LAKEKEEPER_VERSION
from management.openapi.examples import Exchange, read_exchanges
from tests.harness.openapi_documents import built_document
from tests.harness.wsgi_client import ApiClient
from tests.management import lakekeeper_responses
from tests.management.lakekeeper_responses import DOCUMENTS, differences, extract_folder, is_described, read_schemas

REFERENCE = os.environ.get("LAKEKEEPER_OPENAPI_FOLDER")
PAGE_PARAMETERS = {"pageToken", "pageSize", "page-token", "page-size"}

Recorded = tuple[str, str, Exchange]


@cache
def served_operations(document: str) -> dict[str, str]:
    """Return method and path, such as `GET /v1/{}/tables`, by the id of the operation."""
    return {
        each["operationId"]: f"{method.upper()} {re.sub('{[^}]*}', '{}', path)}"
        for path, item in built_document(document).content["paths"].items()
        for method, each in item.items()
    }


def recorded() -> Iterator[Recorded]:
    """Return document, operation and exchange of every recorded request to a route of Lakekeeper."""
    for name in DOCUMENTS:
        operations = served_operations(name)
        for operation_id, exchanges in read_exchanges(name).items():
            if is_described(name, operations[operation_id]):
                yield from ((name, operations[operation_id], each) for each in exchanges)


def without_own_page(exchange: Exchange) -> Any:
    """Return the response, without the page token if the caller requested pages."""
    asked = {*exchange["parameters"], *(exchange["request"] if isinstance(exchange["request"], dict) else ())}
    body = exchange["response"]
    return {key: body[key] for key in body if key != "next-page-token"} if asked & PAGE_PARAMETERS and body else body


def without_own_features(body: Any) -> tuple[Any, set[str]]:
    """Return the response as if no features of this server alone were used, and the names of those that were.

    A grant or membership with an expiration has `expires-at`, and a warehouse on local files its own kind of profile.
    """
    used: set[str] = set()

    def clean(value: Any) -> Any:
        if isinstance(value, list):
            return [clean(each) for each in value]
        if not isinstance(value, dict):
            return value
        kept = {name: clean(each) for name, each in value.items()}
        if kept.get("expires-at") is not None and kept.keys() & {"principal", "user", "role", "ident", "user-type"}:
            del kept["expires-at"]
            used.add("expires-at")
        if isinstance(kept.get("storage-profile"), dict) and kept["storage-profile"].get("type") == "local":
            kept["storage-profile"] = {"type": "gcs", "bucket": "b"}
            used.add("local storage")
        return kept

    return clean(body), used


def test_recorded_responses_have_no_members_of_our_own() -> None:
    found, used, count = [], set(), 0
    for name, operation, exchange in recorded():
        if "x-icekeeper-extensions" not in exchange["parameters"]:
            body, own = without_own_features(without_own_page(exchange))
            found += [f"{operation} {each}" for each in differences(name, operation, exchange["status"], body)]
            used |= own
            count += 1
    assert found == []
    assert used == {"expires-at", "local storage"}, "every exception is needed"
    assert count > 150, count


def test_every_operation_of_lakekeeper_that_is_served_is_recorded() -> None:
    checked = {(name, operation) for name, operation, _ in recorded()}
    for name in DOCUMENTS:
        served = set(served_operations(name).values())
        missing = {each for each in served & read_schemas()[name]["operations"].keys() if (name, each) not in checked}
        # A DELETE without a required parameter and without a body has no example.
        assert missing <= {"DELETE /management/v1/project"}


@pytest.mark.parametrize(
    ("operation_id", "location", "members"),
    [
        ("get_server_info", (), {"extra": 1}),
        ("list_warehouses", ("warehouses", 0), {"extra": 1}),
        ("get_warehouse", (), {"protected": None}),
        ("get_warehouse", (), {"status": "asleep"}),
        ("get_warehouse", (), {"id": "lake"}),
        ("get_warehouse", (), {"allowed-format-versions": "2"}),
        ("list_table_grants", ("grants", 0, "principal"), {"extra": 1}),
        ("list_table_grants", ("grants", 0), {"expires-at": None}),
        ("get_table_assignments", ("assignments", 0), {"extra": 1}),
        ("whoami", (), {"extra": 1}),
        ("get_role", (), {"ident": None}),
        ("batch_check_actions", ("results", 0), {"error": None}),
    ],
)
def test_members_that_strict_clients_reject_are_found(
    operation_id: str, location: tuple[Any, ...], members: dict[str, Any]
) -> None:
    operations = served_operations("management")
    exchange = next(each for each in read_exchanges("management")[operation_id] if each["status"] == 200)
    body, _ = without_own_features(deepcopy(exchange["response"]))
    assert differences("management", operations[operation_id], 200, body) == []
    target = body
    for step in location:
        target = target[step]
    target.update(members)
    changed, _ = without_own_features(body)
    assert differences("management", operations[operation_id], 200, changed), "not found"


def test_missing_members_bodies_and_statuses_are_found() -> None:
    info = "GET /management/v1/info"
    assert differences("management", info, 200, {})
    assert differences("management", info, 200, None)
    assert differences("management", info, 201, {}) == ["the status 201 is not described"]
    assert differences("management", "POST /management/v1/bootstrap", 204, {}) == ["a body where none is described"]
    envelope = {"error": {"message": "m", "type": "t", "code": 404, "stack": []}}
    assert differences("management", info, 404, envelope) == []
    assert differences("management", info, 404, {"error": {**envelope["error"], "hint": "h"}})


def test_the_schemas_contain_no_texts(tmp_path: Path) -> None:
    text = lakekeeper_responses.SCHEMAS.read_text()
    keywords = {"description", "title", "example", "examples", "summary"}

    def check(schema: Any) -> None:
        assert not keywords & schema.keys()
        for each in [*schema.get("properties", {}).values(), *schema.get("oneOf", []), *schema.get("allOf", [])]:
            check(each)

    for document in json.loads(text).values():
        for schema in document["schemas"].values():
            check(schema)


@pytest.mark.skipif(REFERENCE is None, reason="LAKEKEEPER_OPENAPI_FOLDER names no folder with Lakekeeper's documents")
def test_the_schemas_are_those_of_the_documents() -> None:
    assert extract_folder(Path(str(REFERENCE))) == read_schemas()


# --- more members on request ----------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_the_version_of_this_server_has_a_route_of_its_own() -> None:
    api = ApiClient("/management/v1")
    assert not [name for name in api.get("/info").json() if name.startswith("icekeeper")]
    assert api.get("/icekeeper-info").json().keys() == {"version", "commit-sha"}
    assert api.get("/info").json()["version"] == LAKEKEEPER_VERSION


@pytest.mark.django_db
def test_the_next_page_of_a_search_is_for_callers_that_ask_for_pages() -> None:
    api = ApiClient("/management/v1")
    assert api.post("/bootstrap", {"accept-terms-of-use": True}).status == 204
    for number in range(12):
        assert api.post("/role", {"name": f"reader {number}"}).status == 201
        user = {"id": f"oidc~reader-{number}", "name": f"Reader {number}", "user-type": "human"}
        assert api.post("/user", user).status == 201
    for path, members in (("/search/role", "roles"), ("/search/user", "users")):
        response = api.post(path, {"search": "reader"}).json()
        assert (response.keys(), len(response[members])) == ({members}, 10)
        page = api.post(path, {"search": "reader", "page-size": 10}).json()
        assert page.keys() == {members, "next-page-token"}
        rest = api.post(path, {"search": "reader", "page-token": page["next-page-token"]}).json()
        assert (rest.keys(), len(rest[members])) == ({members}, 2)


@pytest.mark.django_db
@pytest.mark.parametrize("value", ["1", "yes", "", "tru\u00e9", "true, true", "x" * 5000])
def test_a_header_that_is_no_boolean_is_refused(value: str) -> None:
    headers = {"x-icekeeper-extensions": value}
    response = ApiClient("/management/v1").post("/action/batch-check", {"checks": []}, **headers)
    assert response.refused(400, "BadRequestException", "x-icekeeper-extensions: must be true or false")
