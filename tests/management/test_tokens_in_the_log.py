"""The log line of a request has the id of its access token, and never the token itself."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID, uuid4

import orjson
import pytest

from storage.models import Warehouse
from tenancy.authn.own_tokens.access_tokens import create_session_token
from tenancy.authn.own_tokens.stored_tokens import find_live_token, read_token
from tests.harness.log_lines import LogLines, log_lines
from tests.harness.named_callers import CallerClient, NamedCallers
from tests.harness.wsgi_client import call
from tests.token_fixtures import TokenClient, new_token

pytestmark = pytest.mark.django_db


@pytest.fixture
def lines() -> Iterator[LogLines]:
    with log_lines("icekeeper.access") as written:
        yield written


def row_of(token: str) -> UUID:
    text = read_token(token)
    assert text is not None
    return text.token_id


def test_a_token_is_named_by_the_id_of_its_row(alice: TokenClient, warehouse: Warehouse, lines: LogLines) -> None:
    own = row_of(alice.token)
    assert alice.get("/token").status == 200
    assert TokenClient(alice.token, base="/catalog/v1").get(f"/{warehouse.pk}/namespaces").status == 200
    session, _ = create_session_token(find_live_token(own), frozenset({"catalog", "management"}))
    assert TokenClient(session).get("/token").status == 200
    narrow = new_token(scopes=["catalog:read"])
    assert TokenClient(narrow).get("/token").refused(403, "InsufficientScope")
    reported = lines.read()
    assert [line["access_token"] for line in reported] == [str(own)] * 3 + [str(row_of(narrow))]
    for token in (alice.token, session, narrow):
        assert token[27:] not in orjson.dumps(reported).decode()


def test_a_token_exchange_logs_the_id_of_the_secret(alice: TokenClient, lines: LogLines) -> None:
    form = f"grant_type=client_credentials&client_secret={alice.token}".encode()
    response = call("POST", "/catalog/v1/oauth/tokens", body=form, content_type="application/x-www-form-urlencoded")
    assert response.status == 200
    [line] = lines.read()
    assert (line["user"], line["access_token"]) == ("local~alice", str(row_of(alice.token)))


def test_there_is_none_where_none_was_accepted(alice: TokenClient, lines: LogLines) -> None:
    assert TokenClient(alice.token[:-1]).get("/token").refused(401, "AuthenticationFailed")
    assert call("GET", "/management/v1/info").refused(401, "MissingAuthorizationHeader")
    assert ["access_token" in line for line in lines.read()] == [False, False]


def test_tokens_of_providers_have_none(callers: NamedCallers, lines: LogLines) -> None:
    callers.user("anna")
    assert CallerClient("/management/v1", "anna").get(f"/warehouse/{uuid4()}").status == 404
    assert [(line["user"], "access_token" in line) for line in lines.read()] == [("oidc~anna", False)]
