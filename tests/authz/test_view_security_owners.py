"""Permissions to set the owner of a view, and the views through which an engine reads with the owner's permissions."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.core.management import CommandError, call_command

from catalog.models import Tabular
from catalog.services.tables.bulk_register import ImportEntry, check_entry, register_entry
from icekeeper.kernel.ids import new_id
from tenancy.actor import INTERNAL
from tests.authz.conftest import good
from tests.authz.view_owner_fixtures import OTHER_OWNER, OWNER, VIEW, Lake, engine, trust
from tests.harness.fingerprint import Fingerprint
from tests.harness.named_callers import CallerClient
from tests.harness.wsgi_client import Response

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

Everything = Callable[[], Fingerprint]
D, VIEWS = "/namespaces/open/views/d", "/namespaces/open/views"
SPELLINGS = (OWNER, OWNER.upper(), "Trino.Run-As-Owner", OWNER.replace("s", "\u017f"))


def settings(**properties: str) -> dict[str, Any]:
    return {"action": "set-properties", "updates": properties}


def removal(*names: str) -> dict[str, Any]:
    return {"action": "remove-properties", "removals": list(names)}


def query(sql: str) -> list[dict[str, Any]]:
    """Return an update that replaces the query of a view."""
    said = VIEW["view-version"] | {
        "version-id": 9, "representations": [{"type": "sql", "sql": sql, "dialect": "trino"}],
    }  # fmt: skip
    return [
        {"action": "add-view-version", "view-version": said},
        {"action": "set-current-view-version", "view-version-id": -1},
    ]


def commit(caller: CallerClient, *updates: Any, view: str = D) -> Response:
    return caller.post(view, {"requirements": [], "updates": list(updates)})


def is_protected(response: Response) -> bool:
    return response.refused(403, "ProtectedPropertyModification", "only the engine")


@pytest.fixture
def root_client(world: Lake, client: Callable[[str], CallerClient]) -> CallerClient:
    """A user with every permission, who is no engine."""
    return client("root")


@pytest.mark.parametrize("name", SPELLINGS)
def test_no_other_user_creates_a_view_with_an_owner(
    root_client: CallerClient, everything: Everything, name: str, client: Callable[[str], CallerClient]
) -> None:
    before = everything()
    for caller in (root_client, client("stranger")):  # before permissions are checked
        for more in ({}, {"schema": None}, {"name": "v"}, {"name": 7}):
            body = {"name": "new", **VIEW, "properties": {"a": "b", name: "alice"}, **more}
            assert is_protected(caller.post(VIEWS, body))
            assert is_protected(caller.post("/namespaces/nowhere/views", body))
    assert everything() == before


@pytest.mark.parametrize("name", SPELLINGS)
def test_no_other_user_changes_the_owner_of_a_view(
    world: Lake,
    root_client: CallerClient,
    everything: Everything,
    name: str,
    client: Callable[[str], CallerClient],
) -> None:
    world.view("d", "alice")
    before = everything()
    tries: list[list[Any]] = [
        [settings(**{name: "root"})],
        [settings(**{name: "alice"})],
        [settings(a="b", **{name: "root"})],
        [{"action": "set-properties", "updated": {name: "root"}}],
        [{"action": "set-properties", "updates": {}, "updated": {name: "root"}}],
        [{"action": "remove-properties", "removed": [name]}],
        [removal("a", name)],
        [removal(name), settings(**{name: "alice"})],
        [7, None, [], settings(**{name: "root"})],
        [*query("SELECT 2"), removal(name)],
    ]
    for caller in (root_client, client("stranger")):
        for updates in tries:
            assert is_protected(commit(caller, *updates))
            assert is_protected(commit(caller, *updates, view="/namespaces/nowhere/views/d"))
    assert everything() == before


def test_no_other_user_gives_a_view_an_owner(world: Lake, root_client: CallerClient, everything: Everything) -> None:
    before = everything()
    for name in SPELLINGS:
        assert is_protected(commit(root_client, settings(**{name: "root"}), view="/namespaces/open/views/v"))
    assert everything() == before


@pytest.mark.parametrize(
    "updates",
    [
        query("SELECT * FROM closed.a"),
        query("SELECT * FROM closed.a")[:1],
        [{"action": "set-current-view-version", "view-version-id": 1}],
        [{"action": "add-schema", "schema": VIEW["schema"] | {"schema-id": 1, "fields": VIEW["schema"]["fields"][:1]}}],
        [settings(**{"version.history.num-entries": "1"})],
        [settings(a="b"), *query("SELECT 2")],
    ],
)
def test_no_other_user_changes_what_a_view_with_an_owner_does(
    world: Lake, root_client: CallerClient, everything: Everything, updates: list[Any]
) -> None:
    """A committer to the view would read with the permissions of its owner."""
    world.view("d", "alice")
    trino = world.engine()
    world.give("modify", "open", "trino")
    good(commit(trino, *query("SELECT 3")))
    world.give("ownership", "open", "alice")
    before = everything()
    for caller in (
        root_client,
        world.engine("alice", audiences=()),
    ):  # and not even the owner, except through the engine
        refused = commit(caller, *updates)
        assert refused.refused(403, "DefinerViewModification", f"its owner ({OWNER})"), refused.body
    assert everything() == before
    good(commit(trino, *updates))


def test_users_who_cannot_commit_learn_nothing_of_owners(world: Lake, client: Callable[[str], CallerClient]) -> None:
    view = world.view("d", "alice")
    no_one = client("stranger")
    refused = commit(no_one, *query("SELECT 2"))
    assert refused.refused(404, "NoSuchWarehouseException")
    world.give("select", view, "stranger")
    assert commit(no_one, *query("SELECT 2")).refused(403, "ViewActionForbidden")


def test_the_rest_of_a_view_with_an_owner_is_changed_with_permission(world: Lake, root_client: CallerClient) -> None:
    world.view("d", "alice")
    said = good(commit(root_client, settings(comment="read me"), removal("nothing"))).json()["metadata"]
    assert said["properties"] == {"comment": "read me", OWNER: "alice"}
    good(commit(root_client))
    rename = {"source": {"namespace": ["open"], "name": "d"}, "destination": {"namespace": ["closed"], "name": "e"}}
    good(root_client.post("/views/rename", rename))
    good(root_client.delete("/namespaces/closed/views/e"))


def test_a_view_without_owner_is_changed_with_permission(world: Lake, root_client: CallerClient) -> None:
    world.view("d")
    good(commit(root_client, *query("SELECT 2"), settings(**{"run-as-owner": "x"})))


def test_no_view_takes_the_name_of_one_with_an_owner(
    world: Lake, root_client: CallerClient, everything: Everything
) -> None:
    world.view("d", "alice")
    before = everything()
    rename = {"source": {"namespace": ["open"], "name": "v"}, "destination": {"namespace": ["open"], "name": "d"}}
    assert root_client.post("/views/rename", rename).refused(409, "AlreadyExistsException")
    assert root_client.post(VIEWS, {"name": "d", **VIEW}).refused(409, "AlreadyExistsException")
    assert everything() == before


def test_the_engine_does_all_of_it_where_it_has_the_right(world: Lake, everything: Everything) -> None:
    trino = world.engine()
    body = {"name": "d", **VIEW, "properties": {OWNER: "alice"}}
    world.give("describe", "open", "trino")
    before = everything()
    assert trino.post(VIEWS, body).refused(403, "NamespaceActionForbidden")
    assert everything() == before
    world.give("create", "open", "trino")
    created = good(trino.post(VIEWS, body)).json()["metadata"]
    assert created["properties"] == {OWNER: "alice"}
    changed = good(commit(trino, *query("SELECT 2"), settings(**{OWNER: "bob"}))).json()["metadata"]
    assert changed["properties"] == {OWNER: "bob"}
    assert good(commit(trino, removal(OWNER))).json()["metadata"]["properties"] == {}
    good(commit(trino, settings(**{OWNER: "alice"})))


@pytest.mark.parametrize("name", SPELLINGS[1:])
def test_the_engine_too_spells_its_property_exactly(world: Lake, everything: Everything, name: str) -> None:
    trino = world.engine()
    world.give("ownership", "open", "trino")
    world.view("d")
    before = everything()
    assert is_protected(trino.post(VIEWS, {"name": "e", **VIEW, "properties": {name: "alice"}}))
    assert is_protected(commit(trino, settings(**{name: "alice"})))
    assert is_protected(commit(trino, settings(**{name: "alice", OWNER: "alice"})))
    assert everything() == before


def test_one_engine_cannot_act_for_another(
    world: Lake, everything: Everything, monkeypatch: pytest.MonkeyPatch
) -> None:
    trust(monkeypatch, trino=engine(), other=engine(owner_property=OTHER_OWNER, audiences=("other",)))
    world.view("d", "alice")
    world.view("both", "alice", **{OTHER_OWNER: "alice"})
    trino, other = world.engine(), world.engine("other", audiences=("other",))
    world.give("ownership", "open", "trino", "other")
    before = everything()
    for refused in (
        other.post(VIEWS, {"name": "e", **VIEW, "properties": {OWNER: "alice"}}),
        commit(other, settings(**{OWNER: "other"})),
        commit(other, removal(OWNER)),
    ):
        assert is_protected(refused)
    for caller, view in ((other, D), (other, f"{VIEWS}/both"), (trino, f"{VIEWS}/both")):
        assert commit(caller, *query("SELECT 2"), view=view).refused(403, "DefinerViewModification")
    assert everything() == before
    good(commit(other, settings(**{OTHER_OWNER: "bob"})))
    assert commit(trino, *query("SELECT 2")).refused(403, "DefinerViewModification"), "by now it is both of theirs"


def test_a_file_that_names_an_owner_is_registered_by_the_engine_alone(
    world: Lake, root_client: CallerClient, everything: Everything
) -> None:
    good(root_client.post(VIEWS, {"name": "d", **VIEW}))
    trino = world.engine()
    world.give("ownership", "open", "trino")
    owned = good(commit(trino, settings(**{OWNER: "alice"}))).json()
    location = owned["metadata-location"]
    good(root_client.delete(D))
    before = everything()
    register = "/namespaces/open/register-view"
    assert is_protected(root_client.post(register, {"name": "d", "metadata-location": location}))
    assert everything() == before
    again = good(trino.post(register, {"name": "d", "metadata-location": location})).json()
    assert again["metadata"] == owned["metadata"]


def test_other_spellings_in_a_file_are_refused_too(
    world: Lake, root_client: CallerClient, everything: Everything
) -> None:
    created = good(root_client.post(VIEWS, {"name": "d", **VIEW})).json()
    good(root_client.delete(D))
    file = Path(urlsplit(created["metadata-location"]).path)
    said = json.loads(file.read_text()) | {"properties": {OWNER.title(): "alice"}}
    file.write_text(json.dumps(said))
    body = {"name": "d", "metadata-location": created["metadata-location"]}
    world.give("ownership", "open", "trino")
    before = everything()
    for caller in (root_client, world.engine()):
        assert is_protected(caller.post("/namespaces/open/register-view", body))
        assert everything() == before


def test_operators_take_over_views_with_their_owners(world: Lake, root_client: CallerClient) -> None:
    """`manage.py register_tables` keeps the owners that the other catalog has set."""
    trino = world.engine()
    world.give("ownership", "open", "trino")
    good(trino.post(VIEWS, {"name": "d", **VIEW, "properties": {OWNER: "alice"}}))
    location = Tabular.objects.get(name="d").metadata_location
    good(root_client.delete(D))
    listed = ImportEntry(Tabular.Kind.VIEW, ("open",), "d", location)
    where = {"actor": INTERNAL, "warehouse_id": world.warehouse.pk, "entry": listed, "overwrite": False}
    assert check_entry(**where) == register_entry(**where) == "new"
    assert good(root_client.get(D)).json()["metadata"]["properties"] == {OWNER: "alice"}


def test_what_comes_back_has_its_owner(world: Lake, root_client: CallerClient, soft_delete: int) -> None:
    view = world.view("d", "alice")
    good(root_client.delete(D))
    manage = CallerClient(f"/management/v1/warehouse/{world.warehouse.pk}", "root")
    good(
        manage.post(
            "/deleted-tabulars/undrop", {"targets": [{"type": "view", "id": str(Tabular.objects.get(pk=view[1]).uuid)}]}
        )
    )
    assert good(root_client.get(D)).json()["metadata"]["properties"] == {OWNER: "alice"}
    assert commit(root_client, *query("SELECT 2")).refused(403, "DefinerViewModification")


def test_an_error_is_the_same_when_requested_again(world: Lake, root_client: CallerClient) -> None:
    world.view("d", "alice")
    key = {"idempotency-key": str(new_id())}
    for _ in range(2):
        refused = root_client.post(D, {"updates": query("SELECT 2")}, **key)
        assert refused.refused(403, "DefinerViewModification")


def test_where_no_engine_is_trusted_nothing_is_protected(
    world: Lake, root_client: CallerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    trust(monkeypatch)
    good(root_client.post(VIEWS, {"name": "d", **VIEW, "properties": {OWNER: "root"}}))
    good(commit(root_client, *query("SELECT 2"), settings(**{OWNER: "alice"})))
    trust(monkeypatch, trino=engine())
    assert commit(root_client, *query("SELECT 3")).refused(403, "DefinerViewModification"), "it has an owner now"


def test_tables_may_have_properties_of_that_name(world: Lake, root_client: CallerClient) -> None:
    good(commit(root_client, settings(**{OWNER: "root"}), view="/namespaces/open/tables/a"))


def test_operators_see_which_views_name_owners(
    world: Lake, root_client: CallerClient, soft_delete: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.give("describe", "open", "alice")
    world.view("d", "alice", levels=("closed", "deep"))
    world.view("e", "a\nb", **{OWNER.upper(): "ALICE"})
    world.view("f", "_lice")
    good(root_client.delete("/namespaces/open/views/f"))

    def listed(*options: str) -> list[list[Any]]:
        out = StringIO()
        call_command("list_view_owners", *options, stdout=out)
        return [list(json.loads(line).values()) for line in out.getvalue().splitlines()]

    expected = [
        ["wh", "closed.deep.d", OWNER, "alice", ["oidc~alice"], True, False],
        ["wh", "open.e", OWNER.upper(), "ALICE", [], False, False],
        ["wh", "open.e", OWNER, "a\nb", [], True, False],
        ["wh", "open.f", OWNER, "_lice", [], True, True],
    ]
    assert listed() == expected
    trust(monkeypatch)
    assert listed("--property", OWNER) == expected
    assert listed("--property", "comment") == []
    with pytest.raises(CommandError, match="No engine is trusted"):
        listed()
