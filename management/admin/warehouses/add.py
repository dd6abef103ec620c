"""The page that creates a warehouse: its form, validation without saving, and import of a request as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from icekeeper.kernel.errors.types import BadRequest, CatalogError
from icekeeper.kernel.json.strict import read_json_object
from management.admin.navigation import Crumb, Text, object_url
from management.admin.pages import Page
from management.admin.warehouses.checks import CREATION_CHECKS, CheckList, is_shown, pending_checks, show_checks
from management.admin.warehouses.form_fields import DENIED, entered_value, find_member
from management.admin.warehouses.forms import NAME, WarehouseForm, chosen_credential_type, rule_values
from management.admin.warehouses.storage_fields import (
    CREDENTIAL,
    CREDENTIAL_TITLES,
    NO_CREDENTIAL,
    PROFILE,
    STORES,
    Store,
    credential_fields,
    find_store,
    profile_fields,
    store_of,
)
from storage.documents import unknown_members
from storage.services.warehouses import create_warehouse, validate_new_warehouse
from storage.validation.checks import FailFastRun
from tenancy.actor import Actor, is_instance_admin
from tenancy.authz.actions import Can
from tenancy.authz.permissions import action_forbidden, are_allowed
from tenancy.models import Project, Securable
from tenancy.models.securable import ObjectRef
from tenancy.selectors.projects import get_visible_project_for, list_projects_for

SHOW, VALIDATE, CREATE, IMPORT = "show", "validate", "create", "import"


def list_projects_to_create_in(actor: Actor) -> list[Project]:
    """Return the visible projects in which the actor may create warehouses."""
    projects = list_projects_for(actor=actor)
    refs: list[ObjectRef] = [ObjectRef(Securable.Type.PROJECT, each.pk) for each in projects]
    allowed = are_allowed(actor, Can.CREATE_WAREHOUSE, refs)
    return [each for each, is_allowed in zip(projects, allowed, strict=True) if is_allowed]


@dataclass(frozen=True, slots=True)
class Choice:
    """A card or a chip with which the user chooses a store or a type of credential; `url` shows its fields."""

    title: Text
    note: Text
    url: str
    is_current: bool


class WarehouseAddPage(Page):
    """The form of a new warehouse. The store and the type of credential are in the address; the rest is posted.

    Validation takes one request: a row to poll would have to contain the credential, which is stored nowhere before
    the warehouse is created. `storage.validation` ends within the time limit of a request.
    """

    template_name = "console/warehouse_add.html"
    section = "warehouses"
    title = gettext_lazy("New warehouse")
    store: Store
    credential_type: str
    projects: list[Project]

    def setup(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().setup(request, *args, **kwargs)
        self.ignored: list[str] = []
        self.lost_secrets = False

    def _read_address(self) -> None:
        self.store = find_store(self.request.GET.get("store") or STORES[0].slug)
        self.credential_type = chosen_credential_type(self.store, self.request.GET.get("credential"))
        self.projects = list_projects_to_create_in(self.actor)

    def _project(self) -> str | None:
        given = self.request.POST.get("project") or self.request.GET.get("project")
        return given or (self.projects[0].pk if self.projects else None)

    def context(self) -> dict[str, Any]:
        self._read_address()
        if not self.projects:
            visible = list_projects_for(actor=self.actor)
            target = visible[0].pk if visible else ""
            raise action_forbidden(self.actor, Can.CREATE_WAREHOUSE, ObjectRef(Securable.Type.PROJECT, target))
        return self._shown(self._form(), pending_checks(CREATION_CHECKS))

    def post(self, request: HttpRequest) -> HttpResponse:
        """Do the action of the button. What was entered stays in the form, except secrets."""
        self._read_address()
        action = request.POST.get("action")
        if action == SHOW:
            kept = {name: value for name, value in request.POST.items() if name not in _ACTIONS}
            return self.render(self._shown(self._form(initial=self._kept(kept)), pending_checks(CREATION_CHECKS)))
        if action == IMPORT:
            return self._import(request.POST.get("document", ""))
        if action not in {VALIDATE, CREATE}:
            raise BadRequest("action: must be one of the buttons of the page")
        project = get_visible_project_for(actor=self.actor, given=self._project())
        form = self._form(data=request.POST)
        self.lost_secrets = self.store.credentials != ()
        form.is_valid()
        arguments = form.arguments() if not form.errors else {}
        if form.errors:
            return self.render(self._shown(form, pending_checks(CREATION_CHECKS)), status=400)
        if action == CREATE:
            return self._create(form, project, arguments)
        try:
            checks = validate_new_warehouse(actor=self.actor, project=project, **arguments)
        except DENIED:
            raise
        except CatalogError as error:
            form.show_error(error)
            return self.render(self._shown(form, pending_checks(CREATION_CHECKS)), status=error.status)
        return self._render_checks(form, show_checks(checks, arguments["storage_profile"]))

    def _create(self, form: WarehouseForm, project: Project, arguments: dict[str, Any]) -> HttpResponse:
        run = FailFastRun()
        try:
            created = create_warehouse(
                actor=self.actor, project=project, protected=form.cleaned_data["protected"], run=run, **arguments
            )
        except DENIED:
            raise
        except CatalogError as error:
            if not is_shown(error, run.checks()):
                form.show_error(error)
            checks = show_checks(run.checks(), arguments["storage_profile"])
            return self._render_checks(form, checks, status=error.status)
        messages.success(self.request, _("Warehouse %(name)s was created.") % {"name": created.name})
        return HttpResponseRedirect(object_url("warehouse", created.pk, None))

    def _render_checks(self, form: WarehouseForm, checks: CheckList, *, status: int = 200) -> HttpResponse:
        form.show_failures(checks)
        return self.render(self._shown(form, checks), status=status)

    def _import(self, text: str) -> HttpResponse:
        """Fill the form with the body of a request. Its secrets stay in the browser: no page contains them."""
        try:
            document = read_json_object(text.encode(errors="replace"))
            initial = self._imported(document)
        except CatalogError as error:
            shown = self._shown(self._form(), pending_checks(CREATION_CHECKS))
            return self.render({**shown, "import_error": error.message, "document": ""}, status=400)
        self.lost_secrets = isinstance(document.get(CREDENTIAL), Mapping)
        return self.render(self._shown(self._form(initial=initial), pending_checks(CREATION_CHECKS)))

    def _imported(self, document: dict[str, Any]) -> dict[str, Any]:
        profile, credential = document.get(PROFILE), document.get(CREDENTIAL)
        if not isinstance(profile, Mapping) or not isinstance(credential, Mapping | None):
            raise BadRequest(_("This is no request to create a warehouse: it has no object storage-profile."))
        credential_type = None if credential is None else credential.get("credential-type")
        store = store_of(profile.get("type"), credential_type)
        if store is None:
            raise BadRequest(_("The store, or the type of the credential, is unknown."))
        self.store = store
        self.credential_type = chosen_credential_type(store, credential_type or NO_CREDENTIAL)
        shape = store.credential(self.credential_type)
        specs = [*profile_fields(store.profile), *(credential_fields(shape) if shape else ())]
        values = {each.path: entered_value(each, find_member(document, each)) for each in specs}
        self.ignored = [
            *(f"{PROFILE}.{name[:100]}" for name in unknown_members(store.profile, profile)),
            *(f"{CREDENTIAL}.{name[:100]}" for name in (unknown_members(shape, credential or {}) if shape else [])),
        ]
        if isinstance(document.get(NAME), str):
            values[NAME] = document[NAME]
        return {path: value for path, value in values.items() if value is not None} | rule_values(document)

    def _kept(self, entered: Mapping[str, Any]) -> dict[str, Any]:
        """Return what stays when another store is shown: texts; switches belong to their store."""
        probe = self._form()
        texts = {name: value for name, value in entered.items() if name in probe.fields and value}
        flags = {
            path for path, spec in probe.specs.items() if spec.kind in {"flag", "maybe", "choice"} or spec.is_secret
        }
        kept = {name: value for name, value in texts.items() if name not in flags}
        if versions := self.request.POST.getlist("allowed-format-versions"):
            kept["allowed-format-versions"] = versions
        return kept

    def _form(self, **options: Any) -> WarehouseForm:
        return WarehouseForm(
            store=self.store,
            credential_type=self.credential_type,
            chooses_manager=is_instance_admin(self.actor),
            **options,
        )

    def _shown(self, form: WarehouseForm, checks: CheckList) -> dict[str, Any]:
        query = {"project": self._project() or ""} if len(self.projects) > 1 else {}
        credentials = [*self.store.credential_types, *([NO_CREDENTIAL] if self.store.needs_no_credential else [])]
        current = next((each for each in self.projects if each.pk == self._project()), None)
        return {
            "breadcrumb": [Crumb(_("Warehouses"), reverse("admin:warehouses")), Crumb(str(self.title))],
            "projects": [(each.pk, each.name, each is current) for each in self.projects],
            "stores": [
                Choice(each.title, each.note, _query({**query, "store": each.slug}), each is self.store)
                for each in STORES
            ],
            "credential_types": [
                Choice(
                    CREDENTIAL_TITLES.get(each, each),
                    "",
                    _query({**query, "store": self.store.slug, "credential": each}),
                    each == self.credential_type,
                )
                for each in credentials
            ]
            if self.store.credentials
            else [],
            "form_url": _query({**query, "store": self.store.slug, "credential": self.credential_type}),
            "errors": form.other_errors,
            "storage": form.storage_section(),
            "credential": form.credential_section() if form.credential is not None else None,
            "sections": form.sections(),
            "checks": checks,
            "ignored": self.ignored,
            "lost_secrets": self.lost_secrets,
        }


_ACTIONS: Final = frozenset({"action", "project", "csrfmiddlewaretoken"})


def _query(values: dict[str, str]) -> str:
    return f"?{urlencode(values)}"
