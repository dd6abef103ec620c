from __future__ import annotations

from management.management.commands import block_user
from tenancy.services.users import unblock_user


class Command(block_user.Command):
    help = "Unblock a user that block_user has blocked. Grants and tokens are unchanged."
    act = staticmethod(unblock_user)
    is_active = True
    done, unchanged = "is unblocked.", "is not blocked."
