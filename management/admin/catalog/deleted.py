"""Dropped tables and views: those that can be restored, and their permanent deletion before they expire."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from catalog.selectors.tables.expiring import (
    DeletedFilters,
    Dropped,
    ExpirationPreview,
    ExpirationStep,
    list_expiring_tabulars_for,
    preview_expiration_for,
)
from catalog.selectors.tables.undrop_preview import Obstacle
from catalog.services.task_control import WarehouseTasks, run_tasks_at
from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import BadRequest, Forbidden
from management.admin.catalog.restore import REASONS, read_targets
from management.admin.level_text import split_levels
from management.admin.listing_pages import read_pager
from management.admin.navigation import Crumb, Text, object_url
from management.admin.pages import Page
from management.admin.undo import done_with_undo
from management.admin.warehouse_choice import choose_warehouse, list_warehouses_of_all_projects, read_warehouse
from storage.models import Warehouse

ALMOST_OVER: Final = 0.1
"""Share of the time that is left from which the bar is a warning."""


class DeletedPage(Page):
    """The dropped objects of a warehouse, the next to expire first; the user chooses among the warehouses they see."""

    template_name = "console/deleted.html"
    section = "deleted"
    title = gettext_lazy("Deleted objects")

    def context(self) -> dict[str, Any]:
        given = self.request.GET
        warehouses = list_warehouses_of_all_projects(self.actor)
        wanted = choose_warehouse(self.actor, warehouses, given.get("warehouse"))
        namespace, name = self.query("namespace"), self.query("name")
        shown: dict[str, Any] = {
            "warehouses": warehouses, "warehouse": wanted, "rows": [], "namespace": namespace, "name": name,
        }  # fmt: skip
        if wanted is None:
            return shown
        shown["all_url"] = f"?{urlencode({'warehouse': wanted.pk})}"
        filters = DeletedFilters(split_levels(namespace), name)
        pager = read_pager(self.request, "deleted", wanted.pk, warehouse=str(wanted.pk), namespace=namespace, name=name)
        try:
            found, token = list_expiring_tabulars_for(
                actor=self.actor, warehouse_id=wanted.pk, filters=filters, page=pager.page
            )
        except Forbidden:
            return {**shown, "is_forbidden": True}
        return {
            **shown,
            "rows": [_listed(each) for each in found],
            "can_choose": any(each.can_restore or each.can_expire for each in found),
            "can_restore": any(each.can_restore for each in found),
            "can_expire": any(each.can_expire for each in found),
            **pager.links(token),
        }


def _listed(row: Dropped) -> dict[str, Any]:
    whole = (row.expires_at - row.deleted_at).total_seconds()
    left = max(0.0, (row.expires_at - now()).total_seconds())
    fraction = min(1.0, left / whole) if whole > 0 else 0.0
    return {
        "dropped": row,
        "name": ".".join((*row.levels, row.name)),
        "can_choose": row.can_restore or row.can_expire,
        "is_expired": left == 0,
        "fraction": fraction,
        "tone": "warning" if fraction < ALMOST_OVER else "accent",
    }


class ExpireNowPage(Page):
    """The confirmation of a permanent deletion before the time; its form has the digest of what it shows."""

    template_name = "console/expire_now.html"
    section = "deleted"
    title = gettext_lazy("Delete permanently")

    def context(self) -> dict[str, Any]:
        warehouse = read_warehouse(self.actor, self.request.GET)
        return self._shown(warehouse, self._preview(warehouse, self.request.GET))

    def post(self, request: HttpRequest) -> HttpResponse:
        """Run the expirations that the preview showed now. 409 with the new state if something has changed."""
        warehouse = read_warehouse(self.actor, request.POST)
        preview = self._preview(warehouse, request.POST)
        if preview.digest != request.POST.get("digest"):
            return self.render({**self._shown(warehouse, preview), "is_changed": True}, status=HTTPStatus.CONFLICT)
        if not preview.task_ids:
            raise BadRequest(_("None of the objects can be deleted now."))
        shown = self._shown(warehouse, preview)
        if request.POST.get("typed_name", "").strip() != shown["name"].strip():
            return self.render({**shown, "error": _("This is not the name")}, status=HTTPStatus.BAD_REQUEST)
        # A task whose object is restored meanwhile has ended, so that it is not run.
        started = run_tasks_at(actor=self.actor, scope=WarehouseTasks(warehouse.pk), task_ids=preview.task_ids, at=None)
        text = ngettext(
            "%(count)s object is deleted permanently by the next free worker.",
            "%(count)s objects are deleted permanently by the next free worker.",
            len(started),
        ) % {"count": len(started)}
        return done_with_undo(request, shown["back_url"], text, None)

    def _preview(self, warehouse: Warehouse, given: QueryDict) -> ExpirationPreview:
        return preview_expiration_for(actor=self.actor, warehouse_id=warehouse.pk, targets=read_targets(given))

    def _shown(self, warehouse: Warehouse, preview: ExpirationPreview) -> dict[str, Any]:
        deleted_url = f"{reverse('admin:deleted')}?{urlencode({'warehouse': warehouse.pk})}"
        return {
            "breadcrumb": [
                Crumb(warehouse.name, object_url("warehouse", warehouse.pk, None)),
                Crumb(gettext_lazy("Deleted objects"), deleted_url),
                Crumb(self.title),
            ],
            "warehouse_id": warehouse.pk,
            "targets": [f"{each.kind}:{each.uuid}" for each in preview.steps],
            "digest": preview.digest,
            "count": len(preview.task_ids),
            "rows": [_previewed(each) for each in preview.steps],
            "name": _name_to_type(preview.steps, warehouse),
            "back_url": deleted_url,
        }


def _name_to_type(steps: Sequence[ExpirationStep], warehouse: Warehouse) -> str:
    """Return the name of the only object, or that of the warehouse."""
    names = [each.dropped.name for each in steps if each.obstacle is None and each.dropped is not None]
    return names[0] if len(names) == 1 else warehouse.name


def _reason(obstacle: Obstacle) -> Text:
    if obstacle is Obstacle.FORBIDDEN:
        return _("You do not have the permission to delete it permanently")
    return REASONS[obstacle]


def _previewed(step: ExpirationStep) -> dict[str, Any]:
    dropped = step.dropped
    own_id: UUID = step.uuid
    return {
        "kind": step.kind,
        "name": str(own_id) if dropped is None else ".".join((*dropped.levels, dropped.name)),
        "dropped": dropped,
        "is_deleted": step.obstacle is None,
        "reason": "" if step.obstacle is None else _reason(step.obstacle),
    }
