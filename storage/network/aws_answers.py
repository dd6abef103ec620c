"""Answers of AWS, and of what speaks like it, that botocore reads within bounds."""

from __future__ import annotations

import io
import time
from typing import Any, Final

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import HTTPClientError
from botocore.httpsession import URLLib3Session
from botocore.utils import get_environ_proxies
from django.conf import settings
from urllib3 import HTTPResponse
from urllib3.exceptions import HTTPError

from icekeeper.kernel.http_answers import UnusableAnswer, read_pieces
from storage.network.http_session import LARGEST_ANSWER, ca_bundle

_SUCCESS: Final = range(200, 300)


class AnswerNotRead(HTTPClientError):  # type: ignore[misc]  # botocore has no types
    """Too large, or not there in time."""

    fmt = "The answer {error}"


def bound_answers(client: Any, endpoint: str) -> None:
    """Make `client` read no more of an answer than `LARGEST_ANSWER`, and no longer than a request may take.

    Objects are handed out unread, and `read` of their bodies gives what has come. Redirects are not followed.
    """
    limits = settings.ICEKEEPER.storage
    session = _Session(
        verify=ca_bundle(),
        proxies=get_environ_proxies(endpoint),
        timeout=(limits.connect_timeout, limits.request_timeout),
    )
    client.meta.events.register("before-send", lambda request, **_: session.send(request))


class _Session(URLLib3Session):  # type: ignore[misc]  # as above
    def send(self, request: AWSPreparedRequest) -> AWSResponse:
        until = time.monotonic() + settings.ICEKEEPER.storage.request_timeout
        is_object, request.stream_output = request.stream_output, True
        answer = super().send(request)
        if is_object and answer.status_code in _SUCCESS:
            return AWSResponse(answer.url, answer.status_code, answer.headers, _Promptly(answer.raw))
        try:
            body = read_pieces(
                lambda size: answer.raw.read1(size, decode_content=False), limit=LARGEST_ANSWER, until=until
            )
        except (UnusableAnswer, HTTPError, OSError) as error:
            answer.raw.close()
            raise AnswerNotRead(error=error) from None
        answer.raw.release_conn()  # an empty answer does not by itself
        whole = HTTPResponse(io.BytesIO(body), preload_content=False)
        return AWSResponse(answer.url, answer.status_code, answer.headers, whole)


class _Promptly:
    """The body of an object, of which `read` does not wait until all has come that was asked for."""

    def __init__(self, raw: HTTPResponse) -> None:
        self._raw = raw

    def read(self, size: int | None = None) -> bytes:
        piece = self._raw.read1(size, decode_content=False)
        if not piece:
            self._raw.release_conn()
        return piece

    def close(self) -> None:
        self._raw.close()
