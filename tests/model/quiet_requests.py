"""Requests of the run itself at a quiet moment: an answer comes, even where a connection was cut a moment ago."""

from __future__ import annotations

import time

import requests

from tests.model.journal import Fault

PATIENCE_SECONDS = 60


def ask(address: str, *, method: str = "GET", session: requests.Session | None = None) -> requests.Response:
    """On a new connection, which any worker may take, unless there is a `session`. Of a write the outcome is certain.

    Raises `Fault` when no answer comes.
    """
    until, told = time.monotonic() + PATIENCE_SECONDS, ""
    while time.monotonic() < until:
        try:
            answer = (session or requests).request(method, address, timeout=30)
        except requests.ConnectionError as error:
            told = repr(error)
        else:
            if answer.status_code < 500:
                return answer
            told = f"{answer.status_code} {answer.text[:300]}"
        time.sleep(0.1)
    raise Fault(f"{method} {address} had no answer in {PATIENCE_SECONDS} s, the last: {told}")
