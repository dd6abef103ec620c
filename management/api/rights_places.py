"""Views below the path of an object, until each is a ViewSet of `management.api.objects`."""

from __future__ import annotations

from typing import ClassVar

from catalog.errors import no_such_object
from catalog.objects.object_keys import ObjectKey, find_target
from management.api.base import ManagementView
from tenancy.models import Securable
from tenancy.selectors.objects import PermissionTarget, find_tag_target, target_project, the_server
from tenancy.selectors.tags import tag_id_not_found

T = Securable.Type


class RightsView(ManagementView):
    kind: ClassVar[Securable.Type]

    def object_key(self) -> ObjectKey:
        if self.kind is T.WAREHOUSE:
            return ObjectKey(T.WAREHOUSE, self.warehouse_id)
        warehouse_id, kind = self.warehouse_id, self.kind.value
        object_id = self.path_id(f"{kind.replace('-', '_')}_id", lambda text: no_such_object(kind, text))
        return ObjectKey(self.kind, warehouse_id, object_id)


class GrantedView(RightsView):
    """Routes below the path of an object that privileges can be granted on. It is in the request's project."""

    def target(self) -> PermissionTarget:
        if self.kind is T.SERVER:
            return the_server()
        project = self.project()
        if self.kind is T.PROJECT:
            return target_project(project)
        if self.kind is T.TAG:
            definition_id = self.path_id("tag_definition_id", lambda text: tag_id_not_found(text, project))
            return find_tag_target(project=project, definition_id=definition_id)
        return find_target(actor=self.actor, key=self.object_key(), project=project)
