"""Projects: create, rename and delete, with and without permission."""

from __future__ import annotations

import pytest

from storage.models import Warehouse
from tenancy.actor import INTERNAL
from tenancy.models import Project
from tenancy.services.projects import rename_project
from tests.console.accounts.conftest import HOSTILE, Kind, SignIn, is_escaped
from tests.harness.audit_rows import rows

pytestmark = pytest.mark.django_db

ADD = "/ui/project/add/"
NAME = HOSTILE


def test_create(sign_in: SignIn) -> None:
    root = sign_in(Kind.ROOT)
    assert f'href="{ADD}"' in root.get("/ui/").text
    created = root.post(ADD, {"action": "create", "project-name": NAME, "project-id": "a_b-C"})
    assert (created.status, created.location) == (302, "/ui/project/a_b-C/")
    assert Project.objects.get(pk="a_b-C").name == NAME
    page = root.get("/ui/project/a_b-C/")
    assert is_escaped(page)
    assert 'href="/ui/project/a_b-C/settings/"' in page.text
    for fields, message in (
        ({"project-name": " ", "project-id": ""}, "must not be empty"),
        ({"project-name": NAME, "project-id": ""}, "already exists"),
        ({"project-name": "x", "project-id": "a b"}, "must consist of letters"),
        ({"project-name": "x", "project-id": "a_b-C"}, "already exists"),
    ):
        page = root.post(ADD, {"action": "create", **fields})
        assert page.status in {400, 409}
        assert message in page.text
    assert Project.objects.count() == 2


def test_users_without_permissions(sign_in: SignIn, project: Project) -> None:
    settings = f"/ui/project/{project.pk}/settings/"
    delete = f"/ui/project/{project.pk}/delete/"
    for kind, statuses in (
        (Kind.LEAD, [403, 200, 200]), (Kind.ENGINEER, [403, 403, 403]), (Kind.GUEST, [403, 404, 404]),
    ):  # fmt: skip
        browser = sign_in(kind)
        assert [browser.get(each).status for each in (ADD, settings, delete)] == statuses
        assert f'href="{ADD}"' not in browser.get("/ui/").text
        assert browser.post(ADD, {"action": "create", "project-name": "mine"}).status == 403
    for kind, status in ((Kind.ENGINEER, 403), (Kind.GUEST, 404)):
        browser = sign_in(kind)
        fields = {"action": "rename", "new-name": "mine", "former-name": project.name}
        assert browser.post(settings, fields).status == status
        assert browser.post(delete, {"action": "delete", "typed_name": project.name}).status == status
        assert f'href="{settings}"' not in browser.get(f"/ui/project/{project.pk}/").text
    project.refresh_from_db()
    assert (project.name, Project.objects.count()) == ("Default Project", 1)


def test_rename_and_delete(sign_in: SignIn, project: Project) -> None:
    lead, address = sign_in(Kind.LEAD), f"/ui/project/{project.pk}/"
    fields = {"action": "rename", "former-name": lead.get(f"{address}settings/").field("former-name")}
    renamed = lead.post(f"{address}settings/", {**fields, "new-name": NAME})
    assert (renamed.status, renamed.location) == (302, address)
    assert is_escaped(lead.get(address))
    assert is_escaped(lead.get(f"{address}settings/"))
    page = lead.post(f"{address}settings/", {**fields, "former-name": NAME, "new-name": "x" * 129})
    assert (page.status, "must not be longer" in page.text) == (400, True)
    assert is_escaped(lead.get(f"{address}delete/"))
    for typed in ("", "wrong"):
        page = lead.post(f"{address}delete/", {"action": "delete", "typed_name": typed})
        assert (page.status, "This is not the name" in page.text) == (400, True)
    assert lead.post(f"{address}delete/", {"action": "delete", "typed_name": NAME}).location == "/ui/"
    assert Project.objects.count() == 0


def test_two_users_rename_at_once(sign_in: SignIn, project: Project) -> None:
    first, second, address = sign_in(Kind.LEAD), sign_in(Kind.ROOT), f"/ui/project/{project.pk}/settings/"
    seen = [each.get(address).field("former-name") for each in (first, second)]
    assert seen == [project.name] * 2
    saved = first.post(address, {"action": "rename", "new-name": "team <b>", "former-name": seen[0]})
    assert saved.status == 302
    late = {"action": "rename", "new-name": "my <i>name", "former-name": seen[1]}
    page = second.post(address, late)
    assert page.status == 409
    assert "renamed meanwhile" in page.text
    assert "<b>team &lt;b&gt;</b>" in page.text, "the stored name"
    assert 'value="my &lt;i&gt;name"' in page.text, "what the user entered"
    project.refresh_from_db()
    assert project.name == "team <b>"
    assert second.post(address, {"action": "rename", "new-name": "mine"}).status == 400, "without the former name"
    assert len(rows(event="project.renamed")) == 1
    assert second.post(address, late | {"former-name": page.field("former-name")}).status == 302
    project.refresh_from_db()
    assert project.name == "my <i>name"
    rename_project(actor=INTERNAL, project_id=project.pk, new_name="plain")  # as the API does


def test_a_project_with_warehouses_is_kept(sign_in: SignIn, project: Project, warehouse: Warehouse) -> None:
    fields = {"action": "delete", "typed_name": project.name}
    page = sign_in(Kind.LEAD).post(f"/ui/project/{project.pk}/delete/", fields)
    assert (page.status, "delete its warehouses first" in page.text) == (409, True)
    assert Project.objects.count() == 1
