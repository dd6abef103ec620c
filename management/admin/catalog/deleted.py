"""Dropped tables and views that can be restored."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

from django.utils.translation import gettext_lazy as _

from catalog.selectors.tables.deleted import list_deleted_tabulars_for
from icekeeper.kernel.errors.types import Forbidden
from icekeeper.kernel.http.paging import Page as ListingPage
from management.admin.pages import Page
from management.admin.warehouse_choice import choose_warehouse, list_warehouses_of_all_projects
from tenancy.authz.actions import Can
from tenancy.authz.permissions import check_permissions
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef

ROWS_A_PAGE: Final = 50


class DeletedPage(Page):
    """The dropped objects of a warehouse; the user chooses among the warehouses that they see."""

    template_name = "console/deleted.html"
    section = "deleted"
    title = _("Deleted objects")

    def context(self) -> dict[str, Any]:
        warehouses = list_warehouses_of_all_projects(self.actor)
        wanted = choose_warehouse(self.actor, warehouses, self.request.GET.get("warehouse"))
        shown: dict[str, Any] = {"warehouses": warehouses, "warehouse": wanted, "rows": [], "next_url": None}
        if wanted is None:
            return shown
        page = ListingPage("deleted", self.request.GET.get("after"), ROWS_A_PAGE)
        try:
            found, token = list_deleted_tabulars_for(
                actor=self.actor, warehouse_id=wanted.pk, namespace_id=None, page=page
            )
        except Forbidden:
            shown["is_forbidden"] = True
            return shown
        refs: list[ObjectRef] = [ObjectRef(Securable.Type(each.kind), each.id) for each in found]
        can_restore = check_permissions(self.actor, [(Can.UNDROP, ref) for ref in refs]) if refs else []
        shown["rows"] = list(zip(found, can_restore, strict=True))
        shown["can_restore"] = any(can_restore)
        if token is not None:
            shown["next_url"] = f"?{urlencode({'warehouse': wanted.pk, 'after': token})}"
        return shown
