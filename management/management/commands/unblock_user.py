from __future__ import annotations

from management.management.blocking import BlockingCommand
from tenancy.services.users import unblock_user


class Command(BlockingCommand):
    help = "Unblock a user that block_user has blocked. Grants and tokens are unchanged."
    act = staticmethod(unblock_user)
    is_active = True
    done, unchanged = "is unblocked.", "is not blocked."
