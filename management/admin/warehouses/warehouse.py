"""Warehouses: their list, and the page of each."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from catalog.selectors.browse import warehouse_path
from catalog.selectors.permission_objects import warehouse_object
from catalog.selectors.warehouses import require_on_warehouse
from icekeeper.kernel.errors.types import NotFound
from management.admin.access.tab import access_context
from management.admin.catalog.browse import tree_context
from management.admin.catalog.contents import contents_context
from management.admin.catalog.controls import warehouse_controls
from management.admin.catalog.snippet_targets import snippet_target
from management.admin.catalog.snippets import Snippet, list_first_table_snippets
from management.admin.json_view import json_lines
from management.admin.navigation import Crumb, crumbs
from management.admin.operations.overview import warehouse_overview_context, warehouse_overview_csv
from management.admin.operations.statistics import warehouse_statistics_context, warehouse_statistics_csv
from management.admin.pages import Page
from management.admin.tabs import Tab, choose_tab, link_tabs
from management.admin.warehouse_choice import list_warehouses_by_project
from management.admin.warehouses.actions import allowed_changes
from management.admin.warehouses.add import list_projects_to_create_in
from management.admin.warehouses.queue_settings import Entered, queue_settings_context, save_queue_settings
from storage.models import Warehouse
from storage.selectors import get_warehouse_for
from tenancy.actor import is_instance_admin
from tenancy.authz.actions import Can

TABS: Final = (
    Tab("contents", _("Contents")),
    Tab("overview", _("Overview")),
    Tab("storage", _("Storage")),
    Tab("rules", _("Rules")),
    Tab("access", _("Access")),
    Tab("tasks", _("Tasks")),
    Tab("statistics", _("Statistics")),
)


class WarehousesPage(Page):
    """All warehouses that the user may see, by project."""

    template_name = "console/warehouses.html"
    section = "warehouses"
    title = _("Warehouses")

    def context(self) -> dict[str, Any]:
        found = list_warehouses_by_project(self.actor)
        return {
            "projects": found.projects,
            "has_more": found.has_more,
            "user_id": self.actor.user_id,
            "creates_in": list_projects_to_create_in(self.actor),
        }


class WarehousePage(Page):
    """A warehouse: the namespaces in it, its storage and its rules."""

    template_name = "console/warehouse.html"
    section = "catalog"
    entered: Entered | None = None

    def context(self) -> dict[str, Any]:
        warehouse_id: UUID = self.kwargs["warehouse_id"]
        warehouse = get_warehouse_for(actor=self.actor, action=Can.GET_METADATA, warehouse_id=warehouse_id)
        current = choose_tab(TABS, self.kwargs.get("tab"))
        path = warehouse_path(warehouse, warehouse.project)
        changes = allowed_changes(self.actor, warehouse)
        shown: dict[str, Any] = {
            "title": warehouse.name,
            "breadcrumb": [*crumbs(path[:1]), Crumb(warehouse.name)],
            "warehouse": warehouse,
            "tabs": link_tabs(TABS, current, "admin:warehouse", [warehouse_id]),
            "tab": current,
            "can_change": bool(changes) or is_instance_admin(self.actor),
            "controls": warehouse_controls(self.actor, warehouse),
            "can_update_storage": Can.UPDATE_STORAGE in changes,
            **tree_context(path[:1], "warehouse", warehouse.pk, warehouse.name),
        }
        if current == "contents":
            if warehouse.status == Warehouse.Status.ACTIVE:
                shown |= contents_context(self.request, self.actor, warehouse_id, None)
                if not (shown["rows"] or shown["name"] or shown["first_url"] or shown["next_url"]):
                    shown["first_table"] = self._first_table(warehouse)
        elif current == "overview":
            shown |= warehouse_overview_context(self.request, self.actor, warehouse)
        elif current == "storage":
            shown["profile"] = json_lines(warehouse.storage_profile)
        elif current == "access":
            shown |= access_context(self.request, self.actor, warehouse_object(warehouse))
        elif current == "tasks":
            shown |= queue_settings_context(self.actor, warehouse, self.entered)
            shown["tasks_url"] = f"{reverse('admin:tasks')}?{urlencode({'warehouse': warehouse_id})}"
        elif current == "statistics":
            shown |= warehouse_statistics_context(self.request, self.actor, warehouse_id)
        return shown

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        if kwargs.get("tab") == "statistics" and request.GET.get("format") == "csv":
            return warehouse_statistics_csv(request, self.actor, kwargs["warehouse_id"])
        if kwargs.get("tab") == "overview" and request.GET.get("format") == "csv":
            warehouse = get_warehouse_for(
                actor=self.actor, action=Can.GET_METADATA, warehouse_id=kwargs["warehouse_id"]
            )
            return warehouse_overview_csv(request, self.actor, warehouse)
        return super().get(request, **kwargs)

    def post(self, request: HttpRequest, *, warehouse_id: UUID, tab: str = "") -> HttpResponse:
        """Save the settings of a task queue, which are the only form of this page."""
        if tab != "tasks":
            raise NotFound("No such form")
        warehouse = get_warehouse_for(actor=self.actor, action=Can.GET_METADATA, warehouse_id=warehouse_id)
        self.entered = save_queue_settings(self.actor, warehouse, request.POST)
        if self.entered is not None:
            status = HTTPStatus.CONFLICT if self.entered.is_conflict else HTTPStatus.BAD_REQUEST
            return self.render(self.context(), status=status)
        messages.success(request, gettext("The settings of the queue were saved."))
        return HttpResponseRedirect(request.path)

    def _first_table(self, warehouse: Warehouse) -> tuple[Snippet, ...]:
        """Return the code that creates the first table of an empty warehouse; none without the permission for it."""
        (can_create,) = require_on_warehouse(self.actor, warehouse.pk, Can.GET_METADATA, [Can.CREATE_NAMESPACE])
        if not can_create:
            return ()
        return list_first_table_snippets(snippet_target(self.request, warehouse, ("demo",), "cities"))
