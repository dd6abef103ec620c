"""Rules about changes: create, update, delete. Each takes effect with its commit, in all processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import UUID

from django.db import IntegrityError

from catalog.models import ChangeRule
from catalog.selectors.change_rules import RuleScope, get_change_rule_for, rule_not_found
from catalog.services.approval.configuration import HookSecret, InvalidRule, RuleSettings, read_configuration
from catalog.services.approval.kinds.http_hook import HttpHook
from catalog.services.approval.rule_kinds import RuleKind, require_kind
from catalog.services.approval.rule_set import MAX_RULES
from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import execute, lock_row
from icekeeper.kernel.errors.types import Conflict
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.names import name_key, require_trimmed_name
from storage.secrets.stores import NewSecret, delete_secret, new_secret
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import require_permission
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import ChangeTransaction, change
from tenancy.models import Securable
from tenancy.models.securable import parse_securable_id, project_in, securable_id

MAX_NAME_LENGTH: Final = 128
"""Characters."""

MAX_RULES_OF_OBJECT: Final = 50

_SEES_EVERYTHING: Final = {
    Securable.Type.SERVER: Can.GRANT_OPERATOR,
    Securable.Type.PROJECT: Can.GET_ENDPOINT_STATISTICS,
    Securable.Type.WAREHOUSE: Can.LIST_EVERYTHING,
    Securable.Type.NAMESPACE: Can.LIST_EVERYTHING,
    Securable.Type.TABLE: Can.GET_METADATA,
    Securable.Type.VIEW: Can.GET_METADATA,
    Securable.Type.GENERIC_TABLE: Can.GET_METADATA,
}
"""The action that allows to read the metadata of an object and of all objects in it: on the server operators, else
all who have `describe` on the object itself. (`GET_METADATA` on a namespace is also allowed for one table in it.)"""

_COUNT_CHANGE: Final = """
INSERT INTO catalog_changerulesversion (singleton, number) VALUES (1, 1)
ON CONFLICT (singleton) DO UPDATE SET number = catalog_changerulesversion.number + 1
"""


class ChangeRuleNameExists(Conflict):
    wire_type = "ChangeRuleAlreadyExists"


class ChangeRuleChanged(Conflict):
    """The rule has another version than the caller saw."""

    wire_type, is_final = "ChangeRuleChanged", False


class TooManyChangeRules(Conflict):
    wire_type = "TooManyChangeRules"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleContent:
    """What an administrator decides about a rule. `configuration` is that of its kind, `secret` that of a hook."""

    name: str
    configuration: dict[str, Any]
    mode: str = ChangeRule.Mode.ENFORCE.value
    on_failure: str = ChangeRule.OnFailure.DENY.value
    is_enabled: bool = True
    secret: dict[str, Any] | None = None


def create_change_rule(*, actor: Actor, scope: RuleScope, kind: str, content: RuleContent) -> ChangeRule:
    """Attach a rule to an object. It applies to all writes that begin after this returns.

    A hook with `include-metadata` also needs the permission to read the metadata of everything in the object.
    Raises the "no such" error of the object, `Forbidden`, `InvalidRule`, `BadRequest`, `EndpointNotPermitted` (400),
    `ChangeRuleNameExists`, `TooManyChangeRules` (409).
    """
    target = scope.find()
    require_permission(actor, Can.MANAGE_RULES, *target.ref, missing=target.missing)
    own_id, chosen = securable_id(*target.ref), require_kind(kind)
    rule = ChangeRule(id=new_id(), securable_id=own_id, kind=kind)
    _set_content(rule, content, chosen)
    _set_configuration(rule, content, chosen)
    _require_may_send_metadata(actor, rule)
    with _name_conflicts(content.name), _secret_of(chosen, content.secret) as secret, change(actor) as tx:
        # Deletions of the object lock its securable first, and then delete its rules.
        securable = lock_row(Securable, "id = %s", [own_id])
        if securable is None:  # deleted concurrently
            raise target.missing
        execute(_COUNT_CHANGE, [])
        _require_below_limits(own_id)
        if secret is not None:
            secret.store()
            rule.secret_id = secret.id
        rule.save(force_insert=True)
        _record(tx, Change.CHANGE_RULE_CREATED, rule, securable)
    rule.securable = securable
    return rule


def update_change_rule(
    *, actor: Actor, rule_id: UUID, version: int, content: RuleContent, keeps_secret: bool
) -> ChangeRule:
    """Update a rule that still has the `version` that the caller saw. Kind and scope stay.

    With `keeps_secret` the secret of a hook stays; else it is that of `content`. An unchanged configuration is not
    checked again, unless the rule becomes enabled: a rule that cannot be used any more can be disabled. Raises as
    `create_change_rule`, `ChangeRuleNotFound` (404), and `ChangeRuleChanged` (409).
    """
    rule = get_change_rule_for(actor=actor, rule_id=rule_id)
    _require_version(rule, version)
    chosen = require_kind(rule.kind)
    if keeps_secret:
        _require_same_receiver(rule, content)
    is_checked = content.configuration != rule.configuration or (content.is_enabled and not rule.is_enabled)
    _set_content(rule, content, chosen)
    if is_checked:  # before the transaction, as names of hosts are resolved
        _set_configuration(rule, content, chosen)
        _require_may_send_metadata(actor, rule)
    given = None if keeps_secret else content.secret
    with _name_conflicts(content.name), _secret_of(chosen, given) as secret, change(actor) as tx:
        stored = _lock(rule_id)
        _require_version(stored, version)  # so all else is as it was when it was checked
        execute(_COUNT_CHANGE, [])
        rule.secret_id = former = stored.secret_id
        if not keeps_secret:
            rule.secret_id = None
            if secret is not None:
                secret.store()
                rule.secret_id = secret.id
            if former is not None:
                delete_secret(former)
        rule.version += 1
        rule.updated_at = now()
        rule.save(force_update=True)
        _record(tx, Change.CHANGE_RULE_UPDATED, rule, rule.securable)
    return rule


def delete_change_rule(*, actor: Actor, rule_id: UUID) -> None:
    """Delete a rule and its secret. Raises `ChangeRuleNotFound` (404), `Forbidden`."""
    seen = get_change_rule_for(actor=actor, rule_id=rule_id)
    with change(actor) as tx:
        rule = _lock(rule_id)
        execute(_COUNT_CHANGE, [])
        if rule.secret_id is not None:
            delete_secret(rule.secret_id)
        ChangeRule.objects.filter(pk=rule_id).delete()
        _record(tx, Change.CHANGE_RULE_DELETED, rule, seen.securable)


def _lock(rule_id: UUID) -> ChangeRule:
    rule = lock_row(ChangeRule, "id = %s", [rule_id], mode="UPDATE")
    if rule is None:
        raise rule_not_found(rule_id)
    return rule


def _require_version(rule: ChangeRule, version: int) -> None:
    if rule.version != version:
        raise ChangeRuleChanged(f"The rule was changed meanwhile: it has version {rule.version}, not {version}")


def _require_same_receiver(rule: ChangeRule, content: RuleContent) -> None:
    """Raise `InvalidRule` if a stored secret would be sent to another server: who manages the rule could read it."""
    urls = (configuration.get("url") for configuration in (rule.configuration, content.configuration))
    if rule.secret_id is not None and len({_origin_of(url) for url in urls}) > 1:
        raise InvalidRule(
            "configuration.url: another server needs the secret again, or null to delete it", field="configuration.url"
        )


def _origin_of(url: object) -> tuple[str, str]:
    parts = urlsplit(str(url))
    return parts.scheme.lower(), parts.netloc.lower()


def _set_content(rule: ChangeRule, content: RuleContent, kind: RuleKind) -> None:
    """Set and validate everything but the configuration and the secret."""
    name = require_trimmed_name(content.name, "rule name")
    if len(name) > MAX_NAME_LENGTH:
        raise InvalidRule(f"name: longer than {MAX_NAME_LENGTH} characters", field="name")
    if content.secret is not None and not kind.has_secret:
        raise InvalidRule(f"secret: rules of the kind {rule.kind} have none", field="secret")
    rule.name, rule.name_key = name, name_key(name)
    rule.mode = ChangeRule.Mode(content.mode).value
    rule.on_failure = ChangeRule.OnFailure(content.on_failure).value
    rule.is_enabled = content.is_enabled


def _set_configuration(rule: ChangeRule, content: RuleContent, kind: RuleKind) -> None:
    """Set and validate the configuration. It resolves names of hosts, so it must not be called in a transaction."""
    verifier = kind.build(RuleSettings(rule.pk, rule.name, rule.version, content.configuration))
    if isinstance(verifier, HttpHook):
        verifier.require_valid()
    parsed = read_configuration(kind.configuration, content.configuration)
    rule.configuration = parsed.model_dump(mode="json", by_alias=True, exclude_unset=True)


def _require_may_send_metadata(actor: Actor, rule: ChangeRule) -> None:
    """Raise `Forbidden` for a hook that gets metadata which `actor` may not read; rules do not include reading it."""
    if rule.configuration.get("include-metadata"):
        ref = parse_securable_id(rule.securable_id)
        require_permission(actor, _SEES_EVERYTHING[ref.type], *ref)


@contextmanager
def _secret_of(kind: RuleKind, document: dict[str, Any] | None) -> Iterator[NewSecret | None]:
    """Create the secret around the transaction that saves the rule; see `new_secret`."""
    if document is None or not kind.has_secret:
        yield None
        return
    checked = read_configuration(HookSecret, document, "secret")
    with new_secret(checked.model_dump(mode="json", by_alias=True)) as secret:
        yield secret


def _require_below_limits(own_id: str) -> None:
    """Under the lock of the number of changes."""
    if ChangeRule.objects.filter(securable_id=own_id).count() >= MAX_RULES_OF_OBJECT:
        raise TooManyChangeRules(f"An object has at most {MAX_RULES_OF_OBJECT} rules")
    if ChangeRule.objects.count() >= MAX_RULES:
        raise TooManyChangeRules(f"A server has at most {MAX_RULES} rules")


@contextmanager
def _name_conflicts(name: str) -> Iterator[None]:
    try:
        yield
    except IntegrityError:
        raise ChangeRuleNameExists(f"The object has a rule named {name!r} already", field="name") from None


def _record(tx: ChangeTransaction, kind: Change, rule: ChangeRule, securable: Securable) -> None:
    tx.record(
        kind, subject=rule.pk, project=project_in(securable.path), named=rule.name, kind=rule.kind,
        scope=rule.securable_id, mode=rule.mode, enabled=rule.is_enabled, on_failure=rule.on_failure,
        configuration=rule.configuration,
    )  # fmt: skip
