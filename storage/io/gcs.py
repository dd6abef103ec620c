"""Client of a bucket of Google Cloud Storage.

Lists, deletions and reads use the JSON API directly and not google-cloud-storage. Measured with version 3.17.1 on
fake-gcs-server: both need the same number of requests (one for each page, look-up and deletion) and about the same CPU
for lists. The library needs 1.0 to 1.5 times the CPU for a look-up, 1.1 to 1.2 times for a deletion, and six to seven
times the CPU of obstore for a conditional upload. It installs nine packages, itself and protobuf among them, and its
timeouts apply to each wait for the socket, not to a whole response.

Known cost: each deletion is a request, up to `max_parallel_deletes` of them at the same time. The library's
`client.batch()` sends many deletions in one request. Not measured: on fake-gcs-server the batch deleted nothing
and failed with "Bad response: not multi-part".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, ClassVar, Final, Self
from urllib.parse import quote

import requests
from django.conf import settings
from obstore.store import GCSStore

from icekeeper.kernel import request_context
from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.http.client import BoundedSession, ResponseBodyTooLarge
from icekeeper.kernel.json.strict import JsonBound, read_json
from storage.credentials import DEFAULT_UNIVERSE, Credential, GcpSystemIdentity, GcsServiceAccount
from storage.errors import StoreRefused, StoreUnavailable
from storage.identity.google import catalog_token
from storage.identity.keys import CredentialNotIssued, RefreshingValue, Token
from storage.io.bucket import (
    NO_RETRIES,
    PAGE,
    Bucket,
    ListedPage,
    client_options,
    listed_size,
    store_error,
    too_large_error,
    unavailable_error,
)
from storage.io.port import ObjectNotFound
from storage.network.store_http import (
    MAX_RESPONSE_BYTES,
    RemainingTime,
    ca_bundle,
    retry_store_call,
    store_session,
    unlimited,
)
from storage.profiles.gcs import GcsProfile
from storage.vending.delegation import Vended

if TYPE_CHECKING:
    from obstore.store import GCSConfig, GCSCredential  # only for type checkers

MAX_CODE_LENGTH: Final = 80
SUCCESS: Final = range(200, 300)

_BOUND: Final = JsonBound(containers=10_000, values=20_000)


class GcsBucket(Bucket):
    """`issue` returns a new access token; `universe` is the domain of the API endpoints."""

    kind = "gcs"
    max_parallel_deletes: ClassVar[int] = 16

    def __init__(self, profile: GcsProfile, issue: Callable[[], Token], *, universe: str = DEFAULT_UNIVERSE) -> None:
        service = settings.ICEKEEPER.storage.gcs_endpoint or f"https://storage.{universe}"
        self._objects_at = f"{service}/storage/v1/b/{profile.bucket}/o"
        self._location = f"gs://{profile.bucket}"
        self._tokens = RefreshingValue(issue, timeout_error=StoreUnavailable)
        self._session = store_session()
        self._objects = store_session(max_bytes=max(MAX_RESPONSE_BYTES, settings.ICEKEEPER.metadata_file_limit + 1))
        config: GCSConfig = {  # obstore reads omitted options from the environment
            "bucket": profile.bucket,
            "base_url": service,
            "skip_signature": False,
        }
        self.objects = GCSStore(
            config=config,
            client_options=client_options(service),
            retry_config=NO_RETRIES,
            credential_provider=_credential_provider(self._tokens),
        )

    @classmethod
    def of(cls, profile: GcsProfile, credential: Credential | Vended | None) -> Self:
        """Return the client of the catalog itself with its credential, or of an engine with vended credentials.

        Raises `CredentialNotIssued`.
        """
        match credential:
            case GcsServiceAccount():
                universe = credential.key.universe_domain.get_secret_value()
                return cls(profile, lambda: catalog_token(profile, credential), universe=universe)
            case GcpSystemIdentity():
                return cls(profile, lambda: catalog_token(profile, credential))
            case Vended():
                token = Token(credential.config["gcs.oauth2.token"], credential.expires_at)
                return cls(profile, lambda: token)
        raise CredentialNotIssued("The warehouse has no credential for its storage")

    def prepare(self) -> None:
        self._tokens.current()

    def read(self, name: str, location: str, limit: int) -> bytes:
        """Uses the JSON API: obstore would follow redirects to any host."""
        try:
            with self._detect_missing_bucket():
                found = self._send(self._objects, "GET", self._object(name), location, {"alt": "media"})
        except ResponseBodyTooLarge:
            raise too_large_error(location, limit) from None
        if len(found) > limit:
            raise too_large_error(location, limit)
        return found

    def require(self, name: str, location: str) -> None:
        with self._detect_missing_bucket():
            self._request("GET", self._object(name), location, {"fields": "name"})

    def list_names(
        self, prefix: str, *, page: int = PAGE, remaining: RemainingTime = unlimited
    ) -> Iterator[ListedPage]:
        parameters = {"prefix": prefix, "maxResults": str(page), "fields": "items(name,size),nextPageToken"}
        while True:
            try:
                listed = self._retry("GET", self._objects_at, prefix, parameters, remaining=remaining)
            except ObjectNotFound:
                raise StoreRefused(f"The bucket of {self._location}/{prefix} does not exist") from None
            found, token = _listed(listed, f"{self._location}/{prefix}")
            yield found
            if token is None:
                return
            parameters["pageToken"] = token

    def delete_name(self, name: str, *, remaining: RemainingTime = unlimited) -> None:
        with suppress(ObjectNotFound):
            self._retry("DELETE", self._object(name), name, {}, remaining=remaining)

    def _object(self, name: str) -> str:
        return f"{self._objects_at}/{quote(name, safe='')}"

    @contextmanager
    def _detect_missing_bucket(self) -> Iterator[None]:
        """After a 404, check whether the bucket exists: the response is the same for a missing object and bucket."""
        try:
            yield
        except ObjectNotFound:
            next(self.list_names("", page=1, remaining=request_context.remaining_seconds), None)
            raise

    def _retry(
        self,
        method: str,
        address: str,
        name: str,
        parameters: dict[str, str],
        *,
        remaining: RemainingTime = unlimited,
    ) -> bytes:
        """Send a request with retries."""
        location = f"{self._location}/{name}"
        return retry_store_call(lambda _: self._request(method, address, location, parameters), remaining=remaining)

    def _request(self, method: str, address: str, location: str, parameters: dict[str, str]) -> bytes:
        try:
            return self._send(self._session, method, address, location, parameters)
        except ResponseBodyTooLarge as error:
            raise unavailable_error(type(error).__name__, location) from None

    def _send(
        self, session: BoundedSession, method: str, address: str, location: str, parameters: dict[str, str]
    ) -> bytes:
        """Raises `ResponseBodyTooLarge`."""
        try:
            response = session.request(method, address, params=parameters, auth=self._sign, verify=ca_bundle())
        except ResponseBodyTooLarge:
            raise
        except (requests.RequestException, ValueError) as error:
            raise unavailable_error(type(error).__name__, location) from None
        if response.status_code in SUCCESS:
            return response.content
        raise store_error(response.status_code, _reason(response.content), location)

    def _sign(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._tokens.current().value}"
        return request


def _credential_provider(tokens: RefreshingValue[Token]) -> Callable[[], GCSCredential]:
    """Return obstore's callback for tokens. It must not refer to the bucket: such a cycle is never collected."""

    def provide() -> GCSCredential:
        token = tokens.current()
        return {"token": token.value, "expires_at": token.expires_at}

    return provide


def _listed(response: bytes, location: str) -> tuple[ListedPage, str | None]:
    """Parse a page of objects and the token of the next page."""
    try:
        page = read_json(response, bound=_BOUND)
        objects = {each["name"]: listed_size(each.get("size")) for each in page.get("items", [])}
        token = page.get("nextPageToken") or None
    except (BadRequest, AttributeError, KeyError, TypeError):
        objects, token = {None: 0}, None
    if not all(isinstance(name, str) for name in objects) or not isinstance(token, str | None):
        raise unavailable_error("no list", location)
    return ListedPage(objects), token


def _reason(response: bytes) -> str | None:
    """Return Google's reason code of an error response."""
    try:
        reason = read_json(response, bound=_BOUND)["error"]["errors"][0]["reason"]
    except (BadRequest, KeyError, IndexError, TypeError):
        return None
    return reason if isinstance(reason, str) and reason.isalpha() and len(reason) <= MAX_CODE_LENGTH else None
