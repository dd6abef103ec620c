"""`x-assume-role`: which roles a user may assume, the errors for other roles, and no statement without the header."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tenancy.actor import INTERNAL, Actor
from tenancy.authn.requests import UnknownAssumedRole, authenticate_request
from tenancy.authz import port
from tenancy.authz.actions import Can
from tenancy.authz.model import OWNERSHIP
from tenancy.models import Role, Securable
from tenancy.models.securable import ObjectRef
from tenancy.selectors.projects import get_project
from tenancy.services.automatic_grants import grant_creator
from tenancy.services.projects import create_project, delete_project
from tenancy.services.roles import create_role
from tests.authn.conftest import Ask
from tests.harness.identity_provider import IdentityProvider
from tests.harness.wsgi_client import ApiClient, call
from tests.management.warehouse_request_fixtures import Refusing

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

UNKNOWN = "0198e0f4-3f6e-7c31-8c7d-9b7b8f2a1d44"


@pytest.fixture
def role(bootstrapped: None) -> Role:
    return Role.objects.create(project=get_project(None), name="analysts", name_key="analysts", source_id="a")


class _Request:
    """What `authenticate_request` reads of a request."""

    def __init__(self, **headers: str) -> None:
        self.META = {"icekeeper.path": "/management/v1/info"} | {
            f"HTTP_{name.upper()}": value for name, value in headers.items()
        }


def admitted(provider: IdentityProvider, **headers: str) -> Actor:
    request: Any = _Request(authorization=f"Bearer {provider.token()}", **headers)
    return authenticate_request(request, is_reading=True)


def test_a_caller_in_a_role(
    on: Any, provider: IdentityProvider, role: Role, ask: Ask, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for text in (str(role.pk), str(role.pk).upper(), f" {role.pk} "):
        assert ask(provider.token(), x_assume_role=text).status == 200
    users = [record.__dict__["user"] for record in caplog.records if record.name == "icekeeper.access"]
    assert users == [f"role {role.pk} assumed by oidc~anna"] * 3
    actor = admitted(provider, x_assume_role=str(role.pk))
    assert (actor.user_id, actor.assumed_role) == ("oidc~anna", role.pk)
    assert actor.identity is not None


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "analysts", "7", UNKNOWN[:-1], f"{UNKNOWN}0", f"{{{UNKNOWN}}}", f"urn:uuid:{UNKNOWN}",
        UNKNOWN.replace("-", ""), f"{UNKNOWN},{UNKNOWN}", f"{UNKNOWN}, {UNKNOWN}", "null", "\u00e4" * 36, "a" * 10_000,
        "'; DROP TABLE tenancy_role; --",
    ],
)  # fmt: skip
def test_malformed_role_ids(on: Any, text: str, provider: IdentityProvider, ask: Ask) -> None:
    assert ask(provider.token(), x_assume_role=text).refused(400, "InvalidRoleIdError")


def test_an_unknown_role(on: Any, provider: IdentityProvider, ask: Ask, role: Role) -> None:
    assert ask(provider.token(), x_assume_role=UNKNOWN).refused(400, "InvalidAssumeRoleId")
    assert ask(provider.token(), x_assume_role=str(role.project_id)).refused(400, "InvalidAssumeRoleId")


def test_a_role_that_the_caller_may_not_assume(
    on: Any, provider: IdentityProvider, role: Role, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: set[str] = set()

    class NoOne(Refusing):
        def decide(self, actor: Actor, questions: Sequence[port.PermissionCheck]) -> list[bool]:
            names.add(actor.name)
            return super().decide(actor, questions)

    no_one = NoOne()
    monkeypatch.setattr(port, "authorizer", lambda: no_one)
    assert ask(provider.token(), x_assume_role=str(role.pk)).refused(403, "AssumeRoleForbidden")
    assert no_one.asked_of == [(Can.ASSUME, f"role:{role.pk}")]
    assert names == {"oidc~anna"}, "as themselves, not as the role"


def test_without_a_valid_token_no_role_is_looked_up(on: Any, role: Role, provider: IdentityProvider) -> None:
    info = ApiClient("/management/v1/info")
    with CaptureQueriesContext(connection) as queries:
        assert info.get(x_assume_role=str(role.pk)).refused(401, "MissingAuthorizationHeader")
        assert info.get(Authorization="Bearer x", x_assume_role="x").refused(401, "AuthenticationFailed")
    assert [query["sql"].split()[:3] for query in queries] == [["INSERT", "INTO", '"tenancy_auditrecord"']] * 2


def test_the_header_is_ignored_without_authentication(role: Role) -> None:
    for text in (str(role.pk), "nonsense"):
        assert call("GET", "/management/v1/info", headers={"x-assume-role": text}).status == 200


def test_requests_without_the_header_add_no_statement(on: Any, provider: IdentityProvider, role: Role) -> None:
    token = provider.token()
    request: Any = _Request(authorization=f"Bearer {token}")
    with CaptureQueriesContext(connection) as queries:
        assert authenticate_request(request, is_reading=True) == Actor(user_id="oidc~anna")
    # One check per verified token whether the user is blocked; Django does not see prepared statements of PostgreSQL.
    seen = 1 if connection.vendor == "sqlite" else 0
    assert len(queries) == seen
    with CaptureQueriesContext(connection) as queries:
        assert authenticate_request(request, is_reading=True) == Actor(user_id="oidc~anna")
    assert len(queries) == 0
    with CaptureQueriesContext(connection) as queries:
        in_role: Any = _Request(authorization=f"Bearer {token}", x_assume_role=str(role.pk))
        for _ in range(3):
            authenticate_request(in_role, is_reading=True)
    assert len(queries) == seen


def test_a_deleted_role_is_removed_from_the_cache(on: Any, provider: IdentityProvider, role: Role, ask: Ask) -> None:
    assert ask(provider.token(), x_assume_role=str(role.pk)).status == 200
    assert ApiClient(f"/management/v1/role/{role.pk}").delete(Authorization=f"Bearer {provider.token()}").status == 204
    assert ask(provider.token(), x_assume_role=str(role.pk)).refused(400, "InvalidAssumeRoleId")


def test_a_role_of_a_deleted_project_is_removed_from_the_cache(on: Any, provider: IdentityProvider, ask: Ask) -> None:
    project = create_project(actor=INTERNAL, name="short-lived")
    role = create_role(actor=INTERNAL, project=project, name="r")
    assert ask(provider.token(), x_assume_role=str(role.pk)).status == 200
    delete_project(actor=INTERNAL, project_id=project.pk)
    assert ask(provider.token(), x_assume_role=str(role.pk)).refused(400, "InvalidAssumeRoleId")


def test_a_role_deleted_while_it_creates_something(role: Role) -> None:
    actor = Actor(user_id="oidc~anna", assumed_role=role.pk)
    project = role.project_id
    Role.objects.filter(pk=role.pk).delete()
    with pytest.raises(UnknownAssumedRole):
        grant_creator(actor, OWNERSHIP, ObjectRef(Securable.Type.PROJECT, project))


def test_one_idempotency_key_is_another_in_a_role(
    on: Any, provider: IdentityProvider, role: Role, catalog: ApiClient
) -> None:
    key = str(UUID(int=7))
    token = {"Authorization": f"Bearer {provider.token()}", "Idempotency_Key": key}
    body = {"namespace": ["ns"], "properties": {}}
    assert catalog.post("/namespaces", body, **token).status == 200
    assert catalog.post("/namespaces", body, **token).status == 200
    in_role = catalog.post("/namespaces", body, **token, x_assume_role=str(role.pk))
    assert in_role.refused(400, "IdempotencyKeyReused")
