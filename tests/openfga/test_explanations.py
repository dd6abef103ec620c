"""Explanations come from the rows, together with the decision of a real OpenFGA."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import call_command
from django.db import transaction
from hypothesis import HealthCheck, given, settings

from catalog.models import Namespace, Tabular
from catalog.objects import name_objects
from storage.models import Warehouse
from tenancy.actor import INTERNAL, Grantee
from tenancy.authz.actions import Can
from tenancy.authz.explanation import explain
from tenancy.authz.openfga.outbox import require_reconciliation
from tenancy.authz.openfga.store import openfga_store
from tenancy.authz.permissions import check_permissions
from tenancy.models import Grant, Role, Securable
from tenancy.models.securable import ObjectRef
from tenancy.selectors.explanations import explain_to_operator
from tenancy.selectors.projects import get_project
from tenancy.services.tags import create_tag_definition
from tests.authz.parity.pair_fixtures import another_user, grant, member, questions_about
from tests.authz.parity.test_random import create_world, plans
from tests.authz.tree_fixtures import role
from tests.catalog_fixtures import SCHEMA
from tests.harness.named_callers import CallerClient, NamedCallers
from tests.openfga_fixtures import deliver_as_recorded
from tests.parts.openfga import OpenFga

pytestmark = pytest.mark.django_db

T = Securable.Type
BOB = "oidc~bob"


@pytest.fixture
def table(by_openfga: object, warehouse: Warehouse, callers: NamedCallers) -> ObjectRef:
    """The table `ns.t`; alice owns the warehouse, and the grant is delivered to OpenFGA."""
    grant(ObjectRef(T.WAREHOUSE, warehouse.pk), "ownership", user_id=another_user(callers.user("alice")))
    alice = CallerClient(f"/catalog/v1/{warehouse.pk}", "alice")
    for target, body in (
        ("/namespaces", {"namespace": ["ns"]}),
        ("/namespaces/ns/tables", {"name": "t", "schema": SCHEMA}),
    ):
        deliver_as_recorded(openfga_store())
        assert alice.post(target, body).status == 200
    group = role("readers")
    member(group.pk, user_id=another_user(BOB))
    grant(ObjectRef(T.NAMESPACE, Namespace.objects.get().pk), "select", role_id=group.pk)
    deliver_as_recorded(openfga_store())
    return ObjectRef(T.TABLE, Tabular.objects.get().pk)


def reported(word: str, *location: str) -> tuple[list[str], list[str]]:
    """Return the explanation for the table, or for another location."""
    out, err = StringIO(), StringIO()
    call_command("explain", BOB, word, *(location or ("table", "wh", "ns", "t")), stdout=out, stderr=err)
    return out.getvalue().splitlines(), err.getvalue().splitlines()


def test_it_agrees_with_openfga(table: ObjectRef) -> None:
    shown, noted = reported("read_data")
    assert shown == [
        f"{BOB} may read_data on table ns.t.",
        f"  {BOB} is in role readers",
        "  role readers has select on namespace ns",
        "  so select on table ns.t",
        "  so may read_data on table ns.t",
    ]
    assert noted == []
    shown, _ = reported("drop")
    assert shown[:3] == [
        f"{BOB} may not drop on table ns.t.",
        "One of these grants would allow it:",
        "  modify on table ns.t",
    ]
    found = explain_to_operator(
        actor=INTERNAL, grantee=Grantee(user_id=BOB), ref=table, action=Can.DROP, name_objects=name_objects
    )
    cures = [each.privilege for each in found.cures if each.object.securable_type is T.TABLE]
    assert cures == ["modify", "ownership"]
    for privilege in cures:
        grant(table, privilege, user_id=BOB)
        deliver_as_recorded(openfga_store())
        assert reported("drop")[0][0] == f"{BOB} may drop on table ns.t."
        Grant.objects.filter(user_id=BOB).delete()
        deliver_as_recorded(openfga_store())


def test_it_agrees_about_roles_and_tags(table: ObjectRef) -> None:
    project = get_project(None)
    tag = create_tag_definition(actor=INTERNAL, project=project, name="pii", scope=["table"], value_kind="marker")
    owners = role("owners")
    member(owners.pk, role=Role.objects.get(name="readers").pk)
    deliver_as_recorded(openfga_store())
    shown, noted = reported("assume", "role", "owners")
    assert (shown[-1], noted) == ("  so may assume on role owners", [])
    above = f"  security_admin on project {project.name}"
    for words, cures in (
        (("update", "role", "owners"), ["  ownership on role owners", above]),
        (("apply", "tag", "pii"), ["  apply on tag pii", "  ownership on tag pii", above]),
    ):
        shown, _ = reported(*words)
        assert shown[0] == f"{BOB} may not {words[0]} on {words[1]} {words[2]}."
        assert shown[2:][: len(cures)] == cures
    grant(ObjectRef(T.TAG, tag.pk), "apply", role_id=owners.pk)
    grant(ObjectRef(T.ROLE, owners.pk), "ownership", user_id=BOB)
    deliver_as_recorded(openfga_store())
    assert reported("update", "role", "owners")[0] == [
        f"{BOB} may update on role owners.",
        f"  {BOB} has ownership on role owners",
        "  so may update on role owners",
    ]
    shown, noted = reported("apply", "tag", "pii")
    assert (shown[0], noted) == (f"{BOB} may apply on tag pii.", [])
    assert shown[-2:] == ["  role owners has apply on tag pii", "  so may apply on tag pii"]


def test_both_are_reported_while_openfga_lacks_the_tuples(table: ObjectRef) -> None:
    grant(table, "modify", user_id=BOB)
    hint = "OpenFGA may lack tuples: `manage.py openfga_reconcile --dry-run` compares."
    shown, noted = reported("drop")
    assert shown == [
        f"{BOB} may not drop on table ns.t, as openfga decides. By the grants in the database: yes.",
        f"  {BOB} has modify on table ns.t",
        "  so may drop on table ns.t",
    ]
    assert noted == [hint]
    deliver_as_recorded(openfga_store())
    Grant.objects.filter(user_id=BOB).delete()
    shown, noted = reported("drop")
    assert shown[0] == f"{BOB} may drop on table ns.t, as openfga decides. By the grants in the database: no."
    assert noted == [hint, f"Roles that only a token of {BOB} names are not known here."]
    require_reconciliation()
    assert reported("drop")[0][0] == f"{BOB} may not drop on table ns.t."


def test_while_openfga_is_unreachable_the_grants_are_shown(table: ObjectRef, openfga: OpenFga) -> None:
    with openfga.relay.refusing():
        shown, noted = reported("read_data")
    assert shown[0] == (
        "openfga is unavailable, so every request is denied. "
        f"By the grants in the database, {BOB} may read_data on table ns.t: yes."
    )
    assert shown[1] == f"  {BOB} is in role readers"
    assert noted == []


@given(plan=plans())
@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_it_says_what_openfga_says_of_random_trees(
    by_openfga: object, bootstrapped: None, plan: dict[str, list[tuple[int, ...]]]
) -> None:
    with transaction.atomic():
        world = create_world(plan)
        deliver_as_recorded(openfga_store())
        for number, asker in enumerate(world.askers):
            questions = questions_about(world.objects)[number::7]
            responses = check_permissions(asker, questions)
            for (action, ref), response in zip(questions, responses, strict=True):
                assert explain(asker, action, ref).is_by_grants is response, (asker, action, ref)
        transaction.set_rollback(True)
