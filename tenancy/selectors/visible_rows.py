"""What `visible_to` means for each model of tenancy: the permission that reading one row over the API needs."""

from __future__ import annotations

from typing import Any

from django.db.models import Exists, OuterRef, QuerySet

from tenancy.actor import Actor
from tenancy.authz import port
from tenancy.authz.actions import SEEN_BY, Can, reads_grants
from tenancy.authz.permissions import check_permissions, is_allowed, standing_right
from tenancy.models import (
    AccessToken,
    AuditRecord,
    Grant,
    Project,
    Role,
    RoleMember,
    Securable,
    ServiceAccount,
    TagAttachment,
    TagDefinition,
    User,
)
from tenancy.models.querysets import set_visibility_filter
from tenancy.models.securable import ObjectRef, parse_securable_id
from tenancy.selectors.projects import server_ref


def set_visibility_filters() -> None:
    """Called when the app is ready."""
    set_visibility_filter(Project, lambda rows, actor: restrict_to_visible(rows, actor, Securable.Type.PROJECT))
    set_visibility_filter(Role, lambda rows, actor: restrict_to_visible(rows, actor, Securable.Type.ROLE))
    set_visibility_filter(TagDefinition, lambda rows, actor: restrict_to_visible(rows, actor, Securable.Type.TAG))
    set_visibility_filter(User, lambda rows, actor: _own_or_all(rows, actor, Can.LIST_USERS, "pk"))
    set_visibility_filter(ServiceAccount, _visible_service_accounts)
    set_visibility_filter(AccessToken, lambda rows, actor: _own_or_all(rows, actor, Can.UPDATE_USERS, "user_id"))
    set_visibility_filter(AuditRecord, _visible_audit_records)
    set_visibility_filter(Grant, _visible_grants)
    set_visibility_filter(RoleMember, _visible_memberships)
    set_visibility_filter(TagAttachment, _visible_attachments)
    set_visibility_filter(Securable, _visible_securables)


def restrict_to_visible(rows: QuerySet[Any], actor: Actor, securable_type: Securable.Type) -> QuerySet[Any]:
    """Return those of the rows, of objects of a type by their primary key, that `actor` may see.

    The built-in backend adds a condition to the query, after one statement for the actor's roles if they are not
    cached. OpenFGA also decides each row that this condition finds. Other backends decide all rows in one call.
    """
    action = SEEN_BY.get(securable_type, Can.GET_METADATA)
    standing = standing_right(actor, action, ObjectRef(securable_type, port.NO_OBJECT))
    if standing is not None:
        return rows if standing else rows.none()
    return port.authorizer().restrict_to_visible(actor, rows, securable_type, action)


def _is_allowed_on_server(actor: Actor, action: Can) -> bool:
    return is_allowed(actor, action, *server_ref())


def _own_or_all(rows: QuerySet[Any], actor: Actor, action: Can, owner: str) -> QuerySet[Any]:
    if _is_allowed_on_server(actor, action):
        return rows
    return rows.none() if actor.user_id is None or actor.is_blocked else rows.filter(**{owner: actor.user_id})


def _visible_service_accounts(rows: QuerySet[Any], actor: Actor) -> QuerySet[Any]:
    return rows if _is_allowed_on_server(actor, Can.LIST_USERS) else rows.none()


def _visible_audit_records(rows: QuerySet[Any], actor: Actor) -> QuerySet[Any]:
    """All records for auditors of the server; else those of audited projects, since the project was created."""
    if _is_allowed_on_server(actor, Can.READ_AUDIT):
        return rows
    ids = list(Project.objects.values_list("pk", flat=True))
    decided = check_permissions(actor, [(Can.READ_AUDIT, ObjectRef(Securable.Type.PROJECT, each)) for each in ids])
    audited = Project.objects.filter(pk__in=[each for each, is_audited in zip(ids, decided, strict=True) if is_audited])
    return rows.filter(Exists(audited.filter(pk=OuterRef("project_id"), created_at__lte=OuterRef("at"))))


def _allowed_securables(actor: Actor, rows: QuerySet[Any], column: str, *, of_grants: bool) -> list[str]:
    """Return the securables that rows are on, and that the actor may see or whose grants the actor may read.

    Each securable of the rows is checked, so the rows should be a page.
    """
    ids = list(rows.order_by().values_list(column, flat=True).distinct())
    refs = [parse_securable_id(each) for each in ids]
    actions = [reads_grants(ref) if of_grants else SEEN_BY.get(ref.type, Can.GET_METADATA) for ref in refs]
    decided = check_permissions(actor, list(zip(actions, refs, strict=True)))
    return [each for each, is_seen in zip(ids, decided, strict=True) if is_seen]


def _visible_grants(rows: QuerySet[Any], actor: Actor) -> QuerySet[Any]:
    return rows.filter(securable_id__in=_allowed_securables(actor, rows, "securable_id", of_grants=True))


def _visible_attachments(rows: QuerySet[Any], actor: Actor) -> QuerySet[Any]:
    return rows.filter(securable_id__in=_allowed_securables(actor, rows, "securable_id", of_grants=False))


def _visible_securables(rows: QuerySet[Any], actor: Actor) -> QuerySet[Any]:
    return rows.filter(pk__in=_allowed_securables(actor, rows, "pk", of_grants=False))


def _visible_memberships(rows: QuerySet[Any], actor: Actor) -> QuerySet[Any]:
    ids = list(rows.order_by().values_list("role_id", flat=True).distinct())
    checks = [(Can.READ_ROLE_ASSIGNMENTS, ObjectRef(Securable.Type.ROLE, each)) for each in ids]
    decided = check_permissions(actor, checks)
    return rows.filter(role_id__in=[each for each, is_seen in zip(ids, decided, strict=True) if is_seen])
