"""Downscoped access tokens of Google Cloud Storage: a token exchanged for one with a Credential Access Boundary.

https://cloud.google.com/iam/docs/downscoping-short-lived-credentials
"""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import Final

from google.auth import transport
from google.auth.downscoped import AccessBoundaryRule, AvailabilityCondition, CredentialAccessBoundary
from google.auth.downscoped import Credentials as DownscopedCredentials

from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import InvalidLocation
from storage.credentials import GcpSystemIdentity, GcsServiceAccount
from storage.identity.google import google_credentials, google_transport, translate_google_errors, universe_of
from storage.identity.keys import CredentialNotIssued
from storage.profiles.addresses import require_permitted_addresses
from storage.profiles.gcs import GcsProfile
from storage.vending.delegation import FileAccess, Vended, folder_of

DEFAULT_LIFETIME: Final = timedelta(hours=1)

_ROLES: Final = {
    FileAccess.READ: "inRole:roles/storage.objectViewer",
    FileAccess.READ_WRITE: "inRole:roles/storage.objectUser",
}


def issue(
    profile: GcsProfile,
    credential: GcsServiceAccount | GcpSystemIdentity,
    *,
    location: str,
    rights: FileAccess,
    request: transport.Request = google_transport,
) -> Vended:
    """Raises `InvalidLocation`, `EndpointNotPermitted` (400), `CredentialNotIssued` (412), `StoreUnavailable` (503)."""
    boundary = access_boundary(profile.bucket, folder_of(location, profile), rights)
    requested_at = now()
    with translate_google_errors():
        universe = universe_of(credential)
        require_permitted_addresses(profile, credential)
        source, project = google_credentials(credential, request)
        issued = DownscopedCredentials(source, boundary, universe_domain=universe)
        issued.refresh(request)
    if not isinstance(issued.token, str) or not issued.token:
        raise CredentialNotIssued("The token service of Google sent no token")
    expires_at = requested_at + DEFAULT_LIFETIME if issued.expiry is None else issued.expiry.replace(tzinfo=UTC)
    named = {"gcs.project-id": project} if project else {}
    return Vended({"gcs.oauth2.token": issued.token, **named}, expires_at)


def access_boundary(bucket: str, folder: str, rights: FileAccess) -> CredentialAccessBoundary:
    """Return a boundary that allows access to the objects and managed folders below `folder`, and lists of them."""
    if not folder:
        raise ValueError("a boundary around the whole bucket")
    within = f"projects/_/buckets/{bucket}"
    condition = " || ".join(
        (
            f"resource.name.startsWith({cel_string(f'{within}/objects/{folder}/')})",
            f"resource.name.startsWith({cel_string(f'{within}/folders/{folder}/')})",
            f"api.getAttribute('storage.googleapis.com/objectListPrefix', '').startsWith({cel_string(f'{folder}/')})",
        )
    )
    return CredentialAccessBoundary(
        [
            AccessBoundaryRule(
                f"//storage.googleapis.com/{within}",
                [_ROLES[rights]],
                AvailabilityCondition(condition, title="one folder"),
            )
        ]
    )


def cel_string(text: str) -> str:
    """Quote a string of the Common Expression Language. Raises `InvalidLocation` for control characters."""
    if any(not character.isprintable() and character != " " and ord(character) < 0xA0 for character in text):  # noqa: PLR2004
        raise InvalidLocation("The location contains a control character")
    quoted = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{quoted}'"
