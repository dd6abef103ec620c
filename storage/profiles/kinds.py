"""Every kind of storage profile, by its type."""

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
"""Other names that requests may have for a type."""
CREDENTIAL_TYPES: Final = {
    name: literal_value(kind.credentials[0], "type") for name, kind in TYPES.items() if kind.credentials
}
"""The `type` of the credentials that go with a profile, by the profile's."""


def read_profile(
    document: dict[str, Any], credential: Credential | None, *, before: dict[str, Any] | None = None
) -> Profile:
    """Read the profile of a request together with `credential`, as the replacement of `before` if that is given.

    `as_json` and `location` of it go into the warehouse's row; `before` is what was stored there. Raises `BadRequest`
    naming the member at fault, `InvalidMember`, `MissingCredential`, `InvalidLocation`; and when it replaces another
    `IncompatibleProfiles` when that is of another type, `UpdateError` when the files would have to move.
    """
    profile = parse_profile(document)
    if before is not None:
        if before["type"] != profile.type:
            message = f"The type of a warehouse's storage, {before['type']}, cannot be changed"
            raise IncompatibleProfiles(message, field="storage-profile.type")
        profile = profile.as_replacement_of(read_stored_profile(before))
    profile = profile.for_credential(credential)
    normalize(profile.location, base=profile.location)  # the rules for what lies below hold for the base, too
    if before is None:
        require_unambiguous(profile.location)
    return profile


def read_stored_profile(document: dict[str, Any]) -> Profile:
    """The profile of a warehouse, as `as_json` gave it."""
    return read_document(TYPES[document["type"]], document, "storage-profile")


def read_declared_profile(document: dict[str, Any], credential_type: str | None) -> Profile:
    """Return the profile as it would be stored with a credential of that type; no credential is needed.

    Raises `BadRequest`, also for unknown members, which requests may have, or `InvalidMember`.
    """
    profile = parse_profile(document)
    unknown = unknown_members(type(profile), document)
    if unknown:
        field = f"storage-profile.{unknown[0][:100]}"
        raise BadRequest(f"{field}: not a member of storage of type {profile.type}", field=field)
    return profile.with_credential_type(credential_type)


def parse_profile(document: dict[str, Any]) -> Profile:
    """The profile as far as it does not depend on others. Raises `BadRequest`, `InvalidMember`."""
    kind = document.get("type")
    if isinstance(kind, str) and kind in ALIASES:
        kind = ALIASES[kind]
        document = document | {"type": kind}
    if not isinstance(kind, str) or kind not in TYPES:
        raise BadRequest(f"storage-profile.type: must be one of {', '.join(TYPES)}", field="storage-profile.type")
    return read_document(TYPES[kind], document, "storage-profile").with_derived_fields()
