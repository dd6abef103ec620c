"""Tags: list, page, changes by two users, the objects that have a tag, and what users without permissions get."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from catalog.models import Namespace, Tabular
from tenancy.actor import INTERNAL, Actor
from tenancy.models import Project, Securable, TagDefinition
from tenancy.models.securable import ObjectRef
from tenancy.services.tags import create_tag_definition, put_attachment, update_tag_definition
from tests.authz.tree_fixtures import give
from tests.console.accounts.conftest import HOSTILE, Kind, SignIn, is_escaped

pytestmark = pytest.mark.django_db

LIST = "/ui/tag/"


@pytest.fixture
def tag(project: Project) -> TagDefinition:
    return create_tag_definition(
        actor=INTERNAL, project=project, name=HOSTILE, scope=["table", "column"], value_kind="enumerated",
        allowed_values=["low", HOSTILE], description=HOSTILE,
    )  # fmt: skip


def test_what_each_kind_of_user_gets(sign_in: SignIn, tag: TagDefinition) -> None:
    address = f"{LIST}{tag.pk}/"
    for kind in (Kind.ROOT, Kind.LEAD, Kind.ENGINEER):
        browser = sign_in(kind)
        listed, shown = browser.get(LIST), browser.get(address)
        assert (listed.status, shown.status) == (200, 200)
        assert is_escaped(listed)
        assert is_escaped(shown)
        may = kind is not Kind.ENGINEER
        assert ("Create a tag" in listed.text) == may
        for control in ("Change the definition", "Delete…", "Objects that only inherit"):
            assert (control in shown.text) == may, (kind, control)
        assert f'href="{LIST}"' in listed.text
    guest = sign_in(Kind.GUEST)
    assert "You have no access yet" in guest.get(LIST).text
    assert guest.get(address).status == guest.get(f"{LIST}{uuid4()}/").status == 404
    assert f'href="{LIST}"' not in guest.get("/ui/").text


def test_a_user_who_may_only_apply_a_tag_sees_it(sign_in: SignIn, tag: TagDefinition) -> None:
    give("apply", ObjectRef(Securable.Type.TAG, tag.pk), Actor(user_id=Kind.GUEST))
    guest = sign_in(Kind.GUEST)
    page = guest.get(f"{LIST}{tag.pk}/")
    assert page.status == 200
    assert "You do not have the permission to list the objects" in page.text


def test_forged_forms_are_denied_by_the_services(sign_in: SignIn, tag: TagDefinition) -> None:
    address = f"{LIST}{tag.pk}/"
    changed_at = tag.changed_at.isoformat()
    forms = [
        (LIST, {"action": "create", "name": "mine", "scope": "table", "value-kind": "marker"}),
        (address, {"action": "update", "name": "mine", "scope": "table", "changed_at": changed_at}),
        (f"{address}delete/", {"action": "delete"}),
    ]
    for path, fields in forms:
        assert sign_in(Kind.ENGINEER).post(path, fields).status == 403, fields
        assert sign_in(Kind.GUEST).post(path, fields).status == 404, fields
    assert list(TagDefinition.objects.values_list("name", flat=True)) == [HOSTILE]


def test_create(sign_in: SignIn) -> None:
    lead = sign_in(Kind.LEAD)
    fields = {"action": "create", "name": HOSTILE, "description": "one\r\ntwo", "value-kind": "enumerated"}
    bad = lead.post(LIST, fields | {"scope": "table"})
    assert (bad.status, "An enumerated definition needs one or more" in bad.text) == (400, True)
    assert is_escaped(bad)
    assert (lead.post(LIST, fields | {"scope": "everything"}).status, lead.post(LIST, fields).status) == (400, 400)
    assert lead.post(LIST, fields | {"scope": "table", "value-kind": "x"}).status == 400
    created = lead.post(LIST, fields | {"scope": "table", "allowed-values": f" low \r\n\r\n{HOSTILE}\r\n"})
    (row,) = TagDefinition.objects.all()
    assert (created.status, created.location) == (302, f"{LIST}{row.pk}/")
    assert (row.name, row.description, row.allowed_values, row.scope) == (
        HOSTILE,
        "one\ntwo",
        ["low", HOSTILE],
        ["table"],
    )
    assert lead.get(f"{LIST}?q={'x' * 300}").status == 200
    again = lead.post(LIST, fields | {"scope": "table", "allowed-values": "x"})
    assert (again.status, "exists already in this project" in again.text) == (409, True)


def test_two_users_edit_at_once(sign_in: SignIn, tag: TagDefinition, project: Project) -> None:
    first, second, address = sign_in(Kind.LEAD), sign_in(Kind.ROOT), f"{LIST}{tag.pk}/"
    seen = first.get(address).field("changed_at")
    fields = {"action": "update", "name": "renamed", "changed_at": seen, "description": ""}
    narrowed = first.post(address, fields | {"scope": "table"})
    assert (narrowed.status, "Can only be widened" in narrowed.text) == (400, True)
    update_tag_definition(
        actor=INTERNAL,
        project=project,
        definition_id=tag.pk,
        name="by <b>another",
        scope=["table", "column"],
        description=None,
    )
    late = second.post(
        address, {**fields, "name": "my <i>name", "add-allowed-values": "new", "scope": ["table", "column"]}
    )
    assert late.status == 409
    assert "changed by another user" in late.text
    assert "by &lt;b&gt;another" in late.text, "the stored name"
    assert 'value="my &lt;i&gt;name"' in late.text, "what the user entered"
    tag.refresh_from_db()
    assert (tag.name, tag.allowed_values) == ("by <b>another", ["low", HOSTILE])


@pytest.fixture
def tables(create_table: Callable[..., dict[str, Any]]) -> None:
    """Created before the test switches authentication on."""
    create_table("visible <b>")
    create_table("hidden")


def test_objects_with_the_tag(tables: None, sign_in: SignIn, tag: TagDefinition) -> None:
    rows = {each.name: each for each in Tabular.objects.all()}
    for row in rows.values():
        put_attachment(tag, ObjectRef(Securable.Type.TABLE, row.pk), field_id=None, value="low")
    put_attachment(tag, ObjectRef(Securable.Type.TABLE, rows["hidden"].pk), field_id=3, value=HOSTILE)
    space = ObjectRef(Securable.Type.NAMESPACE, Namespace.objects.get().pk)
    put_attachment(tag, space, field_id=None, value="low")
    address = f"{LIST}{tag.pk}/"
    root = sign_in(Kind.ROOT)
    page = root.get(address)
    assert page.text.count("visible &lt;b&gt;</a>") == 1
    assert page.text.count(".hidden</a>") == 2
    assert is_escaped(page)
    assert root.get(f"{address}?value=low").text.count(".hidden</a>") == 1
    assert "No objects" in root.get(f"{address}?value=x").text
    give("ownership", ObjectRef(Securable.Type.TAG, tag.pk), Actor(user_id=Kind.GUEST))
    give("select", ObjectRef(Securable.Type.TABLE, rows["visible <b>"].pk), Actor(user_id=Kind.GUEST))
    page = sign_in(Kind.GUEST).get(address)
    assert ("visible &lt;b&gt;</a>" in page.text, "hidden</a>" in page.text) == (True, False)
    assert f'data-copy="{rows["hidden"].uuid}"' in page.text, "by its id, as in the API"
    assert root.post(f"{address}delete/", {"action": "delete"}).status == 409


def test_delete(sign_in: SignIn, tag: TagDefinition) -> None:
    lead, address = sign_in(Kind.LEAD), f"{LIST}{tag.pk}/delete/"
    page = lead.get(address)
    assert page.status == 200
    assert is_escaped(page)
    assert TagDefinition.objects.count() == 1
    assert lead.post(address, {"action": "delete"}).status == 302
    assert TagDefinition.objects.count() == 0
