"""Warehouse secrets never appear in responses or logs, whether stores accept them, reject them or are unavailable."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
import requests
from django.conf import settings

from storage.models import Warehouse
from tests.catalog_fixtures import SCHEMA
from tests.harness.wsgi_client import ApiClient, Response, call
from tests.parts.minio import Minio
from tests.parts.s3 import REGION
from tests.security.canary_fixtures import CANARY, leaks, planted
from tests.security.test_canaries import SECRET_SETTINGS, at_debug, choose, run
from tests.signing_fixtures import new_warehouse, to_sign
from tests.storage.cloud_fixtures import private_key
from tests.storage.open_store_fixtures import use_storage_settings
from tests.storage.vending.fake_service import FakeService, said

pytestmark = pytest.mark.django_db

NO_ONE, NO_ONE_BY_TLS = "http://127.0.0.1:1", "https://127.0.0.1:1"


class PlantedMinio(Minio):
    """A MinIO whose secret key is a canary. Its access key id is not, because each signature contains it."""

    password = f"secret-{CANARY}"


@pytest.fixture(scope="module")
def planted_minio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlantedMinio]:
    with PlantedMinio(tmp_path_factory.mktemp("planted") / "minio") as server:
        server.create_bucket("planted")
        yield server


@pytest.fixture(autouse=True)
def _secrets_of_the_server(bootstrapped: None, monkeypatch: pytest.MonkeyPatch) -> None:
    choose(monkeypatch, SECRET_SETTINGS)
    monkeypatch.setattr(settings, "SECRET_KEY", f"signing-{CANARY}-{CANARY}")


def text_of(*responses: Response) -> bytes:
    return b"\n".join(response.body + repr(response.headers).encode() for response in responses)


def get(target: str, delegation: str) -> Response:
    return call("GET", target, headers={"X-Iceberg-Access-Delegation": delegation})


_numbers = count(1)


def change(catalog: ApiClient, name: str = "t") -> Response:
    body = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": str(next(_numbers))}}]}
    return catalog.post(f"/namespaces/ns/tables/{name}", body)


def create(catalog: ApiClient, name: str = "t") -> Response:
    return catalog.post("/namespaces/ns/tables", {"name": name, "schema": SCHEMA})


def catalog_of(warehouse: Warehouse) -> ApiClient:
    catalog = ApiClient(f"/catalog/v1/{warehouse.pk}")
    assert catalog.post("/namespaces", {"namespace": ["ns"]}).status == 200
    return catalog


@pytest.mark.part("minio")
@pytest.mark.parametrize("vends", [True, False], ids=["vends keys", "own keys"])
def test_table_operations_on_s3(planted_minio: PlantedMinio, vends: bool) -> None:
    """Create, load, commit and sign with a valid key, then with an unavailable store, then with a rejected key."""
    minio, prefix = planted_minio, f"vends-{vends}"
    assert leaks(minio.credential["secret-access-key"].encode())
    warehouse = new_warehouse(minio.profile("planted", prefix, **{"sts-enabled": vends}), minio.credential)
    catalog = catalog_of(warehouse)
    at = f"{catalog.base}/namespaces/ns/tables/t"
    with at_debug() as log:
        created = create(catalog)
        location = created.json()["metadata"]["location"]
        uri = f"{minio.endpoint}{location.removeprefix('s3://')}/data/a"
        sign = f"{at}/sign"
        signature = ApiClient(sign).post("", to_sign("PUT" if vends else "GET", uri, region=REGION))
        vended, signing = get(at, "vended-credentials"), get(at, "remote-signing")
        well = [created, signature, vended, signing, change(catalog), get(f"{at}/credentials", "vended-credentials")]
        assert [response.status for response in well[:5]] == [200] * 5
        headers = {name: ",".join(values) for name, values in signature.json()["headers"].items()}
        sent = requests.request("PUT" if vends else "GET", uri, headers=headers, timeout=30)
        assert sent.status_code == (200 if vends else 404)  # with the warehouse's own keys only reads are signed
        with minio.relay.refusing():
            unavailable = [change(catalog), create(catalog, "other"), get(at, "vended-credentials")]
            assert (unavailable[0].status, unavailable[1].status) == (503, 503)
            reported = run("check_storage", "wh")
        other = minio.credential | {"secret-access-key": f"other-{CANARY}"}
        own = ApiClient(f"/management/v1/warehouse/{warehouse.pk}")
        assert own.post("/storage-credential", {"new-storage-credential": other}).status == 200
        refused = [change(catalog), create(catalog, "other"), get(at, "vended-credentials")]
        assert [response.status for response in refused[:2]] == [412, 412]
        reported += run("check_storage", "wh")
    responses = text_of(*well, *unavailable, *refused)
    config = vended.json()["config"]
    assert ("s3.session-token" in config) == vends
    written = "\n".join(log.written).encode()
    assert written.count(b"did not respond") >= 2, "errors are logged with their stack traces"
    assert leaks(responses + reported) == []
    assert leaks(written) == []
    for name in ("s3.secret-access-key", "s3.session-token") if vends else ():
        assert config[name].encode() not in written + reported


APPLICATION = planted({
    "type": "az", "credential-type": "client-credentials", "client-id": "c", "tenant-id": "t", "client-secret": "s",
}) | {"tenant-id": "a-tenant"}  # fmt: skip
ACCOUNT_KEY = {
    "type": "az", "credential-type": "shared-access-key",
    "key": base64.b64encode(f"of-an-account-{CANARY}".encode()).decode(),
}  # fmt: skip
ADLS = {"type": "adls", "filesystem": "files", "account-name": "acct", "key-prefix": "wh"}


def service_account(token_uri: str) -> dict[str, Any]:
    """A service account with a real private key, which signs, and canaries in all other members."""
    names = ("project_id", "private_key_id", "client_id", "auth_provider_x509_cert_url", "client_x509_cert_url")
    key = {name: f"{name}-{CANARY}" for name in names} | {
        "type": "service_account", "private_key": private_key(), "client_email": f"{CANARY}@p.iam.gserviceaccount.com",
        "universe_domain": "googleapis.com", "auth_uri": f"{NO_ONE}/auth", "token_uri": token_uri,
    }  # fmt: skip
    return {"type": "gcs", "credential-type": "service-account-key", "key": key}


@pytest.mark.parametrize("case", ["account key", "application", "service account", "service account with a token"])
def test_an_unavailable_cloud_store(case: str, tokens: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store does not respond and, except in the last case, neither does the token service."""
    use_storage_settings(
        monkeypatch, azure_endpoint=f"{NO_ONE_BY_TLS}/{{account}}", gcs_endpoint=f"{NO_ONE}/", retries=0
    )
    tokens.responses["/token"] = [said({"access_token": f"token-{CANARY}", "expires_in": 3600, "token_type": "Bearer"})]
    bucket = {"type": "gcs", "bucket": "bucket", "key-prefix": "wh"}
    profile, credential = {
        "account key": (ADLS, ACCOUNT_KEY),
        "application": (ADLS | {"authority-host": NO_ONE_BY_TLS}, APPLICATION),
        "service account": (bucket, service_account(f"{NO_ONE}/token")),
        "service account with a token": (bucket, service_account(f"{tokens.address}/token")),
    }[case]
    with at_debug() as log:
        warehouse = new_warehouse(profile, credential)
        catalog = catalog_of(warehouse)
        responses = [create(catalog), create(catalog), catalog.get("/namespaces/ns")]
        assert [response.status for response in responses] == [503, 503, 200], responses
        reported = run("check_storage", "wh")
    written = "\n".join(log.written).encode()
    assert bool(tokens.asked) == case.endswith("token")
    assert written.count(b"did not respond") >= 2, "errors are logged with their stack traces"
    out = text_of(*responses) + reported + written
    assert leaks(out) == []
    assert not [line for line in private_key().splitlines()[1:-1] if line.encode() in out]
