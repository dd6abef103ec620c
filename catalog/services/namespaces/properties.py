"""Properties of namespaces: validation, and updates under the lock of the namespace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from catalog.identifiers import Levels
from catalog.models import Namespace
from catalog.selectors.namespaces import find_namespace_for, lock_namespace
from catalog.services.approval.approve import require_approval
from catalog.services.approval.port import ChangeAction
from catalog.services.approval.proposals import propose_namespace
from catalog.services.approval.rule_set import recent_rules_version
from catalog.services.idempotency import IdempotencyKey
from catalog.services.namespaces.versions import require_version
from icekeeper.kernel.errors.types import (
    BadRequest,
    InvalidLocation,
    UnprocessableEntity,
)
from storage.profiles.location import normalize
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import change

LOCATION = "location"
MANAGED = frozenset({"namespace_id", "managed_access"})
"""Properties that the server sets: values from clients are ignored."""


class LocationCannotBeUpdated(BadRequest):
    wire_type = "LocationCannotBeUpdated"


class LocationCannotBeRemoved(BadRequest):
    wire_type = "LocationCannotBeRemoved"


MAX_PROPERTIES_BYTES = 1_048_576


@dataclass(frozen=True, slots=True)
class PropertyChanges:
    """The result of an update: keys that were set, keys that were removed, keys to remove that did not exist."""

    updated: list[str]
    removed: list[str]
    missing: list[str]

    def as_json(self) -> dict[str, list[str]]:
        return {"updated": self.updated, "removed": self.removed, "missing": self.missing}


def update_namespace_properties(
    *,
    actor: Actor,
    warehouse_id: UUID,
    levels: Levels,
    removals: object,
    updates: object,
    expected_version: int | None = None,
    idempotency_key: IdempotencyKey | None = None,
) -> PropertyChanges:
    """Merge property changes under the row's lock, so that concurrent changes are not lost.

    Raises `NoSuchNamespace`; `UnprocessableEntity` (422) when a key is in both lists; `LocationCannotBeUpdated` and
    `LocationCannotBeRemoved` (400), as tabulars depend on the location; `NamespaceChanged` (409) when the namespace has
    another version than `expected_version`; `ContractViolation` (409).
    """
    update = _read_update(updates, removals)
    namespace_id = find_namespace_for(actor, Can.UPDATE_PROPERTIES, warehouse_id, levels)
    require_approval(
        recent_rules_version(),
        lambda: [
            propose_namespace(
                ChangeAction.UPDATE_PROPERTIES, actor, warehouse_id, levels, namespace_id=namespace_id,
                properties=update.apply_to,
            )
        ],
        warehouse_id=warehouse_id,
    )  # fmt: skip
    return _update(
        actor, warehouse_id, levels, namespace_id, update, expected_version=expected_version,
        idempotency_key=idempotency_key,
    )  # fmt: skip


def update_unapproved_namespace_properties(
    *, actor: Actor, warehouse_id: UUID, levels: Levels, removals: object, updates: object
) -> PropertyChanges:
    """Do what `update_namespace_properties` does without asking the rules: for dry runs, which are rolled back."""
    update = _read_update(updates, removals)
    namespace_id = find_namespace_for(actor, Can.UPDATE_PROPERTIES, warehouse_id, levels)
    return _update(actor, warehouse_id, levels, namespace_id, update)


@dataclass(frozen=True, slots=True)
class _Update:
    """The properties to set, and those to remove."""

    to_set: dict[str, str]
    to_remove: list[str]

    def apply_to(self, before: Mapping[str, str]) -> dict[str, str]:
        """Return the stored properties after the update; the location is not one of them."""
        kept = {key: value for key, value in before.items() if key not in self.to_remove}
        return kept | {key: value for key, value in self.to_set.items() if key != LOCATION}


def _read_update(updates: object, removals: object) -> _Update:
    to_set = without_managed(read_properties(updates, "updates"))
    to_remove = _string_list(removals, "removals")
    both = sorted(to_set.keys() & set(to_remove))
    if both:
        raise UnprocessableEntity(f"Keys are in both updates and removals: {', '.join(both)[:500]}")
    return _Update(to_set, to_remove)


def _update(
    actor: Actor,
    warehouse_id: UUID,
    levels: Levels,
    namespace_id: UUID,
    update: _Update,
    *,
    expected_version: int | None = None,
    idempotency_key: IdempotencyKey | None = None,
) -> PropertyChanges:
    to_set, to_remove = update.to_set, update.to_remove
    with change(actor, idempotency_key) as tx:
        namespace = lock_namespace(warehouse_id, namespace_id, levels)
        require_version(namespace, expected_version)
        _require_same_location(namespace, to_set, to_remove)
        to_store = {key: value for key, value in to_set.items() if key != LOCATION}
        merged = dict(namespace.properties)
        removed = [key for key in to_remove if merged.pop(key, None) is not None]
        changed = [key for key, value in to_store.items() if merged.get(key) != value]
        merged.update(to_store)
        require_small(merged, "properties")
        if removed or changed:
            namespace.properties = merged
            namespace.version += 1
            namespace.save(update_fields=["properties", "version", "updated_at"])
            tx.record(
                Change.NAMESPACE_UPDATED, subject=namespace.pk, project=namespace.warehouse.project_id,
                warehouse=warehouse_id, levels=namespace.levels, updated=changed, removed=removed,
            )  # fmt: skip
        missing = [key for key in to_remove if key not in removed]
        changes = PropertyChanges(updated=list(to_set), removed=removed, missing=missing)
        tx.result = changes.as_json()
    return changes


def _require_same_location(namespace: Namespace, to_set: dict[str, str], to_remove: list[str]) -> None:
    if LOCATION in to_remove:
        raise LocationCannotBeRemoved("The location of a namespace cannot be removed")
    wanted = to_set.get(LOCATION)
    if wanted is not None and not _is_location(namespace, wanted):
        raise LocationCannotBeUpdated("The location of a namespace cannot be changed")


def _is_location(namespace: Namespace, spelled: str) -> bool:
    try:
        return normalize(spelled, base=namespace.warehouse.location) == namespace.location
    except InvalidLocation:
        return False


def without_managed(properties: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in properties.items() if key not in MANAGED}


def _string_list(value: object, what: str) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise BadRequest(f"{what}: must be a list of strings")
    return list(dict.fromkeys(value))


def read_properties(value: object, what: str) -> dict[str, str]:
    """Read the properties in a request body; null and absent mean none. Raises `BadRequest`."""
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise BadRequest(f"{what}: must be an object of strings")
    require_small(value, what)
    return value


def require_small(properties: dict[str, str], what: str) -> None:
    """Raises `BadRequest` for properties that are too large together, or contain U+0000, which databases reject."""
    if sum(len(key) + len(value) for key, value in properties.items()) > MAX_PROPERTIES_BYTES:
        raise BadRequest(f"{what}: larger than {MAX_PROPERTIES_BYTES} characters together")
    if any("\x00" in key or "\x00" in value for key, value in properties.items()):
        raise BadRequest(f"{what}: the character U+0000 is not allowed")
