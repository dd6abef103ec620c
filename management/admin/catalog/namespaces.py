"""The page of a namespace."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from catalog.models import shown_properties
from catalog.selectors.activity import Subject
from catalog.selectors.browse import NAMESPACE, locate_namespace_for
from catalog.selectors.permission_objects import namespace_object
from catalog.selectors.tables.change_preview import find_changeable_for
from catalog.selectors.tables.deleted import list_deleted_tabulars_for
from icekeeper.kernel.errors.types import Forbidden
from management.admin.access.tab import access_context
from management.admin.catalog.activity_tab import activity_context
from management.admin.catalog.browse import tree_context
from management.admin.catalog.contents import contents_context
from management.admin.catalog.controls import namespace_controls
from management.admin.catalog.object_tags import tags_context
from management.admin.listing_pages import read_pager
from management.admin.navigation import Crumb, crumbs
from management.admin.pages import Page
from management.admin.tabs import Tab, choose_tab, link_tabs
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef

TABS: Final = (
    Tab("contents", _("Contents")),
    Tab("deleted", _("Deleted")),
    Tab("access", _("Access")),
    Tab("properties", _("Properties")),
    Tab("activity", _("Activity")),
)


class NamespacePage(Page):
    """A namespace: what is in it, and its properties."""

    template_name = "console/namespace.html"
    section = "catalog"

    def context(self) -> dict[str, Any]:
        warehouse_id: UUID = self.kwargs["warehouse_id"]
        namespace_id: UUID = self.kwargs["namespace_id"]
        found = locate_namespace_for(actor=self.actor, warehouse_id=warehouse_id, namespace_id=namespace_id)
        namespace, name = found.namespace, found.levels[-1]
        current = choose_tab(TABS, self.kwargs.get("tab"))
        shown: dict[str, Any] = {
            "title": name,
            "breadcrumb": [*crumbs(found.path), Crumb(name)],
            "namespace": namespace,
            "tabs": link_tabs(TABS, current, "admin:namespace", [warehouse_id, namespace_id]),
            "tab": current,
            "controls": namespace_controls(self.actor, namespace),
            **tree_context(found.path, "namespace", namespace_id, name),
        }
        if current == "contents":
            shown |= contents_context(self.request, self.actor, warehouse_id, namespace_id)
            uuids = [each.id for each in shown["rows"] if each.kind != NAMESPACE]
            shown["changeable"] = find_changeable_for(actor=self.actor, warehouse_id=warehouse_id, uuids=uuids)
            shown["change_url"] = reverse("admin:contents-change", args=[warehouse_id, namespace_id])
        elif current == "access":
            shown |= access_context(self.request, self.actor, namespace_object(namespace, found.path))
        elif current == "deleted":
            shown |= self._deleted(warehouse_id, namespace_id)
        elif current == "activity":
            subject = Subject(
                Securable.Type.NAMESPACE, namespace.pk, namespace.pk, warehouse_id, namespace.warehouse.project_id
            )
            shown |= activity_context(self.request, self.actor, subject)
        else:
            shown |= tags_context(
                self.request,
                self.actor,
                project=namespace.warehouse.project,
                path=found.path,
                ref=ObjectRef(Securable.Type.NAMESPACE, namespace.pk),
                warehouse_id=warehouse_id,
                public_id=namespace_id,
            )
            properties = shown_properties(namespace.properties, namespace_id=namespace.pk, location=namespace.location)
            shown["properties"] = sorted(properties.items())
        return shown

    def _deleted(self, warehouse_id: UUID, namespace_id: UUID) -> dict[str, Any]:
        """Return a page of the dropped objects in the namespace that the caller sees and that can be restored."""
        pager = read_pager(self.request, "deleted in a namespace", namespace_id)
        try:
            found, token = list_deleted_tabulars_for(
                actor=self.actor, warehouse_id=warehouse_id, namespace_id=namespace_id, page=pager.page
            )
        except Forbidden:
            return {"rows": [], "is_forbidden": True}
        return {
            "rows": found,
            "deleted_url": f"{reverse('admin:deleted')}?{urlencode({'warehouse': warehouse_id})}",
            **pager.links(token),
        }
