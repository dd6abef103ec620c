"""The location of a staged table is reserved until the table is created or the reservation expires."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from catalog.models import LocationClaim, Namespace, Tabular
from catalog.services.tables import create as creation
from catalog.services.tables.staging import TICKET_LIFETIME
from icekeeper.kernel.clock import now
from icekeeper.kernel.ids import new_id
from storage.models import Warehouse
from storage.profiles.profile import max_credential_lifetime
from tasks.workers.worker import Worker
from tenancy.models import Role, RoleMember
from tests.authz.tree_fixtures import role
from tests.catalog_fixtures import SCHEMA, finishing_updates
from tests.harness.fingerprint import Fingerprint
from tests.harness.named_callers import CallerClient, NamedCallers
from tests.harness.wsgi_client import Response
from tests.iceberg_rest.lake_fixtures import VIEW

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

Everything = Callable[[], Fingerprint]
TAKEN = (409, "LocationAlreadyTaken")
NEW = {"name": "mine", "schema": SCHEMA}


@pytest.fixture
def alice(callers: NamedCallers, warehouse: Warehouse) -> CallerClient:
    """The user who stages tables; all users have all permissions here."""
    callers.user("alice")
    client = CallerClient(f"/catalog/v1/{warehouse.pk}", "alice")
    assert client.post("/namespaces", {"namespace": ["ns"]}).status == 200
    return client


@pytest.fixture
def bob(alice: CallerClient, callers: NamedCallers) -> CallerClient:
    callers.user("bob")
    return CallerClient(alice.base, "bob")


@pytest.fixture
def path(alice: CallerClient, warehouse: Warehouse) -> str:
    folder = Namespace.objects.get().location or warehouse.location
    return f"{folder}/orders"


def stage(client: CallerClient, name: str = "t", **more: Any) -> dict[str, Any]:
    """Stage a table as `client` and return its metadata."""
    response = client.post("/namespaces/ns/tables", {"name": name, "schema": SCHEMA, "stage-create": True, **more})
    assert response.status == 200, response.body
    metadata: dict[str, Any] = response.json()["metadata"]
    return metadata


def finish(client: CallerClient, metadata: dict[str, Any], name: str = "t", **changed: Any) -> Response:
    body = {"requirements": [{"type": "assert-create"}], "updates": finishing_updates(metadata, **changed)}
    return client.post(f"/namespaces/ns/tables/{name}", body)


def is_finished(client: CallerClient, metadata: dict[str, Any], name: str = "t") -> bool:
    """Create the staged table and check that its location is no longer reserved."""
    response = finish(client, metadata, name)
    assert response.status == 200, response.body
    assert (response.json()["metadata"]["table-uuid"], response.json()["metadata"]["location"]) == (
        metadata["table-uuid"], metadata["location"],
    )  # fmt: skip
    return not LocationClaim.objects.filter(location=metadata["location"]).exists()


def generic(client: CallerClient, location: str) -> Response:
    own = CallerClient(client.base.replace("/catalog/", "/lakekeeper/"), client.token)
    body = {"name": "mine", "format": "lance", "base-location": location}
    return own.post("/namespaces/ns/generic-tables", body)


def commit(client: CallerClient, *updates: dict[str, Any]) -> Response:
    return client.post("/namespaces/ns/tables/own", {"requirements": [], "updates": list(updates)})


def folder(location: str) -> dict[str, Any]:
    return {"write.metadata.path": location}


WAYS: dict[str, Callable[[CallerClient, str], Response]] = {
    "create": lambda c, at: c.post("/namespaces/ns/tables", NEW | {"location": at}),
    "stage": lambda c, at: c.post("/namespaces/ns/tables", NEW | {"location": at, "stage-create": True}),
    "view": lambda c, at: c.post(
        "/namespaces/ns/views", {"name": "mine", "schema": SCHEMA, "view-version": VIEW, "location": at}
    ),
    "generic table": generic,
    "metadata folder": lambda c, at: c.post("/namespaces/ns/tables", NEW | {"properties": folder(at)}),
    "move": lambda c, at: commit(c, {"action": "set-location", "location": at}),
    "move of metadata": lambda c, at: commit(c, {"action": "set-properties", "updates": folder(at)}),
    "register": lambda c, at: c.post(
        "/namespaces/ns/register", {"name": "mine", "metadata-location": f"{at}/metadata/00000-a.metadata.json"}
    ),
}


# --- other users ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["at", "below", "above"])
@pytest.mark.parametrize("way", WAYS)
def test_other_tables_are_not_created_there(
    alice: CallerClient, bob: CallerClient, path: str, everything: Everything, way: str, where: str
) -> None:
    assert bob.post("/namespaces/ns/tables", {"name": "own", "schema": SCHEMA}).status == 200
    metadata = stage(alice, location=f"{path}/t")
    before = everything()
    there = {"at": f"{path}/t", "below": f"{path}/t/in/deep", "above": path}[where]
    if (way, where) != ("register", "above"):  # registering checks the metadata file only, which is outside
        assert WAYS[way](bob, there).refused(*TAKEN)
    assert everything() == before
    assert WAYS[way](bob, f"{path}2").status == (404 if way == "register" else 200)
    assert is_finished(alice, metadata)


@pytest.mark.parametrize("chosen", [False, True])
def test_another_user_cannot_create_the_staged_table(
    alice: CallerClient, bob: CallerClient, path: str, everything: Everything, chosen: bool
) -> None:
    metadata = stage(alice, **({"location": path} if chosen else {}))
    data = Path(metadata["location"].removeprefix("file://")) / "data.parquet"
    data.parent.mkdir(parents=True)
    data.write_text("what Alice wrote")
    before = everything()
    assert finish(bob, metadata).refused(*TAKEN)
    assert finish(bob, metadata, "other").refused(*TAKEN)
    assert finish(bob, metadata, **{"table-uuid": str(new_id())}).refused(*TAKEN)
    assert finish(bob, metadata, location=f"{metadata['location']}/in").refused(*TAKEN)
    assert everything() == before
    assert is_finished(alice, metadata)


def test_the_name_stays_free(alice: CallerClient, bob: CallerClient) -> None:
    """As with plain creations, the first commit wins and the other gets an error."""
    metadata = stage(alice)
    assert is_finished(bob, stage(bob))
    assert finish(alice, metadata).refused(409, "CommitFailedException", "table already exists")
    assert is_finished(alice, metadata, "t2")


@pytest.mark.parametrize("inside", ["", "/in"])
def test_no_namespace_is_created_there(
    alice: CallerClient, bob: CallerClient, path: str, everything: Everything, inside: str
) -> None:
    """Not even by the user who staged it: the tables of other users in a namespace are created in its folder."""
    stage(alice, location=path)
    before = everything()
    for client in (alice, bob):
        body = {"namespace": ["sales"], "properties": {"location": f"{path}{inside}"}}
        assert client.post("/namespaces", body).refused(*TAKEN)
    assert everything() == before


# --- the user who staged it ------------------------------------------------------------------------------------------


def test_it_may_be_staged_again_and_created_in_every_way(alice: CallerClient, path: str) -> None:
    stage(alice, location=path)
    metadata = stage(alice, location=path)
    assert LocationClaim.objects.count() == 1
    assert is_finished(alice, metadata)
    stage(alice, "u", location=f"{path}-2")
    assert WAYS["create"](alice, f"{path}-2").status == 200
    stage(alice, "v", location=f"{path}-3")
    assert alice.delete("/namespaces/ns/tables/mine?purgeRequested=false").status == 204
    assert WAYS["generic table"](alice, f"{path}-3").status == 200
    assert not LocationClaim.objects.exists()


@pytest.mark.parametrize("way", ["create", "stage", "view", "generic table"])
def test_it_keeps_its_own_maker_from_around_it(
    alice: CallerClient, path: str, everything: Everything, way: str
) -> None:
    stage(alice, location=f"{path}/t")
    before = everything()
    for around in (path, f"{path}/t/in"):
        assert WAYS[way](alice, around).refused(*TAKEN)
    assert everything() == before


def test_a_table_is_not_moved_to_it(alice: CallerClient, path: str, everything: Everything) -> None:
    assert alice.post("/namespaces/ns/tables", {"name": "own", "schema": SCHEMA}).status == 200
    stage(alice, location=path)
    before = everything()
    for way in ("move", "move of metadata", "metadata folder"):
        assert WAYS[way](alice, path).refused(*TAKEN)
    assert everything() == before


@pytest.mark.parametrize("staged_as_role", [False, True])
def test_a_user_in_an_assumed_role_is_another_actor(
    alice: CallerClient, path: str, everything: Everything, staged_as_role: bool
) -> None:
    team = role("team")
    RoleMember.objects.create(role=team, user_id="oidc~alice")
    in_role = InRole(alice, team)
    maker, other = (in_role, alice) if staged_as_role else (alice, in_role)
    metadata = stage(maker, location=path)
    before = everything()
    assert finish(other, metadata).refused(*TAKEN)
    assert WAYS["create"](other, path).refused(*TAKEN)
    assert everything() == before
    assert is_finished(maker, metadata)


class InRole(CallerClient):
    """The same user with an assumed role."""

    def __init__(self, user: CallerClient, assumed: Role) -> None:
        super().__init__(user.base, user.token)
        self.assumed = assumed

    def _with_token(self, headers: dict[str, str]) -> dict[str, str]:
        return super()._with_token(headers) | {"x-assume-role": str(self.assumed.pk)}


# --- no obstacle to others -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["sales", "", "sales/eu", "sales/eu/x", "sales/orders"])
def test_a_table_cannot_be_staged_at_the_location_of_a_namespace(
    alice: CallerClient, bob: CallerClient, warehouse: Warehouse, everything: Everything, where: str
) -> None:
    """The staged table is invisible and would block the default locations of the namespace."""
    base = f"{warehouse.location}/shared"
    for namespace, at in (("sales", "sales"), ("eu", "sales/eu")):
        body = {"namespace": [namespace], "properties": {"location": f"{base}/{at}"}}
        assert bob.post("/namespaces", body).status == 200
    before = everything()
    body = {"name": "t", "schema": SCHEMA, "stage-create": True, "location": f"{base}/{where}".rstrip("/")}
    assert alice.post("/namespaces/ns/tables", body).refused(400, "InvalidLocation", "cannot be staged")
    assert everything() == before
    assert bob.post("/namespaces/eu/tables", {"name": "own", "schema": SCHEMA}).status == 200
    stage(alice, location=f"{warehouse.location}/shared2")


# --- expiration ------------------------------------------------------------------------------------------------------


def test_the_reservation_lasts_for_a_query_and_its_last_credential(alice: CallerClient, path: str) -> None:
    earliest = now()
    stage(alice, location=path)
    expires_at = LocationClaim.objects.get().expires_at
    assert expires_at is not None
    held_for = expires_at - earliest
    assert timedelta(0) <= held_for - TICKET_LIFETIME <= timedelta(minutes=5)  # local files: no vended credentials


@pytest.mark.parametrize(
    ("profile", "life"),
    [
        ({"type": "local"}, 0),
        ({"type": "s3", "sts-enabled": False, "sts-token-validity-seconds": 7_200}, 0),
        ({"type": "s3", "sts-enabled": True, "sts-token-validity-seconds": 604_800}, 604_800),
        ({"type": "adls", "sas-enabled": True, "sas-token-validity-seconds": 7_200}, 7_200),
        ({"type": "s3", "sts-enabled": True, "sts-token-validity-seconds": 1}, 3_600),  # stores issue no shorter ones
        ({"type": "gcs", "sts-enabled": True}, 3_600),
    ],
)
def test_the_lifetime_of_vended_credentials(profile: dict[str, Any], life: int) -> None:
    assert max_credential_lifetime(profile) == timedelta(seconds=life)


def test_after_its_time_the_location_is_free(alice: CallerClient, bob: CallerClient, path: str) -> None:
    metadata = stage(alice, location=path)
    LocationClaim.objects.update(expires_at=now() - timedelta(seconds=1))
    late = stage(bob, location=path)
    assert finish(alice, metadata).refused(*TAKEN)
    assert is_finished(bob, late) is False  # the old row does not conflict and expires
    assert [each.staged_by for each in LocationClaim.objects.all()] == ["oidc~alice"]
    Worker(poll_interval=60).run_once()
    assert not LocationClaim.objects.exists()


def test_only_expired_reservations_are_deleted(alice: CallerClient, bob: CallerClient, path: str) -> None:
    stage(alice, location=path)
    stage(bob, "u")
    LocationClaim.objects.filter(staged_by="oidc~bob").update(expires_at=now())
    assert alice.post("/namespaces/ns/tables", NEW | {"properties": folder(f"{path}2")}).status == 200
    Worker(poll_interval=60).run_once()
    assert sorted(each.location for each in LocationClaim.objects.all()) == [path, f"{path}2"]


def test_a_late_commit_takes_a_free_slot(alice: CallerClient, path: str) -> None:
    metadata = stage(alice, location=path)
    LocationClaim.objects.all().delete()
    assert is_finished(alice, metadata)


def test_a_warehouse_with_only_staged_tables_can_be_deleted(alice: CallerClient, warehouse: Warehouse) -> None:
    stage(alice)
    assert alice.delete("/namespaces/ns").status == 204
    assert CallerClient("/management/v1/warehouse", "alice").delete(f"/{warehouse.pk}").status == 204
    assert not LocationClaim.objects.exists()


# --- checks under the lock -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["namespace", "another namespace", "name", "location", "warehouse"])
def test_changes_between_the_check_and_the_lock(
    alice: CallerClient, bob: CallerClient, warehouse: Warehouse, path: str, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    hold = creation.reserve_staged_location

    def after_others(*args: Any, **more: Any) -> None:
        monkeypatch.setattr(creation, "reserve_staged_location", hold)
        done = {
            "namespace": lambda: bob.delete("/namespaces/ns").status == 204,
            "another namespace": lambda: (
                bob.post("/namespaces", {"namespace": ["q"], "properties": {"location": path}}).status == 200
            ),
            "name": lambda: bob.post("/namespaces/ns/tables", {"name": "t", "schema": SCHEMA}).status == 200,
            "location": lambda: stage(bob, "other", location=f"{path}/in"),
            "warehouse": lambda: Warehouse.objects.filter(pk=warehouse.pk).update(status="inactive"),
        }
        assert done[what]()
        hold(*args, **more)

    monkeypatch.setattr(creation, "reserve_staged_location", after_others)
    body = {"name": "t", "schema": SCHEMA, "stage-create": True, "location": path}
    response = alice.post("/namespaces/ns/tables", body)
    error = {
        "namespace": (404, "NoSuchNamespaceException"), "another namespace": (400, "InvalidLocation"),
        "name": (409, "AlreadyExistsException"), "location": TAKEN, "warehouse": (404, "NoSuchWarehouseException"),
    }  # fmt: skip
    assert response.refused(*error[what])
    assert not LocationClaim.objects.filter(staged_by="oidc~alice").exists()


# --- retried requests ------------------------------------------------------------------------------------------------


def test_the_same_request_reserves_it_again(alice: CallerClient, path: str) -> None:
    body = {"name": "t", "schema": SCHEMA, "stage-create": True, "location": path}
    key = str(new_id())
    first = alice.post("/namespaces/ns/tables", body, idempotency_key=key)
    LocationClaim.objects.update(expires_at=now())
    assert alice.post("/namespaces/ns/tables", body, idempotency_key=key).json() == first.json()
    expirations: list[Any] = [each.expires_at for each in LocationClaim.objects.all()]
    assert max(expirations) > now() + timedelta(hours=23)


def test_a_replay_does_not_reserve_a_location_that_is_in_use(alice: CallerClient, bob: CallerClient, path: str) -> None:
    body = {"name": "t", "schema": SCHEMA, "stage-create": True, "location": path}
    key = str(new_id())
    first = alice.post("/namespaces/ns/tables", body, idempotency_key=key)
    assert is_finished(alice, first.json()["metadata"])
    assert alice.post("/namespaces/ns/tables", body, idempotency_key=key).json() == first.json()
    assert Tabular.objects.count() == 1
    assert not LocationClaim.objects.exists()
