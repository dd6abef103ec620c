"""botocore clients whose responses are limited in size and time, for AWS and compatible services."""

from __future__ import annotations

import io
import time
from functools import lru_cache
from threading import Lock
from typing import Any, Final

from botocore.awsrequest import (
    AWSHTTPConnection,
    AWSHTTPConnectionPool,
    AWSHTTPSConnection,
    AWSHTTPSConnectionPool,
    AWSPreparedRequest,
    AWSResponse,
)
from botocore.config import Config
from botocore.exceptions import HTTPClientError
from botocore.httpsession import URLLib3Session
from botocore.session import Session
from botocore.utils import get_environ_proxies
from django.conf import settings
from urllib3 import HTTPResponse
from urllib3.exceptions import HTTPError

from icekeeper.kernel.http.client import TimedConnection, UnusableResponse, limit_time, read_response
from storage.network.store_http import MAX_RESPONSE_BYTES, ca_bundle

creation_lock: Final = Lock()
"""Neither the creation of a client, which reads files, nor the look-up of the server's own identity is thread-safe."""
_SUCCESS: Final = range(200, 300)


class AwsResponseNotRead(HTTPClientError):  # type: ignore[misc]  # botocore has no types
    """A response exceeds the size or time limit."""

    fmt = "The response {error}"


def create_client(
    service: str, endpoint: str | None, *, region: str, keys: tuple[str, str, str | None], **options: Any
) -> Any:
    """Create a client of `service`. `keys` are id, secret and session token, `options` those of botocore's `Config`.

    It does not retry or follow redirects. It reads at most `MAX_RESPONSE_BYTES` of a response, within the request
    timeout. Bodies of objects are returned unread; their `read` returns what has arrived.
    """
    limits = settings.ICEKEEPER.storage
    access_key_id, secret_access_key, session_token = keys
    with creation_lock:
        client = _session().create_client(
            service,
            region_name=region,
            endpoint_url=endpoint,
            aws_access_key_id=access_key_id,
            aws_secret_access_key=secret_access_key,
            aws_session_token=session_token,
            verify=None if limits.ca_bundle is None else str(limits.ca_bundle),
            config=Config(
                connect_timeout=limits.connect_timeout,
                read_timeout=limits.request_timeout,
                retries={"mode": "standard", "total_max_attempts": 1},  # the caller retries, within its deadline
                **options,
            ),
        )
    _limit_responses(client, client.meta.endpoint_url)
    return client


@lru_cache(maxsize=1)
def _session() -> Session:
    """Return a shared session: each one loads 10 MB of service descriptions."""
    return Session()


def _limit_responses(client: Any, endpoint: str) -> None:
    limits = settings.ICEKEEPER.storage
    session = _BoundedAwsSession(
        verify=ca_bundle(),
        proxies=get_environ_proxies(endpoint),
        timeout=(limits.connect_timeout, limits.request_timeout),
    )
    client.meta.events.register("before-send", lambda request, **_: session.send(request))


class _TimedHTTPConnection(TimedConnection, AWSHTTPConnection):  # type: ignore[misc]  # as above
    pass


class _TimedHTTPSConnection(TimedConnection, AWSHTTPSConnection):  # type: ignore[misc]  # as above
    pass


class _TimedHTTPPool(AWSHTTPConnectionPool):  # type: ignore[misc]  # as above
    ConnectionCls = _TimedHTTPConnection


class _TimedHTTPSPool(AWSHTTPSConnectionPool):  # type: ignore[misc]  # as above
    ConnectionCls = _TimedHTTPSConnection


class _BoundedAwsSession(URLLib3Session):  # type: ignore[misc]  # as above
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._pool_classes_by_scheme.update({"http": _TimedHTTPPool, "https": _TimedHTTPSPool})

    def send(self, request: AWSPreparedRequest) -> AWSResponse:
        until = time.monotonic() + settings.ICEKEEPER.storage.request_timeout
        is_object, request.stream_output = request.stream_output, True
        response = super().send(request)
        if is_object and response.status_code in _SUCCESS:
            limit_time(response.raw, until)
            return AWSResponse(response.url, response.status_code, response.headers, _ObjectBody(response.raw))
        try:
            body = read_response(response.raw, limit=MAX_RESPONSE_BYTES, until=until)
        except (UnusableResponse, HTTPError, OSError) as error:
            response.raw.close()
            raise AwsResponseNotRead(error=error) from None
        response.raw.release_conn()  # an empty body does not release it
        whole = HTTPResponse(io.BytesIO(body), preload_content=False)
        return AWSResponse(response.url, response.status_code, response.headers, whole)


class _ObjectBody:
    """The body of an object; `read` returns what has arrived, without waiting for as much as was requested."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def read(self, size: int | None = None) -> bytes:
        piece: bytes = self._raw.read1(size, decode_content=False)
        if not piece:
            self._raw.release_conn()
        return piece

    def close(self) -> None:
        self._raw.close()
