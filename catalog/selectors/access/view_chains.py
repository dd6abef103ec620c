"""Permissions of reads through views: the actor whose permissions decide at the end of a chain of views.

A trusted engine (`tenancy.trusted_engines`) sends the views that it expanded, outermost first. The current reader must
be allowed to use each of them. After a view with an owner (DEFINER) the owner is the reader; any other view (INVOKER)
does not change it. Owners are read from the primary database only, never from a replica or from a file of the
warehouse.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from catalog.errors import no_such_tabular
from catalog.identifiers import Identifier
from catalog.models import Tabular
from catalog.selectors.access.files import Reader
from catalog.selectors.tables.metadata_cache import Version, metadata_of
from icekeeper.kernel.db.sql import as_uuid, fetch_all
from icekeeper.kernel.errors.types import BadRequest, CatalogError, Forbidden
from icekeeper.kernel.names import LEVEL_SEPARATOR
from storage.errors import no_such_warehouse
from tenancy.actor import Actor
from tenancy.audit.occurrences import record_denial
from tenancy.authz.actions import Can
from tenancy.authz.permissions import check_permissions
from tenancy.models import Securable
from tenancy.refs import ObjectRef
from tenancy.trusted_engines import owner_properties_of
from tenancy.user_ids import require_user_id

_VIEWS = """
SELECT w.status, n.path_key, t.name_key, t.id, t.metadata_location, m.document
  FROM storage_warehouse w
  LEFT JOIN catalog_namespace n ON n.warehouse_id = w.id AND n.path_key = ANY(%s)
  LEFT JOIN catalog_tabular t ON t.namespace_id = n.id AND t.name_key = ANY(%s)
        AND n.path_key || %s || t.name_key = ANY(%s) AND t.kind = 'view' AND t.deleted_at IS NULL
  LEFT JOIN catalog_tabularmetadata m ON m.tabular_id = t.id
 WHERE w.id = %s
"""

_ACTIVE_USERS = "SELECT id FROM tenancy_user WHERE id = ANY(%s) AND is_active AND deleted_at IS NULL"


class AuthzBadRequest(Forbidden):
    """The owner of a view is ambiguous, invalid or unknown."""

    wire_type = "AuthzBadRequest"


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
    addresses = [f"{view.path_key}{LEVEL_SEPARATOR}{view.name_key}" for view in views]
    paths, names = [view.path_key for view in views], [view.name_key for view in views]
    rows = fetch_all("default", _VIEWS, [paths, names, LEVEL_SEPARATOR, addresses, warehouse_id])
    if not rows or rows[0][0] != "active":
        raise no_such_warehouse(warehouse_id)
    found = {f"{row[1]}{LEVEL_SEPARATOR}{row[2]}": row[3:] for row in rows if row[3] is not None}
    chain: list[_View | None] = []
    for view, address in zip(views, addresses, strict=True):
        if address not in found:
            chain.append(None)
            continue
        own_id, metadata_location, document = found[address]
        view_id, owners = as_uuid(own_id), None
        if document is not None:
            stored = metadata_of(Version(view_id, metadata_location), bytes(document))["properties"]
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
    rows = fetch_all("default", _ACTIVE_USERS, [possible]) if possible else []
    return frozenset(row[0] for row in rows)


def _owner_id(provider_id: str, view: _View) -> str:
    """Raises `AuthzBadRequest` unless the view names one owner who could be a user."""
    if view.owners is None:
        raise AuthzBadRequest(f"The owner of view {view.identifier} is not known for certain: commit to it once more")
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
