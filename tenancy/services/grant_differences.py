"""What may stand in one change of grants."""

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
    """The same is to be granted and taken away."""

    wire_type = "ContradictoryGrantDiff"


class InvalidGrantPrivilegeLength(BadRequest):
    wire_type = "InvalidGrantPrivilegeLength"


def build_difference(*, writes: Sequence[GrantSpec], deletes: Sequence[GrantSpec]) -> Difference:
    """A change that can be made, whoever may make it.

    Raises `GrantDiffTooLarge`, `InvalidGrantPrivilegeLength`, `DuplicateGrantEntry` or `ContradictoryGrantDiff` (400).
    """
    number = len(writes) + len(deletes)
    if number > MAX_CHANGES:
        raise GrantDiffTooLarge(f"{number} changes of grants in one request; there may be {MAX_CHANGES}")
    for each in (*writes, *deletes):
        if not 1 <= len(each.privilege) <= MAX_PRIVILEGE_LENGTH:
            raise InvalidGrantPrivilegeLength(f"A privilege has 1 to {MAX_PRIVILEGE_LENGTH} characters")
    written, deleted = _once(writes, "writes"), _once(deletes, "deletes")
    for privilege, grantee in written & deleted:
        raise ContradictoryGrantDiff(f"{privilege} for {grantee} is to be granted and to be taken away")
    return Difference(writes, deletes)


def _once(specs: Sequence[GrantSpec], where: str) -> set[tuple[str, Grantee]]:
    seen: set[tuple[str, Grantee]] = set()
    for each in specs:
        if (each.privilege, each.grantee) in seen:
            raise DuplicateGrantEntry(f"{where}: {each.privilege} for {each.grantee} stands there twice")
        seen.add((each.privilege, each.grantee))
    return seen
