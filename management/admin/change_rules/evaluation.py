"""The page that evaluates a rule for a change of a table, without changing it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final
from uuid import UUID

from django.http import HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.objects import ObjectKey, name_objects, resolve_object_key
from catalog.services.approval.evaluation import ACTIONS, RuleEvaluation, evaluate_change_rule
from catalog.services.approval.port import ChangeAction
from icekeeper.kernel.errors.types import BadRequest, NoSuchTable
from icekeeper.kernel.ids import parse_id
from icekeeper.kernel.json.strict import read_json
from management.admin.change_rules.rule import RuleOfAddress
from management.admin.form_pages import Action
from management.admin.level_text import split_levels
from management.admin.navigation import Crumb, Text
from management.admin.warehouse_choice import list_warehouses_of_all_projects
from tenancy.models import Securable
from tenancy.models.securable import securable_id

ACTION_LABELS: Final[Mapping[ChangeAction, Text]] = {
    ChangeAction.COMMIT: gettext_lazy("Commit these updates"),
    ChangeAction.DROP: gettext_lazy("Drop the table"),
}
EXAMPLE: Final = '[{"action": "set-properties", "updates": {"owner": "ann"}}]'


class EvaluatePage(RuleOfAddress):
    """A form with a table and a change of it, and what the rule says about it."""

    template_name = "console/change_rule_evaluation.html"
    actions: ClassVar[Mapping[str, Action]] = {"evaluate": Action("evaluate", ("warehouse", "table", "do", "updates"))}
    found: RuleEvaluation | None = None

    def context(self) -> dict[str, Any]:
        rule, title = self.rule, _("Evaluate %(name)s") % {"name": self.rule.name}
        warehouses = list_warehouses_of_all_projects(self.actor)
        chosen, action = self.text("warehouse") or self.warehouse_of_scope(), self.text("do")
        return {
            "title": title,
            "breadcrumb": [*self.rule_crumbs(), Crumb(title)],
            "rule": rule,
            "warehouse_options": [(str(each.pk), each.name, str(each.pk) == chosen) for each in warehouses],
            "action_options": [(each.value, ACTION_LABELS[each], each == action) for each in ACTIONS],
            "table": self.text("table"),
            "updates": self.text("updates") or EXAMPLE,
            "found": self.found,
            "back_url": self.url,
        }

    def warehouse_of_scope(self) -> str:
        """Return the id of the warehouse in which the rule applies, empty if that is in several."""
        scope = self.listed.scope
        return "" if scope is None else scope.warehouse_id or ""

    def evaluate(self) -> HttpResponse:
        if self.text("do") not in ACTIONS:
            raise BadRequest(_("Must be one of the choices"), field="do")
        action = ChangeAction(self.text("do"))
        warehouse_id = parse_id(self.text("warehouse"))
        if warehouse_id is None:
            raise BadRequest(_("Must be one of the choices"), field="warehouse")
        try:
            self.found = evaluate_change_rule(
                actor=self.actor,
                rule_id=self.rule.pk,
                warehouse_id=warehouse_id,
                table_id=self._table_id(warehouse_id),
                action=action,
                updates=self._updates() if action is ChangeAction.COMMIT else [],
            )
        except NoSuchTable:
            raise BadRequest(_("There is no such table, or you do not see it"), field="table") from None
        return self.render(self.context())

    def _table_id(self, warehouse_id: UUID) -> UUID:
        """Return the id that clients see of the table that the form names. Raises `NoSuchTable`."""
        text = self.text("table").strip()
        *levels, name = split_levels(text) or ("",)
        found: UUID | None = parse_id(text)
        if found is not None:
            return found
        ref = resolve_object_key(ObjectKey(Securable.Type.TABLE, warehouse_id, levels=tuple(levels), name=name))
        named = None if ref is None else name_objects([securable_id(*ref)]).get(securable_id(*ref))
        if named is None:
            raise NoSuchTable(_("There is no such table"))
        return UUID(named.object_id)

    def _updates(self) -> list[Any]:
        try:
            found = read_json(self.text("updates").encode("utf-8", "replace"))
        except BadRequest as error:
            raise BadRequest(error.message, field="updates") from None
        if not isinstance(found, list):
            raise BadRequest(_("Must be a JSON array of updates, as in the REST catalog"), field="updates")
        return found
