"""Concurrent changes of grants on PostgreSQL, one stopped in the middle: no deadlock, and the last administrator
stays.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection, connections

from icekeeper.kernel.errors.types import NotFound
from tenancy.actor import INTERNAL, Grantee
from tenancy.models import Grant, Project, Role, Securable, Server, User
from tenancy.models.securable import ObjectRef
from tenancy.services import grants, projects, role_members, roles, users
from tenancy.services.administrators import LastAdministrator, administrated_among
from tenancy.services.grants import Difference, GrantRoleNotInProject, GrantSpec, apply_grants
from tenancy.services.projects import create_project, delete_project
from tenancy.services.role_members import Members, add_role_members, remove_role_members
from tenancy.services.roles import create_role, delete_role
from tenancy.services.users import create_service_account, delete_service_account, delete_user

pytestmark = [pytest.mark.django_db(transaction=True, serialized_rollback=True), pytest.mark.timeout(120)]

TIMEOUT_SECONDS = 30
NOT_FOUND = NotFound("there is no such thing")
REF: ObjectRef = ObjectRef(Securable.Type.PROJECT, "met")
ADMIN = Grantee(user_id="oidc~admin")
_WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


@pytest.fixture
def project(bootstrapped: None) -> Project:
    """A project that `ADMIN` administrates."""
    if connection.vendor != "postgresql":
        pytest.skip("the PostgreSQL run has this: on SQLite writers wait for each other as a whole")
    created = create_project(actor=INTERNAL, name="met", project_id="met")
    for name in ("admin", "member"):
        User.objects.create(id=f"oidc~{name}", name=name)
    change(writes=[GrantSpec("project_admin", ADMIN)])
    return created


@pytest.fixture
def team(project: Project) -> Role:
    """A role with one member and no grants."""
    created = create_role(actor=INTERNAL, project=project, name="team")
    add_role_members(actor=INTERNAL, project=project, role_id=created.pk, members=Members(["oidc~member"]))
    return created


def change(**difference: Any) -> None:
    apply_grants(actor=INTERNAL, ref=REF, difference=Difference(**difference), missing=NOT_FOUND)


Meet = Callable[..., tuple[BaseException | None, BaseException | None]]


@pytest.fixture
def meet(monkeypatch: pytest.MonkeyPatch) -> Iterator[Meet]:
    """Return the results of `first`, which stops at its call of `name` until `second` waits or is done, and of
    `second`.
    """
    with ThreadPoolExecutor(2) as pool:

        def run(act: Callable[[], Any]) -> BaseException | None:
            try:
                act()
            except Exception as error:  # noqa: BLE001 - returned to the test
                return error
            finally:
                connections.close_all()
            return None

        def meet(
            module: Any, name: str, first: Callable[[], Any], second: Callable[[], Any], *, after: bool = False
        ) -> tuple[BaseException | None, BaseException | None]:
            real, is_there, may_go = getattr(module, name), threading.Event(), threading.Event()

            def held(*args: Any, **more: Any) -> Any:
                if is_there.is_set():  # the other one, or a second call
                    return real(*args, **more)
                found = real(*args, **more) if after else None
                is_there.set()
                assert may_go.wait(TIMEOUT_SECONDS)
                return found if after else real(*args, **more)

            monkeypatch.setattr(module, name, held)
            one = pool.submit(run, first)
            assert is_there.wait(TIMEOUT_SECONDS)
            other = pool.submit(run, second)
            _until_waiting(other)
            may_go.set()
            return one.result(TIMEOUT_SECONDS), other.result(TIMEOUT_SECONDS)

        yield meet


def _until_waiting(other: Future[Any]) -> None:
    end = time.monotonic() + TIMEOUT_SECONDS
    while not other.done():
        with connection.cursor() as cursor:
            cursor.execute(_WAITING)
            row = cursor.fetchone()
        if row is not None and row[0]:
            return
        assert time.monotonic() < end, "it neither waits nor ends"
        time.sleep(0.01)


def test_a_grant_to_a_role_and_the_end_of_its_project(meet: Meet, project: Project, team: Role) -> None:
    results = meet(
        grants,
        "_require_grantees_in_project",
        lambda: change(writes=[GrantSpec("select", Grantee(role_id=team.pk))]),
        lambda: delete_project(actor=INTERNAL, project_id="met"),
    )
    assert results == (None, None)
    assert not Project.objects.filter(pk="met").exists()
    assert not Grant.objects.filter(securable="project:met").exists()


def test_a_grant_to_a_service_account_and_its_end(meet: Meet, project: Project) -> None:
    robot = create_service_account(actor=INTERNAL, name="robot")
    to = Grantee(user_id=robot.user_id)
    change(writes=[GrantSpec("project_admin", to)])
    results = meet(
        grants,
        "lock_row",
        lambda: change(writes=[GrantSpec("select", to)]),
        lambda: delete_service_account(actor=INTERNAL, account_id=robot.pk),
    )
    assert results == (None, None)
    assert not Grant.objects.filter(user=robot.user_id).exists()
    assert User.objects.get(pk=robot.user_id).deleted_at is not None


def hand_over(role: Role) -> None:
    """Grant the administration of the project to the role instead of `ADMIN`."""
    change(writes=[GrantSpec("project_admin", Grantee(role_id=role.pk))])
    change(deletes=[GrantSpec("project_admin", ADMIN)])


def test_a_deleted_role_cannot_become_administrator(meet: Meet, project: Project, team: Role) -> None:
    first, second = meet(
        roles,
        "administrated_by",
        lambda: delete_role(actor=INTERNAL, project=project, role_id=team.pk),
        lambda: hand_over(team),
        after=True,
    )
    assert first is None
    assert isinstance(second, GrantRoleNotInProject)
    assert administrated_among(["project:met"]) == {"project:met"}


@pytest.mark.parametrize("is_nested", [False, True])
def test_a_role_that_is_emptied_is_no_administrator(meet: Meet, project: Project, team: Role, is_nested: bool) -> None:
    outer = team
    if is_nested:
        outer = create_role(actor=INTERNAL, project=project, name="outer")
        add_role_members(actor=INTERNAL, project=project, role_id=outer.pk, members=Members([], [team.pk]))
    first, second = meet(
        role_members,
        "administrated_by",
        lambda: remove_role_members(actor=INTERNAL, project=project, role_id=team.pk, members=Members(["oidc~member"])),
        lambda: hand_over(outer),
        after=True,
    )
    assert first is None
    assert isinstance(second, LastAdministrator)
    assert administrated_among(["project:met"]) == {"project:met"}


@pytest.mark.parametrize("is_robot", [False, True])
def test_a_deleted_member_is_no_administrator(meet: Meet, project: Project, team: Role, is_robot: bool) -> None:
    robot = create_service_account(actor=INTERNAL, name="robot")
    if is_robot:
        remove_role_members(actor=INTERNAL, project=project, role_id=team.pk, members=Members(["oidc~member"]))
        add_role_members(actor=INTERNAL, project=project, role_id=team.pk, members=Members([robot.user_id]))
    first, second = meet(
        users,
        "administrated_by",
        (lambda: delete_service_account(actor=INTERNAL, account_id=robot.pk))
        if is_robot
        else (lambda: delete_user(actor=INTERNAL, user_id="oidc~member")),
        lambda: hand_over(team),
        after=True,
    )
    assert first is None
    assert isinstance(second, LastAdministrator)
    assert administrated_among(["project:met"]) == {"project:met"}


@pytest.fixture
def server(team: Role) -> ObjectRef:
    """`team` and `ADMIN` are operators of the server."""
    ref: ObjectRef = ObjectRef(Securable.Type.SERVER, Server.objects.get().server_id)
    for grantee in (Grantee(role_id=team.pk), ADMIN):
        operate(ref, writes=[GrantSpec("operator", grantee)])
    return ref


def operate(ref: ObjectRef, **difference: Any) -> None:
    apply_grants(actor=INTERNAL, ref=ref, difference=Difference(**difference), missing=NOT_FOUND)


def test_delete_project_of_an_operator_role_against_removal_of_the_other_operator(
    meet: Meet, server: ObjectRef
) -> None:
    on = f"server:{server[1]}"
    first, second = meet(
        projects,
        "administrated_by",
        lambda: delete_project(actor=INTERNAL, project_id="met"),
        lambda: operate(server, deletes=[GrantSpec("operator", ADMIN)]),
        after=True,
    )
    assert (type(first), second) == (LastAdministrator, None)
    assert administrated_among([on]) == {on}
    assert Project.objects.filter(pk="met").exists()


def test_delete_project_against_delete_of_an_administrator(meet: Meet, server: ObjectRef) -> None:
    """Both requests lock the securables of both."""
    on = f"server:{server[1]}"
    change(writes=[GrantSpec("project_admin", Grantee(user_id="oidc~member"))])
    operate(server, writes=[GrantSpec("operator", Grantee(user_id="oidc~member"))])
    results = meet(
        projects,
        "delete_grants_of_roles",
        lambda: delete_project(actor=INTERNAL, project_id="met"),
        lambda: delete_user(actor=INTERNAL, user_id="oidc~admin"),
    )
    assert results == (None, None)
    assert administrated_among([on]) == {on}
