"""What rules about changes found: rejected and overridden changes, and those that a dry run would reject."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.selectors.change_rules import FindingFilters, ListedFinding, RuleScope, list_rule_findings_for
from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.ids import parse_id
from management.admin.access.objects import IN_WAREHOUSES
from management.admin.change_rules.rule_texts import RESULTS, rule_url, rules_url
from management.admin.change_rules.scopes import find_scope
from management.admin.level_text import join_levels
from management.admin.listing_pages import read_pager
from management.admin.navigation import Crumb, object_url
from management.admin.pages import Page
from tenancy.audit.rule_findings import FindingResult
from tenancy.authz.actions import Can
from tenancy.authz.permissions import check_permissions, is_allowed
from tenancy.models import Project, Securable
from tenancy.models.securable import ObjectRef
from tenancy.selectors.projects import list_projects_for, server_ref

T = Securable.Type
_TYPES: Final = {each.value: each for each in IN_WAREHOUSES}


class FindingsPage(Page):
    """Findings, newest first: about an `object` and what is in it, of a `project`, or of all projects.

    Without the permission on the server, those of the first project with the permission.
    """

    template_name = "console/change_rule_findings.html"
    section = "change-rules"
    title = gettext_lazy("Findings of change rules")

    def context(self) -> dict[str, Any]:
        given = {name: value for name in ("object", "project", "result") if (value := self.query(name))}
        reads_all = is_allowed(self.actor, Can.MANAGE_RULES, *server_ref())
        projects: Sequence[Project] = list_projects_for(actor=self.actor)
        projects = projects if reads_all else self._managed(projects)
        shown = None
        if "object" in given:
            given.pop("project", None)
            scope, shown = find_scope(self.actor, given["object"])
        else:
            if "project" not in given and not reads_all and projects:
                given["project"] = projects[0].pk
            scope = RuleScope(T.PROJECT, given["project"]) if "project" in given else RuleScope(T.SERVER)
        pager = read_pager(self.request, "findings of rules", **given)
        filters = FindingFilters(scope=scope, result=_read_result(given.get("result")))
        found, token = list_rule_findings_for(actor=self.actor, filters=filters, page=pager.page)
        rules = reverse("admin:change-rules") if shown is None else rules_url(shown.key)
        return {
            "breadcrumb": [Crumb(_("Change rules"), rules), Crumb(_("Findings"))],
            "rows": [finding_row(each) for each in found],
            "scope": shown,
            "given": given,
            "projects": projects,
            "reads_all": reads_all,
            "is_filtered": "result" in given or ("project" in given and reads_all),
            "results": [(each.value, label) for each, (label, _tone) in RESULTS.items()],
            "all_url": "?" if shown is None else f"?{urlencode({'object': shown.key})}",
            **pager.links(token),
        }

    def _managed(self, projects: Sequence[Project]) -> list[Project]:
        """Return the projects whose rules the user manages."""
        refs = [ObjectRef(T.PROJECT, each.pk) for each in projects]
        allowed = check_permissions(self.actor, [(Can.MANAGE_RULES, ref) for ref in refs])
        return [each for each, is_managed in zip(projects, allowed, strict=True) if is_managed]


def _read_result(text: str | None) -> FindingResult | None:
    if text is None:
        return None
    if text not in list(FindingResult):
        raise BadRequest("result: must be vetoed, overridden or reported")
    return FindingResult(text)


def finding_row(found: ListedFinding) -> dict[str, Any]:
    """Return a row of a list of findings. The object of a new one is what it was to be created in."""
    label, tone = RESULTS[found.result]
    kind, object_id = _TYPES.get(found.object_type), parse_id(found.object_id)
    has_page = kind is not None and object_id is not None and found.warehouse_id is not None
    return {
        "found": found,
        "result": label,
        "tone": tone,
        "name": join_levels(found.names) or found.object_id,
        "object_url": object_url(found.object_type, object_id, found.warehouse_id) if has_page else "",
        "rule_url": "" if found.rule_id is None else rule_url(found.rule_id),
    }
