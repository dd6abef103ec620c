"""Change and delete a warehouse in the console: each part by its service, two users at once, and permissions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from storage.models import Warehouse
from tests.console.visitor import Shown, Visitor
from tests.console.warehouses.conftest import Visit
from tests.harness.named_callers import CallerClient
from tests.management.warehouse_request_fixtures import use_settings

pytestmark = pytest.mark.django_db

HOSTILE = "a<b onclick=alert(1)>'\"&amp;"


@pytest.fixture
def edit(warehouse: Warehouse) -> str:
    return f"/ui/warehouse/{warehouse.pk}/edit/"


@pytest.fixture
def delete(warehouse: Warehouse) -> str:
    return f"/ui/warehouse/{warehouse.pk}/delete/"


def send(visitor: Visitor, target: str, page: Shown, action: str, **entered: str | Sequence[str]) -> Shown:
    """Send one of the forms of the page."""
    return visitor.post(target, {"version": page.fields["version"][0], **entered, "action": action})


EDITS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("rename", {"warehouse-name": "lake"}, {"name": "lake"}),
    ("delete-profile",
     {"delete-profile.type": "soft", "delete-profile.expiration-seconds": "2", "delete-profile.unit": "60"},
     {"delete_profile": {"type": "soft", "expiration-seconds": 120}}),
    ("delete-profile", {"delete-profile.type": "soft", "delete-profile.expiration-seconds": "0",
                        "delete-profile.unit": "1"}, {"delete_profile": {"type": "soft", "expiration-seconds": 0}}),
    ("format-policy", {"allowed-format-versions": ["2", "3"], "default-format-version": "3"},
     {"allowed_format_versions": [2, 3], "default_format_version": 3}),
    ("format-policy", {"allowed-format-versions": ["2"], "default-format-version": ""},
     {"allowed_format_versions": [2], "default_format_version": None}),
    ("protect", {}, {"protected": True}),
    ("deactivate", {}, {"status": "inactive"}),
]  # fmt: skip


@pytest.mark.parametrize(("action", "entered", "stored"), EDITS)
def test_each_part(
    visit: Visit, warehouse: Warehouse, edit: str, action: str, entered: dict[str, Any], stored: dict[str, Any]
) -> None:
    admin = visit("anna", "project_admin")
    done = send(admin, edit, admin.get(edit), action, **entered)
    assert (done.status, done.location) == (302, edit)
    warehouse.refresh_from_db()
    assert {name: getattr(warehouse, name) for name in stored} == stored
    assert "was changed." in admin.get(edit).plain


def test_activate_and_remove_protection(visit: Visit, warehouse: Warehouse, edit: str) -> None:
    admin = visit("anna", "project_admin")
    for first, second, field in (("deactivate", "activate", "status"), ("protect", "remove-protection", "protected")):
        before = getattr(warehouse, field)
        send(admin, edit, admin.get(edit), first)
        page = admin.get(edit)
        assert f'value="{second}"' in page.text
        assert f'value="{first}"' not in page.text
        send(admin, edit, page, second)
        warehouse.refresh_from_db()
        assert getattr(warehouse, field) == before


@pytest.mark.parametrize(
    ("action", "entered", "field", "text"),
    [
        ("rename", {"warehouse-name": "a/b"}, "warehouse-name", "must not contain a slash"),
        ("rename", {"warehouse-name": HOSTILE + "/"}, "warehouse-name", "must not contain a slash"),
        ("format-policy", {"default-format-version": ""}, "allowed-format-versions", "Must not be empty"),
        ("delete-profile", {"delete-profile.type": "soft", "delete-profile.expiration-seconds": "99999999",
                            "delete-profile.unit": "86400"}, "delete-profile.expiration-seconds", "must be a number"),
    ],
)  # fmt: skip
def test_errors_stand_at_their_field(
    visit: Visit, edit: str, action: str, entered: dict[str, Any], field: str, text: str
) -> None:
    admin = visit("anna", "project_admin")
    page = send(admin, edit, admin.get(edit), action, **entered)
    assert page.status == 400
    (error,) = page.errors(field)
    assert text.lower() in error.lower()
    assert "<b onclick" not in page.text


def test_two_users_at_once(visit: Visit, warehouse: Warehouse, edit: str) -> None:
    anna, bert = visit("anna", "project_admin"), visit("bert", "project_admin")
    of_anna, of_bert = anna.get(edit), bert.get(edit)
    assert send(anna, edit, of_anna, "rename", **{"warehouse-name": "of-anna"}).status == 302
    page = send(bert, edit, of_bert, "rename", **{"warehouse-name": "of-bert"})
    assert page.status == 409
    warehouse.refresh_from_db()
    assert warehouse.name == "of-anna"
    assert page.fields["warehouse-name"] == ["of-bert"], "the input stays"
    assert "Nothing was saved: local~anna changed the warehouse" in page.plain
    assert "of-anna you entered of-bert" in page.plain
    assert send(bert, edit, page, "rename", **{"warehouse-name": "of-bert"}).status == 302
    warehouse.refresh_from_db()
    assert warehouse.name == "of-bert"


def test_who_changed_it_is_for_readers_of_the_audit_trail(visit: Visit, edit: str) -> None:
    anna, owner = visit("anna", "project_admin"), visit("olga", "ownership", on="warehouse")
    of_owner = owner.get(edit)
    send(anna, edit, anna.get(edit), "protect")
    page = send(owner, edit, of_owner, "rename", **{"warehouse-name": "mine"})
    assert page.status == 409
    assert "another user changed the warehouse" in page.plain
    assert "local~anna" not in page.text


@pytest.mark.parametrize("version", ["", "x", "-1", "9" * 30, "1 or 1"])
def test_other_versions(visit: Visit, warehouse: Warehouse, edit: str, version: str) -> None:
    admin = visit("anna", "project_admin")
    assert admin.post(edit, {"version": version, "action": "protect"}).status == 400
    assert admin.post(edit, {"version": "7", "action": "protect"}).status == 409
    warehouse.refresh_from_db()
    assert not warehouse.protected


@pytest.mark.parametrize(("action", "entered", "stored"), EDITS)
def test_users_without_the_permission(
    visit: Visit, warehouse: Warehouse, edit: str, action: str, entered: dict[str, Any], stored: dict[str, Any]
) -> None:
    version = str(warehouse.version)
    reader, stranger = visit("reader", "select", on="warehouse"), visit("stranger")
    assert edit not in reader.get(f"/ui/warehouse/{warehouse.pk}/").text
    assert reader.get(edit).status == 403
    assert reader.post(edit, {"version": version, **entered, "action": action}).status == 403
    assert stranger.get(edit).status == 404
    assert stranger.post(edit, {"version": version, **entered, "action": action}).status == 404
    unchanged = Warehouse.objects.get()
    assert unchanged.version == warehouse.version


def test_managed_by(visit: Visit, warehouse: Warehouse, edit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    admin, chief = visit("anna", "project_admin"), visit("chief", "project_admin")
    use_settings(monkeypatch, instance_admins=[chief.user_id])
    assert 'value="managed-by"' not in admin.get(edit).text
    entered = {"managed-by": "instance-admin"}
    assert send(admin, edit, admin.get(edit), "managed-by", **entered).status == 403
    before = admin.get(edit)
    assert send(chief, edit, chief.get(edit), "managed-by", **entered).status == 302
    warehouse.refresh_from_db()
    assert warehouse.managed_by == "instance-admin"
    assert edit not in admin.get(f"/ui/warehouse/{warehouse.pk}/").text, "nothing to change any more"
    assert admin.get(edit).status == 403
    assert admin.post(edit, {"version": str(warehouse.version), "action": "protect"}).status == 403
    assert send(admin, edit, before, "protect").status in {403, 409}


def test_delete(visit: Visit, warehouse: Warehouse, delete: str) -> None:
    admin = visit("anna", "project_admin")
    page = admin.get(delete)
    assert warehouse.location in page.plain
    version = page.fields["version"][0]
    wrong = admin.post(delete, {"version": version, "name": "WH"})
    assert wrong.status == 400
    assert wrong.errors("name") == ["This is not the name of the warehouse."]
    assert admin.post(delete, {"version": "99", "name": "wh"}).status == 409
    done = admin.post(delete, {"version": version, "name": "wh"})
    assert (done.status, done.location) == (302, "/ui/warehouse/")
    assert not Warehouse.objects.exists()
    assert "Warehouse wh was deleted." in admin.get(done.location).plain


def test_delete_a_protected_one_or_one_with_contents(
    visit: Visit, warehouse: Warehouse, delete: str, catalog: CallerClient
) -> None:
    Warehouse.objects.update(protected=True)
    admin = visit("anna", "project_admin")
    entered = {"version": str(warehouse.version), "name": "wh"}
    page = admin.post(delete, entered)
    assert page.status == 409
    assert "protected" in page.plain
    assert catalog.post("/namespaces", {"namespace": ["ns"]}).status == 200
    page = admin.post(delete, {**entered, "force": "on"})
    assert page.status == 409
    assert "not empty" in page.plain
    assert Warehouse.objects.exists()


def test_delete_without_the_permission(visit: Visit, warehouse: Warehouse, edit: str, delete: str) -> None:
    entered = {"version": str(warehouse.version), "name": "wh"}
    reader = visit("reader", "select", on="warehouse")
    assert reader.get(delete).status == 403
    assert reader.post(delete, entered).status == 403
    assert visit("stranger").post(delete, entered).status == 404
    assert Warehouse.objects.exists()
