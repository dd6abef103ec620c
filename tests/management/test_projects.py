"""Projects: create, rename, list, and delete when they are empty."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, connections

from management.models import EndpointStatistic
from storage.models import Warehouse
from storage.services.warehouses import create_warehouse
from tenancy.actor import INTERNAL
from tenancy.authz.actions import Can
from tenancy.authz.securables import add_securable
from tenancy.models import Grant, Project, Role, RoleMember, Securable, User
from tenancy.models.securable import ObjectRef
from tests.harness.fingerprint import take_fingerprint
from tests.harness.threads import at_once
from tests.harness.wsgi_client import ApiClient, Response
from tests.management.warehouse_request_fixtures import S3, call_as, refuse, use_settings

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

api = ApiClient("/management/v1")
DEFAULT = "00000000-0000-0000-0000-000000000000"
HOSTILE_NAMES: list[tuple[Any, str]] = [
    ("", "EmptyProjectName"),
    ("   ", "EmptyProjectName"),
    ("x" * 129, "ProjectNameTooLong"),
    ("ü" * 65, "ProjectNameTooLong"),
    ("x" * 10_000, "ProjectNameTooLong"),
    ("a\nb", "BadRequestException"),
    ("a\x00b", "BadRequestException"),
    ("a\u202eb", "BadRequestException"),
    ("sales ", "BadRequestException"),
    (" sales", "BadRequestException"),
    ("sales\u3164", "BadRequestException"),
    ("\u2800", "BadRequestException"),
    ("..", "BadRequestException"),
    (None, "BadRequestException"),
    (7, "BadRequestException"),
    (["a"], "BadRequestException"),
    ({}, "BadRequestException"),
]


@pytest.fixture
def unchanged(bootstrapped: None, storage_root: Path) -> Callable[[], bool]:
    before = take_fingerprint(storage_root)
    return lambda: take_fingerprint(storage_root) == before


def build(name: str = "sales", **more: Any) -> Response:
    return api.post("/project", {"project-name": name, **more})


def names() -> list[str]:
    return [project["project-name"] for project in api.get("/project-list").json()["projects"]]


def test_a_project_is_created_found_renamed_and_deleted(bootstrapped: None) -> None:
    created = build()
    assert created.status == 201, created.body
    assert set(created.json()) == {"project-id"}
    project_id = created.json()["project-id"]
    assert UUID(project_id).version == 7
    in_it = {"x-project-id": project_id}
    shown = {"project-id": project_id, "project-name": "sales"}
    assert api.get("/project", **in_it).json() == api.get(f"/project/{project_id}").json() == shown
    assert names() == ["Default Project", "sales"]
    renamed = api.post("/project/rename", {"new-name": "Sales 2"}, **in_it)
    assert (renamed.status, renamed.body) == (200, b"")
    assert api.post(f"/project/{project_id}/rename", {"new-name": "SALES"}).status == 200
    assert names() == ["Default Project", "SALES"]
    assert api.delete("/project", **in_it).status == 204
    assert api.delete(f"/project/{project_id}").refused(404, "ProjectNotFound", project_id)
    assert names() == ["Default Project"]
    assert not Securable.objects.filter(object_id=project_id).exists()


@pytest.mark.parametrize("project_id", ["a", "A_b-9", "x" * 128, DEFAULT.replace("0", "1")])
def test_an_id_may_be_chosen(bootstrapped: None, project_id: str) -> None:
    assert build(**{"project-id": project_id}).json() == {"project-id": project_id}
    assert api.get(f"/project/{project_id}").json()["project-name"] == "sales"


@pytest.mark.parametrize("project_id", ["", "a b", "a/b", "x" * 129, "x" * 10_000, "ü", "a\n", "a\x00", "a.b"])
def test_ids_that_are_none(unchanged: Callable[[], bool], project_id: str) -> None:
    assert build(**{"project-id": project_id}).status == 400
    assert unchanged()


@pytest.mark.parametrize("project_id", [7, ["a"], {"a": "b"}, True])
def test_ids_of_another_type(unchanged: Callable[[], bool], project_id: Any) -> None:
    assert build(**{"project-id": project_id}).refused(400, "BadRequestException", "project-id")
    assert unchanged()


@pytest.mark.parametrize(("name", "wire_type"), HOSTILE_NAMES)
def test_names_that_are_refused(unchanged: Callable[[], bool], name: Any, wire_type: str) -> None:
    assert api.post("/project", {"project-name": name}).refused(400, wire_type)
    assert api.post("/project/rename", {"new-name": name}).refused(400, wire_type)
    assert api.post(f"/project/{DEFAULT}/rename", {"new-name": name}).refused(400, wire_type)
    assert unchanged()


@pytest.mark.parametrize("raw", [b"", b"[]", b"null", b"{", b'{"project-name": "a", "project-name": "b"}', b"\xff"])
def test_bodies_that_are_refused(unchanged: Callable[[], bool], raw: bytes) -> None:
    assert api.post("/project", raw=raw).refused(400, "BadRequestException")
    assert api.post("/project/rename", raw=raw).refused(400, "BadRequestException")
    assert unchanged()


def test_names_and_ids_are_unique(unchanged: Callable[[], bool], bootstrapped: None) -> None:
    assert build("default project").refused(409, "ProjectNameAlreadyExists")
    assert build(**{"project-id": DEFAULT}).refused(409, "ProjectIdAlreadyExists")
    assert unchanged()
    assert build().status == 201
    assert api.post("/project/rename", {"new-name": "SALES"}).refused(409, "ProjectNameAlreadyExists")
    assert names() == ["Default Project", "sales"]


def test_members_that_are_not_for_clients_are_passed_over(bootstrapped: None) -> None:
    created = build(**{"created-at": "1970-01-01", "id": "x", "project-id": None})
    assert created.status == 201
    assert Project.objects.get(pk=created.json()["project-id"]).created_at.year > 2000


@pytest.mark.parametrize("target", ["/project/nope", "/project/nope/rename"])
def test_unknown_projects(unchanged: Callable[[], bool], target: str) -> None:
    if target.endswith("rename"):
        assert api.post(target, {"new-name": "x"}).refused(404, "ProjectNotFound", "nope")
    else:
        assert api.get(target).refused(404, "ProjectNotFound", "nope")
        assert api.delete(target).refused(404, "ProjectNotFound", "nope")
    for header in ({"x-project-id": "nope"}, {"x-project-ident": "nope"}):
        assert api.get("/project", **header).refused(404, "ProjectNotFound")
        assert api.delete("/project", **header).refused(404, "ProjectNotFound")
        assert api.post("/project/rename", {"new-name": "x"}, **header).refused(404, "ProjectNotFound")
    for hostile in ("a%20b", "a%2Fb", "x" * 200, "%F0%9F%98%80"):
        assert api.get(f"/project/{hostile}").refused(400, "MalformedProjectID")
        assert api.delete(f"/project/{hostile}").refused(400, "MalformedProjectID")
    assert unchanged()


def test_requests_without_a_project(bootstrapped: None, monkeypatch: pytest.MonkeyPatch) -> None:
    use_settings(monkeypatch, enable_default_project=False)
    assert api.get("/project").refused(400, "ProjectIdMissing")
    assert api.delete("/project").refused(400, "ProjectIdMissing")
    assert api.post("/project/rename", {"new-name": "x"}).refused(400, "ProjectIdMissing")
    assert names() == ["Default Project"]


def test_the_default_project_is_deleted_as_any_other_and_can_be_created_again(bootstrapped: None) -> None:
    assert api.delete("/project").status == 204
    assert api.get("/project").refused(404, "ProjectNotFound", DEFAULT)
    assert build("Default Project", **{"project-id": DEFAULT}).status == 201
    assert api.get("/project").json()["project-name"] == "Default Project"


def test_a_project_with_warehouses_stays(bootstrapped: None, storage_root: Path) -> None:
    created = api.post("/warehouse", {"warehouse-name": "wh", "storage-profile": S3}).json()
    for status in ("deactivate", "activate"):
        assert api.post(f"/warehouse/{created['id']}/{status}").status == 200
        assert api.delete("/project").refused(409, "ProjectNotEmpty", DEFAULT)
    assert api.delete(f"/warehouse/{created['id']}").status == 204
    assert api.delete("/project").status == 204


def test_roles_grants_and_statistics_are_deleted_with_the_project(
    bootstrapped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    call_as(monkeypatch, "oidc~alice")
    ids = [build(name).json()["project-id"] for name in ("one", "other")]
    for project_id in ids:
        role = Role.objects.create(project_id=project_id, name="r", name_key="r", source_id=project_id)
        inner = Role.objects.create(project_id=project_id, name="i", name_key="i", source_id=f"{project_id}-i")
        for each in (role, inner):
            add_securable(Securable.Type.ROLE, each.pk, parent=ObjectRef(Securable.Type.PROJECT, project_id))
        RoleMember.objects.create(role=role, member_role=inner)
        RoleMember.objects.create(role=inner, user_id="oidc~alice")
        Grant.objects.create_on(securable_id=f"project:{project_id}", role=role, privilege="select")
        EndpointStatistic.objects.create(
            project_id=project_id, endpoint="GET /x", status=200, hour="2026-01-01T00:00Z", count=1,
            created_at="2026-01-01T00:00Z",
        )  # fmt: skip
    assert api.delete(f"/project/{ids[0]}").status == 204
    for model in (Role, EndpointStatistic):
        assert set(model.objects.values_list("project_id", flat=True)) == {ids[1]}
    assert (RoleMember.objects.count(), Grant.objects.count(), User.objects.count()) == (2, 2, 1)
    assert {each.object_id for each in Securable.objects.filter(type="role")} == {str(r.pk) for r in Role.objects.all()}


def test_the_creator_of_a_project_is_its_admin(bootstrapped: None, monkeypatch: pytest.MonkeyPatch) -> None:
    build("by no caller")
    assert not Grant.objects.exists()
    call_as(monkeypatch, "oidc~alice")
    one, other = (build(name).json()["project-id"] for name in ("one", "other"))
    granted: list[tuple[Any, ...]] = list(Grant.objects.values_list("securable_id", "user_id", "role_id", "privilege"))
    assert sorted(granted) == sorted((f"project:{each}", "oidc~alice", None, "project_admin") for each in (one, other))
    user = User.objects.get()
    assert (user.name, user.email, user.user_type) == ("Alice", "alice@example.com", "human")
    assert not user.has_usable_password()


def test_a_role_created_in_a_role_gets_that_role_as_admin(bootstrapped: None, monkeypatch: pytest.MonkeyPatch) -> None:
    role = Role.objects.create(project_id=DEFAULT, name="r", name_key="r", source_id="r")
    call_as(monkeypatch, "oidc~alice", assumed_role=role.pk)
    build()
    grant = Grant.objects.get()
    assert (grant.user_id, grant.role_id, grant.privilege) == (None, role.pk, "project_admin")


def test_permissions_are_checked(unchanged: Callable[[], bool], monkeypatch: pytest.MonkeyPatch) -> None:
    asked = refuse(monkeypatch).asked
    assert build().refused(403, "ServerActionForbidden", "create_project")
    for response in (
        api.get("/project"), api.get(f"/project/{DEFAULT}"), api.post("/project/rename", {"new-name": "x"}),
        api.post(f"/project/{DEFAULT}/rename", {"new-name": "x"}), api.delete("/project"),
        api.delete(f"/project/{DEFAULT}"),
    ):  # fmt: skip
        assert response.refused(403, "ProjectActionForbidden")
    read, rename, delete = ((each, "project") for each in (Can.GET_METADATA, Can.RENAME, Can.DELETE))
    assert asked == [(Can.CREATE_PROJECT, "server"), read, read, rename, rename, delete, delete]
    assert unchanged()


def test_the_list_has_permitted_projects_only(bootstrapped: None, monkeypatch: pytest.MonkeyPatch) -> None:
    build()
    asked = refuse(monkeypatch).asked
    assert names() == []
    assert asked == [(Can.LIST_ALL_PROJECTS, "server"), *[(Can.INCLUDE_IN_LIST, "project")] * 2]
    refuse(monkeypatch, Can.INCLUDE_IN_LIST)
    assert names() == ["Default Project", "sales"]
    refuse(monkeypatch, Can.LIST_ALL_PROJECTS)
    assert names() == ["Default Project", "sales"]


in_threads = pytest.mark.django_db(transaction=True, serialized_rollback=True)


@in_threads
def test_of_two_projects_of_one_name_or_id_one_is_created(bootstrapped: None) -> None:
    for number in range(5):
        responses = at_once(lambda: build(f"p{number}"), lambda: build(f"P{number}"))  # noqa: B023
        assert sorted(response.status for response in responses) == [201, 409]
        [lost] = [response for response in responses if response.status == 409]
        assert lost.refused(409, "ProjectNameAlreadyExists")
        wanted = {"project-id": f"id-{number}"}
        responses = at_once(lambda: build(f"a{number}", **wanted), lambda: build(f"b{number}", **wanted))  # noqa: B023
        assert sorted(response.status for response in responses) == [201, 409]
        [lost] = [response for response in responses if response.status == 409]
        assert lost.refused(409, "ProjectIdAlreadyExists")
    assert Project.objects.count() == 11


@in_threads
def test_a_project_that_fills_up_meanwhile_stays(bootstrapped: None) -> None:
    """Either the warehouse and its project exist, or neither."""
    results = set()
    for number in range(12):
        project_id = build(f"p{number}").json()["project-id"]
        body = {"warehouse-name": "wh", "storage-profile": S3 | {"key-prefix": f"p{number}"}}
        in_it = {"x-project-id": project_id}
        created, deleted = at_once(
            lambda: api.post("/warehouse", body, **in_it),  # noqa: B023
            lambda: api.delete(f"/project/{project_id}"),  # noqa: B023
        )
        results.add((created.status, deleted.status))
        if created.status == 201:
            assert deleted.refused(409, "ProjectNotEmpty")
            assert Project.objects.filter(pk=project_id).exists()
        else:
            assert created.refused(404, "ProjectNotFound", project_id)
            assert deleted.status == 204
            assert not Warehouse.objects.filter(project_id=project_id).exists()
    assert results <= {(201, 409), (404, 204)}


@in_threads
def test_a_warehouse_being_created_locks_its_project(bootstrapped: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The delete runs after the warehouse's row is written and before it is committed."""
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer at a time")
    project = Project.objects.get()
    written, responded = threading.Event(), threading.Event()

    def slow(*_: Any) -> dict[str, str]:
        written.set()
        responded.wait(0.5)  # the delete waits for the project's row, so this times out
        return {}

    monkeypatch.setattr("storage.services.warehouses.grant_creator", slow)

    def delete() -> Response:
        assert written.wait(30)
        response = api.delete("/project")
        responded.set()
        return response

    def create_one() -> None:
        try:
            create_warehouse(actor=INTERNAL, project=project, name="wh", storage_profile=S3)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        creating = pool.submit(create_one)
        response = delete()
        creating.result(30)
    assert response.refused(409, "ProjectNotEmpty")
    assert Warehouse.objects.get().project_id == project.pk
