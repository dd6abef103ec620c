"""Who changed a namespace last, for the user whose form was overtaken."""

from __future__ import annotations

from typing import Final

from catalog.models import Namespace
from icekeeper.kernel.http.paging import Page as ListingPage
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import is_allowed
from tenancy.changes.kinds import Change
from tenancy.models import Securable
from tenancy.selectors.audit_records import AuditFilters, list_audit_records_for

_EVENTS: Final = {
    each.value.audit_event for each in (Change.NAMESPACE_UPDATED, Change.NAMESPACE_MOVED, Change.PROTECTION_SET)
}
_READ: Final = 10


def last_changed_by(actor: Actor, namespace: Namespace) -> str:
    """Return the user who changed properties, path or protection of a namespace last.

    Empty without the permission to read the audit trail of its project, and after many other changes.
    """
    project_id = namespace.warehouse.project_id
    if not is_allowed(actor, Can.READ_AUDIT, Securable.Type.PROJECT, project_id):
        return ""
    filters = AuditFilters(project=project_id, object_type="namespace", object_id=str(namespace.pk))
    page = ListingPage("console last change", None, _READ)
    records, _token = list_audit_records_for(actor=actor, filters=filters, page=page)
    return next((each.actor for each in records if each.event in _EVENTS), "")
