"""Temporary tokens of Google Cloud Storage: one of the warehouse's identity, exchanged for one with a boundary.

https://cloud.google.com/iam/docs/downscoping-short-lived-credentials
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, timedelta
from functools import lru_cache
from typing import Any, Final

import google.auth
from google.auth import transport
from google.auth.credentials import Credentials
from google.auth.downscoped import AccessBoundaryRule, AvailabilityCondition, CredentialAccessBoundary
from google.auth.downscoped import Credentials as DownscopedCredentials
from google.auth.exceptions import GoogleAuthError, TransportError
from google.oauth2.service_account import Credentials as ServiceAccount

from icekeeper.kernel.clock import now
from icekeeper.kernel.errors import InvalidLocation
from storage.credentials.gcs import GcpSystemIdentity, GcsServiceAccount
from storage.identity.keys import CredentialNotIssued
from storage.identity.token_service import Answer, ask
from storage.io.port import StoreUnavailable
from storage.profiles.addresses import USUAL_UNIVERSE, require_permitted_addresses
from storage.profiles.gcs import GcsProfile
from storage.vending.folder import folder_of
from storage.vending.rights import Rights
from storage.vending.vended import Vended

SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
USUAL_LIFE: Final = timedelta(hours=1)

_ROLES: Final = {Rights.READ: "inRole:roles/storage.objectViewer", Rights.READ_WRITE: "inRole:roles/storage.objectUser"}
_HOST = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+")
_CODE = re.compile(r"(?:Error code )?([a-z_]{1,50}): ")


class GoogleTransport(transport.Request):  # type: ignore[misc]  # google-auth has no types
    """How google-auth's own requests are sent here."""

    def __call__(
        self,
        url: str,
        method: str = "GET",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        **_: Any,
    ) -> GoogleAnswer:
        try:
            return GoogleAnswer(ask(method, url, headers=headers or {}, body=lambda: body))
        except StoreUnavailable as failure:
            raise TransportError(failure.message) from None


class GoogleAnswer(transport.Response):  # type: ignore[misc]  # as above
    """An answer as google-auth reads it."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    @property
    def status(self) -> int:
        return self._answer.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._answer.headers

    @property
    def data(self) -> bytes:
        return self._answer.body


_google = GoogleTransport()


def issue(
    profile: GcsProfile,
    credential: GcsServiceAccount | GcpSystemIdentity,
    *,
    location: str,
    rights: Rights,
    request: transport.Request = _google,
) -> Vended:
    """Raises `InvalidLocation`, `EndpointNotPermitted` (400), `CredentialNotIssued` (412), `StoreUnavailable` (503)."""
    boundary = access_boundary(profile.bucket, folder_of(location, profile), rights)
    asked_at = now()
    try:
        universe = _universe(credential)
        require_permitted_addresses(profile, credential)
        source, project = _source(credential, request)
        lent = DownscopedCredentials(source, boundary, universe_domain=universe)
        lent.refresh(request)
    except TransportError as failure:
        raise StoreUnavailable(_told(failure, "The token service of Google did not answer")) from None
    except GoogleAuthError as refusal:
        code = _CODE.match(str(refusal.args[0] if refusal.args else ""))
        said = code[1] if code else type(refusal).__name__
        raise CredentialNotIssued(f"The token service of Google refused a token: {said}") from None
    except (ValueError, TypeError, KeyError, AttributeError):  # what google-auth does with a key or answer that is none
        raise CredentialNotIssued("No token could be made with the warehouse's credential") from None
    if not isinstance(lent.token, str) or not lent.token:
        raise CredentialNotIssued("The token service of Google answered without a token")
    expires_at = asked_at + USUAL_LIFE if lent.expiry is None else lent.expiry.replace(tzinfo=UTC)
    named = {"gcs.project-id": project} if project else {}
    return Vended({"gcs.oauth2.token": lent.token, **named}, expires_at)


def access_boundary(bucket: str, folder: str, rights: Rights) -> CredentialAccessBoundary:
    """For the objects (and folders, where the bucket has some) below `folder`, and lists of these."""
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
    """A string of the Common Expression Language. Raises `InvalidLocation` for what could end it: line breaks."""
    if any(not character.isprintable() and character != " " and ord(character) < 0xA0 for character in text):  # noqa: PLR2004
        raise InvalidLocation("The location holds a control character")
    quoted = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{quoted}'"


def _source(
    credential: GcsServiceAccount | GcpSystemIdentity, request: transport.Request
) -> tuple[Credentials, str | None]:
    """Whose token is exchanged, and the project if it is known."""
    match credential:
        case GcsServiceAccount():
            document = credential.key.revealed()
            return ServiceAccount.from_service_account_info(document, scopes=[SCOPE]), document["project_id"]
    return _own(request)


def _universe(credential: GcsServiceAccount | GcpSystemIdentity) -> str:
    """The domain of that part of Google Cloud. Raises ValueError."""
    if not isinstance(credential, GcsServiceAccount):
        return USUAL_UNIVERSE
    universe = credential.key.universe_domain.get_secret_value()
    if not _HOST.fullmatch(universe):
        raise ValueError("no domain")
    return universe


@lru_cache(maxsize=1)
def _own(request: transport.Request) -> tuple[Credentials, str | None]:
    """The identity that this server has on Google Cloud."""
    source, project = google.auth.default(scopes=[SCOPE], request=request)
    return source, project


def _told(failure: TransportError, otherwise: str) -> str:
    """Our own words, when the failure has them."""
    return str(failure) if str(failure).startswith("The token service") else otherwise
