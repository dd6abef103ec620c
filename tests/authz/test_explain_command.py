"""`manage.py explain`: its output for an administrator."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import orjson
import pytest
from django.core.management import CommandError, call_command

from catalog.models import Namespace, Tabular
from icekeeper.kernel.clock import now
from icekeeper.kernel.names import name_key
from tenancy.actor import INTERNAL
from tenancy.authz import port
from tenancy.authz.port import AuthorizationBackendError
from tenancy.models import Securable, User
from tenancy.models.securable import ObjectRef
from tenancy.services.users import block_user
from tests.authz.parity.pair_fixtures import another_user, grant, member
from tests.authz.permission_fixtures import NO_ONE, Everything, Things, new_role, other_project
from tests.management.warehouse_request_fixtures import use_settings

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

T = Securable.Type


@pytest.fixture
def location(things: Things) -> tuple[str, ...]:
    """The arguments that name the table."""
    another_user("oidc~ada")
    return ("table", things.warehouse.name, "closed", "deep", "a")


def run(*words: str, **options: Any) -> tuple[list[str], list[str]]:
    """Return the lines of both outputs."""
    out, err = StringIO(), StringIO()
    call_command("explain", *words, **options, stdout=out, stderr=err)
    return out.getvalue().splitlines(), err.getvalue().splitlines()


def refused(*words: str, **options: Any) -> str:
    with pytest.raises(CommandError) as error:
        run(*words, **options)
    return str(error.value)


def test_why_a_user_is_allowed(things: Things, location: tuple[str, ...]) -> None:
    inner, outer = new_role("Analysts"), new_role("Readers")
    member(inner.pk, user_id="oidc~ada", expires_at=datetime(2101, 2, 3, 4, 5, tzinfo=UTC))
    member(outer.pk, role=inner.pk)
    grant(things.refs[T.WAREHOUSE], "select", role_id=outer.pk, expires_at=datetime(2101, 2, 4, tzinfo=UTC))
    shown, noted = run("oidc~ada", "read_data", *location)
    assert shown == [
        "oidc~ada may read_data on table closed.deep.a.",
        "  oidc~ada is in role Analysts until 2101-02-03 04:05 UTC",
        "  role Analysts is in role Readers",
        f"  role Readers has select on warehouse {things.warehouse.name} until 2101-02-04 00:00 UTC",
        "  so select on namespace closed",
        "  so select on namespace closed.deep",
        "  so select on table closed.deep.a",
        "  so may read_data on table closed.deep.a",
    ]
    assert noted == []
    for who in ("readers", str(outer.pk)):
        shown, _ = run(who, "read_data", *location)
        assert shown[:2] == [
            "role Readers may read_data on table closed.deep.a.",
            f"  role Readers has select on warehouse {things.warehouse.name} until 2101-02-04 00:00 UTC",
        ]


def test_what_would_allow_another_user(things: Things, location: tuple[str, ...]) -> None:
    shown, noted = run("oidc~ada", "read_data", *location)
    assert shown[:4] == [
        "oidc~ada may not read_data on table closed.deep.a.",
        "One of these grants would allow it:",
        "  select on table closed.deep.a",
        "  modify on table closed.deep.a",
    ]
    assert shown[-1] == "  operator on the server"
    assert noted == ["Roles that only a token of oidc~ada names are not known here."]
    assert (
        run(another_user("local~ada"), "read_data", *location)[1] == []
    )  # tokens issued by the catalog, which name no role
    grant(things.refs[T.TABLE], "select", user_id="oidc~ada", expires_at=now() - timedelta(seconds=1))
    assert run("oidc~ada", "read_data", *location)[0] == shown


def test_owners_of_roles_and_two_grants_that_are_needed_together(things: Things) -> None:
    another_user("oidc~ada")
    group = new_role("Movers")
    grant(ObjectRef(T.ROLE, group.pk), "ownership", user_id="oidc~ada")
    grant(things.refs[T.NAMESPACE], "manage_grants", role_id=group.pk)
    grant(things.refs[T.NAMESPACE], "modify", user_id="oidc~ada")
    shown, _ = run("oidc~ada", "move", "namespace", things.warehouse.name, "closed", "deep")
    assert shown == [
        "oidc~ada may move on namespace closed.deep.",
        "  oidc~ada owns role Movers",
        "  role Movers has manage_grants on namespace closed.deep",
        "  oidc~ada has modify on namespace closed.deep",
        "  so may move on namespace closed.deep",
    ]


def test_each_type_by_name_and_by_id(things: Things) -> None:
    another_user("oidc~ada")
    lake = things.warehouse
    ways: dict[T, list[tuple[str, ...]]] = {
        T.SERVER: [()],
        T.PROJECT: [(), ("default project",), (str(things.refs[T.PROJECT][1]),)],
        T.WAREHOUSE: [(lake.name.upper(),), (str(lake.pk),)],
        T.NAMESPACE: [(lake.name, "CLOSED", "deep"), (str(lake.pk), things.public_id(T.NAMESPACE))],
        **{
            kind: [(lake.name, "closed", "deep", name), (lake.name, things.public_id(kind))]
            for kind, name in ((T.TABLE, "a"), (T.VIEW, "v"), (T.GENERIC_TABLE, "g"))
        },
        T.ROLE: [("TEAM",), (things.public_id(T.ROLE),)],
        T.TAG: [("PII",), (things.public_id(T.TAG),)],
    }
    for kind, privilege, action in (
        (T.SERVER, "admin", "create_project"), (T.PROJECT, "create", "create_warehouse"),
        (T.WAREHOUSE, "modify", "modify_storage"), (T.NAMESPACE, "create", "create_table"),
        (T.TABLE, "modify", "undrop"), (T.VIEW, "select", "select"), (T.GENERIC_TABLE, "modify", "write_data"),
        (T.ROLE, "ownership", "assume"), (T.TAG, "apply", "remove"),
    ):  # fmt: skip
        grant(things.refs[kind], privilege, user_id="oidc~ada")
        for words in ways[kind]:
            shown, _ = run("oidc~ada", action, kind.value, *words)
            assert shown[0].startswith(f"oidc~ada may {action} on "), (kind, words, shown)
    Tabular.objects.filter(pk=things.refs[T.TABLE][1]).update(deleted_at=now())
    assert run("oidc~ada", "undrop", "table", lake.name, things.public_id(T.TABLE))[0][0].startswith("oidc~ada may u")


def test_members_of_a_role(things: Things) -> None:
    another_user("oidc~ada")
    inner = new_role("Inner")
    member(inner.pk, user_id="oidc~ada")
    member(things.role.pk, role=inner.pk, expires_at=datetime(2101, 2, 3, tzinfo=UTC))
    assert run("oidc~ada", "assume", "role", "team")[0] == [
        "oidc~ada may assume on role team.",
        "  oidc~ada is in role Inner",
        "  role Inner is in role team until 2101-02-03 00:00 UTC",
        "  so may assume on role team",
    ]
    assert run("team", "assume", "role", "team")[0] == [
        "role team may assume on role team.",
        "  so may assume on role team",
    ]
    assert run("oidc~ada", "assume", "role", "Inner")[0][1:] == [
        "  oidc~ada is in role Inner",
        "  so may assume on role Inner",
    ]
    grant(things.refs[T.ROLE], "ownership", role_id=inner.pk)
    assert run("oidc~ada", "update", "role", "team")[0] == [
        "oidc~ada may update on role team.",
        "  oidc~ada is in role Inner",
        "  role Inner has ownership on role team",
        "  so may update on role team",
    ]
    assert run("team", "assume", "role", "Inner")[0] == [
        "role team may not assume on role Inner.",
        "One of these grants would allow it:",
        "  assignee on role Inner",
        "  ownership on role Inner",
    ]


def test_permissions_of_every_user_on_a_role_and_of_few_on_a_tag(things: Things) -> None:
    another_user("oidc~ada")
    assert run("oidc~ada", "read_metadata", "role", "team") == (
        ["oidc~ada may read_metadata on role team, independent of grants (allowed for every user). By grants: no."],
        [],
    )
    shown, _ = run("oidc~ada", "apply", "tag", "pii")
    assert shown[0] == "oidc~ada may not apply on tag pii."
    assert shown[2:] == [
        "  apply on tag pii", "  ownership on tag pii", "  security_admin on project Default Project",
        "  project_admin on project Default Project", "  operator on the server",
    ]  # fmt: skip


def test_a_namespace_that_is_called_like_an_id(things: Things) -> None:
    another_user("oidc~ada")
    Namespace.objects.filter(pk=things.refs[T.NAMESPACE][1]).update(path=NO_ONE, path_key=name_key(NO_ONE))
    shown, _ = run("oidc~ada", "delete", "namespace", things.warehouse.name, NO_ONE)
    assert shown[0] == f"oidc~ada may not delete on namespace {NO_ONE}."


def test_as_json_it_equals_the_response_of_the_route(things: Things, location: tuple[str, ...]) -> None:
    grant(things.refs[T.TABLE], "select", user_id="oidc~ada")
    for word in ("read_data", "drop"):
        (line,), noted = run("oidc~ada", word, *location, json=True)
        assert noted == []
        named = {"warehouse-id": str(things.warehouse.pk), "namespace": ["closed", "deep"], "table": "a"}
        body = {"identity": {"user": "oidc~ada"}, "operation": {"table": {"action": word, **named}}}
        response = things.manager(T.TABLE).post("/explain", body)
        assert orjson.loads(line) == {"backend": "builtin", **response.json()}


def test_where_no_user_is_denied_the_grants_are_shown_too(
    things: Things, location: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_settings(monkeypatch, authz_backend="allowall")
    port.authorizer.cache_clear()
    shown, _ = run("oidc~ada", "read_data", *location)
    assert shown[0] == (
        "oidc~ada may read_data on table closed.deep.a, independent of grants (authorization is off). By grants: no."
    )
    assert shown[2] == "  select on table closed.deep.a"


def test_an_instance_admin_who_acts_as_themselves(
    things: Things, location: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_settings(monkeypatch, instance_admins=["oidc~ada", "oidc~inst"])
    for who in ("oidc~ada", "oidc~inst"):  # a user who has not called yet
        assert run(who, "drop", *location)[0][0] == (
            f"{who} may drop on table closed.deep.a, independent of grants (instance-admin). By grants: no."
        )
        assert run(who, "read_data", *location)[0][0] == f"{who} may not read_data on table closed.deep.a."
    assert not User.objects.filter(pk="oidc~inst").exists()


def test_a_blocked_user(things: Things, location: tuple[str, ...]) -> None:
    grant(things.refs[T.TABLE], "select", user_id="oidc~ada")
    block_user(actor=INTERNAL, user_id="oidc~ada")
    shown, noted = run("oidc~ada", "read_data", *location)
    assert shown == [
        "oidc~ada may not read_data on table closed.deep.a, independent of grants (blocked). By grants: yes.",
        "  oidc~ada has select on table closed.deep.a",
        "  so may read_data on table closed.deep.a",
    ]
    assert noted == ["`manage.py unblock_user oidc~ada` unblocks the user."]
    manager, identity = things.manager(T.TABLE), {"user": "oidc~ada"}
    location_by_id = {"warehouse-id": str(things.warehouse.pk), "table-id": things.public_id(T.TABLE)}
    body = {"identity": identity, "operation": {"table": {"action": "read_data", **location_by_id}}}
    reported = manager.post("/explain", body).json()
    assert (reported["allowed"], reported["by-grants"], reported["standing"]) == (False, True, "blocked")


def test_a_backend_that_says_otherwise_or_nothing(
    things: Things, location: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    grant(things.refs[T.TABLE], "select", user_id="oidc~ada")
    chosen = type(port.authorizer())
    monkeypatch.setattr(chosen, "decide", lambda _, actor, questions: [False] * len(questions))
    shown, _ = run("oidc~ada", "read_data", *location)
    assert shown == [
        "oidc~ada may not read_data on table closed.deep.a, as builtin decides. By the grants in the database: yes.",
        "  oidc~ada has select on table closed.deep.a",
        "  so may read_data on table closed.deep.a",
    ]

    def away(*_: object) -> list[bool]:
        raise AuthorizationBackendError("away")

    monkeypatch.setattr(chosen, "decide", away)
    assert run("oidc~ada", "read_data", *location)[0][0] == (
        "builtin is unavailable, so every request is denied. "
        "By the grants in the database, oidc~ada may read_data on table closed.deep.a: yes."
    )
    (line,), _ = run("oidc~ada", "read_data", *location, json=True)
    assert orjson.loads(line)["allowed"] is None


def test_roles_and_warehouses_are_looked_up_in_the_project(things: Things, location: tuple[str, ...]) -> None:
    project = other_project()
    new_role("elsewhere", project)
    assert refused("elsewhere", "read_data", *location) == (
        f"Role does not exist in project {things.refs[T.PROJECT][1]}: elsewhere. Use `--project-id` for another project"
    )
    for named in ("other", "OTHER"):
        for kind, word, name in (
            (T.WAREHOUSE, "use", things.warehouse.name), (T.ROLE, "assume", "team"), (T.TAG, "apply", "pii"),
        ):  # fmt: skip
            assert refused("oidc~ada", word, kind.value, name, project_id=named) == (
                f"{kind.value.title()} does not exist in project other: {name}. Use `--project-id` for another project"
            )
        shown, _ = run("elsewhere", "create_warehouse", "project", project_id=named)
        assert shown[0] == "role elsewhere may not create_warehouse on project Other."


def test_a_role_is_never_taken_for_a_user(things: Things, location: tuple[str, ...]) -> None:
    false_ada = new_role("oidc~ada")
    grant(things.refs[T.TABLE], "select", role_id=false_ada.pk)
    assert run("oidc~ada", "read_data", *location)[0][0].startswith("oidc~ada may not read_data")
    assert run(str(false_ada.pk), "read_data", *location)[0][0].startswith("role oidc~ada may read_data")


def test_missing_objects_and_invalid_arguments(
    things: Things, location: tuple[str, ...], everything: Everything
) -> None:
    lake = things.warehouse.name
    before = everything()
    for words, text in (
        (("oidc~unknown", "read_data", *location), "User does not exist: oidc~unknown"),
        (("unknown", "read_data", *location), "unknown"),
        ((NO_ONE, "read_data", *location), f"Role does not exist: {NO_ONE}"),
        (("oidc~", "read_data", *location), "must have a subject"),
        (("a b~c", "read_data", *location), "user id"),
        (("oidc~ada", "select", *location), "is not an action on a table. Valid actions: change_ownership, "),
        (("oidc~ada", "read_data", "table", "none", "closed", "a"), ": none. Use `--project-id`"),
        (("oidc~ada", "read_data", "table", lake, "closed", "none"), "Table does not exist: closed.none"),
        (("oidc~ada", "read_data", "table", lake, "closed.deep", "a"), "as an argument: a b, not a.b"),
        (("oidc~ada", "read_data", "table", lake, "a"), "table takes WAREHOUSE LEVEL"),
        (("oidc~ada", "read_data", "table", lake, NO_ONE), f"Table does not exist: {NO_ONE}"),
        (("oidc~ada", "read_data", "table", lake), "table takes WAREHOUSE LEVEL"),
        (("oidc~ada", "select", "view", lake, things.public_id(T.TABLE)), "View does not exist"),
        (("oidc~ada", "use", "warehouse", lake, "closed"), "warehouse takes WAREHOUSE"),
        (("oidc~ada", "create_project", "server", lake), "server takes nothing more"),
        (("oidc~ada", "delete", "namespace", lake), "namespace takes WAREHOUSE LEVEL"),
        (("oidc~ada", "delete", "project", "none"), "Project does not exist: none"),
        (("oidc~ada", "read", "user", "oidc~ada"), "invalid choice"),
        (("oidc~ada", "assume", "role", "x"), "Role does not exist in project"),
        (("oidc~ada", "assume", "role", NO_ONE), f"Role does not exist: {NO_ONE}"),
        (("oidc~ada", "assume", "role", things.public_id(T.TAG)), "Role does not exist: "),
        (("oidc~ada", "assume", "role"), "role takes ROLE"),
        (("oidc~ada", "assume", "role", "team", "team"), "role takes ROLE"),
        (("oidc~ada", "assume", "role", ""), "A name must not be empty"),
        (("oidc~ada", "apply", "role", "team"), "is not an action on a role. Valid actions: assume, "),
        (("oidc~ada", "apply", "tag", "x"), "Tag does not exist in project"),
        (("oidc~ada", "apply", "tag", NO_ONE), f"Tag definition does not exist: {NO_ONE}"),
        (("oidc~ada", "apply", "tag"), "tag takes TAG"),
        (("oidc~ada", "apply", "tag", "\udcff"), "not valid UTF-8"),
        (("oidc~ada", "assume", "tag", "pii"), "is not an action on a tag. Valid actions: apply, "),
        (("oidc~ada", "read_data", "table", lake, "closed", "' OR 1=1 --"), "Table does not exist"),
        (("oidc~ada", "read_data", "table", lake, "closed", "a\x00"), "A name must not"),
        (("oidc~ada", "read_data", "table", lake, "closed", ""), "A name must not be empty"),
        (("oidc~ada", "read_data", "table", lake, "closed", "\udcff"), "not valid UTF-8"),
        (("\udcff", "read_data", *location), "not valid UTF-8"),
        (("oidc~ada", "read_data", "table", lake, "closed", "a" * 5000), "Table does not exist"),
        (("oidc~ada", "use", "warehouse", "\u0430"), "Warehouse does not exist"),
        (("oidc~ada", "read_data", "table", NO_ONE, things.public_id(T.TABLE)), f"Warehouse does not exist: {NO_ONE}"),
    ):
        assert text in refused(*words), words
    assert "Project does not exist" in refused("oidc~ada", "read_data", *location, project_id="no such")
    assert everything() == before
