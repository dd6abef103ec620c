"""What the start of a server reports about signatures."""

from __future__ import annotations

import logging
from typing import Any

from django.db.models import Q

from icekeeper.kernel.errors.types import BadRequest
from storage.documents import read_document
from storage.models import Warehouse
from storage.profiles.kinds import TYPES
from storage.signing.enforcement import Enforcement, may_sign_writes, signs_with_warehouse_keys

logger = logging.getLogger("icekeeper.storage")


def warn_of_unsigned_writes() -> None:
    """Called before the server begins (`STARTUP_CHECKS`): log how many warehouses cannot have writes signed.

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
        profile = read_document(TYPES[document["type"]], document, "storage-profile")
    except BadRequest:
        return False
    return signs_with_warehouse_keys(profile)
