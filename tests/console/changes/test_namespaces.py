"""Namespaces in the console: create, rename and move, properties, protection, and drops with everything in them."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from catalog.models import Namespace, Tabular
from catalog.selectors import subtree_preview
from storage.models import Warehouse
from tasks.models import Task
from tenancy.models.securable import ObjectRef
from tests.console.changes.conftest import HOSTILE, Address, names, namespace_id, undo
from tests.console.visitor import Visitor
from tests.console.warehouses.conftest import Visit
from tests.harness.named_callers import CallerClient

pytestmark = [pytest.mark.django_db]


def paths() -> list[str]:
    return sorted(str(each) for each in Namespace.objects.all())


def test_create(admin: Visitor, page_of: Address, warehouse: Warehouse) -> None:
    top = f"/ui/warehouse/{warehouse.pk}/"
    for page, address, full in (
        (admin.get(top), f"{top}add-namespace/", HOSTILE),
        (admin.get(page_of("open")), f"{page_of('open')}add-namespace/", f"open.{HOSTILE}"),
    ):
        assert address in page.text
        form = admin.get(address)
        done = admin.submit(form, address, "create", name=HOSTILE)
        assert done.status == 302
        shown = admin.get(done.location)
        assert f"Namespace {full} was created." in shown.plain
        assert "<b onclick" not in shown.text
        assert full in paths()
        again = admin.submit(form, address, "create", name=HOSTILE)
        assert (again.status, "This name is taken" in again.plain) == (409, True)
        assert HOSTILE in again.fields["name"]
        for name, location, text in (("", "", "must not be empty"), ("x", "s3://elsewhere/x", "ocation")):
            wrong = admin.submit(form, address, "create", name=name, location=location)
            assert (wrong.status, text in wrong.plain) == (400, True), wrong.plain


@pytest.mark.both_databases
def test_move_and_undo(admin: Visitor, page_of: Address) -> None:
    address = page_of("closed.deep")
    page = admin.get(f"{address}move/")
    assert (page.fields["name"], page.fields["namespace"]) == (["deep"], ["closed"])
    stale = admin.get(f"{address}move/")
    assert admin.submit(page, f"{address}move/", "rename", name=HOSTILE, namespace="open").status == 302
    assert f"open.{HOSTILE}.a" in names()
    shown = admin.get(address)
    assert f"closed.deep is now open.{HOSTILE}." in shown.plain
    late = admin.submit(stale, f"{address}move/", "rename", name="late")
    assert late.status == 409
    assert f"local~anna changed the namespace meanwhile. It is open.{HOSTILE} now" in late.plain
    assert undo(admin, shown).status == 302
    assert "closed.deep.a" in names()
    page = admin.get(f"{address}move/")
    for entered, status, text in (
        ({"namespace": "nowhere"}, 400, "This namespace does not exist, or you do not see it"),
        ({"namespace": "", "name": "open"}, 409, "This name is taken there"),
        ({"namespace": "closed.deep"}, 400, "cannot be moved into itself"),
    ):
        wrong = admin.submit(page, f"{address}move/", "rename", **entered)
        assert (wrong.status, text in wrong.plain) == (status, True), wrong.plain
    Namespace.objects.filter(pk=namespace_id("closed|deep")).update(protected=True)
    refused = admin.submit(page, f"{address}move/", "rename", namespace="")
    assert (refused.status, "protected" in refused.plain) == (409, True)
    assert admin.submit(refused, f"{address}move/", "rename", namespace="", force="true").status == 302
    assert "deep" in paths()


def test_properties(admin: Visitor, page_of: Address) -> None:
    address = f"{page_of('open')}edit-properties/"
    first = admin.get(address)
    assert "namespace_id" not in str(first.fields), "set by the server"
    assert admin.submit(first, address, "", **{"name-0": HOSTILE, "value-0": "1"}).status == 302
    late = admin.submit(first, address, "", **{"name-0": "mine", "value-0": "2"})
    assert late.status == 409
    assert "local~anna changed it meanwhile" in late.plain
    assert Namespace.objects.get(path="open").properties == {HOSTILE.strip(): "1"}
    assert admin.submit(late, address, "").status == 302
    assert Namespace.objects.get(path="open").properties == {HOSTILE.strip(): "1", "mine": "2"}
    refused = admin.submit(admin.get(address), address, "", **{"name-2": "location", "value-2": "s3://else/where"})
    assert (refused.status, "location of a namespace cannot be changed" in refused.plain) == (400, True)


def test_drop_an_empty_one(admin: Visitor, root: CallerClient, page_of: Address, warehouse: Warehouse) -> None:
    assert root.post("/namespaces", {"namespace": ["open", HOSTILE]}).status == 200
    address = f"/ui/warehouse/{warehouse.pk}/namespace/{namespace_id(f'open|{HOSTILE}')}/drop/"
    page = admin.get(address)
    assert "The namespace is empty" in page.plain
    assert "typed_name" not in page.text
    assert root.post("/namespaces", {"namespace": ["open", HOSTILE, "late"]}).status == 200
    late = admin.submit(page, address, "drop")
    assert (late.status, "something has changed" in late.plain) == (409, True)
    assert "To confirm, type the name" in late.plain
    inner = quote(f"open\x1f{HOSTILE}\x1flate", safe="")
    assert root.delete(f"/namespaces/{inner}").status == 204
    done = admin.submit(page, address, "drop")
    assert (done.status, done.location) == (302, page_of("open"))
    assert admin.submit(page, address, "drop").status == 404
    assert f"open.{HOSTILE}" not in paths()


@pytest.mark.both_databases
def test_recursive_drop(admin: Visitor, root: CallerClient, page_of: Address, warehouse: Warehouse) -> None:
    address = f"{page_of('closed')}drop/"
    page = admin.get(address)
    for text in ("1 namespace below it, 8 tables and views", "deep", "The grants on all of them end"):
        assert text in page.plain
    assert root.delete("/namespaces/closed/tables/b").status == 204
    wrong = admin.submit(page, address, "drop", typed_name="closed")
    assert (wrong.status, "something has changed. Check the tree" in wrong.plain) == (409, True)
    assert "closed.a" in names()
    page = admin.get(address)
    wrong = admin.submit(page, address, "drop", typed_name="close")
    assert (wrong.status, "This is not the name" in wrong.plain) == (400, True)
    Tabular.objects.filter(name="a").update(protected=True)
    page = admin.get(address)
    refused = admin.submit(page, address, "drop", typed_name="closed")
    assert (refused.status, "holds a protected table" in refused.plain) == (409, True)
    done = admin.submit(page, address, "drop", typed_name="closed", purge="true", force="true")
    assert (done.status, done.location) == (302, f"/ui/warehouse/{warehouse.pk}/")
    assert paths() == ["open"]
    assert names() == ["open.a", "open.b", "open.g", "open.v"]
    assert Task.objects.filter(queue=Task.Queue.TABULAR_PURGE).count() == 7
    assert admin.submit(page, address, "drop", typed_name="closed").status == 404


def test_recursive_drop_with_soft_delete(
    admin: Visitor, soft_delete: int, root: CallerClient, page_of: Address
) -> None:
    assert root.delete("/namespaces/closed/tables/b").status == 204
    address = f"{page_of('closed')}drop/"
    page = admin.get(address)
    assert "1 of them was dropped before, and could still be restored" in page.plain
    assert "Soft delete does not apply to it" in page.plain
    refused = admin.submit(page, address, "drop", typed_name="closed")
    assert (refused.status, "unless forced" in refused.plain) == (400, True)
    assert "closed.a" in names()
    assert admin.submit(page, address, "drop", typed_name="closed", force="true").status == 302
    assert not Tabular.objects.filter(namespace__path="closed").exists()


def test_more_than_is_shown(admin: Visitor, page_of: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subtree_preview, "MAX_SHOWN", 3)
    address = f"{page_of('closed')}drop/"
    page = admin.get(address)
    assert "The others are dropped, too" in page.plain
    assert page.text.count('href="/static/console/icons.svg#table"') < 8
    assert admin.submit(page, address, "drop", typed_name="closed").status == 302
    assert paths() == ["open"]


def test_users_without_the_permission(
    visit: Visit, lake: dict[str, ObjectRef], page_of: Address, warehouse: Warehouse
) -> None:
    before = (names(), paths())
    reader, stranger = visit("reader", "select", on="warehouse"), visit("stranger")
    address, top = page_of("closed"), f"/ui/warehouse/{warehouse.pk}/"
    shown = reader.get(address).text + reader.get(top).text
    for target, fields in (
        (f"{address}move/", {"action": "rename", "name": "z", "namespace": "", "version": "1"}),
        (f"{address}drop/", {"action": "drop", "digest": "x", "typed_name": "closed"}),
        (f"{address}edit-properties/", {"name-0": "a", "value-0": "b", "version": "1"}),
        (f"{address}add-namespace/", {"action": "create", "name": "z"}),
        (f"{top}add-namespace/", {"action": "create", "name": "z"}),
    ):
        assert target not in shown
        for visitor, status in ((reader, 403), (stranger, 404)):
            assert visitor.get(target).status == status, target
            assert visitor.post(target, fields).status == status, target
    assert (names(), paths()) == before
