"""Google Cloud credentials of the catalog itself: a service account, or the server's own identity."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC
from functools import lru_cache
from typing import Any, Final

import google.auth
from google.auth import transport
from google.auth.credentials import Credentials
from google.auth.exceptions import GoogleAuthError, TransportError
from google.oauth2.service_account import Credentials as ServiceAccount

from storage.credentials import DEFAULT_UNIVERSE, GcpSystemIdentity, GcsServiceAccount
from storage.errors import StoreUnavailable
from storage.identity.keys import CredentialNotIssued, Token, require_usable
from storage.identity.token_service import TokenServiceResponse, send_request
from storage.profiles.addresses import require_permitted_addresses
from storage.profiles.gcs import GcsProfile

SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"

_HOST = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+")
_CODE = re.compile(r"(?:Error code )?([a-z_]{1,50}): ")


class GoogleTransport(transport.Request):  # type: ignore[misc]  # google-auth has no types
    """Sends the requests of google-auth, with our limits and retries."""

    def __call__(
        self,
        url: str,
        method: str = "GET",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        **_: Any,
    ) -> GoogleResponse:
        try:
            return GoogleResponse(send_request(method, url, headers=headers or {}, body=lambda: body))
        except StoreUnavailable as failure:
            raise TransportError(failure.message) from None


class GoogleResponse(transport.Response):  # type: ignore[misc]  # as above
    """A response in the form that google-auth reads."""

    def __init__(self, response: TokenServiceResponse) -> None:
        self._response = response

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._response.headers

    @property
    def data(self) -> bytes:
        return self._response.body


google_transport: Final = GoogleTransport()


def catalog_token(profile: GcsProfile, credential: GcsServiceAccount | GcpSystemIdentity) -> Token:
    """What the catalog itself reads and writes with.

    Raises `CredentialNotIssued`, `EndpointNotPermitted`, `StoreUnavailable`.
    """
    require_permitted_addresses(profile, credential)
    with translate_google_errors():
        source, _ = google_credentials(credential, google_transport)
        source.refresh(google_transport)
    if not isinstance(source.token, str) or not source.token:
        raise CredentialNotIssued("The token service of Google sent no token")
    return Token(source.token, None if source.expiry is None else source.expiry.replace(tzinfo=UTC))


def google_credentials(
    credential: GcsServiceAccount | GcpSystemIdentity, request: transport.Request
) -> tuple[Credentials, str | None]:
    """Return the google-auth credentials, and the project if it is known. Raises `CredentialNotIssued`."""
    match credential:
        case GcsServiceAccount():
            document = credential.key.reveal()
            return ServiceAccount.from_service_account_info(document, scopes=[SCOPE]), document["project_id"]
    require_usable(credential)
    return _own(request)


def universe_of(credential: GcsServiceAccount | GcpSystemIdentity) -> str:
    """Return the universe domain of a credential. Raises ValueError if it is not a domain."""
    if not isinstance(credential, GcsServiceAccount):
        return DEFAULT_UNIVERSE
    universe = credential.key.universe_domain.get_secret_value()
    if not _HOST.fullmatch(universe):
        raise ValueError("no domain")
    return universe


@lru_cache(maxsize=1)
def _own(request: transport.Request) -> tuple[Credentials, str | None]:
    """Return the server's own Google Cloud identity."""
    source, project = google.auth.default(scopes=[SCOPE], request=request)
    return source, project


@contextmanager
def translate_google_errors() -> Iterator[None]:
    """Translate errors of google-auth into `CredentialNotIssued` (412) and `StoreUnavailable` (503)."""
    try:
        yield
    except TransportError as failure:
        raise StoreUnavailable(_own_message(failure, "The token service of Google did not respond")) from None
    except GoogleAuthError as error:
        code = _CODE.match(str(error.args[0] if error.args else ""))
        said = code[1] if code else type(error).__name__
        raise CredentialNotIssued(f"The token service of Google refused a token: {said}") from None
    except (
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
    ):  # of google-auth, for invalid keys and responses
        raise CredentialNotIssued("No token could be obtained with the warehouse's credential") from None


def _own_message(failure: TransportError, otherwise: str) -> str:
    """Return the message of the failure if it is ours."""
    return str(failure) if str(failure).startswith("The token service") else otherwise
