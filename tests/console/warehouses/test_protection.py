"""The switch of protection on the pages of namespaces, tables and views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from catalog.models import Namespace, Tabular
from storage.models import Warehouse
from tests.console.visitor import Visitor
from tests.console.warehouses.conftest import Visit

pytestmark = pytest.mark.django_db


@pytest.fixture
def pages(warehouse: Warehouse, create_table: Callable[..., dict[str, Any]]) -> dict[str, str]:
    create_table()
    base = f"/ui/warehouse/{warehouse.pk}"
    return {
        "namespace": f"{base}/namespace/{Namespace.objects.get().pk}/",
        "table": f"{base}/table/{Tabular.objects.get().uuid}/",
    }


def is_protected(kind: str) -> bool:
    row = Namespace.objects.get() if kind == "namespace" else Tabular.objects.get()
    return row.protected


@pytest.mark.parametrize("kind", ["namespace", "table"])
def test_protect_and_clear(visit: Visit, pages: dict[str, str], kind: str) -> None:
    admin: Visitor = visit("anna", "project_admin")
    action = f"{pages[kind]}protection/"
    for state, button in (("true", "Protect"), ("false", "Remove protection")):
        page = admin.get(pages[kind])
        assert button in page.plain
        assert page.fields["protected"] == [state]
        done = admin.post(action, {"protected": state})
        assert (done.status, done.location) == (302, pages[kind])
        assert is_protected(kind) == (state == "true")
    assert admin.get(action).status == 405
    assert admin.post(action, {"protected": "maybe"}).status == 400


@pytest.mark.parametrize("kind", ["namespace", "table"])
def test_users_without_the_permission(visit: Visit, pages: dict[str, str], kind: str) -> None:
    reader = visit("reader", "select", on="warehouse")
    assert 'name="protected"' not in reader.get(pages[kind]).text
    assert reader.post(f"{pages[kind]}protection/", {"protected": "true"}).status == 403
    assert visit("stranger").post(f"{pages[kind]}protection/", {"protected": "true"}).status == 404
    assert not is_protected(kind)


def test_other_kinds(visit: Visit, warehouse: Warehouse) -> None:
    admin = visit("anna", "project_admin")
    action = f"/ui/warehouse/{warehouse.pk}/warehouse/{warehouse.pk}/protection/"
    assert admin.post(action, {"protected": "true"}).status == 404
