"""All types of storage profiles, and how they are parsed."""

from __future__ import annotations

from typing import Any, Final

from icekeeper.kernel.errors.types import BadRequest
from storage.credentials import Credential
from storage.documents import literal_value, read_document, unknown_members
from storage.profiles.azure import AdlsProfile, OneLakeProfile
from storage.profiles.gcs import GcsProfile
from storage.profiles.local import LocalProfile
from storage.profiles.location import normalize, require_unambiguous
from storage.profiles.profile import IncompatibleProfiles, Profile
from storage.profiles.s3 import S3Profile, StackitProfile

KINDS: Final[tuple[type[Profile], ...]] = (
    LocalProfile,
    S3Profile,
    StackitProfile,
    AdlsProfile,
    OneLakeProfile,
    GcsProfile,
)
TYPES: Final = {literal_value(kind, "type"): kind for kind in KINDS}
ALIASES: Final = {"azdls": "adls"}
"""Alternative names of types."""
CREDENTIAL_TYPES: Final = {
    name: literal_value(kind.credentials[0], "type") for name, kind in TYPES.items() if kind.credentials
}
"""The `type` of credentials by the type of their profile."""


def read_profile(
    document: dict[str, Any], credential: Credential | None, *, before: dict[str, Any] | None = None
) -> Profile:
    """Parse and validate the profile of a request with its credential; `before` is the stored profile of an update.

    Raises `BadRequest` with the invalid member, `InvalidMember`, `MissingCredential`, `InvalidLocation`; for an update
    also `IncompatibleProfiles` for another type, and `UpdateError` when the files would have to move.
    """
    profile = parse_profile(document)
    if before is not None:
        if before["type"] != profile.type:
            message = f"The type of a warehouse's storage, {before['type']}, cannot be changed"
            raise IncompatibleProfiles(message, field="storage-profile.type")
        profile = profile.as_replacement_of(read_stored_profile(before))
    profile = profile.for_credential(credential)
    normalize(profile.location, base=profile.location)  # the base must be a valid location as well
    if before is None:
        require_unambiguous(profile.location)
    return profile


def read_stored_profile(document: dict[str, Any]) -> Profile:
    """Parse the stored profile of a warehouse."""
    return read_document(TYPES[document["type"]], document, "storage-profile")


def read_declared_profile(document: dict[str, Any], credential_type: str | None) -> Profile:
    """Parse a profile of the bootstrap file, with the values that a credential of this type implies.

    Raises `InvalidMember`, and `BadRequest`, also for unknown members.
    """
    profile = parse_profile(document)
    unknown = unknown_members(type(profile), document)
    if unknown:
        field = f"storage-profile.{unknown[0][:100]}"
        raise BadRequest(f"{field}: not a member of storage of type {profile.type}", field=field)
    return profile.with_credential_type(credential_type)


def parse_profile(document: dict[str, Any]) -> Profile:
    """Parse a profile without its credential. Raises `BadRequest`, `InvalidMember`."""
    kind = document.get("type")
    if isinstance(kind, str) and kind in ALIASES:
        kind = ALIASES[kind]
        document = document | {"type": kind}
    if not isinstance(kind, str) or kind not in TYPES:
        raise BadRequest(f"storage-profile.type: must be one of {', '.join(TYPES)}", field="storage-profile.type")
    return read_document(TYPES[kind], document, "storage-profile").with_derived_fields()
