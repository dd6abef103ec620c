"""Clients of AWS, and of what speaks like it, whose answers botocore reads within bounds."""

from __future__ import annotations

import io
import time
from contextlib import ExitStack, suppress
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

from icekeeper.kernel.http.http_answers import UnusableResponse, read_bounded
from icekeeper.kernel.http.timed_connections import Timed, time_limit
from storage.network.http_session import MAX_RESPONSE_BYTES, ca_bundle

making: Final = Lock()
"""Making a client reads files and is not safe in threads, and neither is finding out who the server is."""
_SUCCESS: Final = range(200, 300)


class AnswerNotRead(HTTPClientError):  # type: ignore[misc]  # botocore has no types
    """Too large, or not there in time."""

    fmt = "The answer {error}"


def make_client(
    service: str, endpoint: str | None, *, region: str, keys: tuple[str, str, str | None], **options: Any
) -> Any:
    """A client of `service` that asks once; `keys` are id, secret and token, `options` those of botocore's `Config`.

    It reads at most `MAX_RESPONSE_BYTES` of a response, for no longer than a request may take. Bodies of objects are
    returned unread; their `read` returns what has arrived. Redirects are not followed.
    """
    limits = settings.ICEKEEPER.storage
    access_key_id, secret_access_key, session_token = keys
    with making:
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
                retries={"mode": "standard", "total_max_attempts": 1},  # whoever asks tries again, within its time
                **options,
            ),
        )
    _bound_answers(client, client.meta.endpoint_url)
    return client


@lru_cache(maxsize=1)
def _session() -> Session:
    """One for all, as each reads the descriptions of the services for itself: 10 MB."""
    return Session()


def _bound_answers(client: Any, endpoint: str) -> None:
    limits = settings.ICEKEEPER.storage
    session = _Session(
        verify=ca_bundle(),
        proxies=get_environ_proxies(endpoint),
        timeout=(limits.connect_timeout, limits.request_timeout),
    )
    client.meta.events.register("before-send", lambda request, **_: session.send(request))


class _HTTPConnection(Timed, AWSHTTPConnection):  # type: ignore[misc]  # as above
    pass


class _HTTPSConnection(Timed, AWSHTTPSConnection):  # type: ignore[misc]  # as above
    pass


class _HTTPPool(AWSHTTPConnectionPool):  # type: ignore[misc]  # as above
    ConnectionCls = _HTTPConnection


class _HTTPSPool(AWSHTTPSConnectionPool):  # type: ignore[misc]  # as above
    ConnectionCls = _HTTPSConnection


_POOLS: Final = {"http": _HTTPPool, "https": _HTTPSPool}


class _Session(URLLib3Session):  # type: ignore[misc]  # as above
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._pool_classes_by_scheme.update(_POOLS)

    def send(self, request: AWSPreparedRequest) -> AWSResponse:
        until = time.monotonic() + settings.ICEKEEPER.storage.request_timeout
        is_object, request.stream_output = request.stream_output, True
        answer = super().send(request)
        if is_object and answer.status_code in _SUCCESS:
            return AWSResponse(answer.url, answer.status_code, answer.headers, _Promptly(answer.raw, until))
        try:
            with time_limit(answer.raw.socket, until - time.monotonic()):
                body = read_bounded(
                    lambda size: answer.raw.read1(size, decode_content=False), limit=MAX_RESPONSE_BYTES, until=until
                )
        except (UnusableResponse, HTTPError, OSError) as error:
            answer.raw.close()
            raise AnswerNotRead(error=error) from None
        answer.raw.release_conn()  # an empty answer does not by itself
        whole = HTTPResponse(io.BytesIO(body), preload_content=False)
        return AWSResponse(answer.url, answer.status_code, answer.headers, whole)


class _Promptly:
    """The body of an object, of which `read` does not wait until all has come that was asked for, nor after `until`."""

    def __init__(self, raw: Any, until: float) -> None:
        self._raw = raw
        self._cut_off = ExitStack()
        self._cut_off.enter_context(time_limit(raw.socket, until - time.monotonic()))

    def read(self, size: int | None = None) -> bytes:
        piece: bytes = self._raw.read1(size, decode_content=False)
        if not piece:
            self._cut_off.close()
            self._raw.release_conn()
        return piece

    def close(self) -> None:
        with suppress(TimeoutError):  # nobody wants what is left
            self._cut_off.close()
        self._raw.close()
