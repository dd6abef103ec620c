"""Verification of the audit trail in parts, for users with the permission to read all of it."""

from __future__ import annotations

from typing import Final

from tenancy.actor import Actor
from tenancy.audit.chain import ChainReport, VerificationState, verify_chain_part
from tenancy.authz.actions import Can
from tenancy.selectors.users import require_permission_on_server

PART_SECONDS: Final = 2.0


def verify_audit_part_for(
    *, actor: Actor, before: VerificationState | None
) -> tuple[VerificationState, ChainReport | None]:
    """As `verify_chain_part`, for about `PART_SECONDS`. Raises `ServerActionForbidden` (403), and `ChainBroken`."""
    require_permission_on_server(actor, Can.READ_AUDIT)
    return verify_chain_part(before, seconds=PART_SECONDS)
