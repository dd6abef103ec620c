"""Projects: creation, and the settings of each with its name and its deletion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.http import HttpResponse
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from icekeeper.kernel.errors.types import Forbidden
from management.admin.accounts.project_objects import allowed_on_project
from management.admin.accounts.server_permissions import allowed_on_server
from management.admin.form_pages import Action, ConfirmPage, FormPage
from management.admin.navigation import Crumb, Text
from management.admin.times import incomplete_form
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.models import Project
from tenancy.selectors.projects import get_visible_project_for
from tenancy.services.projects import ProjectChanged, create_project, delete_project, rename_project


def project_url(project_id: str) -> str:
    return reverse("admin:project", args=[project_id])


def add_url_for(actor: Actor) -> str | None:
    """Return the address of the form for a new project; None without the permission to create one."""
    return reverse("admin:project-add") if allowed_on_server(actor, Can.CREATE_PROJECT) else None


def settings_url_for(actor: Actor, project: Project) -> str | None:
    """Return the address of the settings of a project; None without a permission to change them."""
    allowed = allowed_on_project(actor, project, [Can.RENAME, Can.DELETE])
    return reverse("admin:project-settings", args=[project.pk]) if allowed else None


class ProjectAddPage(FormPage):
    """The form for a new project."""

    template_name = "console/project_add.html"
    section = "overview"
    title = gettext_lazy("New project")
    actions: ClassVar[Mapping[str, Action]] = {"create": Action("create", ("project-name", "project-id"))}

    def context(self) -> dict[str, Any]:
        if not allowed_on_server(self.actor, Can.CREATE_PROJECT):
            raise Forbidden(_("You do not have the permission to create projects"))
        return {"breadcrumb": [Crumb(_("Overview"), reverse("admin:index")), Crumb(self.title)]}

    def create(self) -> HttpResponse:
        project = create_project(
            actor=self.actor, name=self.text("project-name").strip(), project_id=self.text("project-id").strip() or None
        )
        return self.done(project_url(project.pk), _("Project %(name)s is created.") % {"name": project.name})


class ProjectOfAddress(FormPage):
    """The base of the pages that change one project."""

    @cached_property
    def project(self) -> Project:
        return get_visible_project_for(actor=self.actor, given=self.kwargs["project_id"])

    def project_crumbs(self) -> list[Crumb]:
        return [Crumb(self.project.name, project_url(self.project.pk))]


class ProjectSettingsPage(ProjectOfAddress):
    """The name of a project, and the way to delete it."""

    template_name = "console/project_settings.html"
    section = "overview"
    actions: ClassVar[Mapping[str, Action]] = {"rename": Action("rename", ("new-name",))}

    def context(self) -> dict[str, Any]:
        allowed = allowed_on_project(self.actor, self.project, [Can.RENAME, Can.DELETE])
        if not allowed:
            raise Forbidden(_("You do not have the permission to change this project"))
        return {
            "title": _("Project settings"),
            "breadcrumb": [*self.project_crumbs(), Crumb(_("Project settings"))],
            "project": self.project,
            "can_rename": Can.RENAME in allowed,
            "can_delete": Can.DELETE in allowed,
        }

    def rename(self) -> HttpResponse:
        project_id, name = self.project.pk, self.text("new-name").strip()
        former = self.request.POST.get("former-name")
        if former is None:
            raise incomplete_form()
        try:
            rename_project(actor=self.actor, project_id=project_id, new_name=name, former_name=former)
        except ProjectChanged:
            del self.project  # the page shows the stored name next to the one that was entered
            raise
        return self.done(project_url(project_id), _("The project is now named %(name)s.") % {"name": name})


class ProjectDeletePage(ConfirmPage, ProjectOfAddress):
    """What the deletion of a project ends, before it happens; the user types its name."""

    section = "overview"

    def context(self) -> dict[str, Any]:
        if not allowed_on_project(self.actor, self.project, [Can.DELETE]):
            raise Forbidden(_("You do not have the permission to delete this project"))
        return super().context()

    def heading(self) -> str:
        return _("Delete project %(name)s?") % {"name": self.project.name}

    def crumbs(self) -> list[Crumb]:
        return self.project_crumbs()

    def effects(self) -> list[Text]:
        return [
            _("Only a project without warehouses can be deleted."),
            _("Its roles and tags are deleted, and all grants to them and on them are revoked."),
            _("The deletion cannot be undone."),
        ]

    def typed_name(self) -> str:
        return self.project.name

    def back_url(self) -> str:
        return reverse("admin:project-settings", args=[self.project.pk])

    def delete(self) -> HttpResponse:
        name = self.project.name
        delete_project(actor=self.actor, project_id=self.project.pk)
        return self.done(reverse("admin:index"), _("Project %(name)s is deleted.") % {"name": name})
