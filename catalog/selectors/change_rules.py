"""Reads of the rules about changes, and of what they found, for callers with the permission to manage them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db.models import Q

from catalog.models import ChangeRule
from catalog.objects import ObjectKey, find_permission_target, name_objects
from icekeeper.kernel.errors.types import BadRequest, NotFound
from icekeeper.kernel.http.paging import Page, build_page, time_and_id_key
from icekeeper.kernel.ids import parse_id
from tenancy.actor import Actor
from tenancy.audit.rule_findings import EVENTS, FindingResult
from tenancy.authz.actions import Can
from tenancy.authz.permissions import check_permissions, require_permission
from tenancy.models import AuditRecord, Project, Securable
from tenancy.models.securable import ObjectRef, parse_securable_id, securable_id
from tenancy.selectors.objects import NamedObject, PermissionTarget, target_project, the_server
from tenancy.selectors.projects import get_project

BATCH: Final = 500
"""Rows that one statement reads."""

SCOPE_TYPES: Final = (
    Securable.Type.SERVER, Securable.Type.PROJECT, Securable.Type.WAREHOUSE, Securable.Type.NAMESPACE,
    Securable.Type.TABLE, Securable.Type.VIEW, Securable.Type.GENERIC_TABLE,
)  # fmt: skip
"""Types of objects that rules can be attached to."""


class ChangeRuleNotFound(NotFound):
    wire_type = "ChangeRuleNotFound"


def rule_not_found(rule_id: object) -> ChangeRuleNotFound:
    return ChangeRuleNotFound(f"Change rule does not exist: {rule_id}")


@dataclass(frozen=True, slots=True)
class RuleScope:
    """An object that rules are attached to, as a client names it: `object_id` is the id that clients see.

    The server has no id, a project no warehouse; of a warehouse, `warehouse_id` is its id.
    """

    type: Securable.Type
    object_id: str | None = None
    warehouse_id: UUID | None = None

    def find(self) -> PermissionTarget:
        """Return the object. Raises `BadRequest` for a missing id or that of another server, and the "no such" error of
        its type."""
        match self.type:
            case Securable.Type.SERVER:
                server = the_server()
                if self.warehouse_id is not None or self.object_id not in {None, "", str(server.ref.id)}:
                    raise BadRequest("id: omit id and warehouse-id for the server", field="id")
                return server
            case Securable.Type.PROJECT:
                return target_project(get_project(self._require(self.object_id, "id")))
            case Securable.Type.WAREHOUSE:
                own_id = self._uuid(self.object_id or self._warehouse, "id")
                return find_permission_target(key=ObjectKey(self.type, own_id), project=None)
            case _:
                warehouse_id = self._uuid(self._warehouse, "warehouse-id")
                key = ObjectKey(self.type, warehouse_id, self._uuid(self.object_id, "id"))
                return find_permission_target(key=key, project=None)

    @property
    def _warehouse(self) -> str | None:
        return None if self.warehouse_id is None else str(self.warehouse_id)

    def _require(self, text: str | None, member: str) -> str:
        if not text:
            raise BadRequest(f"{member}: is required for a {self.type.value}", field=member)
        return text

    def _uuid(self, text: str | None, member: str) -> UUID:
        found = parse_id(self._require(text, member))
        if found is None:
            raise BadRequest(f"{member}: must be a UUID", field=member)
        return found


_SERVER: Final = RuleScope(Securable.Type.SERVER)


@dataclass(frozen=True, slots=True)
class ListedRule:
    """A rule with the names of its scope, None for an object that was deleted concurrently."""

    rule: ChangeRule
    scope: NamedObject | None


@dataclass(frozen=True, slots=True)
class RuleFilters:
    """None does not restrict the listing. With `effective`, also rules of what the object is in."""

    scope: RuleScope | None = None
    effective: bool = False
    kind: str | None = None
    mode: str | None = None
    is_enabled: bool | None = None


def get_change_rule_for(*, actor: Actor, rule_id: UUID, action: Can = Can.MANAGE_RULES) -> ChangeRule:
    """Return a rule with its securable. Raises `ChangeRuleNotFound` (404), also when its object is hidden, and
    `Forbidden`."""
    rule = ChangeRule.objects.select_related("securable").filter(pk=rule_id).first()
    missing = rule_not_found(rule_id)
    if rule is None:
        raise missing
    require_permission(actor, action, *parse_securable_id(rule.securable_id), missing=missing)
    return rule


def name_scopes(rules: Sequence[ChangeRule]) -> list[ListedRule]:
    """Return the rules with the names of their scopes. One statement."""
    named = name_objects({rule.securable_id for rule in rules})
    return [ListedRule(rule, named.get(rule.securable_id)) for rule in rules]


def list_change_rules_for(*, actor: Actor, filters: RuleFilters, page: Page) -> tuple[list[ListedRule], str | None]:
    """List the rules that the actor may manage, in order of creation, and the token of the next page.

    A scope in the filters must be one whose rules the actor may manage. Raises as `RuleScope.find`, and `Forbidden`.
    """
    rows = ChangeRule.objects.all()
    if filters.scope is not None:
        target = filters.scope.find()
        require_permission(actor, Can.MANAGE_RULES, *target.ref, missing=target.missing)
        own_id = securable_id(*target.ref)
        rows = rows.filter(securable_id__in=_path_of(own_id) if filters.effective else [own_id])
    for column in ("kind", "mode", "is_enabled"):
        wanted = getattr(filters, column)
        if wanted is not None:
            rows = rows.filter(**{column: wanted})
    found = list(islice(_manageable(actor, rows, page.after_id()), page.sql_limit))
    shown, token = build_page([(rule.pk, rule) for rule in found], page)
    return name_scopes(shown), token


def _path_of(own_id: str) -> list[str]:
    path = Securable.objects.filter(pk=own_id).values_list("path", flat=True).first()
    return path.rstrip("/").split("/") if path else [own_id]


def _manageable(actor: Actor, rows: Any, after: UUID) -> Iterator[ChangeRule]:
    while True:
        batch = list(rows.filter(pk__gt=after).order_by("pk")[:BATCH])
        scopes = list(dict.fromkeys(rule.securable_id for rule in batch))
        decided = check_permissions(actor, [(Can.MANAGE_RULES, parse_securable_id(scope)) for scope in scopes])
        allowed = {scope for scope, is_allowed in zip(scopes, decided, strict=True) if is_allowed}
        yield from (rule for rule in batch if rule.securable_id in allowed)
        if len(batch) < BATCH:
            return
        after = batch[-1].pk


@dataclass(frozen=True, slots=True)
class ListedFinding:
    """A finding, or `count` equal ones between `at` and `last_at`. Ids are those that clients see; None without one."""

    record_id: UUID
    at: datetime
    last_at: datetime | None
    count: int
    result: FindingResult
    action: str
    actor: str
    rule_id: UUID | None
    rule: str
    kind: str
    object_type: str
    object_id: str
    warehouse_id: UUID | None
    names: tuple[str, ...]
    reason: str
    override: str | None


_RESULTS: Final = {event.value: result for result, event in EVENTS.items()}


@dataclass(frozen=True, slots=True)
class FindingFilters:
    """Findings of a rule, or else about an object and what is in it, by default about everything. None: any result."""

    rule_id: UUID | None = None
    scope: RuleScope = _SERVER
    result: FindingResult | None = None


def list_rule_findings_for(
    *, actor: Actor, filters: FindingFilters, page: Page
) -> tuple[list[ListedFinding], str | None]:
    """List findings, newest first, and the token of the next page: what the audit trail still has of them.

    Needs the permission to manage rules on the scope of the rule, or on the object. Raises `ChangeRuleNotFound`, the
    "no such" error of the object, and `Forbidden`.
    """
    rows = AuditRecord.objects.using(settings.READ_DATABASE).findings()
    if filters.result is not None:
        rows = rows.filter(event=EVENTS[filters.result].value)
    if filters.rule_id is not None:
        get_change_rule_for(actor=actor, rule_id=filters.rule_id)
        rows = rows.filter(Q(rule=str(filters.rule_id)))
    else:
        target = filters.scope.find()
        require_permission(actor, Can.MANAGE_RULES, *target.ref, missing=target.missing)
        rows = rows.filter(_about(target.ref, filters.scope.warehouse_id))
    if page.token:
        at, record_id = page.after_time_and_id()
        rows = rows.filter(at__lte=at).filter(Q(at__lt=at) | Q(id__lt=record_id))
    # As in lists of the audit trail: only sealed records are in its indexes, and one may be sealed between the reads.
    found: dict[UUID, AuditRecord] = {}
    for part in (rows.unsealed(), rows.sealed()):
        found |= {row.id: row for row in part.order_by("-at", "-id")[: page.sql_limit]}
    newest = sorted(found.values(), key=lambda row: (row.at, row.id), reverse=True)[: page.sql_limit]
    return build_page([(time_and_id_key(row.at, row.id), _listed(row)) for row in newest], page)


def _about(ref: ObjectRef, warehouse_id: UUID | None) -> Q:
    """Return the condition of findings about an object and what is in it."""
    match ref.type:
        case Securable.Type.SERVER:
            return Q()
        case Securable.Type.PROJECT:
            # Clients choose ids of projects: an earlier project may have had the same.
            created = Project.objects.filter(pk=ref.id).values_list("created_at", flat=True).first()
            return Q(project_id=str(ref.id)) & (Q() if created is None else Q(at__gte=created))
        case Securable.Type.WAREHOUSE:
            return Q(warehouse=str(ref.id))
        case Securable.Type.NAMESPACE:  # see `namespaces` in the details of findings
            return Q(warehouse=str(warehouse_id), details__contains=f'"{ref.id}":"')
        case _:
            return Q(object_type=ref.type.value, object_id=str(ref.id))


def _listed(row: AuditRecord) -> ListedFinding:
    details = json.loads(row.details)
    return ListedFinding(
        record_id=row.id,
        at=row.at,
        last_at=row.last_at,
        count=row.count,
        result=_RESULTS[row.event],
        action=row.action,
        actor=row.actor,
        rule_id=parse_id(str(details.get("rule"))),
        rule=str(details.get("named", "")),
        kind=str(details.get("kind", "")),
        object_type=row.object_type,
        object_id=str(details.get("uuid", row.object_id)),
        warehouse_id=parse_id(str(details.get("warehouse"))),
        names=tuple(map(str, details.get("levels", ()))),
        reason=str(details.get("violation", "")),
        override=details.get("override"),
    )
