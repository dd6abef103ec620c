"""Attacks with Idempotency-Key: stored responses are replayed only to callers with the permissions that they needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from catalog.models import IdempotencyRecord
from tenancy.authz.builtin.backend import BuiltinAuthorizer
from tenancy.models import Grant
from tenancy.models.securable import ObjectRef, securable_id
from tests.authz.conftest import good, user
from tests.authz.tree_fixtures import give
from tests.catalog_fixtures import SCHEMA
from tests.harness.named_callers import CallerClient
from tests.harness.wsgi_client import Response

pytestmark = [pytest.mark.django_db]

Client = Callable[[str], CallerClient]
ALICE = user("alice")
UPDATE = {"updates": {"k": "v"}}
SET = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"k": "v"}}]}


@pytest.fixture
def key() -> str:
    return str(uuid4())


@pytest.mark.parametrize("seen", [None, "describe"])
@pytest.mark.parametrize("name", ["closed", "nolose"])
def test_a_denial_is_not_kept(
    client: Client, lake: dict[str, ObjectRef], key: str, seen: str | None, name: str
) -> None:
    """A "not found" is not stored either: otherwise a key would distinguish missing from hidden objects."""
    alice, sent = client("alice"), {"idempotency-key": key}
    give("ownership", lake["open"], ALICE)
    if seen is not None:
        give(seen, lake["closed"], ALICE)
    refused = alice.post(f"/namespaces/{name}/properties", UPDATE, **sent)
    assert refused.status == (403 if (seen, name) == ("describe", "closed") else 404)
    assert not IdempotencyRecord.objects.exists()
    good(alice.post("/namespaces/open/properties", UPDATE, **sent))
    if name == "closed":
        give("ownership", lake["closed"], ALICE)
        good(alice.post("/namespaces/closed/properties", UPDATE, **{"idempotency-key": str(uuid4())}))


def test_a_retry_after_a_grant_is_not_denied(client: Client, lake: dict[str, ObjectRef], key: str) -> None:
    alice, sent = client("alice"), {"idempotency-key": key}
    assert alice.post("/namespaces/closed/properties", UPDATE, **sent).refused(404, "NoSuchWarehouseException")
    give("ownership", lake["closed"], ALICE)
    good(alice.post("/namespaces/closed/properties", UPDATE, **sent))


def test_users_without_access_to_the_warehouse_store_no_keys(
    client: Client, lake: dict[str, ObjectRef], key: str
) -> None:
    alice, bad = client("alice"), {"updates": {"k": "v"}, "removals": ["k"]}
    for path in ("/namespaces/open/properties", "/namespaces/nowhere/properties"):
        assert alice.post(path, bad, **{"idempotency-key": key}).refused(422, "UnprocessableEntityException")
    assert not IdempotencyRecord.objects.exists()
    give("describe", lake["open.a"], ALICE)
    alice.post("/namespaces/open/properties", bad, **{"idempotency-key": key})
    assert IdempotencyRecord.objects.get().status == 422


def test_a_key_does_not_reveal_that_a_warehouse_exists(
    client: Client, root: CallerClient, lake: dict[str, ObjectRef], key: str
) -> None:
    good(root.post("/namespaces/open/properties", UPDATE, **{"idempotency-key": key}))
    responses = [
        client("alice").post("/namespaces/open/properties", UPDATE, **{"idempotency-key": each})
        for each in (key, str(uuid4()))
    ]
    assert responses[0].status == 404
    assert responses[0].error | {"stack": []} == responses[1].error | {"stack": []}


Act = Callable[[CallerClient, dict[str, str]], Response]
ACTS: dict[str, tuple[Act, tuple[int, str]]] = {
    "updateProperties": (
        lambda c, sent: c.post("/namespaces/closed/properties", UPDATE, **sent),
        (403, "NamespaceActionForbidden"),
    ),
    "createTable": (
        lambda c, sent: c.post("/namespaces/closed/tables", {"name": "n", "schema": SCHEMA}, **sent),
        (403, "NamespaceActionForbidden"),
    ),
    "stageTable": (
        lambda c, sent: c.post(
            "/namespaces/closed/tables", {"name": "n", "schema": SCHEMA, "stage-create": True}, **sent
        ),
        (403, "NamespaceActionForbidden"),
    ),
    "createNamespace": (
        lambda c, sent: c.post("/namespaces", {"namespace": ["closed", "n"]}, **sent),
        (403, "NamespaceActionForbidden"),
    ),
    "commit": (
        lambda c, sent: c.post("/namespaces/closed/tables/a", SET, **sent),
        (403, "TableActionForbidden"),
    ),
    "transaction": (
        lambda c, sent: c.post(
            "/transactions/commit",
            {"table-changes": [{"identifier": {"namespace": ["closed"], "name": each}, **SET} for each in "ab"]},
            **sent,
        ),
        (403, "TableActionForbidden"),
    ),
    "rename": (
        lambda c, sent: c.post(
            "/tables/rename",
            {"source": {"namespace": ["closed"], "name": "a"}, "destination": {"namespace": ["closed"], "name": "n"}},
            **sent,
        ),
        (404, "NoSuchTableException"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("act", ACTS)
def test_changes_are_shown_to_users_who_may_still_do_them(
    client: Client, lake: dict[str, ObjectRef], builtin: BuiltinAuthorizer, key: str, act: str
) -> None:
    alice, sent = client("alice"), {"idempotency-key": key}
    does, error = ACTS[act]
    give("ownership", lake["closed"], ALICE)
    first = good(does(alice, sent))
    again = does(alice, sent)
    assert (again.status, again.body) == (first.status, first.body)
    Grant.objects.filter(securable_id=securable_id(*lake["closed"]), user_id=ALICE.user_id).update(privilege="describe")
    builtin.clear_caches()
    assert does(alice, sent).refused(*error)
    Grant.objects.filter(user_id=ALICE.user_id).update(privilege="ownership")
    builtin.clear_caches()
    assert (again.status, again.body) == (does(alice, sent).status, first.body)


@pytest.mark.parametrize("act", ["unregister", "drop"])
def test_deleted_objects_are_reported_to_users_of_the_warehouse(
    client: Client, lake: dict[str, ObjectRef], builtin: BuiltinAuthorizer, key: str, act: str
) -> None:
    alice, sent = client("alice"), {"idempotency-key": key}
    give("modify", lake["closed"], ALICE)

    def does() -> Response:
        table: Any = "/namespaces/closed/tables/a"
        return alice.delete(table, **sent) if act == "drop" else alice.post(f"{table}/unregister", {}, **sent)

    first = good(does())
    Grant.objects.filter(user_id=ALICE.user_id).update(privilege="describe")
    builtin.clear_caches()
    again = does()
    assert (again.status, again.body) == (first.status, first.body)
    Grant.objects.filter(user_id=ALICE.user_id).delete()
    builtin.clear_caches()
    assert does().status == 404
