"""The rows that rights hang on, written in the transaction of the object they stand for."""

from __future__ import annotations

from collections.abc import Iterable

from tenancy.models import Securable

Ref = tuple[Securable.Type, object]


def securable_id(securable_type: Securable.Type, object_id: object) -> str:
    return f"{securable_type.value}:{object_id}"


def add_securable(securable_type: Securable.Type, object_id: object, *, parent: Ref | None) -> None:
    """Register a new object below `parent`; both in the caller's transaction."""
    own_id = securable_id(securable_type, object_id)
    parent_id, parent_path = None, ""
    if parent is not None:
        parent_id = securable_id(*parent)
        parent_path = Securable.objects.values_list("path", flat=True).get(pk=parent_id)
    Securable.objects.create(
        id=own_id, type=securable_type, object_id=str(object_id), parent_id=parent_id, path=f"{parent_path}{own_id}/"
    )


def move_securable(securable_type: Securable.Type, object_id: object, *, parent: Ref) -> None:
    """Hang an object without children below another parent."""
    own_id = securable_id(securable_type, object_id)
    parent_path = Securable.objects.values_list("path", flat=True).get(pk=securable_id(*parent))
    Securable.objects.filter(pk=own_id).update(parent_id=securable_id(*parent), path=f"{parent_path}{own_id}/")


def remove_securables(refs: Iterable[Ref]) -> None:
    """Remove several objects that are not above one another."""
    Securable.objects.filter(pk__in=[securable_id(*ref) for ref in refs]).delete()


def remove_securable(securable_type: Securable.Type, object_id: object) -> None:
    Securable.objects.filter(pk=securable_id(securable_type, object_id)).delete()
