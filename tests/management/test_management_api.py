from __future__ import annotations

import errno
import re
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from management import health
from storage.io.local import unwritable_storage
from storage.models import Warehouse
from tenancy.models import Project, Securable
from tests.harness.wsgi_client import ApiClient, call
from tests.management.warehouse_request_fixtures import use_settings

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

api = ApiClient("/management/v1")
PROJECT = "00000000-0000-0000-0000-000000000000"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(settings, "ICEKEEPER", settings.ICEKEEPER.model_copy(update={"local_storage_root": tmp_path}))
    return tmp_path.resolve()


@pytest.fixture
def bootstrapped() -> None:
    assert api.post("/bootstrap", {"accept-terms-of-use": True}).status == 204


def create(root: Path, name: str = "wh", folder: str = "wh", **more: Any) -> Any:
    profile = {"type": "local", "path": str(root / folder)}
    return api.post("/warehouse", {"warehouse-name": name, "storage-profile": profile, **more})


def test_bootstrap_works_once() -> None:
    assert api.get("/info").json()["bootstrapped"] is False
    assert api.post("/bootstrap", {"accept-terms-of-use": False}).refused(400, "TermsOfUseNotAccepted")
    assert not Project.objects.exists()
    assert (
        api.post("/bootstrap", {"accept-terms-of-use": True, "is-operator": True, "user-type": "human"}).status == 204
    )
    assert api.post("/bootstrap", {"accept-terms-of-use": True}).refused(400, "CatalogAlreadyBootstrapped")
    info = api.get("/info").json()
    assert (info["bootstrapped"], info["default-project-id"], info["authz-backend"]) == (True, PROJECT, "allow-all")
    assert api.get("/project").json() == {"project-id": PROJECT, "project-name": "Default Project"}
    assert api.get("/project-list").json() == {"projects": [{"project-id": PROJECT, "project-name": "Default Project"}]}


@pytest.mark.parametrize("body", [{}, {"accept-terms-of-use": "perhaps"}, {"accept-terms-of-use": None}])
def test_bad_bootstrap_requests(body: Any) -> None:
    assert api.post("/bootstrap", body).refused(400, "BadRequestException", "accept-terms-of-use")
    assert not Project.objects.exists()


def test_a_warehouse_is_created_loaded_listed_and_deleted(root: Path, bootstrapped: None) -> None:
    created = create(root)
    assert created.status == 201, created.body
    warehouse = created.json()
    profile = {"type": "local", "path": str(root / "wh"), "verify-metadata-on-load": True}
    profile |= {"allow-non-empty-locations": False, "storage-layout": None}
    assert warehouse["storage-profile"] == profile
    assert (warehouse["status"], warehouse["protected"], warehouse["project-id"]) == ("active", False, PROJECT)
    assert (warehouse["allowed-format-versions"], warehouse["delete-profile"]) == ([1, 2, 3], {"type": "hard"})
    assert (root / "wh").is_dir()
    assert api.get(f"/warehouse/{warehouse['id']}").json() == warehouse
    assert api.get("/warehouse").json() == {"warehouses": [warehouse]}
    assert api.get("/warehouse?warehouseStatus=inactive").json() == {"warehouses": []}
    assert api.delete(f"/warehouse/{warehouse['id']}").status == 204
    assert api.get(f"/warehouse/{warehouse['id']}").refused(404, "NoSuchWarehouseException")
    assert not Securable.objects.filter(type="warehouse").exists()


@pytest.mark.parametrize("seconds", [0, 604_800, 3_155_760_000])
def test_a_warehouse_with_soft_delete(root: Path, bootstrapped: None, seconds: int) -> None:
    profile = {"type": "soft", "expiration-seconds": seconds}
    created = create(root, **{"delete-profile": profile}).json()
    assert created["delete-profile"] == profile
    assert api.get(f"/warehouse/{created['id']}").json() == created


def test_names_and_locations_are_unique(root: Path, bootstrapped: None) -> None:
    assert create(root).status == 201
    for folder in ("other", "wh"):
        assert create(root, "WH", folder).refused(409, "WarehouseAlreadyExists")
    for folder in ("wh", "wh/inner", "wh/"):
        assert create(root, "other", folder).refused(400, "CreateWarehouseStorageProfileOverlap")
    assert sorted(path.name for path in root.rglob("*")) == ["wh"]
    assert create(root, "sibling", "wh2").status == 201
    assert Warehouse.objects.count() == 2


@pytest.mark.parametrize(
    ("path", "wire_type"),
    [
        ("relative", "BadRequestException"),
        ("/etc", "InvalidLocation"),
        ("{root}", "InvalidLocation"),
        ("{root}/../x", "InvalidLocation"),
        ("{root}/a%2Fb", "InvalidLocation"),
        ("{root}/link", "InvalidLocation"),
        ("{root}/link/x", "InvalidLocation"),
        ("{root}/file", "InvalidLocation"),
        (7, "BadRequestException"),
        (None, "BadRequestException"),
    ],
)
def test_folders_outside_the_root_are_refused(root: Path, bootstrapped: None, path: Any, wire_type: str) -> None:
    (root / "link").symlink_to("/tmp")
    (root / "file").write_text("x")
    if isinstance(path, str):
        path = path.replace("{root}", str(root))
    body = {"warehouse-name": "wh", "storage-profile": {"type": "local", "path": path}}
    assert api.post("/warehouse", body).refused(400, wire_type)
    assert not Warehouse.objects.exists()


@pytest.mark.parametrize(
    "change",
    [
        {"warehouse-name": ""},
        {"warehouse-name": "a/b"},
        {"warehouse-name": "x" * 129},
        {"warehouse-name": 7},
        {"warehouse-name": None},
        {"storage-profile": None},
        {"storage-profile": []},
        {"storage-profile": {"type": "s3", "bucket": "b"}},
        {"storage-profile": {}},
        {"storage-credential": {"type": "s3"}},
        {"delete-profile": {"type": "soft"}},
        {"delete-profile": {"type": "later", "expiration-seconds": 5}},
        {"delete-profile": {"type": "soft", "expiration-seconds": -1}},
        {"delete-profile": {"type": "soft", "expiration-seconds": True}},
        {"delete-profile": {"type": "soft", "expiration-seconds": 1.5}},
        {"delete-profile": {"type": "soft", "expiration-seconds": "5"}},
        {"delete-profile": {"type": "soft", "expiration-seconds": 3_155_760_001}},
        {"allowed-format-versions": []},
        {"allowed-format-versions": [9]},
        {"allowed-format-versions": "2"},
        {"allowed-format-versions": [1], "default-format-version": 2},
        {"project-id": "no/such"},
    ],
)
def test_bad_warehouse_requests_change_nothing(root: Path, bootstrapped: None, change: dict[str, Any]) -> None:
    good = {"warehouse-name": "wh", "storage-profile": {"type": "local", "path": str(root / "wh")}}
    response = api.post("/warehouse", good | change)
    assert response.status == 400, response.body
    assert not Warehouse.objects.exists()
    assert list(root.iterdir()) == []


def test_local_warehouses_are_off_without_a_root(
    bootstrapped: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "ICEKEEPER", settings.ICEKEEPER.model_copy(update={"local_storage_root": None}))
    assert create(tmp_path).refused(400, "BadRequestException", "ICEKEEPER__LOCAL_STORAGE_ROOT")


@pytest.mark.parametrize("kind", ["missing", "read-only"])
def test_a_root_that_cannot_be_written_to(
    bootstrapped: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The response has the text of the startup warning."""
    root = tmp_path / "storage"
    use_settings(monkeypatch, local_storage_root=root)
    assert "create it, mount a volume there, or unset ICEKEEPER__LOCAL_STORAGE_ROOT" in str(unwritable_storage(root))
    if kind == "read-only":
        root.mkdir()
        assert unwritable_storage(root) is None
        monkeypatch.setattr("os.access", lambda *_: False)
        monkeypatch.setattr("os.mkdir", _refuse_to_write)
    problem = unwritable_storage(root)
    assert problem is not None
    body = {"warehouse-name": "wh", "storage-profile": {"type": "local", "path": str(root / "wh")}}
    for target in ("/warehouse", "/warehouse-creation-validation"):
        assert api.post(target, body).refused(412, "StorageRefusedException", problem)
    assert not Warehouse.objects.exists()


def _refuse_to_write(*_: object, **__: object) -> None:
    raise PermissionError(errno.EACCES, "Permission denied")


def test_a_warehouse_with_contents_is_not_deleted(root: Path, bootstrapped: None) -> None:
    warehouse_id = create(root).json()["id"]
    assert call("POST", f"/catalog/v1/{warehouse_id}/namespaces", body=b'{"namespace": ["a"]}').status == 200
    assert api.delete(f"/warehouse/{warehouse_id}").refused(409, "WarehouseNotEmpty")
    assert call("DELETE", f"/catalog/v1/{warehouse_id}/namespaces/a").status == 204
    Warehouse.objects.update(protected=True)
    assert api.delete(f"/warehouse/{warehouse_id}").refused(409, "WarehouseProtected")
    assert api.delete(f"/warehouse/{warehouse_id}?force=true").status == 204


def test_projects_by_header(root: Path, bootstrapped: None) -> None:
    assert api.get("/warehouse", **{"x-project-id": "nope"}).refused(404, "ProjectNotFound")
    assert api.get("/warehouse", **{"x-project-id": "a b"}).refused(400, "MalformedProjectID")
    assert api.get("/warehouse?warehouseStatus=broken").refused(400, "BadRequestException")
    for target in ("/warehouse/x", "/warehouse/0198e0f4-3f6e-7c31-8c7d-9b7b8f2a1d44", "/warehouse/%7Bx%7D"):
        assert api.get(target).refused(404, "NoSuchWarehouseException")


def test_the_api_documents_are_served() -> None:
    for name, path in (("management", "/management/v1/warehouse"), ("catalog", "/catalog/v1/config")):
        document = call("GET", f"/api-docs/{name}/v1/openapi.json")
        assert document.status == 200
        assert path in document.json()["paths"]
    for page in ("/swagger-ui", "/swagger-ui/", "/swagger-ui/catalog"):
        response = call("GET", page)
        assert response.status == 200
        assert b"swagger-ui" in response.body
        assert re.search(rb"""(src|href)=["']/""", response.body)
        assert not re.search(rb"""(src|href)=["'](https?:)?//""", response.body), "nothing is loaded from other servers"
    assert call("GET", "/api-docs/nope/v1/openapi.json").refused(404, "NotFoundException")


@pytest.mark.parametrize("target", ["/", "/ui"])
def test_the_root_leads_to_the_console(target: str) -> None:
    for method in ("GET", "HEAD"):
        response = call(method, target)
        assert (response.status, response.headers["Location"], response.body) == (302, "/ui/", b"")
    for method in ("POST", "PUT", "DELETE"):
        assert (call(method, target).status, call(method, target).headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("prefix", ["/iceberg", "/a/b/"])
def test_swagger_ui_works_with_a_path_prefix(prefix: str) -> None:
    proxy = {"x-forwarded-host": "lake.example.com", "x-forwarded-prefix": prefix}
    base = prefix.rstrip("/")
    for target in ("/", "/ui"):
        assert call("GET", target, headers=proxy).headers["Location"] == f"{base}/ui/"
    page = call("GET", "/swagger-ui/", headers=proxy).body.decode()
    assert f'"url":"{base}/api-docs/management/v1/openapi.json"' in page
    files = re.findall(r"""(?:src|href)=["']([^"']+)["']""", page)
    assert files
    assert all(each.startswith(f"{base}/") for each in files), files


@pytest.mark.parametrize("prefix", ["//evil.example", "/../x", '/"><script>', "evil"])
@pytest.mark.parametrize("target", ["/ui", "/swagger-ui/"])
def test_a_prefix_that_is_no_path_is_refused(target: str, prefix: str) -> None:
    refused = call("GET", target, headers={"x-forwarded-prefix": prefix})
    assert (refused.status, b"evil" in refused.body, b'"><script' in refused.body) == (400, False, False)


@pytest.mark.parametrize("target", ["/uis", "/ui.html", "/index.html", "/swagger-ui/nope", "/UI"])
def test_other_pages_are_not_found(target: str) -> None:
    assert call("GET", target).refused(404, "NotFoundException")


@pytest.mark.django_db(databases="__all__")
def test_health() -> None:
    for checks in (health._database_checks, health._authorization_checks):
        checks.cache_clear()  # an earlier test may have left a result, or another authorization backend
    response = call("GET", "/health")
    assert (response.status, response.json()["health"]) == (200, "ok")


def test_a_delete_profile_may_have_members_of_the_other_kind_or_unknown_ones(root: Path, bootstrapped: None) -> None:
    """Clients generated from a document send one shape for both kinds."""
    for name, given, kept in (
        ("a", {"type": "hard", "expiration-seconds": None}, {"type": "hard"}),
        ("b", {"type": "hard", "expiration-seconds": 5}, {"type": "hard"}),
        ("c", {"type": "soft", "expiration-seconds": 5, "x": 1}, {"type": "soft", "expiration-seconds": 5}),
    ):
        profile = {"type": "local", "path": str(root / name)}
        created = api.post("/warehouse", {"warehouse-name": name, "storage-profile": profile, "delete-profile": given})
        assert (created.status, created.json()["delete-profile"]) == (201, kept)
