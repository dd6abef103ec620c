"""Changes of several tables and views from the contents of a namespace, and permanent deletions before the time."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import quote

import pytest

from catalog.models import Tabular
from icekeeper.kernel.clock import now
from storage.models import Warehouse
from tasks.models import Task
from tenancy.models.securable import ObjectRef
from tests.console.changes.conftest import Address, names, tabular, undo
from tests.console.visitor import Shown, Visitor
from tests.console.warehouses.conftest import Visit
from tests.harness.named_callers import CallerClient

pytestmark = [pytest.mark.django_db]


def target(ref: ObjectRef) -> str:
    row = tabular(ref)
    return f"{row.kind}:{row.uuid}"


def address_of(page: str, do: str, *refs: ObjectRef) -> str:
    return f"{page}change/?do={do}&{'&'.join(f'target={target(ref)}' for ref in refs)}"


def confirm(visitor: Visitor, page: str, shown: Shown, *refs: ObjectRef, **entered: str) -> Shown:
    fields = {name: shown.fields[name] for name in ("do", "digest")}
    return visitor.post(f"{page}change/", {**fields, "target": [target(ref) for ref in refs], **entered})


@pytest.mark.both_databases
def test_drop_several_and_undo(admin: Visitor, soft_delete: int, lake: dict[str, ObjectRef], page_of: Address) -> None:
    page = page_of("open")
    refs = [lake[name] for name in ("open.a", "open.v", "open.g", "closed.a")]
    contents = admin.get(page)
    assert target(refs[0]) in contents.text
    assert "{#" not in contents.text, "a comment of a template is one line"
    Tabular.objects.filter(pk=lake["open.g"].id).update(protected=True)
    shown = admin.get(address_of(page, "drop", *refs))
    assert "It is protected: remove the protection first" in shown.plain
    assert shown.plain.count("It does not exist any more") == 1, "of another namespace"
    assert "Drop (2)" in shown.plain
    dropped = confirm(admin, page, shown, *refs)
    assert (dropped.status, dropped.location) == (302, page)
    assert [name for name in names() if name.startswith("open")] == ["open.b", "open.g"]
    assert "closed.a" in names()
    again = confirm(admin, page, shown, *refs)
    assert again.status == 409
    assert "2 objects were dropped." in again.plain
    assert undo(admin, again).status == 302
    assert {"open.a", "open.v"} <= set(names())
    assert not Task.objects.live().exists()


def test_permanent_drop_and_a_change_after_the_preview(
    admin: Visitor, lake: dict[str, ObjectRef], page_of: Address
) -> None:
    page, refs = page_of("open"), [lake["open.a"], lake["open.b"]]
    shown = admin.get(address_of(page, "drop", *refs))
    wrong = confirm(admin, page, shown, *refs, typed_name="closed")
    assert (wrong.status, "This is not the name" in wrong.plain) == (400, True)
    Tabular.objects.filter(pk=lake["open.a"].id).update(protected=True)
    late = confirm(admin, page, shown, *refs, typed_name="open")
    assert (late.status, "something has changed since you looked" in late.plain) == (409, True)
    assert "open.b" in names(), "all or none of what was shown"
    assert confirm(admin, page, late, *refs, typed_name="open", purge="true").status == 302
    assert "open.a" in names()
    assert "open.b" not in names()
    assert Task.objects.get().queue == Task.Queue.TABULAR_PURGE


def test_protect_several(admin: Visitor, lake: dict[str, ObjectRef], page_of: Address) -> None:
    page, refs = page_of("open"), [lake["open.a"], lake["open.v"]]
    for do, text, state in (("protect", "are protected now", True), ("remove-protection", "are not protected", False)):
        shown = admin.get(address_of(page, do, *refs))
        done = confirm(admin, page, shown, *refs)
        assert done.status == 302
        assert f"2 objects {text}" in admin.get(page).plain
        assert {tabular(ref).protected for ref in refs} == {state}
        repeated = admin.get(address_of(page, do, *refs))
        assert repeated.plain.count("Nothing to change: it already has this state") == 2
        assert confirm(admin, page, repeated, *refs).status == 400
    assert admin.get(address_of(page, "nonsense", *refs)).status == 400


def test_users_without_the_permission(
    visit: Visit, admin: Visitor, lake: dict[str, ObjectRef], page_of: Address
) -> None:
    page, refs = page_of("open"), [lake["open.a"]]
    form = admin.get(address_of(page, "drop", *refs))
    reader, stranger = visit("reader", "select", on="warehouse"), visit("stranger")
    assert 'name="target"' not in reader.get(page).text
    shown = reader.get(address_of(page, "drop", *refs))
    assert "You do not have the permission for it" in shown.plain
    assert confirm(reader, page, shown, *refs, typed_name="open").status == 400
    assert confirm(reader, page, form, *refs, typed_name="open").status == 409
    assert stranger.get(address_of(page, "drop", *refs)).status == 404
    assert confirm(stranger, page, form, *refs, typed_name="open").status == 404
    assert "open.a" in names()


@pytest.mark.both_databases
def test_delete_permanently_now(
    visit: Visit, admin: Visitor, soft_delete: int, root: CallerClient, lake: dict[str, ObjectRef], warehouse: Warehouse
) -> None:
    for name, purge in (("open/tables/a", True), ("open/views/v", False), ("closed%1Fdeep/tables/a", False)):
        assert root.delete(f"/namespaces/{name}?purgeRequested={str(purge).lower()}").status == 204
    late = Task.objects.get(entity_id=lake["open.a"].id)
    Task.objects.filter(pk=late.pk).update(scheduled_for=late.scheduled_for + timedelta(days=1))
    listed = admin.get(f"/ui/deleted/?warehouse={warehouse.pk}")
    order = [listed.plain.index(name) for name in ("open.v", "closed.deep.a", "open.a")]
    assert order == sorted(order), "by expiry"
    assert "oidc~root" in listed.plain
    for query, shown_names in (("namespace=closed", {"closed.deep.a"}), ("name=V", {"open.v"}), ("namespace=x", set())):
        filtered = admin.get(f"/ui/deleted/?warehouse={warehouse.pk}&{query}").plain
        assert {name for name in ("open.a", "open.v", "closed.deep.a") if f" {name} " in filtered} == shown_names
    targets = [target(lake[name]) for name in ("open.a", "open.v", "open.b")]
    address = f"/ui/deleted/delete/?warehouse={warehouse.pk}&{'&'.join(f'target={quote(each)}' for each in targets)}"
    page = admin.get(address)
    assert "Delete 2 objects permanently" in page.plain
    fields = {"warehouse": str(warehouse.pk), "digest": page.fields["digest"], "target": targets}
    wrong = admin.post("/ui/deleted/delete/", {**fields, "typed_name": "a"})
    assert (wrong.status, "This is not the name" in wrong.plain) == (400, True)
    reader, stranger = visit("reader", "select", on="warehouse"), visit("stranger")
    assert "deleted/delete/" not in reader.get(f"/ui/deleted/?warehouse={warehouse.pk}").text
    assert reader.post("/ui/deleted/delete/", {**fields, "typed_name": "wh"}).status == 409
    assert stranger.post("/ui/deleted/delete/", {**fields, "typed_name": "wh"}).status == 404
    assert not Task.objects.filter(scheduled_for__lte=now()).exists()
    assert admin.post("/ui/deleted/delete/", {**fields, "typed_name": "wh"}).status == 302
    due = Task.objects.filter(scheduled_for__lte=now(), status=Task.Status.SCHEDULED)
    assert set(due.values_list("entity_id", flat=True)) == {lake["open.a"].id, lake["open.v"].id}
    Task.objects.filter(pk=late.pk).update(status=Task.Status.RUNNING, leased_until=now() + timedelta(minutes=1))
    changed = admin.post("/ui/deleted/delete/", {**fields, "typed_name": "wh"})
    assert (changed.status, "It is being deleted permanently" in changed.plain) == (409, True)
