"""Rotate the encryption key, move secrets to another store, find and delete orphaned secrets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Count

from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import CatalogError
from storage.models import Secret
from storage.secrets.database import KeyRing, WrongKey
from storage.secrets.owners import SecretOwner, is_owned, list_owners
from storage.secrets.port import SecretMissing, SecretStore, SecretUnreadable
from storage.secrets.stores import database_secrets, read_secret, secret_stores
from tenancy.actor import Actor
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import change
from tenancy.selectors.projects import get_server

BATCH = 200
"""Rows of one transaction: short locks, and little repeated work after a kill."""


@dataclass(slots=True)
class Rotation:
    """Number of secrets that were encrypted again, and the secrets that no key of this server can decrypt."""

    done: int = 0
    unreadable: list[UUID] = field(default_factory=list)


def count_secrets_by_key() -> dict[str | None, int]:
    """Return the number of secrets by key; None: not recorded by an earlier version."""
    rows = Secret.objects.order_by("key_id").values_list("key_id").annotate(Count("pk"))
    return dict(rows)


def rotate_encryption_key(*, actor: Actor, progress: Callable[[Rotation], None], batch: int = BATCH) -> Rotation:
    """Encrypt all secrets of other keys with the first key.

    Each batch is a transaction, and rows are updated only if unchanged: this may be interrupted at any time, and run
    concurrently with servers and with itself. `progress` is called after each batch. Raises `SecretStoreNotConfigured`.
    """
    keys, so_far = database_secrets().keys(), Rotation()
    for key_id in sorted(count_secrets_by_key(), key=str):
        if key_id != keys.first_id:
            _rotate_from(key_id, keys, so_far, progress, batch)
    if so_far.done:
        with change(actor) as tx:
            tx.record(
                Change.SERVER_ENCRYPTION_KEY_ROTATED, subject=get_server().server_id, key=keys.first_id,
                secrets=so_far.done, unreadable=len(so_far.unreadable),
            )  # fmt: skip
    return so_far


def find_unreadable_secrets() -> list[UUID]:
    """Return the secrets that no key of this server can decrypt. Raises `SecretStoreNotConfigured`."""
    keys = database_secrets().keys()
    rows = Secret.objects.order_by("pk").values_list("pk", "ciphertext")
    return [secret_id for secret_id, ciphertext in rows.iterator(BATCH) if _plain(keys, ciphertext) is None]


def _rotate_from(
    key_id: str | None, keys: KeyRing, so_far: Rotation, progress: Callable[[Rotation], None], batch: int
) -> None:
    """Rotate the secrets of one key, in the order of their ids."""
    old = Secret.objects.encrypted_with(key_id)
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


GRACE_PERIOD: Final = timedelta(hours=1)
"""A younger secret may belong to a row that is being saved."""


@dataclass(slots=True)
class SecretMoveProgress:
    """Number of moved secrets, and rows whose secret could not be moved, with the reason."""

    moved: int = 0
    failed: list[tuple[SecretOwner, str]] = field(default_factory=list)


def move_secrets(*, actor: Actor, progress: Callable[[SecretMoveProgress], None]) -> SecretMoveProgress:
    """Move the secrets from the other store to the store of new secrets, with the same ids.

    Each is written, verified, and then deleted from the other store: this may be interrupted at any time, and run
    concurrently with servers that know both stores and with itself. Raises the errors of the stores.
    """
    chosen, *others = secret_stores()
    so_far = SecretMoveProgress()
    for store in others:
        for secret_id in list(store.ids()):
            owner = next(list_owners([secret_id]), None)
            if owner is None:
                continue
            try:
                _move(secret_id, store, chosen)
            except SecretUnreadable as error:
                so_far.failed.append((owner, error.message))
            else:
                so_far.moved += 1
            progress(so_far)
    if so_far.moved:
        with change(actor) as tx:
            tx.record(
                Change.SERVER_SECRETS_MOVED, subject=get_server().server_id, secrets=so_far.moved,
                failed=len(so_far.failed),
            )  # fmt: skip
    return so_far


def _move(secret_id: UUID, former: SecretStore, chosen: SecretStore) -> None:
    try:
        document = former.get(secret_id)
    except SecretMissing:
        return  # replaced, or moved concurrently
    try:
        kept = chosen.get(secret_id)  # of an interrupted move
    except SecretMissing:
        with suppress(IntegrityError):  # moved concurrently
            chosen.put(secret_id, document)
        kept = chosen.get(secret_id)
    if kept != document:
        raise SecretUnreadable(f"Secret {secret_id} differs between the two stores")
    if not is_owned(secret_id):
        chosen.delete(secret_id)  # it was replaced before it was moved here
    former.delete(secret_id)


def find_orphans(store: SecretStore) -> Iterator[UUID]:
    """Return secrets that no row refers to, which a crash can leave."""
    before = now() - GRACE_PERIOD
    for secret_id in list(store.ids()):
        if _created_at(secret_id) < before and not is_owned(secret_id):
            yield secret_id


def delete_orphans(*, store: SecretStore) -> int:
    """Delete orphaned secrets; return their number."""
    count = 0
    for secret_id in find_orphans(store):
        store.delete(secret_id)
        count += 1
    return count


def find_unreadable() -> Iterator[tuple[SecretOwner, str]]:
    """Yield the rows whose secret cannot be read from any store, with the reason."""
    for owner in list_owners():
        try:
            read_secret(owner.secret_id)
        except CatalogError as error:
            yield owner, error.message


def _created_at(secret_id: UUID) -> datetime:
    """Return the time in a UUIDv7 (RFC 9562 §5.7); other ids count as old."""
    if secret_id.version != 7:  # noqa: PLR2004
        return datetime.min.replace(tzinfo=UTC)
    return datetime.fromtimestamp((secret_id.int >> 80) / 1000, UTC)
