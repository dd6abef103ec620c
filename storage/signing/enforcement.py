"""What an S3 store enforces of a signature, and what the catalog therefore signs with the warehouse's own keys."""

from __future__ import annotations

import logging
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db.models import Q

from icekeeper.kernel.errors.types import BadRequest
from storage.models import Warehouse
from storage.profiles.kinds import read_stored_profile
from storage.profiles.profile import signs_requests, vends_credentials
from storage.profiles.s3 import S3Profile, StackitProfile, is_aws_host
from tenancy.authz.port import is_authorization_off


class Enforcement(StrEnum):
    """Recorded with a warehouse. The sender of a signed request can change what the store does not enforce."""

    NONE = "none"
    """Headers or query parameters can be added. MinIO: `x-amz-copy-source` copies from any bucket of the key."""
    REQUESTS = "requests"
    """Method, path, query and headers are enforced, the body of DeleteObjects is not. SeaweedFS."""
    REQUESTS_AND_BODIES = "requests-and-bodies"
    """The body of DeleteObjects is enforced as well, by the hash in the signature."""


def signs_with_warehouse_keys(profile: S3Profile | StackitProfile) -> bool:
    """Return whether requests are signed with the warehouse's own keys, at a store other than AWS."""
    document = profile.as_json()
    return signs_requests(document) and not vends_credentials(document) and not is_aws(profile.as_s3())


def is_aws(profile: S3Profile) -> bool:
    """Return whether the endpoint is AWS, which enforces the whole signature."""
    return profile.endpoint is None or is_aws_host(urlsplit(profile.endpoint).hostname or "")


def may_sign_writes(enforcement: Enforcement | None) -> bool:
    """Return whether writes of single objects are signed with the warehouse's own keys; None: never probed.

    They are without authorization, although a signature that the store does not enforce gives access to more than the
    catalog: all buckets of the key.
    """
    return (
        is_authorization_off()
        or enforcement in {Enforcement.REQUESTS, Enforcement.REQUESTS_AND_BODIES}
        or settings.ICEKEEPER.storage.sign_writes_with_warehouse_keys
    )


def may_sign_bulk_deletes(enforcement: Enforcement | None) -> bool:
    """As `may_sign_writes`, for DeleteObjects."""
    return is_authorization_off() or enforcement is Enforcement.REQUESTS_AND_BODIES


logger = logging.getLogger("icekeeper.storage")


def warn_of_unsigned_writes() -> None:
    """Startup check (`STARTUP_JOBS`): log how many warehouses use remote signing but cannot have writes signed.

    They were created without authorization, or their stores were never probed. At most one statement.
    """
    if may_sign_writes(None):
        return
    unprobed = Warehouse.objects.filter(Q(enforced_signatures=None) | Q(enforced_signatures=Enforcement.NONE))
    profiles = unprobed.filter(storage_profile__type__in=["s3", "stackit"]).values_list("storage_profile", flat=True)
    count = sum(_signs_with_warehouse_keys(profile) for profile in profiles.iterator())
    if count:
        logger.warning(
            "writes are not signed in %d warehouses on S3-compatible stores that would sign them with their own keys: "
            "POST /management/v1/warehouse/{warehouse_id}/storage/validate-access names the cure for each "
            "(docs/storage-access.md, Signed writes without STS)", count,
            extra={"warehouses": count},
        )  # fmt: skip


def _signs_with_warehouse_keys(document: dict[str, Any]) -> bool:
    """As `signs_with_warehouse_keys`; false for a stored profile that this version cannot read."""
    try:
        profile = read_stored_profile(document)
    except BadRequest:
        return False
    return isinstance(profile, S3Profile | StackitProfile) and signs_with_warehouse_keys(profile)
