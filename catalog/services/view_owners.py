"""Who may say who owns a view, and who may say what a view with an owner does.

A view with an owner (DEFINER) is read with the rights of its owner, so whoever writes either can act as the owner. Both
are left to the engine whose property names the owner (`tenancy.trusted_engines`): no right of the catalog is enough.
The server's own commands, which only operators run, may do everything. Where no engine is trusted, there are no owners.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from uuid import UUID

from icekeeper.kernel.errors.types import Forbidden
from tenancy.actor import Actor
from tenancy.audit.occurrences import record_denial
from tenancy.authz.actions import Can
from tenancy.models import Securable
from tenancy.trusted_engines import owner_properties, owner_properties_of

WHAT_IT_DOES: Final = ("schemas", "versions", "current-version-id")
"""The members of a view's metadata that say what is read through it."""


class ProtectedPropertyModification(Forbidden):
    """A property that names the owner of a view was set, changed or removed by somebody else than its engine."""

    wire_type = "ProtectedPropertyModification"


class DefinerViewModification(Forbidden):
    """What a view with an owner does was changed by somebody else than the engine that names the owner."""

    wire_type = "DefinerViewModification"


def require_may_name_owners(actor: Actor, names: Iterable[object]) -> None:
    """Raises `ProtectedPropertyModification` when one of `names`, of properties of a view, is an owner property in any
    case of its letters, and not exactly that of an engine that `actor` is."""
    if actor.is_internal or not (protected := {name.casefold() for name in owner_properties()}):
        return
    for name in names:
        if isinstance(name, str) and name.casefold() in protected and name not in owner_properties_of(actor):
            raise ProtectedPropertyModification(
                f"The property {name} names the owner of a view: only the engine that reads views with their owners' "
                "rights may set, change or remove it"
            )


def names_in(updates: Iterable[Any]) -> Iterator[object]:
    """Of the properties that updates of a view are about, as far as they can be read: nobody has looked at them yet."""
    for update in updates:
        if not isinstance(update, dict):
            continue
        for member in ("updates", "updated", "removals", "removed"):
            named = update.get(member)
            yield from named if isinstance(named, dict | list) else ()


def require_may_change(actor: Actor, view_id: UUID, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Raises `ProtectedPropertyModification`, or `DefinerViewModification` when `after` does something else than
    `before`, a view with an owner. Who is refused is told of, with the view."""
    try:
        _require_may_change(actor, before, after)
    except Forbidden as refusal:
        record_denial(
            actor=actor,
            action=Can.COMMIT,
            object_type=Securable.Type.VIEW.value,
            object_id=view_id,
            reason=refusal.wire_type,
            details={"uuid": before.get("view-uuid")},
        )
        raise


def _require_may_change(actor: Actor, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    was, is_now = before["properties"], after["properties"]
    require_may_name_owners(actor, [name for name in {*was, *is_now} if was.get(name) != is_now.get(name)])
    if actor.is_internal or all(before[member] == after[member] for member in WHAT_IT_DOES):
        return
    foreign = [name for name in sorted(owner_properties() - owner_properties_of(actor)) if name in was]
    if foreign:
        raise DefinerViewModification(
            f"The view is read with the rights of its owner ({foreign[0]}): only the engine that names the owner may "
            "change its schemas and versions"
        )
