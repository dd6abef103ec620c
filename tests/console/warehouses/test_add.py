"""Create a warehouse in the console: the form of each store, validation, import, and permissions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from management.admin.warehouses.checks import NAMES
from management.admin.warehouses.storage_fields import STORES, credential_fields, profile_fields
from storage.models import Warehouse
from storage.services.warehouse_changes import set_warehouse_protection
from storage.validation.checks import CheckName
from tenancy.actor import INTERNAL, Actor
from tenancy.changes import transaction
from tenancy.changes.rows import RecordedChange, write_changes
from tenancy.models import OutboxEvent
from tenancy.services.projects import create_project
from tests.console.visitor import Visitor
from tests.console.warehouses.conftest import Visit
from tests.harness.audit_rows import rows, the_row

pytestmark = pytest.mark.django_db

ADD = "/ui/warehouse/add/"
LOCAL = f"{ADD}?store=local"
HOSTILE = "a<b onclick=alert(1)>'\"&amp;"


@pytest.fixture
def admin(visit: Visit) -> Visitor:
    return visit("anna", "project_admin")


def local(storage_root: Path, name: str = "second", **more: str) -> dict[str, str]:
    return {"warehouse-name": name, "storage-profile.path": str(storage_root / "second"), **more}


@pytest.mark.parametrize("store", STORES, ids=lambda each: each.slug)
def test_the_form_has_every_member_of_a_store(admin: Visitor, store: Any) -> None:
    for credential_type in [*store.credential_types, None]:
        target = f"{ADD}?store={store.slug}" + (f"&credential={credential_type}" if credential_type else "")
        page = admin.get(target)
        assert page.status == 200
        shape = store.credential(credential_type or store.first_credential_type)
        specs = [*profile_fields(store.profile), *(credential_fields(shape) if shape else ())]
        for spec in specs:
            assert f'name="{spec.path}"' in page.text, spec.path
            if spec.kind == "secret":
                assert f'type="password" name="{spec.path}"' in page.text


def test_unknown_stores(admin: Visitor) -> None:
    assert admin.get(f"{ADD}?store=floppy").status == 404
    assert admin.get(f"{ADD}?store=s3&credential=floppy").status == 404


def test_every_check_has_a_plain_name() -> None:
    assert set(NAMES) == set(CheckName)


def test_validate_saves_nothing(admin: Visitor, storage_root: Path) -> None:
    page = admin.submit(admin.get(LOCAL), LOCAL, "validate", **local(storage_root))
    assert page.status == 200
    assert page.check("Name is free in this project")[0] == "passed"
    assert page.check("Server can write, read, list and delete")[0] == "passed"
    assert page.check("Credentials for engines are issued")[0] == "skipped"
    assert Warehouse.objects.count() == 1
    assert not (storage_root / "second").exists()
    assert page.fields["warehouse-name"] == ["second"]


def test_create(admin: Visitor, storage_root: Path) -> None:
    form = admin.get(LOCAL)
    rules = {
        "delete-profile.type": "soft",
        "delete-profile.expiration-seconds": "36",
        "delete-profile.unit": "3600",
        "allowed-format-versions": ["2", "3"],
        "default-format-version": "3",
        "protected": "on",
    }
    page = admin.submit(form, LOCAL, "create", **local(storage_root), **rules)
    created = Warehouse.objects.get(name="second")
    assert (page.status, page.location) == (302, f"/ui/warehouse/{created.pk}/")
    assert created.delete_profile == {"type": "soft", "expiration-seconds": 129_600}
    assert (created.allowed_format_versions, created.default_format_version) == ([2, 3], 3)
    assert created.protected
    assert created.storage_profile["verify-metadata-on-load"] is True
    assert "Warehouse second was created." in admin.get(page.location).plain


def test_a_protected_warehouse_takes_one_transaction(
    admin: Visitor, storage_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its protection has the audit record and the event that it has when it is set later."""
    written: list[list[str]] = []

    def note_and_write(recorded: list[RecordedChange]) -> None:
        written.append([each.kind.audit_event for each in recorded])
        write_changes(recorded)

    monkeypatch.setattr(transaction, "write_changes", note_and_write)
    assert admin.submit(admin.get(LOCAL), LOCAL, "create", **local(storage_root, protected="on")).status == 302
    created = Warehouse.objects.get(name="second")
    assert created.protected
    assert written == [["warehouse.created", "warehouse.updated"]]
    protection = the_row(object_id=str(created.pk), event="warehouse.updated")
    set_warehouse_protection(actor=INTERNAL, warehouse_id=created.pk, is_protected=False)
    set_warehouse_protection(actor=INTERNAL, warehouse_id=created.pk, is_protected=True)
    later = rows(object_id=str(created.pk), event="warehouse.updated")[-1]
    assert protection.details == later.details
    assert (protection.actor, protection.project_id) == (admin.user_id, later.project_id)
    assert OutboxEvent.objects.filter(object_key=f"warehouse:{created.pk}").count() == 4


def test_who_may_create_a_warehouse_may_protect_it(visit: Visit, storage_root: Path) -> None:
    creator = visit("carl", "create")
    assert creator.submit(creator.get(LOCAL), LOCAL, "create", **local(storage_root, protected="on")).status == 302
    created = Warehouse.objects.get(name="second")
    assert created.protected
    changed = set_warehouse_protection(
        actor=Actor(user_id=creator.user_id), warehouse_id=created.pk, is_protected=False
    )
    assert not changed.protected


@pytest.mark.parametrize(
    ("entered", "field", "text"),
    [
        ({"warehouse-name": "a/b"}, "warehouse-name", "must not contain a slash"),
        ({"warehouse-name": "wh"}, "warehouse-name", "already exists"),
        ({"storage-profile.path": "/elsewhere"}, "storage-profile.path", "must be below the folder"),
        ({"storage-profile.path": ""}, "storage-profile.path", "Field required"),
        ({"storage-profile.storage-layout.type": "tabular-only", "storage-profile.storage-layout.tabular": "x"},
         "storage-profile.storage-layout.tabular", "must contain {uuid}"),
        ({"allowed-format-versions": ["1"], "default-format-version": "2"}, "default-format-version", "must be one of"),
        ({"allowed-format-versions": []}, "allowed-format-versions", "must not be empty"),
        ({"delete-profile.type": "soft", "delete-profile.expiration-seconds": ""},
         "delete-profile.expiration-seconds", "must be a number"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("action", ["validate", "create"])
def test_errors_stand_at_their_field(
    admin: Visitor, storage_root: Path, entered: dict[str, str], field: str, text: str, action: str
) -> None:
    page = admin.submit(admin.get(LOCAL), LOCAL, action, **(local(storage_root) | entered))
    assert page.status in ({200, 400} if action == "validate" else {400, 409})
    (error,) = page.errors(field)
    assert text.lower() in error.lower()
    assert Warehouse.objects.count() == 1


def test_hostile_names(admin: Visitor, storage_root: Path) -> None:
    page = admin.submit(admin.get(LOCAL), LOCAL, "validate", **local(storage_root, HOSTILE + "/"))
    assert "<b onclick" not in page.text
    assert page.fields["warehouse-name"] == [HOSTILE + "/"]
    page = admin.submit(admin.get(LOCAL), LOCAL, "create", **local(storage_root, HOSTILE))
    assert page.status == 302
    shown = admin.get(page.location)
    assert "<b onclick" not in shown.text
    assert f"Warehouse {HOSTILE} was created." in shown.plain


def test_another_store_keeps_texts_and_no_secrets(admin: Visitor) -> None:
    s3 = f"{ADD}?store=s3"
    entered = {
        "warehouse-name": "lake",
        "storage-profile.bucket": "data",
        "storage-credential.secret-access-key": "hush",
    }
    page = admin.submit(admin.get(s3), f"{ADD}?store=gcs", "show", **entered)
    assert page.fields["warehouse-name"] == ["lake"]
    assert page.fields["storage-profile.bucket"] == ["data"]
    assert page.fields["storage-profile.sts-enabled"] == ["on"], "the default of the other store"
    assert "hush" not in page.text


def test_import_fills_the_form_without_secrets(admin: Visitor) -> None:
    document = {
        "warehouse-name": "lake",
        "storage-profile": {
            "type": "s3", "bucket": "data", "region": "eu-1", "sts-enabled": True, "path-style-access": False,
            "sts-role-arn": "arn:aws:iam::1:role/x", "sts-session-tags": {"team": "a"}, "colour": "red",
            "storage-layout": {"type": "tabular-only", "tabular": "{uuid}"},
        },
        "storage-credential": {
            "type": "s3", "credential-type": "access-key", "aws-access-key-id": "AKIA1", "secret-access-key": "hush",
        },
        "delete-profile": {"type": "soft", "expiration-seconds": 7200},
        "allowed-format-versions": [2],
    }  # fmt: skip
    page = admin.post(ADD, {"action": "import", "document": json.dumps(document)})
    assert page.status == 200
    shown = {name: value[0] for name, value in page.fields.items() if value}
    expected = {
        "warehouse-name": "lake",
        "storage-profile.bucket": "data",
        "storage-profile.sts-enabled": "on",
        "storage-profile.path-style-access": "false",
        "storage-profile.sts-session-tags": "team=a",
        "storage-profile.storage-layout.type": "tabular-only",
        "storage-profile.storage-layout.tabular": "{uuid}",
        "storage-credential.access-key-id": "AKIA1",
        "storage-credential.secret-access-key": "",
        "delete-profile.expiration-seconds": "2",
        "delete-profile.unit": "3600",
        "allowed-format-versions": "2",
    }
    assert {name: shown[name] for name in expected} == expected
    assert "hush" not in page.text
    assert "storage-profile.colour" in page.plain
    assert "enter them again" in page.plain


@pytest.mark.parametrize(
    "document",
    ["", "no json", "[]", "{}", '{"storage-profile": []}', '{"storage-profile": {"type": "floppy"}}',
     '{"storage-profile": {"type": ["s3"]}}', '{"storage-profile": {"type": "s3"}, "storage-credential": "hush"}',
     '{"storage-profile": {"type": "s3"}, "storage-credential": {"credential-type": {"a": "hush"}}}'],
)  # fmt: skip
def test_import_of_another_document(admin: Visitor, document: str) -> None:
    page = admin.post(ADD, {"action": "import", "document": document})
    assert page.status == 400
    assert "hush" not in page.text


def test_an_imported_document_with_other_types(admin: Visitor) -> None:
    document = {
        "warehouse-name": ["x"],
        "storage-profile": {
            "type": "s3",
            "bucket": {"a": 1},
            "region": [2],
            "sts-session-tags": 5,
            "endpoint": HOSTILE,
        },
        "delete-profile": "soft",
        "allowed-format-versions": ["two", None],
    }
    page = admin.post(ADD, {"action": "import", "document": json.dumps(document)})
    assert page.status == 200
    assert page.fields["storage-profile.endpoint"] == [HOSTILE]
    assert page.fields["storage-profile.bucket"] == [""]


def test_users_without_the_permission(visit: Visit, admin: Visitor, storage_root: Path) -> None:
    form = admin.get(LOCAL)
    assert "warehouse/add/" in admin.get("/ui/warehouse/").text
    for visitor in (visit("stranger"), visit("reader", "select", on="warehouse")):
        assert "warehouse/add/" not in visitor.get("/ui/warehouse/").text
        assert visitor.get(ADD).status == 403
        for action in ("validate", "create"):
            page = visitor.submit(form, LOCAL, action, **local(storage_root))
            assert page.status in {403, 404}, "a hidden project does not exist"
    assert Warehouse.objects.count() == 1


def test_the_project_is_chosen_among_those_that_allow_it(visit: Visit, admin: Visitor, storage_root: Path) -> None:
    create_project(actor=INTERNAL, name="other", project_id="other")
    assert 'name="project"' not in admin.get(LOCAL).text, "there is no choice"
    page = admin.submit(admin.get(LOCAL), LOCAL, "create", **local(storage_root), project="other")
    assert page.status == 404
    assert Warehouse.objects.count() == 1


def test_managed_by_is_for_instance_admins(admin: Visitor, storage_root: Path) -> None:
    form = admin.get(LOCAL)
    assert 'name="managed-by"' not in form.text
    page = admin.submit(form, LOCAL, "create", **local(storage_root), **{"managed-by": "instance-admin"})
    assert page.status == 302
    assert Warehouse.objects.get(name="second").managed_by == "self-managed", "the form has no such field for this user"
