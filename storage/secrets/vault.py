"""Secrets in Vault, or a compatible server: in a secrets engine `kv` of version 2, one entry each."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, ClassVar
from uuid import UUID

from django.conf import settings
from hvac.exceptions import InvalidPath

from icekeeper.kernel.ids import parse_id
from storage.secrets.port import SecretMissing, SecretStore, SecretUnreadable
from storage.secrets.vault_session import SecretStoreUnavailable, VaultAccess, VaultSession, access_of_settings

logger = logging.getLogger("icekeeper.secrets")


class VaultSecrets(SecretStore):
    """At `<mount>/data/<folder>/<id>`. Every call raises `SecretStoreUnavailable` (503) when Vault does not respond."""

    shares_transactions: ClassVar = False

    def __init__(self, session: VaultSession, *, mount: str, folder: str) -> None:
        self._session, self._mount, self._folder = session, mount, folder

    def require_ready(self) -> None:
        """The settings are complete; whether Vault is there shows when something is put."""

    def require_readable(self) -> None:
        try:
            self._session.sign_in()
        except SecretStoreUnavailable as error:
            logger.warning("Vault cannot be asked now, requests that need credentials fail until it can: %s", error)

    def put(self, secret_id: UUID, document: dict[str, Any]) -> None:
        path = self._path(secret_id)
        self._session.call(lambda client: self._kv(client).create_or_update_secret(path, document, **self._at))

    def get(self, secret_id: UUID) -> dict[str, Any]:
        path = self._path(secret_id)
        try:
            response = self._session.call(
                lambda client: self._kv(client).read_secret_version(path, raise_on_deleted_version=True, **self._at)
            )
        except InvalidPath:
            raise SecretMissing(f"There is no secret {secret_id} in Vault at {self._mount}/data/{path}") from None
        try:
            document = response["data"]["data"]
        except (KeyError, TypeError):
            document = None
        if not isinstance(document, dict):
            raise SecretUnreadable(f"Secret {secret_id} in Vault is no credential")
        return document

    def delete(self, secret_id: UUID) -> None:
        path = self._path(secret_id)
        # The request waits for this, so there is no retry: check_secrets finds what remains.
        self._session.call(
            lambda client: self._kv(client).delete_metadata_and_all_versions(path, **self._at), retries=0
        )

    def ids(self) -> Iterator[UUID]:
        try:
            response = self._session.call(lambda client: self._kv(client).list_secrets(self._folder, **self._at))
        except InvalidPath:
            return
        for key in response["data"]["keys"]:
            secret_id = parse_id(key)
            if secret_id is not None:  # else it is not ours
                yield secret_id

    def _path(self, secret_id: UUID) -> str:
        return f"{self._folder}/{secret_id}"

    @property
    def _at(self) -> dict[str, str]:
        return {"mount_point": self._mount}

    @staticmethod
    def _kv(client: Any) -> Any:
        return client.secrets.kv.v2


def vault_secrets() -> VaultSecrets:
    """Of this deployment, signed in once a process. To be called only when `LAKEKEEPER__KV2__URL` is set."""
    own = settings.ICEKEEPER
    return _vault_secrets(access_of_settings(), own.kv2.secret_mount, own.vault.folder, os.getpid())


@lru_cache(maxsize=4)
def _vault_secrets(access: VaultAccess, mount: str, folder: str, process: int) -> VaultSecrets:
    """`process`: connections and locks are not to be shared by a fork."""
    return VaultSecrets(VaultSession(access), mount=mount, folder=folder)
