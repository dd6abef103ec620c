"""Hidden objects are reported as missing by id on every route of the management API.

The routes come from the resolver, which includes new ones; a route with a request body needs one in `BODIES`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

import pytest

from catalog.models import Tabular
from icekeeper.kernel.http.paging import write_page_token
from storage.models import Warehouse
from storage.services.warehouses import create_warehouse
from tenancy.actor import INTERNAL
from tenancy.authz.permission_epoch import permission_epoch
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef
from tests.authz.conftest import good, user
from tests.authz.hidden_object_fixtures import Reported, reported
from tests.authz.tree_fixtures import T, give, role
from tests.harness.fingerprint import Fingerprint
from tests.harness.named_callers import CallerClient
from tests.harness.routes import ROUTES, Route
from tests.harness.wsgi_client import Response

pytestmark = [pytest.mark.django_db]

LOCATION: Final = re.compile(
    r"(?:([\w-]+)/)<str:((?:warehouse|namespace|\w*table|view|object|role|tag_definition)_id)>"
)
"""In a pattern: the type of an object, and the name that its id has there."""

TYPES: Final = {
    "warehouse": T.WAREHOUSE, "namespace": T.NAMESPACE, "table": T.TABLE, "view": T.VIEW, "role": T.ROLE,
    "generic-table": T.GENERIC_TABLE, "tag": T.TAG, "tag-definition": T.TAG,
}  # fmt: skip

DOCUMENTS: Final = Path(__file__).parents[2] / "docs" / "openapi"
OTHER_TOKEN: Final = write_page_token("another listing", str(uuid4()))

NOTHING_HIDDEN: Final = {
    "role-metadata": "names of roles are no secret",
    "role-transitive-members": "takes a right to the project, which is asked before there is a role",
    "role-transitive-member-of": "likewise",
    "warehouse-managed-by": "is for instance admins alone, who see everything",
}
PROFILE: Final[dict[str, Any]] = {"storage-profile": {"type": "local", "path": "/nowhere"}}
GRANTS: Final[dict[str, Any]] = {"writes": [{"privilege": "ownership", "principal": {"user": "oidc~root"}}]}
BODIES: Final[dict[str, Any]] = {
    "grants": GRANTS,
    "assignments": {"writes": [{"type": "ownership", "user": "oidc~root"}]},
    "protection": {"protected": True},
    "managed-access": {"managed-access": True},
    "move": {"destination": ["zz"]},
    "rename": {"new-name": "mine"},
    "delete-profile": {"delete-profile": {"type": "hard"}},
    "format-version-policy": {"allowed-format-versions": [2]},
    "storage": PROFILE,
    "validate-profile": PROFILE,
    "undrop": {"targets": []},
    "task/control": {"task-ids": [], "action": {"action-type": "stop"}},
    "config": {"queue-config": {}},
    "search-tabular": {"search": "a"},
    "tag-definition/{tag_definition_id}": {"name": "mine", "scope": ["table"]},
    "role/{role_id}": {"name": "mine"},
    "source-system": {"provider-id": "oidc", "source-id": "mine"},
    "members": {"members": [{"type": "user", "id": "oidc~root"}]},
}
"""By the ending of the path."""


class Asked(NamedTuple):
    """A request for an object at the last id of a route."""

    route: Route
    method: str
    kind: Securable.Type
    name: str

    def __str__(self) -> str:
        return f"{self.method} {self.route.template}"

    def reported(self, names: dict[str, str], object_id: str, query: str = "") -> Reported:
        target = f"{self.route.target(names | {self.name: object_id})}?{query}"
        target += "&principalUser=oidc~root" if self.route.name == "reached-objects" else ""
        # Every user who sees anything in a project sees its roles and tags, but not its warehouses and their
        # contents.
        caller = CallerClient("", "stranger" if self.kind in {T.ROLE, T.TAG} else "alice")
        if self.method in {"GET", "DELETE"}:
            return reported(lambda: getattr(caller, self.method.lower())(target), object_id)
        body = next((each for ending, each in BODIES.items() if self.route.template.endswith(f"/{ending}")), {})
        return reported(lambda: getattr(caller, self.method.lower())(target, body), object_id)


def all_asked() -> list[Asked]:
    found = []
    for route in ROUTES:
        locations = LOCATION.findall(route.pattern)
        if locations and route.pattern.startswith("management/") and route.name not in NOTHING_HIDDEN:
            kind, name = locations[-1]
            found += [Asked(route, each, TYPES[kind], name) for each in route.methods if each != "HEAD"]
    return found


def names_in(warehouse: Warehouse) -> dict[str, str]:
    """The path parameters other than the tested ids."""
    return {
        "warehouse_id": str(warehouse.pk), "column_name": "id", "tag_name": "pii", "member_type": "user",
        "member_id": "oidc~root",
    }  # fmt: skip


@pytest.fixture
def hidden(
    lake: dict[str, ObjectRef], warehouse: Warehouse, manage: Callable[[str], CallerClient], storage_root: Path
) -> dict[Securable.Type, str]:
    """One object of each type, by the ids that clients see; Alice has access to `open` only."""
    give("ownership", lake["open"], user("alice"))
    manage("alice")
    manage("stranger")
    profile = {"type": "local", "path": str(storage_root / "second")}
    second = create_warehouse(actor=INTERNAL, project=warehouse.project, name="second", storage_profile=profile)
    tag = good(manage("root").post("/tag-definition", {"name": "pii", "scope": ["table"], "value-kind": "marker"}))
    uuids = dict(Tabular.objects.values_list("pk", "uuid"))
    names = {T.TABLE: "closed.a", T.VIEW: "closed.v", T.GENERIC_TABLE: "closed.g"}
    return {
        T.WAREHOUSE: str(second.pk),
        T.NAMESPACE: str(lake["closed"][1]),
        **{kind: str(uuids[lake[name][1]]) for kind, name in names.items()},  # type: ignore[index]
        T.ROLE: str(role("secret").pk),
        T.TAG: tag.json()["id"],
    }


@pytest.mark.parametrize("is_watched", [True, False])
def test_each_route_hides_objects(
    hidden: dict[Securable.Type, str],
    warehouse: Warehouse,
    everything: Callable[[], Fingerprint],
    is_watched: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(permission_epoch, "is_fresh", lambda: is_watched)  # True in a server
    before, names = everything(), names_in(warehouse)
    asked = all_asked()
    assert {each.kind for each in asked} == set(hidden)
    of_missing = {str(each): each.reported(names, str(uuid4())) for each in asked}
    of_hidden = {str(each): each.reported(names, hidden[each.kind]) for each in asked}
    assert {each: of_it.status for each, of_it in of_hidden.items() if of_it.status != 404} == {}
    assert of_hidden == of_missing
    assert everything() == before


def page_parameters() -> dict[str, tuple[str, str]]:
    """The names of the parameters for page token and page size, by the template of each route with pagination."""
    paths = json.loads((DOCUMENTS / "management.json").read_text())["paths"]
    found = {}
    for template, methods in paths.items():
        names = {each["name"] for each in methods.get("get", {}).get("parameters", [])}
        for token, size in (("pageToken", "pageSize"), ("page_token", "page_size")):
            if token in names:
                found[template] = (token, size)
    return found


def wrong_pages(token: str, size: str) -> list[str]:
    return [f"{size}=0", f"{size}=many", f"{size}=9999999999", f"{token}=!", f"{token}={OTHER_TOKEN}", f"{token}=%F0"]


def test_each_listing_hides_objects_from_requests_for_wrong_pages(
    hidden: dict[Securable.Type, str], warehouse: Warehouse
) -> None:
    names, parameters = names_in(warehouse), page_parameters()
    asked = [each for each in all_asked() if each.method == "GET" and each.route.template in parameters]
    assert {each.kind for each in asked} == set(hidden)
    assert len(asked) > 25
    for each in asked:
        usual = each.reported(names, hidden[each.kind])
        assert usual.status == 404
        for query in wrong_pages(*parameters[each.route.template]):
            assert each.reported(names, hidden[each.kind], query) == usual, (str(each), query)
            assert each.reported(names, str(uuid4()), query) == usual, (str(each), query)


@pytest.mark.parametrize(
    "act",
    [
        lambda client, at, name, query: client.get(f"/catalog/v1/{at}/namespaces?parent={name}&{query}"),
        lambda client, at, name, query: client.get(f"/catalog/v1/{at}/namespaces/{name}/tables?{query}"),
        lambda client, at, name, query: client.get(f"/catalog/v1/{at}/namespaces/{name}/views?{query}"),
        lambda client, at, name, query: client.get(f"/lakekeeper/v1/{at}/namespaces/{name}/generic-tables?{query}"),
    ],
    ids=["namespaces", "tables", "views", "generic tables"],
)
def test_listings_of_a_namespace_hide_it_from_requests_for_wrong_pages(
    hidden: dict[Securable.Type, str], warehouse: Warehouse, act: Callable[[CallerClient, str, str, str], Response]
) -> None:
    alice = CallerClient("", "alice")

    def asked(name: str, query: str) -> Reported:
        return reported(lambda: act(alice, str(warehouse.pk), name, query), name)

    usual = asked("closed", "pageToken=")
    assert usual.status == 404
    for query in wrong_pages("pageToken=&pageToken", "pageToken=&pageSize"):
        assert asked("closed", query) == asked("missing", query) == usual, query
        seen = act(alice, str(warehouse.pk), "open", query)
        assert seen.status == 400, query


def test_listings_within_a_hidden_namespace_of_a_warehouse(
    hidden: dict[Securable.Type, str], warehouse: Warehouse, manage: Callable[[str], CallerClient]
) -> None:
    alice, own = manage("alice"), f"/warehouse/{warehouse.pk}"

    def search(namespace_id: str, token: str) -> Reported:
        body = {"search": "a", "namespace-id": namespace_id, "page-token": token}
        return reported(lambda: alice.post(f"{own}/search-tabular", body), namespace_id)

    for token in ("", "!", OTHER_TOKEN):
        of_hidden = search(hidden[T.NAMESPACE], token)
        assert of_hidden == search(str(uuid4()), token)
        assert of_hidden.status == 404


def test_several_at_once(
    hidden: dict[Securable.Type, str],
    lake: dict[str, ObjectRef],
    warehouse: Warehouse,
    manage: Callable[[str], CallerClient],
    everything: Callable[[], Fingerprint],
) -> None:
    """The body lists the objects to restore; the first one is the caller's own."""
    before = everything()
    own = {"type": "table", "id": str(Tabular.objects.get(pk=str(lake["open.a"][1])).uuid)}

    def asked(kind: Securable.Type, object_id: str) -> Reported:
        body = {"targets": [own, {"type": kind.value, "id": object_id}]}
        return reported(
            lambda: manage("alice").post(f"/warehouse/{warehouse.pk}/deleted-tabulars/undrop", body), object_id
        )

    for kind in (T.TABLE, T.VIEW, T.GENERIC_TABLE):
        of_hidden = asked(kind, hidden[kind])
        assert of_hidden.status == 404
        assert of_hidden == asked(kind, str(uuid4()))
    assert everything() == before
