"""The pages that change the storage profile or the credential of a warehouse, and that validate its storage."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, ClassVar

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _

from icekeeper.kernel.errors.types import BadRequest, CatalogError
from management.admin.navigation import object_url
from management.admin.warehouses.add import Choice
from management.admin.warehouses.checks import CHANGE_CHECKS, CheckList, is_shown, pending_checks, show_checks
from management.admin.warehouses.edit import WarehousePart
from management.admin.warehouses.form_conflicts import FormConflict, describe_conflict, read_version
from management.admin.warehouses.form_fields import DENIED
from management.admin.warehouses.forms import Section, StorageForm, chosen_credential_type, store_of_warehouse
from management.admin.warehouses.storage_fields import CREDENTIAL, CREDENTIAL_TITLES, NO_CREDENTIAL, PROFILE
from storage.services.warehouse_changes import WarehouseChanged
from storage.services.warehouse_storage import (
    update_storage,
    update_storage_credential,
    validate_access,
    validate_storage,
)
from storage.validation.checks import STORE_CHECKS, CheckName, FailFastRun
from tenancy.authz.actions import Can

SHOW, VALIDATE, SAVE = "show", "validate", "save"


class StorageEditPage(WarehousePart):
    """Profile and credential. Empty fields of the stored type of credential keep it, by the service's own rule."""

    template_name = "console/warehouse_storage.html"
    has_profile: ClassVar[bool] = True

    def context(self) -> dict[str, Any]:
        self._read()
        return self._shown(self._form(), pending_checks(CHANGE_CHECKS))

    def post(self, request: HttpRequest, **_path: Any) -> HttpResponse:
        self._read()
        action = request.POST.get("action")
        if action == SHOW:
            return self.render(self._shown(self._form(data=request.POST), pending_checks(CHANGE_CHECKS)))
        if action not in {VALIDATE, SAVE}:
            raise BadRequest("action: must be one of the buttons of the page")
        version, form = read_version(request.POST), self._form(data=request.POST)
        form.is_valid()
        arguments = {} if form.errors else self._arguments(form)
        if form.errors:
            shown = self._shown(form, pending_checks(CHANGE_CHECKS))
            return self.render({**shown, "version": version}, status=HTTPStatus.BAD_REQUEST)
        return self._validate(form, version, arguments) if action == VALIDATE else self._save(form, version, arguments)

    def _validate(self, form: StorageForm, version: int, arguments: dict[str, Any]) -> HttpResponse:
        found = validate_storage(
            actor=self.actor, warehouse_id=self.warehouse.pk, **{"storage_profile": None, **arguments}
        )
        checks = show_checks(found, self._profile_of(arguments))
        form.show_failures(checks)
        return self.render({**self._shown(form, checks), "version": version})

    def _save(self, form: StorageForm, version: int, arguments: dict[str, Any]) -> HttpResponse:
        run = FailFastRun()
        service = update_storage if self.has_profile else update_storage_credential
        own: dict[str, Any] = {"actor": self.actor, "warehouse_id": self.warehouse.pk}
        try:
            service(**own, **arguments, expected_version=version, run=run)
        except DENIED:
            raise
        except WarehouseChanged:
            self._read()
            conflict = describe_conflict(self.actor, self.warehouse, form, self._form())
            shown = self._shown(form, pending_checks(CHANGE_CHECKS), conflict)
            return self.render(shown, status=HTTPStatus.CONFLICT)
        except CatalogError as error:
            checks = show_checks(run.checks(), self._profile_of(arguments))
            form.show_failures(checks)
            if not is_shown(error, run.checks()):
                form.show_error(error)
            return self.render({**self._shown(form, checks), "version": version}, status=error.status)
        messages.success(self.request, _("The storage of %(name)s was changed.") % {"name": self.warehouse.name})
        return HttpResponseRedirect(object_url("warehouse", self.warehouse.pk, None) + "storage/")

    def _arguments(self, form: StorageForm) -> dict[str, Any]:
        return {"storage_profile": form.profile(), **form.arguments()}

    def _profile_of(self, arguments: dict[str, Any]) -> dict[str, Any]:
        profile: dict[str, Any] = arguments.get("storage_profile") or self.warehouse.storage_profile
        return profile

    def _read(self) -> None:
        self.read_warehouse()
        self.require(Can.UPDATE_STORAGE)
        self.store = store_of_warehouse(self.warehouse)
        self.stored_type = self.warehouse.credential_type or NO_CREDENTIAL
        wanted = self.request.GET.get("credential") or self.stored_type
        self.credential_type = chosen_credential_type(self.store, wanted)

    def _form(self, **options: Any) -> StorageForm:
        return StorageForm(
            warehouse=self.warehouse, credential_type=self.credential_type, has_profile=self.has_profile, **options
        )

    def _title(self) -> str:
        return _("Change the storage of %(name)s") % {"name": self.warehouse.name}

    def _shown(self, form: StorageForm, checks: CheckList, conflict: FormConflict | None = None) -> dict[str, Any]:
        types = [*self.store.credential_types, *([NO_CREDENTIAL] if self.store.needs_no_credential else [])]
        choices = [
            Choice(CREDENTIAL_TITLES.get(each, each), "", f"?credential={each}", each == self.credential_type)
            for each in types
        ]
        profile = Section(
            _("Storage profile"),
            "",
            form.shown_members(PROFILE, is_common=True),
            form.shown_members(PROFILE, is_common=False),
        )
        return {
            **self.frame(self._title()),
            "form_url": f"?credential={self.credential_type}",
            "storage": profile if self.has_profile else None,
            "credential_types": choices if self.store.credentials else [],
            "credential": Section("", "", form.shown_members(CREDENTIAL, is_common=True)),
            "keeps_stored": form.may_keep and form.credential is not None,
            "removes_stored": form.credential is None and self.stored_type != NO_CREDENTIAL,
            "lost_secrets": any(self.request.POST.get(path) for path, spec in form.specs.items() if spec.is_secret),
            "errors": form.other_errors,
            "checks": checks,
            "conflict": conflict,
        }


class CredentialEditPage(StorageEditPage):
    """The credential alone, which is replaced."""

    has_profile = False

    def _title(self) -> str:
        return _("Replace the credential of %(name)s") % {"name": self.warehouse.name}

    def _arguments(self, form: StorageForm) -> dict[str, Any]:
        return {"storage_credential": form.arguments()["storage_credential"]}


class StorageValidatePage(WarehousePart):
    """Validation of the storage as it is."""

    template_name = "console/warehouse_validate.html"

    def context(self) -> dict[str, Any]:
        self.read_warehouse()
        self.require(Can.UPDATE_STORAGE)
        return self._shown(pending_checks((CheckName.PROFILE_WELL_FORMED, *STORE_CHECKS)))

    def post(self, request: HttpRequest, **_path: Any) -> HttpResponse:
        self.read_warehouse()
        found = validate_access(actor=self.actor, warehouse_id=self.warehouse.pk)
        return self.render(self._shown(show_checks(found, self.warehouse.storage_profile)))

    def _shown(self, checks: CheckList) -> dict[str, Any]:
        return {**self.frame(_("Validate the storage of %(name)s") % {"name": self.warehouse.name}), "checks": checks}
