"""Restore dropped objects in the console: the preview, what is left out, and changes after the preview."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from html import unescape
from typing import Any
from urllib.parse import parse_qs, quote
from uuid import UUID

import pytest

from catalog.models import Tabular
from icekeeper.kernel.clock import now
from storage.models import Warehouse
from tasks.models import Task
from tenancy.actor import Actor
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef
from tests.authz.tree_fixtures import give
from tests.console.visitor import Shown, Visitor
from tests.console.warehouses.conftest import Visit
from tests.harness.wsgi_client import ApiClient

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

CreateTable = Callable[..., dict[str, Any]]
RESTORE = "/ui/deleted/restore/"
HOSTILE = "a<b onclick=alert(1)>'\"&amp;"


@pytest.fixture
def dropped(soft_delete: int, create_table: CreateTable, catalog: ApiClient) -> Callable[..., UUID]:
    """Create a table and drop it; return the id that clients see."""

    def drop(name: str = "t") -> UUID:
        uuid = UUID(create_table(name)["metadata"]["table-uuid"])
        assert catalog.delete(f"/namespaces/ns/tables/{quote(name, safe='')}").status == 204
        return uuid

    return drop


@pytest.fixture
def admin(visit: Visit) -> Visitor:
    return visit("anna", "project_admin")


def preview(visitor: Visitor, warehouse: Warehouse, *uuids: UUID) -> Shown:
    targets = "&".join(f"target=table:{uuid}" for uuid in uuids)
    return visitor.get(f"{RESTORE}?warehouse={warehouse.pk}&{targets}")


def restore(visitor: Visitor, page: Shown, *uuids: UUID) -> Shown:
    fields = {name: page.fields[name][0] for name in ("warehouse", "digest")}
    return visitor.post(RESTORE, {**fields, "target": [f"table:{uuid}" for uuid in uuids]})


def is_dropped(uuid: UUID) -> bool:
    return Tabular.objects.get(uuid=uuid).deleted_at is not None


def test_restore_two(admin: Visitor, warehouse: Warehouse, dropped: Callable[..., UUID]) -> None:
    first, second, third = dropped("a"), dropped("b"), dropped("c")
    listed = admin.get(f"/ui/deleted/?warehouse={warehouse.pk}")
    assert f'value="table:{first}"' in listed.text
    page = preview(admin, warehouse, first, second)
    assert page.status == 200
    assert "Restore 2 objects?" in page.plain
    assert "ns.a" in page.plain
    assert is_dropped(first), "a preview changes nothing"
    done = restore(admin, page, first, second)
    assert (done.status, done.location) == (302, f"/ui/deleted/?warehouse={warehouse.pk}")
    assert (is_dropped(first), is_dropped(second), is_dropped(third)) == (False, False, True)
    assert "2 objects were restored." in admin.get(done.location).plain
    assert Task.objects.live().count() == 1


def test_a_taken_name_is_left_out(
    admin: Visitor, warehouse: Warehouse, dropped: Callable[..., UUID], create_table: CreateTable
) -> None:
    free, taken = dropped("free"), dropped("taken")
    live = UUID(create_table("taken")["metadata"]["table-uuid"])
    page = preview(admin, warehouse, free, taken)
    assert "Another object has its name" in page.plain
    assert f"/ui/warehouse/{warehouse.pk}/table/{live}/" in page.text
    assert "Restore 1 object, and those with a new name" in page.plain
    assert restore(admin, page, free, taken).status == 302
    assert (is_dropped(free), is_dropped(taken)) == (False, True)


def test_restore_under_another_name(
    visit: Visit, admin: Visitor, warehouse: Warehouse, dropped: Callable[..., UUID], create_table: CreateTable
) -> None:
    early, late = dropped("t"), dropped("t")
    create_table("t")
    create_table("u")
    page = preview(admin, warehouse, early, late)
    assert "The names are taken: enter new ones" in page.plain
    fields = {name: page.fields[name][0] for name in ("warehouse", "digest")}
    targets = [f"table:{early}", f"table:{late}"]
    for name, status, text in (("u", 409, "another table has that name"), ("..", 400, "is not a name")):
        wrong = admin.post(RESTORE, {**fields, "target": targets, f"name:table:{early}": name})
        assert (wrong.status, text in wrong.plain) == (status, True), wrong.plain
        assert wrong.fields[f"name:table:{early}"] == [name]
        assert is_dropped(early)
    done = admin.post(RESTORE, {**fields, "target": targets, f"name:table:{early}": HOSTILE})
    assert done.status == 302
    assert f"ns.{HOSTILE} was restored." in admin.get(done.location).plain
    assert (is_dropped(early), is_dropped(late)) == (False, True)
    assert Tabular.objects.live().get(uuid=early).name == HOSTILE
    assert Task.objects.live().count() == 1


def test_of_two_with_one_name_the_later_one_is_restored(
    admin: Visitor, warehouse: Warehouse, dropped: Callable[..., UUID]
) -> None:
    early, late = dropped("t"), dropped("t")
    page = preview(admin, warehouse, early, late)
    assert "One that was dropped later has the same name" in page.plain
    assert restore(admin, page, early, late).status == 302
    assert (is_dropped(early), is_dropped(late)) == (True, False)


def test_a_change_after_the_preview(
    admin: Visitor, warehouse: Warehouse, dropped: Callable[..., UUID], create_table: CreateTable
) -> None:
    uuid, other = dropped("t"), dropped("u")
    page = preview(admin, warehouse, uuid, other)
    create_table("t")
    changed = restore(admin, page, uuid, other)
    assert changed.status == 409
    assert "Nothing was restored: something has changed" in changed.plain
    assert "Another object has its name" in changed.plain
    assert is_dropped(uuid)
    assert is_dropped(other), "all or none of what was shown"
    assert restore(admin, changed, uuid, other).status == 302
    assert not is_dropped(other)


def test_a_table_that_is_being_deleted(admin: Visitor, warehouse: Warehouse, dropped: Callable[..., UUID]) -> None:
    uuid = dropped()
    page = preview(admin, warehouse, uuid)
    Task.objects.update(status=Task.Status.RUNNING, leased_until=now() + timedelta(minutes=1))
    changed = restore(admin, page, uuid)
    assert changed.status == 409
    assert "It is being deleted permanently" in changed.plain
    assert "None of the objects can be restored" in changed.plain


def test_twice(admin: Visitor, warehouse: Warehouse, dropped: Callable[..., UUID]) -> None:
    uuid = dropped()
    page = preview(admin, warehouse, uuid)
    assert restore(admin, page, uuid).status == 302
    again = restore(admin, page, uuid)
    assert again.status == 409
    assert "It is not dropped any more" in again.plain


def test_hostile_names(admin: Visitor, warehouse: Warehouse, dropped: Callable[..., UUID]) -> None:
    uuid = dropped(HOSTILE)
    for page in (admin.get("/ui/deleted/"), preview(admin, warehouse, uuid)):
        assert "<b onclick" not in page.text
        assert HOSTILE in page.plain
    done = restore(admin, preview(admin, warehouse, uuid), uuid)
    shown = admin.get(done.location)
    assert "<b onclick" not in shown.text
    assert f"ns.{HOSTILE} was restored." in shown.plain


def test_users_without_the_permission(
    visit: Visit, admin: Visitor, warehouse: Warehouse, dropped: Callable[..., UUID]
) -> None:
    uuid = dropped()
    form = preview(admin, warehouse, uuid)
    reader = visit("reader", "select", on="warehouse")
    page = preview(reader, warehouse, uuid)
    assert "You do not have the permission to restore it" in page.plain
    assert "None of the objects can be restored" in page.plain
    assert restore(reader, page, uuid).status == 400, "nothing to restore"
    assert restore(reader, form, uuid).status == 409, "the page of another user"
    stranger = visit("stranger")
    assert preview(stranger, warehouse, uuid).status == 404
    assert restore(stranger, form, uuid).status == 404
    assert is_dropped(uuid)


def test_one_of_two_is_hidden(visit: Visit, warehouse: Warehouse, dropped: Callable[..., UUID]) -> None:
    own, hidden = dropped("own"), dropped("hidden")
    visitor = visit("olga")
    own_ref: ObjectRef = ObjectRef(Securable.Type.TABLE, Tabular.objects.get(uuid=own).pk)
    give("ownership", own_ref, Actor(user_id=visitor.user_id))
    page = preview(visitor, warehouse, own, hidden)
    assert page.status == 200, page.plain
    assert "ns.own" in page.plain
    assert "ns.hidden" not in page.plain
    unknown = preview(visitor, warehouse, own, UUID(int=7))
    assert unknown.plain.count("It does not exist any more") == page.plain.count("It does not exist any more") == 1
    assert restore(visitor, page, own, hidden).status == 302
    assert (is_dropped(own), is_dropped(hidden)) == (False, True)


@pytest.mark.parametrize("target", ["", "&target=table", "&target=floppy:0198e0f4-3f6e-7c31-8c7d-000000000000",
                                    "&target=table:x"])  # fmt: skip
def test_other_targets(admin: Visitor, warehouse: Warehouse, target: str) -> None:
    assert admin.get(f"{RESTORE}?warehouse={warehouse.pk}{target}").status == 400
    assert admin.get(f"{RESTORE}?warehouse=x{target}").status == 404


def test_pages_keep_the_filters(
    admin: Visitor, warehouse: Warehouse, dropped: Callable[..., UUID], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["100%", "a_1", HOSTILE, "b 1", "b 2", "B 3", "b 4"]
    uuids = {name: str(dropped(name)) for name in names}
    monkeypatch.setattr("management.admin.listing_pages.ROWS_A_PAGE", 3)
    address = f"/ui/deleted/?warehouse={warehouse.pk}"

    def read(target: str) -> tuple[list[str], str]:
        text = admin.get(target).text
        found = re.search(r'href="([^"]*)">Next 50', text)
        shown = [name for name, uuid in uuids.items() if f'"table:{uuid}"' in text]
        return shown, unescape(found[1]) if found else ""

    first, following = read(f"{address}&name=B+")
    assert parse_qs(following[1:])["name"] == ["B"]
    rest, no_more = read(f"/ui/deleted/{following}")
    assert (len(first), len(rest), no_more) == (3, 2, "")
    assert sorted(first + rest) == sorted(["B 3", HOSTILE, "b 1", "b 2", "b 4"])
    assert read(f"{address}&name=%25")[0] == ["100%"]
    assert read(f"{address}&name=_")[0] == ["a_1"]
    token = parse_qs(following[1:])["after"][0]
    for other in (f"&after={token}", f"&name=b+1&after={token}", "&name=b&after=nonsense"):
        assert admin.get(address + other).status == 400, other
    text = admin.get(f"{address}&name=unknown&namespace=x").text
    assert "No deleted objects match" in text
    assert f'href="?warehouse={warehouse.pk}">Clear filters' in text


def test_controls_are_those_of_the_permissions(
    visit: Visit, warehouse: Warehouse, dropped: Callable[..., UUID]
) -> None:
    """Of the objects that a user sees, those can be marked that they may restore or delete permanently."""
    uuids = [dropped(name) for name in ("readable", "own")]
    refs = [ObjectRef(Securable.Type.TABLE, Tabular.objects.get(uuid=uuid).pk) for uuid in uuids]
    visitor = visit("bob")
    bob = Actor(user_id=visitor.user_id)
    give("describe", ObjectRef(Securable.Type.WAREHOUSE, warehouse.pk), bob)
    address = f"/ui/deleted/?warehouse={warehouse.pk}"
    text = visitor.get(address).text
    assert "readable" in text
    assert "Restore…" not in text
    assert "Delete permanently…" not in text
    assert 'name="target"' not in text
    give("ownership", refs[1], bob)
    text = visitor.get(address).text
    assert "Restore…" in text
    assert "Delete permanently…" in text
    assert f'value="table:{uuids[1]}"' in text
    assert f'value="table:{uuids[0]}"' not in text
