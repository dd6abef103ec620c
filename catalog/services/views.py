"""Views: created, replaced, registered from a metadata file that is already there."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.conf import settings

from catalog.errors import already_exists
from catalog.iceberg.metadata_files import decode
from catalog.iceberg.views.create import create_view_metadata
from catalog.iceberg.views.requirements import check_view_requirements
from catalog.iceberg.views.updates import apply_view_updates
from catalog.iceberg.views.validation import read_view_metadata
from catalog.identifiers import Identifier, Levels
from catalog.models import Tabular
from catalog.selectors.tabulars import Loaded
from catalog.selectors.targets import find_target, find_target_of_commit
from catalog.services.contention import attempts, turns_at
from catalog.services.insertion import NewTabular, insert_tabular, make_tabular
from catalog.services.locations import chosen_location
from catalog.services.outcomes import RequestKey, keep_unchanged
from catalog.services.revisions import revise, write_revisions
from icekeeper.kernel import deadline
from icekeeper.kernel.clock import now_ms
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.json_text import read_json, read_stored_json, write_json
from icekeeper.kernel.names import require_name
from storage.io.stores import store_for
from storage.profiles.location import location_inside
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
    once: RequestKey | None = None,
) -> Loaded:
    """Make a view; the arguments are those of CreateViewRequest.

    Raises `NoSuchNamespace`, `AlreadyExists`, `BadRequest`, `InvalidLocation`, `LocationAlreadyTaken`.
    """
    identifier = Identifier(levels, require_name(name, "view name"))
    target = find_target(warehouse_id=warehouse_id, identifier=identifier)
    namespace_id = target.namespace_for(actor, Can.CREATE_VIEW)
    if target.current is not None:
        raise already_exists(target.current.kind, VIEW, identifier)
    view_uuid = new_id()
    metadata = create_view_metadata(
        schema=schema,
        view_version=view_version,
        location=chosen_location(target, location, view_uuid),
        properties=properties,
        view_uuid=str(view_uuid),
    )
    return make_tabular(target, namespace_id, VIEW, metadata, once=once)


def replace_view(
    *,
    actor: Actor,
    warehouse_id: UUID,
    view: Identifier,
    requirements: list[Any],
    updates: list[Any],
    once: RequestKey | None = None,
) -> Loaded:
    """Apply `updates` if all `requirements` hold on the newest metadata. No net change writes nothing.

    Raises `NoSuchView`, `CommitFailed` (409, certainly not committed), `BadRequest`, or `CommitStateUnknown` (500)
    when the database was lost in the act.
    """
    with turns_at([(warehouse_id, view.path_key, view.name_key)]):
        for _ in attempts(view):
            target, before = find_target_of_commit(warehouse_id=warehouse_id, identifier=view)
            current = target.tabular_for(actor, Can.COMMIT, VIEW)
            base = read_stored_json(before)
            check_view_requirements(base, requirements)
            change = apply_view_updates(base, updates, now_ms=now_ms(), between_updates=deadline.remaining)
            if not change.changed:
                unchanged = Loaded(current.id, current.metadata_location, before)
                keep_unchanged(once, unchanged)
                return unchanged
            revision = revise(target, current, base, change.metadata)
            if write_revisions(target, [revision], once=once, result=revision.result):
                return revision.result
    raise AssertionError("attempts() ends with an error")


def register_view(
    *,
    actor: Actor,
    warehouse_id: UUID,
    levels: Levels,
    name: object,
    metadata_location: object,
    once: RequestKey | None = None,
) -> Loaded:
    """Make a view of a metadata file that lies in the warehouse already. Keeps its UUID; copies nothing."""
    identifier = Identifier(levels, require_name(name, "view name"))
    target = find_target(warehouse_id=warehouse_id, identifier=identifier)
    namespace_id = target.namespace_for(actor, Can.CREATE_VIEW)
    if target.current is not None:
        raise already_exists(target.current.kind, VIEW, identifier)
    location_inside(metadata_location, base=target.warehouse_location)
    limit = settings.ICEKEEPER.metadata_file_limit
    found = decode(store_for(target.storage_profile).get(str(metadata_location), limit=limit), limit=limit)
    document = read_json(found)
    metadata = read_view_metadata(document)
    is_verbatim = metadata == document
    new = NewTabular(
        target,
        namespace_id,
        VIEW,
        metadata,
        str(metadata_location),
        found if is_verbatim else write_json(metadata),
        is_verbatim=is_verbatim,
    )
    return insert_tabular(new, once=once)
