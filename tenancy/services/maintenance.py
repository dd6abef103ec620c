"""The switch of maintenance mode."""

from __future__ import annotations

from icekeeper.kernel.write_transaction import write_transaction
from tenancy import maintenance
from tenancy.actor import Actor
from tenancy.models import Server


def switch_maintenance(*, actor: Actor, is_on: bool) -> bool:
    """Let nothing change any more, or everything again; whether that is different from before.

    This process knows at once, the others after `maintenance.KNOWN_SECONDS`.
    """
    with write_transaction():
        changed = Server.objects.exclude(is_read_only=is_on).update(is_read_only=is_on)
    maintenance.switch.is_on = is_on
    return bool(changed)
