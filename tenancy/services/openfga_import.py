"""Import of grants and memberships that exist in OpenFGA only into the relation rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import CatalogError
from tenancy.actor import INTERNAL
from tenancy.authz.actions import privilege_names
from tenancy.authz.model import MANAGED_ACCESS, OWNERSHIP, UP
from tenancy.authz.openfga.outbox import enqueue_grant
from tenancy.authz.openfga.reconciliation import pages_of
from tenancy.authz.openfga.store import OpenFgaStore, StoredTuple
from tenancy.authz.openfga.tuples import ASSIGNEE, FOREVER, TupleKey, desired_tuples, role_of, user_of
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import ChangeTransaction, change
from tenancy.models import Grant, Role, RoleMember, Securable, User
from tenancy.models.securable import parse_securable_id, project_in
from tenancy.services.role_members import lock_memberships, require_nestable

_LINKS: Final = frozenset({UP, MANAGED_ACCESS})


@dataclass(slots=True)
class GrantImport:
    """Numbers of tuples: imported, already present, expired, and rejected; `report` gets the reasons of rejections."""

    added: int = 0
    present: int = 0
    expired: int = 0
    refused: int = 0
    report: Callable[[TupleKey, str], None] = field(default=lambda _key, _reason: None)

    def reject(self, key: TupleKey, reason: str) -> None:
        self.refused += 1
        self.report(key, reason)


def import_grants(
    store: OpenFgaStore,
    *,
    report: Callable[[TupleKey, str], None],
    progress: Callable[[GrantImport], None] = lambda _imported: None,
) -> GrantImport:
    """Import the grants of known users and roles on known objects into the rows; deletes nothing.

    Each import is recorded in the audit trail. Tuples of the object tree and of managed access are skipped, since the
    rows are authoritative for them. Calls `report` for each rejected tuple and `progress` after each page. Can be
    interrupted and restarted. Raises `OpenFgaUnavailable`.
    """
    result = GrantImport(report=report)
    for page in pages_of(store):
        _import_page([each for each in page if each.key.relation not in _LINKS], result)
        progress(result)
    return result


def _import_page(page: Sequence[StoredTuple], result: GrantImport) -> None:
    present = desired_tuples([each.key for each in page])
    result.present += len(present)
    missing = [each for each in page if each.key not in present]
    if not missing:
        return
    with change(INTERNAL) as tx:
        known = _Existing.among(missing)
        added = 0
        for each in missing:
            reason = known.rejection_reason(each.key)
            if reason is not None:
                result.reject(each.key, reason)
                continue
            expires_at = _end(each)
            if expires_at is not None and expires_at <= now():
                result.expired += 1
                continue
            try:
                known.add(tx, each.key, expires_at)
            except CatalogError as error:
                result.reject(each.key, error.message)
                continue
            added += 1
    result.added += added


@dataclass(slots=True)
class _Existing:
    """Existing objects, projects by role, and users that some tuples name. Their rows are locked against deletion."""

    objects: dict[str, Securable]
    project_of_role: dict[UUID, str]
    user_ids: set[str]

    @classmethod
    def among(cls, tuples: Iterable[StoredTuple]) -> _Existing:
        keys = [each.key for each in tuples]
        wanted_users = {user_id for key in keys if (user_id := user_of(key.subject)) is not None}
        wanted_roles = {role_id for key in keys if (role_id := role_of(key.subject)) is not None}
        rows = User.objects.existing().filter(pk__in=wanted_users).order_by("pk").select_for_update(no_key=True)
        user_ids = set(rows.values_list("pk", flat=True))
        roles = Role.objects.filter(pk__in=wanted_roles).order_by("pk").select_for_update(no_key=True)
        objects = Securable.objects.filter(pk__in={key.object for key in keys}).order_by("pk")
        return cls(
            {each.pk: each for each in objects.select_for_update(no_key=True)},
            dict(roles.values_list("pk", "project_id")),
            user_ids,
        )

    def rejection_reason(self, key: TupleKey) -> str | None:
        """Return why a tuple cannot be imported, None if it can."""
        if key.object not in self.objects:
            return "no such object"
        if key.relation not in privilege_names(key.object.partition(":")[0]):
            return "no such privilege"
        role_id = role_of(key.subject)
        if role_id is None:
            return None if user_of(key.subject) in self.user_ids else "no such user"
        project_id = self.project_of_role.get(role_id)
        if project_id is None:
            return "no such role"
        if self._project_of(key) not in {None, project_id}:
            return "a role of another project"
        return "a role in itself" if key.object == f"role:{role_id}" else None

    def add(self, tx: ChangeTransaction, key: TupleKey, expires_at: datetime | None) -> None:
        """Write a grant or membership. Raises the errors of `require_nestable` for nested roles."""
        user_id, role_id = user_of(key.subject), role_of(key.subject)
        user_id = None if role_id is not None else user_id
        on = UUID(key.object.partition(":")[2]) if key.object.startswith("role:") else None
        if on is not None and role_id is not None:
            lock_memberships(Role.objects.select_related("project").get(pk=on).project)
            require_nestable(on, [role_id])
        if on is not None and key.relation == ASSIGNEE:
            RoleMember.objects.create(role_id=on, user_id=user_id, member_role_id=role_id, expires_at=expires_at)
            tx.record(
                Change.ROLE_MEMBERS_ADDED, subject=on, project=self._project_of(key),
                users=[] if user_id is None else [user_id], roles=[] if role_id is None else [role_id],
                taken_over_from="openfga",
            )  # fmt: skip
        else:
            Grant.objects.create(
                securable=self.objects[key.object],
                path=self.objects[key.object].path,
                privilege=key.relation,
                user_id=user_id,
                role_id=role_id,
                owned_role_id=on if key.relation == OWNERSHIP else None,
                expires_at=expires_at,
            )
            self._record(tx, key, user_id, role_id, expires_at)
        enqueue_grant(key.object, key.relation, user_id=user_id, role_id=role_id)

    def _project_of(self, key: TupleKey) -> str | None:
        return project_in(self.objects[key.object].path)

    def _record(
        self,
        tx: ChangeTransaction,
        key: TupleKey,
        user_id: str | None,
        role_id: UUID | None,
        expires_at: datetime | None,
    ) -> None:
        ref = parse_securable_id(key.object)
        tx.record(
            Change.GRANT_CREATED,
            subject=ref.id,
            object_type=ref.type.value,
            project=self._project_of(key),
            privilege=key.relation,
            user=user_id,
            role=None if role_id is None else str(role_id),
            until=None if expires_at is None else expires_at.isoformat(),
            taken_over_from="openfga",
        )


def _end(each: StoredTuple) -> datetime | None:
    """Return the expiry of a tuple. An expiry that cannot be parsed counts as past: unclear grants are not imported."""
    if each.expires_at in {None, FOREVER}:
        return None
    try:
        found = datetime.fromisoformat(str(each.expires_at))
    except ValueError:
        return datetime.fromtimestamp(0, tz=now().tzinfo)
    return found if found.tzinfo is not None else found.replace(tzinfo=now().tzinfo)
