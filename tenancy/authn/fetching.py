"""One JSON document from an identity provider or from Kubernetes, over HTTP, within bounds."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import requests
from requests.auth import AuthBase
from urllib3.exceptions import HTTPError

from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.http.client import NoRedirectSession, UnusableResponse, read_response
from icekeeper.kernel.json.strict import JsonBound, read_json
from icekeeper.version import VERSION

LARGEST_DOCUMENT: Final = 1024 * 1024
_BOUND: Final = JsonBound(containers=10_000, values=100_000)


class FetchFailed(Exception):
    """Why a document could not be had, for the log."""


@dataclass(frozen=True, slots=True)
class Fetcher:
    """`timeout` is in seconds, for the answer as a whole once it comes and for each wait before that.

    `ca_file` replaces the usual certificates; `through_proxy` is whether HTTPS_PROXY and its like count; `bearer` is
    sent as a token and never shown.
    """

    timeout: float
    ca_file: Path | None = None
    through_proxy: bool = True
    bearer: str | None = field(default=None, repr=False)

    def get(self, address: str) -> dict[str, Any]:
        """Raises `FetchFailed`."""
        return self._fetch("GET", address)

    def post(self, address: str, document: dict[str, Any]) -> dict[str, Any]:
        """Raises `FetchFailed`."""
        return self._fetch("POST", address, json=document)

    def _fetch(self, method: str, address: str, **more: Any) -> dict[str, Any]:
        deadline = time.monotonic() + self.timeout
        if urlsplit(address).scheme not in {"http", "https"}:
            raise FetchFailed("its address is neither http nor https")
        try:
            with NoRedirectSession() as session:
                session.trust_env = self.through_proxy
                answer = session.request(
                    method,
                    address,
                    timeout=self.timeout,
                    allow_redirects=False,
                    stream=True,
                    verify=str(self.ca_file) if self.ca_file is not None else True,
                    auth=_Bearer(self.bearer),
                    headers={
                        "Accept": "application/json",
                        "Accept-Encoding": "identity",
                        "User-Agent": f"Icekeeper/{VERSION}",
                    },
                    **more,
                )
                with answer:  # also when nobody wants to read what is left of it
                    return _document(answer, deadline)
        except (requests.RequestException, HTTPError, OSError, ValueError) as error:
            raise FetchFailed(f"{address} cannot be reached: {_reason(error)}") from None


class _Bearer(AuthBase):
    """Also keeps requests from looking for a password of its own in ~/.netrc."""

    def __init__(self, token: str | None) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._token is not None:
            request.headers["Authorization"] = f"Bearer {self._token}"
        return request


def _document(answer: requests.Response, deadline: float) -> dict[str, Any]:
    address = answer.url
    if answer.is_redirect or 300 <= answer.status_code < 400:  # noqa: PLR2004
        raise FetchFailed(f"{address} redirects elsewhere, which is not followed")
    if answer.status_code // 100 != 2:  # noqa: PLR2004
        raise FetchFailed(f"{address} answered {answer.status_code}")
    if answer.headers.get("Content-Encoding", "identity") != "identity":
        raise FetchFailed(f"{address} sent something compressed, which was not asked for")
    try:
        document = read_json(read_response(answer.raw, limit=LARGEST_DOCUMENT, until=deadline), bound=_BOUND)
    except UnusableResponse as complaint:
        raise FetchFailed(f"{address} {complaint}") from None
    except BadRequest as refusal:
        raise FetchFailed(f"{address} sent no JSON document: {refusal.message}") from None
    if not isinstance(document, dict):
        raise FetchFailed(f"{address} sent JSON that is no object")
    return document


def _reason(error: Exception) -> str:
    """The kind of failure and its innermost text, cut; requests wraps them several times."""
    inner: BaseException = error
    while (deeper := inner.__cause__ or inner.__context__) is not None:
        inner = deeper
    return f"{type(error).__name__}: {inner}"[:300]
