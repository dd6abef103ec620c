"""Fixtures: users of the console with different grants, and the catalog of the authorization tests."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from uuid import UUID

import pytest

from catalog.models import Namespace, Tabular
from storage.models import Warehouse
from tenancy.models.securable import ObjectRef
from tests.console.visitor import Shown, Visitor
from tests.console.warehouses.conftest import Visit, builtin, visit  # noqa: F401 - fixtures

Address = Callable[[str], str]
HOSTILE = "a<b onclick=alert(1)>'\"&amp;.\\%2F \u05d0"


@pytest.fixture
def admin(visit: Visit) -> Visitor:  # noqa: F811
    return visit("anna", "project_admin")


@pytest.fixture
def page_of(lake: dict[str, ObjectRef], warehouse: Warehouse) -> Address:
    """Return the address of the page of an object of `lake` by its dotted name."""

    def address(name: str) -> str:
        ref = lake[name]
        kind = ref.type.value
        own_id = ref.id if kind == "namespace" else Tabular.objects.get(pk=ref.id).uuid
        return f"/ui/warehouse/{warehouse.pk}/{kind}/{own_id}/"

    return address


def tabular(ref: ObjectRef) -> Tabular:
    return Tabular.objects.select_related("namespace").get(pk=ref.id)


def names() -> list[str]:
    """Return the live tabulars as dotted names."""
    rows = Tabular.objects.live().select_related("namespace")
    return sorted(".".join((*row.namespace.levels, row.name)) for row in rows)


def namespace_id(name: str) -> UUID:
    """Return the id of a namespace by its levels, joined with `|`."""
    return Namespace.objects.get(path=name.replace("|", "\x1f")).pk


def undo(visitor: Visitor, page: Shown) -> Shown:
    """Press the button in the message at the top of a page."""
    form = page.text.partition('<form class="ik-push" method="post" action="')[2]
    target, _, rest = form.partition('"')
    fields: dict[str, list[str]] = {}
    for name, value in re.findall(r'name="([^"]*)" value="([^"]*)"', rest.partition("</form>")[0]):
        fields.setdefault(unescape(name), []).append(unescape(value))
    return visitor.post(target, {name: values for name, values in fields.items() if name != "csrfmiddlewaretoken"})
