"""Validation of a requested change of grants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from icekeeper.kernel.errors.types import BadRequest
from tenancy.grantee import Grantee
from tenancy.services.grants import MAX_CHANGES, Difference, GrantSpec

MAX_PRIVILEGE_LENGTH: Final = 256


class GrantDiffTooLarge(BadRequest):
    wire_type = "GrantDiffTooLarge"


class DuplicateGrantEntry(BadRequest):
    wire_type = "DuplicateGrantEntry"


class ContradictoryGrantDiff(BadRequest):
    """The same privilege would be granted and revoked."""

    wire_type = "ContradictoryGrantDiff"


class InvalidGrantPrivilegeLength(BadRequest):
    wire_type = "InvalidGrantPrivilegeLength"


def build_difference(*, writes: Sequence[GrantSpec], deletes: Sequence[GrantSpec]) -> Difference:
    """Validate a change of grants, independent of permissions.

    Raises `GrantDiffTooLarge`, `InvalidGrantPrivilegeLength`, `DuplicateGrantEntry` or `ContradictoryGrantDiff` (400).
    """
    number = len(writes) + len(deletes)
    if number > MAX_CHANGES:
        raise GrantDiffTooLarge(f"{number} changes of grants in one request, at most {MAX_CHANGES} are allowed")
    for each in (*writes, *deletes):
        if not 1 <= len(each.privilege) <= MAX_PRIVILEGE_LENGTH:
            raise InvalidGrantPrivilegeLength(f"A privilege has 1 to {MAX_PRIVILEGE_LENGTH} characters")
    written, deleted = _require_unique(writes, "writes"), _require_unique(deletes, "deletes")
    for privilege, grantee in written & deleted:
        raise ContradictoryGrantDiff(f"{privilege} for {grantee} is both granted and revoked")
    return Difference(writes, deletes)


def _require_unique(specs: Sequence[GrantSpec], where: str) -> set[tuple[str, Grantee]]:
    seen: set[tuple[str, Grantee]] = set()
    for each in specs:
        if (each.privilege, each.grantee) in seen:
            raise DuplicateGrantEntry(f"{where}: {each.privilege} for {each.grantee} is listed twice")
        seen.add((each.privilege, each.grantee))
    return seen
