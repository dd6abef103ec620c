"""Views: created, replaced."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from catalog.errors import already_exists
from catalog.iceberg.validation import check_times
from catalog.iceberg.views.create import create_view_metadata
from catalog.iceberg.views.requirements import check_view_requirements
from catalog.iceberg.views.updates import apply_view_updates
from catalog.identifiers import Identifier, Levels
from catalog.models import Tabular
from catalog.selectors.metadata_cache import Version, metadata_of
from catalog.selectors.tabulars import Loaded
from catalog.selectors.targets import find_target, find_target_of_commit
from catalog.services.contention import attempts, turns_at
from catalog.services.idempotency import IdempotencyKey, store_unchanged_response
from catalog.services.insertion import create_tabular
from catalog.services.locations import is_foreseeable, spelled_location
from catalog.services.revisions import revise, write_revisions
from catalog.services.vacancy import run_pending_purges
from catalog.services.view_owners import names_in, require_may_change, require_may_name_owners
from icekeeper.kernel.clock import now_ms
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.names import require_name
from icekeeper.kernel.request import deadline
from tenancy.actor import Actor
from tenancy.authz.actions import Can

VIEW = Tabular.Kind.VIEW


def create_view(
    *,
    actor: Actor,
    warehouse_id: UUID,
    levels: Levels,
    name: object,
    schema: object,
    view_version: object,
    location: object,
    properties: object,
    idempotency_key: IdempotencyKey | None = None,
) -> Loaded:
    """Make a view; the arguments are those of CreateViewRequest.

    Raises `NoSuchNamespace`, `AlreadyExists`, `BadRequest`, `InvalidLocation`, `LocationAlreadyTaken`, and
    `ProtectedPropertyModification` (403) whatever else is wrong.
    """
    require_may_name_owners(actor, properties if isinstance(properties, dict) else ())
    identifier = Identifier(levels, require_name(name, "view name"))
    target = find_target(warehouse_id=warehouse_id, identifier=identifier)
    namespace_id = target.namespace_to_create_in(actor, VIEW)
    if target.current is not None:
        raise already_exists(target.current.kind, VIEW, identifier)
    view_uuid = new_id()
    metadata = create_view_metadata(
        schema=schema,
        view_version=view_version,
        location=spelled_location(target, location, view_uuid),
        properties=properties,
        view_uuid=str(view_uuid),
    )
    check_times(metadata, now_ms())
    if location is None and is_foreseeable(metadata["location"], view_uuid):
        run_pending_purges(actor, target, metadata["location"])
    return create_tabular(
        actor, target, namespace_id, VIEW, metadata, fresh_uuid=view_uuid, idempotency_key=idempotency_key
    )


def replace_view(
    *,
    actor: Actor,
    warehouse_id: UUID,
    view: Identifier,
    requirements: list[Any],
    updates: list[Any],
    idempotency_key: IdempotencyKey | None = None,
) -> Loaded:
    """Apply `updates` if all `requirements` hold on the newest metadata. No net change writes nothing.

    Raises `NoSuchView`, `CommitFailed` (409, certainly not committed), `BadRequest`, or `CommitStateUnknown` (500)
    when the database was lost in the act; `ProtectedPropertyModification` (403) whatever else is wrong, and
    `DefinerViewModification` (403).
    """
    require_may_name_owners(actor, names_in(updates))
    with turns_at([(warehouse_id, view.path_key, view.name_key)]):
        for _ in attempts(view):
            target, before = find_target_of_commit(warehouse_id=warehouse_id, identifier=view)
            current = target.tabular_for(actor, Can.COMMIT, VIEW)
            base = metadata_of(Version(current.id, current.metadata_location), before)
            check_view_requirements(base, requirements)
            change = apply_view_updates(base, updates, now_ms=now_ms(), between_updates=deadline.remaining)
            if not change.changed:
                unchanged = Loaded(current.id, current.metadata_location, before)
                store_unchanged_response(idempotency_key, unchanged)
                return unchanged
            require_may_change(actor, current.id, base, change.metadata)
            revision = revise(actor, target, current, base, change.metadata)
            if write_revisions(target, [revision], idempotency_key=idempotency_key, result=revision.result):
                return revision.result
    raise AssertionError("attempts() ends with an error")
