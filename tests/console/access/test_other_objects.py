"""The access of views and generic tables, of dropped tables, and of objects in inactive warehouses."""

from __future__ import annotations

import pytest

from catalog.models import Tabular
from catalog.services.tables.create_generic_table import create_generic_table
from catalog.services.tables.create_view import create_view
from icekeeper.kernel.clock import now
from storage.models import Warehouse
from tenancy.actor import INTERNAL, Grantee
from tenancy.models import Grant, Securable
from tenancy.models.securable import ObjectRef, securable_id
from tenancy.selectors.grant_previews import digest_of_grants
from tests.authz.conftest import VIEW
from tests.console.access.conftest import SignIn
from tests.console.access.lake import HOSTILE, Lake

pytestmark = pytest.mark.django_db


def create(lake: Lake, kind: str) -> Tabular:
    name = f"{kind} {HOSTILE}"
    levels = lake.sales.levels
    if kind == "view":
        create_view(
            actor=INTERNAL, warehouse_id=lake.warehouse.pk, levels=levels, name=name, schema=VIEW["schema"],
            view_version=VIEW["view-version"], location=None, properties={},
        )  # fmt: skip
    else:
        create_generic_table(
            actor=INTERNAL, warehouse_id=lake.warehouse.pk, levels=levels, name=name, table_format="lance",
            base_location=None, doc=None, properties={}, schema=None, statistics=None,
        )  # fmt: skip
    return Tabular.objects.get(name=name)


@pytest.mark.parametrize("kind", ["view", "generic-table"])
def test_views_and_generic_tables_have_the_tab(lake: Lake, sign_in: SignIn, kind: str) -> None:
    client, tabular = sign_in("steward"), create(lake, kind)
    tab = f"/ui/warehouse/{lake.warehouse.pk}/{kind}/{tabular.uuid}/access/"
    form = f"/ui/access/object/{kind}:{lake.warehouse.pk}:{tabular.uuid}/"
    for address in (tab, f"{tab}?view=matrix", f"{form}explain/?who=user:local~jun&action=rename", form):
        response = client.get(address)
        assert response.status_code == 200
        assert HOSTILE not in response.content.decode()
    granted = client.post(f"{form}grant/", {"grantee": "user:local~guest", "privilege": "select"})
    assert (granted.status_code, granted.headers["Location"]) == (302, f"{tab}#grants")
    ref = ObjectRef(Securable.Type(kind), tabular.pk)
    assert Grant.objects.filter(securable_id=securable_id(*ref), user_id="local~guest").exists()
    assert sign_in("engineer").get(form).status_code == 404
    assert sign_in("engineer").get(tab).status_code == 404


def test_grants_on_a_dropped_table_are_changed_on_its_own_page(lake: Lake, sign_in: SignIn) -> None:
    client = sign_in("steward")
    Tabular.objects.filter(pk=lake.lines.pk).update(deleted_at=now())
    assert client.get(lake.url("lines")).status_code == 404
    assert client.get(lake.form("lines")).status_code == 200
    done = client.post(lake.form("lines", "grant"), {"grantee": "user:local~guest", "privilege": "select"})
    assert (done.status_code, done.headers["Location"]) == (302, f"{lake.form('lines')}#grants")


def test_objects_in_an_inactive_warehouse_have_a_page_of_their_own(lake: Lake, sign_in: SignIn) -> None:
    client = sign_in("steward")
    Warehouse.objects.filter(pk=lake.warehouse.pk).update(status=Warehouse.Status.INACTIVE)
    assert client.get(lake.url("sales")).status_code == 404
    assert client.get(lake.form("sales")).status_code == 200
    assert client.get(lake.url("warehouse")).status_code == 200
    back = client.get(lake.form("sales", "grant"))
    assert back.headers["Location"] == f"{lake.form('sales')}#grants"


@pytest.mark.parametrize(
    "key",
    ["", "x", "table", "table:", "table:x:y", "warehouse:x", "role:x", "tag:1", "user:local~admin", "server:1",
     "project:missing", "project:%00", "namespace:{w}", "warehouse:{w}:{w}"],
)  # fmt: skip
def test_keys_of_no_object_are_not_found(lake: Lake, sign_in: SignIn, key: str) -> None:
    key = key.format(w=lake.warehouse.pk)
    response = sign_in("steward").get(f"/ui/access/object/{key}/")
    assert response.status_code == (400 if key == "project:%00" else 404)


def test_the_digest_is_that_of_the_rows_of_these_principals(lake: Lake) -> None:
    guest = {Grantee(user_id="local~guest")}
    first = digest_of_grants(ref=lake.ref["lines"], grantees=guest)
    lake.give("select", "lines", "local~jun")
    assert digest_of_grants(ref=lake.ref["lines"], grantees=guest) == first
    assert digest_of_grants(ref=lake.ref["plans"], grantees=guest) != first
    lake.give("select", "lines", "local~guest")
    granted = digest_of_grants(ref=lake.ref["lines"], grantees=guest)
    lake.give("select", "lines", "local~guest", expires_at=now().replace(year=2099))
    assert len({first, granted, digest_of_grants(ref=lake.ref["lines"], grantees=guest)}) == 3
