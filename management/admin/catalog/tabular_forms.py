"""Pages that change one table, view or generic table: rename and move, and drop."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar, Final
from uuid import UUID

from django.http import HttpResponse
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.translation import gettext as _

from catalog.errors import PreviewOutdated
from catalog.identifiers import Identifier
from catalog.models import Tabular
from catalog.selectors.browse import LocatedTabular, locate_tabular_for
from catalog.selectors.tables.change_preview import TabularChange, change_digest
from catalog.services.tables.bulk_changes import drop_tabulars
from catalog.services.tables.rename import rename_tabular
from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import AlreadyExists, BadRequest, Conflict, NoSuchNamespace, NotFound
from management.admin.catalog.browse import tree_context
from management.admin.catalog.destinations import list_destinations
from management.admin.form_pages import Action, FormPage
from management.admin.level_text import join_levels, split_levels
from management.admin.navigation import Crumb, crumbs, object_url
from management.admin.undo import done_with_undo
from management.templatetags.console_messages import Undo
from tenancy.authz.actions import Can
from tenancy.authz.permissions import require_permission
from tenancy.models import Securable

NAME: Final = "name"
NAMESPACE: Final = "namespace"
FORMER: Final = "former"


class TabularForm(FormPage):
    """A page that changes the tabular in its address. It is shown with the permission for the change only."""

    section = "catalog"
    required: ClassVar[Can]
    kinds: ClassVar[Collection[str]] = Tabular.Kind.values

    @cached_property
    def located(self) -> LocatedTabular:
        """Return the tabular of the address. Raises the `NoSuch...` of its kind, `NotFound`, `Forbidden`."""
        kind = self.kwargs["kind"]
        if kind not in self.kinds:
            raise NotFound("No such page")
        found = locate_tabular_for(
            actor=self.actor,
            warehouse_id=self.kwargs["warehouse_id"],
            kind=Tabular.Kind(kind),
            uuid=self.kwargs["object_id"],
        )
        require_permission(self.actor, self.required, Securable.Type(kind), found.tabular.pk)
        return found

    @property
    def warehouse_id(self) -> UUID:
        return self.located.tabular.warehouse_id

    @property
    def url(self) -> str:
        """Return the address of the page of the tabular."""
        return object_url(self.located.tabular.kind, self.located.tabular.uuid, self.warehouse_id)

    def frame(self, title: str) -> dict[str, Any]:
        tabular = self.located.tabular
        return {
            "title": title,
            "breadcrumb": [*crumbs(self.located.path), Crumb(tabular.name, self.url), Crumb(title)],
            "back_url": self.url,
            **tree_context(self.located.path, tabular.kind, tabular.uuid, tabular.name),
        }


class TabularRenamePage(TabularForm):
    """Renames a tabular, or moves it to another namespace; its form has the name that it was filled from."""

    template_name = "console/rename.html"
    required = Can.RENAME
    actions = {"rename": Action("rename", (NAME, NAMESPACE))}

    def context(self) -> dict[str, Any]:
        identifier = self.located.identifier
        return {
            **self.frame(_("Rename or move")),
            "effects": [
                _("Its id, its files and the grants on it stay."),
                _("In another namespace, the grants of that one apply, those of the former do not."),
                _("Engines and views find it under the new name only."),
            ],
            "name": identifier.name,
            "parent": join_levels(identifier.levels),
            "former": join_levels((*identifier.levels, identifier.name)),
            "parent_help": _(r"Levels are separated by dots. A dot in a name is written \."),
            "destinations": list_destinations(self.actor, self.warehouse_id, identifier.levels),
        }

    def rename(self) -> HttpResponse:
        tabular, stored = self.located.tabular, self.located.identifier
        former = split_levels(self.text(FORMER))
        if former != (*stored.levels, stored.name):
            raise Conflict(_("Nothing was changed: another user renamed it to %(name)s") % {"name": str(stored)})
        destination = Identifier(split_levels(self.text(NAMESPACE).strip()), self.text(NAME))
        if not destination.levels:
            raise BadRequest(_("Enter a namespace"), field=NAMESPACE)
        try:
            rename_tabular(
                actor=self.actor,
                warehouse_id=self.warehouse_id,
                source=stored,
                destination=destination,
                kind=Tabular.Kind(tabular.kind),
                expected_uuid=tabular.uuid,
            )
        except NoSuchNamespace as error:
            raise BadRequest(_("This namespace does not exist, or you do not see it"), field=NAMESPACE) from error
        except AlreadyExists as error:
            raise Conflict(_("This name is taken in the namespace"), field=NAME) from error
        except BadRequest as error:
            raise BadRequest(error.message, field=NAME) from error
        back = [("action", "rename"), (NAME, stored.name), (NAMESPACE, join_levels(stored.levels))]
        undo = Undo(self.request.path, [*back, (FORMER, join_levels((*destination.levels, destination.name)))])
        text = _("%(former)s is now %(name)s.") % {"former": str(stored), "name": str(destination)}
        return done_with_undo(self.request, self.url, text, undo)


class TabularDropPage(TabularForm):
    """Drops a tabular: in a warehouse with soft delete at once, as it can be restored, else after a confirmation."""

    template_name = "console/drop.html"
    required = Can.DROP
    actions = {"drop": Action("drop", ("typed_name",))}

    def context(self) -> dict[str, Any]:
        tabular, warehouse = self.located.tabular, self.located.tabular.namespace.warehouse
        return {
            **self.frame(_("Drop %(name)s?") % {"name": tabular.name}),
            "kind": tabular.kind,
            "name": tabular.name,
            "identifier": str(self.located.identifier),
            "location": tabular.location,
            "is_protected": tabular.protected,
            "has_soft_delete": warehouse.has_soft_delete,
            "window": warehouse.delete_profile.get("expiration-seconds"),
            "digest": change_digest(TabularChange.DROP, warehouse, [tabular]),
        }

    def drop(self) -> HttpResponse:
        tabular, identifier = self.located.tabular, self.located.identifier
        is_forced, digest = bool(self.text("force")), self.text("digest")
        if digest != self.context()["digest"]:
            raise PreviewOutdated(_("Nothing was dropped: it has changed since you looked. Check it, and drop again"))
        is_permanent = is_forced or not tabular.namespace.warehouse.has_soft_delete
        if is_permanent and self.text("typed_name").strip() != tabular.name.strip():
            raise BadRequest(_("This is not the name"), field="typed_name")
        kind = Tabular.Kind(tabular.kind)
        expires_at = drop_tabulars(
            actor=self.actor,
            warehouse_id=self.warehouse_id,
            targets=[(kind, tabular.uuid)],
            purge=bool(self.text("purge")),
            force=is_forced,
            digest=digest,
        )
        above = object_url(NAMESPACE, tabular.namespace_id, self.warehouse_id)
        if expires_at is None or expires_at <= now():
            return self.done(above, _("%(name)s was dropped.") % {"name": str(identifier)})
        text = _("%(name)s was dropped. It can be restored until %(time)s.") % {
            "name": str(identifier), "time": expires_at.strftime("%Y-%m-%d %H:%M UTC"),
        }  # fmt: skip
        return done_with_undo(self.request, above, text, undo_drop(self.warehouse_id, [(kind, tabular.uuid)]))


def undo_drop(warehouse_id: UUID, targets: list[tuple[Tabular.Kind, UUID]]) -> Undo:
    """Return the form that restores what was just dropped."""
    named = [("target", f"{kind.value}:{uuid}") for kind, uuid in targets]
    return Undo(reverse("admin:undo-drop"), [("warehouse", str(warehouse_id)), *named])
