"""Secrets in Vault or a compatible server (KV secrets engine version 2).

A process has one session with one token, which is renewed before it expires and replaced if it was revoked.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, Final, TypeVar
from uuid import UUID

import hvac
import requests
from django.conf import settings
from hvac import exceptions as vault_errors
from hvac.exceptions import InvalidPath

from icekeeper.kernel import request_context
from icekeeper.kernel.ids import parse_id
from icekeeper.kernel.retry import backoff_seconds
from storage.secrets.port import (
    SecretMissing,
    SecretStore,
    SecretStoreNotConfigured,
    SecretStoreUnavailable,
    SecretUnreadable,
)

logger = logging.getLogger("icekeeper.secrets")


class VaultSecrets(SecretStore):
    """Stores secrets at `<mount>/data/<folder>/<id>`. All methods raise `SecretStoreUnavailable` (503)."""

    shares_transactions: ClassVar = False

    def __init__(self, session: VaultSession, *, mount: str, folder: str) -> None:
        self._session, self._mount, self._folder = session, mount, folder

    def require_ready(self) -> None:
        """Nothing to do: the settings are complete, and `put` shows whether Vault is available."""

    def require_readable(self) -> None:
        try:
            self._session.sign_in()
        except SecretStoreUnavailable as error:
            logger.warning("Vault is unavailable, and requests that need credentials fail until it responds: %s", error)

    def put(self, secret_id: UUID, document: dict[str, Any]) -> None:
        path = self._path(secret_id)
        self._session.call(lambda client: self._kv(client).create_or_update_secret(path, document, **self._kwargs))

    def get(self, secret_id: UUID) -> dict[str, Any]:
        path = self._path(secret_id)
        try:
            response = self._session.call(
                lambda client: self._kv(client).read_secret_version(path, raise_on_deleted_version=True, **self._kwargs)
            )
        except InvalidPath:
            raise SecretMissing(f"Secret {secret_id} does not exist in Vault at {self._mount}/data/{path}") from None
        try:
            document = response["data"]["data"]
        except (KeyError, TypeError):
            document = None
        if not isinstance(document, dict):
            raise SecretUnreadable(f"Secret {secret_id} in Vault is not a credential")
        return document

    def delete(self, secret_id: UUID) -> None:
        path = self._path(secret_id)
        # No retry, as the request waits for this: check_secrets finds orphaned secrets.
        self._session.call(
            lambda client: self._kv(client).delete_metadata_and_all_versions(path, **self._kwargs), retries=0
        )

    def ids(self) -> Iterator[UUID]:
        try:
            response = self._session.call(lambda client: self._kv(client).list_secrets(self._folder, **self._kwargs))
        except InvalidPath:
            return
        for key in response["data"]["keys"]:
            secret_id = parse_id(key)
            if secret_id is not None:  # else another application wrote it
                yield secret_id

    def _path(self, secret_id: UUID) -> str:
        return f"{self._folder}/{secret_id}"

    @property
    def _kwargs(self) -> dict[str, str]:
        return {"mount_point": self._mount}

    @staticmethod
    def _kv(client: Any) -> Any:
        return client.secrets.kv.v2


def vault_secrets() -> VaultSecrets:
    """Return the store of this process. To be called only when `LAKEKEEPER__KV2__URL` is set."""
    own = settings.ICEKEEPER
    return _vault_secrets(access_of_settings(), own.kv2.secret_mount, own.vault.folder, os.getpid())


@lru_cache(maxsize=4)
def _vault_secrets(access: VaultAccess, mount: str, folder: str, process: int) -> VaultSecrets:
    """`process` is part of the key: a forked process must not share connections and locks."""
    return VaultSecrets(VaultSession(access), mount=mount, folder=folder)


R = TypeVar("R")

RENEW_FRACTION: Final = 2 / 3
"""Part of a token's lifetime after which it is renewed."""

MIN_BACKOFF, MAX_BACKOFF = 0.1, 2.0
MAX_TOKEN_BYTES: Final = 65_536

_TRANSIENT: Final = (
    requests.ConnectionError,
    requests.Timeout,
    vault_errors.RateLimitExceeded,
    vault_errors.InternalServerError,
    vault_errors.VaultDown,
    vault_errors.VaultNotInitialized,
    vault_errors.BadGateway,
    vault_errors.UnexpectedError,  # any status without an exception of its own, such as 504
)


@dataclass(frozen=True, slots=True)
class VaultAccess:
    """Address of Vault and sign-in of this server, from the validated settings."""

    url: str
    method: str
    auth_mount: str
    user: str
    password: str = field(repr=False)
    """`userpass`: name and password; `approle`: role id and secret id; `kubernetes`: role only."""
    token: str = field(repr=False)
    token_file: Path | None
    namespace: str | None
    ca_bundle: Path | None
    connect_timeout: float
    request_timeout: float
    retries: int


def access_of_settings() -> VaultAccess:
    """To be called only when `LAKEKEEPER__KV2__URL` is set."""
    kv2, own = settings.ICEKEEPER.kv2, settings.ICEKEEPER.vault
    names = {"userpass": kv2.user, "approle": own.role_id, "kubernetes": own.kubernetes_role}
    secrets = {"userpass": kv2.password, "approle": own.secret_id}
    files = {"token": own.token_file, "kubernetes": own.kubernetes_token_file}
    return VaultAccess(
        url=str(kv2.url).rstrip("/"),
        method=own.auth_method,
        auth_mount=own.auth_mount or own.auth_method,
        user=names.get(own.auth_method) or "",
        password=_text(secrets.get(own.auth_method)),
        token=_text(own.token),
        token_file=files.get(own.auth_method),
        namespace=own.namespace,
        ca_bundle=own.ca_bundle,
        connect_timeout=own.connect_timeout,
        request_timeout=own.request_timeout,
        retries=own.retries,
    )


def _text(secret: Any) -> str:
    return "" if secret is None else str(secret.get_secret_value())


@dataclass(frozen=True, slots=True)
class _SignIn:
    """A client with a token. Times are of the monotonic clock; None for a token that does not expire."""

    client: Any = field(repr=False)
    renew_at: float | None
    ends_at: float | None
    lifetime: float
    is_renewable: bool


class VaultSession:
    """A thread-safe session; not to be used after a fork."""

    def __init__(self, access: VaultAccess) -> None:
        self._access = access
        self._current: _SignIn | None = None
        self._signing_in, self._renewing = Lock(), Lock()

    def call(self, action: Callable[[Any], R], *, retries: int | None = None) -> R:
        """Call `action` with a signed-in client of hvac, and return its result.

        Retries transient failures `retries` times (default: the setting), and signs in again once if the token was
        revoked. Raises hvac's `InvalidPath` for a path that does not exist, `SecretStoreUnavailable` (503), and
        `SecretStoreNotConfigured` (412) when Vault denies the request.
        """
        return self._retry(lambda: self._call_signed_in(lambda client: _require_no_redirect(action(client))), retries)

    def sign_in(self) -> None:
        """Raises as `call`."""
        self._retry(self._signed_in, None)

    def _call_signed_in(self, action: Callable[[Any], R]) -> R:
        used = self._signed_in()
        try:
            return action(used.client)
        except vault_errors.Forbidden:
            if self._is_alive(used):
                raise SecretStoreNotConfigured(
                    "Vault denied the request: the policy of this server must allow create, read, update, delete and "
                    "list below the folder of its secrets (docs/secrets.md)"
                ) from None
        self._discard(used)
        try:
            return action(self._signed_in().client)
        except vault_errors.Forbidden:
            raise SecretStoreNotConfigured("Vault denied the request of this server right after it signed in") from None

    def _retry(self, action: Callable[[], R], retries: int | None) -> R:
        attempts = 1 + (self._access.retries if retries is None else retries)
        for attempt in range(1, attempts + 1):
            backoff = backoff_seconds(attempt, first=MIN_BACKOFF, limit=MAX_BACKOFF)
            try:
                return action()
            except requests.exceptions.SSLError:
                raise SecretStoreUnavailable(
                    "The certificate of Vault is not trusted (ICEKEEPER__VAULT__CA_BUNDLE)"
                ) from None
            except _TRANSIENT as error:
                if attempt == attempts or not _can_wait(backoff):
                    raise SecretStoreUnavailable(
                        f"Vault does not respond as expected: {type(error).__name__}"
                    ) from None
            except vault_errors.InvalidPath:
                raise
            except (vault_errors.VaultError, requests.RequestException) as error:
                raise SecretStoreNotConfigured(
                    f"Vault cannot be used as it is configured (LAKEKEEPER__KV2__*): {type(error).__name__}"
                ) from None
            time.sleep(backoff)
        raise AssertionError("the last attempt returns or raises")

    def _signed_in(self) -> _SignIn:
        """Return a client with a valid token. One thread at a time signs in; one renews while the others continue."""
        current = self._current
        if current is None or _is_over(current.ends_at):
            with self._signing_in:
                if self._current is None or _is_over(self._current.ends_at):
                    self._current = self._new_sign_in()
                return self._current
        if _is_over(current.renew_at) and self._renewing.acquire(blocking=False):
            try:
                self._current = current = self._renewed(current)
            finally:
                self._renewing.release()
        return current

    def _renewed(self, current: _SignIn) -> _SignIn:
        try:
            if current.is_renewable:
                auth = current.client.auth.token.renew_self()["auth"]
                renewed = _sign_in(current.client, auth["client_token"], auth["lease_duration"], is_renewable=True)
                if renewed.lifetime >= current.lifetime / 2:  # else it reaches its maximum lifetime soon
                    return renewed
        except vault_errors.VaultError:
            logger.info("Vault did not renew the token, so the server signs in again")
        except requests.RequestException:
            return current  # still valid for a while
        return self._new_sign_in()

    def _discard(self, used: _SignIn) -> None:
        with self._signing_in:
            if self._current is used:
                self._current = None

    @staticmethod
    def _is_alive(used: _SignIn) -> bool:
        try:
            used.client.auth.token.lookup_self()
        except vault_errors.Forbidden:
            return False
        return True

    def _new_sign_in(self) -> _SignIn:
        access, client = self._access, self._new_client()
        try:
            match access.method:
                case "token":
                    client.token = access.token or _read_token(access.token_file)
                    data = client.auth.token.lookup_self()["data"]
                    return _sign_in(client, client.token, data["ttl"], is_renewable=data.get("renewable", False))
                case "userpass":
                    response = client.auth.userpass.login(access.user, access.password, mount_point=access.auth_mount)
                case "approle":
                    response = client.auth.approle.login(access.user, access.password, mount_point=access.auth_mount)
                case _:
                    token = _read_token(access.token_file)
                    response = client.auth.kubernetes.login(access.user, token, mount_point=access.auth_mount)
            auth = response["auth"]
        except (
            vault_errors.Forbidden,
            vault_errors.InvalidRequest,
            vault_errors.InvalidPath,
            vault_errors.Unauthorized,
        ):
            raise SecretStoreNotConfigured(
                f"Vault rejected the sign-in of this server with {access.method} at auth/{access.auth_mount}: "
                "check LAKEKEEPER__KV2__* and ICEKEEPER__VAULT__*"
            ) from None
        except (KeyError, TypeError):
            raise SecretStoreNotConfigured("The server at LAKEKEEPER__KV2__URL is not Vault") from None
        return _sign_in(client, auth["client_token"], auth["lease_duration"], is_renewable=auth["renewable"])

    def _new_client(self) -> Any:
        access = self._access
        return hvac.Client(
            url=access.url,
            token="",  # else hvac takes one from the environment or ~/.vault-token
            verify=True if access.ca_bundle is None else str(access.ca_bundle),
            timeout=(access.connect_timeout, access.request_timeout),
            allow_redirects=False,
            namespace=access.namespace,
        )


def _sign_in(client: Any, token: str, seconds: float, *, is_renewable: bool) -> _SignIn:
    client.token = token
    now = time.monotonic()
    if not seconds:
        return _SignIn(client, None, None, 0, is_renewable=False)
    return _SignIn(client, now + seconds * RENEW_FRACTION, now + seconds, seconds, is_renewable)


def _require_no_redirect(response: R) -> R:
    """Raise for a redirect, which hvac returns like any other response."""
    if isinstance(response, requests.Response) and response.is_redirect:
        raise SecretStoreUnavailable("Vault redirects elsewhere: LAKEKEEPER__KV2__URL must lead to the active node")
    return response


def _is_over(at: float | None) -> bool:
    return at is not None and time.monotonic() >= at


def _can_wait(backoff: float) -> bool:
    left = request_context.remaining_seconds()
    return left is None or left > backoff


def _read_token(path: Path | None) -> str:
    try:
        with (path or Path()).open() as file:
            token = file.read(MAX_TOKEN_BYTES).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SecretStoreNotConfigured(
            f"The token for Vault cannot be read from {path}: {type(error).__name__}"
        ) from None
    if not (token and token.isascii() and token.isprintable()):
        raise SecretStoreNotConfigured(f"{path} contains no token for Vault")
    return token
