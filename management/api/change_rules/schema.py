"""OpenAPI descriptions of the operations on rules about changes."""

from __future__ import annotations

from functools import partial
from typing import Final

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter

from catalog.models import ChangeRule
from icekeeper.kernel.http.openapi import empty_response
from management.api.change_rules.serializers import (
    KINDS,
    TYPES,
    ChangeRuleEvaluationResponse,
    ChangeRuleListResponse,
    ChangeRuleResponse,
    CreateChangeRuleRequest,
    EvaluateChangeRuleRequest,
    RuleFindingListResponse,
    UpdateChangeRuleRequest,
)
from management.api.schema import (
    BAD_PAGE,
    BAD_PROJECT,
    NO_NAMESPACE,
    NO_PROJECT,
    NO_TABULAR,
    NO_WAREHOUSE,
    PAGE,
    PAGE_NAMES,
    PROJECT_HEADER,
    describe,
    operation,
    path_parameter,
)
from tenancy.audit.rule_findings import FindingResult

_operation = partial(operation, tag="change-rule")
RULE_ID: Final = path_parameter("rule_id", "The rule's id")
NO_RULE: Final = "`ChangeRuleNotFound`"
NO_SCOPE: Final = f"{NO_PROJECT}, {NO_WAREHOUSE}, {NO_NAMESPACE}, {NO_TABULAR}"
BAD_RULE: Final = "`InvalidChangeRule`, `EndpointNotPermitted`"
TAKEN: Final = "`ChangeRuleAlreadyExists`: the object has a rule of that name"
CHANGED: Final = "`ChangeRuleChanged`: the rule has another version"

SCOPE: Final = [
    OpenApiParameter("scopeType", OpenApiTypes.STR, enum=TYPES, description="The type of an object"),
    OpenApiParameter("scopeId", OpenApiTypes.STR, description="Its id; not for the server"),
    OpenApiParameter("warehouseId", OpenApiTypes.UUID, description="For objects in a warehouse"),
]
RULE_FILTERS: Final = [
    *SCOPE,
    OpenApiParameter("effective", OpenApiTypes.BOOL, description="Also rules of what the object is in"),
    OpenApiParameter("kind", OpenApiTypes.STR, enum=KINDS, description="Only rules of this kind"),
    OpenApiParameter("mode", OpenApiTypes.STR, enum=ChangeRule.Mode.values, description="Only rules in this mode"),
    OpenApiParameter("enabled", OpenApiTypes.BOOL, description="Only rules that are enabled, or only others"),
]
FINDING_FILTERS: Final = [
    OpenApiParameter("ruleId", OpenApiTypes.UUID, description="Only findings of this rule"),
    *SCOPE,
    OpenApiParameter(
        "result",
        OpenApiTypes.STR,
        enum=[each.value for each in FindingResult],
        description="Only findings with this result",
    ),
]
RULE_PARAMETERS: Final = [*(each.name for each in RULE_FILTERS), *PAGE_NAMES]
FINDING_PARAMETERS: Final = [*(each.name for each in FINDING_FILTERS), *PAGE_NAMES]

describe_change_rules = describe(
    list=_operation(
        "list_change_rules",
        "List the change rules that the caller may manage",
        description="In order of creation.",
        parameters=[*RULE_FILTERS, *PAGE],
        success={200: ChangeRuleListResponse},
        errors={400: f"{BAD_PAGE}, {BAD_PROJECT}, `InvalidChangeRule`", 404: NO_SCOPE},
    ),
    create=_operation(
        "create_change_rule",
        "Create a change rule",
        description="It applies to changes of the object and of everything below it, from the response on. Needs the "
        "permission to manage rules on the object.",
        request=CreateChangeRuleRequest,
        success={201: ChangeRuleResponse},
        errors={
            400: f"{BAD_RULE}, {BAD_PROJECT}",
            404: NO_SCOPE,
            409: f"{TAKEN}; `TooManyChangeRules`",
            412: "`SecretStoreNotConfigured`",
        },
    ),
    retrieve=_operation(
        "get_change_rule",
        "Get a change rule",
        parameters=[RULE_ID],
        success={200: ChangeRuleResponse},
        errors={404: NO_RULE},
    ),
    update=_operation(
        "update_change_rule",
        "Update a change rule",
        parameters=[RULE_ID],
        request=UpdateChangeRuleRequest,
        success={200: ChangeRuleResponse},
        errors={400: BAD_RULE, 404: NO_RULE, 409: f"{TAKEN}; {CHANGED}", 412: "`SecretStoreNotConfigured`"},
    ),
    destroy=_operation(
        "delete_change_rule",
        "Delete a change rule",
        parameters=[RULE_ID],
        success=empty_response("Deleted"),
        errors={404: NO_RULE},
    ),
    evaluate=_operation(
        "evaluate_change_rule",
        "Evaluate a change rule against a table",
        description="Nothing is changed or recorded. A hook gets a real request. Also needs the permission to get the "
        "metadata of the table.",
        parameters=[RULE_ID],
        request=EvaluateChangeRuleRequest,
        success={200: ChangeRuleEvaluationResponse},
        errors={404: f"{NO_RULE}, `NoSuchTableException`"},
    ),
    findings=_operation(
        "list_change_rule_findings",
        "List what change rules found, newest first",
        description="Vetoes, overrides, and findings of rules in dry run, as far as the audit trail still has them; "
        "repeated ones appear within a minute, several in one entry. Of the project of the request, unless a rule or "
        "an object, with what is in it, is given. Needs the permission to manage rules there.",
        parameters=[PROJECT_HEADER, *FINDING_FILTERS, *PAGE],
        success={200: RuleFindingListResponse},
        errors={400: f"{BAD_PAGE}, {BAD_PROJECT}", 404: f"{NO_RULE}, {NO_SCOPE}"},
    ),
)
