"""Projects: create, rename and delete, with and without permission."""

from __future__ import annotations

import pytest

from storage.models import Warehouse
from tenancy.models import Project
from tests.console.accounts.conftest import HOSTILE, Kind, SignIn, is_escaped

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
        assert browser.post(settings, {"action": "rename", "new-name": "mine"}).status == status
        assert browser.post(delete, {"action": "delete", "typed_name": project.name}).status == status
        assert f'href="{settings}"' not in browser.get(f"/ui/project/{project.pk}/").text
    project.refresh_from_db()
    assert (project.name, Project.objects.count()) == ("Default Project", 1)


def test_rename_and_delete(sign_in: SignIn, project: Project) -> None:
    lead, address = sign_in(Kind.LEAD), f"/ui/project/{project.pk}/"
    renamed = lead.post(f"{address}settings/", {"action": "rename", "new-name": NAME})
    assert (renamed.status, renamed.location) == (302, address)
    assert is_escaped(lead.get(address))
    assert is_escaped(lead.get(f"{address}settings/"))
    page = lead.post(f"{address}settings/", {"action": "rename", "new-name": "x" * 129})
    assert (page.status, "must not be longer" in page.text) == (400, True)
    assert is_escaped(lead.get(f"{address}delete/"))
    for typed in ("", "wrong"):
        page = lead.post(f"{address}delete/", {"action": "delete", "typed_name": typed})
        assert (page.status, "This is not the name" in page.text) == (400, True)
    assert lead.post(f"{address}delete/", {"action": "delete", "typed_name": NAME}).location == "/ui/"
    assert Project.objects.count() == 0


def test_a_project_with_warehouses_is_kept(sign_in: SignIn, project: Project, warehouse: Warehouse) -> None:
    fields = {"action": "delete", "typed_name": project.name}
    page = sign_in(Kind.LEAD).post(f"/ui/project/{project.pk}/delete/", fields)
    assert (page.status, "delete its warehouses first" in page.text) == (409, True)
    assert Project.objects.count() == 1
