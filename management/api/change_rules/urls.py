from __future__ import annotations

from django.urls import path

from management.api.change_rules.views import ChangeRuleViewSet

_RULES = "v1/change-rules"
_RULE = f"{_RULES}/<str:rule_id>"

urlpatterns = [
    path(_RULES, ChangeRuleViewSet.as_view({"get": "list", "post": "create"}), name="change-rules"),
    path(f"{_RULES}/findings", ChangeRuleViewSet.as_view({"get": "findings"}), name="change-rule-findings"),
    path(
        _RULE,
        ChangeRuleViewSet.as_view({"get": "retrieve", "put": "update", "delete": "destroy"}),
        name="change-rule",
    ),
    path(f"{_RULE}/test", ChangeRuleViewSet.as_view({"post": "evaluate"}), name="change-rule-test"),
]
