"""Local users: they have no identity provider and sign in with access tokens of this server."""

from __future__ import annotations

from typing import Final

from django.contrib.auth.hashers import make_password

from icekeeper.kernel.db.write_transaction import write_transaction
from tenancy.actor import Actor
from tenancy.audit.log import Event, record
from tenancy.authz.actions import Can
from tenancy.models import User
from tenancy.selectors.access_tokens import require_on_server
from tenancy.user_ids import require_local_user_id

USER_ID_PREFIX: Final = "local~"


def create_local_user(*, actor: Actor, user_id: str) -> bool:
    """Create the user `local~<name>` unless it exists; return whether it was created or restored.

    A deleted user is restored without its earlier grants and tokens. Raises `InvalidUserId` (400).
    """
    require_on_server(actor, Can.PROVISION_USERS)
    require_local_user_id(user_id)
    name = user_id.removeprefix(USER_ID_PREFIX)
    with write_transaction():
        _, is_new = User.objects.get_or_create(pk=user_id, defaults={"name": name, "password": make_password(None)})
        is_new = is_new or bool(User.objects.exclude(deleted_at=None).filter(pk=user_id).update(deleted_at=None))
        if is_new:
            record(Event.USER_CREATED, actor=actor, subject=user_id)
    return is_new
