"""The pages of tables, views and generic tables."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, ClassVar, Final
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.translation import gettext_lazy as _

from catalog.errors import no_such_object
from catalog.iceberg.display.columns import list_column_rows
from catalog.models import Tabular
from catalog.selectors.access.files import require_to_load
from catalog.selectors.activity import Subject
from catalog.selectors.browse import LocatedTabular, TabularFacts, find_facts, locate_tabular_for
from catalog.selectors.permission_objects import tabular_object
from catalog.selectors.tables.earlier_metadata import list_earlier_files, read_earlier_file
from catalog.selectors.tables.generic_tables import load_generic_table_for
from catalog.selectors.tables.load import LoadedTabular, load_tabular_for
from catalog.selectors.tables.metadata_cache import Version, metadata_of
from catalog.services.preview import Preview, preview_rows
from catalog.services.row_access import ReadFailed
from icekeeper.kernel.errors.types import NotFound
from icekeeper.kernel.json.strict import read_stored_json
from management.admin.access.tab import access_context
from management.admin.catalog.activity_tab import activity_context
from management.admin.catalog.browse import tree_context
from management.admin.catalog.controls import tabular_controls
from management.admin.catalog.files_tab import (
    files_context,
    read_snapshot_id,
    reading_state,
    redirect_to_files,
    request_files,
)
from management.admin.catalog.health_tab import health_context
from management.admin.catalog.metadata_facts import find_schema, moment_of, sql_of
from management.admin.catalog.object_tags import column_tags, tags_context
from management.admin.catalog.preview_tab import preview_context
from management.admin.catalog.schema_tab import schema_context
from management.admin.catalog.snapshots_tab import snapshots_context
from management.admin.catalog.snippet_targets import snippet_target
from management.admin.catalog.snippets import Snippet, list_snippets
from management.admin.catalog.table_overview import large_overview_context, overview_context
from management.admin.catalog.usage_tab import usage_context
from management.admin.catalog.versions_tab import versions_context
from management.admin.catalog.view_sources import sources_context
from management.admin.json_view import json_lines
from management.admin.navigation import Crumb, Text, crumbs
from management.admin.pages import Page
from management.admin.tabs import Tab, choose_tab, link_tabs
from storage.io.port import ObjectNotFound
from tenancy.authz.actions import Can
from tenancy.authz.permissions import require_permission
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef

MAX_COLUMNS: Final = 2_000


class TabularPage(Page):
    """A tabular with its head, tabs and the tree next to it; the tab of the address is read by `<tab>_tab`."""

    template_name = "console/tabular.html"
    section = "catalog"
    kind: ClassVar[Tabular.Kind]
    kind_label: ClassVar[Text]
    overview_template: ClassVar[str]
    tabs: ClassVar[Sequence[Tab]]

    @cached_property
    def located(self) -> LocatedTabular:
        return locate_tabular_for(
            actor=self.actor,
            warehouse_id=self.kwargs["warehouse_id"],
            kind=self.kind,
            uuid=self.kwargs["object_id"],
        )

    @cached_property
    def facts(self) -> TabularFacts | None:
        uuid = self.located.tabular.uuid
        return find_facts(warehouse_id=self.warehouse_id, uuids=[uuid]).get(uuid)

    def context(self) -> dict[str, Any]:
        warehouse_id: UUID = self.kwargs["warehouse_id"]
        object_id: UUID = self.kwargs["object_id"]
        located = self.located
        current = choose_tab(self.tabs, self.kwargs.get("tab"))
        tabular = located.tabular
        shown = {
            "title": tabular.name,
            "breadcrumb": [*crumbs(located.path), Crumb(tabular.name)],
            "tabular": tabular,
            "kind": self.kind.value,
            "kind_label": self.kind_label,
            "tabs": link_tabs(self.visible_tabs(), current, f"admin:{self.kind.value}", [warehouse_id, object_id]),
            "tab": current,
            "controls": tabular_controls(self.actor, tabular),
            "tab_template": f"console/tabs/{self.overview_template if current == 'overview' else current}.html",
            "facts": self.facts,
            **tree_context(located.path, self.kind.value, object_id, tabular.name),
            **self.head(),
        }
        if current == "properties":
            shown |= self._tags()
        return {**shown, **getattr(self, f"{current}_tab")()}

    def _tags(self) -> dict[str, Any]:
        tabular = self.located.tabular
        return tags_context(
            self.request,
            self.actor,
            project=tabular.namespace.warehouse.project,
            path=self.located.path,
            ref=ObjectRef(Securable.Type(self.kind.value), tabular.pk),
            warehouse_id=tabular.warehouse_id,
            public_id=tabular.uuid,
        )

    def visible_tabs(self) -> Sequence[Tab]:
        """Return the tabs that the user may open."""
        return self.tabs

    def head(self) -> dict[str, Any]:
        """Return what stands above the tabs, next to the name."""
        return {}

    def access_tab(self) -> dict[str, Any]:
        return access_context(self.request, self.actor, tabular_object(self.located.tabular, self.located.path))

    def activity_tab(self) -> dict[str, Any]:
        tabular = self.located.tabular
        subject = Subject(
            Securable.Type(self.kind.value),
            tabular.pk,
            tabular.uuid,
            tabular.warehouse_id,
            tabular.namespace.warehouse.project_id,
        )
        return activity_context(self.request, self.actor, subject)

    @property
    def warehouse_id(self) -> UUID:
        return self.located.tabular.warehouse_id


class MetadataPage(TabularPage):
    """A tabular with Iceberg metadata, which is read once a request."""

    @cached_property
    def loaded(self) -> LoadedTabular:
        return load_tabular_for(
            actor=self.actor, warehouse_id=self.warehouse_id, identifier=self.located.identifier, kind=self.kind
        )

    @cached_property
    def metadata(self) -> dict[str, Any]:
        return metadata_of(Version(self.loaded.id, self.loaded.metadata_location), self.loaded.document)

    def head(self) -> dict[str, Any]:
        return {"format_version": self.metadata.get("format-version"), "sql_url": self.sql_url()}

    def sql_url(self) -> str:
        """Return the address of the page SQL with a first query; empty where there is none."""
        return ""

    def snippets(self, view_dialects: tuple[str, ...] = ()) -> tuple[Snippet, ...]:
        """Return the code with which engines read the tabular, at the address where the browser sees the server."""
        identifier = self.located.identifier
        target = snippet_target(
            self.request,
            self.located.tabular.namespace.warehouse,
            identifier.levels,
            identifier.name,
            is_view=self.kind is Tabular.Kind.VIEW,
            view_dialects=view_dialects,
        )
        return list_snippets(target)

    def properties_tab(self) -> dict[str, Any]:
        return {"properties": sorted((self.metadata.get("properties") or {}).items())}

    def metadata_tab(self) -> dict[str, Any]:
        return {
            "document": json_lines(self.metadata),
            "metadata_location": self.loaded.metadata_location,
            "size": len(self.loaded.document),
            "files": [
                {"key": each.key, "location": each.location, "at": moment_of(each.timestamp_ms)}
                for each in list_earlier_files(self.loaded, self.metadata)
            ],
        }

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        if request.GET.get("format") != "json":
            return self.render(self.context())
        key = request.GET.get("file")
        if key is None:
            return _download("metadata.json", self.loaded.document)
        try:
            return _download(*read_earlier_file(self.loaded, self.metadata, key))
        except ObjectNotFound:
            return self.render(self.context() | {"is_deleted": True}, status=HTTPStatus.NOT_FOUND)


def _download(name: str, document: bytes) -> HttpResponse:
    response = HttpResponse(document, content_type="application/json")
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


class TablePage(MetadataPage):
    """An Iceberg table."""

    kind = Tabular.Kind.TABLE
    kind_label = _("Table")
    overview_template = "table_overview"
    tabs = (
        Tab("overview", _("Overview")),
        Tab("schema", _("Schema")),
        Tab("snapshots", _("Snapshots")),
        Tab("files", _("Files")),
        Tab("preview", _("Preview")),
        Tab("usage", _("Usage")),
        Tab("health", _("Health")),
        Tab("access", _("Access")),
        Tab("properties", _("Properties")),
        Tab("activity", _("Activity")),
        Tab("metadata", _("Metadata")),
    )

    @cached_property
    def is_large_overview(self) -> bool:
        """Whether the page is the overview of a table whose metadata is too large to be read for it."""
        return self.kwargs.get("tab", "overview") == "overview" and self.facts is not None and self.facts.is_large

    def head(self) -> dict[str, Any]:
        return {"sql_url": self.sql_url()} if self.is_large_overview else super().head()

    def overview_tab(self) -> dict[str, Any]:
        if self.is_large_overview and self.facts is not None:
            return large_overview_context(self.located.tabular, self.facts) | {"snippets": self.snippets()}
        return overview_context(self.metadata, self.loaded.metadata_location) | {"snippets": self.snippets()}

    def schema_tab(self) -> dict[str, Any]:
        return {
            **schema_context(self.metadata, self.located.identifier, self.request.GET),
            "column_tags": column_tags(self.located.tabular.pk),
        }

    def snapshots_tab(self) -> dict[str, Any]:
        return snapshots_context(self.metadata, self.located.tabular.pk, self.request.GET)

    def usage_tab(self) -> dict[str, Any]:
        return usage_context(self.located.tabular.pk)

    @cached_property
    def reads_data(self) -> bool:
        if self.is_large_overview:
            tabular = self.located.tabular
            missing = no_such_object(self.kind.value, tabular.uuid)
            return require_to_load(self.actor, self.kind, tabular.pk, missing=missing) is not None
        return self.loaded.rights is not None

    def sql_url(self) -> str:
        if not self.reads_data or not settings.ICEKEEPER.console.sql.enabled:
            return ""
        tabular = self.located.tabular
        return f"{reverse('admin:sql')}?{urlencode({'warehouse': tabular.warehouse_id, 'table': tabular.uuid})}"

    def visible_tabs(self) -> Sequence[Tab]:
        """Rows, and values of partitions in manifests, need the permission to read data."""
        hidden = set() if self.reads_data else {"files", "preview"}
        if not settings.ICEKEEPER.console.preview.enabled:
            hidden.add("preview")
        return [each for each in self.tabs if each.slug not in hidden]

    def require_to_read_data(self) -> None:
        """Raises `Forbidden` as the APIs do."""
        if not self.reads_data:
            tabular = self.located.tabular
            missing = no_such_object(self.kind.value, tabular.uuid)
            require_permission(self.actor, Can.READ_DATA, Securable.Type.TABLE, tabular.pk, missing=missing)

    def files_tab(self) -> dict[str, Any]:
        self.require_to_read_data()
        return files_context(self.metadata, self.located.tabular, self.request.GET)

    def preview_tab(self) -> dict[str, Any]:
        if not settings.ICEKEEPER.console.preview.enabled:
            raise NotFound("No such tab")
        self.require_to_read_data()
        asked = self.request.method == "POST"
        chosen = (self.request.POST if asked else self.request.GET).get("snapshot")
        result, error = self._read_rows(chosen) if asked else (None, "")
        return preview_context(self.metadata, chosen, result=result, error=error)

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        """Read rows: access to data is audited, so it is no mere GET. Raises `NotFound` on other tabs."""
        if kwargs.get("tab") != "preview":
            raise NotFound("No such page")
        context = self.context()
        return self.render(context, status=400 if context["error"] else 200)

    def _read_rows(self, chosen: str | None) -> tuple[Preview | None, str]:
        """Return the rows of the chosen snapshot, or why they could not be read."""
        snapshot_id = read_snapshot_id(self.metadata, chosen)
        if snapshot_id is None:
            return None, ""
        try:
            rows = preview_rows(
                actor=self.actor,
                warehouse_id=self.warehouse_id,
                identifier=self.located.identifier,
                loaded=self.loaded,
                metadata=self.metadata,
                snapshot_id=snapshot_id,
            )
        except ReadFailed as failed:
            return None, str(failed)
        return rows, ""

    def health_tab(self) -> dict[str, Any]:
        return health_context(
            self.metadata,
            self.located.tabular,
            self.located.identifier,
            document_size=len(self.loaded.document),
            reads_data=self.reads_data,
        )


class FilesReadingPage(TablePage):
    """Queues the task that reads the files of a snapshot (POST), and shows the state of that task (GET, a fragment).

    Once there is nothing to wait for, the fragment is a redirection to the tab.
    """

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        return request_files(
            request,
            actor=self.actor,
            tabular=self.located.tabular,
            metadata=self.metadata,
        )

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        self.require_to_read_data()
        shown = reading_state(self.metadata, self.located.tabular, request.GET)
        if shown["is_done"]:  # the script of the tab loads the tab again at a redirection
            return redirect_to_files(self.located.tabular, shown["snapshot_id"])
        return HttpResponse(render_to_string("console/parts/files_reading.html", shown, request))


class ViewPage(MetadataPage):
    """An Iceberg view."""

    kind = Tabular.Kind.VIEW
    kind_label = _("View")
    overview_template = "view_overview"
    tabs = (
        Tab("overview", _("Overview")),
        Tab("schema", _("Schema")),
        Tab("versions", _("Versions")),
        Tab("access", _("Access")),
        Tab("properties", _("Properties")),
        Tab("activity", _("Activity")),
        Tab("metadata", _("Metadata")),
    )

    def overview_tab(self) -> dict[str, Any]:
        version = self._current_version()
        return {
            "representations": sql_of(version),
            "snippets": self.snippets(tuple(each["dialect"].lower() for each in sql_of(version))),
            "version": version,
            "created": moment_of(version.get("timestamp-ms")),
            "versions": len(self.metadata.get("versions") or []),
            "columns": list_column_rows(self._schema(version.get("schema-id")), max_rows=MAX_COLUMNS),
            "metadata_location": self.loaded.metadata_location,
            **sources_context(
                self.actor,
                version,
                warehouse_id=self.warehouse_id,
                warehouse_name=self.located.tabular.namespace.warehouse.name,
            ),
        }

    def schema_tab(self) -> dict[str, Any]:
        return schema_context(self.metadata, self.located.identifier, self.request.GET)

    def versions_tab(self) -> dict[str, Any]:
        return versions_context(self.metadata, self.request.GET)

    def _current_version(self) -> dict[str, Any]:
        wanted = self.metadata.get("current-version-id")
        found: dict[str, Any] = next(
            (each for each in self.metadata.get("versions") or [] if each.get("version-id") == wanted), {}
        )
        return found

    def _schema(self, schema_id: Any) -> dict[str, Any]:
        return find_schema(self.metadata, schema_id)


class GenericTablePage(TabularPage):
    """A table in another format than Iceberg."""

    kind = Tabular.Kind.GENERIC_TABLE
    kind_label = _("Generic table")
    overview_template = "generic_table_overview"
    tabs = (
        Tab("overview", _("Overview")),
        Tab("access", _("Access")),
        Tab("properties", _("Properties")),
        Tab("activity", _("Activity")),
    )

    def head(self) -> dict[str, Any]:
        self.generic = load_generic_table_for(
            actor=self.actor, warehouse_id=self.warehouse_id, identifier=self.located.identifier
        )
        return {"format": self.generic.format}

    def overview_tab(self) -> dict[str, Any]:
        generic = self.generic
        return {
            "doc": generic.doc,
            "schema": None if generic.schema is None else json_lines(read_stored_json(generic.schema.encode())),
            "statistics": (
                None if generic.statistics is None else json_lines(read_stored_json(generic.statistics.encode()))
            ),
        }

    def properties_tab(self) -> dict[str, Any]:
        return {"properties": sorted(self.generic.properties.items())}
