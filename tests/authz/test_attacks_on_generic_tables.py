"""What people try who want more of a generic table than they were given. Each is refused, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from catalog.models import Tabular
from storage.models import Warehouse
from tenancy.refs import ObjectRef
from tests.authz.conftest import good, person
from tests.authz.tree_fixtures import give
from tests.fingerprint import Fingerprint
from tests.named_callers import CallerClient
from tests.wsgi_client import Answer

pytestmark = [pytest.mark.django_db]

Client = Callable[[str], CallerClient]
AT = "/namespaces/closed/generic-tables/g"
MISSING, FORBIDDEN = (404, "NoSuchGenericTableException"), (403, "GenericTableActionForbidden")


def rename(at: CallerClient, namespace: str, name: str) -> Answer:
    source, destination = {"namespace": ["closed"], "name": "g"}, {"namespace": [namespace], "name": name}
    return at.post("/generic-tables/rename", {"source": source, "destination": destination})


Act = Callable[[CallerClient, CallerClient, str], Answer]
ATTACKS: dict[str, Act] = {
    "credentials": lambda at, manage, place: at.get(f"{AT}/credentials"),
    "drop": lambda at, manage, place: at.delete(AT),
    "drop and keep the files": lambda at, manage, place: at.delete(f"{AT}?purgeRequested=false"),
    "drop by force": lambda at, manage, place: at.delete(f"{AT}?force=true"),
    "rename": lambda at, manage, place: rename(at, "closed", "mine"),
    "bring into one's own": lambda at, manage, place: rename(at, "open", "mine"),
    "protect": lambda at, manage, place: manage.post(f"{place}/protection", {"protected": True}),
    "grant": lambda at, manage, place: manage.post(
        f"{place}/grants", {"writes": [{"privilege": "modify", "principal": {"user": "oidc~alice"}}]}
    ),
}


@pytest.fixture
def alice(client: Client, lake: dict[str, ObjectRef], warehouse: Warehouse) -> CallerClient:
    """Who owns another namespace."""
    client("alice")
    give("ownership", lake["open"], person("alice"))
    return CallerClient(f"/lakekeeper/v1/{warehouse.pk}", "alice")


@pytest.mark.parametrize("given", [None, "describe"], ids=["a stranger", "who may see it"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_who_was_not_given_it(
    alice: CallerClient,
    manage: Client,
    lake: dict[str, ObjectRef],
    warehouse: Warehouse,
    everything: Callable[[], Fingerprint],
    attack: str,
    given: str | None,
) -> None:
    if given is not None:
        give(given, lake["closed.g"], person("alice"))
    before = everything()
    place = f"/warehouse/{warehouse.pk}/generic-table/{Tabular.objects.get(pk=lake['closed.g'][1]).uuid}"
    answer = ATTACKS[attack](alice, manage("alice"), place)
    if given is None:
        assert answer.refused(*MISSING)
    elif attack == "grant":
        assert answer.refused(403, "GrantActionForbidden")
    else:
        assert answer.refused(*FORBIDDEN)
    assert everything() == before


def test_a_stranger_does_not_load_it_and_who_may_see_it_is_lent_nothing(
    alice: CallerClient, lake: dict[str, ObjectRef]
) -> None:
    assert alice.get(AT).refused(*MISSING)
    give("describe", lake["closed.g"], person("alice"))
    loaded = good(alice.get(AT, **{"x-iceberg-access-delegation": "vended-credentials,remote-signing"})).json()
    assert loaded["table"]["name"] == "g"
    assert "storage-credentials" not in loaded
    assert loaded["config"] == {}


def test_it_is_not_written_over(
    alice: CallerClient, lake: dict[str, ObjectRef], everything: Callable[[], Fingerprint]
) -> None:
    """Neither by another one of its name, nor through the routes of tables, nor by one that is put into its folder."""
    give("describe", lake["closed.g"], person("alice"))
    give("create", lake["closed"], person("alice"))
    location = Tabular.objects.get(pk=lake["closed.g"][1]).location
    catalog = CallerClient(alice.base.replace("/lakekeeper", "/catalog"), "alice")
    before = everything()
    body = {"name": "g", "format": "lance"}
    assert alice.post("/namespaces/closed/generic-tables", body).refused(409, "GenericTableAlreadyExists")
    over = {"name": "mine", "format": "lance", "base-location": f"{location}/below"}
    assert alice.post("/namespaces/open/generic-tables", over).refused(409, "LocationAlreadyTaken")
    for act in (catalog.get, catalog.delete):
        assert act("/namespaces/closed/tables/g").refused(404, "NoSuchTableException")
    commit = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"k": "v"}}]}
    assert catalog.post("/namespaces/closed/tables/g", commit).refused(404, "NoSuchTableException")
    assert everything() == before
