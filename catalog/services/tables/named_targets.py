"""The tabulars that one call changes together: their permissions, and their rows under locks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from catalog.errors import no_such_object
from catalog.models import Tabular
from icekeeper.kernel.db.sql import batches
from icekeeper.kernel.errors.types import BadRequest
from tenancy.actor import Actor
from tenancy.authz.actions import SEEN_BY, Can
from tenancy.authz.permission_epoch import permission_epoch
from tenancy.authz.permissions import action_forbidden, check_permissions, deny_as_missing, recheck_before_write
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef

MAX_TARGETS: Final = 1_000
"""Targets of one call."""

BATCH_SIZE: Final = 500
"""Rows that one statement reads."""

Named = tuple[Tabular.Kind, UUID]
"""A tabular by its kind and the id that clients see."""


def distinct_targets(targets: Sequence[Named], *, maximum: int = MAX_TARGETS) -> list[Named]:
    """Return each target once. Raises `BadRequest` for more than `maximum`."""
    wanted = list(dict.fromkeys(targets))
    if len(wanted) > maximum:
        raise BadRequest(f"targets: more than {maximum} at once")
    return wanted


def require_each(actor: Actor, actions: Sequence[Can], warehouse_id: UUID, wanted: Sequence[Named]) -> list[UUID]:
    """Return the ids of the targets, sorted. Raises for the first that is missing or on which an action is denied.

    Both are checked in the order of the targets, so that a hidden target gets the error of a missing one. To be called
    before anything is locked, so that denied requests block no other client.
    """
    own_ids: dict[tuple[str, UUID], UUID] = {}
    uuids = sorted({uuid for _, uuid in wanted})
    for batch in batches(uuids, BATCH_SIZE):
        named = Tabular.objects.in_warehouse(warehouse_id).filter(uuid__in=batch)
        own_ids |= {(kind, uuid): own_id for kind, uuid, own_id in named.values_list("kind", "uuid", "pk")}
    refs: dict[Named, ObjectRef] = {
        (kind, uuid): ObjectRef(Securable.Type(kind.value), own_ids[kind.value, uuid])
        for kind, uuid in wanted
        if (kind.value, uuid) in own_ids
    }
    epoch = permission_epoch.current()
    checks = [(action, ref) for ref in refs.values() for action in (*actions, SEEN_BY[ref.type])]
    allowed = dict(zip(checks, check_permissions(actor, checks), strict=True))
    for kind, uuid in wanted:
        missing = no_such_object(kind.value, uuid)
        if (kind, uuid) not in refs:
            raise missing
        ref = refs[kind, uuid]
        if not allowed[SEEN_BY[ref.type], ref]:
            raise deny_as_missing(actor, actions[0], ref, missing)
        for action in actions:
            if not allowed[action, ref]:
                raise action_forbidden(actor, action, ref, missing)
        recheck_before_write(actor, [(action, ref) for action in actions], epoch, missing)
    return sorted(own_ids[kind.value, uuid] for kind, uuid in wanted)


def lock_tabulars(ids: Sequence[UUID]) -> list[Tabular]:
    """Lock the rows that still exist, in the order of their ids; with their namespaces, which are not locked."""
    found: list[Tabular] = []
    rows = Tabular.objects.select_for_update(of=("self",)).select_related("namespace").defer("namespace__properties")
    for batch in batches(ids, BATCH_SIZE):
        found += rows.filter(pk__in=batch).order_by("id")
    return found


def require_all_found(wanted: Sequence[Named], found: Sequence[Tabular]) -> None:
    """Raises the "no such" error of a target that is not among the locked rows."""
    existing = {(row.kind, row.uuid) for row in found}
    for kind, uuid in wanted:
        if (kind.value, uuid) not in existing:  # deleted concurrently
            raise no_such_object(kind.value, uuid)
