"""A token of a service account has the permissions of the account: creating one escalates no privileges."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from django.db import connection

from tenancy.actor import INTERNAL, Actor, InstanceAdminRequired
from tenancy.authz.permissions import GrantActionForbidden
from tenancy.models import AccessToken, Grant, Server
from tenancy.models.securable import ObjectRef
from tenancy.selectors.projects import get_project
from tenancy.services import access_tokens as service
from tenancy.services import grants
from tenancy.services.access_tokens import create_token, rotate_token
from tenancy.services.users import create_service_account
from tests.authz.conftest import user
from tests.authz.tree_fixtures import T, give, role
from tests.harness.fingerprint import Fingerprint
from tests.harness.threads import at_once
from tests.management.warehouse_request_fixtures import use_settings
from tests.token_fixtures import TokenClient, new_token

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("bootstrapped", "builtin", "access_tokens")]

ADAM, OLGA = Actor(user_id="local~adam"), Actor(user_id="local~olga")


@pytest.fixture
def server() -> ObjectRef:
    """A server with the administrator `ADAM` and the operator `OLGA`."""
    ref: ObjectRef = ObjectRef(T.SERVER, Server.objects.get().server_id)
    give("admin", ref, ADAM)
    give("operator", ref, OLGA)
    return ref


@pytest.fixture
def robot() -> Actor:
    return Actor(user_id=create_service_account(actor=INTERNAL, name="robot").user_id)


def mint(actor: Actor, of: Actor) -> TokenClient:
    return TokenClient(create_token(actor=actor, name="mine", user_id=of.user_id).text)


@pytest.mark.parametrize("through", ["itself", "a role", "a role in a role", "a role that it owns"])
def test_an_admin_is_no_operator_by_a_token(
    server: ObjectRef, robot: Actor, through: str, everything: Callable[[], Fingerprint]
) -> None:
    high, inner = role("high"), role("inner")
    if through == "itself":
        give("operator", server, robot)
    else:
        give("operator", server, robot, to=high)
    if through == "a role":
        give("assignee", ObjectRef(T.ROLE, high.pk), robot)
    elif through == "a role in a role":
        give("assignee", ObjectRef(T.ROLE, high.pk), robot, to=inner)
        give("assignee", ObjectRef(T.ROLE, inner.pk), robot)
    elif through == "a role that it owns":
        give("ownership", ObjectRef(T.ROLE, high.pk), robot)
    old = create_token(actor=INTERNAL, name="old", user_id=robot.user_id).row
    before = everything()
    expected = f"local~adam may not grant on server {server[1]}: operator, which {robot.user_id} has"
    with pytest.raises(GrantActionForbidden, match=expected):
        create_token(actor=ADAM, name="mine", user_id=robot.user_id)
    with pytest.raises(GrantActionForbidden, match=expected):
        rotate_token(actor=ADAM, token_id=old.pk)
    assert everything() == before
    mint(OLGA, robot)
    rotate_token(actor=OLGA, token_id=old.pk)


def test_by_the_api(server: ObjectRef, robot: Actor) -> None:
    give("operator", server, robot)
    adam = TokenClient(new_token("local~adam"))
    response = adam.post("/token", {"name": "mine", "user-id": robot.user_id})
    assert response.refused(403, "GrantActionForbidden", "may not grant on server")
    appoint = {"writes": [{"privilege": "operator", "principal": {"user": "local~adam"}}]}
    assert mint(OLGA, robot).post("/server/grants", appoint).status == 204
    assert adam.post("/token", {"name": "mine", "user-id": robot.user_id}).status == 201


def test_an_account_reported_to_admins_is_theirs(server: ObjectRef, robot: Actor) -> None:
    """An administrator may use an account with the permissions that the administrator could grant to themselves."""
    project: ObjectRef = ObjectRef(T.PROJECT, get_project(None).pk)
    for privilege, ref in (("admin", server), ("project_admin", project), ("select", project)):
        give(privilege, ref, robot)
    mint(ADAM, robot)
    assert AccessToken.objects.get(user_id=robot.user_id).created_by == "local~adam"


def test_an_account_renews_its_own_tokens(server: ObjectRef, robot: Actor) -> None:
    give("operator", server, robot)
    issued = create_token(actor=INTERNAL, name="own", user_id=robot.user_id)
    assert TokenClient(issued.text).post(f"/token/{issued.row.pk}/rotate", {}).status == 201
    assert TokenClient(issued.text).post("/token", {"name": "more"}).status == 201


def test_instance_admins(server: ObjectRef, robot: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instance administrators may grant every privilege, and so create tokens for every account."""
    use_settings(monkeypatch, instance_admins=[robot.user_id, "oidc~ada"])
    for actor in (ADAM, OLGA):
        with pytest.raises(InstanceAdminRequired):
            mint(actor, robot)
    ada, other = user("ada"), Actor(user_id=create_service_account(actor=INTERNAL, name="other").user_id)
    give("operator", server, other)
    mint(ada, robot)
    mint(ada, other)


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
@pytest.mark.parametrize("in_role", [False, True])
def test_an_account_that_is_being_appointed(
    server: ObjectRef, robot: Actor, in_role: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A concurrent creation of a token waits, and is denied."""
    if connection.vendor != "postgresql":
        pytest.skip("the PostgreSQL run has this: on SQLite writers wait for each other as a whole")
    high, to = role("high"), {}
    if in_role:
        give("assignee", ObjectRef(T.ROLE, high.pk), robot)
        to = {"to": high}
    is_locked, never, lock_user = threading.Event(), threading.Event(), service._lock_user
    require_grantees = grants._require_grantees_in_project

    def held(*args: object) -> None:
        require_grantees(*args)
        is_locked.set()
        never.wait(0.5)  # so that the token would be created in between, if it could be

    def lock_later(user_id: str) -> None:
        assert is_locked.wait(30)
        lock_user(user_id)

    monkeypatch.setattr(grants, "_require_grantees_in_project", held)
    monkeypatch.setattr(service, "_lock_user", lock_later)

    def create() -> Exception | None:
        try:
            mint(ADAM, robot)
        except GrantActionForbidden as error:
            return error
        return None

    _, refused = at_once(lambda: give("operator", server, robot, **to), create)
    assert isinstance(refused, GrantActionForbidden)
    assert Grant.objects.filter(privilege="operator").count() == 2
