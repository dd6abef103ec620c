from __future__ import annotations

from management.management.blocking import BlockingCommand
from tenancy.services.blocking import unblock_user


class Command(BlockingCommand):
    help = "Let a user in again who was locked out by block_user; rights and tokens are as they were."
    act = staticmethod(unblock_user)
    is_active = True
    done, was_so = "is let in again.", "was not blocked."
