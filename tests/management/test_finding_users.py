"""List users in pages, by name, and search them."""

from __future__ import annotations

from typing import Any

import pytest

from tenancy.authz.actions import Can
from tenancy.models import Server, User
from tests.harness.named_callers import CallerClient, NamedCallers
from tests.harness.wsgi_client import ApiClient, Response
from tests.management.test_users import address, provision
from tests.management.warehouse_request_fixtures import refuse

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("bootstrapped"), pytest.mark.both_databases]

api = ApiClient("/management/v1")


def pages_of(target: str, members: str = "users") -> list[list[str]]:
    """Return the ids of each page of a listing, to its end."""
    pages, token = [], ""
    while True:
        response = api.get(f"{target}&pageToken={token}").json()
        assert response.keys() <= {members, "next-page-token"}
        pages.append([each["id"] for each in response[members]])
        token = response.get("next-page-token")
        if token is None:
            return pages


def test_users_are_listed_in_pages_that_insertion_does_not_move() -> None:
    for number in range(5):
        provision(f"u{number}")
    first = api.get("/user?pageSize=2").json()
    assert [user["id"] for user in first["users"]] == ["oidc~u0", "oidc~u1"]
    provision("u00")
    provision("u9")
    api.delete(address("oidc~u1"))
    second = api.get(f"/user?pageSize=2&pageToken={first['next-page-token']}").json()
    assert [user["id"] for user in second["users"]] == ["oidc~u2", "oidc~u3"]
    pages = pages_of("/user?pageSize=3")
    assert pages == [["oidc~u0", "oidc~u00", "oidc~u2"], ["oidc~u3", "oidc~u4", "oidc~u9"]]


def test_users_are_listed_by_name() -> None:
    for name in ("Straße", "STRASSE 2", "100%", "a_b", "axb"):
        api.post("/user", {"id": f"oidc~{name}", "name": name, "user-type": "human"})
    assert pages_of("/user?name=stra%C3%9Fe&pageSize=1") == [["oidc~STRASSE 2"], ["oidc~Straße"]]
    assert pages_of("/user?name=%25") == [["oidc~100%"]]
    assert pages_of("/user?name=A_B") == [["oidc~a_b"]]
    assert pages_of("/user?name=unknown") == [[]]
    assert len(pages_of("/user?name=")[0]) == 5


def test_page_tokens_are_valid_for_their_listing_only() -> None:
    for number in range(3):
        provision(f"u{number}")
    token = api.get("/user?pageSize=1").json()["next-page-token"]
    found = api.post("/search/user", {"search": "u", "page-size": 1}).json()["next-page-token"]
    for target in (f"/user?name=u&pageToken={token}", f"/role?pageToken={token}", f"/user?pageToken={found}"):
        assert api.get(target).refused(400, "InvalidPaginationToken")
    for body in (
        {"search": "u", "page-token": token},
        {"search": "u1", "page-token": found},
        {"search": "u", "user-type": "human", "page-token": found},
        {"search": "u", "page-token": "\U0001f989"},
        {"search": "u", "page-token": "bm9uc2Vuc2U"},
    ):
        assert api.post("/search/user", body).refused(400, "InvalidPaginationToken")
    for size in ("0", "-1", "x", "1e3", "9" * 12):
        assert api.get(f"/user?pageSize={size}").refused(400, "BadRequestException", "pageSize")


def found(search: str, **more: Any) -> list[str]:
    response = api.post("/search/user", {"search": search, **more})
    assert response.status == 200, response.body
    return [user["id"].removeprefix("oidc~") for user in response.json()["users"]]


@pytest.fixture
def crowd(bootstrapped: None) -> None:
    users = {
        "1": ("Ann", "ann@example.com"),
        "2": ("Anna Karenina", "tolstoy@example.com"),
        "3": ("Johanna", ""),
        "4": ("Jonathan Müller", "jm@example.com"),
        "5": ("Per Cent 100%", ""),
        "6": ("X_Y", ""),
    }
    for subject, (name, email) in users.items():
        provision(subject, name=name, email=email, **({"user-type": "application"} if subject == "6" else {}))


@pytest.mark.usefixtures("crowd")
@pytest.mark.parametrize(
    ("search", "hits"),
    [
        ("ann", ["1", "2", "3"]),
        ("ANN", ["1", "2", "3"]),
        ("anna", ["2", "3", "1"]),
        ("  Anna   ", ["2", "3", "1"]),
        ("tolstoy@EXAMPLE.com", ["2"]),
        ("tolstoj@example.com", []),
        ("Jonahtan", ["4"]),
        ("jonathan mueller", ["4"]),
        ("\uff2a\uff4f\uff4e\uff41\uff54\uff48\uff41\uff4e", ["4"]),
        ("oidc~5", ["5"]),
        ("100%", ["5"]),
        ("%", ["5"]),
        ("x_y", ["6"]),
        ("' OR 1=1 --", []),
        ("zzz", []),
        ("", ["1", "2", "3", "4", "5", "6"]),
        ("   ", ["1", "2", "3", "4", "5", "6"]),
        ("anna" + " " * 60 + "unknown", ["2", "3", "1"]),
        ("\ufdfa" * 10_000, []),
    ],
)
def test_users_are_found_best_first(search: str, hits: list[str]) -> None:
    assert found(search) == hits


@pytest.mark.usefixtures("crowd")
def test_a_hit_has_name_id_and_type() -> None:
    [first, *_] = api.post("/search/user", {"search": "ann"}).json()["users"]
    assert first == {"id": "oidc~1", "name": "Ann", "email": "ann@example.com", "user-type": "human"}
    [other] = api.post("/search/user", {"search": "x_y"}).json()["users"]
    assert other == {"id": "oidc~6", "name": "X_Y", "user-type": "application"}
    assert found("", **{"user-type": "application"}) == ["6"]


def test_ten_are_returned_by_default() -> None:
    for number in range(25):
        provision(f"user{number:02}", name="Same Name" if number % 2 else f"Same Name {number}")
    assert len(found("same name")) == 10
    pages, token = [], None
    while True:
        response = api.post("/search/user", {"search": "same name", "page-size": 10, "page-token": token}).json()
        pages += [user["id"] for user in response["users"]]
        token = response.get("next-page-token")
        if token is None:
            break
    assert len(pages) == len(set(pages)) == 25
    assert all(int(user_id[-2:]) % 2 for user_id in pages[:12]), "exact matches come first"


def test_searching_does_not_list_users_without_permission(
    bootstrapped: None, callers: NamedCallers, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        User.objects.create(id=f"oidc~u{number:02}", name="Same Name", email=f"u{number}@example.com")
    callers.user("mallory")
    mallory = CallerClient("/management/v1", "mallory")

    def ask(text: str, **more: Any) -> Response:
        return mallory.post("/search/user", {"search": text, **more})

    assert len(ask("", **{"page-size": 100}).json()["users"]) == 12
    first = ask("same name", **{"page-size": 10}).json()
    assert first.keys() == {"users", "next-page-token"}
    asked = refuse(monkeypatch).asked_of
    for nothing in ("", "   ", "\u3000", "\t\n"):
        assert ask(nothing).json() == {"users": []}
        assert ask(nothing, **{"page-size": 100, "user-type": "human"}).json() == {"users": []}
        assert ask(nothing, **{"page-token": ""}).json() == {"users": []}
    assert ask("same name").json() == {"users": first["users"]}, "ten at most, without a page token"
    assert ask("same name", **{"page-size": 1000}).json() == {"users": first["users"]}
    assert ask("same name", **{"page-size": 3}).json() == {"users": first["users"][:3]}
    for token in (first["next-page-token"], "forged"):
        assert ask("same name", **{"page-token": token}).refused(403, "ServerActionForbidden", "list_users")
    assert set(asked) == {(Can.LIST_USERS, f"server:{Server.objects.get().server_id}")}


@pytest.mark.parametrize(
    "body",
    [{}, {"search": None}, {"search": 7}, {"search": ["a"]}, {"search": "a\x00"}, [],
     {"search": "a", "page-size": 0}, {"search": "a", "page-size": "x"}, {"search": "a", "user-type": "robot"}],
)  # fmt: skip
def test_searches_that_are_none(body: Any) -> None:
    assert api.post("/search/user", body).refused(400, "BadRequestException")
