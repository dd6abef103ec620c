"""Tables in a warehouse on S3 whose files do not exist yet, and a client without S3 credentials."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest
import requests
from django.conf import settings

from catalog.models import LocationClaim, Namespace, Tabular
from icekeeper.kernel.clock import now
from icekeeper.kernel.ids import new_id
from storage.models import Warehouse
from storage.services.warehouses import create_warehouse
from tenancy.actor import INTERNAL
from tenancy.authz import port
from tenancy.selectors.projects import get_project
from tests.harness.wsgi_client import ApiClient, Response
from tests.management.warehouse_request_fixtures import use_settings

REGION = "eu-1"
HOST = "store.example:9000"
BASE = f"http://{HOST}/my-bucket"
KEY = {"type": "s3", "credential-type": "access-key", "access-key-id": "an-id", "secret-access-key": "a-secret-canary"}


def s3_profile(**members: Any) -> dict[str, Any]:
    """Return the profile of a path-style store that no test connects to."""
    return {
        "type": "s3", "bucket": "my-bucket", "key-prefix": "wh", "region": REGION, "endpoint": f"http://{HOST}/",
        "flavor": "s3-compat", "path-style-access": True, "sts-enabled": False, **members,
    }  # fmt: skip


def new_warehouse(profile: dict[str, Any], credential: dict[str, Any] | None, name: str = "wh") -> Warehouse:
    return create_warehouse(
        actor=INTERNAL, project=get_project(None), name=name, storage_profile=profile, storage_credential=credential
    )


def authorize_signatures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let authorization decide which requests are signed, while the authorizer of the tests still allows
    everything.
    """
    port.authorizer()  # the test authorizer is cached from now on
    use_settings(monkeypatch, authz_backend="builtin")


def sign_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sign writes also for static keys and for stores that are not AWS, as operators can configure."""
    authorize_signatures(monkeypatch)
    changed = settings.ICEKEEPER.storage.model_copy(update={"sign_writes_with_warehouse_keys": True})
    use_settings(monkeypatch, storage=changed)


def add_tabular(
    warehouse: Warehouse,
    name: str,
    *,
    kind: Tabular.Kind = Tabular.Kind.TABLE,
    namespace: str = "ns",
    location: str | None = None,
    dropped: bool = False,
    claims: tuple[str, ...] = (),
) -> Tabular:
    """Add a row as the services write it, without its files."""
    of, _ = Namespace.objects.get_or_create(warehouse=warehouse, path=namespace, path_key=namespace)
    table_id = new_id()
    where = location or f"{warehouse.location}/{name}"
    created = Tabular.objects.create(
        id=table_id, uuid=table_id, warehouse=warehouse, namespace=of, kind=kind, name=name, name_key=name,
        location=where, metadata_location=f"{where}/metadata/0.json", deleted_at=now() if dropped else None,
    )  # fmt: skip
    for claim in claims:
        LocationClaim.objects.create(warehouse=warehouse, tabular=created, location=claim)
    return created


def to_sign(method: str, uri: str, *, region: str = REGION, **more: Any) -> dict[str, Any]:
    """Return a RemoteSignRequest."""
    return {"region": region, "uri": uri, "method": method, "headers": {}, **more}


def by_id(warehouse: Warehouse, tabular_id: object) -> str:
    return f"/catalog/v1/signer/{warehouse.pk}/tabular-id/{tabular_id}/v1/aws/s3/sign"


def by_location(warehouse: Warehouse) -> str:
    return f"/catalog/v1/{warehouse.pk}/v1/aws/s3/sign"


def by_name(warehouse: Warehouse, name: str = "t") -> str:
    return f"/catalog/v1/{warehouse.pk}/namespaces/ns/tables/{name}/sign"


def ask(target: str, method: str, uri: str, **more: Any) -> Response:
    return ApiClient(target).post("", to_sign(method, uri, **more))


def by_ticket(warehouse: Warehouse, ticket: str) -> str:
    return f"/catalog/v1/signer/{warehouse.pk}/staged/{ticket}/v1/aws/s3/sign"


@dataclass(frozen=True)
class SigningClient:
    """Sends only requests to the store that the catalog has signed, as Iceberg's clients do.

    `signer` is a target below `/catalog/v1`.
    """

    signer: str
    region: str

    @classmethod
    def of(cls, warehouse: Warehouse, tabular_id: UUID, region: str) -> SigningClient:
        return cls(f"/signer/{warehouse.pk}/tabular-id/{tabular_id}/v1/aws/s3/sign", region)

    def sign(
        self, method: str, uri: str, *, headers: Mapping[str, str] | None = None, body: str | None = None
    ) -> Response:
        many = {name: [value] for name, value in (headers or {}).items()}
        asked = to_sign(method, uri, region=self.region, headers=many)
        return ApiClient("/catalog/v1").post(self.signer, asked if body is None else asked | {"body": body})

    def signed(self, method: str, uri: str, **more: Any) -> dict[str, str]:
        """Return the signed headers to send."""
        response = self.sign(method, uri, **more)
        assert response.status == 200, response.body
        assert response.json()["uri"] == uri
        return {name: ",".join(values) for name, values in response.json()["headers"].items()}

    def send(
        self, method: str, uri: str, data: bytes | None = None, *, headers: Mapping[str, str] | None = None
    ) -> requests.Response:
        """Send the request; only DeleteObjects are signed with their body and its digest, as Java's client does it."""
        body = None
        if method == "POST" and uri.endswith("?delete") and data is not None:
            body, headers = data.decode(), {"Content-MD5": digest(data)}
        signed = self.signed(method, uri, headers=headers, body=body)
        return requests.request(method, uri, data=data, headers=signed, timeout=30)


def digest(data: bytes) -> str:
    """Return the value of Content-MD5."""
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()
