"""Creation and replacement of views, and protection of the properties that name their owners."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final
from uuid import UUID

from django.conf import settings

from catalog.errors import already_exists
from catalog.iceberg.create import create_view_metadata
from catalog.iceberg.requirements import check_view_requirements
from catalog.iceberg.validation import check_times
from catalog.iceberg.views import apply_view_updates
from catalog.identifiers import Identifier, Levels
from catalog.models import Tabular
from catalog.selectors.tables.load import LoadedTabular
from catalog.selectors.tables.metadata_cache import Version, metadata_of
from catalog.selectors.tables.targets import find_target, find_target_of_commit
from catalog.services.approval.approve import require_approval
from catalog.services.approval.proposals import propose_commit, require_approved_creation
from catalog.services.commit.expected_properties import require_properties
from catalog.services.commit.queue import attempts, reserve_commit_slots
from catalog.services.commit.revisions import CommitRequest, revise, write_revisions
from catalog.services.idempotency import IdempotencyKey, store_unchanged_response
from catalog.services.locations.claims import is_foreseeable, new_tabular_location
from catalog.services.locations.purge import run_pending_purges
from catalog.services.tables.create import create_tabular
from icekeeper.kernel import request_context
from icekeeper.kernel.clock import now_ms
from icekeeper.kernel.errors.types import Forbidden
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.names import lookup_key, path_key, require_name
from tenancy.actor import Actor, owner_properties, owner_properties_of
from tenancy.audit.occurrences import record_denial
from tenancy.authz.actions import Can
from tenancy.models import Securable

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
) -> LoadedTabular:
    """Create a view; the arguments are those of CreateViewRequest.

    Raises `ProtectedPropertyModification` (403) before any other error, `NoSuchNamespace`, `AlreadyExists`,
    `BadRequest`, `InvalidLocation`, `LocationAlreadyTaken`, `ContractViolation` (409).
    """
    require_may_set_owner(actor, properties if isinstance(properties, dict) else ())
    identifier = Identifier(levels, require_name(name, "view name"))
    target = find_target(warehouse_id=warehouse_id, identifier=identifier)
    namespace_id = target.namespace_to_create_in(actor, VIEW)
    if target.current is not None:
        raise already_exists(target.current.kind, VIEW, identifier)
    view_uuid = new_id()
    metadata = create_view_metadata(
        schema=schema,
        view_version=view_version,
        location=new_tabular_location(target, location, view_uuid),
        properties=properties,
        view_uuid=str(view_uuid),
    )
    check_times(metadata, now_ms())
    require_approved_creation(actor, target, VIEW, metadata)
    if location is None and is_foreseeable(metadata["location"], view_uuid):
        run_pending_purges(actor, target, metadata["location"])
    request = {
        "name": name, "location": location, "schema": schema, "view-version": view_version, "properties": properties,
    }  # fmt: skip
    return create_tabular(
        actor, target, namespace_id, VIEW, metadata, request=request, fresh_uuid=view_uuid,
        idempotency_key=idempotency_key,
    )  # fmt: skip


def replace_view(
    *,
    actor: Actor,
    warehouse_id: UUID,
    view: Identifier,
    requirements: list[Any],
    updates: list[Any],
    expected_properties: Mapping[str, str | None] | None = None,
    idempotency_key: IdempotencyKey | None = None,
) -> LoadedTabular:
    """Apply `updates` if the newest metadata meets all `requirements`. Updates without an effect write nothing.

    With `expected_properties`, raises `PropertiesChanged` as a commit to a table does. Raises
    `ProtectedPropertyModification` (403) before any other error, `NoSuchView`, `CommitFailed` (409, nothing was done),
    `ContractViolation` (409), `BadRequest`, `DefinerViewModification` (403), and `CommitStateUnknown` (500) when the
    connection to the database was lost during the commit.
    """
    require_may_set_owner(actor, updated_property_names(updates))
    with reserve_commit_slots([(warehouse_id, path_key(view.levels), lookup_key(view.name))]):
        for _ in attempts(view):
            target, before = find_target_of_commit(warehouse_id=warehouse_id, identifier=view)
            current = target.tabular_for(actor, Can.COMMIT, VIEW)
            base = metadata_of(Version(current.id, current.metadata_location), before)
            check_view_requirements(base, requirements)
            require_properties(base, expected_properties or {})
            change = apply_view_updates(
                base, updates, now_ms=now_ms(), between_updates=request_context.remaining_seconds
            )
            if not change.changed:
                unchanged = LoadedTabular(current.id, current.metadata_location, before)
                store_unchanged_response(idempotency_key, unchanged)
                return unchanged
            require_may_replace(actor, current.id, base, change.metadata)
            proposed = partial(propose_commit, actor, target, current, base, change.metadata, updates=updates)
            require_approval(target.rules_version, lambda: [proposed()], warehouse_id=warehouse_id)  # noqa: B023 - called at once
            request = CommitRequest(requirements, updates, _audit_details(updates))
            revision = revise(actor, target, current, base, change.metadata, request=request)
            if write_revisions(target, [revision], idempotency_key=idempotency_key, result=revision.result):
                return revision.result
    raise AssertionError("attempts() ends with an error")


def _audit_details(updates: list[Any]) -> dict[str, Any] | None:
    """Return what the audit record has of valid updates; None if `ICEKEEPER__AUDIT__DATA_CHANGES` is off."""
    if settings.ICEKEEPER.audit.data_changes == "off":
        return None
    return {"actions": dict(Counter(update["action"] for update in updates))}


DEFINING_MEMBERS: Final = ("schemas", "versions", "current-version-id")
"""The members of a view's metadata that define what it reads."""


class ProtectedPropertyModification(Forbidden):
    """A client other than the trusted engine set, changed or removed the owner property of a view."""

    wire_type = "ProtectedPropertyModification"


class DefinerViewModification(Forbidden):
    """A client other than the trusted engine changed what a view with an owner reads."""

    wire_type = "DefinerViewModification"


def require_may_set_owner(actor: Actor, names: Iterable[object]) -> None:
    """Raises `ProtectedPropertyModification` when one of `names`, properties of a view, is an owner property in any
    case, unless `actor` is the engine with exactly that owner property."""
    if actor.is_internal or not (protected := {name.casefold() for name in owner_properties()}):
        return
    for name in names:
        if isinstance(name, str) and name.casefold() in protected and name not in owner_properties_of(actor):
            raise ProtectedPropertyModification(
                f"The property {name} names the owner of a view: only the engine that reads views with their owners' "
                "rights may set, change or remove it"
            )


def updated_property_names(updates: Iterable[Any]) -> Iterator[object]:
    """Iterate the property names in the updates of a view; skip what is invalid, as updates are validated later."""
    for update in updates:
        if not isinstance(update, dict):
            continue
        for member in ("updates", "updated", "removals", "removed"):
            named = update.get(member)
            yield from named if isinstance(named, dict | list) else ()


def require_may_replace(actor: Actor, view_id: UUID, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Raises `ProtectedPropertyModification`, or `DefinerViewModification` when `after` reads something else than
    `before`, a view with an owner. Denials are audited."""
    try:
        _require_may_replace(actor, before, after)
    except Forbidden as error:
        record_denial(
            actor=actor,
            action=Can.COMMIT,
            object_type=Securable.Type.VIEW.value,
            object_id=view_id,
            reason=error.wire_type,
            details={"uuid": before.get("view-uuid")},
        )
        raise


def _require_may_replace(actor: Actor, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    was, is_now = before["properties"], after["properties"]
    require_may_set_owner(actor, [name for name in {*was, *is_now} if was.get(name) != is_now.get(name)])
    if actor.is_internal or all(before[member] == after[member] for member in DEFINING_MEMBERS):
        return
    foreign = [name for name in sorted(owner_properties() - owner_properties_of(actor)) if name in was]
    if foreign:
        raise DefinerViewModification(
            f"The view is read with the rights of its owner ({foreign[0]}): only the engine that names the owner may "
            "change its schemas and versions"
        )
