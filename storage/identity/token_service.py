"""HTTP requests to token services, within the limits of `ICEKEEPER__STORAGE__*`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, TypeVar

import requests

from icekeeper.kernel import request_context
from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.http.client import BoundedSession, ResponseNotRead
from icekeeper.kernel.json.strict import JsonBound, read_json
from icekeeper.kernel.threads import release_thread_slot
from icekeeper.version import VERSION
from storage.errors import StoreUnavailable
from storage.identity.keys import CredentialNotIssued
from storage.network.store_http import ca_bundle, retry_store_call, store_session, timeouts

T = TypeVar("T")

MAX_RESPONSE_BYTES: Final = 262_144

_BOUND: Final = JsonBound(containers=1_000, values=10_000)
_CODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_TOO_MANY, _FAILED = 429, 500


@dataclass(frozen=True, slots=True)
class TokenServiceResponse:
    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300  # noqa: PLR2004

    def document(self) -> dict[str, Any]:
        """Return the JSON object of the body; empty if the body is anything else."""
        try:
            document = read_json(self.body, bound=_BOUND)
        except BadRequest:
            return {}
        return document if isinstance(document, dict) else {}


def send_request(
    method: str, address: str, *, headers: Mapping[str, str], body: Callable[[], bytes | None]
) -> TokenServiceResponse:
    """Send a request with retries; `body` builds the body of each attempt. Redirects are not followed.

    Raises `StoreUnavailable` (503) when the service failed or could not be reached, `RequestTimeout` (408) when the
    deadline of the current request has passed.
    """
    return retry_within_deadline(lambda: _attempt(method, address, headers=headers, body=body()))


def retry_within_deadline(attempt: Callable[[], T]) -> T:
    """Retry on `StoreUnavailable`, within the limits of the settings and the deadline of the request.

    The thread slot is released meanwhile. Raises as `send_request`.
    """
    with release_thread_slot():
        return retry_store_call(lambda _: attempt(), remaining=request_context.remaining_seconds)


def not_issued_error(response: TokenServiceResponse, code: object) -> CredentialNotIssued:
    """Return the error for a response without a credential. It contains the service's error code, but no text."""
    said = str(code) if isinstance(code, str | int) else ""
    shown = said if _CODE.fullmatch(said) else f"status {response.status}"
    return CredentialNotIssued(f"The token service of the storage refused temporary credentials: {shown}")


def required_text(document: Mapping[str, Any], name: str) -> str:
    """Return a text of a response. Raises `CredentialNotIssued` when it is missing."""
    value = document.get(name)
    if not isinstance(value, str) or not value:
        raise CredentialNotIssued("The token service of the storage sent no credentials")
    return value


def _attempt(method: str, address: str, *, headers: Mapping[str, str], body: bytes | None) -> TokenServiceResponse:
    sent = {"Accept": "application/json", "User-Agent": f"Icekeeper/{VERSION}"}
    try:
        response = _session().request(
            method,
            address,
            data=body,
            headers={**sent, **headers},
            timeout=timeouts(),
            verify=ca_bundle(),
        )
    except ResponseNotRead as complaint:
        raise StoreUnavailable(f"The token service of the storage {complaint}") from None
    except (requests.RequestException, ValueError) as error:
        raise StoreUnavailable(f"The token service of the storage did not respond: {type(error).__name__}") from None
    read = TokenServiceResponse(response.status_code, response.headers, response.content)
    if read.status == _TOO_MANY or read.status >= _FAILED:
        raise StoreUnavailable(f"The token service of the storage failed: status {read.status}")
    return read


@lru_cache(maxsize=1)
def _session() -> BoundedSession:
    """Return the shared session; it has no state but connections."""
    return store_session(max_bytes=MAX_RESPONSE_BYTES)
