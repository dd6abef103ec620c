"""Users: list, search, page, block, rename, delete, and what users without permissions get."""

from __future__ import annotations

import re
from html import unescape

import pytest

from management.admin.accounts.user_ids import user_url
from management.models import ConsoleSession
from tenancy.actor import INTERNAL
from tenancy.models import AccessToken, Project, Role, User
from tenancy.services import users
from tenancy.services.access_tokens import create_token
from tenancy.services.registration import lock_user
from tenancy.services.role_members import Members, add_role_members
from tenancy.services.roles import create_role
from tenancy.services.users import register_user, update_user
from tests.console.accounts.conftest import HOSTILE, Kind, SignIn, is_escaped
from tests.console.sign_in.browser import Browser
from tests.console.sign_in.session_fixtures import is_signed_in, sign_in_once
from tests.harness.audit_rows import rows

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

HOSTILE_ID = "oidc~../a/b?c=#d%2F é\"'<b>&~="
GUEST = "/ui/user/local~guest/"


@pytest.fixture
def stranger(bootstrapped: None) -> User:
    user, _ = register_user(
        actor=INTERNAL, user_id=HOSTILE_ID, name=HOSTILE, email="<b>@example.com", user_type="human"
    )
    return user


def test_what_each_kind_of_user_gets(sign_in: SignIn, stranger: User) -> None:
    for kind in Kind:
        browser = sign_in(kind)
        listed, found, shown = (browser.get(path) for path in ("/ui/user/", "/ui/user/?q=img", user_url(HOSTILE_ID)))
        assert (listed.status, found.status, shown.status) == (200, 200, 200)
        assert is_escaped(found), "every user may search, as in the API"
        assert is_escaped(shown), "and read a user"
        is_root = kind is Kind.ROOT
        assert is_escaped(listed) == is_root
        assert ("You do not have the permission to list all users" in listed.text) != is_root
        for control in ("Block", "Delete user", "Rename", "Access tokens", "Sessions</h2>", "Roles</h2>", ">active<"):
            assert (control in shown.text) == is_root, (kind, control)


def test_forged_forms_are_denied_by_the_services(sign_in: SignIn, stranger: User) -> None:
    lead, address = sign_in(Kind.LEAD), user_url(HOSTILE_ID)
    session = ConsoleSession.objects.filter(user_id=Kind.ROOT)
    root = sign_in(Kind.ROOT)
    forms = [
        (address, {"action": "block"}, 403),
        (address, {"action": "unblock"}, 403),
        (address, {"action": "update", "name": "mine", "changed_at": stranger.updated_at.isoformat()}, 403),
        (f"{address}delete/", {"action": "delete"}, 403),
        ("/ui/user/local~root/", {"action": "end-sessions"}, 403),
        ("/ui/user/local~root/", {"action": "end-session", "session_id": str(session.get().pk)}, 404),
        (address, {"action": "create-token", "name": "x"}, 400),
    ]
    for path, fields, status in forms:
        assert lead.post(path, fields).status == status, fields
    assert lead.get(f"{address}delete/").status == 403
    stranger.refresh_from_db()
    assert (stranger.name, stranger.is_active, stranger.deleted_at) == (HOSTILE, True, None)
    assert is_signed_in(root)


def test_block_ends_sessions_and_unblock(sign_in: SignIn) -> None:
    guest, root = Browser(), sign_in(Kind.ROOT)
    sign_in_once(guest, Kind.GUEST)
    assert "Test Browser" in root.get(GUEST).text
    blocked = root.post(GUEST, {"action": "block"})
    assert (blocked.status, blocked.location) == (302, GUEST)
    assert not is_signed_in(guest)
    page = root.get(GUEST)
    assert ("Unblock" in page.text, "All tokens of this user are rejected" in page.text) == (True, True)
    assert "blocked" in root.get("/ui/user/").text
    assert root.post(GUEST, {"action": "unblock"}).status == 302
    assert User.objects.get(pk=Kind.GUEST).is_active
    assert [each.event for each in rows() if each.event.startswith("user.") and each.actor == Kind.ROOT] == [
        "user.blocked", "user.unblocked",
    ]  # fmt: skip


def test_no_user_blocks_themselves_by_accident(sign_in: SignIn) -> None:
    page = sign_in(Kind.ROOT).get("/ui/user/local~root/")
    assert ('value="block"' in page.text, "Delete user" in page.text) == (False, False)
    assert "Your profile and sessions" in page.text


def test_rename(sign_in: SignIn, stranger: User) -> None:
    root, address = sign_in(Kind.ROOT), user_url(HOSTILE_ID)
    fields = {"action": "update", "changed_at": root.get(address).field("changed_at")}
    assert root.post(address, {**fields, "name": "Ada", "email": ""}).status == 302
    stranger.refresh_from_db()
    assert (stranger.name, stranger.email, stranger.user_type) == ("Ada", "", "human")
    fields["changed_at"] = stranger.updated_at.isoformat()
    page = root.post(address, {**fields, "name": " ", "email": HOSTILE})
    assert page.status == 400
    assert "must not be empty" in page.text
    assert is_escaped(page)
    page = root.post(address, {**fields, "name": "x", "email": "e" * 321})
    assert (page.status, "Longer than 320 characters" in page.text) == (400, True)


def test_two_users_edit_at_once(sign_in: SignIn, stranger: User) -> None:
    first, second, address = sign_in(Kind.ROOT), sign_in(Kind.ROOT), user_url(HOSTILE_ID)
    seen = [each.get(address).field("changed_at") for each in (first, second)]
    assert seen[0] == seen[1]
    saved = {"action": "update", "name": "Ada <b>", "email": "ada@example.org", "changed_at": seen[0]}
    assert first.post(address, saved).status == 302
    late = {"action": "update", "name": "my <i>name", "email": "mine@example.org", "changed_at": seen[1]}
    page = second.post(address, late)
    assert page.status == 409
    assert "changed meanwhile" in page.text
    assert "<b>Ada &lt;b&gt;</b>, ada@example.org" in page.text, "what is stored"
    assert 'value="my &lt;i&gt;name"' in page.text, "what the user entered"
    assert 'value="mine@example.org"' in page.text
    stranger.refresh_from_db()
    assert (stranger.name, stranger.email) == ("Ada <b>", "ada@example.org")
    assert len(rows(event="user.updated")) == 1
    assert second.post(address, late | {"changed_at": page.field("changed_at")}).status == 302
    stranger.refresh_from_db()
    assert (stranger.name, stranger.email) == ("my <i>name", "mine@example.org")
    for forged in ("", "yesterday", "0001-01-01T00:00+14:00"):
        assert second.post(address, late | {"changed_at": forged}).status == 400
    update_user(actor=INTERNAL, user_id=HOSTILE_ID, name="plain", email=None, user_type="human")  # as the API does


def test_a_change_between_the_page_and_the_lock_is_noticed(
    sign_in: SignIn, stranger: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, address = sign_in(Kind.ROOT), user_url(HOSTILE_ID)
    seen = root.get(address).field("changed_at")

    def change_and_lock(user_id: str) -> User | None:
        monkeypatch.setattr(users, "lock_user", lock_user)
        update_user(actor=INTERNAL, user_id=user_id, name="first", email=None, user_type="human")
        return lock_user(user_id)

    monkeypatch.setattr(users, "lock_user", change_and_lock)
    page = root.post(address, {"action": "update", "name": "late", "email": "", "changed_at": seen})
    assert page.status == 409


def test_delete_after_a_confirmation(sign_in: SignIn, stranger: User) -> None:
    root, address = sign_in(Kind.ROOT), user_url(HOSTILE_ID)
    page = root.get(f"{address}delete/")
    assert page.status == 200
    assert is_escaped(page)
    assert HOSTILE_ID in unescape(page.text)
    assert User.objects.get(pk=HOSTILE_ID).deleted_at is None
    assert root.post(f"{address}delete/", {"action": "delete"}).location == "/ui/user/"
    assert User.objects.get(pk=HOSTILE_ID).deleted_at is not None
    assert root.get(address).status == 404
    assert root.post(f"{address}delete/", {"action": "delete"}).status == 404


def test_roles_direct_and_through_others(sign_in: SignIn, project: Project, hostile_role: Role, stranger: User) -> None:
    outer = create_role(actor=INTERNAL, project=project, name="outer")
    for role, members in (
        (hostile_role, Members(user_ids=[HOSTILE_ID])), (outer, Members(role_ids=[hostile_role.pk])),
    ):  # fmt: skip
        add_role_members(actor=INTERNAL, project=project, role_id=role.pk, members=members)
    page = sign_in(Kind.ROOT).get(user_url(HOSTILE_ID))
    assert is_escaped(page)
    table = unescape(re.sub(r"\s+", " ", page.text[page.text.index("Member by") :]))
    assert f">{HOSTILE}</a>" in table
    (row,) = re.findall(r"outer</a>.*?</tr>", table)
    assert f'membership in <a href="/ui/role/{hostile_role.pk}/">{HOSTILE}</a>' in row


def test_tokens_of_a_user(sign_in: SignIn) -> None:
    sign_in(Kind.GUEST)
    issued = create_token(actor=INTERNAL, user_id=Kind.GUEST, name=HOSTILE)
    root = sign_in(Kind.ROOT)
    page = root.get(GUEST)
    assert is_escaped(page)
    assert (issued.row.prefix in page.text, issued.text in page.text) == (True, False)
    assert "Create a token" not in page.text, "users create their own"
    assert root.post(GUEST, {"action": "rotate-token", "token_id": str(issued.row.pk)}).status == 403
    assert is_escaped(root.get(f"/ui/token/{issued.row.pk}/revoke/"))
    assert root.post(f"/ui/token/{issued.row.pk}/revoke/", {"action": "delete"}).location == GUEST
    assert AccessToken.objects.get().revoked_at is not None


def test_sessions_of_a_user(sign_in: SignIn) -> None:
    guests, root = [sign_in(Kind.GUEST) for _ in range(2)], sign_in(Kind.ROOT)
    first = ConsoleSession.objects.filter(user_id=Kind.GUEST).order_by("created_at")[0]
    assert root.post(GUEST, {"action": "end-session", "session_id": str(first.pk)}).status == 302
    assert [is_signed_in(each) for each in guests] == [False, True]
    assert root.post(GUEST, {"action": "end-sessions"}).status == 302
    assert [is_signed_in(each) for each in (*guests, root)] == [False, False, True]


def test_pages_of_fifty(sign_in: SignIn) -> None:
    root = sign_in(Kind.ROOT)
    User.objects.bulk_create([User(id=f"oidc~{number:03}", name=f"User {number:03}") for number in range(120)])
    address, seen, pages = "/ui/user/", set[str](), 0
    while address:
        page = root.get(address)
        shown = re.findall(r'<a class="ik-name" href="([^"]+)"', page.text)
        assert len(shown) <= 50
        assert not seen & set(shown)
        seen |= set(shown)
        pages += 1
        following = re.findall(r'href="(\?[^"]*after=[^"]*)">Next', page.text)
        address = f"/ui/user/{unescape(following[0])}" if following else ""
    assert (pages, len(seen)) == (3, User.objects.count())
    assert root.get("/ui/user/?after=x").status == 400
    assert sign_in(Kind.GUEST).get("/ui/user/?q=user&after=x").status == 403


def test_unknown_and_malformed_addresses(sign_in: SignIn) -> None:
    root = sign_in(Kind.ROOT)
    for path in ("oidc~unknown", "oidc~=61", "oidc~a%2Fb", "nothing"):
        assert root.get(f"/ui/user/{path}/").status == 404, path
