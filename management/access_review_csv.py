"""The rows of access reviews in CSV files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from management.resource_types import resource_type
from tenancy.authz.access_review import Rights, Source, instance_admins, standing_actions
from tenancy.models import Securable
from tenancy.selectors.access_reviews import Names, ObjectReviewChunk, ReachableChunk, SourceChunk
from tenancy.selectors.objects import NamedObject

T = Securable.Type
SEPARATOR: Final = " / "
"""Between the parts of a name, and between roles."""

_OBJECT: Final = ("object_type", "object_id", "warehouse_id", "object_name", "object_dropped")
_SOURCE: Final = (
    "granted_privilege", "granted_on_type", "granted_on_id", "granted_on_name", "via_role_ids", "via_role_names",
    "expires_at",
)  # fmt: skip
OBJECT_HEADER: Final = (
    *_OBJECT, "basis", "principal_type", "principal_id", "principal_name", "principal_blocked",
    "has_members_of_tokens", "privileges", "actions", *_SOURCE,
)  # fmt: skip
PRINCIPAL_HEADER: Final = (*_OBJECT, "privileges", "actions", "below", *_SOURCE)
REACHED_HEADER: Final = (*_OBJECT, "basis", "privileges", "actions", *_SOURCE)
GRANT, SHOWN_FROM_BELOW, INSTANCE_ADMIN = "grant", "shown-from-below", "instance-admin"
"""`basis` of a row: the source of the permissions."""
_NO_SOURCE: Final = ("",) * len(_SOURCE)


def reviewed_object(own_id: str, names: Names) -> NamedObject:
    """Return the object with its names; without `object_id` if it is hidden from the caller."""
    return names.objects.get(own_id, NamedObject(T(own_id.partition(":")[0]), ""))


def object_review_rows(parts: Iterable[ObjectReviewChunk], own_id: str) -> Iterator[Iterator[Sequence[object]]]:
    """Yield a row for each principal and each of their grants; at the end one for each instance admin."""
    names = Names({}, {})
    for part in parts:
        names = part.names
        yield _principal_rows(part, own_id)
    actions = " ".join(each.value for each in standing_actions(T(own_id.partition(":")[0])))
    reviewed = _object_cells(own_id, names)
    yield (
        (*reviewed, INSTANCE_ADMIN, "user", each, "", "", "", "", actions, *_NO_SOURCE) for each in instance_admins()
    )


def _principal_rows(part: ObjectReviewChunk, own_id: str) -> Iterator[Sequence[object]]:
    reviewed = _object_cells(own_id, part.names)
    for principal, rights in part.entries:
        is_user = principal.role_id is None
        cells = (
            "user" if is_user else "role", principal.user_id if is_user else principal.role_id, principal.name,
            _flag(principal.is_blocked), _flag(principal.has_members_of_tokens), *_effective_cells(rights),
        )  # fmt: skip
        for basis, source in _bases(rights, part.names):
            yield (*reviewed, basis, *cells, *source)


def principal_review_rows(parts: Iterable[SourceChunk]) -> Iterator[Iterator[Sequence[object]]]:
    """Yield a row for each grant."""
    for part in parts:
        yield (
            (
                *_object_cells(each.source.securable_id, part.names),
                " ".join(each.effective.privileges),
                " ".join(action.value for action in each.effective.actions),
                "; ".join(f"{resource_type(T(kind))}: {' '.join(below)}" for kind, below in each.below),
                *_source_cells(each.source, part.names),
            )
            for each in part.entries
        )


def reached_object_rows(parts: Iterable[ReachableChunk]) -> Iterator[Iterator[Sequence[object]]]:
    """Yield a row for each object and each grant that gives a permission on it."""
    for part in parts:
        yield (
            (*_object_cells(own_id, part.names), basis, *_effective_cells(rights), *source)
            for own_id, rights in part.entries
            for basis, source in _bases(rights, part.names)
        )


def _bases(rights: Rights, names: Names) -> list[tuple[str, Sequence[object]]]:
    found: list[tuple[str, Sequence[object]]] = [(GRANT, _source_cells(each, names)) for each in rights.sources]
    return [*found, (SHOWN_FROM_BELOW, _NO_SOURCE)] if rights.is_shown_from_below else found


def _effective_cells(rights: Rights) -> tuple[str, str]:
    return " ".join(rights.effective.privileges), " ".join(each.value for each in rights.effective.actions)


def _object_cells(own_id: str, names: Names) -> Sequence[object]:
    found = reviewed_object(own_id, names)
    kind = resource_type(found.securable_type)
    return kind, found.object_id, found.warehouse_id, SEPARATOR.join(found.path), _flag(found.is_dropped)


def _source_cells(source: Source, names: Names) -> Sequence[object]:
    kind, own_id, _, name, _ = _object_cells(source.securable_id, names)
    ids = SEPARATOR.join(map(str, source.through))
    role_names = SEPARATOR.join(names.roles.get(each, "") for each in source.through)
    return source.privilege, kind, own_id, name, ids, role_names, _time(source.expires_at)


def _flag(value: bool) -> str:  # noqa: FBT001 - a cell
    return "true" if value else ""


def _time(at: datetime | None) -> str:
    return "" if at is None else at.isoformat()
