from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from icekeeper.kernel.clock import now
from tenancy.actor import INTERNAL
from tenancy.models import AccessToken, Grant, Role, RoleMember, ServiceAccount, User
from tenancy.selectors.projects import get_project, get_server
from tenancy.services.access_tokens import create_token
from tests.harness.fingerprint import Fingerprint
from tests.token_fixtures import TokenClient

pytestmark = pytest.mark.django_db

NOWHERE = "0198e0f4-3f6e-7c31-8c7d-000000000000"


def build(client: TokenClient, name: str = "robot", **more: Any) -> dict[str, Any]:
    response = client.post("/service-account", {"name": name, **more})
    assert response.status == 201, response.body
    account: dict[str, Any] = response.json()
    return account


def test_a_service_account_is_created_and_listed(alice: TokenClient) -> None:
    account = build(alice, description="nightly\nloads")
    assert account.keys() == {"id", "name", "description", "created-at", "created-by"}
    assert (account["name"], account["description"], account["created-by"]) == (
        "robot",
        "nightly\nloads",
        "local~alice",
    )
    row = ServiceAccount.objects.get()
    assert account["id"] == f"icekeeper~{row.pk}" == row.user_id
    user = User.objects.get(pk=account["id"])
    assert (user.name, user.user_type) == ("robot", "application")
    assert not user.has_usable_password()
    assert alice.get("/service-account").json() == {"service-accounts": [account]}
    assert not AccessToken.objects.filter(user_id=account["id"]).exists()


def test_names_are_unique(alice: TokenClient, everything: Callable[[], Fingerprint]) -> None:
    build(alice)
    before = everything()
    for name in ("robot", "ROBOT", "\uff52obot"):
        assert alice.post("/service-account", {"name": name}).refused(409, "ServiceAccountAlreadyExists", name)
    assert everything() == before


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {},
        {"name": None},
        {"name": " "},
        {"name": 1},
        {"name": "n" * 256},
        {"name": "n" * 10_000},
        {"name": "a\tb"},
        {"name": ".."},
        {"name": "ﷺ" * 200},
        {"name": "x", "description": 7},
        {"name": "x", "description": "d" * 1001},
        {"name": "x", "description": "d\x00"},
        {"name": "x", "description": "d\u202e"},
        {"name": " x"},
        {"name": "x\u17b4"},
    ],
)
def test_bodies_that_are_refused(alice: TokenClient, everything: Callable[[], Fingerprint], body: Any) -> None:
    before = everything()
    response = alice.post("/service-account", body)
    assert response.refused(400, "BadRequestException")
    assert len(response.body) < 1000
    assert everything() == before


def test_the_listing_has_pages(alice: TokenClient) -> None:
    ids = [build(alice, f"robot {number}")["id"] for number in range(3)]
    first = alice.get("/service-account?pageSize=2").json()
    assert [each["id"] for each in first["service-accounts"]] == ids[:2]
    token = first["next-page-token"]
    assert [each["id"] for each in alice.get(f"/service-account?pageToken={token}").json()["service-accounts"]] == ids[
        2:
    ]
    assert alice.get(f"/token?pageToken={token}").refused(400, "InvalidPaginationToken")
    User.objects.filter(pk=ids[0]).update(deleted_at=now())
    assert [each["id"] for each in alice.get("/service-account").json()["service-accounts"]] == ids[1:]
    assert build(alice, "robot 0")["id"] not in ids


@pytest.mark.parametrize("written", ["icekeeper~{}", "icekeeper%7E{}", "{}"])
def test_a_service_account_is_deleted_with_its_tokens_and_grants(
    bootstrapped: None, alice: TokenClient, written: str
) -> None:
    account, other = build(alice), build(alice, "other")
    tokens = [create_token(actor=INTERNAL, user_id=each["id"], name="t").text for each in (account, account, other)]
    role = Role.objects.create(project=get_project(None), name="r", name_key="r", source_id="r")
    for each in (account, other):
        RoleMember.objects.create(role=role, user_id=each["id"])
        Grant.objects.create_on(securable_id=f"server:{get_server().server_id}", user_id=each["id"], privilege="select")
    assert TokenClient(tokens[0]).get("/token").status == 200
    target = f"/service-account/{written.format(account['id'].removeprefix('icekeeper~'))}"
    response = alice.delete(target)
    assert (response.status, response.body) == (204, b"")
    statuses = [TokenClient(token).get("/token").status for token in tokens]
    assert statuses == [401, 401, 200]
    assert RoleMember.objects.get().user_id == Grant.objects.get().user_id == other["id"]
    assert User.objects.get(pk=account["id"]).deleted_at is not None
    assert alice.get("/service-account").json()["service-accounts"] == [other]
    assert alice.delete(target).refused(404, "ServiceAccountNotFound")
    assert build(alice)["id"] != account["id"]


def test_users_that_are_no_service_account(alice: TokenClient, everything: Callable[[], Fingerprint]) -> None:
    before = everything()
    for account_id in (NOWHERE, f"icekeeper~{NOWHERE}", "local~alice", "no", "icekeeper~", "*", "%20", alice.token):
        response = alice.delete(f"/service-account/{account_id}")
        assert response.refused(404, "ServiceAccountNotFound")
        assert alice.token not in response.body.decode()
    assert alice.get(f"/service-account/{NOWHERE}").refused(405, "MethodNotAllowedException")
    assert everything() == before
