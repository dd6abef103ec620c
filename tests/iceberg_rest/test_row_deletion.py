"""Deletion of rows with their dependent rows, in statements that are composed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import IntegrityError, connection, models, transaction
from django.test.utils import isolate_apps

from catalog.models import LocationClaim, Namespace, Snapshot, Tabular, TabularMetadata
from icekeeper.kernel.db.deletion import delete_rows
from tests.catalog_fixtures import SCAN_REPORT, snapshot
from tests.harness.wsgi_client import ApiClient

pytestmark = pytest.mark.django_db


def test_dependent_rows_are_deleted_and_no_others(
    catalog: ApiClient, create_table: Callable[..., dict[str, Any]], warehouse: Any
) -> None:
    for name in ("t", "other"):
        at = create_table(name)["metadata"]["last-updated-ms"]
        updates = [
            {"action": "add-snapshot", "snapshot": snapshot(1, at=at)},
            {"action": "set-location", "location": f"{warehouse.location}/moved-{name}"},
        ]
        path = f"/namespaces/ns/tables/{name}"
        assert catalog.post(path, {"requirements": [], "updates": updates}).status == 200
        assert catalog.post(f"{path}/metrics", SCAN_REPORT).status == 204
    deleted, kept = (Tabular.objects.get(name=name).pk for name in ("t", "other"))
    delete_rows(Tabular, [deleted])
    assert list(Tabular.objects.values_list("pk", flat=True)) == [kept]
    for relation in Tabular._meta.related_objects:
        rows = relation.related_model._default_manager.values_list(relation.field.attname, flat=True)
        assert deleted not in rows, relation.related_model
    for model in (LocationClaim, Snapshot, TabularMetadata):
        assert list(model._default_manager.values_list("tabular_id", flat=True)) == [kept]


def test_rows_that_others_reference_are_kept(catalog: ApiClient, create_table: Callable[..., dict[str, Any]]) -> None:
    create_table()
    home = Namespace.objects.get()
    with pytest.raises(IntegrityError), transaction.atomic():  # noqa: PT012 - the transaction as a whole
        delete_rows(Namespace, [home.pk])
        connection.check_constraints()  # as the commit does
    assert Namespace.objects.get() == home


@isolate_apps("catalog")
def test_a_second_step_is_refused_before_anything_is_deleted() -> None:
    class Root(models.Model):  # noqa: DJ008
        class Meta:
            app_label = "catalog"

    class Child(models.Model):  # noqa: DJ008
        root = models.ForeignKey(Root, on_delete=models.CASCADE)

        class Meta:
            app_label = "catalog"

    class Grandchild(models.Model):  # noqa: DJ008
        child = models.ForeignKey(Child, on_delete=models.CASCADE)

        class Meta:
            app_label = "catalog"

    with pytest.raises(ImproperlyConfigured, match="Grandchild refers to Child"):
        delete_rows(Root, [1])
