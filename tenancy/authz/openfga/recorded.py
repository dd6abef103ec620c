"""What our relation rows say that OpenFGA should have."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from django.db.models import Q

from tenancy.authz.model import MANAGED_ACCESS, UP, rights_model
from tenancy.authz.openfga.tuples import (
    ASSIGNEE,
    HASHED,
    Condition,
    TupleKey,
    grant_keys,
    managed_access_key,
    member_key,
    parent_key,
    role_of,
    user_of,
)
from tenancy.models import Grant, RoleMember, Securable

Recorded = dict[TupleKey, Condition | None]
"""Tuples with their conditions, None for those that have none."""


def recorded_among(keys: Collection[TupleKey]) -> Recorded:
    """Of these tuples those that should be there: at most three statements."""
    links = {key.object for key in keys if key.relation in {UP, MANAGED_ACCESS}}
    granted = [key for key in keys if key.relation not in {UP, MANAGED_ACCESS}]
    found: Recorded = {}
    if links:
        found |= _of_securables(Securable.objects.filter(pk__in=links).values_list("pk", "parent_id", "managed_access"))
    if granted:
        objects = {key.object for key in granted}
        users = {user_id for key in granted if (user_id := user_of(key.subject)) is not None}
        roles = {role_id for key in granted if (role_id := role_of(key.subject)) is not None}
        is_any_user = Q(user__isnull=False) if any(key.subject.startswith(HASHED) for key in granted) else Q(pk__in=[])
        to_whom = Q(user__in=users) | Q(role__in=roles) | is_any_user
        grants = _of_grants(Grant.objects.filter(to_whom, securable__in=objects))
        groups = [role_id for each in objects if (role_id := role_of(f"{each}#{ASSIGNEE}")) is not None]
        whom = Q(user__in=users) | Q(member_role__in=roles) | is_any_user
        members = _of_members(RoleMember.objects.filter(whom, role__in=groups)) if groups else {}
        found |= _together(grants, members)
    wanted = set(keys)
    return {key: condition for key, condition in found.items() if key in wanted}


def recorded_on(securable_ids: Collection[str]) -> Recorded:
    """All tuples that should be on these objects: three statements."""
    links = _of_securables(
        Securable.objects.filter(pk__in=securable_ids).values_list("pk", "parent_id", "managed_access")
    )
    grants = _of_grants(Grant.objects.filter(securable__in=securable_ids))
    groups = [role_id for each in securable_ids if (role_id := role_of(f"{each}#{ASSIGNEE}")) is not None]
    members = _of_members(RoleMember.objects.filter(role__in=groups)) if groups else {}
    return links | _together(grants, members)


def _together(grants: Recorded, members: Recorded) -> Recorded:
    """Who is in a role as its owner and as a member is so until the later end."""
    found = dict(grants)
    for key, condition in members.items():
        found[key] = _later(found.get(key, condition), condition)
    return found


def _later(one: Condition | None, other: Condition | None) -> Condition:
    ends = [each.expires_at for each in (one, other) if each is not None]
    known = [each for each in ends if each is not None]
    return Condition(max(known) if len(known) == len(ends) else None)


def _of_securables(rows: Iterable[tuple[str, str | None, bool]]) -> Recorded:
    found: Recorded = {}
    for own_id, parent_id, is_managed in rows:
        if parent_id is not None:
            found[parent_key(own_id, parent_id)] = None
        if is_managed:
            found[managed_access_key(own_id)] = None
    return found


def _of_grants(grants: Iterable[Grant]) -> Recorded:
    """Without what nobody can be granted any more."""
    return {
        key: Condition(each.expires_at)
        for each in grants
        if each.privilege in rights_model().privileges(each.securable_id.partition(":")[0])
        for key in grant_keys(each.securable_id, each.privilege, user_id=each.user_id, role_id=each.role_id)
    }


def _of_members(members: Iterable[RoleMember]) -> Recorded:
    return {
        member_key(each.role_id, user_id=each.user_id, member_role_id=each.member_role_id): Condition(each.expires_at)
        for each in members
    }
