"""Users that grants and roles name before their first call."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import CatalogError
from tenancy.authn.providers import is_identity_provider
from tenancy.models import User
from tenancy.user_ids import InvalidUserId, require_new_user_id


def lock_users(user_ids: Iterable[str]) -> set[str]:
    """Lock the rows of users who were not deleted, in the order of their ids, and return their ids."""
    return {user_id for user_id, is_deleted in _lock(user_ids).items() if not is_deleted}


def lock_or_add_users(user_ids: Collection[str], not_found: type[CatalogError]) -> None:
    """Lock the rows of users against deletion, and add rows for users who have not called yet.

    A deleted user is restored without attributes. New rows are written after all others are locked, in the order of
    their ids. Raises `not_found` for an unknown user whose id belongs to no configured identity provider, and
    `InvalidUserId` (400) for an invalid id.
    """
    rows = _lock(user_ids)
    unseen = sorted(user_id for user_id in user_ids if rows.get(user_id, True))
    for user_id in unseen:
        _require_of_provider(user_id, not_found)
    new = [user_id for user_id in unseen if user_id not in rows]
    if new:
        User.objects.bulk_create([_unseen(user_id) for user_id in new], ignore_conflicts=True)
        rows |= _lock(new)  # another request may have added them, and deleted them again
    deleted = [user_id for user_id in unseen if rows[user_id]]
    if deleted:
        User.objects.filter(pk__in=deleted).update(
            name="",
            name_key="",
            email="",
            deleted_at=None,
            last_login=None,
            created_at=now(),
            last_updated_with=User.Provenance.ROLE_PROVIDER,
        )


def _lock(user_ids: Iterable[str]) -> dict[str, bool]:
    """Lock existing rows and return, by user id, whether the user is deleted."""
    rows = User.objects.filter(pk__in=list(user_ids)).order_by("pk").select_for_update(no_key=True)
    return {user_id: deleted_at is not None for user_id, deleted_at in rows.values_list("pk", "deleted_at")}


def _require_of_provider(user_id: str, not_found: type[CatalogError]) -> None:
    provider = user_id.partition("~")[0]
    if not is_identity_provider(provider):
        raise not_found(
            f"User does not exist: {user_id[:200]}. Users are accepted before their first call only if their id begins "
            "with that of a configured identity provider"
        )
    require_new_user_id(user_id)
    if user_id != user_id.strip():  # possible at a provider, but here most likely a typing error
        raise InvalidUserId("The id of a user who never called must not end with a space")


def _unseen(user_id: str) -> User:
    user = User(id=user_id, last_updated_with=User.Provenance.ROLE_PROVIDER)
    user.set_unusable_password()
    return user
