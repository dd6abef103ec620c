"""Requests of the run itself at a quiet moment: an answer comes, even where a connection was cut a moment ago."""

from __future__ import annotations

import time

import requests

from tests.model.journal import Fault

TIMEOUT_SECONDS = 60


def ask(address: str, *, method: str = "GET", session: requests.Session | None = None) -> requests.Response:
    """On a new connection, which any worker may take, unless there is a `session`. Of a write the outcome is certain.

    Raises `Fault` when no answer comes.
    """
    until, reported = time.monotonic() + TIMEOUT_SECONDS, ""
    while time.monotonic() < until:
        try:
            response = (session or requests).request(method, address, timeout=30)
        except requests.ConnectionError as error:
            reported = repr(error)
        else:
            if response.status_code < 500:
                return response
            reported = f"{response.status_code} {response.text[:300]}"
        time.sleep(0.1)
    raise Fault(f"{method} {address} had no answer in {TIMEOUT_SECONDS} s, the last: {reported}")
