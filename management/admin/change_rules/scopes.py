"""The object that rules are attached to, in addresses and forms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from catalog.selectors.change_rules import ListedRule, RuleScope
from management.admin.access.objects import describe, find_object, key_of, page_url
from management.admin.warehouse_choice import list_warehouses_by_project
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import check_permissions
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef, parse_securable_id
from tenancy.selectors.objects import NamedObject
from tenancy.selectors.projects import server_ref

T = Securable.Type


@dataclass(frozen=True, slots=True)
class ScopeView:
    """An object as pages show it; `url` is empty for one without a page."""

    key: str
    text: str
    url: str


def find_scope(actor: Actor, key: str) -> tuple[RuleScope, ScopeView]:
    """Return the object of a key, which has no names if it is hidden. Raises the 404 of its type."""
    named = find_object(actor=actor, key=key).named
    warehouse_id = None if named.warehouse_id is None else UUID(named.warehouse_id)
    object_id = None if named.securable_type is T.SERVER else named.object_id
    return RuleScope(named.securable_type, object_id, warehouse_id), view_of(named)


def view_of(named: NamedObject) -> ScopeView:
    return ScopeView(key_of(named), describe(named), page_url(named))


def scope_of(listed: ListedRule) -> ScopeView:
    """Return the object of a listed rule; its securable if it was deleted concurrently."""
    if listed.scope is None:
        return ScopeView("", str(parse_securable_id(listed.rule.securable_id).id), "")
    return view_of(listed.scope)


def list_scope_choices(actor: Actor) -> Sequence[ScopeView]:
    """Return the server, and the projects and warehouses that the actor sees, where they may manage rules.

    Objects in warehouses are chosen on their own pages. Two statements, and one permission check.
    """
    found = list_warehouses_by_project(actor)
    choices: list[tuple[ObjectRef, NamedObject]] = [(server_ref(), NamedObject(T.SERVER, str(server_ref().id)))]
    for project, warehouses in found.projects:
        choices.append((ObjectRef(T.PROJECT, project.pk), NamedObject(T.PROJECT, project.pk, project.name)))
        choices += [
            (
                ObjectRef(T.WAREHOUSE, each.pk),
                NamedObject(T.WAREHOUSE, str(each.pk), each.name, str(each.pk), each.name),
            )
            for each in warehouses
        ]
    allowed = check_permissions(actor, [(Can.MANAGE_RULES, ref) for ref, _named in choices])
    return [view_of(named) for (_ref, named), is_allowed in zip(choices, allowed, strict=True) if is_allowed]
