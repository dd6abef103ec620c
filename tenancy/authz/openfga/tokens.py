"""How this server shows OpenFGA who it is: a preshared key, or a token that a token endpoint issues to it."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from threading import Lock
from typing import Final
from urllib.parse import urlencode

from tenancy.authz.openfga.connection import Connection
from tenancy.authz.openfga.failures import OpenFgaUnavailable

USED_FOR: Final = 0.8
"""The part of its life for which a token is used."""
_DEFAULT_LIFETIME: Final = 300.0
"""Seconds, of a token that does not say: RFC 6749 §5.1 leaves it out where something else is agreed."""


class Credential(ABC):
    @abstractmethod
    def headers(self) -> dict[str, str]:
        """Raises `OpenFgaUnavailable`."""

    def forget(self) -> bool:
        """OpenFGA does not take it any more; whether another one can be had."""
        return False


class PresharedKey(Credential):
    """None: OpenFGA asks for nothing."""

    def __init__(self, key: str | None) -> None:
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}

    def headers(self) -> dict[str, str]:
        return self._headers


@dataclass(frozen=True, slots=True)
class Client:
    """What this server is to the token endpoint."""

    endpoint: str
    client_id: str
    secret: str = field(repr=False)
    scope: str | None


class ClientCredentials(Credential):
    """RFC 6749 §4.4. One thread at a time asks for a token, and the others wait for it."""

    def __init__(self, client: Client, connection: Connection) -> None:
        self._client, self._connection = client, connection
        self._lock = Lock()
        self._token = ""
        self._renew_at = -math.inf

    def headers(self) -> dict[str, str]:
        with self._lock:
            if time.monotonic() >= self._renew_at:
                self._token, lifetime = self._ask()
                self._renew_at = time.monotonic() + USED_FOR * lifetime
            return {"Authorization": f"Bearer {self._token}"}

    def forget(self) -> bool:
        with self._lock:
            self._renew_at = -math.inf
        return True

    def _ask(self) -> tuple[str, float]:
        client = self._client
        form = {
            "grant_type": "client_credentials",
            "client_id": client.client_id,
            "client_secret": client.secret,
            **({} if client.scope is None else {"scope": client.scope}),
        }
        reply = self._connection.request(
            "POST",
            client.endpoint,
            body=urlencode(form).encode(),
            headers={"Content-Type": "application/x-www-form-urlencoded"},
        )
        document = reply.document or {}
        token, lifetime = document.get("access_token"), document.get("expires_in", _DEFAULT_LIFETIME)
        if reply.status != 200 or not isinstance(token, str) or not token.isascii() or not token.isprintable():  # noqa: PLR2004
            raise OpenFgaUnavailable(f"its token endpoint answered {reply.status} without a token")
        is_number = isinstance(lifetime, int | float) and not isinstance(lifetime, bool)
        return token, float(lifetime) if is_number else _DEFAULT_LIFETIME
