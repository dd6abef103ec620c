from __future__ import annotations

from management.management.blocking import BlockingCommand
from tenancy.services.blocking import block_user


class Command(BlockingCommand):
    help = (
        "Lock a user out, whatever the identity provider says: tokens of this server are refused within 5 seconds, "
        "those of providers within a minute. Rights and tokens are kept; unblock_user lets the user in again."
    )
    act = staticmethod(block_user)
    is_active = False
    done, was_so = "is blocked.", "was blocked already."
