"""Permissions of reads through views: the actor whose permissions decide at the end of a chain of views.

A trusted engine (`tenancy.actor`) sends the views that it expanded, outermost first. The current reader must
be allowed to use each of them. After a view with an owner (DEFINER) the owner is the reader; any other view (INVOKER)
does not change it. Owners are read from the primary database only, never from a replica or from a file of the
warehouse.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from catalog.errors import no_such_tabular
from catalog.identifiers import Identifier
from catalog.models import Tabular, TabularMetadata
from catalog.selectors.access.files import Reader
from catalog.selectors.tables.metadata_cache import Version, metadata_of
from icekeeper.kernel.db.sql import as_uuid, fetch_all
from icekeeper.kernel.errors.types import BadRequest, CatalogError, Forbidden
from icekeeper.kernel.json.strict import read_stored_json
from icekeeper.kernel.names import LEVEL_SEPARATOR, lookup_key, path_key
from storage.errors import no_such_warehouse
from tenancy.actor import Actor, owner_properties_of, require_user_id
from tenancy.audit.occurrences import record_denial
from tenancy.authz.actions import Can
from tenancy.authz.permissions import check_permissions
from tenancy.models import Securable, User
from tenancy.models.securable import ObjectRef

_VIEWS = """
SELECT w.status, n.path_key, t.name_key, t.id, t.metadata_location, m.document
  FROM storage_warehouse w
  LEFT JOIN catalog_namespace n ON n.warehouse_id = w.id AND n.path_key = ANY(%s)
  LEFT JOIN catalog_tabular t ON t.namespace_id = n.id AND t.name_key = ANY(%s)
        AND n.path_key || %s || t.name_key = ANY(%s) AND t.kind = 'view' AND t.deleted_at IS NULL
  LEFT JOIN catalog_tabularmetadata m ON m.tabular_id = t.id
 WHERE w.id = %s
"""


class AuthzBadRequest(Forbidden):
    """The owner of a view is ambiguous, invalid or unknown."""

    wire_type = "AuthzBadRequest"


class _ViewRow(NamedTuple):
    warehouse_status: str
    path_key: str
    name_key: str
    view_id: Any
    metadata_location: str
    document: Any


@dataclass(frozen=True, slots=True)
class _View:
    """A view of a chain. `owners` are the values of the engines' owner properties, None when they are unknown."""

    id: UUID
    identifier: Identifier
    owners: frozenset[str] | None


def reader_through(
    views: Sequence[Identifier], *, actor: Actor, warehouse_id: UUID, kind: Tabular.Kind, identifier: Identifier
) -> Reader:
    """Return the reader of `identifier`, of `kind`, when `actor` reads it through `views`.

    Only trusted engines can send views; from other callers they are ignored. At most two statements, and one call to
    the authorizer for each reader. Raises the "no such" error of `identifier` when a view is missing, hidden from its
    reader or not selectable by them, and when an owner is not an active user; `AuthzBadRequest` (403),
    `NoSuchWarehouse`.
    """
    properties = owner_properties_of(actor) if views else frozenset()
    if not properties or actor.identity is None:
        return Reader(actor)
    provider_id, missing = actor.identity.provider_id, no_such_tabular(kind, identifier)
    chain = _read(warehouse_id, views, properties)
    active = _active_users(provider_id, chain)
    reader, passed = actor, list[UUID]()
    for view in chain:
        if view is None:
            _require_usable(reader, passed, missing)
            raise missing
        passed.append(view.id)
        if view.owners == frozenset():
            continue
        _require_usable(reader, passed, missing)
        owner_id = _owner_id(provider_id, view)
        reader, passed = Actor(user_id=owner_id, delegated_by=actor), []
        if owner_id not in active:
            _audit_denial(reader, view.id, reason="OwnerNotActive")
            raise missing
    _require_usable(reader, passed, missing)
    return Reader(reader, tuple(views))


def _read(warehouse_id: UUID, views: Sequence[Identifier], properties: Iterable[str]) -> list[_View | None]:
    """Read the views in their order, None for one that does not exist."""
    paths, names = [path_key(view.levels) for view in views], [lookup_key(view.name) for view in views]
    addresses = [f"{path}{LEVEL_SEPARATOR}{name}" for path, name in zip(paths, names, strict=True)]
    rows = fetch_all("default", _VIEWS, [paths, names, LEVEL_SEPARATOR, addresses, warehouse_id])
    if not rows or _ViewRow(*rows[0]).warehouse_status != "active":
        raise no_such_warehouse(warehouse_id)
    found = {f"{row.path_key}{LEVEL_SEPARATOR}{row.name_key}": row for row in map(_ViewRow._make, rows) if row.view_id}
    chain: list[_View | None] = []
    for view, address in zip(views, addresses, strict=True):
        if address not in found:
            chain.append(None)
            continue
        row = found[address]
        view_id, owners = as_uuid(row.view_id), None
        if row.document is not None:
            stored = metadata_of(Version(view_id, row.metadata_location), bytes(row.document))["properties"]
            owners = frozenset(stored[name] for name in properties if name in stored)
        chain.append(_View(view_id, view, owners))
    return chain


def _active_users(provider_id: str, chain: Iterable[_View | None]) -> frozenset[str]:
    """Return the ids of the owners that are active users."""
    owners = {owner for view in chain if view is not None for owner in view.owners or ()}
    possible = []
    for owner in sorted(owners):
        with suppress(BadRequest):
            possible.append(require_user_id(f"{provider_id}~{owner}"))
    if not possible:
        return frozenset()
    users = User.objects.using("default").filter(id__in=possible, is_active=True, deleted_at__isnull=True)
    return frozenset(users.values_list("id", flat=True))


def _owner_id(provider_id: str, view: _View) -> str:
    """Raises `AuthzBadRequest` unless the view names one owner who could be a user."""
    if view.owners is None:
        raise AuthzBadRequest(f"The owner of view {view.identifier} is unknown: commit to the view again")
    if len(view.owners) > 1:
        raise AuthzBadRequest(f"View {view.identifier} names several owners: its owner is ambiguous")
    (owner,) = view.owners
    try:
        return require_user_id(f"{provider_id}~{owner}")
    except BadRequest as error:
        raise AuthzBadRequest(f"View {view.identifier} names an owner who cannot be one: {error.message}") from None


def _require_usable(reader: Actor, view_ids: Sequence[UUID], missing: CatalogError) -> None:
    """Check that `reader` may see the views and select from them. Raises `missing`."""
    checks: list[tuple[Can, UUID]] = [(action, view_id) for view_id in view_ids for action in _USE]
    allowed = check_permissions(
        reader, [(action, ObjectRef(Securable.Type.VIEW, view_id)) for action, view_id in checks]
    )
    for (action, view_id), is_allowed in zip(checks, allowed, strict=True):
        if not is_allowed:
            reason = "CannotSeeResource" if action is Can.GET_METADATA else "ActionForbidden"
            _audit_denial(reader, view_id, reason=reason)
            raise missing


_USE = (Can.GET_METADATA, Can.SELECT)


def _audit_denial(reader: Actor, view_id: UUID, *, reason: str) -> None:
    """Audit the reason of a denial, which the caller must not see."""
    record_denial(actor=reader, action=Can.SELECT, object_type="view", object_id=view_id, reason=reason)


_DOCUMENTS_IN_MEMORY = 200


@dataclass(frozen=True, slots=True)
class OwnedView:
    """A view with an owner property: `owner` is its value, `users` are the ids of the active users that it may mean.

    `is_exact` is False for a property in another case of letters, which has no effect but may confuse readers.
    """

    warehouse: str
    identifier: str
    property_name: str
    owner: str
    users: tuple[str, ...]
    is_exact: bool
    is_dropped: bool


def list_owned_views(properties: Collection[str]) -> Iterator[OwnedView]:
    """Iterate all views of the server that have one of `properties`, in any case of letters; also soft-deleted ones.

    Views whose metadata is not in the database are skipped: their owner is unknown.
    """
    folded = {name.casefold() for name in properties}
    rows = TabularMetadata.objects.filter(tabular__kind=Tabular.Kind.VIEW, document__isnull=False)
    rows = rows.select_related("tabular__namespace", "tabular__warehouse").order_by("tabular_id")
    for row in rows.iterator(chunk_size=_DOCUMENTS_IN_MEMORY):
        view = row.tabular
        for name, owner in sorted(read_stored_json(bytes(row.document or b"{}"))["properties"].items()):
            if name.casefold() not in folded:
                continue
            yield OwnedView(
                warehouse=view.warehouse.name,
                identifier=".".join((*view.namespace.levels, view.name)),
                property_name=name,
                owner=owner,
                users=_users(owner),
                is_exact=name in properties,
                is_dropped=view.deleted_at is not None,
            )


def _users(owner: str) -> tuple[str, ...]:
    """Return the active users with this subject, of any provider: that of the engine's token decides on a read."""
    if not owner or "\x00" in owner:
        return ()
    named = User.objects.filter(id__endswith=f"~{owner}", is_active=True, deleted_at__isnull=True).order_by("id")
    return tuple(each for each in named.values_list("id", flat=True) if each.partition("~")[2] == owner)
