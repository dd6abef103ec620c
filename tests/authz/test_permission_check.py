"""The single question of the older API: whether somebody may do something, on objects by their ids and names."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.models import Tabular
from icekeeper.kernel.clock import now
from storage.models import Warehouse
from tenancy.authz.vocabulary import OLD_WORDS
from tenancy.models import Securable
from tests.authz.permissions import (
    FORBIDDEN,
    MANAGES,
    MISSING,
    NOBODY,
    SHOWS,
    Everything,
    Things,
    make_role,
    other_project,
)
from tests.named_callers import CallerClient

pytestmark = pytest.mark.django_db

T = Securable.Type
KINDS = [T.SERVER, T.PROJECT, T.WAREHOUSE, T.NAMESPACE, T.TABLE, T.VIEW, T.GENERIC_TABLE]
IN_WAREHOUSES = KINDS[2:]
TABULARS = KINDS[4:]
NAMES = {T.TABLE: "a", T.VIEW: "v", T.GENERIC_TABLE: "g"}
A_WORD = {
    T.SERVER: "create_project",
    T.PROJECT: "create_warehouse",
    T.WAREHOUSE: "modify_storage",
    T.NAMESPACE: "create_table",
    T.TABLE: "write_data",
    T.VIEW: "commit",
    T.GENERIC_TABLE: "write_data",
}


def by_id(things: Things, kind: Securable.Type, object_id: str | None = None) -> dict[str, Any]:
    if kind is T.SERVER:
        return {}
    if kind is T.PROJECT:
        return {} if object_id is None else {"project-id": object_id}
    warehouse_id = str(things.warehouse.pk)
    named = object_id or things.public_id(kind)
    if kind is T.WAREHOUSE:
        return {"warehouse-id": named}
    return {"warehouse-id": warehouse_id, "namespace-id" if kind is T.NAMESPACE else "table-id": named}


def by_name(things: Things, kind: Securable.Type, name: str = "") -> dict[str, Any]:
    place: dict[str, Any] = {"warehouse-id": str(things.warehouse.pk), "namespace": ["closed", "deep"]}
    if kind is T.NAMESPACE:
        return place | ({"namespace": [name]} if name else {})
    return place | {"table": name or NAMES[kind]}


def asked(
    kind: Securable.Type, word: str, place: dict[str, Any], identity: dict[str, str] | None = None
) -> dict[str, Any]:
    whose = {} if identity is None else {"identity": identity}
    return {"operation": {kind.value: {"action": word, **place}}, **whose}


def check(client: CallerClient, *question: Any, **headers: str) -> bool:
    answer = client.post("/check", asked(*question), **headers)
    assert answer.status == 200, answer.body
    assert answer.json().keys() == {"allowed"}
    is_allowed: bool = answer.json()["allowed"]
    return is_allowed


@pytest.mark.parametrize("kind", KINDS)
def test_each_word_is_answered_for_oneself_and_for_others(things: Things, kind: Securable.Type) -> None:
    manager, place = things.manager(kind), by_id(things, kind)
    viewer = things.with_right("viewer", SHOWS[kind]) if kind in SHOWS else things.client("viewer")
    route = "authorizer-actions" if kind is T.GENERIC_TABLE else "access"
    told = set(viewer.get(f"{things.path(kind)}/{route}").json()["allowed-actions"])
    for word in OLD_WORDS[kind]:
        own = check(viewer, kind, word, place)
        assert check(manager, kind, word, place, {"user": "oidc~viewer"}) is own
        assert check(viewer, kind, word, place, {"user": "oidc~viewer"}) is own
        if kind is not T.GENERIC_TABLE:
            assert own is (word in told)
    assert check(manager, kind, A_WORD[kind], place)
    assert not check(viewer, kind, A_WORD[kind], place)


@pytest.mark.parametrize("kind", [T.NAMESPACE, *TABULARS])
def test_objects_are_found_by_their_names_whatever_the_case(things: Things, kind: Securable.Type) -> None:
    client = things.with_right("viewer", SHOWS[kind])
    place = by_name(things, kind)
    upper = {
        key: [each.upper() for each in value] if isinstance(value, list) else value for key, value in place.items()
    }
    for each in (place, upper):
        assert check(client, kind, "get_metadata", each)
        assert not check(client, kind, A_WORD[kind], each)
    other = place | ({"namespace": ["open"]})
    assert client.post("/check", asked(kind, "get_metadata", other)).refused(404, MISSING[kind])


@pytest.mark.parametrize("kind", TABULARS)
def test_the_names_of_members_that_other_clients_use(things: Things, kind: Securable.Type) -> None:
    client = things.with_right("viewer", SHOWS[kind])
    own_id, here = things.public_id(kind), {"warehouse-id": str(things.warehouse.pk)}
    for name in ("table-id", "table_id", "view_id", "view-id", "generic_table_id", "generic-table-id"):
        assert check(client, kind, "get_metadata", here | {name: own_id})
    levels = here | {"namespace": ["closed", "deep"]}
    for name in ("table", "view", "generic_table", "generic-table"):
        assert check(client, kind, "get_metadata", levels | {name: NAMES[kind]})
    both = asked(kind, "get_metadata", here | {"table-id": own_id, "view_id": own_id})
    assert client.post("/check", both).refused(400, "BadRequestException", "two names")
    with_name = here | {"table-id": own_id, "namespace": ["open"], "table": "b"}
    assert check(client, kind, "get_metadata", with_name)  # the id counts


@pytest.mark.parametrize("kind", IN_WAREHOUSES)
def test_what_is_hidden_is_as_what_is_missing(things: Things, kind: Securable.Type, everything: Everything) -> None:
    stranger = things.client("stranger")
    before = everything()
    pairs = [((by_id(things, kind), things.public_id(kind)), (by_id(things, kind, NOBODY), NOBODY))]
    if kind is not T.WAREHOUSE:
        name = "closed.deep" if kind is T.NAMESPACE else f"closed.deep.{NAMES[kind]}"
        missing = "nothing" if kind is T.NAMESPACE else "closed.deep.nothing"
        pairs.append(((by_name(things, kind), name), (by_name(things, kind, "nothing"), missing)))
    for pair in pairs:
        for identity in (None, {"user": "oidc~root"}, {"user": "oidc~nobody"}, {"role": NOBODY}):
            messages = []
            for place, named in pair:
                answer = stranger.post("/check", asked(kind, "get_metadata", place, identity))
                assert answer.refused(404, MISSING[kind])
                messages.append(answer.error["message"].replace(named, "IT"))
            assert messages[0] == messages[1]
    assert everything() == before


@pytest.mark.parametrize("kind", KINDS)
def test_others_are_a_matter_of_who_reads_the_grants(things: Things, kind: Securable.Type) -> None:
    viewer = things.with_right("viewer", SHOWS[kind]) if kind in SHOWS else things.client("viewer")
    place = by_id(things, kind)
    for identity in ({"user": "oidc~root"}, {"user": "oidc~nobody"}, {"role": NOBODY}, {"role": str(things.role.pk)}):
        assert viewer.post("/check", asked(kind, A_WORD[kind], place, identity)).refused(403, FORBIDDEN[kind])
    manager = things.with_right("manager", MANAGES[kind])
    for identity, wire_type in (({"user": "oidc~nobody"}, "UserNotFound"), ({"role": NOBODY}, "RoleIdNotFound")):
        assert manager.post("/check", asked(kind, A_WORD[kind], place, identity)).refused(404, wire_type)
    assert not check(manager, kind, A_WORD[kind], place, {"role": str(make_role("empty").pk)})


def test_who_manages_grants_without_seeing_the_object_may_ask(things: Things) -> None:
    blind = things.with_right("blind", ("manage_grants", T.TABLE))
    place = by_id(things, T.TABLE)
    assert check(blind, T.TABLE, "grant_select", place)
    assert not check(blind, T.TABLE, "get_metadata", place)
    assert check(blind, T.TABLE, "read_data", place, {"user": "oidc~root"})


def test_a_project_is_named_in_the_question_or_by_header_and_must_be_seen(things: Things) -> None:
    project = other_project()
    member = things.with_right("member", ("create", T.PROJECT))
    own = str(things.refs[T.PROJECT][1])
    for place in ({}, {"project-id": own}, {"project-id": None}):
        assert check(member, T.PROJECT, "create_warehouse", place)
    assert check(member, T.PROJECT, "create_warehouse", {"project-id": own}, **{"x-project-id": project.pk})
    for headers, place in (({"x-project-id": project.pk}, {}), ({}, {"project-id": project.pk})):
        answer = member.post("/check", asked(T.PROJECT, "create_warehouse", place), **headers)
        assert answer.refused(403, "ProjectActionForbidden", "get_metadata")
    answer = member.post("/check", asked(T.PROJECT, "create_warehouse", {"project-id": "no"}))
    assert answer.refused(404, "ProjectNotFound")


def test_what_was_dropped_and_what_is_inactive_is_found_by_id(things: Things) -> None:
    client = things.with_right("viewer", SHOWS[T.TABLE])
    Tabular.objects.filter(pk=things.refs[T.TABLE][1]).update(deleted_at=now())
    Warehouse.objects.filter(pk=things.warehouse.pk).update(status="inactive")
    assert check(client, T.TABLE, "read_data", by_id(things, T.TABLE))
    answer = client.post("/check", asked(T.TABLE, "read_data", by_name(things, T.TABLE)))
    assert answer.refused(404, "NoSuchTableException", "closed.deep.a")


def test_a_table_is_no_view_and_is_in_its_own_warehouse_alone(things: Things) -> None:
    client = things.with_right("viewer", SHOWS[T.TABLE])
    as_view = asked(T.VIEW, "select", by_id(things, T.TABLE))
    assert client.post("/check", as_view).refused(404, "NoSuchViewException")
    for elsewhere in (NOBODY, str(things.refs[T.NAMESPACE][1])):
        place = by_id(things, T.TABLE) | {"warehouse-id": elsewhere}
        assert client.post("/check", asked(T.TABLE, "read_data", place)).refused(404, "NoSuchTableException")


TABLE: dict[str, Any] = {"action": "read_data", "warehouse-id": NOBODY, "table-id": NOBODY}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (None, ""), ([], ""), ({}, "operation"), ({"operation": None}, "operation"), ({"operation": []}, "operation"),
        ({"operation": {}}, "exactly one"),
        ({"operation": {"table": TABLE, "view": TABLE | {"action": "select"}}}, "exactly one"),
        ({"operation": {"role": {"action": "assume"}}}, "exactly one"),
        ({"operation": {"table": None}}, "table"),
        ({"operation": {"table": TABLE | {"action": "select"}}}, "action"),
        ({"operation": {"table": TABLE | {"action": {"action": "read_data"}}}}, "action"),
        ({"operation": {"table": TABLE | {"action": None}}}, "action"),
        ({"operation": {"table": TABLE | {"warehouse-id": "wh"}}}, "warehouse-id"),
        ({"operation": {"table": TABLE | {"warehouse-id": "{" + NOBODY + "}"}}}, "warehouse-id"),
        ({"operation": {"table": TABLE | {"table-id": "t"}}}, "table-id"),
        ({"operation": {"table": TABLE | {"table-id": None}}}, "table-id"),
        ({"operation": {"table": {"action": "read_data", "table-id": NOBODY}}}, "warehouse-id"),
        ({"operation": {"table": {"action": "read_data", "warehouse-id": NOBODY}}}, "table-id"),
        ({"operation": {"table": {"action": "read_data", "warehouse-id": NOBODY, "table": "t"}}}, "table-id"),
        ({"operation": {"table": {"action": "read_data", "warehouse-id": NOBODY, "namespace": ["a"]}}}, "table-id"),
        ({"operation": {"namespace": {"action": "delete", "warehouse-id": NOBODY}}}, "namespace-id"),
        ({"operation": {"namespace": {"action": "delete", "warehouse-id": NOBODY, "namespace": []}}}, "namespace"),
        ({"operation": {"namespace": {"action": "delete", "warehouse-id": NOBODY, "namespace": "a"}}}, "namespace"),
        ({"operation": {"namespace": {"action": "delete", "warehouse-id": NOBODY, "namespace": [7]}}}, "namespace"),
        ({"operation": {"namespace": {"action": "delete", "warehouse-id": NOBODY, "namespace": [""]}}}, "namespace"),
        ({"operation": {"namespace": {"action": "delete", "warehouse-id": NOBODY, "namespace": ["a\u0000"]}}}, ""),
        ({"operation": {"server": {"action": "grant_operator"}}}, "action"),
        ({"operation": {"table": TABLE}, "identity": {}}, "identity"),
        ({"operation": {"table": TABLE}, "identity": {"user": "oidc~a", "role": NOBODY}}, "identity"),
        ({"operation": {"table": TABLE}, "identity": {"role": "team"}}, "identity.role"),
        ({"operation": {"table": TABLE}, "identity": "oidc~a"}, "identity"),
    ],
)  # fmt: skip
def test_questions_that_are_none(things: Things, body: Any, text: str, everything: Everything) -> None:
    client = things.client("viewer")
    before = everything()
    assert client.post("/check", body).refused(400, "BadRequestException", text)
    assert everything() == before


@pytest.mark.parametrize(
    ("user", "wire_type"),
    [("dana", "InvalidUserIdError"), ("oidc~", "EmptyUserIdError"), ("oidc~\u202e", "InvalidUserIdError")],
)
def test_identities_that_cannot_be(things: Things, user: str, wire_type: str) -> None:
    client = things.client("viewer")
    assert client.post("/check", asked(T.SERVER, "create_project", {}, {"user": user})).refused(400, wire_type)


def test_hostile_names_are_of_nothing(things: Things) -> None:
    client = things.manager(T.TABLE)
    for name in (
        "' OR 1=1 --",
        "a%00",
        "../a",
        "\u202ea",
        "\u0430",
        "a" * 5000,
        "a.b",
        "\ud7ff",
        "a\x1fb",
    ):  # \u0430 looks like an a
        answer = client.post("/check", asked(T.TABLE, "read_data", by_name(things, T.TABLE, name)))
        assert answer.refused(404, "NoSuchTableException"), name
