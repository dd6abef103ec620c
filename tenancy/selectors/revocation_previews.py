"""Preview of the revocation of several grants of one principal, on any objects of a project. Writes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import NotFound
from tenancy.actor import Actor, Grantee
from tenancy.audit.occurrences import record_access_review
from tenancy.authz.access_review import effective, ids_checked_below
from tenancy.authz.builtin.evaluation import Node
from tenancy.authz.builtin.queries import read_sources_on_paths
from tenancy.authz.port import Subject
from tenancy.authz.role_paths import read_roles_of
from tenancy.models import Grant, Project
from tenancy.models.securable import ObjectRef, securable_id
from tenancy.selectors.grant_previews import digest_of
from tenancy.selectors.grants import ListedGrant, listed_grant, require_permission_to_read_grants
from tenancy.selectors.objects import target_project
from tenancy.selectors.permission_checks import check_subject


@dataclass(frozen=True, slots=True)
class Revocation:
    """A privilege on an object that would be revoked."""

    privilege: str
    ref: ObjectRef


@dataclass(frozen=True, slots=True)
class RevocationEffect:
    """What the principal would lose on the object itself if all revocations were saved; `digest` as in a preview."""

    revocation: Revocation
    lost: Sequence[str]
    digest: str


def no_such_object() -> NotFound:
    """Return the one error for an object that does not exist and for one on which the principal has no such grant."""
    return NotFound("No such object")


def preview_revocations_for(
    *, actor: Actor, project: Project, grantee: Grantee, revocations: Sequence[Revocation]
) -> list[RevocationEffect]:
    """Return the effect of the revocations together, by the grants in the database.

    The permission to read the grants on the project is required; the services require that to change each. The preview
    is recorded in the audit trail, as a review. Six statements and the permission checks. Raises `GrantActionForbidden`
    (403), and `no_such_object` unless each revocation is of a grant to the grantee, on an object of the project.
    """
    target = target_project(project)
    require_permission_to_read_grants(actor, target, grantee)
    details = {"principal": str(grantee), "export": False, "previewed": len(revocations)}
    record_access_review(actor=actor, ref=(target.ref.type.value, target.ref.id), project=project.pk, details=details)
    subject = Subject.of(check_subject(grantee, must_be_known=False))
    first, graph = read_roles_of(subject)
    roles = list(graph.shortest_paths(first))
    ids = list(dict.fromkeys(securable_id(*each.ref) for each in revocations))
    grants, sources = read_sources_on_paths(subject, roles, ids, below=[])
    top = securable_id(*target.ref)
    if not all(any(node.id == top for node in path) for path in grants.paths.values()):
        raise no_such_object()  # an object of another project, whose grants the caller may not read
    listed: dict[str, list[ListedGrant]] = {}
    own = Grant.objects.granted_to(user_id=grantee.user_id, role_id=grantee.role_id)
    for row in own.unexpired(now()).filter(securable_id__in=ids):
        listed.setdefault(row.securable_id, []).append(listed_grant(row))
    revoked = {(securable_id(*each.ref), each.privilege) for each in revocations}
    if not revoked <= {(own_id, each.privilege) for own_id, rows in listed.items() for each in rows}:
        raise no_such_object()  # it may be hidden from the caller
    kept = {
        (each.securable_id, each.privilege)
        for each in sources
        if each.role_id != grantee.role_id or (each.securable_id, each.privilege) not in revoked
    }
    found = []
    for each in revocations:
        before = grants.paths[securable_id(*each.ref)]
        after = [_without(node, revoked - kept) for node in before]
        below = ids_checked_below(before)  # what is visible below stays visible
        had, has = effective(before, below), effective(after, below)
        lost = [
            *(privilege for privilege in had.privileges if privilege not in has.privileges),
            *(action.value for action in had.actions if action not in has.actions),
        ]
        digest = digest_of(each.ref, listed.get(securable_id(*each.ref), []))
        found.append(RevocationEffect(each, lost, digest))
    return found


def _without(node: Node, ended: set[tuple[str, str]]) -> Node:
    return node._replace(relations=frozenset(each for each in node.relations if (node.id, each) not in ended))
