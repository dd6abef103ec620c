"""Approval of changes: every write of the catalog asks here before its first row, file or event.

Local rules are asked first and all together; rules that ask other servers only if the local ones allow the change. Each
result except approval is audited, whether the request succeeds or not. No database transaction may be open.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, InterfaceError

from catalog.identifiers import Levels
from catalog.selectors.tables.targets import RulesVersion
from catalog.services.approval.port import ProposedChange
from catalog.services.approval.rule_set import (
    Rule,
    paths_of_namespaces,
    read_rules_version,
    rules_of_version,
    server_rules,
)
from icekeeper.kernel import metrics, request_context
from icekeeper.kernel.errors.types import CatalogError, CommitContended, RequestTimeout
from icekeeper.kernel.names import hidden_character
from icekeeper.kernel.request_context import current_context
from tenancy.actor import Actor
from tenancy.audit.rule_findings import FindingResult, RuleFinding, record_rule_finding
from tenancy.authz.actions import Can
from tenancy.authz.permission_epoch import permission_epoch
from tenancy.authz.permissions import check_permissions
from tenancy.models import Securable
from tenancy.models.securable import parse_securable_id

MAX_REASONS: Final = 10
"""Reasons of one rule, and violations that an error names."""

MAX_REASON_LENGTH: Final = 500
MAX_OVERRIDE_LENGTH: Final = 200
"""Characters."""

OVERRIDE_HEADER: Final = "x-icekeeper-override-rules"
NOT_OVERRIDABLE: Final = (
    ". You may not override this: it requires the privilege override_rules on the object that each rule is attached to"
)

NOT_OF_THE_RULE: Final = (DatabaseError, InterfaceError, RequestTimeout)
"""Errors that end the request while a rule is asked; all others are failures of the rule."""

logger = logging.getLogger("icekeeper.approval")


class ContractViolation(CatalogError):
    """Rules rejected the change; `scopes` are the securables that these are attached to.

    Not final: a rule may be changed or deleted before a retry. Not a `Conflict` with the stored state, which forms
    show by what is stored by now.
    """

    status, wire_type = 409, "ContractViolation"

    def __init__(self, message: str, scopes: Collection[str]) -> None:
        super().__init__(message)
        self.scopes = scopes


class RulesChanged(CommitContended):
    """A rule was changed between the approval of a change and its write: nothing was written."""


class InvalidOverride(CatalogError):
    """The reason of an override is invalid. Not a `BadRequest`, which forms show at a field of their own."""

    status, wire_type = 400, "InvalidRuleOverride"


@dataclass(frozen=True, slots=True)
class Violation:
    change: ProposedChange
    rule: Rule
    reason: str


def require_approval(
    version: RulesVersion, propose: Callable[[], Iterable[ProposedChange]], *, warehouse_id: UUID | None = None
) -> None:
    """Raise `ContractViolation` (409) unless all rules allow the changes that `propose` returns.

    `version` was read with the target or after it. Without a rule that can apply in the warehouse, None for any,
    `propose` is not called. The write checks again that no rule was changed since that read (`RulesChanged`, 409).
    Raises `InvalidOverride` (400) for an invalid header `x-icekeeper-override-rules` where it is needed.
    """
    request_context.record_permission(_require_same_rules, version)
    has_rules = version.number is not None and rules_of_version(version).may_apply(warehouse_id)
    if not has_rules and not settings.ICEKEEPER.contract_verifiers:
        return
    verify_changes(version, list(propose()))


def drop_approvals() -> None:
    """Drop the approvals of an attempt that wrote nothing: the next one, on a newer version, asks again."""
    (current_context().rechecks or {}).pop(_require_same_rules, None)


def verify_changes(version: RulesVersion, changes: Sequence[ProposedChange]) -> None:
    """Do what `require_approval` does, for changes that exist already."""
    rules, configured = rules_of_version(version), server_rules()
    remote: list[tuple[ProposedChange, Rule]] = []
    found: list[Violation] = []
    for change in changes:
        for rule in (*configured, *rules.rules_for(change)):
            if rule.verifier.is_remote:
                remote.append((change, rule))
            else:
                found += find_violations(change, rule)
    _settle(found)
    _settle(_ask_remote(remote))


def _ask_remote(remote: Sequence[tuple[ProposedChange, Rule]]) -> Iterator[Violation]:
    """Ask until the request is certainly rejected; with an override all, which must be recorded."""
    for change, rule in _each_once(remote):
        violations = find_violations(change, rule)
        yield from violations
        if violations and rule.is_enforced and current_context().override_reason is None:
            return


def find_violations(change: ProposedChange, rule: Rule) -> list[Violation]:
    """Ask one rule. If it fails, its `on_failure` decides; raises `NOT_OF_THE_RULE`."""
    try:
        reasons = list(islice(rule.verifier.find_violations(change), MAX_REASONS))
    except NOT_OF_THE_RULE:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a verifier raises
        metrics.change_rule_asked(rule.kind, "failed")
        logger.warning(
            "a change rule failed: %s", error, extra={"rule": str(rule.id), "kind": rule.kind, "change": str(change)}
        )
        if not rule.denies_on_failure:
            return []
        reasons = [f"the rule could not be checked: {error}"]
    if not reasons:
        metrics.change_rule_asked(rule.kind, "approved")
    return [Violation(change, rule, reason[:MAX_REASON_LENGTH]) for reason in reasons]


def _each_once(remote: Sequence[tuple[ProposedChange, Rule]]) -> Iterator[tuple[ProposedChange, Rule]]:
    """Leave out what a rule was asked about already as a part of a namespace."""
    asked = set()
    for change, rule in remote:
        if change.is_nested and rule in asked:
            continue
        asked.add(rule)
        yield change, rule


def _settle(found: Iterable[Violation]) -> None:
    """Record all violations; raise an error for those of enforced rules that the caller does not override."""
    violations = list(found)
    enforced = [each for each in violations if each.rule.is_enforced]
    scopes = dict.fromkeys(each.rule.scope for each in enforced)
    reason = _override_reason() if enforced else None
    is_overridden = reason is not None and can_override(enforced[0].change.actor, scopes)
    paths = paths_of_namespaces(
        namespace_id for each in violations for namespace_id, _ in _namespaces_with_levels(each.change)
    )
    for each in violations:
        result = FindingResult.REPORTED
        if each.rule.is_enforced:
            result = FindingResult.OVERRIDDEN if is_overridden else FindingResult.VETOED
        _record(each, result, reason, paths)
    if enforced and not is_overridden:
        hint = "" if reason is None else NOT_OVERRIDABLE
        raise ContractViolation(f"{_describe(enforced)}{hint}", list(scopes))


def _describe(enforced: Sequence[Violation]) -> str:
    shown = [f"rule {each.rule.name!r} rejects the change of {each.change}: {each.reason}" for each in enforced]
    text = "; ".join(shown[:MAX_REASONS])
    more = len(shown) - MAX_REASONS
    return f"{text[0].upper()}{text[1:]}" + (f"; and {more} more" if more > 0 else "")


def _override_reason() -> str | None:
    """Return the text of the header, None without one. Raises `InvalidOverride`."""
    given = current_context().override_reason
    if given is None:
        return None
    reason = given.encode("latin-1", "replace").decode("utf-8", "replace").strip()  # as WSGI passes headers
    if not 0 < len(reason) <= MAX_OVERRIDE_LENGTH or hidden_character(reason) is not None:
        raise InvalidOverride(
            f"{OVERRIDE_HEADER}: must be 1 to {MAX_OVERRIDE_LENGTH} characters, none of them invisible"
        )
    return reason


@contextmanager
def override_rules(reason: str) -> Iterator[None]:
    """Override rules in the block, as the header does: for callers that have the reason from a form."""
    context = current_context()
    outer, context.override_reason = context.override_reason, reason.encode().decode("latin-1")
    try:
        yield
    finally:
        context.override_reason = outer


def can_override(actor: Actor, scopes: Iterable[str]) -> bool:
    """Return whether the actor has the permission to override the rules of all these securables."""
    return all(check_permissions(actor, [(Can.OVERRIDE_RULES, parse_securable_id(scope)) for scope in scopes]))


def _record(
    violation: Violation, result: FindingResult, override_reason: str | None, paths: Mapping[UUID, tuple[str, ...]]
) -> None:
    change, rule = violation.change, violation.rule
    metrics.change_rule_asked(rule.kind, result.value)
    levels, name = change.levels, change.name
    record_rule_finding(
        actor=change.actor,
        finding=RuleFinding(
            result=result,
            action=change.action.value,
            ref=change.ref,
            project_id=change.project_id,
            rule_id=rule.id,
            details={
                "named": rule.name,
                "kind": rule.kind,
                "scope": rule.scope,
                "violation": violation.reason,
                "warehouse": change.warehouse_id,
                "namespaces": _namespaces_of(change, paths),
                "levels": [*levels] if name is None else [*levels, name],
                **({} if change.uuid is None else {"uuid": change.uuid}),
                **({} if result is not FindingResult.OVERRIDDEN else {"override": override_reason}),
            },
        ),
    )


def _namespaces_with_levels(change: ProposedChange) -> Iterator[tuple[UUID, Levels]]:
    """Yield the namespaces that the object is in and is moved to, each with its levels."""
    if change.namespace_id is not None:
        yield change.namespace_id, change.levels
    if change.destination is not None and change.destination_namespace_id is not None:
        yield change.destination_namespace_id, change.destination[0]


def _namespaces_of(change: ProposedChange, paths: Mapping[UUID, tuple[str, ...]]) -> dict[str, str]:
    """Return the names, by id, of all namespaces that the object is in or is moved to, of a namespace also its own.

    Findings are searched by `"<id>":"`, which no name can contain, as its quotes are escaped.
    """
    found: dict[str, str] = {}
    prefix = f"{Securable.Type.NAMESPACE.value}:"
    for namespace_id, levels in _namespaces_with_levels(change):
        ids = (each.removeprefix(prefix) for each in paths[namespace_id] if each.startswith(prefix))
        found |= zip(ids, levels, strict=False)
    return found


def _require_same_rules(seen: list[RulesVersion]) -> None:
    """Raise `RulesChanged` if a rule was changed since one of the reads. Reads nothing while the epoch is the same."""
    epoch = permission_epoch.current()
    if any(each.epoch != epoch for each in seen):
        version = read_rules_version()
        if any(each.number != version.number for each in seen):
            raise RulesChanged("The rules about changes were changed meanwhile: nothing was changed, try again")
        seen[:] = [version]
