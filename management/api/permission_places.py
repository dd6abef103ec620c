"""The objects that rights hang on, as the routes below `permissions` address them: of whatever project."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter

from catalog.errors import no_such_object
from catalog.objects.object_keys import find_namespace_target, find_target
from icekeeper.kernel.http.raw_path import decode_segment
from management.api.rights_places import RightsView
from management.api.schema import MISSING_OBJECTS, OBJECT_TYPES, PROJECT_HEADER, PROJECT_ID, ObjectType
from tenancy.models import Project, Securable
from tenancy.selectors.objects import RightsTarget, find_role_target, find_tag_target, target_project, the_server
from tenancy.selectors.projects import require_project_id
from tenancy.selectors.roles import role_id_not_found
from tenancy.selectors.tags import tag_id_not_found

T = Securable.Type
TAGS = ["permission"]


def _id(name: str, noun: str) -> OpenApiParameter:
    return OpenApiParameter(name, OpenApiTypes.UUID, OpenApiParameter.PATH, description=f"The {noun}'s id")


_told: Final = OBJECT_TYPES
PROJECT_BY_ID: Final = replace(_told[T.PROJECT], parameters=[PROJECT_ID])
DESCRIBED: Final[Mapping[Securable.Type, ObjectType]] = {
    T.SERVER: _told[T.SERVER],
    T.PROJECT: replace(_told[T.PROJECT], parameters=[PROJECT_HEADER]),
    T.WAREHOUSE: _told[T.WAREHOUSE],
    T.NAMESPACE: replace(
        _told[T.NAMESPACE],
        parameters=[_id("namespace_id", "namespace")],
        missing=MISSING_OBJECTS[Securable.Type.NAMESPACE],
    ),
    T.TABLE: _told[T.TABLE],
    T.VIEW: _told[T.VIEW],
    T.GENERIC_TABLE: _told[T.GENERIC_TABLE],
    T.ROLE: replace(_told[T.ROLE], missing="`RoleIdNotFound`"),
    T.TAG: replace(_told[T.TAG], noun="a tag", parameters=[_id("tag_definition_id", "tag definition")]),
}


class PermissionView(RightsView):
    """What is below the address of an object with rights of its own."""

    def target(self) -> RightsTarget:
        """The object of the path. Raises the 404 of its type; who may not see it gets the same from what follows."""
        match self.kind:
            case T.SERVER:
                return the_server()
            case T.PROJECT:
                return target_project(self._project())
            case T.NAMESPACE:
                namespace_id = self.path_id("namespace_id", lambda text: no_such_object("namespace", text))
                return find_namespace_target(actor=self.actor, namespace_id=namespace_id)
            case T.ROLE:
                role_id = self.path_id("role_id", role_id_not_found)
                return find_role_target(actor=self.actor, project=None, role_id=role_id)
            case T.TAG:
                definition_id = self.path_id("tag_definition_id", lambda text: tag_id_not_found(text, None))
                return find_tag_target(actor=self.actor, project=None, definition_id=definition_id)
            case _:
                return find_target(actor=self.actor, key=self.object_key(), project=None)

    def _project(self) -> Project:
        """The one of the path, else of the request."""
        named = self.kwargs.get("project_id")
        return self.project(None if named is None else require_project_id(decode_segment(named)))
