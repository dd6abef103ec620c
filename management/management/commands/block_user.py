from __future__ import annotations

from management.management.blocking import BlockingCommand
from tenancy.services.users import block_user


class Command(BlockingCommand):
    help = (
        "Block a user: access tokens of this server are rejected within 5 seconds, tokens of identity providers "
        "within a minute. Grants and tokens are kept; unblock_user allows the user again."
    )
    act = staticmethod(block_user)
    is_active = False
    done, unchanged = "is blocked.", "is already blocked."
