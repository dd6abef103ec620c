"""Tag definitions of a project: their list, and the page of each with its values and the objects that have the tag."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final
from uuid import UUID

from django.http import HttpResponse
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.selectors.tagged_objects import Attached, list_tag_attachments_for, name_attached_objects_for
from icekeeper.kernel.errors.types import BadRequest, CatalogError, Forbidden
from management.admin.accounts.project_objects import ObjectOfProject, ProjectListPage, allowed_on_project
from management.admin.form_pages import Action, ConfirmPage
from management.admin.listing_pages import read_pager
from management.admin.navigation import Crumb, Text, object_url
from management.admin.times import read_moment
from tenancy.authz.actions import Can
from tenancy.models import Securable, TagDefinition
from tenancy.selectors.tags import (
    AttachmentFilter,
    get_tag_definition_of_any_project_for,
    list_tag_definitions_for,
    tag_id_not_found,
)
from tenancy.services.tags import (
    RESERVED_PREFIXES,
    TagDefinitionChanged,
    create_tag_definition,
    delete_tag_definition,
    update_tag_definition,
)

KIND_LABELS: Final = {
    TagDefinition.ValueKind.MARKER: gettext_lazy("no value"),
    TagDefinition.ValueKind.FREE_TEXT: gettext_lazy("any text"),
    TagDefinition.ValueKind.ENUMERATED: gettext_lazy("one of the allowed values"),
}


def tag_url(definition_id: UUID) -> str:
    return reverse("admin:tag", args=[definition_id])


class TagsPage(ProjectListPage):
    """The tag definitions of a project that the user may see; `?q=` finds one by its whole name."""

    template_name = "console/tags.html"
    section = "tags"
    title = gettext_lazy("Tags")
    actions: ClassVar[Mapping[str, Action]] = {
        "create": Action("create", ("name", "description", "scope", "value-kind", "allowed-values")),
    }

    def context(self) -> dict[str, Any]:
        project, typed, shown = self.project, self.query("q"), self.frame()
        if project is None:
            return shown
        pager = read_pager(self.request, "tags", project=project.pk, q=typed)
        try:
            found, token = list_tag_definitions_for(
                actor=self.actor, project=project, name=typed or None, page=pager.page
            )
        except Forbidden:
            return {**shown, "is_forbidden": True}
        return {
            **shown,
            "rows": [_definition_row(each) for each in found],
            "can_create": bool(allowed_on_project(self.actor, project, [Can.CREATE_TAG])),
            "scope_options": scope_options(self.request.POST.getlist("scope")),
            "kind_options": self._kind_options(),
            **pager.links(token),
        }

    def _kind_options(self) -> list[tuple[str, Text, bool]]:
        chosen = self.request.POST.get("value-kind", TagDefinition.ValueKind.MARKER)
        return [(each.value, f"{each.value}: {KIND_LABELS[each]}", each == chosen) for each in TagDefinition.ValueKind]

    def create(self) -> HttpResponse:
        definition = create_tag_definition(
            actor=self.actor,
            project=self.require_project(),
            name=self.text("name").strip(),
            scope=read_scope(self.request.POST.getlist("scope")),
            value_kind=self._value_kind(),
            allowed_values=self.lines("allowed-values"),
            description=self.text("description").strip() or None,
        )
        return self.done(tag_url(definition.pk), _("Tag %(name)s is created.") % {"name": definition.name})

    def _value_kind(self) -> str:
        kind = self.text("value-kind")
        if kind not in TagDefinition.ValueKind.values:
            raise BadRequest(_("value-kind: must be one of the choices"), field="value-kind")
        return kind


def scope_options(chosen: list[str]) -> list[tuple[str, str, bool]]:
    return [(each.value, each.value, each.value in chosen) for each in TagDefinition.Scope]


def read_scope(given: list[str]) -> list[str]:
    """Return the types in a form. Raises `BadRequest` for another one."""
    if not set(given) <= set(TagDefinition.Scope.values):
        raise BadRequest(_("scope: must be some of the choices"), field="scope")
    return given


def _definition_row(definition: TagDefinition) -> dict[str, Any]:
    return {
        "id": definition.pk,
        "url": tag_url(definition.pk),
        "name": definition.name,
        "description": definition.description or "",
        "scope": list(definition.scope),
        "kind": definition.value_kind,
        "created_at": definition.created_at,
    }


class TagOfAddress(ObjectOfProject):
    """The base of the pages of one definition."""

    object_type = Securable.Type.TAG
    list_view = "admin:tags"
    list_title = gettext_lazy("Tags")

    @cached_property
    def definition(self) -> TagDefinition:
        return get_tag_definition_of_any_project_for(actor=self.actor, definition_id=self.kwargs["definition_id"])

    @property
    def shown_object(self) -> TagDefinition:
        return self.definition

    def not_found(self) -> CatalogError:
        return tag_id_not_found(self.definition.pk, self.project)


class TagPage(TagOfAddress):
    """A tag definition: its values and scope, and the objects that have the tag."""

    template_name = "console/tag.html"
    section = "tags"
    actions: ClassVar[Mapping[str, Action]] = {
        "update": Action("update", ("name", "description", "scope", "add-allowed-values")),
    }

    def context(self) -> dict[str, Any]:
        definition = self.definition
        allowed = self.allowed(Can.UPDATE, Can.DELETE, Can.READ_ATTACHMENTS)
        is_reserved = definition.name_key.startswith(RESERVED_PREFIXES)
        chosen = self.request.POST.getlist("scope") or list(definition.scope)
        shown: dict[str, Any] = {
            "title": definition.name,
            "breadcrumb": [*self.list_crumbs(), Crumb(definition.name)],
            "definition": {
                **_definition_row(definition),
                "values": list(definition.allowed_values),
                "revision": definition.changed_at.isoformat(),
                "changed_at": definition.changed_at,
                "is_enumerated": definition.value_kind == TagDefinition.ValueKind.ENUMERATED,
                "kind_label": KIND_LABELS[TagDefinition.ValueKind(definition.value_kind)],
            },
            "can_update": Can.UPDATE in allowed and not is_reserved,
            "can_delete": Can.DELETE in allowed and not is_reserved,
            "can_read_attachments": Can.READ_ATTACHMENTS in allowed,
            "scope_options": scope_options(chosen),
            "delete_url": reverse("admin:tag-delete", args=[definition.pk]),
            "access_url": reverse("admin:object-access", args=[f"tag:{definition.pk}"]),
        }
        if Can.READ_ATTACHMENTS in allowed:
            shown |= self._attachments()
        return shown

    def _attachments(self) -> dict[str, Any]:
        value = self.query("value") or None
        pager = read_pager(self.request, "tagged", self.definition.pk, value=value)
        found, token = list_tag_attachments_for(
            actor=self.actor, project=self.project, definition_id=self.definition.pk,
            wanted=AttachmentFilter(value=value), page=pager.page,
        )  # fmt: skip
        names = name_attached_objects_for(actor=self.actor, found=found)
        rows = [_attachment_row(each, names.get(each.attachment.pk)) for each in found]
        return {"value": value, "attachments": rows, **pager.links(token)}

    def update(self) -> HttpResponse:
        definition_id = self.definition.pk
        try:
            definition = update_tag_definition(
                actor=self.actor,
                project=self.project,
                definition_id=definition_id,
                name=self.text("name").strip(),
                scope=read_scope(self.request.POST.getlist("scope")),
                description=self.text("description").strip() or None,
                add_allowed_values=self.lines("add-allowed-values") or None,
                unchanged_since=read_moment(self.text("changed_at")),
            )
        except TagDefinitionChanged:
            del self.definition  # the page shows the stored values next to those that were entered
            raise
        return self.done(tag_url(definition_id), _("Tag %(name)s is updated.") % {"name": definition.name})


def _attachment_row(attached: Attached, name: str | None) -> dict[str, Any]:
    """Return an object as the template shows it; one that is hidden from the user by its id only, as in the API."""
    is_column = attached.type == TagDefinition.Scope.COLUMN
    kind = "table" if is_column else attached.type.value
    return {
        "kind": attached.type.value,
        "icon": {"namespace": "folder"}.get(kind, kind),
        "id": attached.object_id,
        "name": name,
        "url": None if name is None else object_url(kind, attached.object_id, attached.warehouse_id),
        "field_id": attached.attachment.field_id,
        "value": attached.attachment.value or "",
        "at": attached.attachment.created_at,
    }


class TagDeletePage(ConfirmPage, TagOfAddress):
    """What the deletion of a definition means, before it happens."""

    section = "tags"

    def context(self) -> dict[str, Any]:
        if not self.allowed(Can.DELETE):
            raise Forbidden(_("You do not have the permission to delete this tag"))
        return super().context()

    def heading(self) -> str:
        return _("Delete tag %(name)s?") % {"name": self.definition.name}

    def crumbs(self) -> list[Crumb]:
        return [*self.list_crumbs(), Crumb(self.definition.name, self.back_url())]

    def effects(self) -> list[Text]:
        return [
            _("Only a tag that no object has can be deleted. Dropped objects keep their tags until they expire."),
            _("The grants on the definition are revoked. The deletion cannot be undone."),
        ]

    def back_url(self) -> str:
        return tag_url(self.definition.pk)

    def delete(self) -> HttpResponse:
        name = self.definition.name
        delete_tag_definition(actor=self.actor, project=self.project, definition_id=self.definition.pk)
        return self.done(self.list_url(), _("Tag %(name)s is deleted.") % {"name": name})
