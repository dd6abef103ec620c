"""GET /whoami, and the registration of callers."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.conf import settings
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext

from icekeeper.kernel.ids import new_id
from storage.models import Warehouse
from tenancy.actor import Actor, Identity
from tenancy.authn import providers, requests
from tenancy.models import User
from tenancy.selectors.users import get_own_user
from tenancy.services import registration
from tenancy.services.registration import registered_users
from tenancy.services.users import update_user
from tests.harness.named_callers import CallerClient, NamedCallers
from tests.harness.wsgi_client import ApiClient
from tests.management.warehouse_request_fixtures import refuse
from tests.token_fixtures import TokenClient, new_token

pytestmark = pytest.mark.django_db

anonymous = ApiClient("/management/v1")


def management(token: str) -> CallerClient:
    return CallerClient("/management/v1", token)


def config(token: str, warehouse: str = "wh") -> Any:
    return CallerClient("/catalog/v1/config", token).get(f"?warehouse={warehouse}")


def test_there_is_no_user_where_authentication_is_off() -> None:
    response = anonymous.get("/whoami")
    assert response.refused(401, "GetMyUserWithoutToken")
    assert response.headers["WWW-Authenticate"] == "Bearer"
    assert not User.objects.exists()


def test_a_token_is_needed_where_authentication_is_on(callers: NamedCallers) -> None:
    callers.user("alice")
    assert anonymous.get("/whoami").refused(401, "MissingAuthorizationHeader")
    assert management("mallory").get("/whoami").refused(401, "AuthenticationFailed")


def test_the_first_call_registers_its_caller(callers: NamedCallers, warehouse: Warehouse) -> None:
    alice = callers.user("alice")
    assert management("alice").get("/whoami").refused(404, "UserNotFound", alice)
    assert config("alice").status == 200
    user = management("alice").get("/whoami").json()
    assert user.keys() == {
        "id", "name", "email", "user-type", "last-updated-with", "created-at", "updated-at", "is-instance-admin",
    }  # fmt: skip
    assert {key: value for key, value in user.items() if not key.endswith("-at")} == {
        "id": "oidc~alice",
        "name": "Alice",
        "email": "alice@example.com",
        "user-type": "human",
        "last-updated-with": "config-call-creation",
        "is-instance-admin": False,
    }
    assert User.objects.get().has_usable_password() is False


def test_denied_callers_are_registered_too(callers: NamedCallers, bootstrapped: None) -> None:
    callers.user("alice")
    assert config("alice", "missing").refused(404, "NoSuchWarehouseException")
    assert config("alice", "").refused(400, "GetConfigNoWarehouseProvided")
    assert User.objects.get().pk == "oidc~alice"


def test_a_known_caller_adds_no_statement(callers: NamedCallers, warehouse: Warehouse) -> None:
    callers.user("alice")
    with CaptureQueriesContext(connection) as first:
        config("alice")
    with CaptureQueriesContext(connection) as later:
        config("alice")
    registered_users.clear()
    with CaptureQueriesContext(connection) as another_node:
        config("alice")
    assert any("tenancy_user" in query["sql"] for query in first.captured_queries)
    assert [query for query in later.captured_queries if "tenancy_user" in query["sql"]] == []
    assert len(another_node) == len(later) + 1


def test_no_user_is_registered_in_maintenance_mode(
    callers: NamedCallers, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    callers.user("alice")
    quiet = settings.ICEKEEPER.model_copy(update={"maintenance_mode": "read-only"})
    with monkeypatch.context() as maintenance:
        maintenance.setattr(settings, "ICEKEEPER", quiet)
        assert config("alice").status == 200
        assert not User.objects.exists()
    assert config("alice").status == 200
    assert User.objects.count() == 1


def test_anonymous_callers_are_not_registered(warehouse: Warehouse) -> None:
    assert ApiClient("/catalog/v1/config").get("?warehouse=wh").status == 200
    assert not User.objects.exists()


def test_a_row_without_a_name_is_completed_by_its_token(callers: NamedCallers, bootstrapped: None) -> None:
    User.objects.create(id="oidc~alice", last_updated_with="role-provider", user_type="application")
    callers.add("nameless", Identity("oidc~alice", "oidc", "human"))
    callers.user("alice")
    config("alice")
    user = User.objects.get()
    assert (user.name, user.email, user.user_type) == ("Alice", "alice@example.com", "human")
    assert user.last_updated_with == "config-call-creation"


def test_a_row_without_a_name_is_registered_by_a_token_without_one(callers: NamedCallers, bootstrapped: None) -> None:
    User.objects.create(id="oidc~alice", last_updated_with="role-provider")
    callers.add("nameless", Identity("oidc~alice", "oidc", "application"))
    config("nameless")
    user = User.objects.get()
    assert (user.name, user.email, user.user_type) == ("Nameless App with ID oidc~alice", "", "application")


def test_names_set_by_users_are_not_overwritten_by_tokens(callers: NamedCallers, bootstrapped: None) -> None:
    callers.user("alice")
    me = management("alice")
    assert me.post("/user", {"name": "Alice the Great", "email": "", "user-type": "application"}).status == 201
    config("alice")
    user = me.get("/whoami").json()
    assert (user["name"], user["user-type"], user["last-updated-with"]) == (
        "Alice the Great", "application", "create-endpoint",
    )  # fmt: skip
    assert "email" not in user


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (None, "Nameless App with ID oidc~x"),
        ("  ", "Nameless App with ID oidc~x"),
        ("\x00\x1b\n", "Nameless App with ID oidc~x"),
        ("A\x00da\u2028", "Ada"),
        ("n" * 10_000, "n" * 255),
        ("\ufdfa" * 300, "\ufdfa" * 255),
        ("Ὀδυσσεύς 🦉", "Ὀδυσσεύς 🦉"),
    ],
)
def test_no_name_in_a_token_keeps_its_user_out(
    callers: NamedCallers, bootstrapped: None, name: str | None, shown: str
) -> None:
    callers.add("x", Identity("oidc~x", "oidc", "application", name, "e\x00" + "m" * 10_000))
    config("x")
    user = management("x").get("/whoami").json()
    assert (user["name"], user["email"], user["user-type"]) == (shown, "e" + "m" * 319, "application")


@pytest.mark.parametrize(
    ("user_id", "wire_type"),
    [("oidc~", "EmptyUserIdError"), ("oidc~" + "x" * 128, "UserIdTooLongError"), ("oidc~a\x00", "InvalidUserIdError")],
)
def test_ids_that_no_user_can_have(callers: NamedCallers, bootstrapped: None, user_id: str, wire_type: str) -> None:
    callers.add("x", Identity(user_id, "oidc", "human", "X"))
    assert config("x").refused(400, wire_type)
    assert management("x").post("/user", {}).refused(400, wire_type)
    assert not User.objects.exists()


def test_a_deleted_user_is_registered_again_without_grants(callers: NamedCallers, bootstrapped: None) -> None:
    alice = callers.user("alice")
    config("alice")
    before = management("alice").get("/whoami").json()
    assert management("alice").delete(f"/user/{alice}").status == 204
    assert management("alice").get("/whoami").refused(404, "UserNotFound")
    config("alice")
    after = management("alice").get("/whoami").json()
    assert after["created-at"] > before["created-at"]
    assert User.objects.count() == 1


def of_unknown_origin(user_id: str, **more: Any) -> None:
    """A row from before the origin of names was stored."""
    User.objects.create(
        pk=user_id, name="The Boss", email="boss@example.com", user_type="application", origin="user", **more
    )


def test_names_that_users_gave_themselves_are_replaced_from_the_token(
    callers: NamedCallers, warehouse: Warehouse
) -> None:
    of_unknown_origin(callers.user("alice"))
    config("alice")
    user = User.objects.get()
    assert (user.name, user.email, user.origin) == ("Alice", "alice@example.com", "token")
    assert (user.user_type, user.last_updated_with) == ("application", "config-call-creation")


def test_a_mail_that_users_gave_themselves_is_removed_if_the_token_has_none(
    callers: NamedCallers, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch)
    callers.add("alice", Identity("oidc~alice", "oidc", "human", "Alice"))
    for call in (
        lambda: config("alice"),
        lambda: management("alice").put("/user/oidc~alice", {"name": "The Boss", "user-type": "human"}),
    ):
        of_unknown_origin("oidc~alice")
        call()
        user = User.objects.get()
        assert (user.name, user.email, user.origin) == ("Alice", "", "token")
        user.delete()


@pytest.mark.parametrize(
    ("identity", "origin"),
    [
        (Identity("oidc~alice", "oidc", "human"), "user"),
        (Identity("oidc~alice", "oidc", "human", "Alice"), "administrator"),
        (Identity("local~alice", "local", "human", "Alice"), "user"),
        (Identity("oidc~alice", "oidc", "human", "Alice", access_token_id=new_id()), "user"),
    ],
    ids=["no name in the token", "named by an administrator", "local", "token of the server"],
)
def test_other_names_stay(bootstrapped: None, identity: Identity, origin: str) -> None:
    of_unknown_origin(identity.user_id)
    User.objects.update(origin=origin)
    registration.register_caller(actor=Actor(identity.user_id, identity=identity))
    user = User.objects.get()
    assert (user.name, user.email, user.origin) == ("The Boss", "boss@example.com", origin)


def test_a_token_of_the_server_proves_no_name(access_tokens: None, bootstrapped: None) -> None:
    of_unknown_origin("oidc~alice")
    client = TokenClient(new_token("oidc~alice"))
    for body in ({"update-if-exists": True}, {"name": "The Boss", "user-type": "human", "update-if-exists": True}):
        assert client.post("/user", body).status == 200
        user = User.objects.get()
        assert (user.name, user.email, user.origin) == ("The Boss", "boss@example.com", "user")


def test_a_deletion_on_another_node_shows_after_a_minute(callers: NamedCallers, bootstrapped: None) -> None:
    callers.user("alice")
    config("alice")
    User.objects.all().delete()
    config("alice")
    assert not User.objects.exists(), "within a minute it is not read again"
    registered_users._ids.expire(registered_users._ids.timer() + 61)
    config("alice")
    assert User.objects.exists()


def test_an_assumed_role_does_not_change_the_user(bootstrapped: None) -> None:
    identity = Identity("oidc~alice", "oidc", "human", "Alice")
    actor = Actor("oidc~alice", assumed_role=new_id(), identity=identity)
    registration.register_caller(actor=actor)
    assert get_own_user(actor=actor).pk == "oidc~alice"
    update_user(actor=actor, user_id="oidc~alice", name="Al", email=None, user_type="human")
    assert User.objects.get().name == "Al"


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_two_first_calls_in_one_moment_register_one_user(
    callers: NamedCallers, bootstrapped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    callers.user("alice")
    both_looked = threading.Barrier(2)
    lock_user = registration.lock_user

    def meet(user_id: str) -> Any:
        found = lock_user(user_id)
        if found is None and connection.vendor == "postgresql":  # SQLite has one writer at a time
            both_looked.wait(20)
        return found

    monkeypatch.setattr(registration, "lock_user", meet)
    statuses: list[int] = []

    def ask() -> None:
        try:
            statuses.append(config("alice", "missing").status)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert statuses == [404, 404]
    assert User.objects.count() == 1


def test_fake_verification_replaces_the_real_one(callers: NamedCallers) -> None:
    assert providers.authenticators() == vars(requests)["authenticators"]() == (callers,)
