"""Rename, move, drop and properties of tables, views and generic tables in the console."""

from __future__ import annotations

import pytest

from catalog.models import Tabular
from storage.models import Warehouse
from tasks.models import Task
from tenancy.models.securable import ObjectRef
from tests.console.changes.conftest import HOSTILE, Address, names, tabular, undo
from tests.console.visitor import Visitor
from tests.console.warehouses.conftest import Visit
from tests.harness.named_callers import CallerClient

pytestmark = [pytest.mark.django_db]


@pytest.mark.both_databases
def test_rename_and_undo(admin: Visitor, lake: dict[str, ObjectRef], page_of: Address) -> None:
    address = page_of("open.a")
    page = admin.get(f"{address}rename/")
    assert page.fields["name"] == ["a"]
    assert page.fields["namespace"] == ["open"]
    done = admin.submit(page, f"{address}rename/", "rename", name=HOSTILE, namespace="closed.deep")
    assert (done.status, done.location) == (302, address)
    assert f"closed.deep.{HOSTILE}" in names()
    shown = admin.get(address)
    assert f"open.a is now closed.deep.{HOSTILE}." in shown.plain
    assert "<b onclick" not in shown.text
    assert undo(admin, shown).status == 302
    assert "open.a" in names()
    again = admin.submit(page, f"{address}rename/", "rename", name="z", namespace="open")
    assert again.status == 302


def test_renames_that_fail(admin: Visitor, page_of: Address, root: CallerClient) -> None:
    address = f"{page_of('open.a')}rename/"
    page = admin.get(address)
    for entered, status, text in (
        ({"name": "b"}, 409, "This name is taken in the namespace"),
        ({"name": ""}, 400, "must not be empty"),
        ({"namespace": ""}, 400, "Enter a namespace"),
        ({"namespace": "nowhere"}, 400, "This namespace does not exist, or you do not see it"),
    ):
        shown = admin.submit(page, address, "rename", **entered)
        assert (shown.status, text in shown.plain) == (status, True), shown.plain
    body = {"source": {"namespace": ["open"], "name": "a"}, "destination": {"namespace": ["open"], "name": "new"}}
    assert root.post("/tables/rename", body).status == 204
    late = admin.submit(page, address, "rename", name="mine")
    assert late.status == 409
    assert "another user renamed it to open.new" in late.plain
    assert "open.mine" not in names()
    assert admin.submit(late, address, "rename", name="mine").status == 302


@pytest.mark.both_databases
def test_drop_at_once_and_undo(
    admin: Visitor, soft_delete: int, lake: dict[str, ObjectRef], page_of: Address, warehouse: Warehouse
) -> None:
    for name in ("open.a", "open.v", "open.g"):
        address = page_of(name)
        page = admin.get(address)
        dropped = admin.post(f"{address}drop/", {"action": "drop", "digest": page.fields["digest"]})
        assert (dropped.status, dropped.location) == (302, page_of("open"))
        assert name not in names()
        shown = admin.post(f"{address}drop/", {"action": "drop", "digest": page.fields["digest"]})
        assert shown.status == 404, "twice"
        assert f"{name} was dropped. It can be restored until" in shown.plain
        restored = undo(admin, shown)
        assert (restored.status, restored.location) == (302, address)
        assert name in names()
    assert not Task.objects.live().exists()


def test_permanent_drop(admin: Visitor, lake: dict[str, ObjectRef], page_of: Address, warehouse: Warehouse) -> None:
    address = page_of("open.a")
    assert 'name="digest"' not in admin.get(address).text, "a drop has to be confirmed"
    page = admin.get(f"{address}drop/")
    assert "Not possible: the warehouse has no soft delete" in page.plain
    wrong = admin.submit(page, f"{address}drop/", "drop", typed_name="b", purge="true")
    assert (wrong.status, "This is not the name" in wrong.plain) == (400, True)
    assert 'name="purge" value="true" checked' in wrong.text
    assert admin.submit(page, f"{address}drop/", "drop", typed_name="a", purge="true").status == 302
    assert "open.a" not in names()
    assert Task.objects.get().queue == Task.Queue.TABULAR_PURGE


def test_a_protected_table_and_a_change_after_the_page(
    admin: Visitor, lake: dict[str, ObjectRef], page_of: Address
) -> None:
    address = f"{page_of('open.a')}drop/"
    page = admin.get(address)
    Tabular.objects.filter(pk=lake["open.a"].id).update(protected=True)
    late = admin.submit(page, address, "drop", typed_name="a")
    assert (late.status, "it has changed since you looked" in late.plain) == (409, True)
    refused = admin.submit(late, address, "drop", typed_name="a")
    assert (refused.status, "is protected" in refused.plain) == (409, True)
    assert "open.a" in names()
    assert admin.submit(late, address, "drop", typed_name="a", force="true").status == 302
    assert "open.a" not in names()


@pytest.mark.parametrize("name", ["open.a", "open.v"])
def test_properties(admin: Visitor, root: CallerClient, page_of: Address, name: str) -> None:
    address = f"{page_of(name)}edit-properties/"
    page = admin.get(address)
    count = sum(1 for each in page.fields if each.startswith("before-"))
    done = admin.submit(page, address, "", **{f"name-{count}": f" {HOSTILE} ", f"value-{count}": "1\r\n\r\n2"})
    assert (done.status, done.location) == (302, f"{page_of(name)}properties/")
    kind = "views" if name.endswith("v") else "tables"

    def stored() -> dict[str, str]:
        found: dict[str, str] = root.get(f"/namespaces/open/{kind}/{name[-1]}").json()["metadata"]["properties"]
        return found

    assert stored()[HOSTILE.strip()] == "1\n\n2"
    first, second = admin.get(address), admin.get(address)
    index = next(key[5:] for key, value in first.fields.items() if key.startswith("name-") and value == [HOSTILE])
    before = first.fields[f"before-{index}"]
    assert admin.submit(first, address, "", **{f"value-{index}": before}).location == address, "nothing was changed"
    assert admin.submit(first, address, "", **{f"value-{index}": "first"}).status == 302
    late = admin.submit(second, address, "", **{f"value-{index}": "second"})
    assert late.status == 409
    assert "another user changed it meanwhile" in late.plain
    assert "Stored now: first" in late.plain
    assert late.fields[f"value-{index}"] == ["second"]
    assert stored()[HOSTILE] == "first"
    assert admin.submit(late, address, "").status == 302
    assert stored()[HOSTILE] == "second"
    removing = admin.get(address)
    assert admin.submit(removing, address, "", **{f"remove-{index}": "true"}).status == 302
    assert HOSTILE not in stored()
    taken = admin.submit(admin.get(address), address, "", **{f"value-{count}": "value without a name"})
    assert (taken.status, "A new property needs a name" in taken.plain) == (400, True)


def test_a_commit_of_data_is_no_conflict(admin: Visitor, root: CallerClient, page_of: Address) -> None:
    address = f"{page_of('open.a')}edit-properties/"
    page = admin.get(address)
    count = sum(1 for each in page.fields if each.startswith("before-"))
    other = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"other": "1"}}]}
    assert root.post("/namespaces/open/tables/a", other).status == 200
    new = {f"name-{count}": "mine", f"value-{count}": "1"}
    assert admin.submit(page, address, "", **new).status == 302
    again = admin.submit(page, address, "", **(new | {f"value-{count}": "2"}))
    assert again.status == 409, "it is set by now"
    assert admin.get(f"{page_of('open.g')}edit-properties/").status == 404


def test_users_without_the_permission(
    visit: Visit, soft_delete: int, lake: dict[str, ObjectRef], page_of: Address, warehouse: Warehouse
) -> None:
    before = names()
    reader, stranger = visit("reader", "select", on="warehouse"), visit("stranger")
    for name in ("open.a", "open.v", "open.g"):
        address = page_of(name)
        shown = reader.get(address).text
        for path, fields in (
            ("rename/", {"action": "rename", "name": "z", "namespace": "open", "former": name}),
            ("drop/", {"action": "drop", "digest": "x"}),
            ("edit-properties/", {"name-0": "a", "value-0": "b"}),
        ):
            if (name, path) == ("open.g", "edit-properties/"):
                continue
            assert path not in shown
            for visitor, status in ((reader, 403), (stranger, 404)):
                assert visitor.get(f"{address}{path}").status == status, path
                assert visitor.post(f"{address}{path}", fields).status == status, path
        restoring = {"warehouse": str(warehouse.pk), "target": f"table:{tabular(lake['open.a']).uuid}"}
        assert reader.post("/ui/deleted/undo/", restoring).status == 403
        assert stranger.post("/ui/deleted/undo/", restoring).status == 404
    assert names() == before
