from __future__ import annotations

from tenancy.models import Server


def get_server() -> Server:
    """The one row about this deployment."""
    return Server.objects.get()
