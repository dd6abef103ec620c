from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from icekeeper.conf.environment import read_settings
from icekeeper.conf.listing import describe_settings, show_settings
from icekeeper.kernel.db.checks import DatabaseUnreachable, MigrationsMissing, UnusableDatabase
from icekeeper.version import LAKEKEEPER_VERSION, VERSION
from management.management.commands import create_warehouse as command
from management.management.commands import wait_for_db
from storage.errors import StoreUnavailable
from storage.io.local import LocalStore
from storage.models import Warehouse
from storage.services.warehouses import create_warehouse
from tenancy.actor import INTERNAL
from tenancy.models import Grant, Project, Server, User
from tenancy.selectors.projects import get_project
from tests.management.warehouse_request_fixtures import keep_secrets
from tests.parts.minio import Minio
from tests.parts.process import free_port

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(settings, "ICEKEEPER", settings.ICEKEEPER.model_copy(update={"local_storage_root": tmp_path}))
    return tmp_path.resolve()


def run(*arguments: str) -> str:
    out = StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


def test_a_second_bootstrap_is_reported() -> None:
    assert run("bootstrap") == "The catalog is bootstrapped.\n"
    assert run("bootstrap") == "The catalog is already bootstrapped.\n"
    assert Project.objects.count() == 1


def test_a_warehouse_is_created_once(root: Path) -> None:
    run("bootstrap")
    command = ["create_warehouse", "wh", "--local-path", str(root / "wh")]
    assert f"at file://{root}/wh" in run(*command)
    assert run(*command, "--if-not-exists") == "Warehouse wh already exists.\n"
    with pytest.raises(CommandError, match="already exists"):
        run(*command)
    with pytest.raises(CommandError, match="must be below"):
        run("create_warehouse", "other", "--local-path", "/etc", "--if-not-exists")
    assert Warehouse.objects.count() == 1


def test_a_warehouse_needs_a_project(root: Path) -> None:
    with pytest.raises(CommandError, match="Project does not exist"):
        run("create_warehouse", "wh", "--local-path", str(root / "wh"))


def refused(*arguments: str) -> CommandError:
    with pytest.raises(CommandError) as error:
        run(*arguments)
    return error.value


# --- bootstrap -------------------------------------------------------------------------------------------------------


def test_bootstrap_names_an_administrator() -> None:
    about = ["--name", "Alice", "--email", "alice@example.com", "--user-type", "human"]
    assert run("bootstrap", "--admin", "oidc~alice", *about).splitlines() == [
        "The catalog is bootstrapped.",
        "oidc~alice is its administrator.",
    ]
    assert run("bootstrap", "--admin", "oidc~alice").splitlines() == [
        "The catalog is already bootstrapped.",
        "oidc~alice is already its administrator.",
    ]
    assert run("bootstrap", "--admin", "oidc~robot", "--operator").splitlines() == [
        "The catalog is already bootstrapped.",
        "oidc~robot is its operator.",
    ]
    assert set(Grant.objects.values_list("user_id", "privilege")) == {
        ("oidc~alice", "admin"), ("oidc~alice", "project_admin"), ("oidc~robot", "operator")
    }  # fmt: skip
    alice = User.objects.get(pk="oidc~alice")
    assert (alice.name, alice.email, alice.user_type) == ("Alice", "alice@example.com", "human")


def test_bootstrap_as_data() -> None:
    planned = json.loads(run("bootstrap", "--dry-run", "--json"))
    step = {"path": "", "action": "bootstrap", "change": "bootstrap the catalog"}
    assert planned == {"dry-run": True, "changed": True, "steps": [step], "problems": []}
    assert not Project.objects.exists()
    assert json.loads(run("bootstrap", "--json")) == planned | {"dry-run": False}
    assert json.loads(run("bootstrap", "--json"))["changed"] is False


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--admin", "alice"], "administrators[0].user-id: A user id is"),
        (["--admin", "oidc~a", "--name", "x" * 256], "administrators[0].user-name"),
        (["--operator"], "require --admin"),
        (["--name", "x"], "require --admin"),
        (["--file", "/no/such", "--email", "x"], "require --admin"),
        (["--admin", "oidc~a", "--file", "x"], "not allowed with argument"),
        (["--admin", "oidc~a", "--user-type", "god"], "invalid choice"),
    ],
)
def test_bootstrap_refuses(arguments: list[str], text: str) -> None:
    assert text in str(refused("bootstrap", *arguments))
    assert not Project.objects.exists()
    assert not User.objects.exists()


def test_bootstrap_is_reopened_on_purpose_only() -> None:
    run("bootstrap")
    assert "--yes" in str(refused("reopen_bootstrap"))
    assert Server.objects.get().bootstrapped_at is not None
    assert run("reopen_bootstrap", "--yes") == "Bootstrap is reopened.\n"
    assert json.loads(run("reopen_bootstrap", "--yes", "--json")) == {"reopened": False}
    assert run("reopen_bootstrap", "--yes") == "The catalog is not bootstrapped: nothing to reopen.\n"
    assert run("bootstrap") == "The catalog is bootstrapped.\n"


# --- warehouses and their storage ------------------------------------------------------------------------------------


def test_a_warehouse_from_a_profile(root: Path, tmp_path: Path) -> None:
    run("bootstrap")
    profile = {"type": "local", "path": str(root / "a"), "verify-metadata-on-load": False}
    rules = ["--delete-profile", "soft:60", "--format-versions", "2, 3", "--default-format-version", "3", "--protected"]
    rules += ["--managed-by", "instance-admin"]
    created = json.loads(run("create_warehouse", "a", "--profile", json.dumps(profile), *rules, "--json"))
    warehouse = Warehouse.objects.get()
    assert created == {"created": True, "name": "a", "id": str(warehouse.pk), "location": f"file://{root}/a"}
    assert warehouse.storage_profile["verify-metadata-on-load"] is False
    assert warehouse.delete_profile == {"type": "soft", "expiration-seconds": 60}
    assert (warehouse.allowed_format_versions, warehouse.default_format_version) == ([2, 3], 3)
    assert (warehouse.protected, warehouse.managed_by) == (True, "instance-admin")
    (tmp_path / "profile.yaml").write_text(f"type: local\npath: {root}/b\n")
    assert "Created warehouse b with id " in run("create_warehouse", "b", "--profile", str(tmp_path / "profile.yaml"))
    again = run("create_warehouse", "b", "--local-path", str(root / "b"), "--if-not-exists", "--json")
    there = Warehouse.objects.get(name="b")
    assert json.loads(again) == {"created": False, "name": "b", "id": str(there.pk), "location": there.location}
    assert not there.protected
    run("create_warehouse", "b", "--local-path", str(root / "b"), "--if-not-exists", "--protected")
    assert Warehouse.objects.get(name="b").protected


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--profile", '{"type": "local"'], "not JSON at line 1"),
        (["--profile", '{"type": "local", "type": "s3"}'], "occurs twice"),
        (["--profile", "/no/such"], "/no/such cannot be read"),
        (["--profile", "{}"], "storage-profile.type: must be one of"),
        (["--profile", '{"type": "s3"}'], "storage-profile.bucket: Field required"),
        (["--local-path", "/etc"], "must be below"),
        (["--local-path", "/x", "--profile", "{}"], "not allowed with argument"),
        ([], "one of the arguments --local-path --profile is required"),
        (["--local-path", "/x", "--delete-profile", "soft"], "must be hard or soft:SECONDS"),
        (["--local-path", "/x", "--delete-profile", "soft:-1"], "must be hard or soft:SECONDS"),
        (["--local-path", "/x", "--format-versions", "2;3"], "must be numbers such as 2,3"),
        (["--local-path", "/x", "--format-versions", "²"], "must be numbers such as 2,3"),
        (["--local-path", "{root}/w", "--format-versions", "9"], "allowed-format-versions"),
        (["--local-path", "{root}/w", "--default-format-version", "4"], "default-format-version"),
        (["--local-path", "{root}/w", "--project-id", "no"], "Project does not exist"),
        (["--local-path", "{root}/w", "--credential", "/no/such"], "/no/such cannot be read"),
        (["--local-path", "{root}/w", "--credential", "{secret}"], "storage-credential.type: must be one of"),
        (["--local-path", "{root}/w", "--credential", "{list}"], "--credential: must be an object"),
        (["--local-path", "{root}/w", "--credential", "{nowhere}"], "the variable 'NO_SUCH_VARIABLE' is not set"),
    ],
)
def test_warehouses_that_are_refused(
    root: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], text: str
) -> None:
    run("bootstrap")
    files = {"secret": '{"key": "canary"}', "list": '["canary"]', "nowhere": "a: canary\nb: {env: NO_SUCH_VARIABLE}"}
    for name, content in files.items():
        (tmp_path / f"{name}.yaml").write_text(content)
        arguments = [each.replace("{" + name + "}", str(tmp_path / f"{name}.yaml")) for each in arguments]
    arguments = [each.replace("{root}", str(root)) for each in arguments]
    said = str(refused("create_warehouse", "w", *arguments))
    assert text in said
    captured = capfd.readouterr()
    assert "canary" not in said + captured.out + captured.err
    assert not Warehouse.objects.exists()


def test_a_credential_is_read_from_standard_input(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("bootstrap")

    class Input:
        buffer = io.BytesIO(b"secret: {env: A_SECRET}")

    received: list[Any] = []

    def create(**arguments: Any) -> Any:
        received.append(arguments.pop("storage_credential"))
        return create_warehouse(**arguments)

    monkeypatch.setattr(sys, "stdin", Input())
    monkeypatch.setenv("A_SECRET", "canary")
    monkeypatch.setattr(command, "create_warehouse", create)
    said = run("create_warehouse", "w", "--local-path", str(root / "w"), "--credential", "-")
    assert received == [{"secret": "canary"}]
    assert "canary" not in said


def test_storage_is_validated(root: Path, files_below: Callable[[], list[str]]) -> None:
    run("bootstrap")
    run("create_warehouse", "w", "--local-path", str(root / "w"))
    Warehouse.objects.update(status="inactive")  # as during a repair of its storage
    lines = run("check_storage", "w").splitlines()
    assert lines[0] == f"local storage at file://{root}/w"
    skipped = "skipped:"
    assert [line.split()[:2] for line in lines[1:]] == [
        ["storage-client-initialized", "ok"],
        ["lakekeeper-read-write", "ok"],
        ["vended-credentials-issued", skipped],
        ["vended-credentials-read-write", skipped],
        ["vended-credentials-scope-enforced", skipped],
        ["remote-signing", skipped],
        ["cleanup", "ok"],
    ]
    reported = json.loads(run("check_storage", "00000000-0000-0000-0000-000000000000/w", "--json"))
    assert (reported["ok"], reported["type"], [check["problem"] for check in reported["checks"]]) == (
        True,
        "local",
        [None] * 7,
    )
    assert files_below() == []
    assert "Warehouse" in str(refused("check_storage", "nope"))
    assert refused("check_storage", "nope").returncode == 1


@pytest.fixture
def files_below(root: Path) -> Callable[[], list[str]]:
    return lambda: sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.name != "w")


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        ("put_new", StoreUnavailable("The local store failed: No space left on device")),
        ("get", StoreUnavailable("The local store failed: Input/output error")),
        ("is_empty", None),
        ("delete_below", None),
    ],
)
def test_failing_storage_is_reported_and_no_file_remains(
    root: Path, files_below: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch, step: str, problem: Any
) -> None:
    run("bootstrap")
    run("create_warehouse", "w", "--local-path", str(root / "w"))

    def fail(*_: Any, **__: Any) -> Any:
        if problem is not None:
            raise problem
        return True  # reports that nothing exists; deletes nothing

    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, step, fail)
        if step == "delete_below":
            patched.setattr(LocalStore, "delete", fail)
        out = StringIO()
        with pytest.raises(CommandError, match="The storage of warehouse w does not work") as error:
            call_command("check_storage", "w", stdout=out)
    assert error.value.returncode == 1
    expected = {
        "put_new": "lakekeeper-read-write               The local store failed: No space left on device",
        "get": "lakekeeper-read-write               The local store failed: Input/output error",
        "is_empty": "lakekeeper-read-write               The object is not listed",
        "delete_below": "lakekeeper-read-write               The object still exists after it was deleted",
    }
    assert expected[step] in out.getvalue()
    assert bool(files_below()) == (step == "delete_below")


def test_storage_of_others_is_validated(minio: Minio, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_secrets(monkeypatch)
    run("bootstrap")
    create_warehouse(
        actor=INTERNAL, project=get_project(None), name="w",
        storage_profile=minio.profile(bucket, "w"), storage_credential=minio.credential,
    )  # fmt: skip
    reported = json.loads(run("check_storage", "w", "--json"))
    statuses = {check["check"]: check["status"] for check in reported["checks"]}
    assert (reported["ok"], reported["type"]) == (True, "s3")
    assert statuses == dict.fromkeys(statuses, "passed") | {"remote-signing": "skipped"}
    assert minio.keys(bucket) == []
    minio.client().delete_bucket(Bucket=bucket)
    out = StringIO()
    with pytest.raises(CommandError, match="The storage of warehouse w does not work"):
        call_command("check_storage", "w", stdout=out)
    assert f"lakekeeper-read-write               The bucket of s3://{bucket}/w/" in out.getvalue()


# --- settings and versions -------------------------------------------------------------------------------------------


def test_every_setting_is_shown_with_its_origin() -> None:
    reported = json.loads(run("show_config", "--json"))
    by_name = {each["variable"]: each for each in reported["settings"]}
    described = {each.variable for each in describe_settings()}
    assert set(by_name) == {each for each in described if "<" not in each}, "no provider has a name"
    assert by_name["LAKEKEEPER__LISTEN_PORT"] == {
        "variable": "LAKEKEEPER__LISTEN_PORT", "value": 8181, "from": "default", "secret": False
    }  # fmt: skip
    assert by_name["ICEKEEPER__DATA_DIR"]["from"] == "environment"
    assert reported["unread-variables"] == list(settings.UNREAD_VARIABLES)
    only = json.loads(run("show_config", "--set", "--json"))["settings"]
    assert only == [each for each in reported["settings"] if each["from"] == "environment"]
    assert "LAKEKEEPER__MAX_REQUEST_TIME" in run("show_config")


def test_secrets_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    own, unread = read_settings(
        {
            "LAKEKEEPER__PG_DATABASE_URL_WRITE": "postgresql://u:canary@h/d",
            "LAKEKEEPER__PG_PASSWORD": "canary",
            "ICEKEEPER__SECRET_KEY": "canary-0123456789-0123456789-0123456789",
            "LAKEKEEPER__BASE_URI": "https://u:canary@catalog.example.com/x",
            "LAKEKEEPER__ALLOW_ORIGIN": "https://a,https://b",
            "ICEKEEPER__SERVER__THREADS": "3",
            "LAKEKEEPER__NO_SUCH": "canary",
        }
    )
    monkeypatch.setattr(settings, "ICEKEEPER", own)
    monkeypatch.setattr(settings, "UNREAD_VARIABLES", unread)
    text = run("show_config")
    assert "canary" not in text + run("show_config", "--json")
    assert "Unknown variables: LAKEKEEPER__NO_SUCH" in text
    shown = {each.variable: (each.value, each.is_set, each.is_secret) for each in show_settings(own)}
    assert shown["ICEKEEPER__SECRET_KEY"] == ("********", True, True)
    assert shown["LAKEKEEPER__PG_DATABASE_URL_READ"] == (None, False, True)
    assert shown["LAKEKEEPER__BASE_URI"] == ("https://********@catalog.example.com/x", True, False)
    assert shown["LAKEKEEPER__ALLOW_ORIGIN"] == (["https://a", "https://b"], True, False)
    assert shown["ICEKEEPER__SERVER__THREADS"] == (3, True, False)


def test_the_version() -> None:
    reported = json.loads(run("version", "--json"))
    assert (reported["icekeeper"], reported["lakekeeper"]) == (VERSION, LAKEKEEPER_VERSION)
    assert run("version").startswith(f"icekeeper {VERSION} (APIs of Lakekeeper {LAKEKEEPER_VERSION}; Django ")


# --- waiting and checking --------------------------------------------------------------------------------------------


class Tries:
    """Replace the database checks: fail as often as configured, then succeed."""

    def __init__(self, *errors: Exception) -> None:
        self.errors, self.asked, self.slept = list(errors), [], []

    def check(self, *, needs_migrations: bool = True) -> None:
        self.asked.append(needs_migrations)
        if self.errors:
            raise self.errors.pop(0)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


@pytest.fixture
def tries(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Tries]:
    def create(*errors: Exception) -> Tries:
        created = Tries(*errors)
        monkeypatch.setattr(wait_for_db, "check_databases", created.check)
        monkeypatch.setattr(wait_for_db, "time", created)
        return created

    return create


def test_waiting_ends_when_the_databases_are_ready(tries: Callable[..., Tries]) -> None:
    created = tries(DatabaseUnreachable("away"), MigrationsMissing("behind"))
    assert run("wait_for_db", "--backoff", "0.5") == "The databases are ready.\n"
    assert (created.asked, created.slept) == ([True] * 3, [0.5, 0.5])
    assert json.loads(run("wait_for_db", "--json")) == {"ready": True, "problem": None}


def test_waiting_ends_after_the_timeout(tries: Callable[..., Tries]) -> None:
    created = tries(*[DatabaseUnreachable("away")] * 20)
    assert str(refused("wait_for_db")) == "away"
    assert (len(created.asked), created.slept) == (16, [2.0] * 15)
    created = tries(*[DatabaseUnreachable("away")] * 20)
    assert str(refused("wait_for_db", "--retries", "0")) == "away"
    assert (len(created.asked), created.slept) == (1, [])


def test_waiting_ends_at_once_on_permanent_errors(tries: Callable[..., Tries]) -> None:
    created = tries(UnusableDatabase("migrated by a newer version"))
    assert str(refused("wait_for_db")) == "migrated by a newer version"
    assert (len(created.asked), created.slept) == (1, [])


@pytest.mark.parametrize(
    ("options", "needs_migrations"),
    [([], True), (["-m"], True), (["-d", "-m"], True), (["-d"], False), (["--check-db"], False)],
)
def test_waiting_with_and_without_migrations(
    tries: Callable[..., Tries], options: list[str], needs_migrations: bool
) -> None:
    created = tries()
    run("wait_for_db", *options)
    assert created.asked == [needs_migrations]


@pytest.mark.parametrize(
    "options", [["-r", "-1"], ["-r", "x"], ["-r", "99999"], ["-b", "-1"], ["-b", "nan"], ["-b", "inf"], ["-b", "soon"]]
)
def test_meaningless_options(tries: Callable[..., Tries], options: list[str]) -> None:
    created = tries()
    refused("wait_for_db", *options)
    assert created.asked == []


@pytest.mark.django_db(databases="__all__")
def test_the_databases_of_this_run_are_ready() -> None:
    assert run("wait_for_db", "--retries", "0") == "The databases are ready.\n"
    assert run("healthcheck", "-d") == "ok\n"


def test_an_unavailable_server_is_unhealthy(monkeypatch: pytest.MonkeyPatch) -> None:
    own = settings.ICEKEEPER.model_copy(update={"listen_port": free_port(), "bind_ip": "::"})
    monkeypatch.setattr(settings, "ICEKEEPER", own)
    error = refused("healthcheck")
    assert error.returncode == 1
    assert f"http://[::1]:{own.listen_port}/health does not respond" in str(error)


@pytest.mark.django_db(databases="__all__")
def test_a_server_does_not_start_without_accepted_terms() -> None:
    run("bootstrap")
    Server.objects.update(terms_accepted_at=None)
    assert "the terms of use are not accepted" in str(refused("serve"))
