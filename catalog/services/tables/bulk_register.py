"""Namespaces, tables and views of another catalog, one by one: made here where they are not here yet.

Each step looks first and says what it came to, so that a run which was cut short is simply run again. The `check_*`
twins answer what the step would come to: they do all of it and take the rows back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.db import transaction

from catalog.errors import already_exists
from catalog.iceberg.metadata_files import file_version
from catalog.identifiers import Identifier, Levels, path_key, require_levels
from catalog.models import Namespace, Tabular
from catalog.selectors.namespaces import get_namespace_for
from catalog.selectors.targets import Target, find_target, find_target_of_commit
from catalog.services.namespaces.namespaces import LOCATION, MANAGED, create_namespace, update_namespace_properties
from catalog.services.tables.insert import NewTabular, insert_tabular
from catalog.services.tables.register import read_registered, register_tabular
from icekeeper.kernel.errors.types import AlreadyExists, Conflict, InvalidLocation, NoSuchNamespace
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.json.strict import read_stored_json
from icekeeper.kernel.names import require_name
from storage.profiles.location import location_inside
from tenancy.actor import Actor
from tenancy.authz.actions import Can


class Came(StrEnum):
    """What a step came to."""

    NEW = "new"
    REPLACED = "replaced"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Listed:
    """A table or view as somebody listed it; neither the names nor the location were checked."""

    kind: Tabular.Kind
    levels: Levels
    name: str
    metadata_location: str | None


def make_namespace(*, actor: Actor, warehouse_id: UUID, levels: object, properties: object, overwrite: bool) -> Came:
    """Make a namespace below one that exists; one that is there keeps its properties unless `overwrite` sets some.

    Where it lay in the other catalog, and its id there, are left behind: it gets its own. Raises what
    `create_namespace` raises, but not that it is there.
    """
    checked = require_levels(levels)
    if isinstance(properties, dict):
        properties = {key: value for key, value in properties.items() if key not in {*MANAGED, LOCATION}}
    try:
        found = get_namespace_for(actor=actor, warehouse_id=warehouse_id, levels=checked)
    except NoSuchNamespace:
        try:
            create_namespace(actor=actor, warehouse_id=warehouse_id, levels=checked, properties=properties)
        except AlreadyExists:  # a run beside this one was faster
            return Came.UNCHANGED
        return Came.NEW
    if not overwrite or _has(found.properties, properties):
        return Came.UNCHANGED
    update_namespace_properties(
        actor=actor, warehouse_id=warehouse_id, levels=checked, removals=None, updates=properties
    )
    return Came.REPLACED


def check_namespace(*, actor: Actor, warehouse_id: UUID, levels: object, properties: object, overwrite: bool) -> Came:
    """What `make_namespace` would come to, had the levels above been made. Changes nothing."""
    checked = require_levels(levels)
    with _taken_back():
        _make_levels(actor, warehouse_id, checked[:-1])
        return make_namespace(
            actor=actor, warehouse_id=warehouse_id, levels=checked, properties=properties, overwrite=overwrite
        )


def register_listed(*, actor: Actor, warehouse_id: UUID, listed: Listed, overwrite: bool) -> Came:
    """Register a table or view, unless it is here with that metadata file or has gone on from it.

    Raises what `register_tabular` raises, `AlreadyExists` when the name is taken by something else (with `overwrite`,
    by another kind, by one that is spelled differently, or by the same one with metadata that is as new or newer).
    """
    identifier = _checked(listed)
    came = _look(actor, warehouse_id, identifier, listed, overwrite=overwrite)[1]
    if came is Came.UNCHANGED:
        return came
    try:
        register_tabular(
            actor=actor,
            warehouse_id=warehouse_id,
            levels=identifier.levels,
            name=identifier.name,
            metadata_location=listed.metadata_location,
            kind=listed.kind,
            overwrite=overwrite,
        )
    except Conflict:
        # Perhaps a run beside this one was faster: then it is here by now.
        if _look(actor, warehouse_id, identifier, listed, overwrite=overwrite)[1] is Came.UNCHANGED:
            return Came.UNCHANGED
        raise
    return came


def check_listed(*, actor: Actor, warehouse_id: UUID, listed: Listed, overwrite: bool) -> Came:
    """What `register_listed` would come to, had its namespace been made. Reads the metadata file, changes nothing."""
    identifier = _checked(listed)
    target, came = _look(actor, warehouse_id, identifier, listed, overwrite=overwrite)
    if came is Came.UNCHANGED:
        return came
    metadata, stored, is_verbatim = read_registered(target, listed.kind, listed.metadata_location)
    with _taken_back():
        new = NewTabular(
            actor,
            target,
            _make_levels(actor, warehouse_id, identifier.levels),
            listed.kind,
            metadata,
            str(listed.metadata_location),
            stored,
            is_verbatim=is_verbatim,
            replaced=target.current,
        )
        insert_tabular(new, idempotency_key=None)
    return came


def _checked(listed: Listed) -> Identifier:
    return Identifier(require_levels(listed.levels), require_name(listed.name, f"{listed.kind} name"))


def _look(
    actor: Actor, warehouse_id: UUID, identifier: Identifier, listed: Listed, *, overwrite: bool
) -> tuple[Target, Came]:
    target = find_target(warehouse_id=warehouse_id, identifier=identifier)
    location = location_inside(listed.metadata_location, base=target.warehouse_location)
    current = target.current
    if current is None:
        return target, Came.NEW
    if current.kind != listed.kind:
        raise already_exists(current.kind, listed.kind, identifier)
    target.tabular_for(actor, Can.GET_METADATA, listed.kind)
    if location_inside(current.metadata_location, base=target.warehouse_location) == location:
        return target, Came.UNCHANGED
    _, document = find_target_of_commit(warehouse_id=warehouse_id, identifier=identifier)
    metadata = read_stored_json(document) if document else {}
    if location in _earlier_files(metadata, base=target.warehouse_location):
        return target, Came.UNCHANGED
    if not overwrite:
        raise AlreadyExists(f"{identifier} is here already, with other metadata: {current.metadata_location}")
    _require_same_spelling(current.id, identifier)
    _require_newer(target, listed, metadata, current.metadata_location)
    return target, Came.REPLACED


def _earlier_files(metadata: dict[str, Any], *, base: str) -> set[str]:
    """The metadata files that a table has gone on from, as far back as it tells; a view does not tell them."""
    found = set()
    for entry in metadata.get("metadata-log") or ():
        # A file outside the warehouse, from where the table lay before, is none that can be listed.
        with suppress(InvalidLocation):
            found.add(location_inside(entry["metadata-file"], base=base))
    return found


def _require_newer(target: Target, listed: Listed, metadata: dict[str, Any], metadata_location: str) -> None:
    """Refuse to turn back what is here. Raises `AlreadyExists`, and what `read_registered` raises.

    A table that was made anew in the other catalog, with a UUID of its own, is another one and may be of any age.
    """
    found, _, _ = read_registered(target, listed.kind, listed.metadata_location)
    field = f"{listed.kind}-uuid"
    if str(found[field]).lower() != str(metadata.get(field)).lower():
        return
    here, there = (_changed_at(listed.kind, each) for each in (metadata, found))
    if there > here:
        return
    if there == here:
        # As after a commit that a view does not log: a change of its properties.
        before, after = file_version(metadata_location), file_version(str(listed.metadata_location))
        if before is not None and after is not None and after > before:
            return
    raise AlreadyExists(
        f"{target.identifier} is here already, and {listed.metadata_location} is not newer than {metadata_location}"
    )


def _changed_at(kind: Tabular.Kind, metadata: dict[str, Any]) -> int:
    """When a table was last changed, in milliseconds; of a view, when it last got another version."""
    if kind == Tabular.Kind.TABLE:
        return int(metadata["last-updated-ms"])
    return max((int(entry["timestamp-ms"]) for entry in metadata["version-log"]), default=0)


def _require_same_spelling(tabular_id: UUID, identifier: Identifier) -> None:
    """Of `T` and `t`, which another catalog may tell apart, the second must not replace the first unasked."""
    there = Tabular.objects.select_related("namespace").filter(pk=tabular_id).first()
    if there is not None and (*there.namespace.levels, there.name) != (*identifier.levels, identifier.name):
        raise AlreadyExists(f"{identifier} is here already as {Identifier(there.namespace.levels, there.name)}")


def _make_levels(actor: Actor, warehouse_id: UUID, levels: Levels) -> UUID:
    """The id of a namespace; what is missing of it is made."""
    found = new_id()
    for depth in range(1, len(levels) + 1):
        above = levels[:depth]
        there = Namespace.objects.filter(warehouse_id=warehouse_id, path_key=path_key(above)).first()
        if there is None:
            there = create_namespace(actor=actor, warehouse_id=warehouse_id, levels=above, properties=None)
        found = there.pk
    return found


def _has(properties: dict[str, str], wanted: object) -> bool:
    return not wanted or (isinstance(wanted, dict) and wanted.items() <= properties.items())


@contextmanager
def _taken_back() -> Iterator[None]:
    """A transaction that leaves nothing behind."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)
