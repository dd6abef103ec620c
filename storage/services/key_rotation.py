"""Another key for what is encrypted in the database, while servers run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

from django.db import transaction
from django.db.models import Count

from storage.models import Secret, Warehouse
from storage.secrets.keyring import KeyRing, WrongKey
from storage.secrets.stores import database_secrets
from tenancy.actor import Actor
from tenancy.audit.log import Event, record
from tenancy.selectors.server import get_server

BATCH = 200
"""Rows of one transaction: the locks are short, and little work is repeated after a kill."""


@dataclass(slots=True)
class Rotation:
    """`done` counts the secrets that were encrypted again; `unreadable` are those that no key of this server reads."""

    done: int = 0
    unreadable: list[UUID] = field(default_factory=list)


def count_secrets_by_key() -> dict[str | None, int]:
    """How many secrets each key has encrypted; None: not noted, in an earlier version."""
    rows = Secret.objects.order_by("key_id").values_list("key_id").annotate(Count("pk"))
    return dict(rows)


def rotate_encryption_key(*, actor: Actor, progress: Callable[[Rotation], None], batch: int = BATCH) -> Rotation:
    """Encrypt with the first key whatever another one has encrypted.

    Each batch is a transaction, and a row is written only if it is still as it was read: this may be stopped at any
    time and run beside servers and beside itself. `progress` is called after each batch. Raises
    `SecretStoreNotConfigured`.
    """
    keys, so_far = database_secrets().keys(), Rotation()
    for key_id in sorted(count_secrets_by_key(), key=str):
        if key_id != keys.first_id:
            _rotate_from(key_id, keys, so_far, progress, batch)
    if so_far.done:
        record(
            Event.SERVER_ENCRYPTION_KEY_ROTATED, actor=actor, subject=get_server().server_id, key=keys.first_id,
            secrets=so_far.done, unreadable=len(so_far.unreadable),
        )  # fmt: skip
    return so_far


def find_unreadable_secrets() -> list[UUID]:
    """Those that no key of this server reads, after trying all of them. Raises `SecretStoreNotConfigured`."""
    keys = database_secrets().keys()
    rows = Secret.objects.order_by("pk").values_list("pk", "ciphertext")
    return [secret_id for secret_id, ciphertext in rows.iterator(BATCH) if _plain(keys, ciphertext) is None]


def warehouses_named_by(secret_ids: list[UUID]) -> list[tuple[UUID, str]]:
    """Ids and names of the warehouses that have these secrets, in order."""
    return list(Warehouse.objects.filter(secret_id__in=secret_ids).order_by("pk").values_list("pk", "name"))


def _rotate_from(
    key_id: str | None, keys: KeyRing, so_far: Rotation, progress: Callable[[Rotation], None], batch: int
) -> None:
    """Those that this key has encrypted, in the order of their ids."""
    old = Secret.objects.filter(key_id__isnull=True) if key_id is None else Secret.objects.filter(key_id=key_id)
    after: UUID | None = None
    while True:
        rows = old.order_by("pk") if after is None else old.filter(pk__gt=after).order_by("pk")
        found = list(rows[:batch])
        reencrypted = {row: plain for row in found if (plain := _plain(keys, row.ciphertext)) is not None}
        so_far.unreadable += [row.pk for row in found if row not in reencrypted]
        with transaction.atomic():
            for row, plain in reencrypted.items():
                as_read = old.filter(pk=row.pk, ciphertext=bytes(row.ciphertext))
                so_far.done += as_read.update(ciphertext=keys.encrypt(plain), key_id=keys.first_id)
        if found:
            progress(so_far)
        if len(found) < batch:
            return
        after = found[-1].pk


def _plain(keys: KeyRing, ciphertext: bytes | memoryview) -> bytes | None:
    try:
        return keys.decrypt(bytes(ciphertext))
    except WrongKey:
        return None
