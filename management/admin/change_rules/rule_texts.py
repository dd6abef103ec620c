"""Labels and addresses of rules about changes in the console."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode
from uuid import UUID

from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from catalog.models import ChangeRule
from management.admin.navigation import Text
from tenancy.audit.rule_findings import FindingResult

KINDS: Final[dict[str, Text]] = {
    "schema-compatibility": _("Schema compatibility"),
    "protected": _("Protection by tags"),
    "required-properties": _("Required properties"),
    "naming": _("Names"),
    "retention-floor": _("Retention of snapshots"),
    "http-hook": _("HTTP hook"),
}
NOTES: Final[dict[str, Text]] = {
    "schema-compatibility": _("New schemas of tables are compatible with the current one"),
    "protected": _("Objects and columns with a tag are not dropped or renamed"),
    "required-properties": _("Objects have certain properties"),
    "naming": _("Names of objects and columns match a pattern"),
    "retention-floor": _("Young and last snapshots are kept"),
    "http-hook": _("Your own server decides about each change"),
}
"""What a kind requires, or who decides."""

MODES: Final[dict[str, Text]] = {
    ChangeRule.Mode.ENFORCE: _("Enforced: changes that violate it are rejected"),
    ChangeRule.Mode.DRY_RUN: _("Dry run: it only reports what it would reject"),
}
ON_FAILURE: Final[dict[str, Text]] = {
    ChangeRule.OnFailure.DENY: _("Reject the change"),
    ChangeRule.OnFailure.ALLOW: _("Allow the change"),
}
RESULTS: Final[dict[FindingResult, tuple[Text, str]]] = {
    FindingResult.VETOED: (_("rejected"), "bad"),
    FindingResult.OVERRIDDEN: (_("overridden"), "warning"),
    FindingResult.REPORTED: (_("dry run"), "accent"),
}
"""Labels and tones."""


def state_of(rule: ChangeRule) -> tuple[Text, str]:
    """Return the label and the tone of what the rule does now."""
    if not rule.is_enabled:
        return _("disabled"), ""
    return (_("enforced"), "good") if rule.mode == ChangeRule.Mode.ENFORCE else (_("dry run"), "accent")


def rule_url(rule_id: UUID) -> str:
    return reverse("admin:change-rule", args=[rule_id])


def rules_url(key: str) -> str:
    """Return the address of the list of the rules that apply to an object, by its key (`key_of`)."""
    return f"{reverse('admin:change-rules')}?{urlencode({'object': key})}"
