"""What secrets must be like before a process serves or works."""

from __future__ import annotations

from storage.models import Warehouse
from storage.secrets.stores import secret_store


def require_readable_secrets() -> None:
    """Asked before a server or worker begins (`SERVER_PRECONDITIONS`); cheap, as few secrets are tried.

    Raises `SecretStoreNotConfigured` or `SecretUnreadable` naming the setting and the cure.
    """
    named = Warehouse.objects.filter(secret_id__isnull=False).order_by("-pk")
    ids = named.values_list("secret_id", flat=True).iterator()
    secret_store().require_readable(each for each in ids if each is not None)
