"""Those whom the deployment itself trusts with everything but data, whatever rights they were given."""

from __future__ import annotations

from tenancy.actor import Actor


def is_instance_admin(actor: Actor) -> bool:
    """Whether `actor` acts as one. No setting names any in this version, so nobody is."""
    return False
