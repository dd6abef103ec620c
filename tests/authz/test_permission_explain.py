"""Explanations of permissions over HTTP: what is shown to which caller, and what is withheld."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from catalog.models import Tabular
from icekeeper.kernel.clock import now
from tenancy.actor import Actor
from tenancy.authz import port
from tenancy.authz.actions import ACTION_NAMES, ACTIONS_ON, LEGACY_ACTION_NAMES
from tenancy.authz.builtin.backend import BuiltinAuthorizer
from tenancy.authz.port import Authorizer
from tenancy.models import Grant, Role, RoleMember, Securable
from tenancy.models.securable import ObjectRef, securable_id
from tests.authz.parity.pair_fixtures import another_user, grant, member
from tests.authz.permission_check_fixtures import (
    EXPLAINED,
    NAMES,
    asked,
    by_id,
    by_name,
)
from tests.authz.permission_fixtures import SHOWS, Things, new_role, other_project
from tests.authz.tree_fixtures import give
from tests.harness.named_callers import CallerClient
from tests.harness.statement_counts import counting
from tests.management.warehouse_request_fixtures import use_settings

pytestmark = pytest.mark.django_db

T = Securable.Type
COST = 10
"""Statements of an explanation through roles: what it is about, the rows, the ways, what the caller may know, names."""
TABLE_NAME = {"namespace": ["closed", "deep"], "name": "a"}


def explained(client: CallerClient, *question: Any, **headers: str) -> dict[str, Any]:
    response = client.post("/explain", asked(*question), **headers)
    assert response.status == 200, response.body
    reported: dict[str, Any] = response.json()
    assert {"allowed", "by-grants", "chain", "cures"} <= reported.keys()
    return reported


def steps(reported: dict[str, Any]) -> list[tuple[str, str] | str]:
    """The type of object and the relation of each step."""
    return [
        "withheld" if each["withheld"] else (each["object"]["type"], each["relation"]) for each in reported["chain"]
    ]


def cures(reported: dict[str, Any]) -> list[tuple[str, str]]:
    return [(each["object"]["type"], each["privilege"]) for each in reported["cures"]]


@pytest.mark.parametrize("kind", EXPLAINED)
def test_each_action_of_a_check_is_explained_as_it_is_decided(things: Things, kind: Securable.Type) -> None:
    manager, location = things.manager(kind), by_id(things, kind)
    viewer = things.with_right("viewer", SHOWS[kind]) if kind in SHOWS else things.client("viewer")
    for word in ACTION_NAMES[kind].keys() - {"read_metadata"}:  # allowed for every user
        about_viewer = explained(manager, kind, word, location, {"user": "oidc~viewer"})
        reported = explained(viewer, kind, word, location)
        for each in (reported, about_viewer):
            assert each["allowed"] is each["by-grants"] is bool(each["chain"])
            assert bool(each["cures"]) is not each["allowed"]
            assert "standing" not in each
        assert reported["chain"] == about_viewer["chain"]
        if kind is not T.ROLE and word in LEGACY_ACTION_NAMES.get(kind, ()):
            response = viewer.post("/check", asked(kind, word, location))
            assert response.json() == {"allowed": reported["allowed"]}


def test_the_words_of_both_vocabularies_mean_the_same() -> None:
    assert ACTION_NAMES.keys() == {*LEGACY_ACTION_NAMES, T.TAG} == set(EXPLAINED)
    assert ACTION_NAMES[T.TAG].keys() - {each.value for each in ACTIONS_ON[T.TAG]} == {
        "read_assignments",
        "grant_apply",
        "change_ownership",
    }
    for kind, words in LEGACY_ACTION_NAMES.items():
        assert ACTION_NAMES[kind] == {each.value: each for each in ACTIONS_ON[kind]} | dict(words)
        assert all(words.get(each.value, each) is each for each in ACTIONS_ON[kind])


def test_the_whole_response_with_roles_in_roles_and_ends(things: Things) -> None:
    things.client("viewer")
    later = datetime(2101, 2, 3, 4, 5, 6, tzinfo=UTC)
    inner, outer = new_role("Inner"), new_role("Outer")
    member(inner.pk, user_id="oidc~viewer", expires_at=later)
    member(outer.pk, role=inner.pk)
    grant(things.refs[T.WAREHOUSE], "select", role_id=outer.pk, expires_at=later + timedelta(days=1))
    reported = explained(things.client("viewer"), T.TABLE, "read_data", by_id(things, T.TABLE))
    warehouse_id = str(things.warehouse.pk)
    closed = {"type": "namespace", "id": _closed(things), "warehouse-id": warehouse_id, "namespace": ["closed"]}
    deep = closed | {"id": str(things.refs[T.NAMESPACE][1]), "namespace": ["closed", "deep"]}
    table = {"type": "table", "id": things.public_id(T.TABLE), "warehouse-id": warehouse_id, **TABLE_NAME}
    warehouse = {
        "type": "warehouse",
        "id": warehouse_id,
        "warehouse-id": warehouse_id,
        "name": things.warehouse.name,
    }
    through = [
        {"role": str(inner.pk), "name": "Inner", "entry": "member", "expires-at": "2101-02-03T04:05:06+00:00"},
        {"role": str(outer.pk), "name": "Outer", "entry": "member"},
    ]
    granted = {
        "privilege": "select",
        "principal": {"role": str(outer.pk)},
        "through": through,
        "expires-at": "2101-02-04T04:05:06+00:00",
    }
    assert reported == {
        "allowed": True,
        "by-grants": True,
        "chain": [
            {"withheld": False, "relation": "select", "object": warehouse, "grant": granted},
            {"withheld": False, "relation": "select", "object": closed},
            {"withheld": False, "relation": "select", "object": deep},
            {"withheld": False, "relation": "select", "object": table},
            {"withheld": False, "relation": "can_read_data", "object": table},
        ],
        "cures": [],
    }
    reported = explained(things.client("viewer"), T.TABLE, "write_data", by_name(things, T.TABLE))
    assert (reported["allowed"], reported["chain"]) == (False, [])
    assert reported["cures"][:2] == [
        {"privilege": "modify", "object": table},
        {"privilege": "ownership", "object": table},
    ]
    assert reported["cures"][2] == {"privilege": "modify", "object": deep}
    assert cures(reported)[-2:] == [("project", "project_admin"), ("server", "operator")]


def _closed(things: Things) -> str:
    parent = Securable.objects.get(pk=securable_id(*things.refs[T.NAMESPACE])).parent
    assert parent is not None
    return parent.object_id


def test_what_has_ended_allows_nothing(things: Things) -> None:
    viewer = things.with_right("viewer", ("describe", T.TABLE))
    past = now() - timedelta(seconds=1)
    grant(things.refs[T.TABLE], "select", user_id="oidc~viewer", expires_at=past)
    group = new_role("group")
    member(group.pk, user_id="oidc~viewer", expires_at=past)
    grant(things.refs[T.TABLE], "modify", role_id=group.pk)
    reported = explained(viewer, T.TABLE, "read_data", by_id(things, T.TABLE))
    assert not reported["allowed"]
    assert cures(reported)[:3] == [("table", "select"), ("table", "modify"), ("table", "ownership")]


def test_managed_access_is_why_an_owner_may_not_grant(things: Things) -> None:
    owner = things.with_right("owner", ("ownership", T.TABLE))
    location = by_id(things, T.TABLE)
    reported = explained(owner, T.TABLE, "grant_select", location)
    assert steps(reported) == [("table", "ownership"), ("table", "manage_grants"), ("table", "can_grant_select")]
    Securable.objects.filter(pk=securable_id(*things.refs[T.WAREHOUSE])).update(managed_access=True)
    reported = explained(owner, T.TABLE, "grant_select", location)
    assert not reported["allowed"]
    assert cures(reported)[:2] == [("table", "pass_grants"), ("table", "manage_grants")]


def test_roles_of_a_token_count_only_for_its_bearer(things: Things) -> None:
    staff = Role.objects.create(
        project_id=things.refs[T.PROJECT][1], name="staff", name_key="staff", provider_id="oidc", source_id="staff"
    )
    grant(things.refs[T.TABLE], "select", role_id=staff.pk)
    viewer, location = things.client("viewer", "staff"), by_id(things, T.TABLE)
    reported = explained(viewer, T.TABLE, "read_data", location)
    assert reported["chain"][0]["grant"]["through"] == [{"role": str(staff.pk), "name": "staff", "entry": "token"}]
    reported = explained(things.manager(T.TABLE), T.TABLE, "read_data", location, {"user": "oidc~viewer"})
    assert (reported["allowed"], cures(reported)[0]) == (False, ("table", "select"))


def test_of_a_role_and_in_an_assumed_one(things: Things) -> None:
    things.client("viewer")
    group = new_role("group")
    member(group.pk, user_id="oidc~viewer")
    grant(things.refs[T.TABLE], "select", role_id=group.pk)
    location, whole = by_id(things, T.TABLE), {"role": str(group.pk)}
    through = [{"role": str(group.pk), "name": "group", "entry": "assumed"}]
    about = explained(things.manager(T.TABLE), T.TABLE, "read_data", location, whole)
    acting = explained(things.client("viewer"), T.TABLE, "read_data", location, **{"x-assume-role": str(group.pk)})
    assert about == acting
    assert about["chain"][0]["grant"] == {"privilege": "select", "principal": whole, "through": through}


def test_visibility_because_of_a_child_names_the_child(things: Things) -> None:
    viewer = things.with_right("viewer", ("select", T.TABLE))
    reported = explained(viewer, T.WAREHOUSE, "get_metadata", by_id(things, T.WAREHOUSE))
    assert steps(reported) == [("table", "select"), ("warehouse", "can_get_metadata")]
    assert reported["chain"][0]["object"]["namespace"] == ["closed", "deep"]


def test_grants_elsewhere_are_shown_to_users_who_may_read_them_there(things: Things) -> None:
    """The owner of a table asks about users who read it because of grants on its parents."""
    owner, location = things.with_right("owner", ("ownership", T.TABLE)), by_id(things, T.TABLE)
    things.with_right("viewer", ("select", T.WAREHOUSE))
    things.with_right("chief", ("operator", T.SERVER))
    for name, word in (("viewer", "read_data"), ("chief", "drop")):
        reported = explained(owner, T.TABLE, word, location, {"user": f"oidc~{name}"})
        assert reported["chain"][0] == {"withheld": True}
        assert [each if each == "withheld" else each[0] for each in steps(reported)] == ["withheld", "table", "table"]
        assert reported["allowed"] is reported["by-grants"] is True
        assert reported["cures"] == []
    whole = explained(things.manager(T.TABLE), T.TABLE, "read_data", location, {"user": "oidc~viewer"})
    assert steps(whole)[0] == ("warehouse", "select")


def test_grants_below_are_shown_to_users_who_may_read_them_there(things: Things) -> None:
    """`pass_grants` on a parent does not allow a user to read the grants on the tables in it."""
    passer = things.with_right("passer", ("describe", T.NAMESPACE))
    things.with_right("passer", ("pass_grants", T.NAMESPACE))
    things.with_right("viewer", ("select", T.TABLE))
    location, viewer = by_id(things, T.NAMESPACE), {"user": "oidc~viewer"}
    reported = explained(passer, T.NAMESPACE, "get_metadata", location, viewer)
    assert steps(reported) == ["withheld", ("namespace", "can_get_metadata")]
    assert NAMES[T.TABLE] not in [each.get("object", {}).get("name") for each in reported["chain"]]
    whole = explained(things.manager(T.NAMESPACE), T.NAMESPACE, "get_metadata", location, viewer)
    assert steps(whole)[0] == ("table", "select")


def test_grant_managers_without_access_learn_no_names_of_parents(things: Things) -> None:
    blind, location = things.with_right("blind", ("manage_grants", T.TABLE)), by_id(things, T.TABLE)
    things.client("viewer")
    group = new_role("group")
    member(group.pk, user_id="oidc~viewer")
    grant(things.refs[T.TABLE], "modify", role_id=group.pk)
    own = explained(blind, T.TABLE, "read_data", location)
    assert {kind for kind, _ in cures(own)} == {"table", "server"}
    other = explained(blind, T.TABLE, "write_data", location, {"user": "oidc~viewer"})
    # Every user who sees the project may read the members of a role, but not the grants on this object.
    assert other["chain"][0]["grant"] == {"privilege": "modify", "principal": {"role": str(group.pk)}}
    asked_about = {"type": "table", "id": things.public_id(T.TABLE), "warehouse-id": str(things.warehouse.pk)}
    assert other["chain"][0]["object"] == asked_about
    assert next(each["object"] for each in own["cures"] if each["object"]["type"] == "table") == asked_about
    RoleMember.objects.all().delete()
    Grant.objects.filter(role=group).delete()
    give("select", things.refs[T.NAMESPACE], Actor(user_id="oidc~viewer"))
    other = explained(blind, T.TABLE, "read_data", location, {"user": "oidc~viewer"})
    assert steps(other) == ["withheld", ("table", "select"), ("table", "can_read_data")]


def test_what_stands_whatever_is_granted(things: Things, monkeypatch: pytest.MonkeyPatch) -> None:
    use_settings(monkeypatch, instance_admins=["oidc~ida"])
    ida, location = things.client("ida"), by_id(things, T.TABLE)
    reported = explained(ida, T.TABLE, "drop", location)
    assert (reported["allowed"], reported["by-grants"], reported["standing"], reported["chain"]) == (
        True,
        False,
        "instance-admin",
        [],
    )
    assert cures(reported)[0] == ("table", "modify")
    reported = explained(ida, T.TABLE, "read_data", location)
    assert (reported["allowed"], reported["by-grants"], "standing" in reported) == (False, False, False)
    reported = explained(things.manager(T.TABLE), T.TABLE, "drop", location, {"user": "oidc~ida"})
    assert not reported["allowed"]  # other callers see an unknown user as one without grants
    use_settings(monkeypatch, authz_backend="allowall")
    port.authorizer.cache_clear()
    reported = explained(things.client("stranger"), T.TABLE, "drop", location)
    assert (reported["allowed"], reported["by-grants"], reported["standing"]) == (True, False, "allowall")


def test_a_store_of_another_backend_kind_is_reported_with_the_grants(
    things: Things, monkeypatch: pytest.MonkeyPatch
) -> None:
    viewer = things.with_right("viewer", ("select", T.TABLE))
    original: Callable[..., list[bool]] = type(port.authorizer()).decide

    def decide(self: Authorizer, actor: Actor, questions: Any) -> list[bool]:
        responses = original(self, actor, questions)
        return [response and action != "read_data" for response, (action, _) in zip(responses, questions, strict=True)]

    monkeypatch.setattr(type(port.authorizer()), "decide", decide)
    reported = explained(viewer, T.TABLE, "read_data", by_id(things, T.TABLE))
    assert (reported["allowed"], reported["by-grants"]) == (False, True)
    assert steps(reported) == [("table", "select"), ("table", "can_read_data")]


def test_a_project_must_be_seen_and_is_named_by_header_or_id(things: Things) -> None:
    project = other_project()
    creator = things.with_right("creator", ("create", T.PROJECT))
    reported = explained(creator, T.PROJECT, "create_warehouse", {})
    own: ObjectRef = things.refs[T.PROJECT]
    assert reported["chain"][0]["object"] == {"type": "project", "id": own[1], "name": "Default Project"}
    for headers, location in (({"x-project-id": project.pk}, {}), ({}, {"project-id": project.pk})):
        response = creator.post("/explain", asked(T.PROJECT, "create_warehouse", location), **headers)
        assert response.refused(403, "ProjectActionForbidden", "get_metadata")


def test_dropped_objects_are_found_by_id(things: Things) -> None:
    client = things.with_right("viewer", SHOWS[T.TABLE])
    Tabular.objects.filter(pk=things.refs[T.TABLE][1]).update(deleted_at=now())
    reported = explained(client, T.TABLE, "undrop", by_id(things, T.TABLE))
    assert reported["cures"][0]["object"]["name"] == "a"
    response = client.post("/explain", asked(T.TABLE, "undrop", by_name(things, T.TABLE)))
    assert response.refused(404, "NoSuchTableException")


def test_a_grant_in_another_project_explains_nothing_here(things: Things) -> None:
    viewer = things.with_right("viewer", ("describe", T.TABLE))
    project = other_project()
    grant(ObjectRef(T.PROJECT, project.pk), "project_admin", user_id=another_user("oidc~viewer"))
    reported = explained(viewer, T.TABLE, "read_data", by_id(things, T.TABLE))
    assert not reported["allowed"]
    assert project.pk not in str(reported)


def test_its_cost_does_not_grow_with_the_way(things: Things, builtin: BuiltinAuthorizer) -> None:
    viewer, location = things.client("viewer"), by_id(things, T.TABLE)
    groups = [new_role(f"group {number}") for number in range(6)]
    grant(things.refs[T.WAREHOUSE], "select", role_id=groups[0].pk)
    for outer, inner in pairwise(groups):
        RoleMember.objects.create(role=outer, member_role=inner)
    explained(viewer, T.SERVER, "create_project", {})  # a registered user
    costs = []
    for inner in (groups[0], groups[-1]):
        membership = RoleMember.objects.create(role=inner, user_id="oidc~viewer")
        builtin.clear_caches()
        with counting() as seen:
            reported = explained(viewer, T.TABLE, "read_data", location)
        costs.append((len(reported["chain"][0]["grant"]["through"]), seen["statements"]))
        membership.delete()
    assert costs == [(1, COST), (6, COST)]
