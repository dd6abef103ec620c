"""Commands for OpenFGA: compare its tuples with the grants, and copy either to the other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from io import StringIO
from typing import Any

import orjson
import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from icekeeper.kernel.clock import now
from icekeeper.kernel.ids import new_id
from storage.models import Warehouse
from tenancy.authz.actions import Can
from tenancy.authz.model import FILE, VERSION, read_model
from tenancy.authz.openfga.authorization_model import authorization_model, unfolded, unfolded_model
from tenancy.authz.openfga.outbox import require_reconciliation
from tenancy.authz.openfga.store import StoreAndModel, install, openfga_store
from tenancy.authz.openfga.tuples import Condition, TupleKey, as_tuple, grant_key, member_key
from tenancy.authz.permissions import is_allowed
from tenancy.authz.port import AuthorizationBackendError, authorizer
from tenancy.models import AuditRecord, Grant, RoleMember, Securable, Server, UndeliveredTuple
from tenancy.models.securable import ObjectRef, securable_id
from tenancy.selectors.projects import get_project
from tenancy.services.startup_checks import require_chosen_backend
from tests.authz.conftest import user
from tests.authz.parity.pair_fixtures import another_user, grant, member
from tests.authz.tree_fixtures import create_tree, role
from tests.harness.audit_rows import rows
from tests.openfga_fixtures import all_tuples, choose_openfga, deliver_as_recorded
from tests.parts.openfga import OpenFga

pytestmark = [pytest.mark.django_db(transaction=True, serialized_rollback=True), pytest.mark.both_databases]

ALICE = user("alice")


@pytest.fixture
def tree(by_openfga: object, warehouse: Any) -> dict[str, ObjectRef]:
    """alice may read `outer` and had `view` until it expired; OpenFGA has not been informed."""
    with transaction.atomic():
        created = create_tree(warehouse)
        grant(created["outer"], "select", user_id=another_user(ALICE.user_id))
        grant(created["view"], "modify", user_id=ALICE.user_id, expires_at=now() + timedelta(days=1))
        group = role("group")
        member(group.pk, user_id=ALICE.user_id)
        grant(created["generic"], "select", role_id=group.pk)
    deliver_as_recorded(openfga_store())
    return {**created, "role": ObjectRef(Securable.Type.ROLE, group.pk)}


def run(command: str, *options: str) -> dict[str, Any]:
    out = StringIO()
    call_command(command, *options, "--json", stdout=out, stderr=StringIO())
    reported: dict[str, Any] = orjson.loads(out.getvalue())
    return reported


def disturb(tree: dict[str, ObjectRef]) -> tuple[TupleKey, list[TupleKey]]:
    """Remove one tuple, change the expiry of another, and add two without a grant: on an object, and on a deleted
    one.
    """
    table, view, outer = (securable_id(*tree[name]) for name in ("table", "view", "outer"))
    lacking = grant_key(outer, "select", user_id=ALICE.user_id, role_id=None)
    other_end = grant_key(view, "modify", user_id=ALICE.user_id, role_id=None)
    drifted = [
        grant_key(table, "modify", user_id="oidc~bob", role_id=None),
        grant_key("table:00000000-0000-0000-0000-000000000001", "select", user_id="oidc~bob", role_id=None),
    ]
    store = openfga_store()
    store.write({}, [lacking, other_end])
    store.write(dict.fromkeys([other_end, *drifted], Condition(None)), [])
    return lacking, drifted


def test_reconcile_says_what_differs_and_changes_nothing(tree: dict[str, ObjectRef]) -> None:
    assert run("openfga_reconcile", "--mode", "add-and-delete-drift", "--dry-run") == {
        "objects": 12, "missing": 0, "differing": 0, "drifted": 0, "foreign": 0, "dry-run": True,
    }  # fmt: skip
    disturb(tree)
    before = all_tuples(openfga_store())
    reported = run("openfga_reconcile", "--mode", "add-and-delete-drift", "--dry-run")
    assert (reported["missing"], reported["differing"], reported["drifted"]) == (1, 1, 2)
    assert all_tuples(openfga_store()) == before


def test_reconcile_adds_and_deletes(tree: dict[str, ObjectRef]) -> None:
    right = sorted(all_tuples(openfga_store()))
    lacking, drifted = disturb(tree)
    reported = run("openfga_reconcile")
    assert (reported["missing"], reported["differing"], reported["drifted"]) == (1, 1, 0)
    keys = {key for key, _ in all_tuples(openfga_store())}
    assert {lacking, *drifted} <= keys
    reported = run("openfga_reconcile", "--mode", "add-and-delete-drift")
    assert (reported["missing"], reported["differing"], reported["drifted"]) == (0, 0, 2)
    assert sorted(all_tuples(openfga_store())) == right
    assert not UndeliveredTuple.objects.exists()


def test_reconcile_can_begin_in_the_middle(tree: dict[str, ObjectRef]) -> None:
    ids = list(Securable.objects.order_by("pk").values_list("pk", flat=True))
    assert run("openfga_reconcile", "--after", ids[3])["objects"] == len(ids) - 4


def test_reconcile_reports_when_openfga_is_unreachable(tree: dict[str, ObjectRef], openfga: OpenFga) -> None:
    disturb(tree)
    with openfga.relay.refusing(), pytest.raises(CommandError, match="OpenFGA: NewConnectionError"):
        run("openfga_reconcile")
    assert not UndeliveredTuple.objects.exists()


def test_what_changed_while_another_decided_counts_only_as_both_say(tree: dict[str, ObjectRef]) -> None:
    """Revoked while the built-in evaluator decided: denied by OpenFGA from the first start on."""
    Server.objects.update(authz_backend="builtin")
    Grant.objects.filter(securable_id=securable_id(*tree["outer"])).delete()
    assert is_allowed(ALICE, Can.READ_DATA, *tree["table"])  # the tuples of OpenFGA
    require_chosen_backend_with_authentication()
    assert not is_allowed(ALICE, Can.READ_DATA, *tree["table"])
    assert Server.objects.get().authz_backend == "openfga"
    run("openfga_reconcile")
    assert UndeliveredTuple.objects.exists()
    run("openfga_reconcile", "--mode", "add-and-delete-drift")
    assert not UndeliveredTuple.objects.exists()
    assert not is_allowed(ALICE, Can.READ_DATA, *tree["table"])
    require_chosen_backend_with_authentication()
    assert not UndeliveredTuple.objects.exists()


@pytest.mark.parametrize(("before", "is_checked"), [(None, False), ("", False), ("openfga", False), ("allowall", True)])
def test_before_the_bootstrap_only_the_last_authorizer_counts(
    before: str | None, is_checked: bool, tree: dict[str, ObjectRef]
) -> None:
    Server.objects.update(authz_backend=before, bootstrapped_at=None)
    require_chosen_backend_with_authentication()
    assert UndeliveredTuple.objects.exists() is is_checked
    assert Server.objects.get().authz_backend == "openfga"


def require_chosen_backend_with_authentication() -> None:
    """The start of a server."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settings, "ICEKEEPER", settings.ICEKEEPER.model_copy(update={"access_tokens": True}))
        require_chosen_backend()


def test_copies_to_openfga(tree: dict[str, ObjectRef], monkeypatch: pytest.MonkeyPatch) -> None:
    right = sorted(all_tuples(openfga_store()))
    choose_openfga(monkeypatch, store_name="another store")
    require_reconciliation()
    assert run("copy_grants", "--from", "builtin", "--to", "openfga") == {"written": len(right)}
    assert sorted(all_tuples(openfga_store())) == right
    assert UndeliveredTuple.objects.get().object == "*"
    assert is_allowed(ALICE, Can.READ_DATA, *tree["table"])
    assert run("copy_grants", "--from", "builtin", "--to", "openfga") == {"written": 0}
    run("openfga_reconcile", "--mode", "add-and-delete-drift")
    assert sorted(all_tuples(openfga_store())) == right
    assert not UndeliveredTuple.objects.exists()


def share_the_store() -> dict[str, list[TupleKey]]:
    """Another server has a model and tuples in the store: some that only its model allows, and some that ours allows
    too.
    """
    direct = {"relations": {"select": {"this": {}}, "owned": {"this": {}}}}
    users = {"directly_related_user_types": [{"type": "user"}]}
    metadata = {"metadata": {"relations": {"select": users, "owned": users}}}
    types = [{"type": each, **direct, **metadata} for each in ("their_table", "table", "warehouse")]
    model = {"schema_version": "1.1", "type_definitions": [{"type": "user"}, {"type": "collaboration-v4_9"}, *types]}
    store = openfga_store()
    location = store.resolve()
    theirs = store.create_model(location.store_id, model)
    own_id = "0198e0f4-3f6e-7c31-8c7d-000000000001"
    warehouse = Securable.objects.filter(pk__startswith="warehouse:").values_list("pk", flat=True)[0]
    foreign = [
        TupleKey(f"their_table:wh/{own_id}", "owned", "user:oidc~zoe"),
        TupleKey(f"their_table:wh/{own_id}", "select", "user:oidc~zoe"),
        TupleKey(f"table:{own_id}", "owned", "user:oidc~zoe"),
        TupleKey(warehouse, "owned", "user:oidc~zoe"),
    ]
    alike = [TupleKey(f"table:{own_id}", "select", "user:oidc~zoe")]
    written = {"tuple_keys": [as_tuple(each) for each in foreign + alike]}
    store._request_document(
        "POST", f"/stores/{location.store_id}/write", {"authorization_model_id": theirs, "writes": written}
    )
    return {"foreign": foreign, "alike": alike}


def test_nothing_of_others_in_a_shared_store_is_deleted(tree: dict[str, ObjectRef]) -> None:
    """Except when the operator declares that the whole store is this server's, and then only what the model allows."""
    right = {key for key, _ in all_tuples(openfga_store())}
    theirs = share_the_store()
    everything = right | set(theirs["foreign"]) | set(theirs["alike"])
    assert {key for key, _ in all_tuples(openfga_store())} == everything
    assert run("copy_grants", "--from", "builtin", "--to", "openfga") == {"written": 0}
    assert run("openfga_reconcile")["drifted"] == 0
    reported = run("openfga_reconcile", "--mode", "add-and-delete-drift", "--dry-run")
    assert (reported["drifted"], reported["foreign"]) == (1, 4)
    lacking, _ = disturb(tree)
    disturbed = {key for key, _ in all_tuples(openfga_store())}
    require_reconciliation()
    with pytest.raises(
        CommandError, match=r"may contain tuples of other applications, nothing was changed: .*--owns-store"
    ):
        run("openfga_reconcile", "--mode", "add-and-delete-drift")
    assert {key for key, _ in all_tuples(openfga_store())} == disturbed
    assert lacking not in disturbed
    assert UndeliveredTuple.objects.get().object == "*"
    reported = run("openfga_reconcile", "--mode", "add-and-delete-drift", "--owns-store")
    assert (reported["missing"], reported["drifted"], reported["foreign"]) == (1, 3, 4)
    assert {key for key, _ in all_tuples(openfga_store())} == right | set(theirs["foreign"])
    assert not UndeliveredTuple.objects.exists()


def test_models_of_other_releases_are_ours(tree: dict[str, ObjectRef]) -> None:
    store = openfga_store()
    store.create_model(store.resolve().store_id, authorization_model(unfolded_model(), "collaboration-0.9"))
    _, drifted = disturb(tree)
    assert run("openfga_reconcile", "--mode", "add-and-delete-drift")["drifted"] == len(drifted)
    store.create_model(store.resolve().store_id, authorization_model(unfolded_model(), "another-1"))
    with pytest.raises(CommandError, match="models that are not of this server"):
        run("openfga_reconcile", "--mode", "add-and-delete-drift")


def test_copies_from_openfga(tree: dict[str, ObjectRef]) -> None:
    table, group = securable_id(*tree["table"]), role("another")
    foreign = "role:00000000-0000-0000-0000-000000000009#assignee"
    later, before = now() + timedelta(days=2), now() - timedelta(days=1)
    another_user("oidc~bob")
    new = {
        grant_key(table, "select", user_id="oidc~bob", role_id=None): Condition(None),
        grant_key(table, "modify", user_id=None, role_id=group.pk): Condition(later),
        member_key(group.pk, user_id="oidc~bob", member_role_id=None): Condition(None),
        member_key(group.pk, user_id=None, member_role_id=tree["role"][1]): Condition(None),
        grant_key(f"role:{group.pk}", "ownership", user_id=ALICE.user_id, role_id=None): Condition(None),
    }
    ended = {grant_key(table, "describe", user_id="oidc~bob", role_id=None): Condition(before)}
    refused = {
        grant_key(table, "select", user_id="oidc~unknown", role_id=None): Condition(None),
        TupleKey(table, "select", foreign): Condition(None),
        grant_key("table:00000000-0000-0000-0000-000000000001", "select", user_id="oidc~bob", role_id=None): Condition(
            None
        ),
        member_key(tree["role"][1], user_id=None, member_role_id=group.pk): Condition(None),
        grant_key(securable_id(*tree["role"]), "ownership", user_id=None, role_id=group.pk): Condition(None),
    }
    openfga_store().write({**new, **ended, **refused}, [])
    AuditRecord.objects.all().delete()
    granted, members = Grant.objects.count(), RoleMember.objects.count()
    err = StringIO()
    out = StringIO()
    call_command("copy_grants", "--from", "openfga", "--to", "builtin", "--json", stdout=out, stderr=err)
    reported = orjson.loads(out.getvalue())
    assert (reported["added"], reported["expired"], reported["refused"]) == (len(new), 1, len(refused))
    for reason in ("no such user", "no such role", "no such object", "would be a member of itself"):
        assert reason in err.getvalue()
    assert (Grant.objects.count() - granted, RoleMember.objects.count() - members) == (3, 2)
    assert Grant.objects.get(role_id=group.pk).expires_at == later
    assert Grant.objects.get(privilege="ownership").owned_role_id == group.pk
    created, added = rows(event="grant.created", actor="internal"), rows(event="role.members-added", actor="internal")
    assert {(row.object_type, row.project_id) for row in created} == {
        ("table", get_project(None).pk), ("role", get_project(None).pk)
    }  # fmt: skip
    reported = [orjson.loads(row.details) for row in created]
    assert sorted((row["privilege"], row["user"], row["role"], row["until"]) for row in reported if row["user"]) == [
        ("ownership", ALICE.user_id, None, None), ("select", "oidc~bob", None, None),
    ]  # fmt: skip
    assert [(each["role"], each["until"]) for each in reported if each["role"]] == [(str(group.pk), later.isoformat())]
    assert {each["taken_over_from"] for each in reported} == {"openfga"}
    assert [row.object_id for row in added] == [str(group.pk)] * 2
    assert sorted(map(str, (orjson.loads(row.details)["users"] for row in added))) == ["['oidc~bob']", "[]"]
    again = run("copy_grants", "--from", "openfga", "--to", "builtin")
    assert (again["added"], again["refused"]) == (0, len(refused))


def test_objects_are_read_once_a_page_however_many_grants_are_copied(tree: dict[str, ObjectRef]) -> None:
    def statements(privileges: Sequence[str], names: Sequence[str]) -> int:
        new = {
            grant_key(securable_id(*tree[name]), each, user_id=ALICE.user_id, role_id=None): Condition(None)
            for name in names
            for each in privileges
        }
        openfga_store().write(new, [])
        with CaptureQueriesContext(connection) as sent:
            assert run("copy_grants", "--from", "openfga", "--to", "builtin")["added"] == len(new)
        return sum('FROM "tenancy_securable"' in each["sql"] for each in sent.captured_queries)

    assert statements(["modify"], ["table"]) == statements(["describe", "create"], ["wh", "inner", "other"])


def test_a_model_is_written_once_a_version_and_left_alone(by_openfga: object, monkeypatch: pytest.MonkeyPatch) -> None:
    location, is_new = install(openfga_store())
    assert not is_new
    assert openfga_store().model_name == f"collaboration-{VERSION}"
    choose_openfga(monkeypatch, authorization_model_prefix="other")
    other, is_new = install(openfga_store())
    assert is_new
    assert (other.store_id, other.model_id != location.model_id) == (location.store_id, True)
    choose_openfga(monkeypatch, authorization_model_prefix="collaboration", authorization_model_version=VERSION)
    assert install(openfga_store()) == (location, False)
    assert authorizer().name == "openfga"


def test_migrate_adds_the_model_of_this_version_to_a_store_with_an_older_one(
    openfga: OpenFga, warehouse: Warehouse, storage_root: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server of version 1 continues to use its model; grants of both versions count after the migration."""
    text = "\n".join(line for line in FILE.read_text().splitlines() if not re.search("event|rules", line))
    older = authorization_model(unfolded(read_model(text)), "collaboration-1")
    choose_openfga(monkeypatch, endpoint=openfga.url, store_name=f"test-{new_id()}")
    store_id = openfga_store().create_store()
    older_id = openfga_store().create_model(store_id, older)
    with transaction.atomic():
        tree = create_tree(warehouse)
        grant(tree["outer"], "select", user_id=another_user(ALICE.user_id))
    choose_openfga(monkeypatch, authorization_model_version="1")
    deliver_as_recorded(openfga_store())
    checked = [(Can.READ_DATA, tree["table"]), (Can.MANAGE_RULES, tree["wh"]), (Can.OVERRIDE_RULES, tree["table"])]
    assert authorizer().decide(ALICE, checked[:1]) == [True]

    choose_openfga(monkeypatch, authorization_model_version=None)
    with pytest.raises(AuthorizationBackendError):
        authorizer().decide(ALICE, checked[:1])
    call_command("migrate", stdout=(out := StringIO()))
    assert "authorization model" in out.getvalue()
    assert authorizer().decide(ALICE, checked) == [True, False, False]
    for privilege, allowed in (("override_rules", [True, False, True]), ("manage_rules", [True, True, True])):
        with transaction.atomic():
            grant(tree["wh"], privilege, user_id=ALICE.user_id)
        deliver_as_recorded(openfga_store())
        authorizer.cache_clear()
        assert authorizer().decide(ALICE, checked) == allowed

    choose_openfga(monkeypatch, authorization_model_version="1")
    assert install(openfga_store()) == (StoreAndModel(store_id, older_id), False)
    assert authorizer().decide(ALICE, checked[:1]) == [True]
    with pytest.raises(AuthorizationBackendError):
        authorizer().decide(ALICE, checked[1:])
    authorizer.cache_clear()


def test_migrate_installs_it(bootstrapped: None, openfga: OpenFga, monkeypatch: pytest.MonkeyPatch) -> None:
    choose_openfga(monkeypatch, endpoint=openfga.url, store_name="created by migrate")
    call_command("migrate", stdout=(out := StringIO()))
    assert "authorization model" in out.getvalue()
    call_command("migrate", stdout=(again := StringIO()))
    assert "authorization model" not in again.getvalue()
    with openfga.relay.refusing(), pytest.raises(CommandError, match="OpenFGA: "):
        call_command("migrate", stdout=StringIO())
    authorizer.cache_clear()


@pytest.mark.parametrize("command", [("openfga_reconcile",), ("copy_grants", "--from", "builtin", "--to", "openfga")])
def test_without_an_address_there_is_nothing_to_do(db: None, command: tuple[str, ...]) -> None:
    with pytest.raises(CommandError, match="LAKEKEEPER__OPENFGA__ENDPOINT is not set"):
        call_command(*command)
