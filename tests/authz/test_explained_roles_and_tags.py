"""Explanations of permissions on roles and tags over HTTP."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tenancy.actor import INTERNAL
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef
from tenancy.services.tags import create_tag_definition
from tests.authz.hidden_object_fixtures import reported
from tests.authz.object_path_fixtures import HOSTILE, MISSING
from tests.authz.parity.pair_fixtures import grant, member
from tests.authz.permission_check_fixtures import IN_PROJECTS, asked, by_id
from tests.authz.permission_fixtures import NO_ONE, Things, new_role, other_project
from tests.harness.named_callers import CallerClient

pytestmark = pytest.mark.django_db

T = Securable.Type
STRANGER = {"user": "oidc~stranger"}


def explained(client: CallerClient, things: Things, kind: Securable.Type, word: str, **more: Any) -> dict[str, Any]:
    response = client.post("/explain", asked(kind, word, by_id(things, kind), **more))
    assert response.status == 200, response.body
    found: dict[str, Any] = response.json()
    return found


def object_json(things: Things, kind: Securable.Type) -> dict[str, str]:
    if kind is T.ROLE:
        return {"type": "role", "id": str(things.role.pk), "name": "team"}
    return {"type": "tag-definition", "id": things.public_id(T.TAG), "name": "pii"}


def test_a_member_through_another_role_may_assume_it(things: Things) -> None:
    viewer, inner = things.with_right("viewer", ("describe", T.PROJECT)), new_role("inner")
    member(inner.pk, user_id="oidc~viewer")
    member(things.role.pk, role=inner.pk)
    team = object_json(things, T.ROLE)
    through = [{"role": str(inner.pk), "name": "inner", "entry": "member"}]
    entered = {"privilege": "assignee", "principal": {"role": str(inner.pk)}, "through": through}
    assert explained(viewer, things, T.ROLE, "assume") == {
        "allowed": True,
        "by-grants": True,
        "chain": [
            {"withheld": False, "relation": "assignee", "object": team, "grant": entered},
            {"withheld": False, "relation": "can_assume", "object": team},
        ],
        "cures": [],
    }
    member(things.role.pk, user_id="oidc~viewer")
    first, _ = explained(viewer, things, T.ROLE, "assume")["chain"]
    assert first["grant"] == {"privilege": "assignee", "principal": {"user": "oidc~viewer"}, "through": []}


def test_the_owner_of_a_role_may_assume_and_change_it(things: Things) -> None:
    owner = things.with_right("owner", ("describe", T.PROJECT))
    grant(things.refs[T.ROLE], "ownership", user_id="oidc~owner")
    for word, relations in (
        ("assume", ["ownership", "assignee", "can_assume"]),
        ("can_grant_assignee", ["ownership", "can_manage_role_assignments"]),
        ("update", ["ownership", "can_update"]),
    ):
        chain = explained(owner, things, T.ROLE, word)["chain"]
        assert [each["relation"] for each in chain] == relations
        assert chain[0]["grant"] == {"privilege": "ownership", "principal": {"user": "oidc~owner"}, "through": []}


def test_a_tag_is_applied_with_a_privilege_on_it_or_on_a_parent(things: Things) -> None:
    viewer, group = things.client("viewer"), new_role("group")
    member(group.pk, user_id="oidc~viewer")
    grant(things.refs[T.TAG], "apply", role_id=group.pk)
    chain = explained(viewer, things, T.TAG, "apply")["chain"]
    assert [(each["relation"], each["object"]) for each in chain] == [
        (relation, object_json(things, T.TAG)) for relation in ("apply", "can_apply")
    ]
    assert chain[0]["grant"]["principal"] == {"role": str(group.pk)}
    chain = explained(things.manager(T.TAG), things, T.TAG, "apply")["chain"]
    assert [(each["object"]["type"], each["relation"]) for each in chain] == [
        ("project", "security_admin"), ("tag-definition", "apply"), ("tag-definition", "can_apply"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "word", "expected"),
    [
        (T.ROLE, "assume", [("role", "assignee"), ("role", "ownership")]),
        (T.ROLE, "delete", [
            ("role", "ownership"), ("project", "security_admin"), ("project", "project_admin"), ("server", "operator"),
        ]),
        (T.TAG, "apply", [
            ("tag-definition", "apply"), ("tag-definition", "ownership"), ("project", "security_admin"),
            ("project", "project_admin"), ("server", "operator"),
        ]),
    ],
)  # fmt: skip
def test_cures_of_denied_permissions(
    things: Things, kind: Securable.Type, word: str, expected: list[tuple[str, str]]
) -> None:
    viewer = things.with_right("viewer", ("describe", T.PROJECT))
    for client, identity in (
        (viewer, None),
        (things.manager(kind), {"user": "oidc~viewer"}),
        (things.manager(kind), {"role": str(new_role("empty").pk)}),
    ):
        found = explained(client, things, kind, word, identity=identity)
        assert (found["allowed"], found["by-grants"], found["chain"]) == (False, False, [])
        assert [(each["object"]["type"], each["privilege"]) for each in found["cures"]] == expected
        assert found["cures"][0]["object"] == object_json(things, kind)


def test_of_a_role_itself(things: Things) -> None:
    manager, outer = things.manager(T.ROLE), new_role("outer")
    member(outer.pk, role=things.role.pk)
    whole = {"role": str(things.role.pk)}
    through = [{"role": str(things.role.pk), "name": "team", "entry": "assumed"}]
    for own_id in (things.role.pk, outer.pk):
        response = manager.post("/explain", asked(T.ROLE, "assume", {"role-id": str(own_id)}, whole)).json()
        first, last = response["chain"]
        assert first["grant"] == {"privilege": "assignee", "principal": whole, "through": through}
        assert (response["allowed"], last["object"]["id"]) == (True, str(own_id))


def test_what_all_users_may_do_is_granted_to_no_user(things: Things) -> None:
    viewer = things.with_right("viewer", ("describe", T.PROJECT))
    found = explained(viewer, things, T.ROLE, "read_metadata", identity={"role": str(new_role("empty").pk)})
    assert found == {"allowed": True, "by-grants": False, "standing": "everybody", "chain": [], "cures": []}


def test_grants_above_a_role_are_shown_to_users_who_may_read_them(things: Things) -> None:
    """Every user who sees the project may read the members of its roles."""
    viewer = things.with_right("viewer", ("describe", T.PROJECT))
    manager = things.manager(T.ROLE)
    about = {"identity": {"user": "oidc~manager"}}
    found = explained(viewer, things, T.ROLE, "delete", **about)
    assert found["allowed"]
    assert found["chain"][0] == {"withheld": True}
    assert [each.get("relation") for each in found["chain"]] == [None, "can_delete"]
    assert explained(manager, things, T.ROLE, "delete", **about)["chain"][0]["relation"] == "security_admin"


@pytest.mark.parametrize("kind", IN_PROJECTS)
def test_hidden_objects_cost_and_report_the_same_as_missing_ones(things: Things, kind: Securable.Type) -> None:
    stranger = things.client("stranger")
    root = CallerClient("/management/v1/permissions", "root")
    for identity in (None, {"user": "oidc~root"}):
        hidden, missing = (
            reported(partial(stranger.post, "/explain", asked(kind, "update", location, identity)), named)
            for location, named in (
                (by_id(things, kind), things.public_id(kind)),
                (by_id(things, kind, NO_ONE), NO_ONE),
            )
        )
        assert hidden == missing
        actions = CallerClient("/management/v1", "stranger")
        path = "role" if kind is T.ROLE else "tag-definition"
        own = actions.get(f"/{path}/{things.public_id(kind)}/actions").error
        assert (own["code"], own["type"]) == (hidden.status, hidden.wire_type) == (404, MISSING[kind])
        assert own["message"].replace(things.public_id(kind), "X") == hidden.message
    response = root.post("/explain", asked(kind, "update", by_id(things, kind), STRANGER))
    assert (response.status, response.json()["allowed"]) == (200, False)


def test_those_of_other_projects(things: Things) -> None:
    """Roles are resolved in the request's project; tags wherever the caller sees them."""
    project = other_project()
    far_role = new_role("far", project)
    far_tag = create_tag_definition(actor=INTERNAL, project=project, name="far", scope=["table"], value_kind="marker")
    manager, chief = things.manager(T.PROJECT), things.with_right("chief", ("operator", T.SERVER))
    role_location, tag_location = {"role-id": str(far_role.pk)}, {"tag-definition-id": str(far_tag.pk)}
    for client in (manager, chief):
        response = client.post("/explain", asked(T.ROLE, "read", role_location))
        assert response.refused(404, "RoleNotFoundInProject", str(far_role.pk))
    assert manager.post("/explain", asked(T.TAG, "read", tag_location)).refused(404, "TagDefinitionIdNotFound")
    elsewhere = {"x-project-id": project.pk}
    assert manager.post("/explain", asked(T.ROLE, "read", role_location), **elsewhere).refused(404, MISSING[T.ROLE])
    for kind, location, headers in ((T.ROLE, role_location, elsewhere), (T.TAG, tag_location, {})):
        response = chief.post("/explain", asked(kind, "read", location), **headers)
        assert response.json()["chain"][0]["object"]["type"] == "server"


@pytest.mark.parametrize("kind", IN_PROJECTS)
def test_ids_that_are_none(things: Things, kind: Securable.Type) -> None:
    client, (member_name,) = things.manager(kind), by_id(things, kind)
    own_id = things.public_id(kind)
    for bad in ("", "no", None, 7, ["x"], "{" + own_id + "}", own_id.replace("-", ""), "a\x00", *HOSTILE):
        response = client.post("/explain", asked(kind, "update", {member_name: bad}))
        assert response.refused(400, "BadRequestException", member_name), bad
    assert client.post("/explain", asked(kind, "update", {})).refused(400, "BadRequestException", member_name)
    assert client.post("/explain", asked(kind, "drop", by_id(things, kind))).refused(400, "BadRequestException")
    other: ObjectRef = things.refs[T.TAG if kind is T.ROLE else T.ROLE]
    response = client.post("/explain", asked(kind, "update", {member_name: str(other[1])}))
    assert response.refused(404, MISSING[kind])


@pytest.mark.parametrize("kind", IN_PROJECTS)
def test_a_check_is_about_neither(things: Things, kind: Securable.Type) -> None:
    response = things.manager(kind).post("/check", asked(kind, "update", by_id(things, kind)))
    assert response.refused(400, "BadRequestException", "exactly one")
