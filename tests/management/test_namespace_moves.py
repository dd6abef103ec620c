"""Moves of namespaces with their contents: what changes, what stays, and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from catalog.models import Namespace, Tabular
from catalog.selectors.tables.targets import find_target
from catalog.services.tables import create, create_generic_table, rename
from storage.models import Warehouse
from storage.services.warehouses import create_warehouse
from tenancy.actor import INTERNAL
from tenancy.authz.actions import Can
from tenancy.models import Securable
from tenancy.selectors.projects import get_project
from tests.catalog_fixtures import SCHEMA, chosen
from tests.harness.tree_invariants import check_trees
from tests.harness.wsgi_client import ApiClient
from tests.management.warehouse_request_fixtures import NO_ONE, refuse, reported

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

NAMES = ("a", "a%1FB", "a%1FB%1Fc", "a%1Fd", "ab", "z")


@pytest.fixture
def api(warehouse: Warehouse) -> ApiClient:
    return ApiClient(f"/management/v1/warehouse/{warehouse.pk}")


@pytest.fixture
def tree(catalog: ApiClient) -> ApiClient:
    """Namespaces with a property and a table each."""
    for path in NAMES:
        body = {"namespace": path.split("%1F"), "properties": {"own": path}}
        assert catalog.post("/namespaces", body).status == 200
        assert catalog.post(f"/namespaces/{path}/tables", {"name": "t", "schema": SCHEMA}).status == 200
    check_trees()
    return catalog


def of(path: str) -> Namespace:
    return Namespace.objects.get(path=path.replace("/", "\x1f"))


def paths() -> set[str]:
    return {path.replace("\x1f", "/") for path in Namespace.objects.values_list("path", flat=True)}


def move(api: ApiClient, path: str, *destination: str, **more: Any) -> Any:
    return api.post(f"/namespace/{of(path).pk}/move", {"destination": list(destination), **more})


def moved(api: ApiClient, path: str, *destination: str, **more: Any) -> dict[str, Any]:
    response = move(api, path, *destination, **more)
    assert response.status == 200, response.body
    check_trees()
    body: dict[str, Any] = response.json()
    return body


def test_a_leaf_is_renamed(api: ApiClient, tree: ApiClient) -> None:
    before, loaded = of("a/d"), tree.get("/namespaces/a%1Fd/tables/t").json()
    assert moved(api, "a/d", "a", "e") == {
        "namespace": ["a", "e"],
        "namespace-id": str(before.pk),
        "parent-namespace-id": str(of("a").pk),
    }
    after = of("a/e")
    kept = ("pk", "parent_id", "properties", "location", "protected", "created_at")
    assert [getattr(after, each) for each in kept] == [getattr(before, each) for each in kept]
    assert after.version == before.version + 1
    assert tree.get("/namespaces/a%1Fe/tables/t").json() == loaded
    assert tree.get("/namespaces/a%1Fd/tables/t").refused(404, "NoSuchTableException")
    assert tree.get("/namespaces/a%1Fd").refused(404, "NoSuchNamespaceException")
    assert chosen(tree.get("/namespaces/a%1Fe").json()["properties"]) == {"own": "a%1Fd"}


def test_a_leaf_moves_to_another_parent_and_to_the_first_level(api: ApiClient, tree: ApiClient) -> None:
    assert moved(api, "a/d", "Z", "d")["parent-namespace-id"] == str(of("z").pk)
    assert of("z/d").parent == of("z"), "with the spelling of the parent"
    response = moved(api, "z/d", "d")
    assert response["parent-namespace-id"] is None
    assert response["namespace"] == ["d"]
    assert tree.get("/namespaces/d/tables/t").status == 200
    assert tree.delete("/namespaces/z?recursive=true").status == 204
    check_trees()


def test_a_tree_moves_with_everything_in_it(api: ApiClient, tree: ApiClient) -> None:
    rows = {row.pk: row for row in Tabular.objects.all()}
    loaded = {path: tree.get(f"/namespaces/{path}/tables/t").json() for path in NAMES}
    assert moved(api, "a", "z", "A2")["namespace"] == ["z", "A2"]
    assert paths() == {"z", "z/A2", "z/A2/B", "z/A2/B/c", "z/A2/d", "ab"}
    now_at = {"a": "z%1Fa2", "a%1FB": "z%1Fa2%1Fb", "a%1FB%1Fc": "z%1Fa2%1Fb%1Fc", "a%1Fd": "z%1Fa2%1Fd"}
    for path in NAMES:
        assert tree.get(f"/namespaces/{now_at.get(path, path)}/tables/t").json() == loaded[path]
    for path in now_at:
        assert tree.get(f"/namespaces/{path}/tables/t").status == 404
    for row in Tabular.objects.all():
        assert Tabular.objects.filter(pk=row.pk).values().get() == {
            field.attname: getattr(rows[row.pk], field.attname) for field in Tabular._meta.concrete_fields
        }
    listed = tree.get("/namespaces?parent=z%1FA2").json()["namespaces"]
    assert sorted(listed) == [["z", "A2", "B"], ["z", "A2", "d"]]


def test_another_spelling_of_the_same_name(api: ApiClient, tree: ApiClient) -> None:
    assert moved(api, "a", "A")["namespace"] == ["A"]
    assert paths() == {"A", "A/B", "A/B/c", "A/d", "ab", "z"}
    assert tree.get("/namespaces/a%1Fb%1FC/tables/T").status == 200


def test_where_it_is_already(
    api: ApiClient, tree: ApiClient, everything: Callable[[], Any], warehouse: Warehouse
) -> None:
    Namespace.objects.update(protected=True)
    profile = warehouse.storage_profile | {"storage-layout": {"type": "full-hierarchy", "namespace": "{name}"}}
    Warehouse.objects.update(storage_profile=profile)
    before = everything()
    for destination in (["a", "B"], ["A", "B"]):
        response = move(api, "a/B", *destination)
        assert response.status == 200
        assert response.json() == {
            "namespace": ["a", "B"],
            "namespace-id": str(of("a/B").pk),
            "parent-namespace-id": str(of("a").pk),
        }
    assert everything() == before


def test_a_reused_path_serves_the_current_table(api: ApiClient, tree: ApiClient) -> None:
    """The metadata cache has the former table of the path."""
    old = tree.get("/namespaces/a%1Fd/tables/t").json()
    moved(api, "a/d", "d")
    assert tree.post("/namespaces", {"namespace": ["a", "d"]}).status == 200
    assert tree.get("/namespaces/a%1Fd/tables/t").refused(404, "NoSuchTableException")
    assert tree.post("/namespaces/a%1Fd/tables", {"name": "t", "schema": SCHEMA}).status == 200
    new = tree.get("/namespaces/a%1Fd/tables/t").json()
    assert new["metadata"]["table-uuid"] != old["metadata"]["table-uuid"]
    assert tree.get("/namespaces/d/tables/t").json() == old
    # The two swap their paths.
    moved(api, "d", "x")
    moved(api, "a/d", "d")
    moved(api, "x", "a", "d")
    assert tree.get("/namespaces/a%1Fd/tables/t").json() == old
    assert tree.get("/namespaces/d/tables/t").json() == new
    etag = tree.get("/namespaces/d/tables/t").headers["ETag"]
    assert tree.get("/namespaces/d/tables/t", **{"if-none-match": etag}).status == 304
    assert tree.get("/namespaces/a%1Fd/tables/t", **{"if-none-match": etag}).status == 200


def test_commits_continue_under_the_new_path(api: ApiClient, tree: ApiClient) -> None:
    moved(api, "a", "b")
    body = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"k": "v"}}]}
    assert tree.post("/namespaces/b%1FB%1Fc/tables/t", body).status == 200
    assert tree.post("/namespaces/a%1FB%1Fc/tables/t", body).refused(404, "NoSuchTableException")
    assert tree.post("/namespaces/b%1FB/tables", {"name": "u", "schema": SCHEMA}).status == 200
    assert tree.delete("/namespaces/b?recursive=true").status == 204
    check_trees()
    assert paths() == {"ab", "z"}


def test_soft_deleted_tables_move_along(
    api: ApiClient, tree: ApiClient, soft_delete: int, do_tasks: Callable[[], int]
) -> None:
    tree.delete("/namespaces/a%1FB%1Fc/tables/t")
    tree.delete("/namespaces/a%1Fd/tables/t")
    moved(api, "a", "b")
    listed = api.get("/deleted-tabulars").json()["tabulars"]
    assert [each["namespace"] for each in listed] == [["b", "B", "c"], ["b", "d"]]
    target = {"type": "table", "id": listed[0]["id"]}
    assert api.post("/deleted-tabulars/undrop", {"targets": [target]}).status == 204
    assert tree.get("/namespaces/b%1Fb%1Fc/tables/t").status == 200
    assert do_tasks() == 1
    check_trees()


@pytest.mark.parametrize(
    ("path", "destination", "status", "wire_type", "text"),
    [
        ("a", ["a", "x"], 400, "NamespaceCannotMoveIntoSelf", "cannot be moved into itself"),
        ("a", ["A", "b"], 400, "NamespaceCannotMoveIntoSelf", ""),
        ("a", ["a", "B", "c", "x"], 400, "NamespaceCannotMoveIntoSelf", ""),
        ("a", ["a", "none", "x"], 400, "NamespaceCannotMoveIntoSelf", ""),
        ("a", ["none", "a"], 404, "NoSuchNamespaceException", "does not exist: none"),
        ("a", ["z", "none", "a"], 404, "NoSuchNamespaceException", "does not exist: z.none"),
        ("a", ["z"], 409, "AlreadyExistsException", "already exists: z"),
        ("a/B", ["a", "D"], 409, "AlreadyExistsException", "already exists: a.D"),
        ("a/B", ["a"], 409, "AlreadyExistsException", "already exists: a"),
        ("a/B/c", ["a"], 409, "AlreadyExistsException", ""),
        ("a", ["System"], 400, "ReservedNamespace", "System"),
        ("a", ["examples", "a"], 400, "ReservedNamespace", ""),
        ("a", [], 400, "NamespaceEmpty", "destination"),
        ("z", ["1", "2", "3", "4", "5", "6"], 400, "NamespaceDepthExceeded", ""),
        ("a", ["z", ""], 400, "BadRequestException", ""),
        ("a", ["z", "   "], 400, "BadRequestException", "empty"),
        ("a", ["z", ".."], 400, "BadRequestException", ""),
        ("a", ["z", "x" * 10_000], 400, "BadRequestException", "longer"),
        ("a", ["z\x1fy"], 400, "BadRequestException", "U+001F"),
        ("a", ["z", "x\x00"], 400, "BadRequestException", ""),
        ("a", ["z", "\ud800"], 400, "BadRequestException", ""),
        ("a", ["\u202ez"], 400, "BadRequestException", "U+202E"),
        ("a", "z", 400, "BadRequestException", ""),
        ("a", None, 400, "BadRequestException", ""),
        ("a", [["z"]], 400, "BadRequestException", ""),
        ("a", [1], 400, "BadRequestException", ""),
        ("a", [None], 400, "BadRequestException", ""),
        ("a", {"0": "z"}, 400, "BadRequestException", ""),
    ],
)
def test_destinations_that_are_refused(
    api: ApiClient, tree: ApiClient, everything: Callable[[], Any], path: str, destination: Any, status: int,
    wire_type: str, text: str,
) -> None:  # fmt: skip
    before = everything()
    response = api.post(f"/namespace/{of(path).pk}/move", {"destination": destination, "force": True})
    assert response.refused(status, wire_type, text)
    assert everything() == before


@pytest.mark.parametrize(
    "body",
    [
        None, [], "x", {}, {"destination": ["q"], "force": "true"}, {"destination": ["q"], "force": 1},
        {"destination": ["q"], "dry-run": True}, {"destination": ["q"], "namespace-id": NO_ONE},
        {"destination": ["q"], "Force": True},
    ],
)  # fmt: skip
def test_bodies_that_are_refused(api: ApiClient, tree: ApiClient, everything: Callable[[], Any], body: Any) -> None:
    before = everything()
    assert api.post(f"/namespace/{of('a').pk}/move", body).refused(400, "BadRequestException")
    raw = b'{"destination": ["q"], "destination": ["r"]}'
    assert api.post(f"/namespace/{of('a').pk}/move", raw=raw).refused(400, "BadRequestException")
    assert everything() == before


def test_force_may_be_null(api: ApiClient, tree: ApiClient) -> None:
    assert moved(api, "z", "y", force=None)["namespace"] == ["y"]
    assert moved(api, "y", "x", force=False)["namespace"] == ["x"]


def test_paths_cannot_become_too_deep_or_too_long(
    api: ApiClient, tree: ApiClient, everything: Callable[[], Any]
) -> None:
    for path in (["z", "1"], ["z", "1", "2"], ["z", "1", "2", "3"]):
        assert tree.post("/namespaces", {"namespace": path}).status == 200
    before = everything()
    assert move(api, "a", "z", "1", "2", "a").refused(400, "NamespaceDepthExceeded", "a.B.c exceeds maximum depth")
    assert move(api, "z", "a", "B", "z").refused(400, "NamespaceDepthExceeded", "z.1.2.3")
    assert everything() == before
    assert moved(api, "a", "z", "1", "a")["namespace"] == ["z", "1", "a"]
    long = "\u4e2d" * 255  # 765 bytes
    for path in ([long], [long, "w"], ["q"], ["q", long], ["q", long, long]):
        assert tree.post("/namespaces", {"namespace": path}).status == 200
    before = everything()
    assert move(api, "q", long, "q").refused(400, "BadRequestException", "2000 bytes")
    assert everything() == before


def test_protection_is_overridden_by_force_only(api: ApiClient, tree: ApiClient, everything: Callable[[], Any]) -> None:
    Namespace.objects.filter(path="a\x1fB\x1fc").update(protected=True)
    before = everything()
    assert move(api, "a/B/c", "c").refused(409, "NamespaceProtected", "Namespace is protected: a.B.c")
    assert move(api, "a", "b").refused(409, "ChildNamespaceProtected", "a.B.c")
    assert everything() == before
    moved(api, "a", "b", force=True)
    assert of("b/B/c").protected is True
    moved(api, "b/B/c", "c", force=True)
    assert of("c").protected is True


def test_protected_tables_do_not_keep_their_namespace(api: ApiClient, tree: ApiClient) -> None:
    Tabular.objects.update(protected=True)
    moved(api, "a", "b")
    assert Tabular.objects.filter(protected=True).count() == len(NAMES)


LAYOUTS: list[tuple[dict[str, Any] | None, bool, bool]] = [
    (None, True, True),
    ({"type": "default"}, True, True),
    ({"type": "tabular-only", "tabular": "{name}-{uuid}"}, True, True),
    ({"type": "full-hierarchy", "namespace": "{uuid}", "tabular": "{name}"}, True, False),
    ({"type": "full-hierarchy", "namespace": "{name}", "tabular": "{uuid}"}, False, False),
    ({"type": "full-hierarchy", "namespace": "{name}-{uuid}", "tabular": "{uuid}"}, False, False),
]


@pytest.mark.parametrize(("layout", "may_rename", "may_leave"), LAYOUTS)
def test_layouts_that_derive_folders_from_the_hierarchy(
    api: ApiClient, tree: ApiClient, warehouse: Warehouse, everything: Callable[[], Any], layout: Any,
    may_rename: bool, may_leave: bool,
) -> None:  # fmt: skip
    Warehouse.objects.update(storage_profile=warehouse.storage_profile | {"storage-layout": layout})
    for destination, may in ((["a", "e"], may_rename), (["d"], may_leave), (["z", "e"], may_leave)):
        before = everything()
        response = move(api, "a/d", *destination, force=True)
        if may:
            assert response.status == 200, response.body
            moved(api, "/".join(destination), "a", "d")
        else:
            assert response.refused(400, "StorageLayoutForbidsNamespaceMove")
            assert everything() == before


def test_unknown_namespaces_and_parents(
    api: ApiClient, tree: ApiClient, warehouse: Warehouse, storage_root: Any, everything: Callable[[], Any]
) -> None:
    other = create_warehouse(
        actor=INTERNAL,
        project=get_project(None),
        name="other",
        storage_profile={"type": "local", "path": str(storage_root / "other")},
    )
    elsewhere = ApiClient(f"/catalog/v1/{other.pk}")
    assert elsewhere.post("/namespaces", {"namespace": ["far"]}).status == 200
    table = str(Tabular.objects.first().uuid)  # type: ignore[union-attr]
    before = everything()
    body = {"destination": ["q"]}
    for namespace_id in (NO_ONE, str(of("far").pk), table, "no", str(of("a").pk).replace("-", ""), "..%2Fa"):
        assert api.post(f"/namespace/{namespace_id}/move", body).refused(404, "NoSuchNamespaceException")
    # A namespace of another warehouse is no parent either.
    assert move(api, "a", "far", "a").refused(404, "NoSuchNamespaceException", "far")
    for warehouse_id in (NO_ONE, "wh"):
        stranger = ApiClient(f"/management/v1/warehouse/{warehouse_id}")
        assert stranger.post(f"/namespace/{of('a').pk}/move", body).refused(404, "NoSuchWarehouseException")
    over = ApiClient(f"/management/v1/warehouse/{other.pk}")
    assert over.post(f"/namespace/{of('a').pk}/move", body).refused(404, "NoSuchNamespaceException")
    assert api.get(f"/namespace/{of('a').pk}/move").refused(405, "MethodNotAllowedException")
    assert everything() == before
    # The same path may be used in another warehouse.
    moved(api, "a", "far")


def test_permissions_are_checked(
    api: ApiClient, tree: ApiClient, everything: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, parent = f"namespace:{of('a').pk}", f"namespace:{of('z').pk}"
    warehouse = f"warehouse:{of('a').warehouse_id}"
    before = everything()
    for action in (Can.MOVE, Can.CREATE_NAMESPACE, Can.ACCEPT_MOVED_NAMESPACE):
        refuse(monkeypatch, *set(Can) - {action})
        assert move(api, "a", "z", "a").refused(403, "NamespaceActionForbidden", action.value)
    for action in (Can.CREATE_NAMESPACE, Can.ACCEPT_MOVED_NAMESPACE):
        refuse(monkeypatch, *set(Can) - {action})
        assert move(api, "a/d", "d").refused(403, "WarehouseActionForbidden", action.value)
    assert everything() == before
    asked = refuse(monkeypatch, *Can).asked_of
    assert move(api, "a", "z", "a").status == 200
    assert move(api, "z/a", "a").status == 200
    assert asked == [
        (Can.MOVE, source),
        (Can.CREATE_NAMESPACE, parent),
        (Can.ACCEPT_MOVED_NAMESPACE, parent),
        (Can.MOVE, source),
        (Can.CREATE_NAMESPACE, warehouse),
        (Can.ACCEPT_MOVED_NAMESPACE, warehouse),
    ]


def test_hidden_namespaces_are_not_found(
    api: ApiClient, tree: ApiClient, everything: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = everything()
    refuse(monkeypatch, *set(Can) - {Can.MOVE, Can.GET_METADATA})
    hidden, missing = move(api, "a", "b"), api.post(f"/namespace/{NO_ONE}/move", {"destination": ["b"]})
    assert hidden.refused(404, "NoSuchNamespaceException")
    assert reported(hidden, of("a").pk) == reported(missing, NO_ONE)
    refuse(monkeypatch, *set(Can) - {Can.CREATE_NAMESPACE, Can.GET_METADATA})
    hidden, missing = move(api, "a", "z", "a"), move(api, "a", "nowhere", "a")
    assert hidden.refused(404, "NoSuchNamespaceException")
    assert reported(hidden, ": z") == reported(missing, ": nowhere")
    assert everything() == before


@pytest.mark.parametrize("module", [create, create_generic_table, rename])
def test_a_concurrent_request_finds_that_its_namespace_has_moved(
    api: ApiClient, tree: ApiClient, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, module: Any
) -> None:
    """The namespace moves after its look-up: nothing may be created under an unrequested name."""
    found: list[Any] = []

    def find_then_move(**address: Any) -> Any:
        target = find_target(**address)
        if address["identifier"].levels == ("a", "d"):
            found.append(target)
            moved(api, "a/d", "d")
        return target

    written = [row.pk for row in Tabular.objects.order_by("pk")]
    names = [{"namespace": ["z"], "name": "t"}, {"namespace": ["a", "d"], "name": "u"}]
    with monkeypatch.context() as patched:
        patched.setattr(module, "find_target", find_then_move)
        if module is create:
            response = tree.post("/namespaces/a%1Fd/tables", {"name": "u", "schema": SCHEMA})
        elif module is rename:
            response = tree.post("/tables/rename", {"source": names[0], "destination": names[1]})
        else:
            generic = ApiClient(tree.base.replace("/catalog/", "/lakekeeper/"))
            response = generic.post("/namespaces/a%1Fd/generic-tables", {"name": "u", "format": "lance"})
    assert response.refused(404, "NoSuchNamespaceException", "a.d")
    assert len(found) == 1
    assert [row.pk for row in Tabular.objects.order_by("pk")] == written
    assert tree.get("/namespaces/z/tables/t").status == 200
    check_trees()


def test_statements_do_not_grow_with_the_contents(api: ApiClient, catalog: ApiClient, warehouse: Warehouse) -> None:
    counts = []
    for number, size in enumerate((5, 500)):
        assert catalog.post("/namespaces", {"namespace": [f"n{number}"]}).status == 200
        top = of(f"n{number}")
        above = Securable.objects.get(type="namespace", object_id=str(top.pk))
        below = Namespace.objects.bulk_create(
            Namespace(warehouse=warehouse, parent=top, path=f"{top.path}\x1fc{each}", path_key=f"{top.path}\x1fc{each}")
            for each in range(size)
        )
        Securable.objects.bulk_create(
            Securable(
                id=f"namespace:{row.pk}", type="namespace", object_id=str(row.pk), parent=above,
                path=f"{above.path}namespace:{row.pk}/",
            )
            for row in below
        )  # fmt: skip
        assert catalog.post("/namespaces", {"namespace": [f"p{number}"]}).status == 200
        with CaptureQueriesContext(connection) as seen:
            moved_to = move(api, f"n{number}", f"p{number}", "moved")
        assert moved_to.status == 200
        counts.append(len(seen))
        check_trees()
    assert counts[0] == counts[1] < 20
