"""Requests and responses about rules about changes, and what they found."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from catalog.models import ChangeRule
from catalog.selectors.change_rules import SCOPE_TYPES, ListedFinding, ListedRule
from catalog.services.approval.evaluation import ACTIONS
from catalog.services.approval.port import ChangeAction
from catalog.services.approval.rule_kinds import RULE_KINDS
from management.api.serializers import (
    LAST_PAGE,
    Choice,
    Flag,
    IdText,
    Number,
    ResponseSerializer,
    StrictSerializer,
    Text,
)
from tenancy.audit.rule_findings import FindingResult
from tenancy.models.securable import parse_securable_id

TYPES = [each.value for each in SCOPE_TYPES]
KINDS = list(RULE_KINDS)
CONFIGURATION = "The configuration of the kind. " + " ".join(
    f"`{name}`: "
    + "; ".join(
        f"`{field.alias or member}`" + (f" ({field.description})" if field.description else "")
        for member, field in kind.configuration.model_fields.items()
    )
    + "."
    for name, kind in RULE_KINDS.items()
)
MODE = "`dry-run` only reports what would be rejected"
ON_FAILURE = "What happens to a change when the rule cannot decide, such as when its server does not respond"
HOOK_HEADERS = (
    "Only for `http-hook`, stored encrypted and never returned: `signing-secrets` (`whsec_` and 24 to 64 random bytes "
    "in base64, at most two) sign each request; `headers` are added to it"
)


class RuleScopeRequest(StrictSerializer):
    """The object that a rule is attached to."""

    type = Choice(TYPES)
    id = Text(required=False, help_text="The id that clients see; not for the server")
    warehouse_id = IdText(required=False, help_text="For objects in a warehouse")


class RuleScopeResponse(ResponseSerializer):
    """The object that a rule is attached to."""

    type = serializers.ChoiceField(TYPES)
    id = Text()
    warehouse_id = serializers.UUIDField(required=False, help_text="Of a warehouse, and of objects in one")
    names = serializers.ListField(
        child=Text(),
        required=False,
        help_text="The warehouse and the levels of the namespace, then its own name; absent for the server",
    )


class ChangeRuleResponse(ResponseSerializer):
    id = serializers.UUIDField()
    scope = RuleScopeResponse()
    name = Text()
    kind = serializers.ChoiceField(KINDS)
    configuration = serializers.DictField(help_text=CONFIGURATION)
    mode = serializers.ChoiceField(ChangeRule.Mode.values, help_text=MODE)
    on_failure = serializers.ChoiceField(ChangeRule.OnFailure.values, help_text=ON_FAILURE)
    enabled = serializers.BooleanField()
    has_secret = serializers.BooleanField()
    version = serializers.IntegerField(help_text="Changes with each update")
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField(required=False, help_text="Absent when the rule was never updated")

    def to_representation(self, instance: ListedRule) -> dict[str, Any]:
        rule = instance.rule
        shown = {
            "id": rule.pk,
            "scope": _render_scope(instance),
            "name": rule.name,
            "kind": rule.kind,
            "configuration": rule.configuration,
            "mode": rule.mode,
            "on-failure": rule.on_failure,
            "enabled": rule.is_enabled,
            "has-secret": rule.secret_id is not None,
            "version": rule.version,
            "created-at": rule.created_at,
        }
        return shown if rule.updated_at is None else shown | {"updated-at": rule.updated_at}


def _render_scope(listed: ListedRule) -> dict[str, Any]:
    named = listed.scope
    if named is None:
        ref = parse_securable_id(listed.rule.securable_id)
        return {"type": ref.type, "id": ref.id}
    shown: dict[str, Any] = {"type": named.securable_type, "id": named.object_id}
    if named.warehouse_id is not None:
        shown["warehouse-id"] = named.warehouse_id
    return shown | {"names": named.path} if named.path else shown


class ChangeRuleListResponse(ResponseSerializer):
    change_rules = ChangeRuleResponse(many=True)
    next_page_token = Text(required=False, help_text=LAST_PAGE)


class CreateChangeRuleRequest(StrictSerializer):
    scope = RuleScopeRequest()
    name = Text(allow_blank=True, help_text="Shown to clients; unique among the rules of the object, ignoring case")
    kind = Choice(KINDS, help_text="It cannot be changed")
    configuration = serializers.DictField(help_text=CONFIGURATION)
    mode = Choice(ChangeRule.Mode.values, required=False, help_text=f"Default: `enforce`. {MODE}")
    on_failure = Choice(ChangeRule.OnFailure.values, required=False, help_text=f"Default: `deny`. {ON_FAILURE}")
    enabled = Flag(required=False, help_text="Default: true")
    secret = serializers.DictField(required=False, allow_null=True, help_text=HOOK_HEADERS)


class UpdateChangeRuleRequest(StrictSerializer):
    version = Number(help_text="The version that the caller saw; 409 if the rule has another one")
    name = Text(allow_blank=True)
    configuration = serializers.DictField(help_text="The whole configuration")
    mode = Choice(ChangeRule.Mode.values)
    on_failure = Choice(ChangeRule.OnFailure.values)
    enabled = Flag()
    secret = serializers.DictField(
        required=False, allow_null=True, help_text=f"Absent: the secret stays. Null: it is deleted. {HOOK_HEADERS}"
    )


class EvaluateChangeRuleRequest(StrictSerializer):
    warehouse_id = IdText()
    table_id = IdText()
    action = Choice([each.value for each in ACTIONS], required=False, help_text=f"Default: `{ChangeAction.COMMIT}`")
    updates = serializers.ListField(
        child=serializers.DictField(), required=False, help_text="The updates of a commit, as in the REST catalog"
    )


class ChangeRuleEvaluationResponse(ResponseSerializer):
    allowed = serializers.BooleanField(source="is_allowed")
    violations = serializers.ListField(child=Text(), help_text="Why the rule rejects the change")
    failure = Text(required=False, help_text="Why the rule could not decide")


class RuleFindingResponse(ResponseSerializer):
    id = serializers.UUIDField(source="record_id", help_text="The id of the audit record")
    at = serializers.DateTimeField()
    last_at = serializers.DateTimeField(required=False, help_text="If it stands for several equal findings")
    count = serializers.IntegerField(help_text="Number of equal findings that it stands for")
    result = serializers.ChoiceField(
        [each.value for each in FindingResult],
        help_text="`vetoed`: the change was rejected; `overridden`; `reported` by a rule in dry run",
    )
    rule_id = serializers.UUIDField(required=False, help_text="Absent for a verifier of the server's settings")
    rule = Text(help_text="Its name at that time")
    kind = Text()
    actor = Text(help_text="A user's id, `anonymous` or `internal`")
    action = serializers.ChoiceField([each.value for each in ChangeAction], help_text="What was about to be done")
    object_type = Text(help_text="Of a new object the type of the namespace or warehouse that it would be in")
    object_id = Text()
    warehouse_id = serializers.UUIDField(required=False)
    names = serializers.ListField(child=Text(), help_text="The levels of the namespace, then the name of the object")
    reason = Text()
    override = Text(required=False, help_text="The reason of an override")

    def render_result(self, found: ListedFinding) -> str:
        return found.result.value


class RuleFindingListResponse(ResponseSerializer):
    findings = RuleFindingResponse(many=True)
    next_page_token = Text(required=False, help_text=LAST_PAGE)
