from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse

from catalog.api.base import IcebergView, json_answer, no_content
from catalog.api.fields import query_flag
from catalog.api.operations import namespaces as operations
from catalog.selectors.namespaces import ListedNamespace, get_namespace_for, list_namespaces_for
from catalog.services.namespaces.create import create_namespace, drop_namespace, update_namespace_properties
from catalog.services.namespaces.drop_tree import drop_subtree
from icekeeper.kernel.errors.types import NoSuchNamespace
from icekeeper.kernel.http.raw_path import decode_segment, split_levels


class NamespacesView(IcebergView):
    @operations.list_namespaces
    def get(self, request: HttpRequest, **_: Any) -> HttpResponse:
        parent = request.GET.get("parent")
        with_uuids = query_flag(request, "returnUuids")
        with_protection = query_flag(request, "returnProtectionStatus")
        try:
            namespaces, token = self._children(request, parent)
        except NoSuchNamespace:
            # PyIceberg and older Java clients encode this one parameter twice.
            if parent is None or "%" not in parent:
                raise
            namespaces, token = self._children(request, decode_segment(parent))
        answer: dict[str, Any] = {"namespaces": [each.levels for each in namespaces]}
        if with_uuids:
            answer["namespace-uuids"] = [str(each.id) for each in namespaces]
        if with_protection:
            answer["protection-status"] = [each.is_protected for each in namespaces]
        if token is not None:
            answer["next-page-token"] = token
        return json_answer(answer)

    def _children(self, request: HttpRequest, parent: str | None) -> tuple[list[ListedNamespace], str | None]:
        levels = split_levels(parent) if parent else None
        return list_namespaces_for(
            actor=self.actor,
            warehouse_id=self.warehouse_id,
            parent=levels,
            page=self.page(request, "namespaces", levels or ()),
        )

    @operations.create_namespace
    def post(self, request: HttpRequest, **_: Any) -> HttpResponse:
        body, idempotency_key = self.body(request), self.idempotency_key(request)
        made = self.perform(
            idempotency_key,
            lambda: create_namespace(
                actor=self.actor,
                warehouse_id=self.warehouse_id,
                levels=body.get("namespace"),
                properties=body.get("properties"),
                idempotency_key=idempotency_key,
            ).as_json(),
        )
        return json_answer(made)


class NamespaceView(IcebergView):
    @operations.load_namespace
    def get(self, request: HttpRequest, **_: Any) -> HttpResponse:
        with_uuid = query_flag(request, "returnUuid")
        found = get_namespace_for(actor=self.actor, warehouse_id=self.warehouse_id, levels=self.levels)
        answer: dict[str, Any] = {"namespace": found.levels, "properties": found.properties}
        if with_uuid:
            answer["namespace-uuid"] = str(found.id)
        return json_answer(answer)

    @operations.namespace_exists
    def head(self, request: HttpRequest, **_: Any) -> HttpResponse:
        get_namespace_for(actor=self.actor, warehouse_id=self.warehouse_id, levels=self.levels)
        return no_content()

    @operations.drop_namespace
    def delete(self, request: HttpRequest, **_: Any) -> HttpResponse:
        idempotency_key = self.idempotency_key(request)
        force, purge = query_flag(request, "force"), query_flag(request, "purge")
        is_recursive = query_flag(request, "recursive")

        def drop() -> None:
            actor, warehouse_id, levels = self.actor, self.warehouse_id, self.levels
            if is_recursive:
                drop_subtree(
                    actor=actor,
                    warehouse_id=warehouse_id,
                    levels=levels,
                    purge=purge,
                    force=force,
                    idempotency_key=idempotency_key,
                )
            else:
                drop_namespace(
                    actor=actor, warehouse_id=warehouse_id, levels=levels, force=force, idempotency_key=idempotency_key
                )

        self.perform(idempotency_key, drop)
        return no_content()


class NamespacePropertiesView(IcebergView):
    @operations.update_namespace_properties
    def post(self, request: HttpRequest, **_: Any) -> HttpResponse:
        body, idempotency_key = self.body(request), self.idempotency_key(request)
        changes = self.perform(
            idempotency_key,
            lambda: update_namespace_properties(
                actor=self.actor,
                warehouse_id=self.warehouse_id,
                levels=self.levels,
                removals=body.get("removals"),
                updates=body.get("updates"),
                idempotency_key=idempotency_key,
            ).as_json(),
        )
        return json_answer(changes)
