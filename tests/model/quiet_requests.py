"""Requests of the run itself while the processes pause: they get a response, even shortly after a cut connection."""

from __future__ import annotations

import time

import requests

from tests.model.journal import Fault

TIMEOUT_SECONDS = 60


def ask(address: str, *, method: str = "GET", session: requests.Session | None = None) -> requests.Response:
    """Send the request on a new connection, which may reach any worker, unless there is a `session`.

    The result of a write is certain. Raises `Fault` without a response.
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
    raise Fault(f"{method} {address} had no response in {TIMEOUT_SECONDS} s, the last: {reported}")
