"""The page of a rule about changes: what it requires, where it applies, what it found; and its deletion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.http import HttpResponse
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.translation import gettext as _

from catalog.models import ChangeRule
from catalog.selectors.change_rules import (
    FindingFilters,
    ListedRule,
    get_change_rule_for,
    list_rule_findings_for,
    name_scopes,
)
from catalog.services.change_rules import RuleContent, delete_change_rule, update_change_rule
from management.admin.change_rules.findings import finding_row
from management.admin.change_rules.rule_texts import KINDS, NOTES, ON_FAILURE, rule_url, state_of
from management.admin.change_rules.scopes import ScopeView, scope_of
from management.admin.form_pages import Action, ConfirmPage, FormPage
from management.admin.json_view import json_lines
from management.admin.listing_pages import read_pager
from management.admin.navigation import Crumb, Text


class RuleOfAddress(FormPage):
    """The base of the pages of one rule."""

    section = "change-rules"

    @cached_property
    def listed(self) -> ListedRule:
        rule = get_change_rule_for(actor=self.actor, rule_id=self.kwargs["rule_id"])
        return name_scopes([rule])[0]

    @property
    def rule(self) -> ChangeRule:
        return self.listed.rule

    @cached_property
    def scope(self) -> ScopeView:
        return scope_of(self.listed)

    @property
    def url(self) -> str:
        return rule_url(self.kwargs["rule_id"])

    def rule_crumbs(self) -> list[Crumb]:
        return [Crumb(_("Change rules"), reverse("admin:change-rules")), Crumb(self.rule.name, self.url)]


class ChangeRulePage(RuleOfAddress):
    """A rule: its configuration without secrets, its findings, and the buttons that change what it does."""

    template_name = "console/change_rule.html"
    actions: ClassVar[Mapping[str, Action]] = {
        each: Action(each) for each in ("enforce", "dry_run", "enable", "disable")
    }

    def context(self) -> dict[str, Any]:
        rule = self.rule
        label, tone = state_of(rule)
        pager = read_pager(self.request, "findings of a rule", rule.pk)
        filters = FindingFilters(rule_id=rule.pk)
        found, token = list_rule_findings_for(actor=self.actor, filters=filters, page=pager.page)
        return {
            "title": rule.name,
            "breadcrumb": [Crumb(_("Change rules"), reverse("admin:change-rules")), Crumb(rule.name)],
            "rule": rule,
            "kind": KINDS.get(rule.kind, rule.kind),
            "note": NOTES.get(rule.kind, ""),
            "state": label,
            "tone": tone,
            "is_enforced": rule.mode == ChangeRule.Mode.ENFORCE,
            "scope": self.scope,
            "on_failure": ON_FAILURE[rule.on_failure],
            "configuration": json_lines(rule.configuration),
            "rows": [finding_row(each) for each in found],
            **{
                f"{name}_url": reverse(f"admin:change-rule-{name}", args=[rule.pk])
                for name in ("edit", "evaluate", "delete")
            },
            **pager.links(token),
        }

    def enforce(self) -> HttpResponse:
        return self._change(_("%(name)s is enforced."), mode=ChangeRule.Mode.ENFORCE.value)

    def dry_run(self) -> HttpResponse:
        return self._change(_("%(name)s only reports."), mode=ChangeRule.Mode.DRY_RUN.value)

    def enable(self) -> HttpResponse:
        return self._change(_("%(name)s is enabled."), is_enabled=True)

    def disable(self) -> HttpResponse:
        return self._change(_("%(name)s is disabled."), is_enabled=False)

    def _change(self, text: str, **changed: Any) -> HttpResponse:
        """Change the rule that the page showed. Raises `ChangeRuleChanged`."""
        rule, version = self.rule, self.version()
        shown = {
            "name": rule.name, "configuration": rule.configuration, "mode": rule.mode, "on_failure": rule.on_failure,
            "is_enabled": rule.is_enabled,
        }  # fmt: skip
        content = RuleContent(**{**shown, **changed})
        del self.__dict__["listed"]  # an error shows what is stored by now
        update_change_rule(actor=self.actor, rule_id=rule.pk, version=version, content=content, keeps_secret=True)
        return self.done(self.url, text % {"name": rule.name})


class ChangeRuleDeletePage(ConfirmPage, RuleOfAddress):
    """What the deletion of a rule means."""

    def heading(self) -> str:
        return _("Delete change rule %(name)s?") % {"name": self.rule.name}

    def crumbs(self) -> list[Crumb]:
        return self.rule_crumbs()

    def back_url(self) -> str:
        return self.url

    def effects(self) -> list[Text]:
        effects: list[Text] = [
            _("Changes of %(object)s and of what is in it are not checked by it any more.")
            % {"object": self.scope.text},
            _("Its findings stay in the audit trail, and in the findings of the objects."),
        ]
        if self.rule.secret_id is not None:
            effects.append(_("Its secret is deleted."))
        return effects

    def delete(self) -> HttpResponse:
        name = self.rule.name
        delete_change_rule(actor=self.actor, rule_id=self.rule.pk)
        return self.done(reverse("admin:change-rules"), _("Change rule %(name)s is deleted.") % {"name": name})
