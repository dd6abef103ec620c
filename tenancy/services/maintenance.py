"""Switches maintenance mode on and off."""

from __future__ import annotations

from icekeeper.kernel.db.transactions import write_transaction
from tenancy import maintenance
from tenancy.actor import Actor
from tenancy.audit.recording import Event, record
from tenancy.models import Server
from tenancy.selectors.server import get_server


def switch_maintenance(*, actor: Actor, is_on: bool) -> bool:
    """Switch maintenance mode on or off; return whether that changed it.

    It takes effect in this process immediately, in others within `maintenance.KNOWN_SECONDS`.
    """
    server_id = get_server().server_id
    with write_transaction():
        changed = bool(Server.objects.exclude(is_read_only=is_on).update(is_read_only=is_on))
        if changed:
            record(Event.SERVER_MAINTENANCE_SWITCHED, actor=actor, subject=server_id, is_on=is_on)
    maintenance.switch.is_on = is_on
    return changed
