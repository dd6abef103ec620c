"""Records what the rules about changes found: vetoes, overrides, and what rules in dry run would have rejected.

As occurrences they take no part in the caller's transaction: a rejected change leaves only these records.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from tenancy.actor import Actor
from tenancy.audit.collector import collector
from tenancy.audit.recording import Event, Outcome, build_record, is_audit_enabled, log_event
from tenancy.models.securable import ObjectRef


class FindingResult(StrEnum):
    """What became of a violation."""

    VETOED = "vetoed"
    OVERRIDDEN = "overridden"
    REPORTED = "reported"
    """By a rule in dry run: the change was not rejected."""


EVENTS: Final = {
    FindingResult.VETOED: Event.CHANGE_VETOED,
    FindingResult.OVERRIDDEN: Event.CHANGE_OVERRIDDEN,
    FindingResult.REPORTED: Event.CHANGE_REPORTED,
}


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """A violation of a rule. `ref` is the object that was to be changed, of a new one its parent; `rule_id` is None for
    a verifier of the settings. `details` have the rule, the reason and the names of the object."""

    result: FindingResult
    action: str
    ref: ObjectRef
    project_id: str
    rule_id: UUID | None
    details: dict[str, Any]


def record_rule_finding(*, actor: Actor, finding: RuleFinding) -> None:
    """Record a finding; equal ones of one minute are aggregated.

    An override is written before this returns, as the change that it allows comes next; others at the end of the
    request. What cannot be written now is written later.
    """
    event, (object_type, object_id) = EVENTS[finding.result], finding.ref
    details = finding.details | {"rule": finding.rule_id}
    if is_audit_enabled():
        is_denied = finding.result is FindingResult.VETOED
        collector.add(
            build_record(
                event.value, actor=actor, object_type=object_type.value, object_id=object_id, action=finding.action,
                outcome=Outcome.DENIED if is_denied else Outcome.ALLOWED, project=finding.project_id, details=details,
                reason="ContractViolation",
            )
        )  # fmt: skip
        if finding.result is FindingResult.OVERRIDDEN:
            collector.write_pending()
    log_event(
        event.value, actor, {"id": str(object_id), "type": object_type.value, "action": finding.action, **details}
    )
