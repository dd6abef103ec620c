"""Rules that approve or reject changes before they are written, and what they found."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from catalog.models import ChangeRule
from catalog.selectors.change_rules import (
    SCOPE_TYPES,
    FindingFilters,
    RuleFilters,
    RuleScope,
    get_change_rule_for,
    list_change_rules_for,
    list_rule_findings_for,
    name_scopes,
    rule_not_found,
)
from catalog.services.approval.evaluation import evaluate_change_rule
from catalog.services.approval.port import ChangeAction
from catalog.services.approval.rule_kinds import require_kind
from catalog.services.change_rules import RuleContent, create_change_rule, delete_change_rule, update_change_rule
from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.http.paging import listing_key
from management.api.base import ManagementViewSet, require_parameters
from management.api.change_rules.schema import FINDING_PARAMETERS, RULE_PARAMETERS, describe_change_rules
from management.api.change_rules.serializers import (
    ChangeRuleEvaluationResponse,
    ChangeRuleListResponse,
    ChangeRuleResponse,
    CreateChangeRuleRequest,
    EvaluateChangeRuleRequest,
    RuleFindingListResponse,
    UpdateChangeRuleRequest,
)
from management.api.serializers import read_uuid
from tenancy.audit.rule_findings import FindingResult
from tenancy.models import Securable


@describe_change_rules
class ChangeRuleViewSet(ManagementViewSet):
    reading_actions = ("evaluate",)

    @property
    def rule_id(self) -> UUID:
        """The rule in the path. Raises `ChangeRuleNotFound`."""
        return self.path_id("rule_id", rule_not_found)

    def list(self, request: Request) -> Response:
        require_parameters(request, RULE_PARAMETERS)
        given = request.GET
        filters = RuleFilters(
            scope=self._scope(),
            effective=self.flag("effective"),
            kind=self._choice("kind", None),
            mode=self._choice("mode", ChangeRule.Mode.values),
            is_enabled=self.flag("enabled") if "enabled" in given else None,
        )
        if filters.kind is not None:
            require_kind(filters.kind)
        page = self.page(listing_key("change-rules", filters))
        found = list_change_rules_for(actor=self.actor, filters=filters, page=page)
        return self.respond_page(ChangeRuleListResponse, "change_rules", found)

    def create(self, request: Request) -> Response:
        body = self.body(CreateChangeRuleRequest)
        scope, kind = read_scope(body.pop("scope")), body.pop("kind")
        rule = create_change_rule(actor=self.actor, scope=scope, kind=kind, content=read_content(body))
        return self._respond_rule(rule, status=201)

    def retrieve(self, request: Request, **path: str) -> Response:
        return self._respond_rule(get_change_rule_for(actor=self.actor, rule_id=self.rule_id))

    def update(self, request: Request, **path: str) -> Response:
        body = self.body(UpdateChangeRuleRequest)
        version, keeps_secret = body.pop("version"), "secret" not in body
        rule = update_change_rule(
            actor=self.actor, rule_id=self.rule_id, version=version, content=read_content(body),
            keeps_secret=keeps_secret,
        )  # fmt: skip
        return self._respond_rule(rule)

    def destroy(self, request: Request, **path: str) -> Response:
        delete_change_rule(actor=self.actor, rule_id=self.rule_id)
        return Response(status=204)

    def evaluate(self, request: Request, **path: str) -> Response:
        body = self.body(EvaluateChangeRuleRequest)
        found = evaluate_change_rule(
            actor=self.actor,
            rule_id=self.rule_id,
            warehouse_id=read_uuid(body["warehouse_id"], "warehouse-id"),
            table_id=read_uuid(body["table_id"], "table-id"),
            action=ChangeAction(body.get("action", ChangeAction.COMMIT)),
            updates=body.get("updates", []),
        )
        return self.respond(ChangeRuleEvaluationResponse, found)

    def findings(self, request: Request) -> Response:
        require_parameters(request, FINDING_PARAMETERS)
        rule_id, result = request.GET.get("ruleId"), self._choice("result", [each.value for each in FindingResult])
        filters = FindingFilters(
            rule_id=None if rule_id is None else read_uuid(rule_id, "ruleId"),
            scope=self._scope() or RuleScope(Securable.Type.PROJECT, self.project().pk),
            result=None if result is None else FindingResult(result),
        )
        page = self.page(listing_key("change-rule-findings", filters))
        found = list_rule_findings_for(actor=self.actor, filters=filters, page=page)
        return self.respond_page(RuleFindingListResponse, "findings", found)

    def _respond_rule(self, rule: ChangeRule, status: int = 200) -> Response:
        (listed,) = name_scopes([rule])
        return self.respond(ChangeRuleResponse, listed, status=status)

    def _scope(self) -> RuleScope | None:
        """Read the object in the query; None without `scopeType`. Raises `BadRequest`."""
        given = self.request.GET
        scope_type = self._choice("scopeType", [each.value for each in SCOPE_TYPES])
        if scope_type is None:
            if "scopeId" in given or "warehouseId" in given:
                raise BadRequest("scopeType: is required with scopeId and warehouseId")
            return None
        warehouse = given.get("warehouseId")
        return RuleScope(
            Securable.Type(scope_type), given.get("scopeId"),
            None if warehouse is None else read_uuid(warehouse, "warehouseId"),
        )  # fmt: skip

    def _choice(self, name: str, choices: Any) -> str | None:
        text = self.request.GET.get(name)
        if text is not None and choices is not None and text not in choices:
            raise BadRequest(f"{name}: must be one of {', '.join(choices)}")
        return text


def read_scope(given: dict[str, Any]) -> RuleScope:
    warehouse = given.get("warehouse_id")
    return RuleScope(
        Securable.Type(given["type"]), given.get("id"),
        None if warehouse is None else read_uuid(warehouse, "scope.warehouse-id"),
    )  # fmt: skip


def read_content(body: dict[str, Any]) -> RuleContent:
    """Return the content of a rule; `body` has the members of the request that are left."""
    members = {"is_enabled" if name == "enabled" else name: value for name, value in body.items()}
    return RuleContent(**members)
