"""Pages that create a namespace, and that rename or move one."""

from __future__ import annotations

from typing import Any, ClassVar, Final
from uuid import UUID

from django.http import HttpResponse
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.translation import gettext as _

from catalog.errors import ChildNamespaceProtected, NamespaceChanged, NamespaceProtected
from catalog.identifiers import Levels
from catalog.selectors.browse import LocatedNamespace, PathStep, locate_namespace_for, warehouse_path
from catalog.services.namespaces.create import create_namespace
from catalog.services.namespaces.move import move_namespace
from icekeeper.kernel.errors.types import AlreadyExists, BadRequest, Conflict, InvalidLocation, NoSuchNamespace
from management.admin.catalog.browse import tree_context
from management.admin.catalog.changed_by import last_changed_by
from management.admin.catalog.destinations import list_destinations
from management.admin.form_pages import Action, FormPage
from management.admin.level_text import join_levels, split_levels
from management.admin.navigation import Crumb, crumbs, object_url
from management.admin.undo import done_with_undo
from management.admin.warehouses.form_conflicts import read_version
from management.templatetags.console_messages import Undo
from storage.errors import no_such_warehouse
from storage.models import Warehouse
from storage.selectors import get_warehouse_for
from tenancy.authz.actions import Can
from tenancy.authz.permissions import require_permission
from tenancy.models import Securable

NAME: Final = "name"
PARENT: Final = "namespace"
LOCATION: Final = "location"


class NamespaceForm(FormPage):
    """A page that changes the namespace in its address. It is shown with the permission for the change only."""

    section = "catalog"
    required: ClassVar[Can]

    @cached_property
    def located(self) -> LocatedNamespace:
        """Return the namespace of the address. Raises `NoSuchNamespace`, `Forbidden`."""
        found = locate_namespace_for(
            actor=self.actor, warehouse_id=self.kwargs["warehouse_id"], namespace_id=self.kwargs["namespace_id"]
        )
        require_permission(self.actor, self.required, Securable.Type.NAMESPACE, found.namespace.pk)
        return found

    @property
    def url(self) -> str:
        """Return the address of the page of the namespace."""
        return object_url("namespace", self.located.namespace.pk, self.located.namespace.warehouse_id)

    def frame(self, title: str) -> dict[str, Any]:
        own, name = self.located.namespace, self.located.levels[-1]
        return {
            "title": title,
            "breadcrumb": [*crumbs(self.located.path), Crumb(name, self.url), Crumb(title)],
            "back_url": self.url,
            **tree_context(self.located.path, "namespace", own.pk, name),
        }


class NamespaceMovePage(NamespaceForm):
    """Renames a namespace, or moves it below another one, with everything in it."""

    template_name = "console/rename.html"
    required = Can.MOVE
    actions = {"rename": Action("move", (NAME, PARENT))}

    def context(self) -> dict[str, Any]:
        levels = self.located.levels
        return {
            **self.frame(_("Rename or move")),
            "effects": [
                _("Everything in it moves, too. Ids, files and the grants on it stay."),
                _("Below another namespace, the grants of that one apply, those of the former do not."),
                _("Engines and views find its tables under the new name only."),
            ],
            "name": levels[-1],
            "parent": join_levels(levels[:-1]),
            "version": self.located.namespace.version,
            "parent_help": _(
                r"Empty: directly in the warehouse. Levels are separated by dots. A dot in a name is written \."
            ),
            "destinations": list_destinations(self.actor, self.located.namespace.warehouse_id, levels),
            "has_protection": bool(self.text("action")) or self.located.namespace.protected,
        }

    def move(self) -> HttpResponse:
        own, former, version = self.located.namespace, self.located.levels, read_version(self.request.POST)
        parent = split_levels(self.text(PARENT).strip())
        try:
            moved = move_namespace(
                actor=self.actor,
                warehouse_id=own.warehouse_id,
                namespace_id=own.pk,
                destination=[*parent, self.text(NAME)],
                force=bool(self.text("force")),
                expected_version=version,
            )
        except NamespaceChanged as error:
            user = last_changed_by(self.actor, own)
            text = (
                _("Nothing was changed: %(user)s changed the namespace meanwhile. It is %(name)s now")
                if user
                else _("Nothing was changed: another user changed the namespace meanwhile. It is %(name)s now")
            )
            raise NamespaceChanged(text % {"user": user, "name": ".".join(former)}) from error
        except (NamespaceProtected, ChildNamespaceProtected) as error:
            raise Conflict(error.message) from error
        except NoSuchNamespace as error:
            if not parent:
                raise
            raise BadRequest(_("This namespace does not exist, or you do not see it"), field=PARENT) from error
        except AlreadyExists as error:
            raise Conflict(_("This name is taken there"), field=NAME) from error
        except BadRequest as error:
            raise BadRequest(error.message, field=NAME) from error
        back = [("action", "rename"), (NAME, former[-1]), (PARENT, join_levels(former[:-1]))]
        forced = [("force", "true")] if self.text("force") else []
        undo = Undo(self.request.path, [*back, *forced, ("version", str(moved.version))])
        text = _("%(former)s is now %(name)s.") % {"former": ".".join(former), "name": str(moved)}
        return done_with_undo(self.request, self.url, text, undo)


class NamespaceAddPage(FormPage):
    """Creates a namespace in the warehouse or namespace of the address."""

    template_name = "console/namespace_add.html"
    section = "catalog"
    actions = {"create": Action("create", (NAME, LOCATION))}

    @cached_property
    def parent(self) -> tuple[Levels, tuple[PathStep, ...]]:
        """Return the levels above the new namespace, and the path to them with the parent.

        Raises the errors of a hidden or missing parent, and `Forbidden`.
        """
        warehouse_id: UUID = self.kwargs["warehouse_id"]
        namespace_id: UUID | None = self.kwargs.get("namespace_id")
        if namespace_id is None:
            warehouse = get_warehouse_for(actor=self.actor, action=Can.CREATE_NAMESPACE, warehouse_id=warehouse_id)
            if warehouse.status != Warehouse.Status.ACTIVE:
                raise no_such_warehouse(warehouse_id)
            return (), warehouse_path(warehouse, warehouse.project)
        found = locate_namespace_for(actor=self.actor, warehouse_id=warehouse_id, namespace_id=namespace_id)
        require_permission(self.actor, Can.CREATE_NAMESPACE, Securable.Type.NAMESPACE, namespace_id)
        return found.levels, (*found.path, PathStep("namespace", str(namespace_id), found.levels[-1]))

    def context(self) -> dict[str, Any]:
        levels, path = self.parent
        last = path[-1]
        return {
            "title": _("New namespace"),
            "breadcrumb": [*crumbs(path), Crumb(_("New namespace"))],
            "back_url": object_url(last.kind, last.id, self.kwargs["warehouse_id"]),
            "parent_name": ".".join(levels),
            **tree_context(path[:-1], last.kind, last.id, last.name),
        }

    def create(self) -> HttpResponse:
        levels, _path = self.parent
        location = self.text(LOCATION).strip()
        try:
            created = create_namespace(
                actor=self.actor,
                warehouse_id=self.kwargs["warehouse_id"],
                levels=[*levels, self.text(NAME)],
                properties={LOCATION: location} if location else {},
            )
        except AlreadyExists as error:
            raise Conflict(_("This name is taken"), field=NAME) from error
        except InvalidLocation as error:
            raise BadRequest(error.message, field=LOCATION) from error
        except Conflict as error:
            raise Conflict(error.message, field=LOCATION) from error
        except BadRequest as error:
            raise BadRequest(error.message, field=NAME) from error
        url = reverse("admin:namespace", args=[created.warehouse_id, created.pk])
        return self.done(url, _("Namespace %(name)s was created.") % {"name": str(created)})
