"""Permission checks and explanations: required permissions, objects, and invalid requests."""

from __future__ import annotations

from typing import Any

import pytest

from tenancy.models import Securable
from tests.authz.object_path_fixtures import MISSING
from tests.authz.permission_check_fixtures import A_WORD, ASKED, IN_PROJECTS, NAMES, TABULARS, asked, by_id, by_name
from tests.authz.permission_fixtures import FORBIDDEN, MANAGES, NO_ONE, SHOWS, Everything, Things, new_role

pytestmark = pytest.mark.django_db

T = Securable.Type
ROUTES = ["/check", "/explain"]


@pytest.mark.parametrize(("route", "kind"), [each for each in ASKED if each[1] in MISSING])
def test_hidden_objects_equal_missing_ones(
    things: Things, route: str, kind: Securable.Type, everything: Everything
) -> None:
    stranger = things.client("stranger")
    before = everything()
    pairs = [((by_id(things, kind), things.public_id(kind)), (by_id(things, kind, NO_ONE), NO_ONE))]
    if kind not in {T.WAREHOUSE, *IN_PROJECTS}:
        name = "closed.deep" if kind is T.NAMESPACE else f"closed.deep.{NAMES[kind]}"
        missing = "nothing" if kind is T.NAMESPACE else "closed.deep.nothing"
        pairs.append(((by_name(things, kind), name), (by_name(things, kind, "nothing"), missing)))
    for pair in pairs:
        for identity in (None, {"user": "oidc~root"}, {"user": "oidc~unknown"}, {"role": NO_ONE}):
            messages = []
            for location, named in pair:
                response = stranger.post(route, asked(kind, A_WORD[kind], location, identity))
                assert response.refused(404, MISSING[kind])
                messages.append(response.error["message"].replace(named, "IT"))
            assert messages[0] == messages[1]
    assert everything() == before


@pytest.mark.parametrize(("route", "kind"), [each for each in ASKED if each[1] in FORBIDDEN])
def test_checks_of_others_require_permission_to_read_grants(things: Things, route: str, kind: Securable.Type) -> None:
    viewer = things.with_right("viewer", SHOWS[kind]) if kind in SHOWS else things.client("viewer")
    location = by_id(things, kind)
    for identity in ({"user": "oidc~root"}, {"user": "oidc~unknown"}, {"role": NO_ONE}, {"role": str(things.role.pk)}):
        assert viewer.post(route, asked(kind, A_WORD[kind], location, identity)).refused(403, FORBIDDEN[kind])
    manager = things.with_right("manager", MANAGES[kind])
    assert manager.post(route, asked(kind, A_WORD[kind], location, {"role": NO_ONE})).refused(404, "RoleIdNotFound")
    about_no_user = manager.post(route, asked(kind, A_WORD[kind], location, {"user": "oidc~unknown"}))
    if route == "/check":
        assert about_no_user.json() == {"allowed": False}
    else:
        assert about_no_user.refused(404, "UserNotFound")
    about_empty = asked(kind, A_WORD[kind], location, {"role": str(new_role("empty").pk)})
    assert manager.post(route, about_empty).json()["allowed"] is False


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("kind", TABULARS)
def test_ids_of_elsewhere_and_of_other_types_are_of_nothing(things: Things, route: str, kind: Securable.Type) -> None:
    client = things.manager(kind)
    for other in set(TABULARS) - {kind}:
        response = client.post(route, asked(kind, "get_metadata", by_id(things, other)))
        assert response.refused(404, MISSING[kind])
    for elsewhere in (NO_ONE, str(things.refs[T.NAMESPACE][1])):
        location = by_id(things, kind) | {"warehouse-id": elsewhere}
        assert client.post(route, asked(kind, "get_metadata", location)).refused(404, MISSING[kind])


TABLE: dict[str, Any] = {"action": "read_data", "warehouse-id": NO_ONE, "table-id": NO_ONE}


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    ("body", "text"),
    [
        (None, ""), ([], ""), ({}, "operation"), ({"operation": None}, "operation"), ({"operation": []}, "operation"),
        ({"operation": {}}, "exactly one"),
        ({"operation": {"table": TABLE, "view": TABLE | {"action": "select"}}}, "exactly one"),
        ({"operation": {"user": {"action": "read"}}}, "exactly one"),
        ({"operation": {"table": None}}, "table"),
        ({"operation": {"table": TABLE | {"action": "select"}}}, "action"),
        ({"operation": {"table": TABLE | {"action": {"action": "read_data"}}}}, "action"),
        ({"operation": {"table": TABLE | {"action": None}}}, "action"),
        ({"operation": {"table": TABLE | {"warehouse-id": "wh"}}}, "warehouse-id"),
        ({"operation": {"table": TABLE | {"warehouse-id": "{" + NO_ONE + "}"}}}, "warehouse-id"),
        ({"operation": {"table": TABLE | {"table-id": "t"}}}, "table-id"),
        ({"operation": {"table": TABLE | {"table-id": None}}}, "table-id"),
        ({"operation": {"table": {"action": "read_data", "table-id": NO_ONE}}}, "warehouse-id"),
        ({"operation": {"table": {"action": "read_data", "warehouse-id": NO_ONE}}}, "table-id"),
        ({"operation": {"table": {"action": "read_data", "warehouse-id": NO_ONE, "table": "t"}}}, "table-id"),
        ({"operation": {"table": {"action": "read_data", "warehouse-id": NO_ONE, "namespace": ["a"]}}}, "table-id"),
        ({"operation": {"namespace": {"action": "delete", "warehouse-id": NO_ONE}}}, "namespace-id"),
        ({"operation": {"namespace": {"action": "delete", "warehouse-id": NO_ONE, "namespace": []}}}, "namespace"),
        ({"operation": {"namespace": {"action": "delete", "warehouse-id": NO_ONE, "namespace": "a"}}}, "namespace"),
        ({"operation": {"namespace": {"action": "delete", "warehouse-id": NO_ONE, "namespace": [7]}}}, "namespace"),
        ({"operation": {"namespace": {"action": "delete", "warehouse-id": NO_ONE, "namespace": [""]}}}, "namespace"),
        ({"operation": {"namespace": {"action": "delete", "warehouse-id": NO_ONE, "namespace": ["a\u0000"]}}}, ""),
        ({"operation": {"server": {"action": "grant_operator"}}}, "action"),
        ({"operation": {"table": TABLE}, "identity": {}}, "identity"),
        ({"operation": {"table": TABLE}, "identity": {"user": "oidc~a", "role": NO_ONE}}, "identity"),
        ({"operation": {"table": TABLE}, "identity": {"role": "team"}}, "identity.role"),
        ({"operation": {"table": TABLE}, "identity": "oidc~a"}, "identity"),
        ({"operation": {"table": TABLE | {"action": ["read_data"]}}}, "action"),
        ({"operation": {"table": TABLE | {"action": "can_read_data"}}}, "action"),
        ({"operation": {"table": TABLE | {"action": "read_data\u0000"}}}, "action"),
        ({"operation": {"table": TABLE | {"table-id": "{" + NO_ONE + "}"}}}, "table-id"),
        ({"operation": {"table": TABLE}, "identity": [["user", "oidc~a"]]}, "identity"),
    ],
)  # fmt: skip
def test_questions_that_are_none(things: Things, route: str, body: Any, text: str, everything: Everything) -> None:
    client = things.client("viewer")
    before = everything()
    assert client.post(route, body).refused(400, "BadRequestException", text)
    assert everything() == before


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    ("user", "wire_type"),
    [("dana", "InvalidUserIdError"), ("oidc~", "EmptyUserIdError"), ("oidc~\u202e", "InvalidUserIdError")],
)
def test_identities_that_cannot_be(things: Things, route: str, user: str, wire_type: str) -> None:
    client = things.client("viewer")
    assert client.post(route, asked(T.SERVER, "create_project", {}, {"user": user})).refused(400, wire_type)


@pytest.mark.parametrize("route", ROUTES)
def test_hostile_names_are_of_nothing(things: Things, route: str) -> None:
    client = things.manager(T.TABLE)
    names = ["' OR 1=1 --", "a%00", "../a", "\u202ea", "a" * 5000, "a.b", "a%2Fb", "\ud7ff", "a\x1fb"]
    for name in [*names, "\u0430"]:  # which looks like an a
        response = client.post(route, asked(T.TABLE, "read_data", by_name(things, T.TABLE, name)))
        assert response.refused(404, "NoSuchTableException"), name
