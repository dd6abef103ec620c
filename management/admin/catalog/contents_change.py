"""Changes of several tables and views of a namespace: a preview of what happens, and then the change."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final
from uuid import UUID

from django.http import HttpRequest, HttpResponse, QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from catalog.errors import PreviewOutdated, Protected
from catalog.selectors.browse import LocatedNamespace, locate_namespace_for
from catalog.selectors.tables.change_preview import (
    ChangeObstacle,
    ChangePreview,
    ChangeStep,
    TabularChange,
    preview_change_for,
)
from catalog.services.tables.bulk_changes import drop_tabulars, set_protection_of_tabulars
from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import BadRequest, NotFound
from management.admin.catalog.browse import tree_context
from management.admin.catalog.restore import read_targets
from management.admin.catalog.tabular_forms import undo_drop
from management.admin.navigation import Crumb, Text, crumbs, object_url
from management.admin.pages import Page
from management.admin.undo import done_with_undo

REASONS: Final[dict[ChangeObstacle, Text]] = {
    ChangeObstacle.NOT_FOUND: gettext_lazy("It does not exist any more, or you do not have the permission to see it"),
    ChangeObstacle.FORBIDDEN: gettext_lazy("You do not have the permission for it"),
    ChangeObstacle.PROTECTED: gettext_lazy("It is protected: remove the protection first"),
    ChangeObstacle.UNCHANGED: gettext_lazy("Nothing to change: it already has this state"),
}
LABELS: Final[dict[TabularChange, Text]] = {
    TabularChange.DROP: gettext_lazy("Drop"),
    TabularChange.PROTECT: gettext_lazy("Protect"),
    TabularChange.REMOVE_PROTECTION: gettext_lazy("Remove protection"),
}


class ContentsChangePage(Page):
    """The preview of a change of chosen tables and views; its form has the digest of what it shows."""

    template_name = "console/contents_change.html"
    section = "catalog"

    def context(self) -> dict[str, Any]:
        change, preview = self._preview(self.request.GET)
        return self._shown(change, preview)

    def post(self, request: HttpRequest, **_path: Any) -> HttpResponse:
        """Change what the preview showed, all or none. 409 with the new state if that has changed."""
        change, preview = self._preview(request.POST)
        digest = request.POST.get("digest", "")
        if preview.digest != digest:
            return self._render(change, preview, HTTPStatus.CONFLICT, is_changed=True)
        if not preview.changed:
            raise BadRequest(_("None of the objects can be changed."))
        name = self._located.levels[-1]
        is_permanent = change is TabularChange.DROP and not preview.warehouse.has_soft_delete
        if is_permanent and request.POST.get("typed_name", "").strip() != name.strip():
            return self._render(change, preview, HTTPStatus.BAD_REQUEST, error=_("This is not the name"))
        try:
            return self._apply(change, preview)
        except (PreviewOutdated, Protected, NotFound):  # changed after the preview above
            change, preview = self._preview(request.POST)
            return self._render(change, preview, HTTPStatus.CONFLICT, is_changed=True)

    def _apply(self, change: TabularChange, preview: ChangePreview) -> HttpResponse:
        warehouse_id, count, url = preview.warehouse.pk, len(preview.changed), self._url
        if change is not TabularChange.DROP:
            set_protection_of_tabulars(
                actor=self.actor,
                warehouse_id=warehouse_id,
                targets=preview.changed,
                is_protected=change is TabularChange.PROTECT,
                digest=preview.digest,
            )
            text = (
                ngettext("%(count)s object is protected now.", "%(count)s objects are protected now.", count)
                if change is TabularChange.PROTECT
                else ngettext(
                    "%(count)s object is not protected any more.",
                    "%(count)s objects are not protected any more.",
                    count,
                )
            )
            return done_with_undo(self.request, url, text % {"count": count}, None)
        expires_at = drop_tabulars(
            actor=self.actor,
            warehouse_id=warehouse_id,
            targets=preview.changed,
            purge=bool(self.request.POST.get("purge")),
            digest=preview.digest,
        )
        text = ngettext("%(count)s object was dropped.", "%(count)s objects were dropped.", count) % {"count": count}
        undo = None if expires_at is None or expires_at <= now() else undo_drop(warehouse_id, preview.changed)
        return done_with_undo(self.request, url, text, undo)

    def _preview(self, given: QueryDict) -> tuple[TabularChange, ChangePreview]:
        warehouse_id: UUID = self.kwargs["warehouse_id"]
        self._located: LocatedNamespace = locate_namespace_for(
            actor=self.actor, warehouse_id=warehouse_id, namespace_id=self.kwargs["namespace_id"]
        )
        self._url = object_url("namespace", self._located.namespace.pk, warehouse_id)
        wanted = given.get("do", "")
        if wanted not in set(TabularChange):
            raise BadRequest("do: must be one of the buttons of the page")
        change = TabularChange(wanted)
        preview = preview_change_for(
            actor=self.actor,
            warehouse_id=warehouse_id,
            namespace_id=self._located.namespace.pk,
            change=change,
            targets=read_targets(given),
        )
        return change, preview

    def _render(
        self, change: TabularChange, preview: ChangePreview, status: int, *, is_changed: bool = False, error: str = ""
    ) -> HttpResponse:
        shown = {**self._shown(change, preview), "is_changed": is_changed, "error": error}
        return self.render({**shown, "purge": bool(self.request.POST.get("purge"))}, status=status)

    def _shown(self, change: TabularChange, preview: ChangePreview) -> dict[str, Any]:
        located, label = self._located, LABELS[change]
        own, name = located.namespace, located.levels[-1]
        return {
            "title": label,
            "breadcrumb": [*crumbs(located.path), Crumb(name, self._url), Crumb(label)],
            "back_url": self._url,
            "do": change.value,
            "targets": [f"{each.kind}:{each.uuid}" for each in preview.steps],
            "digest": preview.digest,
            "count": len(preview.changed),
            "rows": [_row(each) for each in preview.steps],
            "is_drop": change is TabularChange.DROP,
            "has_soft_delete": preview.warehouse.has_soft_delete,
            "window": preview.warehouse.delete_profile.get("expiration-seconds"),
            "name": name,
            **tree_context(located.path, "namespace", own.pk, name),
        }


def _row(step: ChangeStep) -> dict[str, Any]:
    return {
        "kind": step.kind,
        "name": ".".join((*step.levels, step.name)) if step.name else str(step.uuid),
        "is_changed": step.obstacle is None,
        "files_size": step.files_size,
        "reason": "" if step.obstacle is None else REASONS[step.obstacle],
    }
