"""Signer of a warehouse: parses requests to its bucket, and signs those that its caller has authorized (SigV4)."""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from threading import Lock
from typing import Final

from cachetools import LRUCache, cached

from icekeeper.kernel.clock import now
from storage.errors import StoreUnavailable
from storage.identity.keys import Keys, RefreshingValue
from storage.identity.s3 import catalog_keys
from storage.models import WarehouseStorage
from storage.profiles.kinds import read_stored_profile
from storage.profiles.profile import vends_credentials
from storage.profiles.s3 import S3Profile, StackitProfile
from storage.secrets.stores import stored_credential
from storage.signing.enforcement import Enforcement, is_aws, may_sign_bulk_deletes, may_sign_writes
from storage.signing.errors import RegionMismatch, RemoteSigningDisabled, RequestUriMismatch, UnsupportedStorageType
from storage.signing.headers import CHUNKED_PAYLOAD, PAYLOAD_HASH, SIGNATURE_HEADERS, signed_headers
from storage.signing.request import Operation, RequestToSign, SignableRequest, read_request
from storage.signing.uri import bucket_addresses, canonical_path, canonical_query
from storage.vending.delegation import FileAccess, Vended
from storage.vending.s3_sts import keys_from_vended
from storage.vending.vend import vend

MAX_CACHED_SIGNERS: Final = 1024
_CURES: Final = (
    "Set sts-enabled in the storage profile, or ICEKEEPER__STORAGE__SIGN_WRITES_WITH_WAREHOUSE_KEYS on the server"
)
_NOT_ENFORCED: Final = (
    f"Only reads are signed with the warehouse's own keys: its store does not enforce signatures. {_CURES}"
)
_NEVER_PROBED: Final = (
    "Only reads are signed with the warehouse's own keys: whether its store enforces signatures is not known. Update "
    f"the storage credential of the warehouse, which probes the store. If the store does not enforce them: {_CURES}"
)


class Signer:
    """Signs S3 requests. Raises `UnsupportedStorageType` (400), `RemoteSigningDisabled` (403) when it is created.

    Only AWS is known to enforce all of a signature. MinIO and SeaweedFS do not compare the body of DeleteObjects with
    the signed hash. MinIO accepts unsigned headers: the sender of a signed PUT can add `x-amz-copy-source`, or unpack
    an archive into the bucket. Both give access to everything that the signing key can access. So at other stores,
    requests are signed with temporary keys of the table's folder. Without such keys, reads are signed; other requests
    only if the store enforces signatures, or no authorization is configured (`storage.signing.enforcement`).
    """

    def __init__(self, storage: WarehouseStorage) -> None:
        profile = read_stored_profile(storage.profile)
        if not isinstance(profile, S3Profile | StackitProfile):
            raise UnsupportedStorageType(f"Requests to storage of type {profile.type} cannot be signed")
        self._profile = profile.as_s3()
        if not self._profile.remote_signing_enabled:
            raise RemoteSigningDisabled("The warehouse does not allow requests to its storage to be signed")
        self._storage = storage
        self._addresses = bucket_addresses(self._profile)
        self._bucket = f"s3://{self._profile.bucket}/"
        self.base = self._profile.location
        """Location of the warehouse."""
        self._is_aws = is_aws(self._profile)
        found = storage.enforced_signatures
        self._enforcement = None if found is None else Enforcement(found)
        self._catalog_keys = RefreshingValue(self._get_catalog_keys, timeout_error=StoreUnavailable)

    def read(self, given: RequestToSign) -> SignableRequest:
        """Parse a request. Raises as `read_request`."""
        return read_request(given, self._profile, self._addresses)

    def location_of(self, key: str) -> str:
        return f"{self._bucket}{key}"

    def is_within(self, request: SignableRequest, locations: Sequence[str]) -> bool:
        """Return whether all objects of the request are below `locations`, which are normalized."""
        return request.is_within(self._folders(locations))

    def sign(self, request: SignableRequest, given: RequestToSign, *, locations: Sequence[str]) -> dict[str, list[str]]:
        """Return the headers of the signed request: its own, and those of the signature.

        `request` is the result of `read`. Raises `RegionMismatch`, `RequestUriMismatch` unless it is within
        `locations`, `RemoteSigningDisabled` if the store does not enforce signatures, and as `catalog_keys` and `vend`.
        """
        if given.region != self._profile.region:
            raise RegionMismatch("region: not that of the warehouse's bucket")
        if not self.is_within(request, locations):
            raise RequestUriMismatch(f"The request is not about files below {' and '.join(locations)}")
        signature = signature_headers(
            method=request.method,
            path=canonical_path(request.path),
            query=canonical_query(request.parameters),
            headers={"host": request.host, **signed_headers(request.headers)},
            payload=_payload(request),
            region=self._profile.region,
            keys=self._keys(request, locations),
            at=now(),
        )
        kept = {name: list(values) for name, values in given.headers.items() if name.lower() not in SIGNATURE_HEADERS}
        return kept | {name: [value] for name, value in signature.items()}

    def _keys(self, request: SignableRequest, locations: Sequence[str]) -> Keys:
        if self._is_aws:
            return self._catalog_keys.current()
        vended = self._vend(request, locations)
        if vended is not None:
            return keys_from_vended(vended)
        self._require_enforced(request.operation)
        return self._catalog_keys.current()

    def _vend(self, request: SignableRequest, locations: Sequence[str]) -> Vended | None:
        """Return temporary keys of one folder; None if the profile has no vending."""
        if not vends_credentials(self._storage.profile):
            return None
        folder = request.folder_of(self._folders(locations))
        if folder is None:
            raise RequestUriMismatch("At this store, a request must be about files in one folder of the table")
        rights = FileAccess.READ if request.operation.is_reading else FileAccess.READ_WRITE
        return vend(self._storage, location=self.location_of(folder), rights=rights)

    def _require_enforced(self, operation: Operation) -> None:
        """Raise `RemoteSigningDisabled` if the sender could change the signed request into another one."""
        if operation.is_reading:
            return
        if operation is Operation.BULK_DELETE:
            if not may_sign_bulk_deletes(self._enforcement):
                raise RemoteSigningDisabled(
                    "DeleteObjects is not signed with the warehouse's own keys: its store was not found to enforce "
                    "the body of a signed request. Set sts-enabled in the storage profile, or delete objects one by one"
                )
        elif not may_sign_writes(self._enforcement):
            raise RemoteSigningDisabled(_NEVER_PROBED if self._enforcement is None else _NOT_ENFORCED)

    def _get_catalog_keys(self) -> Keys:
        credential = stored_credential(self._storage.secret_id)
        return catalog_keys(self._profile, credential)

    def _folders(self, locations: Sequence[str]) -> list[str]:
        return [each.removeprefix(self._bucket) for each in locations if each.startswith(self._bucket)]


def _payload(request: SignableRequest) -> str:
    if request.body is not None:
        return sha256(request.body.encode()).hexdigest()
    return CHUNKED_PAYLOAD if PAYLOAD_HASH in request.headers else UNSIGNED_PAYLOAD


@cached(LRUCache(MAX_CACHED_SIGNERS), key=lambda storage: storage.key, lock=Lock())
def get_signer(storage: WarehouseStorage) -> Signer:
    """Return the cached signer of a version of a warehouse. Raises as `Signer`."""
    return Signer(storage)


# --- AWS Signature Version 4: https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html --------
# Not botocore, which takes eight times as long: it derives the signing key each time and builds a request object. Tests
# compare both.

UNSIGNED_PAYLOAD: Final = "UNSIGNED-PAYLOAD"
_ALGORITHM: Final = "AWS4-HMAC-SHA256"


def signature_headers(
    *,
    method: str,
    path: str,
    query: str,
    headers: Mapping[str, str],
    payload: str,
    region: str,
    keys: Keys,
    at: datetime,
) -> dict[str, str]:
    """Return the headers of the signature.

    `path` and `query` are canonical, `headers` all signed headers including `host`, by lower-case name; `payload` is
    the hash of the body, or a constant instead; `at` is in UTC.
    """
    moment = at.strftime("%Y%m%dT%H%M%SZ")
    date = moment[:8]
    added = {"x-amz-content-sha256": payload, "x-amz-date": moment}
    if keys.session_token is not None:
        added["x-amz-security-token"] = keys.session_token
    signed = sorted({**headers, **added}.items())
    names = ";".join(name for name, _ in signed)
    lines = "".join(f"{name}:{value}\n" for name, value in signed)
    request = f"{method}\n{path}\n{query}\n{lines}\n{names}\n{payload}"
    scope = f"{date}/{region}/s3/aws4_request"
    text = f"{_ALGORITHM}\n{moment}\n{scope}\n{sha256(request.encode()).hexdigest()}"
    signature = hmac.digest(_signing_key(keys, date, region), text.encode(), "sha256").hex()
    credential = f"{keys.access_key_id}/{scope}"
    added["authorization"] = f"{_ALGORITHM} Credential={credential}, SignedHeaders={names}, Signature={signature}"
    return added


@lru_cache(maxsize=1024)
def _signing_key(keys: Keys, date: str, region: str) -> bytes:
    """Return the signing key of a day."""
    key = f"AWS4{keys.secret_access_key}".encode()
    for part in (date, region, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key
