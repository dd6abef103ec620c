"""Signature enforcement of real stores, its record in the warehouse, and the writes that are signed accordingly."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from django.db.models import F

from storage.models import Warehouse
from storage.services import warehouse_storage
from storage.signing.enforcement import Enforcement
from storage.validation.access import ENFORCEMENT_FINDINGS, NO_OWN_SIGNATURES, NO_VENDING, run_store_checks
from tests.harness.fingerprint import Fingerprint
from tests.harness.wsgi_client import ApiClient, Response
from tests.management.warehouse_request_fixtures import keep_secrets, use_settings
from tests.parts.minio import Minio
from tests.parts.recorder import Recorded, Recorder, Reply
from tests.parts.s3 import REGION, S3Server
from tests.parts.seaweedfs import SeaweedFS
from tests.signing_fixtures import SigningClient, add_tabular, authorize_signatures, sign_writes

pytestmark = pytest.mark.django_db

_numbers = count(1)
SCOPE, SIGNING = "vended-credentials-scope-enforced", "remote-signing"
EXTENSIONS = {"x-icekeeper-extensions": "true"}

api = ApiClient("/management/v1")


@pytest.fixture(autouse=True)
def _stores_are_asked(bootstrapped: None, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_secrets(monkeypatch)
    use_settings(monkeypatch, skip_storage_validation=False)


@pytest.fixture
def authorized(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enable authorization: it decides which requests are signed; the caller has every privilege."""
    authorize_signatures(monkeypatch)


@pytest.fixture
def location(seaweedfs: SeaweedFS) -> str:
    """A new, empty bucket of SeaweedFS."""
    return seaweedfs.create_bucket(f"enforcement-{next(_numbers)}")


def create(store: S3Server, bucket: str, **members: Any) -> Response:
    own = store.storage(bucket, "wh", **{"sts-enabled": False, **members})
    return api.post("/warehouse", {"warehouse-name": f"wh-{next(_numbers)}", **own})


def created(store: S3Server, bucket: str, **members: Any) -> Warehouse:
    response = create(store, bucket, **members)
    assert response.status == 201, response.body
    return Warehouse.objects.get(pk=response.json()["id"])


def checks_of(response: Response) -> dict[str, dict[str, Any]]:
    assert response.status == 200, response.body
    return {each["name"]: each for each in response.json()["checks"]}


def validate_access(warehouse: Warehouse, **headers: str) -> dict[str, dict[str, Any]]:
    return checks_of(api.post(f"/warehouse/{warehouse.pk}/storage/validate-access", None, **headers))


def client_of(warehouse: Warehouse) -> SigningClient:
    return SigningClient.of(warehouse, add_tabular(warehouse, f"t{next(_numbers)}").pk, REGION)


def addresses(warehouse: Warehouse) -> tuple[str, str, str]:
    """Return the URLs of an object of the newest table and of the bucket, and the key of the object."""
    table = warehouse.tabulars.latest("id").location
    endpoint, bucket = warehouse.storage_profile["endpoint"], warehouse.storage_profile["bucket"]
    key = f"{table.removeprefix(f's3://{bucket}/')}/data/a"
    return f"{endpoint}{bucket}/{key}", f"{endpoint}{bucket}", key


def deletion(key: str) -> str:
    return f"<Delete><Object><Key>{key}</Key></Object></Delete>"


def require_writes(warehouse: Warehouse) -> None:
    client = client_of(warehouse)
    uri, _, _ = addresses(warehouse)
    assert client.send("PUT", uri, b"content").status_code == 200
    assert client.send("GET", uri).content == b"content"
    assert client.send("DELETE", uri).status_code == 204


def require_bulk_deletes(warehouse: Warehouse) -> None:
    client = client_of(warehouse)
    uri, at, key = addresses(warehouse)
    assert client.send("PUT", uri, b"content").status_code == 200
    assert client.send("POST", f"{at}?delete", deletion(key).encode()).status_code == 200
    assert client.send("GET", uri).status_code == 404


def require_reads_alone(warehouse: Warehouse, advice: str = "sts-enabled") -> None:
    client = client_of(warehouse)
    uri, at, key = addresses(warehouse)
    assert client.sign("GET", uri).status == 200
    for method in ("PUT", "DELETE"):
        assert client.sign(method, uri).refused(403, "RemoteSigningDisabled", "SIGN_WRITES_WITH_WAREHOUSE_KEYS")
        assert client.sign(method, uri).refused(403, "RemoteSigningDisabled", advice)
    assert client.sign("POST", f"{at}?delete", body=deletion(key)).refused(403, "RemoteSigningDisabled", "sts-enabled")


def test_minio_enforces_too_little_and_accepts_writes_without_authorization(minio: Minio, bucket: str) -> None:
    warehouse = created(minio, bucket)
    assert warehouse.enforced_signatures == Enforcement.NONE
    assert minio.keys(bucket) == []
    require_writes(warehouse)
    require_bulk_deletes(warehouse)


def test_an_unwritable_warehouse_is_refused(
    minio: Minio, bucket: str, authorized: None, everything: Callable[[], Fingerprint]
) -> None:
    before = everything()
    response = create(minio, bucket)
    assert response.refused(412, "RemoteSigningNotEnforced", "Storage validation failed [remote-signing]")
    message = response.json()["error"]["message"]
    assert "sts-enabled" in message
    assert "ICEKEEPER__STORAGE__SIGN_WRITES_WITH_WAREHOUSE_KEYS" in message
    assert minio.keys(bucket) == []
    assert everything() == before


def test_each_cure_lets_it_be_created(
    minio: Minio, bucket: str, authorized: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrowed = created(minio, bucket, **{"sts-enabled": True, "key-prefix": "a"})
    assert narrowed.enforced_signatures is None
    require_writes(narrowed)
    require_bulk_deletes(narrowed)
    unsigned = created(minio, bucket, **{"remote-signing-enabled": False, "key-prefix": "b"})
    assert unsigned.enforced_signatures is None
    sign_writes(monkeypatch)
    allowed = created(minio, bucket, **{"key-prefix": "c"})
    assert allowed.enforced_signatures == Enforcement.NONE
    require_writes(allowed)
    client = client_of(allowed)
    _, at, key = addresses(allowed)
    assert client.sign("POST", f"{at}?delete", body=deletion(key)).refused(403, "RemoteSigningDisabled", "one by one")


def test_an_update_is_refused_for_the_same_reason(
    minio: Minio, bucket: str, authorized: None, everything: Callable[[], Fingerprint]
) -> None:
    warehouse = created(minio, bucket, **{"sts-enabled": True})
    before = everything()
    response = api.post(f"/warehouse/{warehouse.pk}/storage", minio.storage(bucket, "wh", **{"sts-enabled": False}))
    assert response.refused(412, "RemoteSigningNotEnforced", "[remote-signing]")
    assert everything() == before


def test_seaweedfs_enforces_all_but_bodies(seaweedfs: SeaweedFS, location: str, authorized: None) -> None:
    warehouse = created(seaweedfs, location)
    assert warehouse.enforced_signatures == Enforcement.REQUESTS
    require_writes(warehouse)
    client = client_of(warehouse)
    _, at, key = addresses(warehouse)
    assert client.sign("POST", f"{at}?delete", body=deletion(key)).refused(403, "RemoteSigningDisabled", "one by one")


def enforcing_all(request: Recorded, ask: Callable[[], Reply]) -> Reply:
    """Enforce signatures as AWS does: no unsigned `x-amz-` header, and no body that differs from the signed hash."""
    found = re.search("SignedHeaders=([^,]+)", request.headers.get("authorization", ""))
    signed = set(found[1].split(";")) if found else set()
    digest = request.headers.get("x-amz-content-sha256", "")
    is_other_body = len(digest) == 64 and hashlib.sha256(request.body).hexdigest() != digest
    if is_other_body or any(name.startswith("x-amz-") and name not in signed for name in request.headers):
        return Reply(403, {}, b"<Error><Code>SignatureDoesNotMatch</Code></Error>")
    return ask()


def test_a_store_that_enforces_everything_gets_all_signed(
    minio: Minio, bucket: str, recorder: Recorder, authorized: None
) -> None:
    recorder.answerer = enforcing_all
    warehouse = created(minio, bucket, endpoint=recorder.endpoint)
    assert warehouse.enforced_signatures == Enforcement.REQUESTS_AND_BODIES
    assert minio.keys(bucket) == []
    require_writes(warehouse)
    require_bulk_deletes(warehouse)


@pytest.mark.parametrize(
    "header", ["x-oss-copy-source", "x-obs-copy-source", "x-cos-copy-source", "x-goog-copy-source"]
)
def test_a_store_that_obeys_a_copy_header_of_its_own_does_not_enforce(
    minio: Minio, bucket: str, recorder: Recorder, authorized: None, header: str
) -> None:
    sources: list[str] = []

    def copying(request: Recorded, ask: Callable[[], Reply]) -> Reply:
        if header not in request.headers:
            return enforcing_all(request, ask)
        sources.append(request.headers[header])
        source = {"Bucket": bucket, "Key": sources[-1].partition("/wh/")[2].join(("wh/", ""))}
        key = request.target.removeprefix(f"/{bucket}/")
        minio.client().copy_object(Bucket=bucket, Key=key, CopySource=source)
        return Reply(200, {}, b"")

    recorder.answerer = copying
    assert create(minio, bucket, endpoint=recorder.endpoint).refused(412, "RemoteSigningNotEnforced")
    host = recorder.endpoint.partition("//")[2].strip("/")
    assert sources[0].startswith(f"{bucket}.{host}/wh/" if header == "x-cos-copy-source" else f"/{bucket}/wh/")
    assert minio.keys(bucket) == []


def test_a_store_that_ignores_or_fails_at_copy_headers_of_others_enforces(
    minio: Minio, bucket: str, recorder: Recorder, authorized: None
) -> None:
    def failing(request: Recorded, ask: Callable[[], Reply]) -> Reply:
        return Reply(500, {}, b"") if "x-oss-copy-source" in request.headers else enforcing_all(request, ask)

    for answerer in (failing, enforcing_all):
        recorder.answerer = answerer
        warehouse = created(minio, bucket, **{"endpoint": recorder.endpoint, "key-prefix": answerer.__name__})
        assert warehouse.enforced_signatures == Enforcement.REQUESTS_AND_BODIES


def test_a_store_that_obeys_added_parameters_does_not_enforce(
    minio: Minio, bucket: str, recorder: Recorder, authorized: None
) -> None:
    """In every other respect, this store enforces signatures."""

    def obeying(request: Recorded, ask: Callable[[], Reply]) -> Reply:
        return Reply(200, {}, b"") if "x-id=" in request.target else enforcing_all(request, ask)

    recorder.answerer = obeying
    assert create(minio, bucket, endpoint=recorder.endpoint).refused(412, "RemoteSigningNotEnforced")
    assert minio.keys(bucket) == []


def test_warehouses_that_were_never_probed_are_probed_by_an_update(
    seaweedfs: SeaweedFS, location: str, authorized: None
) -> None:
    """The warehouse was created by an earlier version, or with validation switched off."""
    warehouse = created(seaweedfs, location)
    Warehouse.objects.filter(pk=warehouse.pk).update(enforced_signatures=None, version=warehouse.version + 1)
    require_reads_alone(warehouse, "Update the storage credential")
    body = {"new-storage-credential": seaweedfs.credential}
    assert api.post(f"/warehouse/{warehouse.pk}/storage-credential", body).status == 200
    warehouse.refresh_from_db()
    assert warehouse.enforced_signatures == Enforcement.REQUESTS
    require_writes(warehouse)


def set_kept(warehouse: Warehouse, kept: Enforcement | None) -> None:
    """Set the result of an earlier validation."""
    Warehouse.objects.filter(pk=warehouse.pk).update(enforced_signatures=kept, version=F("version") + 1)


def test_validation_of_access_fails_where_something_else_is_recorded(
    seaweedfs: SeaweedFS, location: str, minio: Minio, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both directions: the signer uses the recorded result, which an update of the credential changes."""
    better, worse = created(seaweedfs, location), created(minio, bucket)
    authorize_signatures(monkeypatch)

    def require_not_recorded(store: S3Server, warehouse: Warehouse, former: Enforcement | None) -> None:
        set_kept(warehouse, former)
        version = Warehouse.objects.get(pk=warehouse.pk).version
        error = validate_access(warehouse, **EXTENSIONS)[SIGNING]["error"]
        assert error["type"] == "RemoteSigningFindingNotRecorded"
        assert "Update the storage credential" in error["message"]
        assert Warehouse.objects.get(pk=warehouse.pk).version == version, "validation changes nothing"
        body = {"new-storage-credential": store.credential}
        assert api.post(f"/warehouse/{warehouse.pk}/storage-credential", body).status == 200
        warehouse.refresh_from_db()

    for former in (None, Enforcement.NONE, Enforcement.REQUESTS_AND_BODIES):
        require_not_recorded(seaweedfs, better, former)
        assert better.enforced_signatures == Enforcement.REQUESTS
        assert validate_access(better, **EXTENSIONS)[SIGNING]["status"] == "passed"
        require_writes(better)
    for former in (Enforcement.REQUESTS, Enforcement.REQUESTS_AND_BODIES):
        require_not_recorded(minio, worse, former)
        assert worse.enforced_signatures == Enforcement.NONE
        error = validate_access(worse, **EXTENSIONS)[SIGNING]["error"]
        assert error["type"] == "RemoteSigningNotEnforced"
        require_reads_alone(worse)


def test_keys_are_changed_where_the_store_does_not_enforce_signatures(
    minio: Minio, bucket: str, authorized: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The profile stays the same and writes stay unsigned; a changed profile is rejected."""
    with monkeypatch.context() as patched:
        sign_writes(patched)
        warehouse = created(minio, bucket)
    own, at = minio.storage(bucket, "wh", **{"sts-enabled": False}), f"/warehouse/{warehouse.pk}"
    credential = {"new-storage-credential": minio.credential}
    for former in (Enforcement.NONE, None, Enforcement.REQUESTS):
        for route, body in (("storage-credential", credential), ("storage", own)):
            set_kept(warehouse, former)
            former_secret = Warehouse.objects.get(pk=warehouse.pk).secret_id
            response = api.post(f"{at}/{route}", body)
            assert response.status == 200, response.body
            warehouse.refresh_from_db()
            assert warehouse.secret_id != former_secret
            assert warehouse.enforced_signatures == Enforcement.NONE
            require_reads_alone(warehouse, "its store does not enforce signatures. Set sts-enabled")
    assert api.post(f"{at}/storage/validate-credential", credential).json()["valid"] is True
    assert api.post(f"{at}/storage/validate-access").json()["valid"] is False
    changed = minio.storage(bucket, "wh", **{"sts-enabled": False, "sts-token-validity-seconds": 900})
    assert api.post(f"{at}/storage", changed).refused(412, "RemoteSigningNotEnforced")


def test_a_profile_that_another_request_changed_is_no_unchanged_one(
    minio: Minio, bucket: str, authorized: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        sign_writes(patched)
        warehouse = created(minio, bucket)
    unchanged = run_store_checks

    def run_and_change(*args: Any) -> Enforcement | None:
        narrowed = warehouse.storage_profile | {"sts-enabled": True}
        Warehouse.objects.filter(pk=warehouse.pk).update(storage_profile=narrowed)
        return unchanged(*args)

    monkeypatch.setattr(warehouse_storage, "run_store_checks", run_and_change)
    own = minio.storage(bucket, "wh", **{"sts-enabled": False})
    assert api.post(f"/warehouse/{warehouse.pk}/storage", own).refused(409, "ConflictException")
    assert Warehouse.objects.get(pk=warehouse.pk).storage_profile["sts-enabled"] is True


def test_without_validation_the_result_for_an_unchanged_profile_is_kept(
    seaweedfs: SeaweedFS, location: str, authorized: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = created(seaweedfs, location, **{"key-prefix": "known"})
    use_settings(monkeypatch, skip_storage_validation=True)
    unknown = created(seaweedfs, location, **{"key-prefix": "unknown"})
    assert unknown.enforced_signatures is None
    require_reads_alone(unknown)
    body = {"new-storage-credential": seaweedfs.credential}
    assert api.post(f"/warehouse/{known.pk}/storage-credential", body).status == 200
    known.refresh_from_db()
    assert known.enforced_signatures == Enforcement.REQUESTS
    changed = seaweedfs.storage(location, "known", **{"sts-enabled": False, "sts-token-validity-seconds": 900})
    assert api.post(f"/warehouse/{known.pk}/storage", changed).status == 200
    known.refresh_from_db()
    assert known.enforced_signatures is None


def test_validation_reports_its_result(minio: Minio, bucket: str, seaweedfs: SeaweedFS, location: str) -> None:
    for store, of, found in ((minio, bucket, Enforcement.NONE), (seaweedfs, location, Enforcement.REQUESTS)):
        warehouse = created(store, of)
        checks = validate_access(warehouse)
        assert SIGNING not in checks, "Lakekeeper's clients do not know this name"
        finding = ENFORCEMENT_FINDINGS[found]
        assert (checks[SCOPE]["status"], checks[SCOPE]["reason"]) == ("skipped", f"{NO_VENDING} {finding}")
        own = validate_access(warehouse, **EXTENSIONS)
        assert own[SCOPE]["reason"] == NO_VENDING
        assert own[SIGNING]["reason"] == finding
        assert own[SIGNING]["status"] == ("skipped" if found is Enforcement.NONE else "passed")
    for store, of in ((minio, bucket), (seaweedfs, location)):
        narrowed = created(store, of, **{"sts-enabled": True, "key-prefix": "other"})
        assert validate_access(narrowed, **EXTENSIONS)[SIGNING]["reason"] == NO_OWN_SIGNATURES
        assert validate_access(narrowed)[SCOPE]["status"] == "passed"
        assert store.keys(of) == []


def test_validation_shows_why_a_warehouse_would_be_refused(minio: Minio, bucket: str, authorized: None) -> None:
    body = {"warehouse-name": "wh", **minio.storage(bucket, "wh", **{"sts-enabled": False})}
    response = api.post("/warehouse-creation-validation", body)
    assert response.json()["valid"] is False
    failed = checks_of(response)[SCOPE]
    assert failed["status"] == "failed"
    assert failed["error"]["message"].startswith("remote-signing: The store does not enforce signatures")
    own = checks_of(api.post("/warehouse-creation-validation", body, **EXTENSIONS))
    assert (own[SIGNING]["status"], own[SCOPE]["status"]) == ("failed", "skipped")
    assert minio.keys(bucket) == []
