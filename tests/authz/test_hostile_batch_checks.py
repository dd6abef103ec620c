"""Invalid batch checks: the error of one check is reported together with the results of the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from catalog.models import Tabular
from storage.models import Warehouse
from tenancy.authz import port
from tenancy.authz.port import AuthorizationBackendError
from tenancy.models import Server
from tenancy.models.securable import ObjectRef
from tests.authz.batch_check_fixtures import CHECK, WITH_ERRORS, Ask, Check, by_id, of, on_table, reported
from tests.authz.conftest import user
from tests.authz.tree_fixtures import T, give
from tests.harness.fingerprint import Fingerprint
from tests.harness.named_callers import CallerClient, NamedCallers
from tests.management.warehouse_request_fixtures import NO_ONE, use_settings

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("builtin"), pytest.mark.both_databases]

OK: dict[str, Any] = {"action": {"action": "get_metadata"}, "warehouse-id": NO_ONE}
BAD_ITEMS: list[Any] = [
    None, True, 1, "x", [], {},
    {"id": 1, "operation": {"server": {"action": {"action": "list_users"}}}},
    {"id": ["x"], "operation": {"server": {"action": {"action": "list_users"}}}},
    {"operation": None}, {"operation": []}, {"operation": "server"}, {"operation": {"server": None}},
    {"operation": {"server": {}}}, {"operation": {"server": {"action": "list_users"}}},
    {"operation": {"server": {"action": {"action": None}}}}, {"operation": {"server": {"action": {"action": ["x"]}}}},
    {"operation": {"server": {"action": {"action": "LIST_USERS"}}}},
    {"operation": {"server": {"action": {"action": "grant_admin"}}}},
    {"operation": {"server": {"action": {"action": "can_list_users"}}}},
    {"operation": {"server": {"action": {"action": "drop"}}}},
    {"operation": {"server": {"action": {"action": "list_users"}}, "project": {"action": {"action": "delete"}}}},
    {"operation": {"role": {"action": {"action": "read"}, "role-id": NO_ONE}}},
    {"operation": {"user": {"action": {"action": "read"}}}}, {"operation": {"tag": {"action": {"action": "read"}}}},
    {"operation": {"generic_table": OK}}, {"operation": {"Table": OK}}, {"operation": {"x" * 10_000: OK}},
    {"operation": {"project": {"action": {"action": "delete"}, "project-id": 7}}},
    {"operation": {"warehouse": {"action": {"action": "use"}}}},
    {"operation": {"warehouse": {"action": {"action": "use"}, "warehouse-id": None}}},
    {"operation": {"warehouse": {"action": {"action": "use"}, "warehouse-id": "wh"}}},
    {"operation": {"warehouse": {"action": {"action": "use"}, "warehouse-id": f"{{{NO_ONE}}}"}}},
    {"operation": {"warehouse": {"action": {"action": "use"}, "warehouse-id": NO_ONE.replace("-", "")}}},
    {"operation": {"namespace": OK}}, {"operation": {"namespace": {**OK, "namespace": []}}},
    {"operation": {"namespace": {**OK, "namespace": "ns"}}}, {"operation": {"namespace": {**OK, "namespace": [1]}}},
    {"operation": {"namespace": {**OK, "namespace-id": None}}},
    {"operation": {"namespace": {**OK, "namespace-id": "x\x00"}}},
    {"operation": {"table": OK}}, {"operation": {"table": {**OK, "table": "t"}}},
    {"operation": {"table": {**OK, "namespace": ["ns"]}}}, {"operation": {"table": {**OK, "table-id": 5}}},
    {"operation": {"table": {**OK, "namespace": ["ns"], "table": ""}}},
    {"operation": {"table": {**OK, "namespace": ["ns"], "table": ["t"]}}},
    {"operation": {"table": {**OK, "namespace": ["ns"], "table": "t", "view": "t"}}},
    {"operation": {"table": {**OK, "table-id": NO_ONE, "view_id": NO_ONE}}},
    *({"identity": each, "operation": {"server": {"action": {"action": "list_users"}}}} for each in (
        "oidc~ann", [], {}, {"user": None}, {"user": 1}, {"role": None}, {"role": "x"}, {"role": "oidc~x"},
        {"user": "oidc~a", "role": NO_ONE}, {"group": "x"}, {"User": "oidc~a"},
    )),
]  # fmt: skip


@pytest.mark.parametrize("item", BAD_ITEMS, ids=lambda item: str(item)[:80])
def test_a_check_that_is_malformed_has_an_error_of_its_own(
    ask: Ask, warehouse: Warehouse, everything: Callable[[], Fingerprint], item: Any
) -> None:
    give("describe", ObjectRef(T.WAREHOUSE, warehouse.pk), user("ann"))
    before = everything()
    good = {"operation": {"warehouse": {"action": {"action": "use"}, "warehouse-id": str(warehouse.pk)}}}
    response = ask("ann", good, item, good)
    assert reported(response) == [True, "BadRequestException", True]
    error = response.json()["results"][1]["error"]
    assert error["code"] == 400
    assert len(error["message"]) < 300
    assert everything() == before


@pytest.mark.parametrize(
    ("text", "wire_type"),
    [
        ("", "EmptyUserIdError"), ("ann", "InvalidUserIdError"), ("OIDC~ann", "InvalidUserIdError"),
        ("oidc~", "EmptyUserIdError"), ("oidc~a\x00b", "InvalidUserIdError"), ("oidc~a\u202eb", "InvalidUserIdError"),
        ("oidc~" + "x" * 128, "UserIdTooLongError"),
    ],
)  # fmt: skip
def test_users_must_be_named_as_users_are(ask: Ask, bootstrapped: None, text: str, wire_type: str) -> None:
    check = {"operation": {"server": {"action": {"action": "list_users"}}}}
    assert reported(ask("ann", of({"user": text}, check), check)) == [wire_type, False]


TEXT: tuple[list[Any], list[Any]] = (["x", None, ""], [1, [], {}, True])
TEXTS: tuple[list[Any], list[Any]] = ([[], ["a", "b"]], ["a", [1], [None], {}, None])
FLAG: tuple[list[Any], list[Any]] = ([True, False], ["true", 1, None, []])
MAP: tuple[list[Any], list[Any]] = ([{}, {"a": "b"}], [[], "a", {"a": 1}, {"a": None}, None])
ID: tuple[list[Any], list[Any]] = ([NO_ONE, None], ["x", 1, [], f"urn:uuid:{NO_ONE}"])
CONTEXT: list[tuple[str, str, str, tuple[list[Any], list[Any]]]] = [
    ("server", "create_project", "name", TEXT), ("server", "create_project", "project_id", TEXT),
    ("project", "create_warehouse", "name", TEXT), ("project", "create_role", "name", TEXT),
    ("project", "create_tag", "name", TEXT), ("warehouse", "create_namespace", "name", TEXT),
    ("warehouse", "create_namespace", "properties", MAP), ("warehouse", "accept_moved_namespace", "source", TEXTS),
    ("namespace", "create_table", "name", TEXT), ("namespace", "create_table", "table_id", ID),
    ("namespace", "create_table", "properties", MAP), ("namespace", "create_view", "properties", MAP),
    ("namespace", "create_namespace", "properties", MAP), ("namespace", "create_generic_table", "format", TEXT),
    ("namespace", "create_generic_table", "generic_table_id", ID),
    ("namespace", "create_generic_table", "base_location", TEXT), ("namespace", "delete", "force", FLAG),
    ("namespace", "delete", "purge", FLAG), ("namespace", "delete", "recursive", FLAG),
    ("namespace", "update_properties", "removed_properties", TEXTS),
    ("namespace", "update_properties", "updated_properties", MAP), ("namespace", "move", "destination", TEXTS),
    ("namespace", "accept_moved_namespace", "source", TEXTS), ("table", "drop", "force", FLAG),
    ("table", "drop", "purge", FLAG), ("table", "commit", "target_refs", TEXTS),
    ("table", "commit", "update_kinds", TEXTS), ("table", "commit", "updated_properties", MAP),
    ("table", "commit", "removed_properties", TEXTS), ("view", "drop", "purge", FLAG),
    ("view", "commit", "updated_properties", MAP), ("generic-table", "drop", "force", FLAG),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "action", "member", "values"), CONTEXT)
def test_the_context_of_an_action_is_checked_and_changes_nothing(
    ask: Ask, bootstrapped: None, kind: str, action: str, member: str, values: Any
) -> None:
    give("operator", ObjectRef(T.SERVER, Server.objects.get().server_id), user("root"))
    location = {"warehouse-id": NO_ONE, "namespace": ["ns"], "table": "t"}
    good, bad = values

    def check(value: Any) -> Check:
        return {"operation": {kind: {"action": {"action": action, member: value, "unknown": 1}, **location}}}

    is_there = kind in {"server", "project"}
    assert reported(ask("root", *map(check, good))) == [is_there] * len(good)
    assert reported(ask("root", *map(check, bad))) == ["BadRequestException"] * len(bad)


def test_a_move_says_where_to(ask: Ask, table: Tabular) -> None:
    location = {"warehouse-id": str(table.warehouse_id), "namespace": ["ns"]}
    check = {"operation": {"namespace": {"action": {"action": "move", "force": True}, **location}}}
    assert reported(ask("ann", check)) == ["BadRequestException"]


@pytest.mark.parametrize(
    "body",
    [
        None, [], "x", 7, {}, {"checks": None}, {"checks": {}}, {"checks": "x"},
        {"checks": [], "error-on-not-found": None}, {"checks": [], "error-on-not-found": "true"},
        {"checks": [], "error-on-not-found": 1},
    ],
)  # fmt: skip
def test_a_document_that_is_malformed_is_refused_as_a_whole(
    callers: NamedCallers, warehouse: Warehouse, everything: Callable[[], Fingerprint], body: Any
) -> None:
    callers.user("ann")
    before = everything()
    assert CallerClient(CHECK, "ann").post("", body).refused(400, "BadRequestException")
    assert everything() == before


@pytest.mark.parametrize(
    "raw", [b"", b"{", b'{"checks":[],"checks":[]}', b'{"checks":[NaN]}', b"\xff", b'{"checks":[' * 400]
)
def test_invalid_json_is_rejected(callers: NamedCallers, bootstrapped: None, raw: bytes) -> None:
    callers.user("ann")
    assert CallerClient(CHECK, "ann").post("", raw=raw).refused(400, "BadRequestException")


def test_more_than_a_thousand_checks_are_too_many(ask: Ask, bootstrapped: None) -> None:
    check = {"operation": {"server": {"action": {"action": "list_users"}}}}
    assert reported(ask("ann", *[check] * 1000)) == [False] * 1000
    assert ask("ann", *[check] * 1001).refused(400, "TooManyChecks", "1001 checks; the maximum is 1000")
    assert ask("ann", *[None] * 1001).refused(400, "TooManyChecks")


UNNAMED: list[Any] = [
    {"operation": {"server": {"action": {"action": "list_users"}}}},
    {"id": None, "operation": {"server": {"action": {"action": "list_users"}}}},
    {"id": 1, "operation": {"server": {"action": {"action": "list_users"}}}}, {}, None, "1", [],
]  # fmt: skip


@pytest.mark.parametrize("unnamed", UNNAMED, ids=str)
def test_an_id_does_not_replace_a_check_without_one(
    ask: Ask, bootstrapped: None, everything: Callable[[], Fingerprint], unnamed: Any
) -> None:
    check = {"operation": {"server": {"action": {"action": "list_users"}}}}
    before = everything()
    for checks in ([{"id": "1", **check}, unnamed], [unnamed, check, {"id": "0", **check}]):
        assert ask("ann", *checks).refused(400, "AmbiguousCheckId", "also the index, from 0, of a check without an id")
    assert everything() == before


def test_what_only_resembles_a_location_is_an_ordinary_id(ask: Ask, bootstrapped: None) -> None:
    check = {"operation": {"server": {"action": {"action": "list_users"}}}}
    own = ["0", "1", "01", "+1", "\uff14", "4.0", "7", "1"]
    response = ask("ann", *({"id": each, **check} for each in own), check)
    assert [each["id"] for each in response.json()["results"]] == [*own, "8"]


def test_the_project_is_that_of_the_request(
    callers: NamedCallers, monkeypatch: pytest.MonkeyPatch, elsewhere: Warehouse
) -> None:
    give("describe", ObjectRef(T.PROJECT, "other"), user("ann"))
    callers.user("ann")
    ann = CallerClient(CHECK, "ann")
    body = {"checks": [{"operation": {"project": {"action": {"action": "get_metadata"}}}}]}
    assert reported(ann.post("", body)) == [False]
    assert reported(ann.post("", body, **{"x-project-id": "other"})) == [True]
    assert reported(ann.post("", body, **{"x-project-id": "none"})) == [False]
    assert ann.post("", body, **{"x-project-id": "no/such"}).refused(400, "MalformedProjectID")
    body["checks"].append({"operation": {"project": {"action": {"action": "delete"}, "project-id": "a b"}}})
    assert reported(ann.post("", body, **WITH_ERRORS)) == [False, "MalformedProjectID"]
    use_settings(monkeypatch, enable_default_project=False)
    assert reported(ann.post("", body, **WITH_ERRORS)) == ["ProjectIdMissing", "MalformedProjectID"]
    assert reported(ann.post("", body)) == [False, False]


def test_where_every_user_may_do_everything_a_missing_object_is_still_denied(
    callers: NamedCallers, monkeypatch: pytest.MonkeyPatch, table: Tabular
) -> None:
    callers.user("ann")
    missing = {"operation": {"table": {"action": {"action": "drop"}, **by_id(table), "table-id": NO_ONE}}}
    bob = {"user": "oidc~bob"}
    checks = [on_table(table), of(bob, on_table(table)), missing, of(bob, missing)]
    with monkeypatch.context() as patched:
        patched.setattr("tenancy.authz.port.authorizer", port.AllowAll)
        assert reported(CallerClient(CHECK, "ann").post("", {"checks": checks})) == [True, True, False, False]


def test_an_undecided_authorizer_is_503(callers: NamedCallers, monkeypatch: pytest.MonkeyPatch, table: Tabular) -> None:
    class Lost(port.AllowAll):
        def decide(self, *_: Any) -> list[bool]:
            raise AuthorizationBackendError("no response")

    callers.user("ann")
    with monkeypatch.context() as patched:
        patched.setattr("tenancy.authz.port.authorizer", Lost)
        response = CallerClient(CHECK, "ann").post("", {"checks": [on_table(table)]})
    assert response.refused(503, "AuthorizationBackendError")
