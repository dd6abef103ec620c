"""Roles: list, page, members, nesting, changes by two users, and what users without permissions get."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from html import unescape
from uuid import uuid4

import pytest

from icekeeper.kernel.clock import now
from tenancy.actor import INTERNAL, Actor
from tenancy.models import Project, Role, RoleMember, Securable
from tenancy.models.securable import ObjectRef
from tenancy.selectors.role_trees import MAX_NODES
from tenancy.services.projects import create_project
from tenancy.services.role_members import Members, add_role_members
from tenancy.services.roles import create_role, update_role
from tests.authz.tree_fixtures import give
from tests.console.accounts.conftest import HOSTILE, Kind, SignIn, is_escaped
from tests.console.sign_in.browser import Browser, Page
from tests.harness.audit_rows import rows, the_row

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.fixture
def staff(project: Project) -> Role:
    return create_role(actor=INTERNAL, project=project, name="staff")


def nest(project: Project, outer: Role, *inner: Role) -> None:
    members = Members(role_ids=[each.pk for each in inner])
    add_role_members(actor=INTERNAL, project=project, role_id=outer.pk, members=members)


def add(browser: Browser, role: Role, kind: str, member_id: object) -> int:
    fields = {"action": "add-member", "member": f"{kind}:{member_id}", "shown_name": HOSTILE}
    return browser.post(f"/ui/role/{role.pk}/", fields).status


TABS = ("", "nesting/", "all-members/", "settings/")


def test_what_each_kind_of_user_gets(sign_in: SignIn, staff: Role) -> None:
    statuses = {
        kind: [
            sign_in(kind).get(path).status for path in ("/ui/role/", *(f"/ui/role/{staff.pk}/{tab}" for tab in TABS))
        ]
        for kind in Kind
    }
    assert statuses == {
        Kind.ROOT: [200] * 5,
        Kind.LEAD: [200] * 5,
        Kind.ENGINEER: [200] * 5,
        Kind.GUEST: [200, 404, 404, 404, 404],
    }
    guest = sign_in(Kind.GUEST).get("/ui/role/")
    assert ("staff" in guest.text, "You have no access yet" in guest.text) == (False, True)


def test_controls_only_for_users_who_may(sign_in: SignIn, staff: Role) -> None:
    lead, engineer = sign_in(Kind.LEAD), sign_in(Kind.ENGINEER)
    for path, control in (
        ("/ui/role/", "Create a role"), (f"/ui/role/{staff.pk}/", "Add a member"),
        (f"/ui/role/{staff.pk}/settings/", "Save"), (f"/ui/role/{staff.pk}/settings/", "Delete role"),
    ):  # fmt: skip
        assert control in lead.get(path).text, path
        assert control not in engineer.get(path).text, path
    assert f"/ui/role/{staff.pk}/" in engineer.get("/ui/role/").text


def test_forged_forms_are_denied_by_the_services(sign_in: SignIn, staff: Role) -> None:
    engineer, guest = sign_in(Kind.ENGINEER), sign_in(Kind.GUEST)
    address, now = f"/ui/role/{staff.pk}/", staff.changed_at.isoformat()
    forms = [
        (address, {"action": "add-member", "member": f"user:{Kind.ENGINEER.value}"}),
        (address, {"action": "remove-member", "member": f"user:{Kind.ENGINEER.value}"}),
        (address, {"action": "update", "name": "mine", "changed_at": now}),
        (f"{address}delete/", {"action": "delete"}),
    ]
    for path, fields in forms:
        assert engineer.post(path, fields).status == 403, fields
        assert guest.post(path, fields).status == 404, fields
    assert engineer.post("/ui/role/", {"action": "create", "name": "mine"}).status == 403
    assert guest.post("/ui/role/", {"action": "create", "name": "mine"}).status == 404
    assert list(Role.objects.values_list("name", flat=True)) == ["staff"]
    assert RoleMember.objects.count() == 0
    assert [each.event for each in rows() if each.event.startswith("role.") and each.actor != "internal"] == []


def test_a_hidden_role_and_an_unknown_one_are_the_same_page(sign_in: SignIn, staff: Role) -> None:
    guest = sign_in(Kind.GUEST)
    pages = []
    for role_id in (staff.pk, uuid4()):
        page = guest.get(f"/ui/role/{role_id}/")
        assert page.status == 404
        pages.append(re.sub(r"[0-9a-f]{8}[0-9a-f-]{11,28}…?[0-9a-f-]*", "ID", page.text))
    assert re.sub(r'name="csrfmiddlewaretoken" value="\w+"', "", pages[0]) == re.sub(
        r'name="csrfmiddlewaretoken" value="\w+"', "", pages[1]
    )


def test_create_search_and_delete(sign_in: SignIn, project: Project) -> None:
    lead = sign_in(Kind.LEAD)
    created = lead.post("/ui/role/", {"action": "create", "name": HOSTILE, "description": "one\r\ntwo"})
    role = Role.objects.get()
    assert (created.status, created.location) == (302, f"/ui/role/{role.pk}/")
    assert (role.name, role.description, role.project_id) == (HOSTILE, "one\ntwo", project.pk)
    assert is_escaped(lead.get(created.location))
    assert is_escaped(lead.get("/ui/role/"))
    assert f"/ui/role/{role.pk}/" in lead.get("/ui/role/?q=img").text
    assert "No roles match" in lead.get("/ui/role/?q=zzzzzz").text
    assert lead.get("/ui/role/?q=%00").status == 400
    again = lead.post("/ui/role/", {"action": "create", "name": HOSTILE.upper(), "description": HOSTILE})
    assert again.status == 409
    assert "exists already in this project" in again.text
    assert is_escaped(again)
    for tab in TABS:
        assert is_escaped(lead.get(f"/ui/role/{role.pk}/{tab}")), tab
    page = lead.get(f"/ui/role/{role.pk}/delete/")
    assert page.status == 200
    assert is_escaped(page)
    assert Role.objects.count() == 1, "GET deletes nothing"
    deleted = lead.post(f"/ui/role/{role.pk}/delete/", {"action": "delete"})
    assert (deleted.status, Role.objects.count()) == (302, 0)
    assert is_escaped(lead.follow(deleted))


def test_two_users_edit_at_once(sign_in: SignIn, staff: Role, project: Project) -> None:
    first, second = sign_in(Kind.LEAD), sign_in(Kind.ROOT)
    address = f"/ui/role/{staff.pk}/settings/"
    seen = [each.get(address).field("changed_at") for each in (first, second)]
    assert seen[0] == seen[1]
    saved = first.post(address, {"action": "update", "name": "team <b>", "description": "", "changed_at": seen[0]})
    assert saved.status == 302
    late = {"action": "update", "name": "my <i>name", "description": "my text", "changed_at": seen[1]}
    page = second.post(address, late)
    assert page.status == 409
    assert "changed by another user" in page.text
    assert "team &lt;b&gt;" in page.text, "the stored name"
    assert 'value="my &lt;i&gt;name"' in page.text, "what the user entered"
    staff.refresh_from_db()
    assert staff.name == "team <b>"
    assert second.post(address, late | {"changed_at": page.field("changed_at")}).status == 302
    staff.refresh_from_db()
    assert (staff.name, staff.description) == ("my <i>name", "my text")
    for forged in ("", "yesterday", "0001-01-01T00:00+14:00"):
        assert second.post(address, late | {"changed_at": forged}).status == 400
    update_role(actor=INTERNAL, project=project, role_id=staff.pk, name="plain", description=None)  # as the API does


def test_members(sign_in: SignIn, staff: Role, project: Project) -> None:
    lead = sign_in(Kind.LEAD)
    sign_in(Kind.ENGINEER)
    other = create_role(actor=INTERNAL, project=project, name=HOSTILE)
    found = lead.get(f"/ui/role/{staff.pk}/?q=engineer")
    assert 'value="user:local~engineer"' in found.text
    assert is_escaped(lead.get(f"/ui/role/{staff.pk}/?q=img"))
    assert add(lead, staff, "user", Kind.ENGINEER) == 302
    assert add(lead, staff, "role", other.pk) == 302
    assert add(lead, staff, "user", "local~unknown") == 404
    assert add(lead, staff, "user", "x") == 400
    assert add(lead, staff, "role", "x") == 400
    assert add(lead, staff, "role", uuid4()) == 404
    assert add(lead, other, "role", staff.pk) == 409, "a cycle"
    page = lead.get(f"/ui/role/{staff.pk}/")
    assert "/ui/user/local~engineer/" in page.text
    assert is_escaped(page)
    engineer = sign_in(Kind.ENGINEER)
    assert f"/ui/role/{staff.pk}/" in engineer.get("/ui/profile/").text
    fields = {"action": "remove-member", "member": f"user:{Kind.ENGINEER.value}"}
    assert lead.post(f"/ui/role/{staff.pk}/", fields).status == 302
    assert [each.member_role_id for each in RoleMember.objects.all()] == [other.pk]


def undo_of(page: Page) -> dict[str, str]:
    """Return the fields of the button *Undo* in the message of a page; empty without one."""
    form = re.search(r'<div class="ik-note[^>]*role="status">.*?</form>', page.text, re.DOTALL)
    found = re.findall(r'name="(\w+)" value="([^"]*)"', form[0]) if form and "Undo" in form[0] else []
    return {name: unescape(value) for name, value in found if name != "csrfmiddlewaretoken"}


def members_of(role: Role) -> list[tuple[str | None, datetime | None, str | None]]:
    return list(RoleMember.objects.filter(role=role).values_list("user_id", "expires_at", "granted_by"))


def test_undo_of_a_new_member(sign_in: SignIn, staff: Role) -> None:
    lead, address = sign_in(Kind.LEAD), f"/ui/role/{staff.pk}/"
    sign_in(Kind.ENGINEER)
    fields = {"action": "add-member", "member": f"user:{Kind.ENGINEER.value}", "shown_name": HOSTILE}
    page = lead.follow(lead.post(address, fields))
    assert is_escaped(page)
    undo = undo_of(page)
    assert undo == {**fields, "action": "remove-member"}
    again = lead.follow(lead.post(address, fields))
    assert "is a member of staff" in again.text
    assert undo_of(again) == {}, "nothing was changed: the former membership must not end"
    page = lead.follow(lead.post(address, undo))
    assert members_of(staff) == []
    assert undo_of(page) == fields
    assert lead.post(address, undo_of(page)).status == 302
    assert members_of(staff) == [(Kind.ENGINEER, None, Kind.LEAD)]
    assert [each.event for each in rows() if each.event.startswith("role.members")] == [
        "role.members-added", "role.members-removed", "role.members-added",
    ]  # fmt: skip


def test_undo_of_a_removal_restores_the_expiry(sign_in: SignIn, staff: Role) -> None:
    lead, address = sign_in(Kind.LEAD), f"/ui/role/{staff.pk}/"
    sign_in(Kind.ENGINEER)
    until = now() + timedelta(days=3, microseconds=7)
    RoleMember.objects.create(role=staff, user_id=Kind.ENGINEER, expires_at=until)
    fields = {"action": "remove-member", "member": f"user:{Kind.ENGINEER.value}", "shown_name": "Eve"}
    undo = undo_of(lead.follow(lead.post(address, fields)))
    assert undo == {**fields, "action": "add-member", "expires_at": until.isoformat()}
    assert members_of(staff) == []
    assert undo_of(lead.follow(lead.post(address, fields))) == {}, "there is nothing to restore"
    assert sign_in(Kind.ENGINEER).post(address, undo).status == 403
    assert lead.post(address, undo).status == 302
    assert members_of(staff) == [(Kind.ENGINEER, until, Kind.LEAD)]
    assert json.loads(the_row(event="role.members-added").details)["until"] == until.isoformat()
    for late in ((now() - timedelta(seconds=1)).isoformat(), "tomorrow"):
        page = lead.post(address, undo | {"member": f"user:{Kind.LEAD.value}", "expires_at": late})
        assert page.status == 400
    assert members_of(staff) == [(Kind.ENGINEER, until, Kind.LEAD)]
    RoleMember.objects.update(expires_at=now() - timedelta(seconds=1))
    assert undo_of(lead.follow(lead.post(address, fields))) == {}, "the membership had ended before"


def test_what_a_member_gets_is_linked(sign_in: SignIn, staff: Role) -> None:
    page = sign_in(Kind.LEAD).get(f"/ui/role/{staff.pk}/")
    assert f'href="/ui/access/?who=role%3A{staff.pk}"' in page.text


def test_nesting(sign_in: SignIn, project: Project) -> None:
    names = ("all", "left", "right", "leaf", HOSTILE)
    top, left, right, leaf, hostile = (create_role(actor=INTERNAL, project=project, name=name) for name in names)
    nest(project, top, left, right)
    nest(project, left, leaf)
    nest(project, right, leaf)
    nest(project, leaf, hostile)
    lead = sign_in(Kind.LEAD)
    page = lead.get(f"/ui/role/{top.pk}/nesting/")
    shown = re.findall(r'ik-role-row--(\d)">.*?<a href="[^"]*">(.*?)</a>(.*?)</li>', page.text)
    assert [(int(depth), unescape(name), "shown above" in rest) for depth, name, rest in shown] == [
        (0, "left", False), (1, "leaf", False), (2, HOSTILE, False), (0, "right", False), (1, "leaf", True),
    ]  # fmt: skip
    assert is_escaped(page)
    assert page.text.count('class="ik-role-line"') == 5
    assert page.text.count('<a href="/ui/role/') >= page.text.count("ik-role-box") - 1 >= 5
    above = lead.get(f"/ui/role/{hostile.pk}/nesting/").text
    assert above.index(">leaf</a>") < above.index(">left</a>") < above.index(">right</a>")


def test_a_large_tree_is_bounded(sign_in: SignIn, project: Project, staff: Role) -> None:
    inner = [create_role(actor=INTERNAL, project=project, name=f"r{number:03}") for number in range(MAX_NODES + 1)]
    nest(project, staff, *inner)
    page = sign_in(Kind.LEAD).get(f"/ui/role/{staff.pk}/nesting/")
    assert page.text.count("ik-role-row--0") == MAX_NODES
    assert "There are more roles" in page.text
    members = sign_in(Kind.LEAD).get(f"/ui/role/{staff.pk}/")
    assert members.text.count("remove-member") == 50
    following = unescape(re.findall(r'href="(\?after=[^"]+)"', members.text)[0])
    assert sign_in(Kind.LEAD).get(f"/ui/role/{staff.pk}/{following}").text.count("remove-member") == 50


def test_the_project_is_chosen_in_the_address(sign_in: SignIn, staff: Role) -> None:
    second = create_project(actor=INTERNAL, name="second <b>")
    create_role(actor=INTERNAL, project=second, name="elsewhere")
    lead = sign_in(Kind.LEAD)
    assert lead.get(f"/ui/role/?project={second.pk}").status == 404
    give("project_admin", ObjectRef(Securable.Type.PROJECT, second.pk), Actor(user_id=Kind.LEAD))
    page = lead.get(f"/ui/role/?project={second.pk}")
    assert ("elsewhere" in page.text, ">staff<" in page.text) == (True, False)
    assert "second &lt;b&gt;" in page.text
    assert "elsewhere" not in lead.get("/ui/role/").text
    assert lead.get("/ui/role/?project=unknown").status == 404


def test_entries_of_the_sidebar(sign_in: SignIn) -> None:
    entries = ("/ui/role/", "/ui/user/")
    shown = {kind: [f'href="{each}"' in sign_in(kind).get("/ui/").text for each in entries] for kind in Kind}
    assert shown == {
        Kind.ROOT: [True, True], Kind.LEAD: [True, False], Kind.ENGINEER: [True, False], Kind.GUEST: [False, False],
    }  # fmt: skip
