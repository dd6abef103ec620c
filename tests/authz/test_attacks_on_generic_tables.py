"""Attacks on generic tables by users with few privileges: each is denied, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from catalog.models import Tabular
from storage.models import Warehouse
from tenancy.models.securable import ObjectRef
from tests.authz.conftest import good, user
from tests.authz.tree_fixtures import give
from tests.harness.fingerprint import Fingerprint
from tests.harness.named_callers import CallerClient
from tests.harness.wsgi_client import Response

pytestmark = [pytest.mark.django_db]

Client = Callable[[str], CallerClient]
AT = "/namespaces/closed/generic-tables/g"
MISSING, FORBIDDEN = (404, "NoSuchGenericTableException"), (403, "GenericTableActionForbidden")


def rename(at: CallerClient, namespace: str, name: str) -> Response:
    source, destination = {"namespace": ["closed"], "name": "g"}, {"namespace": [namespace], "name": name}
    return at.post("/generic-tables/rename", {"source": source, "destination": destination})


Act = Callable[[CallerClient, CallerClient, str], Response]
ATTACKS: dict[str, Act] = {
    "credentials": lambda at, manage, location: at.get(f"{AT}/credentials"),
    "drop": lambda at, manage, location: at.delete(AT),
    "drop and keep the files": lambda at, manage, location: at.delete(f"{AT}?purgeRequested=false"),
    "drop by force": lambda at, manage, location: at.delete(f"{AT}?force=true"),
    "rename": lambda at, manage, location: rename(at, "closed", "mine"),
    "bring into one's own": lambda at, manage, location: rename(at, "open", "mine"),
    "protect": lambda at, manage, location: manage.post(f"{location}/protection", {"protected": True}),
    "grant": lambda at, manage, location: manage.post(
        f"{location}/grants", {"writes": [{"privilege": "modify", "principal": {"user": "oidc~alice"}}]}
    ),
}


@pytest.fixture
def alice(client: Client, lake: dict[str, ObjectRef], warehouse: Warehouse) -> CallerClient:
    """The owner of another namespace."""
    client("alice")
    give("ownership", lake["open"], user("alice"))
    return CallerClient(f"/lakekeeper/v1/{warehouse.pk}", "alice")


@pytest.mark.parametrize("given", [None, "describe"], ids=["a stranger", "who may see it"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_users_without_grants(
    alice: CallerClient,
    manage: Client,
    lake: dict[str, ObjectRef],
    warehouse: Warehouse,
    everything: Callable[[], Fingerprint],
    attack: str,
    given: str | None,
) -> None:
    if given is not None:
        give(given, lake["closed.g"], user("alice"))
    before = everything()
    location = f"/warehouse/{warehouse.pk}/generic-table/{Tabular.objects.get(pk=lake['closed.g'][1]).uuid}"
    response = ATTACKS[attack](alice, manage("alice"), location)
    if given is None:
        assert response.refused(*MISSING)
    elif attack == "grant":
        assert response.refused(403, "GrantActionForbidden")
    else:
        assert response.refused(*FORBIDDEN)
    assert everything() == before


def test_a_stranger_cannot_load_it_and_a_reader_of_metadata_gets_no_credentials(
    alice: CallerClient, lake: dict[str, ObjectRef]
) -> None:
    assert alice.get(AT).refused(*MISSING)
    give("describe", lake["closed.g"], user("alice"))
    loaded = good(alice.get(AT, **{"x-iceberg-access-delegation": "vended-credentials,remote-signing"})).json()
    assert loaded["table"]["name"] == "g"
    assert "storage-credentials" not in loaded
    assert loaded["config"] == {}


def test_it_is_not_written_over(
    alice: CallerClient, lake: dict[str, ObjectRef], everything: Callable[[], Fingerprint]
) -> None:
    """Not by another table of that name, nor by the table routes, nor by one in its folder."""
    give("describe", lake["closed.g"], user("alice"))
    give("create", lake["closed"], user("alice"))
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
