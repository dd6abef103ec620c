"""`manage.py bootstrap --file`: create declared objects, report differences, and resolve secrets."""

from __future__ import annotations

import io
import json
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from pydantic import SecretStr

from icekeeper.kernel.errors.types import BadRequest, Conflict
from management.bootstrap import plan as plan_module
from storage.models import Warehouse
from storage.services.warehouses import WarehouseExists, create_warehouse
from tenancy.models import Grant, Project, Server, User
from tenancy.services.server import reopen_bootstrap
from tests.management.bootstrap_file_fixtures import CANARY, DEFAULT, NOTHING, declared, entry, full, refused, run
from tests.management.warehouse_request_fixtures import KEY, S3, keep_secrets, use_settings

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

__all__ = ["declared", "full"]

ROBOT = ("oidc~robot", "Nameless App with ID oidc~robot", "", "application")


def test_a_new_catalog_gets_the_declared_objects(full: Any, declared: Any, everything: Any) -> None:
    location, before = declared(full), everything()
    would = run(location, "--dry-run")
    assert everything() == before
    said = run(location)
    assert said == would.replace("would ", "done: ")
    assert said.splitlines() == [
        "done: bootstrap the catalog and appoint oidc~alice administrator of the server",
        "done: appoint oidc~robot operator of the server",
        f"done: rename the project {DEFAULT} from 'Default Project' to 'Analytics'",
        "done: create the project lab, named 'Laboratory'",
        f"done: create the warehouse 'sales' in the project {DEFAULT}",
        "done: create the warehouse 'Sandbox' in the project lab",
    ]
    assert Server.objects.get().bootstrapped_at is not None
    users = set(User.objects.values_list("id", "name", "email", "user_type"))
    assert users == {
        ("oidc~alice", "Alice", "alice@example.com", "human"),
        ROBOT,
    }
    assert set(Grant.objects.values_list("user_id", "privilege")) == {
        ("oidc~alice", "admin"), ("oidc~alice", "project_admin"), ("oidc~robot", "operator")
    }  # fmt: skip
    assert dict(Project.objects.values_list("id", "name")) == {DEFAULT: "Analytics", "lab": "Laboratory"}
    sales = Warehouse.objects.get(project_id=DEFAULT)
    assert (sales.name, sales.protected, sales.allowed_format_versions, sales.default_format_version) == (
        "sales", True, [2, 3], 2
    )  # fmt: skip
    assert sales.delete_profile == {"type": "soft", "expiration-seconds": 604800}
    assert sales.managed_by == "instance-admin"
    sandbox = Warehouse.objects.get(project_id="lab")
    assert (sandbox.name, sandbox.protected, sandbox.allowed_format_versions, sandbox.delete_profile) == (
        "Sandbox", False, [1, 2, 3], {"type": "hard"}
    )  # fmt: skip


def test_a_second_run_changes_nothing_and_reports_it(full: Any, declared: Any, everything: Any) -> None:
    location = declared(full)
    run(location)
    before = everything()
    assert run(location) == run(location, "--dry-run") == NOTHING
    assert json.loads(run(location, "--json")) == {"dry-run": False, "changed": False, "steps": [], "problems": []}
    assert everything() == before


def test_differences_are_applied(full: Any, declared: Any, everything: Any) -> None:
    run(declared(full))
    full["projects"][1]["project-name"] = "Lab"
    full["administrators"].append({"user-id": "oidc~bob"})
    sales, sandbox = full["warehouses"]
    sales |= {"delete-profile": {"type": "hard"}, "protected": False, "allowed-format-versions": [2]}
    sandbox |= {"warehouse-name": "sandbox", "protected": True, "default-format-version": 3}
    sandbox["managed-by"] = "instance-admin"
    location, before = declared(full), everything()
    planned = json.loads(run(location, "--dry-run", "--json"))
    assert everything() == before
    assert [(step["path"], step["action"]) for step in planned["steps"]] == [
        ("administrators[2]", "appoint-administrator"),
        ("projects[1]", "rename-project"),
        ("warehouses[0]", "set-delete-profile"),
        ("warehouses[0]", "set-format-version-policy"),
        ("warehouses[0]", "set-warehouse-protection"),
        ("warehouses[1]", "rename-warehouse"),
        ("warehouses[1]", "set-format-version-policy"),
        ("warehouses[1]", "set-warehouse-protection"),
        ("warehouses[1]", "set-managed-by"),
    ]
    assert json.loads(run(location, "--json")) == planned | {"dry-run": False}
    created = {warehouse.name: warehouse for warehouse in Warehouse.objects.all()}
    assert (created["sales"].delete_profile, created["sales"].protected) == ({"type": "hard"}, False)
    assert (created["sales"].allowed_format_versions, created["sales"].default_format_version) == ([2], 2)
    assert (created["sandbox"].protected, created["sandbox"].default_format_version) == (True, 3)
    assert created["sandbox"].managed_by == "instance-admin"
    assert Project.objects.get(pk="lab").name == "Lab"
    assert run(location) == NOTHING


def test_a_warehouse_is_renamed_by_its_id(full: Any, declared: Any) -> None:
    run(declared(full))
    sales = Warehouse.objects.get(name="sales")
    full["warehouses"][0] |= {"warehouse-id": str(sales.pk), "warehouse-name": "revenue"}
    assert run(declared(full)) == "done: in the warehouse 'sales' set the name to 'revenue'\n"
    assert Warehouse.objects.get(pk=sales.pk).name == "revenue"
    full["warehouses"][0]["warehouse-id"] = "0198e0f4-3f6e-7c31-8c7d-9b7b8f2a1d44"
    assert "warehouses[0].warehouse-id: no such warehouse in the project" in refused(declared(full))
    full["warehouses"][0] |= {"warehouse-id": str(sales.pk), "project-id": "lab"}
    assert "no such warehouse in the project lab" in refused(declared(full))


def test_undeclared_settings_are_kept(full: Any, declared: Any, everything: Any) -> None:
    run(declared(full))
    before = everything()
    del full["warehouses"][1], full["projects"], full["administrators"]
    for member in ("delete-profile", "allowed-format-versions", "default-format-version", "protected", "managed-by"):
        del full["warehouses"][0][member]
    assert run(declared(full)) == NOTHING
    assert run(declared({})) == NOTHING
    assert everything() == before


def test_a_default_version_is_removed_by_null(full: Any, declared: Any) -> None:
    run(declared(full))
    full["warehouses"][0]["default-format-version"] = None
    assert "default none" in run(declared(full))
    assert Warehouse.objects.get(name="sales").default_format_version is None


def test_where_a_warehouse_stores_is_refused_and_nothing_is_changed(
    full: Any, declared: Any, everything: Any, storage_root: Path
) -> None:
    run(declared(full))
    before = everything()
    full["projects"][1]["project-name"] = "Other"
    full["warehouses"][0]["storage-profile"] = {"type": "s3", "bucket": "b", "region": "r", "sts-enabled": False}
    full["warehouses"][1]["storage-profile"] |= {"path": str(storage_root / "x"), "verify-metadata-on-load": False}
    assert refused(declared(full)).splitlines() == [
        "warehouses[0].storage-profile.type: the warehouse 'sales' is of type local, which cannot be changed",
        "warehouses[1].storage-profile.path: the warehouse 'Sandbox' has another value; bootstrap does not change it",
        (
            "warehouses[1].storage-profile.verify-metadata-on-load: "
            "the warehouse 'Sandbox' has another value; bootstrap does not change it"
        ),
    ]
    assert everything() == before


ADLS = {"type": "adls", "filesystem": "lake", "account-name": "account"}
SHARED_KEY = {"type": "az", "credential-type": "shared-access-key", "key": "a2V5"}


@pytest.mark.parametrize(
    ("stored", "credential", "declared_members", "another"),
    [
        (ADLS, SHARED_KEY, {"host": "dfs.core.windows.net"}, {"host": "dfs.core.chinacloudapi.cn"}),
        (
            ADLS,
            SHARED_KEY,
            {"authority-host": "https://login.microsoftonline.com"},
            {"authority-host": "https://login.example.com"},
        ),
        (ADLS, SHARED_KEY, {"sas-token-validity-seconds": 3600}, {"sas-token-validity-seconds": 60}),
        (S3, KEY, {"allow-alternative-protocols": False}, {"allow-alternative-protocols": True}),
        (S3, KEY, {"legacy-md5-behavior": False}, {"legacy-md5-behavior": True}),
        (S3 | {"path-style-access": True}, KEY, {"path-style-access": True}, {"path-style-access": False}),
    ],
)
def test_a_default_may_be_declared_of_a_warehouse_that_has_it(
    full: Any, declared: Any, everything: Any, monkeypatch: pytest.MonkeyPatch,
    stored: Any, credential: Any, declared_members: Any, another: Any,
) -> None:  # fmt: skip
    keep_secrets(monkeypatch)
    use_settings(monkeypatch, skip_storage_validation=True)
    warehouse = full["warehouses"][0] | {"storage-profile": stored, "storage-credential": credential}
    full["warehouses"] = [warehouse]
    run(declared(full))
    before = everything()
    warehouse["storage-profile"] = stored | declared_members
    assert run(declared(full)) == NOTHING
    warehouse["storage-profile"] = stored | another
    [member] = another
    assert f"storage-profile.{member}: the warehouse 'sales' has another value" in refused(declared(full))
    assert everything() == before


def test_standard_input(full: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Input:
        buffer = io.BytesIO(json.dumps(full).encode())

    monkeypatch.setattr(sys, "stdin", Input())
    assert run("-").count("done: ") == 6
    assert Warehouse.objects.count() == 2


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The credentials that would be stored; local warehouses have none."""
    credentials: list[Any] = []
    create = create_warehouse

    def note(**arguments: Any) -> Warehouse:
        credentials.append(arguments.pop("storage_credential"))
        return create(**arguments, storage_credential=None)

    monkeypatch.setattr(plan_module, "create_warehouse", note)
    return credentials


def test_secrets_come_from_variables_and_files_and_are_never_printed(
    declared: Any, storage_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, received: list[Any],
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    own = settings.ICEKEEPER.model_copy(update={"pg_encryption_key": SecretStr("a key for this test")})
    monkeypatch.setattr(settings, "ICEKEEPER", own)
    monkeypatch.setenv("S3_SECRET", f"{CANARY}-env\n")
    (tmp_path / "key").write_text(f"  {CANARY}-text\n")
    named = {"type": "s3", "credential-type": "access-key"}
    credential = named | {
        "access-key-id": {"file": str(tmp_path / "key")},
        "secret-access-key": {"env": "S3_SECRET"},
        "external-id": f"{CANARY}-literal",
    }
    profile = {"type": "s3", "bucket": "bucket", "region": "r", "sts-enabled": False}
    location = declared(entry("warehouses", storage_profile=profile, storage_credential=credential))
    said = (
        run(location, "--dry-run")
        + run(location, "--json", "--dry-run")
        + run(location, "--verbosity", "3")
        + run(location)
    )
    reported = {"access-key-id": "text", "secret-access-key": "env", "external-id": "literal"}
    assert received == [named | {name: f"{CANARY}-{what}" for name, what in reported.items()}]
    captured = capfd.readouterr()
    assert CANARY not in said + captured.out + captured.err


def test_a_secret_in_an_error_is_not_printed(
    declared: Any, storage_root: Path, everything: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    content = entry("warehouses", storage_credential={"secret": CANARY, "x": {"env": ""}})
    content["warehouses"][0]["storage-profile"]["path"] = str(storage_root / "w")
    assert CANARY not in refused(declared(content))
    content["warehouses"][0]["storage-credential"] = {"secret": CANARY}
    before = everything()
    said = refused(declared(content), "--traceback") + capfd.readouterr().err
    assert "warehouses[0].storage-credential.type: must be one of" in said
    assert CANARY not in said
    assert everything().files == before.files
    assert not Warehouse.objects.exists()


def test_secrets_of_existing_warehouses_are_not_read(full: Any, declared: Any, everything: Any) -> None:
    run(declared(full))
    before = everything()
    full["warehouses"][0]["storage-credential"] = {"secret": {"env": "NO_SUCH_VARIABLE"}}
    assert run(declared(full)) == NOTHING
    assert everything() == before


@pytest.mark.parametrize("settled", [{"sts-enabled": False}, {"flavor": "aws"}, {"allow-alternative-protocols": None}])
def test_members_determined_by_a_credential_are_no_difference(
    declared: Any, settled: dict[str, Any], everything: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cloudflare R2 determines some members of the profile, whatever is declared."""
    own = settings.ICEKEEPER.model_copy(update={"pg_encryption_key": SecretStr("a key for this test")})
    monkeypatch.setattr(settings, "ICEKEEPER", own)
    profile = {"type": "s3", "bucket": "bucket", "region": "auto", "endpoint": "https://a.r2.cloudflarestorage.com"}
    credential = {
        "type": "s3", "credential-type": "cloudflare-r2",
        "access-key-id": "x", "secret-access-key": "y", "token": "z", "account-id": "a",
    }  # fmt: skip
    location = declared(entry("warehouses", storage_profile=profile | settled, storage_credential=credential))
    run(location)
    before = everything()
    assert run(location) == NOTHING
    assert everything() == before


def test_another_run_that_was_faster_is_met_by_another_plan(
    full: Any, declared: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = declared(full)
    create = create_warehouse

    def faster(**arguments: Any) -> Warehouse:
        monkeypatch.setattr(plan_module, "create_warehouse", create)
        create(**arguments)  # the other node creates it
        return create(**arguments)

    monkeypatch.setattr(plan_module, "create_warehouse", faster)
    run(location)
    assert Warehouse.objects.count() == 2
    assert run(location) == NOTHING


def test_endless_conflicts_are_reported(full: Any, declared: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def conflict(**_: Any) -> Warehouse:
        asked.append(1)
        raise WarehouseExists("taken")

    monkeypatch.setattr(plan_module, "create_warehouse", conflict)
    assert issubclass(WarehouseExists, Conflict)
    assert refused(declared(full)) == "warehouses[0]: taken"
    assert len(asked) == plan_module.MAX_ATTEMPTS


def test_work_done_before_an_error_stays_and_is_reported(
    full: Any, declared: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def create(**asked: Any) -> Warehouse:
        if asked["name"] == "Sandbox":
            raise BadRequest("not now")
        return create_warehouse(**asked)

    location, out = declared(full), StringIO()
    with monkeypatch.context() as patched:
        patched.setattr(plan_module, "create_warehouse", create)
        with pytest.raises(CommandError, match=r"warehouses\[1\]: not now"):
            call_command("bootstrap", "--file", location, stdout=out)
    assert out.getvalue().count("done: ") == 5
    assert run(location) == "done: create the warehouse 'Sandbox' in the project lab\n"


def test_a_reopened_catalog_can_be_bootstrapped_again(full: Any, declared: Any) -> None:
    from tenancy.actor import INTERNAL

    run(declared(full))
    reopen_bootstrap(actor=INTERNAL)
    said = run(declared(full))
    assert said == "done: bootstrap the catalog and appoint oidc~alice administrator of the server\n"
