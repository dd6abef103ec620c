"""Restore of dropped tables and views: a preview of what is restored and what is left out, and then the restore."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from catalog.models import Tabular
from catalog.selectors.tables.undrop_preview import Named, Obstacle, UndropPreview, UndropStep, preview_undrop_for
from catalog.services.tables.undrop import undrop_tabulars
from icekeeper.kernel.errors.types import AlreadyExists, BadRequest, CatalogError, Conflict, NotFound
from icekeeper.kernel.ids import parse_id
from management.admin.navigation import Crumb, Text, object_url
from management.admin.pages import Page
from management.admin.warehouse_choice import read_warehouse
from management.templatetags.console import NOTHING
from storage.models import Warehouse

REASONS: Final[dict[Obstacle, Text]] = {
    Obstacle.NOT_FOUND: gettext_lazy("It does not exist any more, or you do not have the permission to see it"),
    Obstacle.FORBIDDEN: gettext_lazy("You do not have the permission to restore it"),
    Obstacle.NOT_DROPPED: gettext_lazy("It is not dropped any more"),
    Obstacle.EXPIRING: gettext_lazy("It is being deleted permanently"),
    Obstacle.NAME_TAKEN: gettext_lazy("Another object has its name"),
    Obstacle.NAME_TWICE: gettext_lazy("One that was dropped later has the same name, and is restored"),
}


class RestorePage(Page):
    """The preview of a restore; its form has the digest of what it shows."""

    template_name = "console/restore.html"
    section = "deleted"
    title = gettext_lazy("Restore")

    def context(self) -> dict[str, Any]:
        warehouse = read_warehouse(self.actor, self.request.GET)
        preview = self._preview(warehouse, read_targets(self.request.GET))
        return self._shown(warehouse, preview)

    def post(self, request: HttpRequest) -> HttpResponse:
        """Restore what the preview showed, by the service of the API. 409 with the new state if that has changed."""
        warehouse, targets = read_warehouse(self.actor, request.POST), read_targets(request.POST)
        preview = self._preview(warehouse, targets)
        if preview.digest != request.POST.get("digest"):
            return self._render_change(warehouse, preview)
        names = _new_names(preview, request.POST)
        if not (preview.restored or names):
            raise BadRequest(_("None of the objects can be restored."))
        try:
            undrop_tabulars(
                actor=self.actor, warehouse_id=warehouse.pk, targets=[*preview.restored, *names], new_names=names
            )
        except AlreadyExists as error:
            if names:  # of these, or of one that changed after the preview above
                return self._render_error(warehouse, targets, error, names)
            return self._render_change(warehouse, self._preview(warehouse, targets))
        except (Conflict, NotFound):  # changed after the preview above
            return self._render_change(warehouse, self._preview(warehouse, targets))
        except BadRequest as error:
            return self._render_error(warehouse, targets, error, names)
        messages.success(request, _done(preview, names))
        return HttpResponseRedirect(f"{reverse('admin:deleted')}?{urlencode({'warehouse': warehouse.pk})}")

    def _preview(self, warehouse: Warehouse, targets: Sequence[Named]) -> UndropPreview:
        return preview_undrop_for(actor=self.actor, warehouse_id=warehouse.pk, targets=targets)

    def _render_error(
        self, warehouse: Warehouse, targets: Sequence[Named], error: CatalogError, names: dict[Named, str]
    ) -> HttpResponse:
        shown = self._shown(warehouse, self._preview(warehouse, targets), names)
        return self.render({**shown, "error": error.message}, status=error.status)

    def _render_change(self, warehouse: Warehouse, preview: UndropPreview) -> HttpResponse:
        return self.render({**self._shown(warehouse, preview), "is_changed": True}, status=HTTPStatus.CONFLICT)

    def _shown(
        self, warehouse: Warehouse, preview: UndropPreview, names: Mapping[Named, str] | None = None
    ) -> dict[str, Any]:
        steps, restored = preview.steps, len(preview.restored)
        deleted_url = f"{reverse('admin:deleted')}?{urlencode({'warehouse': warehouse.pk})}"
        title = ngettext("Restore %(count)s object?", "Restore %(count)s objects?", len(steps)) % {"count": len(steps)}
        return {
            "title": title,
            "breadcrumb": [
                Crumb(warehouse.name, object_url("warehouse", warehouse.pk, None)),
                Crumb(_("Deleted objects"), deleted_url),
                Crumb(title.rstrip("?")),
            ],
            "warehouse_id": warehouse.pk,
            "targets": [f"{each.kind}:{each.uuid}" for each in steps],
            "digest": preview.digest,
            "restored": restored,
            "tiles": _tiles(steps, restored),
            "rows": [_row(each, warehouse.pk, names or {}) for each in steps],
            "can_rename": any(each.can_rename for each in steps),
            "back_url": deleted_url,
        }


class UndoDropAction(Page):
    """Restores what was just dropped, for the button in the message about the drop. What is not dropped is skipped."""

    http_method_names = ["post"]

    def post(self, request: HttpRequest) -> HttpResponse:
        warehouse_id = parse_id(request.POST.get("warehouse", ""))
        if warehouse_id is None:
            raise NotFound("No such warehouse")
        targets = read_targets(request.POST)
        preview = preview_undrop_for(actor=self.actor, warehouse_id=warehouse_id, targets=targets)
        undrop_tabulars(actor=self.actor, warehouse_id=warehouse_id, targets=targets)
        kind, uuid = targets[0]
        if len(targets) == 1:
            messages.success(request, _("%(name)s was restored.") % {"name": _name(preview.steps[0])})
            return HttpResponseRedirect(object_url(kind.value, uuid, warehouse_id))
        messages.success(request, _("%(count)s objects were restored.") % {"count": len(targets)})
        return HttpResponseRedirect(object_url("warehouse", warehouse_id, None))


def read_targets(given: QueryDict) -> list[Named]:
    """Return the objects of an address or a form. Raises `BadRequest` for none, and for texts that name none."""
    targets: list[Named] = []
    for text in given.getlist("target"):
        kind, _colon, uuid = text.partition(":")
        parsed: UUID | None = parse_id(uuid)
        if kind not in Tabular.Kind.values or parsed is None:
            raise BadRequest("target: must be the kind and the id of a table, a view or a generic table")
        targets.append((Tabular.Kind(kind), parsed))
    if not targets:
        raise BadRequest(_("Choose at least one object."))
    return targets


def _tiles(steps: Sequence[UndropStep], restored: int) -> list[dict[str, Any]]:
    counted = [each.grants for each in steps if each.grants is not None]
    expirations = [each.expires_at for each in steps if each.obstacle is None and each.expires_at is not None]
    return [
        {"label": _("Restored"), "value": str(restored), "note": _("under their names")},
        {"label": _("Left out"), "value": str(len(steps) - restored), "note": _("see below")},
        {
            "label": _("Grants in force again"),
            "value": str(sum(counted)) if counted else NOTHING,
            "note": _("on the objects themselves"),
        },
        {"label": _("Otherwise deleted"), "at": min(expirations, default=None), "note": _("the first of them")},
        {"label": _("Undo"), "value": _("Drop again"), "note": _("restored objects can be dropped again")},
    ]


def _new_names(preview: UndropPreview, given: QueryDict) -> dict[Named, str]:
    """Return the names that the user entered for objects whose own name is taken."""
    entered = {
        _named(each): given.get(f"name:{each.kind}:{each.uuid}", "") for each in preview.steps if each.can_rename
    }
    return {named: name for named, name in entered.items() if name.strip()}


def _row(step: UndropStep, warehouse_id: UUID, names: Mapping[Named, str]) -> dict[str, Any]:
    occupant = step.occupant
    return {
        "can_rename": step.can_rename,
        "field": f"name:{step.kind}:{step.uuid}",
        "new_name": names.get(_named(step), ""),
        "kind": step.kind,
        "name": _name(step),
        "is_restored": step.obstacle is None,
        "dropped": step.deleted_at,
        "reason": "" if step.obstacle is None else REASONS[step.obstacle],
        "occupant_url": None if occupant is None else object_url(occupant.kind, occupant.uuid, warehouse_id),
        "occupant_created": None if occupant is None else occupant.created_at,
    }


def _name(step: UndropStep) -> str:
    return ".".join((*step.levels, step.name)) if step.name else str(step.uuid)


def _done(preview: UndropPreview, names: Mapping[Named, str]) -> str:
    restored = [each for each in preview.steps if each.obstacle is None or _named(each) in names]
    if len(restored) == 1:
        (one,) = restored
        name = names.get(_named(one), one.name)
        return _("%(name)s was restored.") % {"name": ".".join((*one.levels, name))}
    return _("%(count)s objects were restored.") % {"count": len(restored)}


def _named(step: UndropStep) -> Named:
    return Tabular.Kind(step.kind), step.uuid
