from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse

from catalog.api.base import IcebergView, no_content
from catalog.api.fields import optional_list
from catalog.api.operations import views as operations
from catalog.api.render import load_view_result
from catalog.api.table_config import build_access_config, build_access_config_after_write, requested_delegation
from catalog.models import Tabular
from catalog.selectors.access.files import Reader, access_for, access_to_written
from catalog.selectors.tables.load import Loaded, load_tabular_for, require_tabular_exists
from catalog.services.tables.create_view import create_view, replace_view
from catalog.services.tables.register import register_tabular

VIEW = Tabular.Kind.VIEW


class _OneView(IcebergView):
    """Answers with one view."""

    def found(self, request: HttpRequest, reader: Reader, view: Loaded) -> HttpResponse:
        asked = requested_delegation(request)
        access = access_for(reader=reader, rights=view.rights, kind=VIEW, files=view.files, asked=asked)
        way = build_access_config(
            request, view.files, access, kind=VIEW, tabular_id=view.id, refreshed_as=None, reader=reader
        )
        return load_view_result(view, way)

    def written(self, request: HttpRequest, view: Loaded) -> HttpResponse:
        files, access = access_to_written(
            actor=self.actor,
            kind=VIEW,
            tabular_id=view.id,
            files=view.files,
            asked=requested_delegation(request),
            warehouse_id=self.warehouse_id,
        )
        return load_view_result(
            view,
            build_access_config_after_write(request, files, access, kind=VIEW, tabular_id=view.id, refreshed_as=None),
        )


class ViewsView(_OneView):
    @operations.list_views
    def get(self, request: HttpRequest, **_: Any) -> HttpResponse:
        return self.listing(request, VIEW)

    @operations.create_view
    def post(self, request: HttpRequest, **_: Any) -> HttpResponse:
        body, idempotency_key = self.body(request), self.idempotency_key(request)
        created = self.perform(
            idempotency_key,
            lambda: create_view(
                actor=self.actor,
                warehouse_id=self.warehouse_id,
                levels=self.levels,
                name=body.get("name"),
                schema=body.get("schema"),
                view_version=body.get("view-version"),
                location=body.get("location"),
                properties=body.get("properties"),
                idempotency_key=idempotency_key,
            ),
        )
        return self.written(request, created)


class ViewView(_OneView):
    named_by = "view"

    @operations.load_view
    def get(self, request: HttpRequest, **_: Any) -> HttpResponse:
        reader = self.reader(request, VIEW)
        loaded = load_tabular_for(
            actor=reader.actor, warehouse_id=self.warehouse_id, identifier=self.identifier, kind=VIEW
        )
        return self.found(request, reader, loaded)

    @operations.view_exists
    def head(self, request: HttpRequest, **_: Any) -> HttpResponse:
        require_tabular_exists(actor=self.actor, warehouse_id=self.warehouse_id, identifier=self.identifier, kind=VIEW)
        return no_content()

    @operations.replace_view
    def post(self, request: HttpRequest, **_: Any) -> HttpResponse:
        body, idempotency_key = self.body(request), self.idempotency_key(request)
        replaced = self.perform(
            idempotency_key,
            lambda: replace_view(
                actor=self.actor,
                warehouse_id=self.warehouse_id,
                view=self.identifier,
                requirements=optional_list(body.get("requirements"), "requirements"),
                updates=optional_list(body.get("updates"), "updates"),
                idempotency_key=idempotency_key,
            ),
        )
        return self.written(request, replaced)

    @operations.drop_view
    def delete(self, request: HttpRequest, **_: Any) -> HttpResponse:
        return self.dropping(request, VIEW)


class RegisterViewView(_OneView):
    @operations.register_view
    def post(self, request: HttpRequest, **_: Any) -> HttpResponse:
        body, idempotency_key = self.body(request), self.idempotency_key(request)
        registered = self.perform(
            idempotency_key,
            lambda: register_tabular(
                actor=self.actor,
                warehouse_id=self.warehouse_id,
                levels=self.levels,
                name=body.get("name"),
                metadata_location=body.get("metadata-location"),
                kind=VIEW,
                idempotency_key=idempotency_key,
            ),
        )
        return self.written(request, registered)


class RenameViewView(IcebergView):
    @operations.rename_view
    def post(self, request: HttpRequest, **_: Any) -> HttpResponse:
        return self.renaming(request, VIEW)
