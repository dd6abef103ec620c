"""The pages that create and update a rule about changes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Final
from urllib.parse import urlencode

from django.http import HttpResponse
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.models import ChangeRule
from catalog.services.change_rules import ChangeRuleChanged, RuleContent, create_change_rule, update_change_rule
from icekeeper.kernel.errors.types import BadRequest, Forbidden
from management.admin.change_rules.rule import RuleOfAddress
from management.admin.change_rules.rule_fields import FIELDS, NAMES, at_field, read_configuration, read_secret
from management.admin.change_rules.rule_texts import KINDS, MODES, NOTES, ON_FAILURE, rule_url, rules_url
from management.admin.change_rules.scopes import ScopeView, find_scope, list_scope_choices
from management.admin.configuration_fields import shown_fields
from management.admin.form_pages import Action, FormPage
from management.admin.navigation import Crumb, Text
from tenancy.authz.actions import Can
from tenancy.authz.permissions import require_permission

REMOVE_SECRET: Final = "remove-secret"  # noqa: S105 - name of a field
_COMMON: Final = ("name", "mode", "on-failure")


class RuleForm(FormPage, ABC):
    """What both forms share. Secrets that were entered are not shown again after an error."""

    template_name = "console/change_rule_form.html"
    section = "change-rules"

    @property
    @abstractmethod
    def kind(self) -> str:
        """The kind of the rule."""

    def shown(self, rule: ChangeRule | None) -> dict[str, Any]:
        """Return the fields with what was entered, else those of the stored rule, else empty ones."""
        entered = self.request.POST if self.request.method == "POST" else None
        stored = rule or ChangeRule(
            name="", mode=ChangeRule.Mode.ENFORCE, on_failure=ChangeRule.OnFailure.DENY, configuration={}
        )
        mode, on_failure = (
            known if entered is None else entered.get(name, known)
            for name, known in (("mode", stored.mode), ("on-failure", stored.on_failure))
        )
        return {
            "name": stored.name if entered is None else self.text("name"),
            "kind": self.kind,
            "kind_label": KINDS[self.kind],
            "note": NOTES[self.kind],
            "fields": shown_fields(FIELDS[self.kind], stored.configuration, entered),
            "mode_options": _options(MODES, mode),
            "on_failure_options": _options(ON_FAILURE, on_failure),
            "is_enabled": stored.is_enabled if entered is None else bool(self.text("enabled")),
        }

    def content(self) -> RuleContent:
        """Return what the form has. Raises `BadRequest`."""
        for name, choices in (("mode", MODES), ("on-failure", ON_FAILURE)):
            if self.text(name) not in choices:
                raise BadRequest(_("Must be one of the choices"), field=name)
        return RuleContent(
            name=self.text("name"),
            configuration=read_configuration(self.kind, self.request.POST),
            mode=self.text("mode"),
            on_failure=self.text("on-failure"),
            is_enabled=bool(self.text("enabled")),
            secret=read_secret(self.kind, self.request.POST),
        )

    @contextmanager
    def errors_at_fields(self) -> Iterator[None]:
        try:
            yield
        except BadRequest as error:
            raise at_field(self.kind, error) from None


def _options(texts: Mapping[str, Text], chosen: str) -> list[tuple[str, Text, bool]]:
    return [(value, text, value == chosen) for value, text in texts.items()]


class RuleAddPage(RuleForm):
    """The form of a new rule. The address has its kind, whose buttons keep what was entered, and perhaps its object."""

    title = gettext_lazy("New change rule")
    actions: ClassVar[Mapping[str, Action]] = {
        "show": Action("show"),
        "save": Action("create", (*_COMMON, "scope", *NAMES)),
    }

    @property
    def kind(self) -> str:
        wanted = self.query("kind") or next(iter(KINDS))
        if wanted not in KINDS:
            raise BadRequest("kind: must be one of the choices")
        return wanted

    def context(self) -> dict[str, Any]:
        key = self.query("object")
        scopes = [self._scope_of_address(key)] if key else list(list_scope_choices(self.actor))
        if not scopes:
            raise Forbidden(_("You see no server, project or warehouse whose rules you manage."))
        chosen = self.text("scope") or (key or scopes[0].key)
        in_scope = {"object": key} if key else {}
        back_url = rules_url(key) if key else reverse("admin:change-rules")
        return {
            **self.shown(None),
            "breadcrumb": [Crumb(_("Change rules"), back_url), Crumb(self.title)],
            "kinds": [
                {
                    "title": text,
                    "note": NOTES[each],
                    "url": f"?{urlencode({'kind': each, **in_scope})}",
                    "is_current": each == self.kind,
                }
                for each, text in KINDS.items()
            ],
            "is_enabled": True if self.request.method != "POST" else bool(self.text("enabled")),
            "scope_options": [(each.key, each.text, each.key == chosen) for each in scopes],
            "back_url": back_url,
            "button": _("Create rule"),
        }

    def _scope_of_address(self, key: str) -> ScopeView:
        scope, shown = find_scope(self.actor, key)
        target = scope.find()
        require_permission(self.actor, Can.MANAGE_RULES, *target.ref, missing=target.missing)
        return shown

    def show(self) -> HttpResponse:
        return self.render(self.context())

    def create(self) -> HttpResponse:
        scope, shown = find_scope(self.actor, self.text("scope"))
        with self.errors_at_fields():
            rule = create_change_rule(actor=self.actor, scope=scope, kind=self.kind, content=self.content())
        text = _("Change rule %(name)s applies to %(object)s.") % {"name": rule.name, "object": shown.text}
        return self.done(rule_url(rule.pk), text)


class RuleEditPage(RuleForm, RuleOfAddress):
    """The form of a stored rule. A secret stays as it is while both of its fields are empty."""

    actions: ClassVar[Mapping[str, Action]] = {"save": Action("save", (*_COMMON, *NAMES))}

    @cached_property
    def kind(self) -> str:
        return self.rule.kind

    def context(self) -> dict[str, Any]:
        rule, title = self.rule, _("Edit %(name)s") % {"name": self.rule.name}
        return {
            **self.shown(rule),
            "title": title,
            "breadcrumb": [*self.rule_crumbs(), Crumb(title)],
            "scope": self.scope,
            "rule_version": rule.version,
            "has_secret": rule.secret_id is not None,
            "removes_secret": bool(self.text(REMOVE_SECRET)),
            "back_url": self.url,
            "button": _("Save"),
        }

    def save(self) -> HttpResponse:
        version = self.version()
        try:
            with self.errors_at_fields():
                content = self.content()
                keeps_secret = content.secret is None and not self.text(REMOVE_SECRET)
                rule = update_change_rule(
                    actor=self.actor, rule_id=self.rule.pk, version=version, content=content, keeps_secret=keeps_secret
                )
        except ChangeRuleChanged:
            del self.__dict__["listed"]  # the form gets the version that is stored now
            raise
        return self.done(self.url, _("Change rule %(name)s is updated.") % {"name": rule.name})
