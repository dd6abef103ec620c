"""Secrets in Vault or a compatible server (KV secrets engine version 2)."""

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
