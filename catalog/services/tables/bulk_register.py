"""Import of namespaces, tables and views of another catalog, one by one.

Each step skips what exists already, so that an interrupted run can be repeated. The `check_*` functions are dry runs:
they execute the step and roll it back, without asking the rules about changes, which may ask other servers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.db import transaction

from catalog.errors import already_exists
from catalog.iceberg.metadata_files import file_version
from catalog.identifiers import Identifier, Levels, require_levels
from catalog.models import Namespace, Tabular
from catalog.selectors.namespaces import get_namespace_for
from catalog.selectors.tables.targets import Target, find_target, find_target_of_commit
from catalog.services.namespaces.create import create_namespace, create_unapproved_namespace
from catalog.services.namespaces.properties import (
    LOCATION,
    MANAGED,
    update_namespace_properties,
    update_unapproved_namespace_properties,
)
from catalog.services.tables.create import NewTabular, insert_tabular
from catalog.services.tables.register import read_registered, register_tabular
from icekeeper.kernel.errors.types import AlreadyExists, Conflict, InvalidLocation, NoSuchNamespace
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.json.strict import read_stored_json
from icekeeper.kernel.names import path_key, require_name
from storage.profiles.location import location_inside
from tenancy.actor import Actor
from tenancy.authz.actions import Can


class ImportResult(StrEnum):
    """The result of importing a namespace, table or view."""

    NEW = "new"
    REPLACED = "replaced"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class ImportEntry:
    """A table or view in an import; neither the names nor the location are validated."""

    kind: Tabular.Kind
    levels: Levels
    name: str
    metadata_location: str | None


def ensure_namespace(
    *, actor: Actor, warehouse_id: UUID, levels: object, properties: object, overwrite: bool
) -> ImportResult:
    """Create a namespace unless it exists; `overwrite` sets the properties of an existing one.

    Its location and id in the other catalog are ignored: it gets new ones. Raises as `create_namespace`, except
    `AlreadyExists`.
    """
    return _ensure(
        create=create_namespace, update=update_namespace_properties,
        actor=actor, warehouse_id=warehouse_id, levels=levels, properties=properties, overwrite=overwrite,
    )  # fmt: skip


def _ensure(
    *,
    create: Callable[..., object],
    update: Callable[..., object],
    actor: Actor,
    warehouse_id: UUID,
    levels: object,
    properties: object,
    overwrite: bool,
) -> ImportResult:
    checked = require_levels(levels)
    if isinstance(properties, dict):
        properties = {key: value for key, value in properties.items() if key not in {*MANAGED, LOCATION}}
    try:
        found = get_namespace_for(actor=actor, warehouse_id=warehouse_id, levels=checked)
    except NoSuchNamespace:
        try:
            create(actor=actor, warehouse_id=warehouse_id, levels=checked, properties=properties)
        except AlreadyExists:  # created by a concurrent run
            return ImportResult.UNCHANGED
        return ImportResult.NEW
    if not overwrite or _has(found.properties, properties):
        return ImportResult.UNCHANGED
    update(actor=actor, warehouse_id=warehouse_id, levels=checked, removals=None, updates=properties)
    return ImportResult.REPLACED


def check_namespace(
    *, actor: Actor, warehouse_id: UUID, levels: object, properties: object, overwrite: bool
) -> ImportResult:
    """Dry run of `ensure_namespace`, with all levels above created."""
    checked = require_levels(levels)
    with _rolled_back():
        _create_levels(actor, warehouse_id, checked[:-1])
        return _ensure(
            create=create_unapproved_namespace, update=update_unapproved_namespace_properties,
            actor=actor, warehouse_id=warehouse_id, levels=checked, properties=properties, overwrite=overwrite,
        )  # fmt: skip


def register_entry(*, actor: Actor, warehouse_id: UUID, entry: ImportEntry, overwrite: bool) -> ImportResult:
    """Register a table or view, unless it is already registered with that metadata file or a later version.

    Raises what `register_tabular` raises, `AlreadyExists` when the name is taken by something else (with `overwrite`,
    by another kind, by one that is spelled differently, or by the same one with metadata that is as new or newer).
    """
    identifier = _checked(entry)
    result = _compare(actor, warehouse_id, identifier, entry, overwrite=overwrite)[1]
    if result is ImportResult.UNCHANGED:
        return result
    try:
        register_tabular(
            actor=actor,
            warehouse_id=warehouse_id,
            levels=identifier.levels,
            name=identifier.name,
            metadata_location=entry.metadata_location,
            kind=entry.kind,
            overwrite=overwrite,
        )
    except Conflict:
        # A concurrent run may have registered it.
        if _compare(actor, warehouse_id, identifier, entry, overwrite=overwrite)[1] is ImportResult.UNCHANGED:
            return ImportResult.UNCHANGED
        raise
    return result


def check_entry(*, actor: Actor, warehouse_id: UUID, entry: ImportEntry, overwrite: bool) -> ImportResult:
    """Dry run of `register_entry`, with its namespace created. Reads the metadata file."""
    identifier = _checked(entry)
    target, result = _compare(actor, warehouse_id, identifier, entry, overwrite=overwrite)
    if result is ImportResult.UNCHANGED:
        return result
    metadata, stored, is_verbatim = read_registered(target, entry.kind, entry.metadata_location)
    with _rolled_back():
        new = NewTabular(
            actor,
            target,
            _create_levels(actor, warehouse_id, identifier.levels),
            entry.kind,
            metadata,
            str(entry.metadata_location),
            stored,
            is_verbatim=is_verbatim,
            replaced=target.current,
        )
        insert_tabular(new, idempotency_key=None)
    return result


def _checked(entry: ImportEntry) -> Identifier:
    return Identifier(require_levels(entry.levels), require_name(entry.name, f"{entry.kind} name"))


def _compare(
    actor: Actor, warehouse_id: UUID, identifier: Identifier, entry: ImportEntry, *, overwrite: bool
) -> tuple[Target, ImportResult]:
    """Compare an entry with the catalog: the current target, and what the import must do. Raises `AlreadyExists`."""
    target = find_target(warehouse_id=warehouse_id, identifier=identifier)
    location = location_inside(entry.metadata_location, base=target.warehouse_location)
    current = target.current
    if current is None:
        return target, ImportResult.NEW
    if current.kind != entry.kind:
        raise already_exists(current.kind, entry.kind, identifier)
    target.tabular_for(actor, Can.GET_METADATA, entry.kind)
    if location_inside(current.metadata_location, base=target.warehouse_location) == location:
        return target, ImportResult.UNCHANGED
    _, document = find_target_of_commit(warehouse_id=warehouse_id, identifier=identifier)
    metadata = read_stored_json(document) if document else {}
    if location in _earlier_files(metadata, base=target.warehouse_location):
        return target, ImportResult.UNCHANGED
    if not overwrite:
        raise AlreadyExists(f"{identifier} is here already, with other metadata: {current.metadata_location}")
    _require_same_spelling(current.id, identifier)
    _require_newer(target, entry, metadata, current.metadata_location)
    return target, ImportResult.REPLACED


def _earlier_files(metadata: dict[str, Any], *, base: str) -> set[str]:
    """Return the earlier metadata files in a table's metadata log; a view has none."""
    found = set()
    for logged in metadata.get("metadata-log") or ():
        # Files outside of the warehouse, from a former location of the table, are skipped.
        with suppress(InvalidLocation):
            found.add(location_inside(logged["metadata-file"], base=base))
    return found


def _require_newer(target: Target, entry: ImportEntry, metadata: dict[str, Any], metadata_location: str) -> None:
    """Raises `AlreadyExists` when the entry is not newer than the registered table, and what `read_registered` raises.

    A table that was created again in the other catalog has another UUID: it may be of any age.
    """
    found, _, _ = read_registered(target, entry.kind, entry.metadata_location)
    field = f"{entry.kind}-uuid"
    if str(found[field]).lower() != str(metadata.get(field)).lower():
        return
    here, there = (_changed_at(entry.kind, each) for each in (metadata, found))
    if there > here:
        return
    if there == here:
        # A change of properties alone is a commit that a view's log does not contain.
        before, after = file_version(metadata_location), file_version(str(entry.metadata_location))
        if before is not None and after is not None and after > before:
            return
    raise AlreadyExists(
        f"{target.identifier} is here already, and {entry.metadata_location} is not newer than {metadata_location}"
    )


def _changed_at(kind: Tabular.Kind, metadata: dict[str, Any]) -> int:
    """Return the time of a table's last change, or of a view's last version, in milliseconds."""
    if kind == Tabular.Kind.TABLE:
        return int(metadata["last-updated-ms"])
    return max((int(entry["timestamp-ms"]) for entry in metadata["version-log"]), default=0)


def _require_same_spelling(tabular_id: UUID, identifier: Identifier) -> None:
    """Raises `AlreadyExists` when the name differs in case: other catalogs may have both `T` and `t`."""
    existing = Tabular.objects.select_related("namespace").filter(pk=tabular_id).first()
    if existing is not None and (*existing.namespace.levels, existing.name) != (*identifier.levels, identifier.name):
        raise AlreadyExists(f"{identifier} is here already as {Identifier(existing.namespace.levels, existing.name)}")


def _create_levels(actor: Actor, warehouse_id: UUID, levels: Levels) -> UUID:
    """Create the missing levels of a namespace; return its id."""
    found = new_id()
    for depth in range(1, len(levels) + 1):
        above = levels[:depth]
        namespace = Namespace.objects.in_warehouse(warehouse_id).filter(path_key=path_key(above)).first()
        if namespace is None:
            namespace = create_unapproved_namespace(
                actor=actor, warehouse_id=warehouse_id, levels=above, properties=None
            )
        found = namespace.pk
    return found


def _has(properties: dict[str, str], wanted: object) -> bool:
    return not wanted or (isinstance(wanted, dict) and wanted.items() <= properties.items())


@contextmanager
def _rolled_back() -> Iterator[None]:
    """Run the block in a transaction that is always rolled back."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)
