"""Bases of the pages of roles and tags, which are in a project: the page of a list, and the pages of one object."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.functional import cached_property

from icekeeper.kernel.errors.types import CatalogError
from management.admin.form_pages import FormPage
from management.admin.navigation import Crumb, Text
from management.admin.project_choice import choose_project, project_context
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.models import Project, Role, Securable, TagDefinition
from tenancy.models.securable import ObjectRef
from tenancy.selectors.permission_checks import list_allowed_actions_for
from tenancy.selectors.projects import list_projects_for, no_such_project


def list_url(view: str, project: Project) -> str:
    """Return the address of a `ProjectListPage`."""
    return f"{reverse(view)}?{urlencode({'project': project.pk})}"


def allowed_on_project(actor: Actor, project: Project, actions: Sequence[Can]) -> list[Can]:
    """Return those of the actions that `actor` may do on a project; the services check them again."""
    ref = ObjectRef(Securable.Type.PROJECT, project.pk)
    missing = no_such_project(project.pk)
    return list_allowed_actions_for(actor=actor, grantee=None, ref=ref, actions=actions, missing=missing)


class ProjectListPage(FormPage):
    """The base of the list of objects of a project, which its address names; `?q=` filters the list."""

    @cached_property
    def projects(self) -> list[Project]:
        return list_projects_for(actor=self.actor)

    @cached_property
    def project(self) -> Project | None:
        return choose_project(self.projects, self.query("project"))

    def require_project(self) -> Project:
        """Raises `ProjectNotFound` (404) for a user who sees no project."""
        if self.project is None:
            raise no_such_project(self.query("project"))
        return self.project

    def frame(self) -> dict[str, Any]:
        """Return what the template shows also without a project."""
        chosen = project_context(self.projects, self.project)
        return {**chosen, "q": self.query("q"), "user_id": self.actor.user_id}


class ObjectOfProject(FormPage, ABC):
    """The base of the pages of one object, which the address names. A hidden and an unknown one are not found."""

    object_type: ClassVar[Securable.Type]
    list_view: ClassVar[str]
    list_title: ClassVar[Text]

    @property
    @abstractmethod
    def shown_object(self) -> Role | TagDefinition: ...

    @abstractmethod
    def not_found(self) -> CatalogError: ...

    @property
    def project(self) -> Project:
        return self.shown_object.project

    def list_url(self) -> str:
        return list_url(self.list_view, self.project)

    def allowed(self, *actions: Can) -> set[Can]:
        """Return those of the actions that the user may do on the object."""
        ref = ObjectRef(self.object_type, self.shown_object.pk)
        missing = self.not_found()
        return set(list_allowed_actions_for(actor=self.actor, grantee=None, ref=ref, actions=actions, missing=missing))

    def list_crumbs(self) -> list[Crumb]:
        return [Crumb(self.project.name, self.list_url()), Crumb(self.list_title, self.list_url())]
