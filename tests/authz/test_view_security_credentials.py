"""Credentials vended to engines that read through views: limited to the owner's permissions, without remote signing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from catalog.models import Tabular
from storage.models import Warehouse
from storage.vending import vend
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef
from tests.authz.conftest import good
from tests.authz.view_owner_fixtures import Lake, engine, through, trust
from tests.harness.wsgi_client import Response, call
from tests.iceberg_rest.lake_fixtures import KEYS, client_of, create_table, may_write, new_lake
from tests.management.warehouse_request_fixtures import keep_secrets
from tests.parts.minio import Minio
from tests.signing_fixtures import by_id, to_sign

pytestmark = [pytest.mark.django_db]

T, CREDENTIALS = "/namespaces/ns/tables/t", "/namespaces/ns/tables/t/credentials"
CHAIN = through("ns.d")
SIGNING = {"x-iceberg-access-delegation": "remote-signing"}
EITHER = {"x-iceberg-access-delegation": "vended-credentials,remote-signing"}
OWN = {"x-iceberg-access-delegation": "client-managed"}


@pytest.fixture(autouse=True)
def _nothing_vended_before() -> Iterator[None]:
    vend._cache_of.cache_clear()
    yield
    vend._cache_of.cache_clear()


@pytest.fixture
def world(
    minio: Minio, bucket: str, bootstrapped: None, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Lake:
    """The table `ns.t` on MinIO with vended credentials and remote signing, and the view `ns.d` of alice for an
    engine to select from. The table was created before authorization was enabled.
    """
    keep_secrets(monkeypatch)
    create_table(new_lake(minio, bucket, **getattr(request, "param", {})))
    request.getfixturevalue("builtin")
    table = Tabular.objects.get()
    refs = {
        "ns": ObjectRef(Securable.Type.NAMESPACE, table.namespace_id),
        "t": ObjectRef(Securable.Type.TABLE, table.pk),
    }
    created = Lake(Warehouse.objects.get(), request.getfixturevalue("callers"), refs)
    trust(monkeypatch, trino=engine())
    created.give("select", created.view("d", "alice", levels=("ns",)), "trino")
    return created


def vended_in(response: Response) -> tuple[dict[str, str], str]:
    """Return the vended credential and its prefix."""
    (entry,) = good(response).json()["storage-credentials"]
    return entry["config"], entry["prefix"]


@pytest.mark.parametrize("headers", [{}, SIGNING, EITHER])
def test_the_owner_limits_the_vended_credentials(world: Lake, headers: dict[str, str]) -> None:
    trino = world.engine()
    world.give("describe", "t", "alice")
    seen = good(trino.get(T + CHAIN, **headers)).json()
    assert (seen["config"], "storage-credentials" in seen) == ({}, False)
    world.give("select", "t", "alice")
    config, location = vended_in(trino.get(T + CHAIN, **headers))
    assert not may_write(config, location)
    bucket, _, key = seen["metadata-location"].removeprefix("s3://").partition("/")
    assert b"table-uuid" in client_of(config).get_object(Bucket=bucket, Key=key)["Body"].read()
    world.give("modify", "t", "alice")
    for target in (T, CREDENTIALS):
        assert may_write(*vended_in(trino.get(target + CHAIN, **headers)))
    assert trino.get(T, **headers).refused(404, "NoSuchTableException")
    assert trino.get(CREDENTIALS, **headers).refused(404, "NoSuchTableException")


def test_the_engine_gets_no_more_than_the_owner_may_do(world: Lake) -> None:
    trino = world.engine()
    world.give("modify", "t", "trino")
    world.give("select", "t", "alice")
    assert may_write(*vended_in(trino.get(T)))
    assert not may_write(*vended_in(trino.get(T + CHAIN)))


def test_an_engine_with_a_read_only_token_gets_no_write_credentials(world: Lake) -> None:
    world.give("modify", "t", "alice")
    assert may_write(*vended_in(world.engine(scopes=frozenset({"catalog"})).get(T + CHAIN)))
    for target in (T, CREDENTIALS):
        assert not may_write(*vended_in(world.engine(scopes=frozenset({"catalog:read"})).get(target + CHAIN)))


def test_newer_credentials_come_through_the_same_views(world: Lake) -> None:
    trino = world.engine()
    world.give("select", "t", "alice", "trino")
    config, _ = vended_in(trino.get(T + CHAIN))
    address = config["client.refresh-credentials-endpoint"]
    assert address.endswith(f"{CREDENTIALS}?referenced-by=ns%1Fd")
    again = call("GET", address.removeprefix("http://testserver"), headers={"authorization": "Bearer trino"})
    assert vended_in(again)[0].keys() >= KEYS
    assert vended_in(trino.get(T))[0]["client.refresh-credentials-endpoint"].endswith(CREDENTIALS)
    Tabular.objects.get(name="d").delete()
    denied = call("GET", address.removeprefix("http://testserver"), headers={"authorization": "Bearer trino"})
    assert denied.refused(404, "NoSuchTableException")


@pytest.mark.parametrize("headers", [{}, SIGNING, EITHER])
def test_no_requests_are_signed_in_the_name_of_an_owner(world: Lake, headers: dict[str, str]) -> None:
    """The sign route takes no views; it checks the caller's own permissions."""
    trino = world.engine()
    world.give("select", "t", "alice")
    config, location = vended_in(trino.get(T + CHAIN, **headers))
    assert not any("sign" in name for name in config)
    assert not any("sign" in name for name in good(trino.get(T + CHAIN, **headers)).json()["config"])
    uri = f"{config['s3.endpoint'].rstrip('/')}/{location.removeprefix('s3://')}/metadata/x"
    target = by_id(world.warehouse, world.refs["t"][1])
    signing = type(trino)("", "trino")
    asked = to_sign("GET", uri, region=config["s3.region"])
    for chain in ("", CHAIN):
        assert signing.post(target + chain, asked).refused(400, "NoSuchTableLocationException")
    world.give("describe", "t", "trino")
    for chain in ("", CHAIN):
        assert signing.post(target + chain, asked).refused(403, "TableActionForbidden")
    world.give("select", "t", "trino")
    assert good(signing.post(target, asked)).json()["uri"] == uri, "with rights of its own"


@pytest.mark.parametrize("world", [{"sts-enabled": False}], indirect=True)
@pytest.mark.parametrize("headers", [{}, SIGNING, EITHER])
def test_where_only_signatures_are_to_be_had_there_is_nothing(world: Lake, headers: dict[str, str]) -> None:
    trino = world.engine()
    world.give("select", "t", "alice")
    reported = good(trino.get(T + CHAIN, **headers)).json()
    assert "storage-credentials" not in reported
    assert not any("sign" in name or name in KEYS for name in reported["config"])
    assert good(trino.get(CREDENTIALS + CHAIN, **headers)).json() == {"storage-credentials": []}
    world.give("select", "t", "trino")
    assert good(trino.get(T, **headers)).json()["config"]["s3.remote-signing-enabled"] == "true"


def test_clients_with_their_own_credentials_get_none(world: Lake) -> None:
    trino = world.engine()
    world.give("select", "t", "alice")
    reported: dict[str, Any] = good(trino.get(T + CHAIN, **OWN)).json()
    assert not KEYS & reported["config"].keys()
