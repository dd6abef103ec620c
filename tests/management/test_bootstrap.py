"""Bootstrap: users and grants that it creates, and repeated, anonymous, concurrent and interrupted calls."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import requests
from django.conf import settings
from django.db import connections

from icekeeper.kernel.errors.types import BadRequest, CatalogError
from tenancy.actor import ANONYMOUS, INTERNAL, Actor, AuthenticationFailed, Identity, InvalidUserId
from tenancy.authn import requests as authn_requests
from tenancy.authn.authenticator import Authenticator, VerifiedToken
from tenancy.changes.transaction import change
from tenancy.models import Grant, Project, RightsVersion, Role, Securable, Server, User
from tenancy.services import server as module
from tenancy.services.projects import create_project
from tenancy.services.server import (
    AlreadyBootstrapped,
    AnonymousBootstrap,
    ConcurrentBootstrap,
    appoint_administrator,
    bootstrap,
    reopen_bootstrap,
)
from tenancy.services.users import create_service_account
from tests.harness.fingerprint import Fingerprint
from tests.harness.run_environment import RunEnvironment
from tests.harness.wsgi_client import ApiClient, Response
from tests.parts.server import CatalogServer

pytestmark = pytest.mark.django_db

api = ApiClient("/management/v1")
DEFAULT = "00000000-0000-0000-0000-000000000000"
ACCEPTED = {"accept-terms-of-use": True}


class NamedTokens(Authenticator):
    """Accept each token as the subject of its user, except `unknown`."""

    def may_accept(self, token: str) -> bool:
        return True

    def verify(self, token: str) -> VerifiedToken:
        if token == "unknown":
            raise AuthenticationFailed("unknown is not accepted")
        kind: Any = "application" if token == "robot" else "human"
        name = None if token == "nameless" else token.title()
        identity = Identity(f"oidc~{token}", "oidc", kind, name=name, email=f"{token}@example.com")
        return VerifiedToken(identity, time.time() + 3600)


@pytest.fixture
def with_tokens(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for location in (authn_requests, module):
        monkeypatch.setattr(location, "authenticators", lambda: (NamedTokens(),))
    yield
    authn_requests.verified_tokens.clear()


def call_as(user: str, **members: Any) -> Response:
    return api.post("/bootstrap", ACCEPTED | members, authorization=f"Bearer {user}")


def grants() -> set[tuple[str, str, str]]:
    """Return every grant as (user, privilege, type of the object)."""
    found = Grant.objects.values_list("user_id", "privilege", "securable__type", "securable__object_id")
    server_id = str(Server.objects.get().server_id)
    for _, _, kind, object_id in found:
        assert object_id == (server_id if kind == "server" else DEFAULT)
    return {(str(user), privilege, kind) for user, privilege, kind, _ in found}


def users() -> list[tuple[str, str, str, str]]:
    return list(User.objects.order_by("id").values_list("id", "name", "email", "user_type"))


def test_the_caller_becomes_administrator(with_tokens: None) -> None:
    assert call_as("alice").status == 204
    assert users() == [("oidc~alice", "Alice", "alice@example.com", "human")]
    user = User.objects.get()
    assert (user.last_updated_with, user.has_usable_password()) == ("create-endpoint", False)
    assert grants() == {("oidc~alice", "admin", "server"), ("oidc~alice", "project_admin", "project")}
    server = Server.objects.get()
    assert server.bootstrapped_at == server.terms_accepted_at
    assert server.bootstrapped_at is not None
    assert list(Project.objects.values_list("id", "name")) == [(DEFAULT, "Default Project")]


def test_an_operator_with_name_email_and_type_of_the_request(with_tokens: None) -> None:
    about = {"user-name": "Terraform ☁", "user-email": "ops@example.com", "user-type": "application"}
    assert call_as("alice", **{"is-operator": True}, **about).status == 204
    assert users() == [("oidc~alice", "Terraform ☁", "ops@example.com", "application")]
    assert grants() == {("oidc~alice", "operator", "server"), ("oidc~alice", "project_admin", "project")}


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        ("robot", ("oidc~robot", "Robot", "robot@example.com", "application")),
        ("nameless", ("oidc~nameless", "Nameless App with ID oidc~nameless", "nameless@example.com", "human")),
    ],
)
def test_nulls_leave_it_to_the_token(with_tokens: None, token: str, expected: tuple[str, ...]) -> None:
    assert call_as(token, **{"user-name": None, "user-email": None, "user-type": None}).status == 204
    assert users() == [expected]


def test_the_user_and_not_the_assumed_role_becomes_administrator() -> None:
    project = Project.objects.create(id="p", name="p", name_key="p")
    role = Role.objects.create(project=project, name="r", name_key="r", source_id="r")
    bootstrap(actor=Actor(user_id="oidc~alice", assumed_role=role.pk), accept_terms_of_use=True)
    assert grants() == {("oidc~alice", "admin", "server"), ("oidc~alice", "project_admin", "project")}
    assert not Grant.objects.filter(role__isnull=False).exists()


def test_a_known_user_is_updated_and_a_deleted_one_restored(with_tokens: None) -> None:
    User.objects.create_user(id="oidc~alice", name="Old", email="old@example.com")
    User.objects.update(deleted_at="2026-01-01T00:00:00Z")
    assert call_as("alice").status == 204
    user = User.objects.get()
    assert (user.name, user.email, user.deleted_at) == ("Alice", "alice@example.com", None)


def test_anonymous_callers_may_while_authentication_is_off(everything: Callable[[], Fingerprint]) -> None:
    assert api.post("/bootstrap", ACCEPTED | {"is-operator": True, "user-name": "Alice"}).status == 204
    assert not User.objects.exists()
    assert not Grant.objects.exists()
    assert Project.objects.count() == 1


def test_anonymous_callers_may_not_while_it_is_on(with_tokens: None, everything: Callable[[], Fingerprint]) -> None:
    before = everything()
    assert api.post("/bootstrap", ACCEPTED).refused(401, "MissingAuthorizationHeader")
    assert call_as("unknown").refused(401, "AuthenticationFailed")
    assert api.get("/info").refused(401, "MissingAuthorizationHeader")
    with pytest.raises(AnonymousBootstrap) as error:
        bootstrap(actor=ANONYMOUS, accept_terms_of_use=True)
    assert (error.value.status, error.value.wire_type) == (401, "AnonymousBootstrap")
    assert everything() == before


def test_the_second_one_changes_nothing(with_tokens: None, everything: Callable[[], Fingerprint]) -> None:
    assert call_as("alice").status == 204
    before = everything()
    for user in ("alice", "mallory"):
        assert call_as(user, **{"user-name": "Other"}).refused(400, "CatalogAlreadyBootstrapped")
    refused = api.post("/bootstrap", {"accept-terms-of-use": False}, authorization="Bearer mallory")
    assert refused.refused(400, "TermsOfUseNotAccepted")
    assert everything() == before


@pytest.mark.parametrize(
    ("change", "wire_type", "text"),
    [
        ({"accept-terms-of-use": False}, "TermsOfUseNotAccepted", "accept-terms-of-use"),
        ({"accept-terms-of-use": "true"}, "BadRequestException", "accept-terms-of-use"),
        ({"accept-terms-of-use": 1}, "BadRequestException", "accept-terms-of-use"),
        ({"accept-terms-of-use": None}, "BadRequestException", "accept-terms-of-use"),
        ({"is-operator": "yes"}, "BadRequestException", "is-operator"),
        ({"is-operator": None}, "BadRequestException", "is-operator"),
        ({"user-name": ""}, "BadRequestException", "user-name"),
        ({"user-name": "   "}, "EmptyName", "must not be empty"),
        ({"user-name": "x" * 10_000}, "BadRequestException", "user-name"),
        ({"user-name": "a\x00b"}, "BadRequestException", "user-name"),
        ({"user-name": "a\nb"}, "BadRequestException", "name: must not contain control characters"),
        ({"user-name": "a\u202eb"}, "BadRequestException", "name: must not contain control characters"),
        ({"user-name": 7}, "BadRequestException", "user-name"),
        ({"user-name": ["x"]}, "BadRequestException", "user-name"),
        ({"user-email": "x" * 321}, "BadRequestException", "user-email"),
        ({"user-email": "a\nb"}, "BadRequestException", "email: must not contain control characters"),
        ({"user-email": {}}, "BadRequestException", "user-email"),
        ({"user-type": "god"}, "BadRequestException", "user-type"),
        ({"user-type": ["human"]}, "BadRequestException", "user-type"),
    ],
)
def test_hostile_bodies_change_nothing(
    with_tokens: None, everything: Callable[[], Fingerprint], change: dict[str, Any], wire_type: str, text: str
) -> None:
    before = everything()
    assert call_as("alice", **change).refused(400, wire_type, text)
    assert everything() == before


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"null", b"{", b'{"accept-terms-of-use":true,"accept-terms-of-use":true}']
)
def test_bodies_that_are_no_object_change_nothing(everything: Callable[[], Fingerprint], body: bytes) -> None:
    before = everything()
    assert api.post("/bootstrap", raw=body).refused(400, "BadRequestException")
    assert everything() == before


def test_unknown_members_are_ignored(with_tokens: None) -> None:
    assert (
        call_as("alice", **{"server-id": str(uuid4()), "user-id": "oidc~mallory", "bootstrapped": False}).status == 204
    )
    assert [user[0] for user in users()] == ["oidc~alice"]


def test_names_of_a_token_are_truncated_to_the_column(monkeypatch: pytest.MonkeyPatch) -> None:
    identity = Identity("oidc~long", "oidc", "human", name="n" * 10_000, email="e" * 10_000)
    bootstrap(actor=Actor(user_id="oidc~long", identity=identity), accept_terms_of_use=True)
    assert users() == [("oidc~long", "n" * 255, "e" * 320, "human")]


def test_without_a_default_project(monkeypatch: pytest.MonkeyPatch) -> None:
    own = settings.ICEKEEPER.model_copy(update={"enable_default_project": False})
    monkeypatch.setattr(settings, "ICEKEEPER", own)
    bootstrap(actor=Actor(user_id="oidc~alice"), accept_terms_of_use=True)
    assert not Project.objects.exists()
    assert grants() == {("oidc~alice", "admin", "server")}


@pytest.mark.parametrize("step", ["_create_default_project", "add_securable", "register_principal", "_grant"])
def test_a_crash_leaves_nothing_and_the_next_call_does_it(
    everything: Callable[[], Fingerprint], monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    before = everything()
    do = getattr(module, step)

    def crash(*args: Any, **named: Any) -> None:
        do(*args, **named)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(module, step, crash)
        with pytest.raises(KeyboardInterrupt):
            bootstrap(actor=Actor(user_id="oidc~alice"), accept_terms_of_use=True)
    assert everything() == before
    bootstrap(actor=Actor(user_id="oidc~alice"), accept_terms_of_use=True)
    assert grants() == {("oidc~alice", "admin", "server"), ("oidc~alice", "project_admin", "project")}


def test_reopening_keeps_everything(with_tokens: None) -> None:
    assert reopen_bootstrap(actor=INTERNAL) is False
    assert call_as("alice").status == 204
    server_id, before = Server.objects.get().server_id, grants()
    Project.objects.update(name="Kept", name_key="kept")
    assert reopen_bootstrap(actor=INTERNAL) is True
    assert reopen_bootstrap(actor=INTERNAL) is False
    assert api.get("/info", authorization="Bearer alice").json()["bootstrapped"] is False
    assert call_as("bob").status == 204
    assert Server.objects.get().server_id == server_id
    assert grants() == before | {("oidc~bob", "admin", "server")}, "the project already has an administrator"
    assert list(Project.objects.values_list("name", flat=True)) == ["Kept"]
    assert call_as("carol").refused(400, "CatalogAlreadyBootstrapped")


def test_the_default_project_is_created_whatever_names_are_in_use(with_tokens: None) -> None:
    for number, name in enumerate(("default project", DEFAULT, "Default Project 2")):
        create_project(actor=INTERNAL, name=name, project_id=f"p{number}")
    assert call_as("alice").status == 204
    assert Project.objects.get(pk=DEFAULT).name == "Default Project 3"


def test_the_stored_email_of_an_administrator_is_the_validated_one(with_tokens: None) -> None:
    User.objects.create_user(id="oidc~alice", name="Alice", email="old@example.com")
    assert call_as("alice", **{"user-email": "   "}).status == 204
    assert users() == [("oidc~alice", "Alice", "", "human")]


def test_another_default_project_gets_a_name_that_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    bootstrap(actor=INTERNAL, accept_terms_of_use=True)
    reopen_bootstrap(actor=INTERNAL)
    own = settings.ICEKEEPER.model_copy(update={"default_project_id": "other"})
    monkeypatch.setattr(settings, "ICEKEEPER", own)
    bootstrap(actor=INTERNAL, accept_terms_of_use=True)
    names = dict(Project.objects.values_list("id", "name"))
    assert names == {DEFAULT: "Default Project", "other": "other"}
    assert Securable.objects.filter(type="project").count() == 2


def test_administrators_are_appointed_once() -> None:
    bootstrap(actor=INTERNAL, accept_terms_of_use=True)
    assert appoint_administrator(actor=INTERNAL, user_id="oidc~bob", name="Bob") is True
    assert appoint_administrator(actor=INTERNAL, user_id="oidc~bob", name="Other") is False
    assert appoint_administrator(actor=INTERNAL, user_id="oidc~bob", is_operator=True, name="Other") is True
    assert users() == [("oidc~bob", "Bob", "", "human")], "a known user keeps the name"
    assert grants() == {("oidc~bob", "admin", "server"), ("oidc~bob", "operator", "server")}
    User.objects.update(deleted_at="2026-01-01T00:00:00Z")
    assert appoint_administrator(actor=INTERNAL, user_id="oidc~bob", name="Back") is True
    assert users() == [("oidc~bob", "Back", "", "human")]


def test_rights_caches_follow_changes_of_administrators() -> None:
    versions = []
    for act in (
        lambda: bootstrap(actor=INTERNAL, accept_terms_of_use=True),
        lambda: appoint_administrator(actor=INTERNAL, user_id="oidc~bob"),
        lambda: appoint_administrator(actor=INTERNAL, user_id="oidc~bob"),
    ):
        act()
        versions.append(RightsVersion.objects.get().number)
    assert versions == [1, 2, 2]


@pytest.mark.parametrize(
    "user_id", ["", "alice", "~alice", "oidc~", "oidc~ ", "oi dc~a", "oidc~a\nb", "oidc~a\x00", "oidc~" + "x" * 128]
)
def test_ids_that_are_none(user_id: str) -> None:
    with pytest.raises(BadRequest, match="user id"):
        appoint_administrator(actor=INTERNAL, user_id=user_id)
    assert not User.objects.exists()


@pytest.mark.parametrize("user_id", ["icekeeper~x", "system~x", "lakekeeper~x", "local~bad name!"])
def test_no_user_is_created_in_the_name_of_the_server(everything: Callable[[], Fingerprint], user_id: str) -> None:
    bootstrap(actor=INTERNAL, accept_terms_of_use=True)
    before = everything()
    with pytest.raises(InvalidUserId):
        appoint_administrator(actor=INTERNAL, user_id=user_id)
    assert everything() == before


def test_a_service_account_can_be_administrator() -> None:
    bootstrap(actor=INTERNAL, accept_terms_of_use=True)
    robot = create_service_account(actor=INTERNAL, name="robot").user_id
    assert appoint_administrator(actor=INTERNAL, user_id=robot) is True
    assert grants() == {(robot, "admin", "server")}


@contextmanager
def held_before_its_end(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[threading.Event, threading.Event]]:
    """Pause the first bootstrap in its transaction: it sets the first event and waits for the second one."""
    inside, may_continue = threading.Event(), threading.Event()
    create = module._create_default_project

    def create_and_wait(server: Server) -> str | None:
        created = create(server)
        inside.set()
        assert may_continue.wait(60)
        return created

    monkeypatch.setattr(module, "_create_default_project", create_and_wait)
    try:
        yield inside, may_continue
    finally:
        may_continue.set()


def bootstrap_in_thread(user_id: str) -> CatalogError | None:
    try:
        bootstrap(actor=Actor(user_id=user_id), accept_terms_of_use=True)
    except CatalogError as error:
        return error
    finally:
        connections.close_all()
    return None


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_the_slower_concurrent_request_gets_the_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    enters = threading.Event()
    begin = change

    def note(actor: Actor) -> Any:
        enters.set()
        return begin(actor)

    with held_before_its_end(monkeypatch) as (inside, may_continue), ThreadPoolExecutor(2) as pool:
        first = pool.submit(bootstrap_in_thread, "oidc~first")
        assert inside.wait(60)
        monkeypatch.setattr(module, "change", note)
        second = pool.submit(bootstrap_in_thread, "oidc~second")
        assert enters.wait(60), "it has read that the catalog is not bootstrapped"
        may_continue.set()
        assert first.result(60) is None
        error = second.result(60)
    assert isinstance(error, ConcurrentBootstrap)
    assert (error.status, error.wire_type) == (400, "ConcurrentBootstrap")
    assert grants() == {("oidc~first", "admin", "server"), ("oidc~first", "project_admin", "project")}
    assert [user[0] for user in users()] == ["oidc~first"]


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_of_many_threads_exactly_one_wins() -> None:
    start = threading.Barrier(8)

    def go(number: int) -> CatalogError | None:
        start.wait(60)
        return bootstrap_in_thread(f"oidc~{number}")

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(go, range(8)))
    assert results.count(None) == 1
    assert all(isinstance(each, AlreadyBootstrapped | ConcurrentBootstrap) for each in results if each is not None)
    winner = f"oidc~{results.index(None)}"
    assert grants() == {(winner, "admin", "server"), (winner, "project_admin", "project")}
    assert [user[0] for user in users()] == [winner]
    assert Project.objects.count() == 1


def test_of_many_requests_to_many_processes_exactly_one_wins(run_environment: RunEnvironment, tmp_path: Path) -> None:
    url = run_environment.own_database("bootstrap_race")
    server = CatalogServer(tmp_path, database_url=url, workers=3)
    server.storage_root.mkdir(parents=True)
    server.manage("migrate", "--verbosity", "0")
    server.start()
    try:
        said = [line["message"] for line in server.log_lines("icekeeper.server")]
        assert any("not bootstrapped" in message for message in said), "it starts nevertheless, with a warning"
        start = threading.Barrier(12)

        def post(_: int) -> tuple[int, str]:
            start.wait(60)
            response = requests.post(f"{server.base_url}/management/v1/bootstrap", json=ACCEPTED, timeout=60)
            return response.status_code, "" if response.ok else response.json()["error"]["type"]

        with ThreadPoolExecutor(12) as pool:
            responses = sorted(pool.map(post, range(12)))
        assert responses[0] == (204, "")
        assert set(responses[1:]) <= {(400, "CatalogAlreadyBootstrapped"), (400, "ConcurrentBootstrap")}
        info = requests.get(f"{server.base_url}/management/v1/info", timeout=30).json()
        assert info["bootstrapped"] is True
        projects = requests.get(f"{server.base_url}/management/v1/project-list", timeout=30).json()["projects"]
        assert [project["project-id"] for project in projects] == [DEFAULT]
    finally:
        server.kill()
