"""Evaluation of a rule against a change that no client requested: what it would say about a commit or a drop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Final
from uuid import UUID

from catalog.errors import no_such_object
from catalog.iceberg.updates import apply_updates
from catalog.models import Tabular
from catalog.selectors.change_rules import get_change_rule_for
from catalog.services.approval.approve import MAX_REASON_LENGTH, MAX_REASONS, NOT_OF_THE_RULE
from catalog.services.approval.configuration import Purpose
from catalog.services.approval.port import ChangeAction, ProposedChange
from catalog.services.approval.proposals import read_current_metadata
from catalog.services.approval.rule_set import build_rule
from catalog.services.approval.tags import TagReader
from icekeeper.kernel import request_context
from icekeeper.kernel.clock import now_ms
from icekeeper.kernel.errors.types import BadRequest
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import require_permission
from tenancy.models import Securable
from tenancy.models.securable import securable_id

ACTIONS: Final = (ChangeAction.COMMIT, ChangeAction.DROP)


@dataclass(frozen=True, slots=True)
class RuleEvaluation:
    """The reasons for which a rule rejects the change; `failure` says why it could not decide."""

    violations: Sequence[str]
    failure: str | None = None

    @property
    def is_allowed(self) -> bool:
        return not self.violations and self.failure is None


def evaluate_change_rule(
    *, actor: Actor, rule_id: UUID, warehouse_id: UUID, table_id: UUID, action: ChangeAction, updates: list[Any]
) -> RuleEvaluation:
    """Ask a rule, enabled or not, about a commit of `updates` to a table, or about its drop. Nothing is written.

    A hook gets a real request. The table need not be one that the rule applies to. Needs the permissions to manage the
    rule and to read the table's metadata. Raises `ChangeRuleNotFound`, `NoSuchTable`, `Forbidden`, `BadRequest`.
    """
    rule = build_rule(get_change_rule_for(actor=actor, rule_id=rule_id), Purpose.EVALUATION)
    if action not in ACTIONS:
        raise BadRequest(f"action: must be one of {', '.join(ACTIONS)}", field="action")
    change = _propose(actor, warehouse_id, table_id, action, updates)
    try:
        found = islice(rule.verifier.find_violations(change), MAX_REASONS)
        reasons = [reason[:MAX_REASON_LENGTH] for reason in found]
    except NOT_OF_THE_RULE:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a verifier raises
        return RuleEvaluation((), str(error))
    return RuleEvaluation(reasons)


def _propose(
    actor: Actor, warehouse_id: UUID, table_id: UUID, action: ChangeAction, updates: list[Any]
) -> ProposedChange:
    rows = Tabular.objects.live().in_warehouse(warehouse_id).of_kind(Tabular.Kind.TABLE).filter(uuid=table_id)
    row = rows.select_related("namespace", "warehouse").first()
    missing = no_such_object("table", table_id)
    if row is None:
        raise missing
    require_permission(actor, Can.GET_METADATA, Securable.Type.TABLE, row.pk, missing=missing)
    propose = partial(
        ProposedChange,
        action=action,
        object_type=Securable.Type.TABLE,
        actor=actor,
        project_id=row.warehouse.project_id,
        warehouse_id=warehouse_id,
        levels=row.namespace.levels,
        name=row.name,
        object_id=row.pk,
        uuid=table_id,
        namespace_id=row.namespace_id,
        tags=TagReader([securable_id(Securable.Type.TABLE, row.pk)]),
    )
    if action is not ChangeAction.COMMIT:
        return propose(read_current=partial(read_current_metadata, row.pk))
    base: Any = read_current_metadata(row.pk)
    if base is None:  # dropped concurrently
        raise missing
    after = apply_updates(
        base, updates, now_ms=now_ms(), base_metadata_location=row.metadata_location,
        between_updates=request_context.remaining_seconds,
    )  # fmt: skip
    return propose(
        read_current=lambda: base, proposed=after.metadata, updates=updates,
        find_removed_snapshots=lambda: after.removed_snapshot_ids,
    )  # fmt: skip
