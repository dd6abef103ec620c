"""Which controls of pages about the whole server a user gets."""

from __future__ import annotations

from icekeeper.kernel.errors.types import NotFound
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.selectors.permission_checks import list_allowed_actions_for
from tenancy.selectors.projects import server_ref


def allowed_on_server(actor: Actor, *actions: Can) -> set[Can]:
    """Return those of the actions that `actor` may do on the server; the services check them again."""
    missing = NotFound("No such server")
    return set(list_allowed_actions_for(actor=actor, grantee=None, ref=server_ref(), actions=actions, missing=missing))
