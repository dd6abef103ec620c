"""What secrets must be like before a process serves or works."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Final
from uuid import UUID

from storage.models import Warehouse
from storage.secrets.port import SecretMissing, SecretStore
from storage.secrets.stores import secret_stores
from storage.secrets.vault_session import SecretStoreUnavailable

logger = logging.getLogger("icekeeper.secrets")
TRIED: Final = 3
"""Secrets that are looked for: one may be lost, but hardly the newest ones together."""


def require_readable_secrets() -> None:
    """Asked before a server or worker begins (`STARTUP_CHECKS`); cheap, as few secrets are tried.

    Raises `SecretStoreNotConfigured` or `SecretUnreadable` naming the setting and the cure.
    """
    chosen, *others = secret_stores()
    chosen.require_readable()
    named = Warehouse.objects.filter(secret_id__isnull=False).order_by("-pk").values_list("secret_id", flat=True)
    sample = [secret_id for secret_id in named[:TRIED] if secret_id is not None]
    if not sample or any(_has(chosen, secret_id) for secret_id in sample):
        return
    if not any(_has(store, secret_id) for store in others for secret_id in sample):
        raise SecretMissing(
            "Warehouses have credentials, and none is where LAKEKEEPER__SECRET_BACKEND says. Set it, and what belongs "
            "to it, to what they were; docs/secrets.md says how credentials are moved"
        )
    logger.warning("credentials of warehouses are still in the former secret store: manage.py move_secrets moves them")


def _has(store: SecretStore, secret_id: UUID) -> bool:
    """Also when the secret store cannot be reached now."""
    try:
        with suppress(SecretStoreUnavailable):
            store.get(secret_id)
    except SecretMissing:
        return False
    return True
