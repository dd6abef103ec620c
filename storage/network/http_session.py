"""Requests to other servers over HTTP, within the bounds of `ICEKEEPER__STORAGE__*`."""

from __future__ import annotations

import io
import time
from http.cookiejar import DefaultCookiePolicy
from typing import Any, Final

import requests
from django.conf import settings
from requests.adapters import HTTPAdapter
from urllib3 import HTTPResponse
from urllib3.exceptions import HTTPError

from icekeeper.kernel.http.http_answers import NoRedirectSession, ResponseTooLarge, UnusableResponse, read_bounded
from icekeeper.kernel.http.timed_connections import POOLS, time_limit

MAX_RESPONSE_BYTES: Final = 16 * 1024 * 1024
"""Of all but single objects: a list of 1000 names, each of 1024 bytes of six signs, takes less."""
HOSTS, CONNECTIONS = 64, 64
"""Kept open: hosts, and connections to each."""


class ResponseNotRead(requests.RequestException):
    """Not there in time, or ended early."""


class ResponseBodyTooLarge(ResponseNotRead):
    """More than `largest` bytes."""


class BoundedSession(NoRedirectSession):
    """Keeps connections, and nothing else: no cookies, no passwords of ~/.netrc. For threads.

    Answers are read whole, as they were sent: up to `largest` bytes, and for no longer than the time for one answer
    (the second of `timeout`), however slowly they come. Redirects are answers, and are not followed.
    """

    def __init__(self, *, largest: int = MAX_RESPONSE_BYTES) -> None:
        super().__init__()
        self._largest = largest
        self.auth = _as_it_is
        self.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        self.headers["Accept-Encoding"] = "identity"
        adapter = _Adapter(pool_connections=HOSTS, pool_maxsize=CONNECTIONS)
        self.mount("https://", adapter)
        self.mount("http://", adapter)

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """Raises `requests.RequestException`."""
        limits = settings.ICEKEEPER.storage
        timeout = options.get("timeout") or (limits.connect_timeout, limits.request_timeout)
        until = time.monotonic() + timeout[1]
        options |= {"timeout": timeout, "stream": True, "allow_redirects": False}
        answer = super().send(request, **options)
        try:
            with time_limit(answer.raw.socket, until - time.monotonic()):
                body = read_bounded(
                    lambda size: answer.raw.read1(size, decode_content=False), limit=self._largest, until=until
                )
        except UnusableResponse as error:
            answer.close()
            kind = ResponseBodyTooLarge if isinstance(error, ResponseTooLarge) else ResponseNotRead
            raise kind(str(error), request=request) from None
        except TimeoutError as error:
            answer.close()
            raise ResponseNotRead(str(error), request=request) from None
        except (HTTPError, OSError) as error:
            answer.close()
            raise ResponseNotRead(f"did not send all of its answer: {type(error).__name__}", request=request) from None
        answer.raw.release_conn()  # an empty answer does not by itself
        answer.raw = HTTPResponse(io.BytesIO(body), preload_content=False)
        return answer


class _Adapter(HTTPAdapter):
    """Of timed connections, also to a proxy."""

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        super().init_poolmanager(*arguments, **options)
        self.poolmanager.pool_classes_by_scheme = POOLS

    def proxy_manager_for(self, *arguments: Any, **options: Any) -> Any:
        manager = super().proxy_manager_for(*arguments, **options)
        manager.pool_classes_by_scheme = POOLS
        return manager


def ca_bundle() -> bool | str:
    """What `verify` of requests, and what is built upon it, is to be."""
    bundle = settings.ICEKEEPER.storage.ca_bundle
    return True if bundle is None else str(bundle)


def _as_it_is(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Keeps requests from putting a password of ~/.netrc in the place of the Authorization header."""
    return request
