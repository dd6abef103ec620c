"""Remote signing: for which callers, requests and tables, and the order of the checks."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings

from catalog.models import Tabular
from catalog.services.tables.staging import StagingTicket
from storage.models import Warehouse
from tenancy.actor import ANONYMOUS, Identity
from tenancy.authz.actions import Can
from tests.harness.fingerprint import Fingerprint
from tests.harness.named_callers import CallerClient, NamedCallers
from tests.harness.statement_counts import counting, require_as_recorded
from tests.harness.wsgi_client import ApiClient, Response
from tests.management.warehouse_request_fixtures import NO_ONE, refuse, reported, use_settings
from tests.signing_fixtures import (
    BASE,
    HOST,
    KEY,
    add_tabular,
    ask,
    by_id,
    by_location,
    by_name,
    by_ticket,
    new_warehouse,
    s3_profile,
    to_sign,
)

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

OF_T = f"{BASE}/wh/t/a"
MISSING = "NoSuchTableLocationException"
READS_AND_WRITES = ("GET", "PUT")

Sign = Callable[..., Response]


@pytest.fixture
def table(signing: Warehouse) -> Tabular:
    return add_tabular(signing, "t")


def ways(warehouse: Warehouse, tabular: Tabular) -> list[str]:
    return [by_id(warehouse, tabular.pk), by_location(warehouse), by_name(warehouse, tabular.name)]


# --- the response ----------------------------------------------------------------------------------------------------


def test_the_response(signing: Warehouse, table: Tabular) -> None:
    sent = {"Host": [HOST], "Range": ["bytes=0-1"], "X-Amz-Meta-A": ["b"], "Authorization": ["x"], "x-amz-date": ["y"]}
    for target in ways(signing, table):
        response = ask(target, "GET", OF_T, headers=sent, properties={"a": "b"}, provider="s3", body="")
        assert response.status == 200, response.body
        reported = response.json()
        assert set(reported) == {"uri", "headers"}
        assert reported["uri"] == OF_T
        headers = reported["headers"]
        assert set(headers) == {
            "Host", "Range", "X-Amz-Meta-A", "authorization", "x-amz-date", "x-amz-content-sha256",
        }  # fmt: skip
        assert (headers["Range"], headers["x-amz-content-sha256"]) == (["bytes=0-1"], ["UNSIGNED-PAYLOAD"])
        signed = re.fullmatch(
            r"AWS4-HMAC-SHA256 Credential=an-id/\d{8}/eu-1/s3/aws4_request, SignedHeaders=(.*), Signature=[0-9a-f]{64}",
            headers["authorization"][0],
        )
        assert signed is not None
        assert signed[1] == "host;x-amz-content-sha256;x-amz-date;x-amz-meta-a"
        assert b"canary" not in response.body


@pytest.mark.parametrize(
    ("method", "query", "kept"),
    [
        ("GET", "", "private"), ("HEAD", "", "private"), ("PUT", "", "no-cache"), ("DELETE", "", "no-cache"),
        ("POST", "?uploads", "no-cache"),
    ],
)  # fmt: skip
def test_cache_headers(signing: Warehouse, table: Tabular, method: str, query: str, kept: str) -> None:
    for target in ways(signing, table):
        assert ask(target, method, OF_T + query).headers["Cache-Control"] == kept
    conditional = ask(by_id(signing, table.pk), method, OF_T + query, headers={"If-Match": ["x"]})
    assert conditional.headers["Cache-Control"] == "no-cache"


def test_nothing_is_changed(signing: Warehouse, table: Tabular, everything: Callable[[], Fingerprint]) -> None:
    before = everything()
    for method in ("GET", "PUT", "DELETE"):
        for target in ways(signing, table):
            assert ask(target, method, OF_T).status == 200
    assert everything() == before


# --- files of which table --------------------------------------------------------------------------------------------


def test_only_files_below_the_table(signing: Warehouse, table: Tabular) -> None:
    add_tabular(signing, "t2")
    deep = add_tabular(signing, "deep", location=f"{signing.location}/x/y/z")
    for target in ways(signing, table):
        assert ask(target, "GET", f"{BASE}/wh/t/data/p=1/a").status == 200
    for path in ("wh/t", "wh/u/a", "wh", "t/a", "other/t/a"):
        for target in (by_id(signing, table.pk), by_location(signing)):
            assert ask(target, "GET", f"{BASE}/{path}").refused(400, MISSING), path
        assert ask(by_name(signing), "GET", f"{BASE}/{path}").refused(400, "RequestUriMismatch")
    assert ask(by_location(signing), "GET", f"{BASE}/wh/x/y/z/a").status == 200
    assert ask(by_location(signing), "GET", f"{BASE}/wh/x/y/a").refused(400, MISSING)
    assert ask(by_id(signing, deep.pk), "GET", f"{BASE}/wh/x/y/z/a").status == 200
    assert ask(by_name(signing), "GET", f"{BASE}/wh/t2/a").refused(400, "RequestUriMismatch")


def test_a_client_may_send_the_id_of_another_table(signing: Warehouse, table: Tabular) -> None:
    """PyIceberg up to 0.9.1 sends every request to the signer of the first table."""
    other = add_tabular(signing, "other")
    for tabular_id in (other.pk, uuid4()):
        for method in READS_AND_WRITES:
            assert ask(by_id(signing, tabular_id), method, OF_T).status == 200
    both = "".join(f"<Object><Key>wh/{name}/a</Key></Object>" for name in ("t", "other"))
    for order in (both, both.replace("wh/t/", "wh/x/").replace("other", "t").replace("wh/x/", "wh/other/")):
        response = ask(by_id(signing, other.pk), "POST", f"{BASE}?delete", body=f"<Delete>{order}</Delete>")
        assert response.refused(400, "RequestUriMismatch")


def test_files_where_a_table_was_before_and_where_its_metadata_goes(signing: Warehouse) -> None:
    claims = (f"{signing.location}/before", f"{signing.location}/meta/data")
    moved = add_tabular(signing, "t", claims=claims)
    for target in ways(signing, moved):
        for folder in ("t", "before", "meta/data"):
            for method in READS_AND_WRITES:
                assert ask(target, method, f"{BASE}/wh/{folder}/a").status == 200
        assert ask(target, "GET", f"{BASE}/wh/meta/a").status == 400
    keys = "".join(f"<Object><Key>wh/{name}/a</Key></Object>" for name in ("t", "before"))
    deletion = ask(by_location(signing), "POST", f"{BASE}?delete", body=f"<Delete>{keys}</Delete>")
    assert deletion.refused(403, "RemoteSigningDisabled"), "only for its keys"
    copied = {"x-amz-copy-source": ["my-bucket/wh/before/a"]}
    assert ask(by_location(signing), "PUT", OF_T, headers=copied).refused(400, "RequestUriMismatch")


def test_soft_deleted_tables_can_be_read_until_they_expire(signing: Warehouse) -> None:
    dropped = add_tabular(signing, "t", dropped=True)
    body = "<Delete><Object><Key>wh/t/a</Key></Object></Delete>"
    for target in (by_id(signing, dropped.pk), by_location(signing), by_id(signing, uuid4())):
        for method, uri in (("GET", OF_T), ("HEAD", OF_T), ("GET", f"{BASE}?list-type=2&prefix=wh/t/")):
            assert ask(target, method, uri).status == 200
        for method, query in (("PUT", ""), ("DELETE", ""), ("POST", "?uploads")):
            assert ask(target, method, OF_T + query).refused(400, MISSING)
        assert ask(target, "POST", f"{BASE}?delete", body=body).refused(400, MISSING)
    assert ask(by_name(signing), "GET", OF_T).refused(404, "NoSuchTableException")


def test_views_have_no_files_to_sign(signing: Warehouse) -> None:
    view = add_tabular(signing, "t", kind=Tabular.Kind.VIEW)
    for target in (by_id(signing, view.pk), by_location(signing)):
        for method in READS_AND_WRITES:
            assert ask(target, method, OF_T).refused(400, MISSING)
    assert ask(by_name(signing), "GET", OF_T).refused(404, "NoSuchTableException")


def test_generic_tables_have(signing: Warehouse) -> None:
    generic = add_tabular(signing, "t", kind=Tabular.Kind.GENERIC_TABLE)
    for target in (by_id(signing, generic.pk), by_location(signing)):
        for method in READS_AND_WRITES:
            assert ask(target, method, OF_T).status == 200
    assert ask(by_name(signing), "GET", OF_T).refused(404, "NoSuchTableException")


def test_tables_of_other_warehouses(
    create_signing: Callable[..., Warehouse], signing: Warehouse, table: Tabular
) -> None:
    other = new_warehouse(s3_profile(**{"key-prefix": "other"}), KEY, "other")
    theirs = add_tabular(other, "t")
    for target in (by_id(signing, theirs.pk), by_location(signing)):
        assert ask(target, "GET", f"{BASE}/other/t/a").refused(400, MISSING)
    assert ask(by_id(other, table.pk), "GET", OF_T).refused(400, MISSING)
    assert ask(by_id(other, theirs.pk), "GET", f"{BASE}/other/t/a").status == 200


def test_at_aws_all_is_signed_with_the_warehouses_own_keys(
    create_signing: Callable[..., Warehouse], monkeypatch: pytest.MonkeyPatch
) -> None:
    """AWS checks the whole signature."""
    warehouse = create_signing(endpoint=None, flavor="aws")
    storage = settings.ICEKEEPER.storage.model_copy(update={"sign_writes_with_warehouse_keys": False})
    use_settings(monkeypatch, storage=storage)
    add_tabular(warehouse, "t")
    at, body = "https://s3.eu-1.amazonaws.com/my-bucket", "<Delete><Object><Key>wh/t/a</Key></Object></Delete>"
    for method, uri in (
        ("GET", f"{at}/wh/t/a"), ("PUT", f"{at}/wh/t/a"), ("DELETE", f"{at}/wh/t/a"), ("POST", f"{at}/wh/t/a?uploads"),
        ("POST", f"{at}?delete"),
    ):  # fmt: skip
        assert ask(by_location(warehouse), method, uri, body=body).status == 200, (method, uri)


# --- permissions -----------------------------------------------------------------------------------------------------


def test_permissions_depend_on_the_signed_request(
    signing: Warehouse, table: Tabular, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = refuse(monkeypatch, Can.USE, Can.READ_DATA, Can.WRITE_DATA).asked
    body = "<Delete><Object><Key>wh/t/a</Key></Object></Delete>"
    for method, uri, right in (
        ("GET", OF_T, Can.READ_DATA), ("HEAD", OF_T, Can.READ_DATA), ("PUT", OF_T, Can.WRITE_DATA),
        ("DELETE", OF_T, Can.WRITE_DATA), ("POST", f"{OF_T}?uploads", Can.WRITE_DATA),
        ("GET", f"{BASE}?list-type=2&prefix=wh/t/", Can.READ_DATA), ("POST", f"{BASE}?delete", Can.WRITE_DATA),
    ):  # fmt: skip
        for target in ways(signing, table):
            asked.clear()
            assert ask(target, method, uri, body=body).status == (403 if "?delete" in uri else 200)
            assert asked == [(Can.USE, "warehouse"), (right, "table")]


@pytest.mark.parametrize("kind", [Tabular.Kind.TABLE, Tabular.Kind.GENERIC_TABLE])
def test_hidden_tables_are_not_found(signing: Warehouse, kind: Tabular.Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = add_tabular(signing, "t", kind=kind)
    refuse(monkeypatch, Can.USE)
    for target, wire_type in ((by_id(signing, hidden.pk), MISSING), (by_location(signing), MISSING)):
        for method in READS_AND_WRITES:
            there, nowhere = (ask(target, method, f"{BASE}/wh/{name}/a").error for name in ("t", "none"))
            assert (there["type"], there["code"], there["message"]) == (wire_type, 400, nowhere["message"])
    named = ask(by_name(signing), "GET", OF_T).error
    assert (named["code"], named["message"]) == (404, "Table does not exist: ns.t")


def test_viewers_of_a_table_see_which_action_is_denied(
    signing: Warehouse, table: Tabular, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, Can.USE, Can.GET_METADATA, Can.READ_DATA)
    for target in ways(signing, table):
        assert ask(target, "GET", OF_T).status == 200
        assert ask(target, "PUT", OF_T).refused(403, "TableActionForbidden", "write_data")
    refuse(monkeypatch, Can.READ_DATA, Can.WRITE_DATA)
    for target in ways(signing, table):
        hidden, missing = (ask(at, "GET", OF_T) for at in (target, target.replace(str(signing.pk), NO_ONE)))
        assert hidden.refused(404, "NoSuchWarehouseException")
        assert reported(hidden, signing.pk) == reported(missing, NO_ONE)


def test_a_token_that_may_only_read_gets_signatures_to_read(
    signing: Warehouse, table: Tabular, callers: NamedCallers
) -> None:
    scopes = frozenset({"catalog:read"})
    callers.add("reader", Identity("oidc~reader", "oidc", "human", "R", "r@example.com", (), scopes=scopes))
    callers.user("alice")
    for target in ways(signing, table):
        reader = CallerClient(target, "reader")
        assert reader.post("", to_sign("GET", OF_T)).status == 200
        for method in ("PUT", "DELETE", "PATCH"):
            assert reader.post("", to_sign(method, OF_T)).refused(403, "InsufficientScope")
        assert CallerClient(target, "alice").post("", to_sign("PUT", OF_T)).status == 200
        assert ApiClient(target).post("", to_sign("GET", OF_T)).status == 401


def test_in_maintenance_mode_only_reads_are_signed(
    signing: Warehouse, table: Tabular, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenancy.maintenance.is_read_only", lambda: True)
    for target in ways(signing, table):
        assert ask(target, "GET", OF_T).status == 200
        assert ask(target, "PUT", OF_T).refused(503, "MaintenanceModeError")


# --- order of the checks ---------------------------------------------------------------------------------------------


def test_the_order_of_the_checks(signing: Warehouse, table: Tabular, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request has all faults of the previous ones except the first."""
    faults: list[tuple[dict[str, Any], int, str]] = [
        ({"method": "PUT", "uri": "http://evil/wh/none/a"}, 400, "UriNotS3"),
        ({"method": "PATCH", "uri": "http://evil/wh/none/a"}, 405, "MethodNotAllowed"),
        ({"method": "PATCH", "uri": "ftp://evil/wh/none/a"}, 400, "UriSchemeNotSupported"),
    ]
    for target in (by_id(signing, table.pk), by_location(signing), by_name(signing)):
        bad_region = {"region": "eu-2"}
        assert ask(target, "GET", f"{BASE}/wh/t/a", **bad_region).refused(400, "RegionMismatch")
        with_list = {**bad_region, "headers": {"x-amz-acl": ["private"]}}
        assert ask(target, "GET", f"{BASE}/wh/t/a", **with_list).refused(400, "UnsupportedHeader")
        for fault, status, wire_type in faults:
            assert ApiClient(target).post("", to_sign("", "", **bad_region) | fault).refused(status, wire_type)
    refuse(monkeypatch, Can.USE, Can.GET_METADATA)
    hidden = {"region": "eu-2"}
    for target in (by_id(signing, table.pk), by_location(signing), by_name(signing)):
        assert ask(target, "GET", f"{BASE}/wh/t/a", **hidden).refused(403, "TableActionForbidden")
    refuse(monkeypatch)
    for fault, _, _ in faults:
        response = ApiClient(by_location(signing)).post("", to_sign("GET", "") | fault)
        assert response.refused(404, "NoSuchWarehouseException"), (
            "nothing is read without permission to use the warehouse"
        )


def test_regions_are_checked_before_locations(signing: Warehouse, table: Tabular) -> None:
    add_tabular(signing, "u")
    uri, body = (
        f"{BASE}?delete",
        "<Delete><Object><Key>wh/t/a</Key></Object><Object><Key>wh/u/a</Key></Object></Delete>",
    )
    assert ask(by_location(signing), "POST", uri, body=body, region="eu-2").refused(400, "RegionMismatch")
    assert ask(by_location(signing), "POST", uri, body=body).refused(
        400, "RequestUriMismatch", "below s3://my-bucket/wh/t"
    )
    assert ask(by_location(signing), "POST", uri).refused(400, "DeleteWithoutBody")


def test_a_warehouse_that_signs_nothing(create_signing: Callable[..., Warehouse]) -> None:
    warehouse = create_signing(**{"remote-signing-enabled": False})
    table = add_tabular(warehouse, "t")
    for target in [*ways(warehouse, table), by_id(warehouse, uuid4())]:
        assert ask(target, "GET", OF_T).refused(403, "RemoteSigningDisabled")
        assert ask(target, "PATCH", "ftp://evil").refused(403, "RemoteSigningDisabled")


def test_a_change_of_the_profile_counts_at_once(signing: Warehouse, table: Tabular) -> None:
    assert ask(by_id(signing, table.pk), "GET", OF_T).status == 200
    changed = signing.storage_profile | {"remote-signing-enabled": False}
    Warehouse.objects.filter(pk=signing.pk).update(storage_profile=changed, version=signing.version + 1)
    assert ask(by_id(signing, table.pk), "GET", OF_T).refused(403, "RemoteSigningDisabled")


def test_local_files_are_not_reached_by_requests(warehouse: Warehouse) -> None:
    local = add_tabular(warehouse, "t")
    for target in [*ways(warehouse, local), by_id(warehouse, uuid4()), by_name(warehouse, "none")]:
        for method in ("GET", "PUT", "PATCH"):
            assert ask(target, method, OF_T).refused(400, "UnsupportedStorageType", "local")


def test_unknown_warehouses(signing: Warehouse, table: Tabular) -> None:
    Warehouse.objects.update(status="inactive")
    for target in ways(signing, table):
        assert ask(target, "GET", OF_T).refused(404, "NoSuchWarehouseException")
        missing = target.replace(str(signing.pk), str(uuid4()))
        assert ask(missing, "GET", OF_T).refused(404, "NoSuchWarehouseException")
        assert ask(target.replace(str(signing.pk), "wh"), "GET", OF_T).refused(400, "PrefixIsNotWarehouseID")
    assert ask(by_id(signing, "none"), "GET", OF_T).refused(404, "NoSuchTableException")


def test_without_a_warehouse_nothing_is_signed(signing: Warehouse, table: Tabular) -> None:
    for body in (to_sign("GET", OF_T), {}):
        response = ApiClient("/catalog/v1/aws/s3/sign").post("", body)
        assert response.refused(400, "NoPrefixProvided", "signer.endpoint")


def test_a_warehouse_without_keys(create_signing: Callable[..., Warehouse]) -> None:
    warehouse = new_warehouse(s3_profile(), None)
    table = add_tabular(warehouse, "t")
    assert ask(by_id(warehouse, table.pk), "GET", OF_T).refused(412, "ShortTermCredentialError", "no credential")


# --- statements and object-store calls -------------------------------------------------------------------------------


def test_counts_are_as_recorded(signing: Warehouse, table: Tabular) -> None:
    add_tabular(signing, "moved", claims=(f"{signing.location}/before",))
    ticket = StagingTicket.of(
        actor=ANONYMOUS, warehouse_id=signing.pk, levels=("ns",), location=f"{signing.location}/new"
    ).encode()
    counted: dict[str, dict[str, int]] = {}
    for name, target, uri in (
        ("first", by_id(signing, table.pk), OF_T),  # reads the credential, too
        ("by_id", by_id(signing, table.pk), OF_T),
        ("by_name", by_name(signing), OF_T),
        ("by_location", by_location(signing), OF_T),
        ("by_claim", by_location(signing), f"{BASE}/wh/before/a"),
        ("by_id_of_another", by_id(signing, uuid4()), OF_T),
        ("staged", by_ticket(signing, ticket), f"{BASE}/wh/new/a"),
    ):
        with counting() as seen:
            assert ask(target, "PUT", uri).status == 200
        counted[name] = dict(sorted(seen.items()))
    require_as_recorded("signing", counted)
    assert {counted[name]["statements"] for name in ("by_id", "by_name")} == {1}


# --- hostile requests ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"region": None}, {"region": 7}, {"uri": None}, {"uri": ["x"]}, {"method": None}, {"method": "TRACE"},
        {"method": "get"}, {"method": {}}, {"headers": None}, {"headers": []}, {"headers": {"host": HOST}},
        {"headers": {"host": None}}, {"headers": {"host": [1]}}, {"headers": {"host": [None]}}, {"body": 7},
        {"properties": {"a": 1}}, {"properties": []}, {"provider": []}, {"provider": "gcs"}, {"provider": ""},
    ],
)  # fmt: skip
def test_a_malformed_request_is_refused(signing: Warehouse, table: Tabular, change: dict[str, Any]) -> None:
    for target in ways(signing, table):
        response = ApiClient(target).post("", to_sign("GET", OF_T) | change)
        assert response.refused(400, "BadRequestException", next(iter(change)))


def test_optional_members(signing: Warehouse, table: Tabular) -> None:
    absent = {"properties": None, "body": None, "provider": None, "unknown": 1}
    assert ApiClient(by_id(signing, table.pk)).post("", to_sign("GET", OF_T) | absent).status == 200


def test_large_requests_are_read_and_refused(signing: Warehouse, table: Tabular) -> None:
    target = by_id(signing, table.pk)
    assert ask(target, "POST", f"{BASE}?delete", body="x" * 10_000_000).refused(400, "InvalidDeleteBody")
    assert ask(target, "GET", OF_T + "x" * 1_000_000).refused(400, "UriNotS3")
    many = {f"a{number}": ["x"] for number in range(10_000)}
    assert ask(target, "GET", OF_T, headers=many).refused(400, "UnsupportedHeader")
    assert ask(target, "GET", f"{BASE}/wh" + "/u" * 500).refused(400, MISSING)


def test_nothing_secret_is_shown(signing: Warehouse, table: Tabular, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG"):
        responses = [ask(target, method, OF_T) for target in ways(signing, table) for method in ("GET", "PUT", "PATCH")]
    assert all(b"canary" not in response.body for response in responses)
    assert "canary" not in caplog.text
