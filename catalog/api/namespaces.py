from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse

from catalog.api import operations
from catalog.api.base import IcebergView, json_answer, no_content
from catalog.identifiers import Levels
from catalog.selectors.namespaces import get_namespace_for, list_namespaces_for
from catalog.services.namespaces import create_namespace, drop_namespace, update_namespace_properties
from icekeeper.kernel.errors import NoSuchNamespace
from icekeeper.kernel.raw_path import decode_segment, split_levels


class NamespacesView(IcebergView):
    @operations.list_namespaces
    def get(self, request: HttpRequest, **_: Any) -> HttpResponse:
        parent = request.GET.get("parent")
        try:
            namespaces, token = self._children(request, parent)
        except NoSuchNamespace:
            # PyIceberg and older Java clients encode this one parameter twice.
            if parent is None or "%" not in parent:
                raise
            namespaces, token = self._children(request, decode_segment(parent))
        answer: dict[str, Any] = {"namespaces": namespaces}
        if token is not None:
            answer["next-page-token"] = token
        return json_answer(answer)

    def _children(self, request: HttpRequest, parent: str | None) -> tuple[list[Levels], str | None]:
        return list_namespaces_for(
            actor=self.actor,
            warehouse_id=self.warehouse_id,
            parent=split_levels(parent) if parent else None,
            page=self.page(request, "namespaces"),
        )

    @operations.create_namespace
    def post(self, request: HttpRequest, **_: Any) -> HttpResponse:
        body, once = self.body(request), self.once(request)
        made = self.perform(
            once,
            lambda: create_namespace(
                actor=self.actor,
                warehouse_id=self.warehouse_id,
                levels=body.get("namespace"),
                properties=body.get("properties"),
                once=once,
            ).as_json(),
        )
        return json_answer(made)


class NamespaceView(IcebergView):
    @operations.load_namespace
    def get(self, request: HttpRequest, **_: Any) -> HttpResponse:
        found = get_namespace_for(actor=self.actor, warehouse_id=self.warehouse_id, levels=self.levels)
        return json_answer({"namespace": found.levels, "properties": found.properties})

    @operations.namespace_exists
    def head(self, request: HttpRequest, **_: Any) -> HttpResponse:
        get_namespace_for(actor=self.actor, warehouse_id=self.warehouse_id, levels=self.levels)
        return no_content()

    @operations.drop_namespace
    def delete(self, request: HttpRequest, **_: Any) -> HttpResponse:
        once = self.once(request)
        self.perform(
            once,
            lambda: drop_namespace(actor=self.actor, warehouse_id=self.warehouse_id, levels=self.levels, once=once),
        )
        return no_content()


class NamespacePropertiesView(IcebergView):
    @operations.update_namespace_properties
    def post(self, request: HttpRequest, **_: Any) -> HttpResponse:
        body, once = self.body(request), self.once(request)
        changes = self.perform(
            once,
            lambda: update_namespace_properties(
                actor=self.actor,
                warehouse_id=self.warehouse_id,
                levels=self.levels,
                removals=body.get("removals"),
                updates=body.get("updates"),
                once=once,
            ).as_json(),
        )
        return json_answer(changes)
