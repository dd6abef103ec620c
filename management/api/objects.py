"""Paths of objects, and resolution of the object in the path of a request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

from django.urls import URLPattern, path

from catalog.errors import no_such_object
from catalog.objects.object_keys import ObjectKey, find_namespace_target, find_target
from management.api.base import ManagementViewSet
from tenancy.models import Project, Securable
from tenancy.selectors.objects import PermissionTarget, find_role_target, find_tag_target, target_project, the_server
from tenancy.selectors.projects import require_project_id
from tenancy.selectors.roles import role_id_not_found, role_not_found
from tenancy.selectors.tags import tag_id_not_found

T = Securable.Type
WAREHOUSE_PATH: Final = "v1/warehouse/<str:warehouse_id>"
OBJECT_PATHS: Final[Mapping[Securable.Type, str]] = {
    T.SERVER: "v1/server",
    T.PROJECT: "v1/project",
    T.WAREHOUSE: WAREHOUSE_PATH,
    T.NAMESPACE: f"{WAREHOUSE_PATH}/namespace/<str:namespace_id>",
    T.TABLE: f"{WAREHOUSE_PATH}/table/<str:table_id>",
    T.VIEW: f"{WAREHOUSE_PATH}/view/<str:view_id>",
    T.GENERIC_TABLE: f"{WAREHOUSE_PATH}/generic-table/<str:generic_table_id>",
    T.TAG: "v1/tag-definition/<str:tag_definition_id>",
    T.ROLE: "v1/role/<str:role_id>",
    T.USER: "v1/user/<str:user_id>",
}
PERMISSION_PATHS: Final[Mapping[Securable.Type, str]] = {
    **{kind: f"v1/permissions/{OBJECT_PATHS[kind].removeprefix('v1/')}" for kind in T if kind is not T.USER},
    T.NAMESPACE: "v1/permissions/namespace/<str:namespace_id>",
    T.TAG: "v1/permissions/tag/<str:tag_definition_id>",
}
PERMISSION_PROJECT_PATH: Final = "v1/permissions/project/<str:project_id>"


def object_routes(
    paths: Mapping[Securable.Type, str],
    kinds: Iterable[Securable.Type],
    ending: str,
    view: type[ObjectViewSet],
    actions: Mapping[str, str],
    *,
    name: str = "",
) -> list[URLPattern]:
    """Return the routes of one view for several types of objects: `ending` comes after the path of the object.

    They are called `name`, by default `ending`, after the type.
    """
    return [
        path(
            f"{paths[kind]}/{ending}".rstrip("/"),
            view.as_view(dict(actions), securable_type=kind),
            name=f"{kind}-{name or ending}",
        )
        for kind in kinds
    ]


class ObjectViewSet(ManagementViewSet):
    """Routes below the path of an object of the type `securable_type`."""

    @property
    def object_id(self) -> UUID:
        """The id, in the path, of an object in a warehouse. Raises the 404 of its type."""
        kind = self.securable_type.value
        name = "object_id" if "object_id" in self.kwargs else f"{kind.replace('-', '_')}_id"
        return self.path_id(name, lambda text: no_such_object(kind, text))

    @property
    def object_key(self) -> ObjectKey:
        """The warehouse in the path, or the object in it."""
        if self.securable_type is T.WAREHOUSE:
            return ObjectKey(T.WAREHOUSE, self.warehouse_id)
        return ObjectKey(self.securable_type, self.warehouse_id, self.object_id)

    def target(self, project: Project | None = None) -> PermissionTarget:
        """Return the object in the path, with `project` only if it is in that project. Raises the 404 of its type.

        Permissions are not checked: the target has the error for callers from whom it is hidden.
        """
        match self.securable_type:
            case T.SERVER:
                return the_server()
            case T.PROJECT:
                return target_project(project or self._project())
            case T.ROLE:
                role_id = self.path_id(
                    "role_id", lambda text: role_not_found(text, project) if project else role_id_not_found(text)
                )
                return find_role_target(project=project, role_id=role_id)
            case T.TAG:
                definition_id = self.path_id("tag_definition_id", lambda text: tag_id_not_found(text, project))
                return find_tag_target(project=project, definition_id=definition_id)
            case T.NAMESPACE if "warehouse_id" not in self.kwargs:
                return find_namespace_target(actor=self.actor, namespace_id=self.object_id)
            case _:
                return find_target(actor=self.actor, key=self.object_key, project=project)

    def _project(self) -> Project:
        """Return the project in the path, else that of the request."""
        is_named = "project_id" in self.kwargs
        return self.project(require_project_id(self.path_text("project_id")) if is_named else None)
