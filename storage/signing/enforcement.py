"""How much of a signature a store holds the sender to, as validation of a warehouse found it."""

from __future__ import annotations

from enum import StrEnum
from urllib.parse import urlsplit

from django.conf import settings

from storage.profiles.options import signs_requests, vends_credentials
from storage.profiles.profile import Profile
from storage.profiles.s3 import S3Profile, StackitProfile
from storage.profiles.s3_address import is_service_of_aws
from tenancy.authz.port import AllowAll


class Enforcement(StrEnum):
    """Kept with a warehouse. What a store does not enforce, the sender of a signed request may change."""

    NONE = "none"
    """Headers or query parameters may be added. MinIO: `x-amz-copy-source` copies from any bucket of the key."""
    REQUESTS = "requests"
    """Method, path, query and headers are enforced, the body of DeleteObjects is not. SeaweedFS."""
    REQUESTS_AND_BODIES = "requests-and-bodies"
    """The body of DeleteObjects is enforced, too, by the hash in the signature."""


def signs_with_warehouse_keys(profile: Profile) -> bool:
    """Whether requests of clients are signed with the warehouse's own keys at a store other than AWS."""
    if not isinstance(profile, S3Profile | StackitProfile):
        return False
    document = profile.as_json()
    return signs_requests(document) and not vends_credentials(document) and not is_aws(profile.as_s3())


def is_aws(profile: S3Profile) -> bool:
    """Return whether only AWS can respond at the profile's endpoint: it enforces all of a signature."""
    return profile.endpoint is None or is_service_of_aws(urlsplit(profile.endpoint).hostname or "")


def may_sign_writes(enforcement: Enforcement | None) -> bool:
    """Whether writes of single objects are signed with the warehouse's own keys; None: the store was never probed."""
    return (
        is_authorization_off()
        or enforcement in {Enforcement.REQUESTS, Enforcement.REQUESTS_AND_BODIES}
        or settings.ICEKEEPER.storage.sign_writes_with_warehouse_keys
    )


def may_sign_bulk_deletes(enforcement: Enforcement | None) -> bool:
    """As `may_sign_writes`, of DeleteObjects."""
    return is_authorization_off() or enforcement is Enforcement.REQUESTS_AND_BODIES


def is_authorization_off() -> bool:
    """Whether everybody may do everything in the catalog.

    A signature may still open more, where the store does not enforce it: every bucket of the warehouse's own keys.
    """
    return bool(settings.ICEKEEPER.effective_authz_backend == AllowAll.name)
