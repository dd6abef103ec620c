"""The list of rules about changes: all that the user manages, or those that apply to one object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import gettext_lazy

from catalog.models import ChangeRule
from catalog.selectors.change_rules import ListedRule, RuleFilters, list_change_rules_for
from icekeeper.kernel.errors.types import BadRequest
from management.admin.change_rules.rule_texts import KINDS, rule_url, state_of
from management.admin.change_rules.scopes import find_scope, list_scope_choices, scope_of
from management.admin.listing_pages import read_pager
from management.admin.navigation import Text
from management.admin.pages import Page

STATES: Final[Mapping[str, tuple[Text, dict[str, Any]]]] = {
    "enforced": (gettext_lazy("enforced"), {"is_enabled": True, "mode": ChangeRule.Mode.ENFORCE.value}),
    "dry-run": (gettext_lazy("dry run"), {"is_enabled": True, "mode": ChangeRule.Mode.DRY_RUN.value}),
    "disabled": (gettext_lazy("disabled"), {"is_enabled": False}),
}
"""Filters of the list with their labels, by the value in its address."""


class ChangeRulesPage(Page):
    """Rules in order of creation. With `object` also those that the object inherits."""

    template_name = "console/change_rules.html"
    section = "change-rules"
    title = gettext_lazy("Change rules")

    def context(self) -> dict[str, Any]:
        given = {name: value for name in ("object", "kind", "state") if (value := self.query(name))}
        kind, state = given.get("kind"), given.get("state", "")
        if kind is not None and kind not in KINDS:
            raise BadRequest("kind: must be a kind of rules")
        if state and state not in STATES:
            raise BadRequest("state: must be enforced, dry-run or disabled")
        scope, shown = (None, None) if "object" not in given else find_scope(self.actor, given["object"])
        pager = read_pager(self.request, "change rules", **given)
        in_state = STATES[state][1] if state else {}
        filters = RuleFilters(scope=scope, effective=scope is not None, kind=kind, **in_state)
        found, token = list_change_rules_for(actor=self.actor, filters=filters, page=pager.page)
        in_scope = "" if shown is None else f"?{urlencode({'object': shown.key})}"
        choices = [shown] if shown is not None else list_scope_choices(self.actor)
        has_findings = shown is not None or any(not each.key.startswith("warehouse:") for each in choices)
        return {
            "rows": [_row(each) for each in found],
            "scope": shown,
            "given": given,
            "kinds": KINDS.items(),
            "states": [(value, label) for value, (label, _filter) in STATES.items()],
            "is_filtered": bool(kind or state),
            "all_url": in_scope or "?",
            "add_url": reverse("admin:change-rule-add") + in_scope if choices else "",
            "findings_url": reverse("admin:change-rule-findings") + in_scope if has_findings else "",
            **pager.links(token),
        }


def _row(listed: ListedRule) -> dict[str, Any]:
    rule = listed.rule
    label, tone = state_of(rule)
    return {
        "rule": rule,
        "url": rule_url(rule.pk),
        "kind": KINDS.get(rule.kind, rule.kind),
        "scope": scope_of(listed),
        "state": label,
        "tone": tone,
    }
