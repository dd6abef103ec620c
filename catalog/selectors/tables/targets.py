"""The target of a write: a name with its warehouse, namespace and current tabular; one statement on the primary."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import UUID

from catalog.errors import no_such_namespace, no_such_tabular
from catalog.identifiers import Identifier
from catalog.models import Tabular
from catalog.selectors.access.files import NAMED_TABULAR, STORAGE_COLUMNS, StorageRow, read_storage
from catalog.selectors.tables.metadata_cache import Version, metadata_cache, read_metadata_document
from icekeeper.kernel.db.sql import as_uuid, fetch_one_as
from icekeeper.kernel.json.strict import read_stored_json
from icekeeper.kernel.names import lookup_key, path_key
from storage.errors import no_such_warehouse
from storage.models import WarehouseStorage
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permission_epoch import permission_epoch
from tenancy.authz.permissions import require_permission
from tenancy.models import Securable

_CREATE: Final = {
    Tabular.Kind.TABLE: Can.CREATE_TABLE,
    Tabular.Kind.VIEW: Can.CREATE_VIEW,
    Tabular.Kind.GENERIC_TABLE: Can.CREATE_GENERIC_TABLE,
}

VERSION_OF_RULES: Final = "(SELECT number FROM catalog_changerulesversion)"
"""The number of changes of the rules about changes, null before the first: an empty table for most servers."""


class RulesVersion(NamedTuple):
    """The number of changes of rules, and the permission epoch before it was read: a later epoch may have more."""

    number: int | None
    epoch: int


_COLUMNS = f"""
SELECT {STORAGE_COLUMNS}, w.status, w.project_id, w.location, w.allowed_format_versions, w.default_format_version,
       n.id, n.location, t.id, t.uuid, t.kind, t.location, t.metadata_location, {VERSION_OF_RULES}"""

_TARGET = f"{_COLUMNS} {NAMED_TABULAR} WHERE w.id = %s"

_TARGET_WITH_DOCUMENT = f"""{_COLUMNS},
       CASE WHEN t.id = %s AND t.metadata_location = %s THEN NULL ELSE m.document END {NAMED_TABULAR}
  LEFT JOIN catalog_tabularmetadata m ON m.tabular_id = t.id
 WHERE w.id = %s"""


@dataclass(slots=True)
class _TargetRow(StorageRow):
    warehouse_status: str
    project_id: str
    warehouse_location: str
    allowed_format_versions: Any
    default_format_version: int | None
    namespace_id: Any
    namespace_location: str | None
    tabular_id: Any
    tabular_uuid: Any
    kind: str
    location: str
    metadata_location: str
    rules_version: int | None
    document: Any = None


@dataclass(frozen=True, slots=True)
class CurrentTabular:
    """The tabular that has the name now. `uuid` is the one that clients see."""

    id: UUID
    uuid: UUID
    namespace_id: UUID
    kind: str
    location: str
    metadata_location: str


@dataclass(frozen=True, slots=True)
class Target:
    """Where a write is aimed: the warehouse with its rules, the namespace, and what has the name there now.

    `rules_version` is that of the rules about changes (`catalog.services.approval`) as of this read.
    """

    warehouse_id: UUID
    project_id: str
    warehouse_location: str
    storage: WarehouseStorage
    allowed_format_versions: list[int]
    default_format_version: int | None
    identifier: Identifier
    namespace_id: UUID | None
    namespace_location: str | None
    current: CurrentTabular | None
    rules_version: RulesVersion

    def has(self, kind: Tabular.Kind) -> bool:
        """Return whether a tabular of `kind` has the name now."""
        return self.current is not None and self.current.kind == kind

    def namespace_to_create_in(self, actor: Actor, kind: Tabular.Kind) -> UUID:
        """Return the namespace. Raises `NoSuchNamespace`, and `Forbidden` when `actor` may not create `kind` in it."""
        missing = partial(no_such_namespace, self.identifier.levels)
        if self.namespace_id is None:
            raise missing()
        require_permission(actor, _CREATE[kind], Securable.Type.NAMESPACE, self.namespace_id, missing=missing)
        return self.namespace_id

    def tabular_for(self, actor: Actor, action: Can, kind: Tabular.Kind) -> CurrentTabular:
        """Return the tabular with the name, after a check of its kind and of `action`."""
        missing = partial(no_such_tabular, kind, self.identifier)
        if self.current is None or self.current.kind != kind:
            raise missing()
        require_permission(actor, action, Securable.Type(kind.value), self.current.id, missing=missing)
        return self.current


def find_target(*, warehouse_id: UUID, identifier: Identifier) -> Target:
    """Find the target of a write. Namespace and tabular may be missing.

    Raises `NoSuchWarehouse` for a missing or inactive warehouse.
    """
    params, epoch = [path_key(identifier.levels), lookup_key(identifier.name), warehouse_id], permission_epoch.current()
    return _target(warehouse_id, identifier, fetch_one_as(_TargetRow, "default", _TARGET, params), epoch)


def find_target_of_commit(*, warehouse_id: UUID, identifier: Identifier) -> tuple[Target, bytes]:
    """As `find_target`, with the bytes of the current metadata file; empty without a file."""
    address = (warehouse_id, path_key(identifier.levels), lookup_key(identifier.name))
    seen, cached = metadata_cache.last_seen(address)
    known = (seen.tabular_id, seen.metadata_location) if seen else (None, None)
    params, epoch = [*known, *address[1:], warehouse_id], permission_epoch.current()
    row = fetch_one_as(_TargetRow, "default", _TARGET_WITH_DOCUMENT, params)
    target = _target(warehouse_id, identifier, row, epoch)
    if target.current is None or not target.current.metadata_location or row is None:
        return target, b""
    version = Version(target.current.id, target.current.metadata_location)
    if cached is not None and version == seen:
        return target, cached
    return target, read_metadata_document(target.storage, version, row.document)


def _target(warehouse_id: UUID, identifier: Identifier, row: _TargetRow | None, epoch: int) -> Target:
    if row is None or row.warehouse_status != "active":
        raise no_such_warehouse(warehouse_id)
    namespace_id = None if row.namespace_id is None else as_uuid(row.namespace_id)
    versions = row.allowed_format_versions
    if isinstance(versions, str):  # SQLite keeps JSON as text
        versions = read_stored_json(versions.encode())
    current = None
    if namespace_id is not None and row.tabular_id is not None:
        current = CurrentTabular(
            as_uuid(row.tabular_id), as_uuid(row.tabular_uuid), namespace_id, row.kind, row.location,
            row.metadata_location,
        )  # fmt: skip
    return Target(
        warehouse_id=warehouse_id,
        project_id=row.project_id,
        warehouse_location=row.warehouse_location,
        storage=read_storage(warehouse_id, row),
        allowed_format_versions=versions,
        default_format_version=row.default_format_version,
        identifier=identifier,
        namespace_id=namespace_id,
        namespace_location=row.namespace_location,
        current=current,
        rules_version=RulesVersion(row.rules_version, epoch),
    )
