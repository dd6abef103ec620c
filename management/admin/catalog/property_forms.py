"""The pages that edit the properties of a namespace, a table or a view."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from catalog.errors import NamespaceChanged, PropertiesChanged
from catalog.models import Tabular
from catalog.selectors.tables.load import load_tabular_for
from catalog.selectors.tables.metadata_cache import Version, metadata_of
from catalog.services.approval.approve import ContractViolation
from catalog.services.namespaces.properties import update_namespace_properties
from catalog.services.tables.properties import update_tabular_properties
from icekeeper.kernel.errors.types import BadRequest, CatalogError, Conflict
from management.admin.catalog.changed_by import last_changed_by
from management.admin.catalog.namespace_forms import NamespaceForm
from management.admin.catalog.property_rows import (
    MAX_ROWS,
    PropertyEdits,
    entered_rows,
    is_editable,
    merged_rows,
    read_edits,
    rows_of,
)
from management.admin.catalog.tabular_forms import TabularForm
from management.admin.form_pages import FormPage
from management.admin.warehouses.form_conflicts import read_version
from tenancy.authz.actions import Can


class PropertyForm(FormPage):
    """A form with the properties of an object. After a concurrent change it shows the input and the stored values."""

    template_name = "console/edit_properties.html"

    @abstractmethod
    def stored(self) -> Mapping[str, str]:
        """Return the properties that are stored now; reads them again."""

    @abstractmethod
    def save(self, edits: PropertyEdits) -> None: ...

    @abstractmethod
    def outline(self) -> dict[str, Any]:
        """Return title, breadcrumb and `back_url`, and the version that is stored now."""

    def changed_by(self) -> str:
        """Return who changed the object meanwhile; empty if that is not known."""
        return ""

    def context(self) -> dict[str, Any]:
        return self._shown(self.stored())

    def post(self, request: HttpRequest, **_path: Any) -> HttpResponse:
        rows = entered_rows(request.POST)
        self.outline()  # the object is visible, and may be changed
        try:
            edits = read_edits(rows)
            if edits.expected:
                self.save(edits)
        except (NamespaceChanged, PropertiesChanged) as error:
            stored = self.stored()
            shown = {**self._shown(stored), "rows": merged_rows(rows, stored), "conflict": {"by": self.changed_by()}}
            return self.render(shown, status=error.status)
        except (BadRequest, Conflict, ContractViolation) as error:
            if self.asks_to_override(error):
                raise
            return self._render_error(error, rows)
        if not edits.expected:
            return self.done(request.path, _("Nothing was changed."))
        return self.done(self._shown({})["back_url"], _("The properties were saved."))

    def _render_error(self, error: CatalogError, rows: list[Any]) -> HttpResponse:
        shown = {**self._shown(self.stored()), "rows": rows, "error": error.message}
        return self.render(shown, status=error.status)

    def _shown(self, properties: Mapping[str, str]) -> dict[str, Any]:
        hidden = sorted(name for name, value in properties.items() if not is_editable(value))
        return {
            **self.outline(),
            "rows": rows_of(properties),
            "read_only": hidden,
            "has_more": len(properties) - len(hidden) > MAX_ROWS,
            "max_rows": MAX_ROWS,
        }


class TabularPropertiesPage(PropertyForm, TabularForm):
    """The properties of a table or view, changed by a commit."""

    required = Can.COMMIT
    kinds = (Tabular.Kind.TABLE.value, Tabular.Kind.VIEW.value)  # the description of a generic table never changes

    def outline(self) -> dict[str, Any]:
        return {
            **self.frame(_("Properties of %(name)s") % {"name": self.located.tabular.name}),
            "back_url": f"{self.url}properties/",
        }

    def stored(self) -> Mapping[str, str]:
        loaded = load_tabular_for(
            actor=self.actor, warehouse_id=self.warehouse_id, identifier=self.located.identifier, kind=self._kind
        )
        metadata = metadata_of(Version(loaded.id, loaded.metadata_location), loaded.document)
        found: Mapping[str, str] = metadata.get("properties") or {}
        return found

    def save(self, edits: PropertyEdits) -> None:
        update_tabular_properties(
            actor=self.actor,
            warehouse_id=self.warehouse_id,
            kind=self._kind,
            identifier=self.located.identifier,
            uuid=self.located.tabular.uuid,
            updates=edits.updates,
            removals=edits.removals,
            expected=edits.expected,
        )

    @property
    def _kind(self) -> Tabular.Kind:
        return Tabular.Kind(self.located.tabular.kind)


class NamespacePropertiesPage(PropertyForm, NamespaceForm):
    """The properties of a namespace; its form has the version that it was filled from."""

    required = Can.UPDATE_PROPERTIES

    def outline(self) -> dict[str, Any]:
        return {
            **self.frame(_("Properties of %(name)s") % {"name": self.located.levels[-1]}),
            "version": self.located.namespace.version,
            "back_url": f"{self.url}properties/",
        }

    def stored(self) -> Mapping[str, str]:
        self.__dict__.pop("located", None)
        found: Mapping[str, str] = self.located.namespace.properties
        return found

    def save(self, edits: PropertyEdits) -> None:
        version = read_version(self.request.POST)
        update_namespace_properties(
            actor=self.actor,
            warehouse_id=self.warehouse_id,
            levels=self.located.levels,
            removals=edits.removals,
            updates=edits.updates,
            expected_version=version,
        )

    def changed_by(self) -> str:
        return last_changed_by(self.actor, self.located.namespace)

    @property
    def warehouse_id(self) -> UUID:
        return self.located.namespace.warehouse_id
