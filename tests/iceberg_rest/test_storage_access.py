"""Access to table files on object stores: config, vended credentials and signer, by permission and requested mode."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError

from catalog.selectors.access import files
from icekeeper.kernel import clock
from icekeeper.kernel.ids import new_id
from storage.models import Warehouse
from tenancy.actor import Identity
from tenancy.authz.actions import Can
from tests.catalog_fixtures import SCHEMA
from tests.harness.named_callers import CallerClient, NamedCallers
from tests.harness.wsgi_client import ApiClient, Response, call
from tests.iceberg_rest.lake_fixtures import KEYS, VIEW, client_of, create_table, may_write, new_lake
from tests.management.warehouse_request_fixtures import keep_secrets, refuse
from tests.parts.minio import Minio

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("nothing_vended_before")]

TABLE = "/namespaces/ns/tables/t"
STORE = {"s3.region", "client.region", "s3.endpoint", "s3.path-style-access"}
SIGNER = {
    "s3.remote-signing-enabled", "s3.signer", "py-io-impl", "s3.signer.uri", "signer.uri", "s3.signer.endpoint",
    "signer.endpoint",
}  # fmt: skip
ENDS = {"s3.session-token-expires-at-ms", "expiration-time", "client.refresh-credentials-endpoint"}


def get(lake: ApiClient, path: str, **headers: str) -> Response:
    return call("GET", lake.base + path, headers={name.replace("_", "-"): value for name, value in headers.items()})


def asking(lake: ApiClient, asked: str, path: str = TABLE) -> dict[str, Any]:
    return dict(get(lake, path, x_iceberg_access_delegation=asked).json())


# --- requested and returned access -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("vends", "signs", "asked", "vended", "signed"),
    [
        (True, True, "", True, False),
        (True, True, "something-new", True, False),
        (True, True, "vended-credentials", True, False),
        (True, True, "remote-signing", False, True),
        (True, True, "vended-credentials, remote-signing", True, True),
        (True, True, "client-managed", False, False),
        (True, True, "client-managed,remote-signing", False, True),
        (True, False, "remote-signing", True, False),
        (True, False, "vended-credentials,remote-signing", True, False),
        (False, True, "", False, True),
        (False, True, "vended-credentials", False, True),
        (False, True, "client-managed", False, False),
        (False, False, "", False, False),
        (False, False, "vended-credentials,remote-signing", False, False),
    ],
)
def test_clients_get_the_requested_access_where_available(
    minio: Minio, bucket: str, bootstrapped: None, monkeypatch: pytest.MonkeyPatch,
    vends: bool, signs: bool, asked: str, vended: bool, signed: bool,
) -> None:  # fmt: skip
    keep_secrets(monkeypatch)
    lake = new_lake(minio, bucket, **{"sts-enabled": vends, "remote-signing-enabled": signs})
    create_table(lake)
    response = asking(lake, asked)
    expected = {"region"} | STORE | (KEYS if vended else set()) | (SIGNER if signed else set())
    assert set(response["config"]) == expected
    assert ("storage-credentials" in response) == vended
    credentials = asking(lake, asked, f"{TABLE}/credentials")["storage-credentials"]
    has_more = asked == "client-managed" and vends  # a client with vended credentials does not manage its own
    assert bool(credentials) == (vended or has_more)


def test_the_vended_config_opens_the_table(lake: ApiClient, minio: Minio) -> None:
    created = create_table(lake)
    response = lake.get(TABLE).json()
    location = created["metadata"]["location"]
    [credential] = response["storage-credentials"]
    assert credential["prefix"] == location
    assert set(credential["config"]) == STORE | KEYS | ENDS
    assert credential["config"]["s3.endpoint"] == response["config"]["s3.endpoint"] == minio.endpoint
    for config in (
        response["config"],
        credential["config"],
        created["config"],
        created["storage-credentials"][0]["config"],
    ):
        assert may_write(config, location)
        assert not may_write(config, location + "2")
        assert not may_write(config, location.rpartition("/")[0])
    warehouse = lake.base.rpartition("/")[2]
    refreshed_at = credential["config"]["client.refresh-credentials-endpoint"]
    assert refreshed_at == f"http://testserver/catalog/v1/{warehouse}/namespaces/ns/tables/t/credentials"
    ends_at = int(credential["config"]["expiration-time"]) / 1000
    assert 3500 < ends_at - time.time() <= 3610


def test_the_same_credential_is_vended_again_and_not_after_a_change(lake: ApiClient) -> None:
    create_table(lake)
    first, second = (lake.get(TABLE).json()["config"] for _ in range(2))
    assert first == second
    warehouse = lake.base.rpartition("/")[2]
    management = ApiClient(f"/management/v1/warehouse/{warehouse}")
    assert (
        management.post("/delete-profile", {"delete-profile": {"type": "soft", "expiration-seconds": 60}}).status == 200
    )
    third = lake.get(TABLE).json()["config"]
    assert third["s3.access-key-id"] != first["s3.access-key-id"]


def test_the_route_of_newer_credentials_has_names_of_any_kind(lake: ApiClient) -> None:
    name = "a/b c%2Fd\u00fc?#"
    assert lake.post("/namespaces", {"namespace": ["ns", "x.y"]}).status == 200
    created = lake.post("/namespaces/ns%1Fx.y/tables", {"name": name, "schema": SCHEMA}).json()
    where = created["storage-credentials"][0]["config"]["client.refresh-credentials-endpoint"]
    assert where.endswith("/namespaces/ns%1Fx.y/tables/a%2Fb%20c%252Fd%C3%BC%3F%23/credentials")
    response = call("GET", where.removeprefix("http://testserver"))
    assert [each["prefix"] for each in response.json()["storage-credentials"]] == [created["metadata"]["location"]]


def test_the_signer_is_found_by_the_table(lake: ApiClient) -> None:
    create_table(lake)
    config = asking(lake, "remote-signing")["config"]
    assert config["s3.signer.uri"] == config["signer.uri"] == "http://testserver/catalog/"
    assert config["s3.signer.endpoint"] == config["signer.endpoint"]
    path = config["signer.endpoint"].split("/")
    assert path[:3] == ["v1", "signer", lake.base.rpartition("/")[2]]
    assert (path[3], path[5:]) == ("tabular-id", ["v1", "aws", "s3", "sign"])


# --- permissions -----------------------------------------------------------------------------------------------------


def test_readers_get_less_and_others_nothing(lake: ApiClient, monkeypatch: pytest.MonkeyPatch) -> None:
    location = create_table(lake)["metadata"]["location"]
    with monkeypatch.context() as patched:
        refuse(patched, Can.GET_METADATA, Can.READ_DATA)
        config = lake.get(TABLE).json()["config"]
        assert (
            client_of(config).list_objects_v2(Bucket=location.split("/")[2], Prefix=location.split("/", 3)[3] + "/")[
                "KeyCount"
            ]
            == 1
        )
        assert not may_write(config, location)
        assert not may_write(lake.get(f"{TABLE}/credentials").json()["storage-credentials"][0]["config"], location)
    with monkeypatch.context() as patched:
        refuse(patched, Can.GET_METADATA)
        response = lake.get(TABLE).json()
        assert response["config"] == {}
        assert "storage-credentials" not in response
        assert lake.get(f"{TABLE}/credentials").refused(403, "TableActionForbidden", "read_data")
    assert may_write(lake.get(TABLE).json()["config"], location)


def test_a_token_that_may_only_read_opens_files_to_be_read(lake: ApiClient, request: pytest.FixtureRequest) -> None:
    location = create_table(lake)["metadata"]["location"]
    generic = lake.base.replace("/catalog/", "/lakekeeper/")
    target_location = (
        ApiClient(generic).post("/namespaces/ns/generic-tables", {"name": "g", "format": "lance"}).json()["table"]
    )
    callers: NamedCallers = request.getfixturevalue("callers")
    for token, scopes in (("reads", {"catalog:read"}), ("writes", {"catalog"}), ("all", None)):
        held = None if scopes is None else frozenset(scopes)
        callers.add(token, Identity(f"oidc~{token}", "oidc", "human", "R", scopes=held))
        of_tables, of_generic = CallerClient(lake.base, token), CallerClient(generic, token)
        vended = [
            (of_tables.get(TABLE).json()["config"], location),
            (of_tables.get(f"{TABLE}/credentials").json()["storage-credentials"][0]["config"], location),
            (of_generic.get("/namespaces/ns/generic-tables/g").json()["config"], target_location["base-location"]),
        ]
        assert [may_write(*each) for each in vended] == [token != "reads"] * len(vended), token
        bucket, _, key = location.removeprefix("s3://").partition("/")
        assert client_of(vended[0][0]).list_objects_v2(Bucket=bucket, Prefix=f"{key}/")["KeyCount"] > 0


# --- other responses -------------------------------------------------------------------------------------------------


def test_a_staged_table_can_be_written_before_it_is_there(lake: ApiClient) -> None:
    staged = create_table(lake, **{"stage-create": True})
    assert staged["metadata-location"] is None
    assert may_write(staged["config"], staged["metadata"]["location"])
    assert staged["storage-credentials"][0]["prefix"] == staged["metadata"]["location"]
    assert "s3.signer" not in asking(lake, "remote-signing", "/namespaces")


def test_a_registered_table_is_accessible_to_the_user_who_registered_it(lake: ApiClient) -> None:
    created = create_table(lake)
    assert lake.delete(TABLE).status == 204
    body = {"name": "again", "metadata-location": created["metadata-location"]}
    registered = lake.post("/namespaces/ns/register", body).json()
    assert may_write(registered["config"], created["metadata"]["location"])


def test_a_view_vends_readers_its_folder_in_its_config_only(lake: ApiClient) -> None:
    created = lake.post(
        "/namespaces/ns/views", {"name": "v", "schema": SCHEMA, "view-version": VIEW, "properties": {}}
    ).json()
    for response in (
        created,
        asking(lake, "", "/namespaces/ns/views/v"),
        asking(lake, "remote-signing", "/namespaces/ns/views/v"),
    ):
        assert "storage-credentials" not in response
        assert not set(response["config"]) & SIGNER
    assert set(created["config"]) == {"region"} | STORE | KEYS
    assert not may_write(created["config"], created["metadata"]["location"])


def test_generic_tables_are_as_tables(lake: ApiClient) -> None:
    generic = ApiClient(lake.base.replace("/catalog/", "/lakekeeper/"))
    created = generic.post("/namespaces/ns/generic-tables", {"name": "g", "format": "lance"}).json()
    loaded = generic.get("/namespaces/ns/generic-tables/g").json()
    assert set(loaded["storage-credentials"][0]["config"]) == STORE | KEYS | (
        ENDS - {"client.refresh-credentials-endpoint"}
    )
    for response in (created, loaded):
        assert may_write(response["config"], response["table"]["base-location"])
    listed = generic.get("/namespaces/ns/generic-tables/g/credentials").json()["storage-credentials"]
    assert [each["prefix"] for each in listed] == [created["table"]["base-location"]]


def test_a_table_that_moved_has_credentials_for_its_former_files_too(lake: ApiClient) -> None:
    created = create_table(lake)
    former = created["metadata"]["location"]
    new = former.rpartition("/")[0] + "/moved"
    assert (
        lake.post(TABLE, {"requirements": [], "updates": [{"action": "set-location", "location": new}]}).status == 200
    )
    credentials = lake.get(TABLE).json()["storage-credentials"]
    assert [each["prefix"] for each in credentials] == [new, former]
    assert [may_write(each["config"], each["prefix"]) for each in credentials] == [True, True]
    assert not may_write(credentials[0]["config"], former)


# --- ETags -----------------------------------------------------------------------------------------------------------


def test_an_etag_of_a_response_with_credentials_expires_with_them(
    lake: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_table(lake)
    loaded = lake.get(TABLE)
    etag = loaded.headers["ETag"]
    same = get(lake, TABLE, if_none_match=etag)
    assert (same.status, same.headers["ETag"]) == (304, etag)
    assert get(lake, TABLE, if_none_match=f'"x", W/{etag}').status == 304
    for other in ("*", f'{etag.split(".")[0]}"', f'{etag.split(".")[0]}."', f'{etag.split(".")[0]}.zz"', '"x.ffff"'):
        assert get(lake, TABLE, if_none_match=other).status == 200, other
    assert get(lake, TABLE, if_none_match=etag, x_iceberg_access_delegation="remote-signing").status == 200
    with monkeypatch.context() as patched:
        refuse(patched, Can.GET_METADATA, Can.READ_DATA)
        assert get(lake, TABLE, if_none_match=etag).status == 200
    later = clock.now_ms() + int(timedelta(minutes=31).total_seconds() * 1000)
    monkeypatch.setattr("catalog.api.render.now_ms", lambda: later)
    assert get(lake, TABLE, if_none_match=etag).status == 200


def test_an_etag_without_credentials_does_not_end(lake: ApiClient) -> None:
    create_table(lake)
    etag = get(lake, TABLE, x_iceberg_access_delegation="client-managed").headers["ETag"]
    assert "." not in etag
    assert get(lake, TABLE, if_none_match=etag, x_iceberg_access_delegation="client-managed").status == 304
    assert get(lake, TABLE, if_none_match="*", x_iceberg_access_delegation="client-managed").status == 304


# --- the warehouse's own config, and failures ------------------------------------------------------------------------


@pytest.mark.parametrize("soft", [True, False])
@pytest.mark.parametrize("pushed", [True, False])
def test_where_drops_can_be_undone_clients_get_the_setting_not_to_delete(
    minio: Minio, bucket: str, bootstrapped: None, monkeypatch: pytest.MonkeyPatch, soft: bool, pushed: bool
) -> None:
    keep_secrets(monkeypatch)
    key = "arn:aws:kms:eu-1:1:key/k"
    new_lake(minio, bucket, soft=soft, **{"push-s3-delete-disabled": pushed, "aws-kms-key-arn": key})
    defaults = ApiClient("/catalog/v1").get("/config?warehouse=lake").json()["defaults"]
    assert defaults.get("s3.delete-enabled") == ("false" if soft and pushed else None)
    assert (defaults["s3.sse.type"], defaults["s3.sse.key"]) == ("kms", key)


def test_a_load_reports_when_nothing_can_be_vended(lake: ApiClient, minio: Minio) -> None:
    create_table(lake)
    Warehouse.objects.update(version=99)  # credentials vended before do not apply to this version
    with minio.relay.refusing():
        assert lake.get(TABLE).refused(503, "StorageUnavailableException")
        response = get(lake, TABLE, x_iceberg_access_delegation="client-managed")
        assert response.status == 200
    assert lake.get(TABLE).status == 200


def test_a_created_object_is_returned_though_nothing_can_be_vended(lake: ApiClient, minio: Minio) -> None:
    """An error would be wrong: the table exists, and a retry of the client would conflict with it.

    No credential is vended for a location that is too long for a session policy.
    """
    prefix = "/".join([Warehouse.objects.get().location, *["a" * 200] * 4])
    created = create_table(lake, location=f"{prefix}/t")
    assert "storage-credentials" not in created
    assert set(created["config"]) == {"region"} | STORE
    assert lake.get(TABLE).refused(412, "ShortTermCredentialError")
    view = {"name": "v", "schema": SCHEMA, "view-version": VIEW, "properties": {}, "location": f"{prefix}/v"}
    assert set(lake.post("/namespaces/ns/views", view).json()["config"]) == {"region"} | STORE
    generic = ApiClient(lake.base.replace("/catalog/", "/lakekeeper/"))
    lance = {"name": "g", "format": "lance", "base-location": f"{prefix}/g"}
    assert "storage-credentials" not in generic.post("/namespaces/ns/generic-tables", lance).json()
    staged = {"name": "s", "schema": SCHEMA, "stage-create": True, "location": f"{prefix}/s"}
    assert lake.post("/namespaces/ns/tables", staged).refused(412, "ShortTermCredentialError")


def test_written_data_is_confirmed_though_the_database_is_lost_by_then(
    lake: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error that reports "nothing was changed" would be wrong."""
    view = {"name": "v", "schema": SCHEMA, "view-version": VIEW, "properties": {}}
    assert set(lake.post("/namespaces/ns/views", view).json()["config"]) >= KEYS

    def lost(**_: Any) -> None:
        raise OperationalError("terminating connection due to administrator command")

    monkeypatch.setattr(files, "files_of", lost)
    updates = [{"action": "set-properties", "updates": {"a": "b"}}]
    response = lake.post("/namespaces/ns/views/v", {"requirements": [], "updates": updates})
    assert response.status == 200
    assert (response.json()["config"], response.json()["metadata"]["properties"]) == ({}, {"a": "b"})
    key = {"Idempotency-Key": str(new_id())}
    responses = [lake.post("/namespaces/ns/tables", {"name": "t", "schema": SCHEMA}, **key) for _ in range(2)]
    assert [response.status for response in responses] == [200, 200]
    assert ["storage-credentials" in response.json() for response in responses] == [True, False]
