"""Vend short-lived credentials for one folder of a warehouse; a credential is cached and shared by many requests."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from django.conf import settings

from icekeeper.kernel.errors.types import CatalogError
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
from storage.documents import read_document
from storage.models import WarehouseStorage
from storage.profiles.addresses import require_permitted_addresses
from storage.profiles.azure import AdlsProfile, OneLakeProfile
from storage.profiles.gcs import GcsProfile
from storage.profiles.kinds import TYPES
from storage.profiles.profile import MissingCredential, Profile, vends_credentials
from storage.profiles.s3 import S3Profile, StackitProfile
from storage.secrets.credentials import stored_credential
from storage.vending import oss, r2, sts
from storage.vending.cache import CredentialCache
from storage.vending.vended import FileAccess, Vended

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
    return issue_credential(_parse_profile(storage.profile), credential, location=location, rights=rights)


def _parse_profile(profile: dict[str, Any]) -> Profile:
    return read_document(TYPES[profile["type"]], profile, "storage-profile")


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
            return sts.issue(profile.as_s3(), credential, location=location, rights=rights)
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
