"""What a user sees whose form was overtaken: their input, the stored values, and who changed them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext as _

from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.http.paging import Page as ListingPage
from management.admin.navigation import Text
from management.admin.warehouses.form_fields import SecretFile, SecretInput
from management.templatetags.console import NOTHING
from storage.models import Warehouse
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import is_allowed
from tenancy.changes.kinds import Change
from tenancy.models import Securable
from tenancy.selectors.audit_records import AuditFilters, list_audit_records_for


@dataclass(frozen=True, slots=True)
class StoredValue:
    label: Text
    stored: str
    entered: str


@dataclass(frozen=True, slots=True)
class FormConflict:
    """`by` is empty for users without the permission to read the audit trail of the project."""

    at: datetime
    by: str
    values: list[StoredValue]


def read_version(given: QueryDict) -> int:
    """Return the version that a form was filled from. Raises `BadRequest`."""
    text = given.get("version", "")
    if not text.isascii() or not text.isdecimal() or len(text) > 18:  # noqa: PLR2004 - of a 64-bit number
        raise BadRequest("version: must be the version in the form")
    return int(text)


def describe_conflict(actor: Actor, warehouse: Warehouse, entered: forms.Form, stored: forms.Form) -> FormConflict:
    """Return the fields of a bound form that differ from those of a form with the stored values."""
    names = [name for name in entered.fields if name in stored.fields]
    values = [
        StoredValue(entered.fields[name].label or name, _shown(stored[name]), _shown(entered[name]))
        for name in names
        if not isinstance(entered.fields[name].widget, SecretInput | SecretFile)
        and _shown(stored[name]) != _shown(entered[name])
    ]
    return FormConflict(warehouse.updated_at, _last_changed_by(actor, warehouse), values)


def _last_changed_by(actor: Actor, warehouse: Warehouse) -> str:
    if not is_allowed(actor, Can.READ_AUDIT, Securable.Type.PROJECT, warehouse.project_id):
        return ""
    filters = AuditFilters(
        project=warehouse.project_id, event=Change.WAREHOUSE_UPDATED.value.audit_event, object_id=str(warehouse.pk)
    )
    page = ListingPage("console last change", None, 1)
    records, _token = list_audit_records_for(actor=actor, filters=filters, page=page)
    return records[0].actor if records else ""


def _shown(bound: forms.BoundField) -> str:
    """Return the value of a field as its options name it."""
    value = bound.value()
    choices: Iterable[tuple[Any, Any]] = getattr(bound.field, "choices", ())
    labels = {str(key): str(label) for key, label in choices}
    if isinstance(value, list | tuple):
        return ", ".join(labels.get(str(each), str(each)) for each in value) or NOTHING
    if isinstance(bound.field, forms.BooleanField):
        return _("yes") if value in {True, "on", "true"} else _("no")
    return labels.get(str(value if value is not None else ""), str(value or "")) or NOTHING
