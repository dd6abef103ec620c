"""Access review routes: contents, authorization, pagination and audit."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from catalog.models import Namespace, Tabular
from icekeeper.kernel.http.paging import listing_key, write_page_token
from icekeeper.kernel.ids import new_id
from storage.models import Warehouse
from tenancy.actor import Grantee
from tenancy.authz import port
from tenancy.authz.securables import add_securable
from tenancy.models import AuditRecord, Grant, Role, RoleMember, Securable, User
from tenancy.models.securable import ObjectRef, securable_id
from tests.authz.conftest import user
from tests.authz.grant_change_fixtures import Refs
from tests.authz.object_path_fixtures import HOSTILE, MISSING, path_of
from tests.authz.tree_fixtures import T, give, role
from tests.harness.named_callers import CallerClient
from tests.harness.statement_counts import counting
from tests.harness.wsgi_client import Response
from tests.management.warehouse_request_fixtures import NO_ONE, use_settings

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("builtin"), pytest.mark.both_databases]

Manage = Callable[[str], CallerClient]
ANN, BOB = "principalUser=oidc~ann", "principalUser=oidc~bob"


def on(ref: ObjectRef) -> str:
    return f"{path_of(ref)}/access-review"


def reported(response: Response) -> dict[str, dict[str, Any]]:
    """The principals of an object's review, by id."""
    assert response.status == 200, response.body
    return {each["principal"]["id"]: each for each in response.json()["principals"]}


def reached(warehouse: Any, query: str) -> str:
    return f"/warehouse/{warehouse}/reached-objects?{query}"


@pytest.fixture
def readers(refs: Refs) -> dict[str, Role]:
    """Bob is in `inner`, which is in `outer`, which may select in the namespace; Ann modifies the table."""
    outer, inner = role("outer"), role("inner", source="claimed")
    RoleMember.objects.create(role=outer, member_role=inner)
    give("assignee", ObjectRef(T.ROLE, inner.pk), user("bob"))
    give("select", refs[T.NAMESPACE], user("bob"), to=outer)
    give("modify", refs[T.TABLE], user("ann"))
    return {"outer": outer, "inner": inner}


# --- an object -------------------------------------------------------------------------------------------------------


def test_review_of_a_table(refs: Refs, readers: dict[str, Role], manage: Manage) -> None:
    end = datetime.now(UTC) + timedelta(days=1)
    RoleMember.objects.filter(user_id="oidc~bob").update(expires_at=end)
    response = manage("root").get(on(refs[T.TABLE]))
    found, body = reported(response), response.json()
    outer, inner = str(readers["outer"].pk), str(readers["inner"].pk)
    assert list(found) == [*sorted([outer, inner]), "oidc~ann", "oidc~bob", "oidc~root"]
    warehouse = Warehouse.objects.get()
    assert body["decided-by"] == "builtin"
    assert body["object"]["name"] == [warehouse.name, "open", "a"]
    bob = found["oidc~bob"]
    assert bob["principal"] == {"type": "user", "id": "oidc~bob", "name": "bob"}
    assert bob["privileges"] == ["describe", "select"]
    assert bob["actions"] == ["read_data", "get_metadata", "include_in_list", "get_tasks"]
    (grant,) = bob["grants"]
    assert grant["privilege"] == "select"
    assert grant["on"] == {
        "type": "namespace",
        "id": str(refs[T.NAMESPACE][1]),
        "warehouse-id": str(warehouse.pk),
        "name": [warehouse.name, "open"],
    }
    assert grant["via"] == [{"id": inner, "name": "inner"}, {"id": outer, "name": "outer"}]
    assert datetime.fromisoformat(grant["expires-at"]) == end
    assert found[inner]["principal"]["has-members-of-tokens"] is True
    assert "has-members-of-tokens" not in found[outer]["principal"]
    assert [each["via"] for each in found["oidc~ann"]["grants"]] == [[]]
    assert found["oidc~ann"]["privileges"] == ["describe", "select", "modify"]
    assert [each["on"]["type"] for each in found["oidc~root"]["grants"]] == ["project"]
    assert not any(each["shown-from-below"] for each in found.values())


def test_privileges_on_rules_are_in_reviews_of_the_warehouse_and_the_project_alone(refs: Refs, manage: Manage) -> None:
    give("manage_rules", refs[T.PROJECT], user("ann"))
    give("override_rules", refs[T.WAREHOUSE], user("bob"))
    found = {kind: reported(manage("root").get(on(refs[kind]))) for kind in (T.PROJECT, T.WAREHOUSE, T.TABLE)}
    privileges = {kind: {name: each["privileges"] for name, each in found[kind].items()} for kind in found}
    for kind in (T.PROJECT, T.WAREHOUSE):
        assert privileges[kind]["oidc~ann"] == ["manage_rules", "override_rules"]
    assert privileges[T.WAREHOUSE]["oidc~bob"] == ["override_rules"]
    assert not {"oidc~ann", "oidc~bob"} & privileges[T.TABLE].keys()


def test_each_type_of_object_has_a_review(refs: Refs, manage: Manage, chief: CallerClient) -> None:
    for kind, ref in refs.items():
        found = reported(chief.get(on(ref)))
        assert "oidc~chief" in found, kind
        assert [each["on"]["type"] for each in found["oidc~chief"]["grants"]] == ["server"]
        assert ("oidc~root" in found) is (kind is not T.SERVER)


def test_what_lies_above_is_seen_for_what_lies_below(refs: Refs, manage: Manage) -> None:
    give("select", refs[T.TABLE], user("ann"))
    for kind in (T.PROJECT, T.WAREHOUSE, T.NAMESPACE, T.ROLE):
        ann = reported(manage("root").get(on(refs[kind])))["oidc~ann"]
        assert (ann["grants"], ann["privileges"], ann["shown-from-below"]) == ([], [], True), kind
    assert "oidc~ann" not in reported(manage("root").get(on(refs[T.VIEW])))


def test_expired_blocked_and_administrating_principals(
    refs: Refs, manage: Manage, monkeypatch: pytest.MonkeyPatch
) -> None:
    give("select", refs[T.TABLE], user("ann"))
    give("select", refs[T.TABLE], user("bob"))
    Grant.objects.filter(user_id="oidc~ann").update(expires_at=datetime.now(UTC) - timedelta(seconds=1))
    User.objects.filter(pk="oidc~bob").update(is_active=False)
    use_settings(monkeypatch, instance_admins=("oidc~ada",))
    response = manage("root").get(on(refs[T.TABLE]))
    found = reported(response)
    assert list(found) == ["oidc~bob", "oidc~root"]
    assert found["oidc~bob"]["principal"]["blocked"] is True
    admins = response.json()["instance-admins"]
    assert admins["users"] == ["oidc~ada"]
    assert "drop" in admins["actions"]
    assert not {"read_data", "write_data"} & set(admins["actions"])


def test_required_permission(refs: Refs, manage: Manage) -> None:
    give("select", refs[T.TABLE], user("ann"))
    assert manage("ann").get(on(refs[T.TABLE])).refused(403, "TableActionForbidden")
    assert manage("ann").get(on(refs[T.VIEW])).refused(404, "NoSuchViewException")
    assert manage("ann").get(on(refs[T.SERVER])).refused(403, "ServerActionForbidden")
    assert manage("ann").get(on(refs[T.PROJECT])).refused(403, "ProjectActionForbidden")
    assert manage("stranger").get(on(refs[T.TABLE])).refused(404, "NoSuchWarehouseException")
    give("manage_grants", refs[T.TABLE], user("ann"))
    assert "oidc~root" in reported(manage("ann").get(on(refs[T.TABLE])))


def test_hidden_parents_have_no_name(refs: Refs, manage: Manage) -> None:
    """A user with `manage_grants` on a table alone does not see its parents."""
    give("manage_grants", refs[T.TABLE], user("ann"))
    give("select", refs[T.NAMESPACE], user("bob"))
    response = manage("ann").get(on(refs[T.TABLE]))
    assert reported(response)["oidc~bob"]["grants"][0]["on"] == {"type": "namespace"}
    assert response.json()["object"]["name"] == []
    table = manage("ann").get(f"{on(refs[T.TABLE])}?format=csv")
    for hidden in (str(refs[T.NAMESPACE][1]), Warehouse.objects.get().name, "open"):
        assert hidden.encode() not in response.body + table.body
    assert str(refs[T.NAMESPACE][1]).encode() in manage("root").get(f"{on(refs[T.TABLE])}?format=csv").body


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_many_principals_over_pages(refs: Refs, manage: Manage, size: int) -> None:
    team = role("many")
    names = [f"oidc~p{number:02}" for number in range(12)]
    for name in names:
        give("assignee", ObjectRef(T.ROLE, team.pk), user(name.removeprefix("oidc~")))
    give("select", refs[T.TABLE], user("ann"), to=team)
    found, token = [], ""
    while True:
        response = manage("root").get(f"{on(refs[T.TABLE])}?pageSize={size}&pageToken={token}")
        page = list(reported(response))
        assert len(page) <= size
        found += page
        token = response.json().get("next-page-token")
        if token is None:
            break
    assert found == [str(team.pk), *names, "oidc~root"]


def test_a_page_costs_the_same_however_much_is_on_it(refs: Refs, readers: dict[str, Role], manage: Manage) -> None:
    root = manage("root")
    root.get(on(refs[T.TABLE]))
    with counting() as few:
        root.get(on(refs[T.TABLE]))
    for number in range(20):
        give("assignee", ObjectRef(T.ROLE, readers["inner"].pk), user(f"p{number}"))
        give("describe", refs[T.TABLE], user(f"q{number}"))
    root.get(on(refs[T.TABLE]))
    with counting() as many:
        assert len(reported(root.get(on(refs[T.TABLE])))) == 45
    assert few == many


# --- a principal -----------------------------------------------------------------------------------------------------


def locations(response: Response) -> list[tuple[str, str]]:
    assert response.status == 200, response.body
    return [(each["grant"]["privilege"], each["grant"]["on"]["type"]) for each in response.json()["places"]]


def test_where_a_principal_holds_rights(refs: Refs, readers: dict[str, Role], manage: Manage) -> None:
    give("operator", refs[T.SERVER], user("bob"))
    give("create", refs[T.WAREHOUSE], user("bob"))
    response = manage("root").get(f"/access-review?{BOB}")
    assert sorted(locations(response)) == [
        ("assignee", "role"), ("assignee", "role"), ("create", "warehouse"), ("operator", "server"),
        ("select", "namespace"),
    ]  # fmt: skip
    by_privilege = {each["grant"]["privilege"]: each for each in response.json()["places"]}
    create = by_privilege["create"]
    assert create["privileges"] == ["describe", "create"]
    assert {each["type"]: each["privileges"] for each in create["below"]} == {
        "namespace": ["describe", "create"], "table": ["describe"], "view": ["describe"],
        "generic-table": ["describe"],
    }  # fmt: skip
    assert [each["name"] for each in by_privilege["select"]["grant"]["via"]] == ["inner", "outer"]
    assert "read_data" not in by_privilege["select"]["actions"]  # it is a namespace
    assert "modify" in {each["type"]: each["privileges"] for each in by_privilege["operator"]["below"]}["table"]
    of_role = manage("root").get(f"/access-review?principalRole={readers['inner'].pk}")
    assert sorted(locations(of_role)) == [("assignee", "role"), ("select", "namespace")]


def test_required_permission_for_a_principal(refs: Refs, readers: dict[str, Role], manage: Manage) -> None:
    assert locations(manage("ann").get(f"/access-review?{ANN}")) == [("modify", "table")]
    assert manage("ann").get(f"/access-review?{BOB}").refused(403, "GrantActionForbidden")
    assert manage("stranger").get(f"/access-review?{ANN}").refused(403, "GrantActionForbidden")
    assert manage("root").get("/access-review?principalUser=oidc~unknown").refused(404, "UserNotFound")
    assert manage("root").get(f"/access-review?principalRole={NO_ONE}").refused(404, "RoleIdNotFound")
    warehouse = refs[T.WAREHOUSE][1]
    assert manage("ann").get(reached(warehouse, BOB)).refused(403, "GrantActionForbidden")
    assert manage("stranger").get(reached(warehouse, ANN)).refused(404, "NoSuchWarehouseException")
    assert manage("ann").get(reached(NO_ONE, ANN)).refused(404, "NoSuchWarehouseException")


def test_what_the_caller_may_not_see_is_left_out(refs: Refs, readers: dict[str, Role], manage: Manage) -> None:
    """Administrators of the server read grants, but see no objects in warehouses."""
    give("admin", refs[T.SERVER], user("adam"))
    assert locations(manage("adam").get(f"/access-review?{ANN}")) == []
    assert sorted(locations(manage("adam").get(f"/access-review?{BOB}"))) == [
        ("assignee", "role"),
        ("assignee", "role"),
    ]
    assert manage("adam").get(reached(refs[T.WAREHOUSE][1], ANN)).refused(404, "NoSuchWarehouseException")
    give("describe", refs[T.VIEW], user("adam"))
    response = manage("adam").get(reached(refs[T.WAREHOUSE][1], ANN))
    assert [each["object"]["type"] for each in response.json()["objects"]] == ["warehouse", "namespace"]
    assert path_of(refs[T.TABLE]).rpartition("/")[2].encode() not in response.body
    give("manage_grants", refs[T.TABLE], user("gus"))  # which does not include seeing it
    give("describe", refs[T.VIEW], user("gus"))
    assert locations(manage("gus").get("/access-review?principalUser=oidc~gus")) == [("describe", "view")]


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_the_objects_that_are_reached(refs: Refs, readers: dict[str, Role], manage: Manage, size: int) -> None:
    found, token = [], ""
    while True:
        response = manage("root").get(reached(refs[T.WAREHOUSE][1], f"{BOB}&pageSize={size}&pageToken={token}"))
        assert response.status == 200, response.body
        found += response.json()["objects"]
        assert len(response.json()["objects"]) <= size
        token = response.json().get("next-page-token")
        if token is None:
            break
    names = [".".join(each["object"]["name"][1:]) for each in found]
    assert names[:2] == ["", "open"]
    assert sorted(names[2:]) == ["open.a", "open.b", "open.g", "open.v"]
    assert [each["shown-from-below"] for each in found] == [True, False, False, False, False, False]
    assert all(each["grants"][0]["on"]["name"][1:] == ["open"] for each in found[1:])


def test_more_namespaces_than_are_walked_at_once(refs: Refs, manage: Manage) -> None:
    wanted = {str(refs[T.WAREHOUSE][1])}

    for number in range(120):
        own_id = new_id()
        Namespace.objects.create(pk=own_id, warehouse_id=refs[T.WAREHOUSE][1], path=f"n{number}", path_key=f"n{number}")
        add_securable(T.NAMESPACE, own_id, parent=refs[T.WAREHOUSE])
        give("select", ObjectRef(T.NAMESPACE, own_id), user("ann"))
        wanted.add(str(own_id))
    found, pages = list[str](), 0
    token: str | None = ""
    while token is not None:
        response = manage("root").get(reached(refs[T.WAREHOUSE][1], f"{ANN}&pageSize=100&pageToken={token}"))
        found += [each["object"]["id"] for each in response.json()["objects"]]
        token, pages = response.json().get("next-page-token"), pages + 1
    assert len(found) == len(wanted)
    assert set(found) == wanted
    assert pages == 3
    whole = manage("root").get(reached(refs[T.WAREHOUSE][1], f"{ANN}&format=csv"))
    assert len(whole.body.splitlines()) == 1 + len(wanted)


# --- who asks, and how -----------------------------------------------------------------------------------------------


def test_reviews_are_audited(refs: Refs, manage: Manage) -> None:
    root, table = manage("root"), refs[T.TABLE]
    assert root.get(on(table)).status == 200
    assert root.get(f"/access-review?{ANN}&format=csv").status == 200
    assert root.get(reached(refs[T.WAREHOUSE][1], ANN)).status == 200
    one, two, three = AuditRecord.objects.filter(event="access.reviewed").order_by("at", "id")
    assert (one.actor, one.action, one.object_type, one.object_id) == (
        "oidc~root",
        "read_grants",
        "table",
        str(table[1]),
    )
    assert json.loads(one.details) == {"export": False}
    assert (two.object_type, json.loads(two.details)) == ("project", {"principal": "oidc~ann", "export": True})
    assert json.loads(three.details)["warehouse"] == str(refs[T.WAREHOUSE][1])
    manage("stranger").get(on(table))
    assert AuditRecord.objects.filter(event="access.reviewed").count() == 3


def test_hostile_questions(refs: Refs, manage: Manage) -> None:
    root, warehouse = manage("root"), refs[T.WAREHOUSE][1]
    before = Grant.objects.count(), Securable.objects.count()
    for kind, error in MISSING.items():
        head = path_of(refs[kind]).rpartition("/")[0]
        for text in [*HOSTILE, NO_ONE]:
            assert root.get(f"{head}/{text}/access-review").refused(404, error), (kind, text)
        assert root.get(f"{head}/%00/access-review").refused(400, "BadRequestException")
    for query in ("x=1", "pageSize=0", "pageSize=-1", "format=xml", "format=csv&format=csv", "format=csv&pageSize=1"):
        assert root.get(f"{on(refs[T.TABLE])}?{query}").refused(400, "BadRequestException"), query
        assert root.get(reached(warehouse, f"{ANN}&{query}")).refused(400, "BadRequestException"), query
        assert root.get(f"/access-review?{ANN}&{query}").refused(400, "BadRequestException"), query
    foreign = write_page_token("access-review 00", "user:")
    for token in ("x", foreign, write_page_token("users", "a")):
        for location in (f"{on(refs[T.TABLE])}?", f"/access-review?{ANN}&", reached(warehouse, f"{ANN}&")):
            assert root.get(f"{location}pageToken={token}").refused(400, "InvalidPaginationToken"), (location, token)
    for key in (
        "zzz",
        "user:\u202e",
        "role:",
        "warehouse:/",
        "/" * 300,
        "~" * 300,
    ):  # page tokens of the list of tables
        of_table = write_page_token(listing_key("access-review", securable_id(*refs[T.TABLE])), key)
        assert root.get(f"{on(refs[T.TABLE])}?pageToken={of_table}").status == 200
        ann = Grantee(user_id="oidc~ann")
        of_reach = write_page_token(listing_key("reached-objects", securable_id(*refs[T.WAREHOUSE]), ann), key)
        assert root.get(reached(warehouse, f"{ANN}&pageToken={of_reach}")).status == 200
    assert root.get("/access-review").refused(400, "MissingGrantPrincipal")
    assert root.get(f"/access-review?{ANN}&principalRole={NO_ONE}").refused(400, "AmbiguousGrantPrincipal")
    assert root.get("/access-review?principalUser=%00").status == 400
    assert root.post(on(refs[T.TABLE]), {}).status == 405
    assert (Grant.objects.count(), Securable.objects.count()) == before


def test_the_authorizer_is_reported(refs: Refs, manage: Manage, monkeypatch: pytest.MonkeyPatch) -> None:
    give("select", refs[T.TABLE], user("ann"))
    with monkeypatch.context() as patched:
        patched.setattr("tenancy.authz.port.authorizer", port.AllowAll)
        patched.setattr("management.api.access_reviews.serializers.authorizer", port.AllowAll)
        response = manage("stranger").get(on(refs[T.TABLE]))
        assert response.json()["decided-by"] == "allowall"
        assert list(reported(response)) == ["oidc~ann", "oidc~root"]


def test_dropped_objects_are_marked(refs: Refs, manage: Manage) -> None:

    give("select", refs[T.TABLE], user("ann"))
    Tabular.objects.filter(pk=refs[T.TABLE][1]).update(deleted_at=datetime.now(UTC))
    (location,) = manage("root").get(f"/access-review?{ANN}").json()["places"]
    assert location["grant"]["on"]["dropped"] is True
    assert securable_id(*refs[T.TABLE]).partition(":")[0] == location["grant"]["on"]["type"]
