"""Vend short-lived credentials for one folder of a warehouse; a credential is cached and shared by many requests."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future, wait
from functools import lru_cache
from threading import Lock
from typing import Final

from cachetools import LRUCache
from django.conf import settings

from icekeeper.kernel import request_context
from icekeeper.kernel.errors.types import Busy, CatalogError, RequestTimeout
from icekeeper.kernel.metrics import metrics
from icekeeper.kernel.threads import WaiterLimit
from storage.credentials import (
    AliyunOss,
    AzureClientCredentials,
    AzureSharedKey,
    AzureSystemIdentity,
    CloudflareR2,
    Credential,
    GcpSystemIdentity,
    GcsServiceAccount,
    S3AccessKey,
    S3SystemIdentity,
    StackitAccessKey,
)
from storage.models import WarehouseStorage
from storage.profiles.addresses import require_permitted_addresses
from storage.profiles.azure import AdlsProfile, OneLakeProfile
from storage.profiles.gcs import GcsProfile
from storage.profiles.kinds import read_stored_profile
from storage.profiles.profile import MissingCredential, Profile, vends_credentials
from storage.profiles.s3 import S3Profile, StackitProfile
from storage.secrets.stores import stored_credential
from storage.vending import oss, r2, s3_sts
from storage.vending.delegation import FileAccess, Vended

CLOUDS: Final = {"s3": "s3", "stackit": "s3", "adls": "azure", "onelake": "azure", "gcs": "gcs"}
"""Cloud by the type of a profile. Each cloud has its own cache, so that none evicts the credentials of another."""


def vend(storage: WarehouseStorage, *, location: str, rights: FileAccess) -> Vended | None:
    """Return a credential for the folder of a table, from the cache or a new one; None if the profile has no vending.

    Raises `InvalidLocation` for a location that is not below the warehouse's base, `CredentialNotIssued` (412),
    `MissingCredential` and `EndpointNotPermitted` (400), `UnsupportedCredential` (501), `StoreUnavailable` and `Busy`
    (503).
    """
    if not vends_credentials(storage.profile):
        return None
    cache = _cache_of(CLOUDS[storage.profile["type"]])
    if cache is None:
        return _issue_for(storage, location, rights)
    return cache.get((storage.key, location, rights), lambda: _issue_for(storage, location, rights))


def _issue_for(storage: WarehouseStorage, location: str, rights: FileAccess) -> Vended:
    credential = stored_credential(storage.secret_id)
    return issue_credential(read_stored_profile(storage.profile), credential, location=location, rights=rights)


@lru_cache(maxsize=len(set(CLOUDS.values())))
def _cache_of(cloud: str) -> CredentialCache | None:
    """Return the cache of a cloud; None if the cache is disabled."""
    own = settings.ICEKEEPER.cache.stc
    return CredentialCache(own.capacity, cloud=cloud) if own.enabled else None


class UnsupportedCredential(CatalogError):
    """A credential of this type cannot issue temporary credentials."""

    status, wire_type, is_final = 501, "UnsupportedCredentialError", True


def issue(profile: Profile, credential: Credential | None, *, location: str, rights: FileAccess) -> Vended | None:
    """Issue a new credential for the folder at `location`; None if the profile has no vending. Raises as `vend`."""
    if not vends_credentials(profile.as_json()):
        return None
    return issue_credential(profile, credential, location=location, rights=rights)


def issue_credential(profile: Profile, credential: Credential | None, *, location: str, rights: FileAccess) -> Vended:
    """Issue a new credential, for a profile with vending. Raises also as `require_permitted_addresses`.

    The libraries of Azure and Google are imported on first use: they take 50 MB and a second.
    """
    if credential is None:
        raise MissingCredential("The warehouse has no credential for its storage, so clients can be given none")
    require_permitted_addresses(profile, credential)
    match profile, credential:
        case S3Profile() | StackitProfile(), S3AccessKey() | S3SystemIdentity() | StackitAccessKey():
            return s3_sts.issue(profile.as_s3(), credential, location=location, rights=rights)
        case S3Profile(), CloudflareR2():
            return r2.issue(profile, credential, location=location, rights=rights)
        case S3Profile(), AliyunOss():
            return oss.issue(profile, credential, location=location, rights=rights)
        case AdlsProfile(), AzureClientCredentials() | AzureSharedKey() | AzureSystemIdentity():
            from storage.vending import azure_sas

            return azure_sas.issue(profile, credential, location=location, rights=rights)
        case OneLakeProfile(), AzureClientCredentials() | AzureSystemIdentity():
            from storage.vending import azure_sas

            return azure_sas.issue(profile, credential, location=location, rights=rights)
        case GcsProfile(), GcsServiceAccount() | GcpSystemIdentity():
            from storage.vending import gcs_boundary

            return gcs_boundary.issue(profile, credential, location=location, rights=rights)
    raise UnsupportedCredential(
        f"Storage of type {profile.type} gives no temporary credentials with {credential.credential_type}"
    )


REUSE_FRACTION: Final = 0.8
"""Part of a credential's lifetime in which it is served from the cache."""
CLIENT_REFRESH_SECONDS: Final = 360.0
"""A credential that expires in fewer seconds is not served from the cache: Iceberg's Java clients refresh one that
expires within 300 seconds, and would do so again at once. Only for credentials that live more than twice as long."""


class _PendingIssue:
    """A credential that is being issued, and the requests that wait for it."""

    def __init__(self) -> None:
        self.future: Future[Vended] = Future()
        self._limit = WaiterLimit()

    def wait(self) -> Vended:
        """Return the credential. Raises the error of `issue`, `Busy` (503) after a timeout, `RequestTimeout` (408)."""
        limits, left = settings.ICEKEEPER.storage, request_context.remaining_seconds()
        seconds = limits.connect_timeout + limits.request_timeout
        if not self._limit.wait(self._is_done, seconds=seconds if left is None else min(left, seconds)):
            request_context.remaining_seconds()
            raise Busy("Too many requests wait for a credential of this table")
        return self.future.result()

    def _is_done(self, seconds: float) -> bool:
        return bool(wait([self.future], seconds).done)


class CredentialCache:
    """A thread-safe LRU cache of at most `capacity` credentials; no lock is held while one is issued.

    Failures are not cached.
    """

    def __init__(self, capacity: int, *, cloud: str) -> None:
        known = metrics()
        self._size, self._hits, self._misses = (
            known.cache_size.labels("stc", cloud),
            known.cache_hits.labels("stc", cloud),
            known.cache_misses.labels("stc", cloud),
        )
        self._lock = Lock()
        self._cached: LRUCache[Hashable, tuple[Vended, float]] = LRUCache(capacity)
        self._pending: dict[Hashable, _PendingIssue] = {}

    def get(self, key: Hashable, issue: Callable[[], Vended]) -> Vended:
        """Return the cached credential of `key`, or call `issue` once for all concurrent requests.

        Raises what `issue` raises, `Busy` (503) and `RequestTimeout` (408).
        """
        with self._lock:
            cached = self._fresh(key)
        if cached is not None:
            self._hits.inc()
            return cached
        self._misses.inc()
        while True:
            request_context.remaining_seconds()
            with self._lock:
                cached, pending = self._fresh(key), self._pending.get(key)
                if cached is not None:
                    return cached
                own = self._pending[key] = _PendingIssue() if pending is None else pending
            if pending is None:
                return self._issue(key, own, issue)
            try:
                return pending.wait()
            except RequestTimeout:  # of this request, as the loop checks, or of the request that was waited for
                continue

    def _fresh(self, key: Hashable) -> Vended | None:
        cached = self._cached.get(key)
        return None if cached is None or time.time() >= cached[1] else cached[0]

    def _issue(self, key: Hashable, pending: _PendingIssue, issue: Callable[[], Vended]) -> Vended:
        issued_after = time.time()
        try:
            vended = issue()
        except BaseException as failure:
            self._finish(key)
            pending.future.set_exception(failure if isinstance(failure, Exception) else RequestTimeout("given up"))
            raise
        self._finish(key, vended, reused_until=_reused_until(vended, issued_after))
        pending.future.set_result(vended)
        return vended

    def _finish(self, key: Hashable, vended: Vended | None = None, *, reused_until: float = 0.0) -> None:
        with self._lock:
            del self._pending[key]
            if vended is not None and time.time() < reused_until:
                self._cached[key] = vended, reused_until
                self._size.set(len(self._cached))


def _reused_until(vended: Vended, issued_after: float) -> float:
    """Return seconds since the epoch."""
    ends_at = vended.expires_at.timestamp()
    life = ends_at - issued_after
    return issued_after + min(REUSE_FRACTION * life, max(life / 2, life - CLIENT_REFRESH_SECONDS))
