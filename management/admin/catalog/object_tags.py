"""The tags of an object: own and inherited ones on its tab Properties, and the forms that attach and detach a tag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _

from catalog.models import Namespace, Tabular
from catalog.selectors.browse import (
    LocatedNamespace,
    LocatedTabular,
    PathStep,
    locate_namespace_for,
    locate_tabular_for,
)
from catalog.selectors.tagged_objects import TagTargetKey
from catalog.services.tags import attach_tag, detach_tag
from icekeeper.kernel.errors.types import BadRequest, Forbidden, NotFound
from icekeeper.kernel.http.paging import Page as ListingPage
from management.admin.form_pages import message_of
from management.admin.navigation import VIEW_OF_KIND
from management.admin.pages import Page
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import is_allowed
from tenancy.models import Project, Securable
from tenancy.models.securable import ObjectRef
from tenancy.selectors.tags import (
    TagDefinitionNameNotFound,
    TargetTag,
    effective_tags_on,
    list_tag_definitions_for,
    tags_on_columns,
)

MAX_SUGGESTED: Final = 200
MAX_LENGTH: Final = 256


def tags_context(
    request: HttpRequest,
    actor: Actor,
    *,
    project: Project,
    path: Sequence[PathStep],
    ref: ObjectRef,
    warehouse_id: UUID,
    public_id: UUID,
) -> dict[str, Any]:
    """Return the tags of an object that the actor sees, and the address of the forms if they may manage them.

    The query has what was entered in a form that failed.
    """
    names = {(step.kind, step.id): step.name for step in path}
    rows = [_row(each, names) for each in effective_tags_on(ref)]
    if not is_allowed(actor, Can.MANAGE_TAGS, *ref):
        return {"tags": rows, "tags_url": None, "tag_names": ()}
    page = ListingPage("console tags of an object", None, MAX_SUGGESTED)
    try:
        definitions, _token = list_tag_definitions_for(actor=actor, project=project, name=None, page=page)
    except Forbidden:
        definitions = []
    suggested = [each.name for each in definitions if ref.type.value in each.scope]
    url = reverse("admin:object-tags", args=[warehouse_id, ref.type.value, public_id])
    entered = {name: request.GET.get(name, "")[:MAX_LENGTH] for name in ("tag", "tag-value")}
    return {"tags": rows, "tags_url": url, "tag_names": suggested, "tag_entered": entered}


def column_tags(table_id: UUID) -> dict[int, list[str]]:
    """Return the tags on the columns of a table by field id: names, with `=value` where they have one."""
    tags = tags_on_columns(ObjectRef(Securable.Type.TABLE, table_id))
    return {field_id: [_label(each) for each in on_column] for field_id, on_column in tags.items()}


def _label(tag: TargetTag) -> str:
    name, value = tag.attachment.definition.name, tag.attachment.value
    return name if value is None else f"{name}={value}"


def _row(tag: TargetTag, names: Mapping[tuple[str, str], str]) -> dict[str, Any]:
    above = tag.inherited_from
    origin = "" if above is None else f"{above.type} {names.get((above.type, above.object_id), '')}".strip()
    return {"name": tag.attachment.definition.name, "value": tag.attachment.value, "origin": origin}


class ObjectTagsAction(Page):
    """Attaches a tag to a namespace, table, view or generic table, or detaches it, by the services of the API."""

    http_method_names = ["post"]

    def post(self, request: HttpRequest, *, warehouse_id: UUID, kind: str, object_id: UUID) -> HttpResponse:
        if kind not in VIEW_OF_KIND:
            raise NotFound("No such page")
        action = request.POST.get("action", "")
        if action not in {"attach", "detach"}:
            raise BadRequest("action: must be one of the buttons of the page")
        name = request.POST.get("name", "").strip()[:MAX_LENGTH]
        project = self._project(warehouse_id, kind, object_id)
        entered: dict[str, str] = {}
        key = TagTargetKey(warehouse_id, Securable.Type(kind), object_id)
        try:
            if action == "attach":
                value = request.POST.get("value", "").strip()[: MAX_LENGTH + 1] or None
                attach_tag(actor=self.actor, project=project, key=key, name=name, value=value)
                messages.success(request, _("Tag %(name)s attached") % {"name": name})
            else:
                detach_tag(actor=self.actor, project=project, key=key, name=name)
                messages.success(request, _("Tag %(name)s removed") % {"name": name})
        except (BadRequest, TagDefinitionNameNotFound) as error:
            text = _("This tag does not exist in the project.") if isinstance(error, TagDefinitionNameNotFound) else ""
            messages.error(request, text or message_of(error))
            entered = {"tag": name, "tag-value": request.POST.get("value", "")[:MAX_LENGTH]}
        url = reverse(f"{VIEW_OF_KIND[kind]}-tab", args=[warehouse_id, object_id, "properties"])
        return HttpResponseRedirect(f"{url}?{urlencode(entered)}#tags" if entered else url)

    def _project(self, warehouse_id: UUID, kind: str, object_id: UUID) -> Project:
        """Return the project of an object that the caller sees. Raises the `NoSuch...` of its kind (404)."""
        found: LocatedNamespace | LocatedTabular
        namespace: Namespace
        if kind == Securable.Type.NAMESPACE:
            found = locate_namespace_for(actor=self.actor, warehouse_id=warehouse_id, namespace_id=object_id)
            namespace = found.namespace
        else:
            found = locate_tabular_for(
                actor=self.actor, warehouse_id=warehouse_id, kind=Tabular.Kind(kind), uuid=object_id
            )
            namespace = found.tabular.namespace
        return namespace.warehouse.project
