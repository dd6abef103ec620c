"""`manage.py bootstrap --file`: create declared objects, report differences, and reject invalid or hostile files."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.conf import settings
from django.core.management import CommandError, call_command
from pydantic import SecretStr

from icekeeper.kernel.errors.types import BadRequest, Conflict
from management.bootstrap import plan as plan_module
from management.bootstrap.document import MAX_BYTES, InvalidDocument, MissingSecret, parse_document, resolve_secrets
from storage.models import Warehouse
from storage.services.warehouses import WarehouseExists, create_warehouse
from tenancy.models import Grant, Project, Server, User
from tenancy.services.server import reopen_bootstrap
from tests.harness.fingerprint import Fingerprint
from tests.management.warehouse_request_fixtures import KEY, S3, keep_secrets, use_settings

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

DEFAULT = "00000000-0000-0000-0000-000000000000"
NOTHING = "Everything is as declared.\n"
ROBOT = ("oidc~robot", "Nameless App with ID oidc~robot", "", "application")
CANARY = "canary-7f3a"


@pytest.fixture
def declared(tmp_path: Path, storage_root: Path) -> Callable[[Any], str]:
    """Write a declaration and return its path."""

    def write(content: Any) -> str:
        path = tmp_path / "catalog.yaml"
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(json.loads(json.dumps(content))))
        return str(path)

    return write


@pytest.fixture
def full(storage_root: Path) -> dict[str, Any]:
    return {
        "administrators": [
            {"user-id": "oidc~alice", "user-name": "Alice", "user-email": "alice@example.com"},
            {"user-id": "oidc~robot", "user-type": "application", "is-operator": True},
        ],
        "projects": [
            {"project-id": DEFAULT, "project-name": "Analytics"},
            {"project-id": "lab", "project-name": "Laboratory"},
        ],
        "warehouses": [
            {
                "warehouse-name": "sales",
                "storage-profile": {"type": "local", "path": str(storage_root / "sales")},
                "delete-profile": {"type": "soft", "expiration-seconds": 604800},
                "allowed-format-versions": [3, 2],
                "default-format-version": 2,
                "protected": True,
                "managed-by": "instance-admin",
            },
            {
                "warehouse-name": "Sandbox",
                "project-id": "lab",
                "storage-profile": {"type": "local", "path": f"{storage_root}/sandbox/"},
            },
        ],
    }


def run(location: str, *options: str) -> str:
    out = StringIO()
    call_command("bootstrap", "--file", location, *options, stdout=out)
    return out.getvalue()


def refused(location: str, *options: str) -> str:
    """Return the error on stderr of a run that changed nothing."""
    with pytest.raises(CommandError) as error:
        run(location, *options)
    assert error.value.returncode == 1
    return str(error.value)


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


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"projects": [{"project-id": "p", "project-name": "default PROJECT"}]}, "projects[0].project-name: another"),
        (
            {"warehouses": [{"project-id": "no"}]},
            "warehouses[0].project-id: the project no does not exist and is not decl",
        ),
        (
            {"warehouses": [{"storage-profile": {"type": "local", "path": "/etc"}}]},
            "warehouses[0].storage-profile: pat",
        ),
        (
            {"warehouses": [{"storage-profile": {"type": "local"}}]},
            "warehouses[0].storage-profile.path: Field required",
        ),
        (
            {"warehouses": [{"storage-profile": {"type": "local", "path": "/x", "x": 1}}]},
            "warehouses[0].storage-profile",
        ),
        (
            {"warehouses": [{"storage-credential": {"key": {"env": "NO_SUCH"}}}]},
            "warehouses[0].storage-credential.key:",
        ),
    ],
)
def test_declarations_that_conflict_with_the_catalog_change_nothing(
    declared: Any, everything: Any, storage_root: Path, change: dict[str, Any], problem: str
) -> None:
    good = {"warehouse-name": "w", "storage-profile": {"type": "local", "path": str(storage_root / "w")}}
    content = {kind: [good | entry if kind == "warehouses" else entry for entry in change[kind]] for kind in change}
    before = everything()
    for options in ([], ["--dry-run"], ["--json"]):
        assert refused(declared(content), *options).startswith(problem)
    assert everything() == before


def entry(kind: str, **members: Any) -> dict[str, Any]:
    good: dict[str, dict[str, Any]] = {
        "administrators": {"user-id": "oidc~a"},
        "projects": {"project-id": "p", "project-name": "P"},
        "warehouses": {"warehouse-name": "w", "storage-profile": {"type": "local", "path": "/x"}},
    }
    return {kind: [good[kind] | {name.replace("_", "-"): value for name, value in members.items()}]}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ([], "the document must be an object"),
        ("text", "the document must be an object"),
        ("42", "the document must be an object"),
        ("", ": is empty"),
        ({"warehouse": []}, "warehouse: unknown member"),
        ({"warehouses": {}}, "warehouses: must be a valid list"),
        ({"warehouses": None}, "warehouses: must be a valid list"),
        ({"warehouses": ["w"]}, "warehouses[0]: must be a valid dictionary"),
        ({"warehouses": [{}]}, "warehouses[0].warehouse-name: is missing"),
        ({"projects": [{"project-id": "p"}]}, "projects[0].project-name: is missing"),
        ({"projects": [{"project-id": "p", "project-name": "x"}] * 1001}, "projects: must have at most 1000"),
        (entry("administrators", user_id="alice"), "administrators[0].user-id: A user id is"),
        (entry("administrators", user_id=7), "administrators[0].user-id: must be a valid string"),
        (entry("administrators", user_type="god"), "administrators[0].user-type: must be 'human' or 'application'"),
        (entry("administrators", is_operator="yes"), "administrators[0].is-operator: must be a valid boolean"),
        (entry("administrators", user_name="a\tb"), "administrators[0].user-name: name: must not contain"),
        (entry("administrators", user_name="x" * 10_000), "administrators[0].user-name: name: longer than 255"),
        (entry("administrators", user_email="x" * 321), "administrators[0].user-email: email: longer than 320"),
        (entry("administrators", password="x"), "administrators[0].password: unknown member"),
        (entry("projects", project_id="a b"), "projects[0].project-id: must match"),
        (entry("projects", project_id="p\n"), "projects[0].project-id: must match"),
        (entry("projects", project_id="p" * 129), "projects[0].project-id: must match"),
        (entry("projects", project_name=" "), "projects[0].project-name: The name of a project must not be empty"),
        (entry("projects", project_name="ü" * 65), "The name of a project must not be longer than 128 bytes"),
        (entry("projects", project_name=["x"]), "projects[0].project-name: must be a valid string"),
        (entry("warehouses", warehouse_name="a/b"), "Invalid warehouse name: must not contain a slash"),
        (entry("warehouses", warehouse_name=True), "warehouses[0].warehouse-name: must be a valid string"),
        (entry("warehouses", warehouse_id="w"), "warehouses[0].warehouse-id: must be a UUID"),
        (entry("warehouses", storage_profile=None), "warehouses[0].storage-profile: must be a valid dictionary"),
        (entry("warehouses", storage_profile={}), "warehouses[0].storage-profile.type: must be a string"),
        (entry("warehouses", storage_profile={"type": 1}), "warehouses[0].storage-profile.type: must be a string"),
        (
            entry("warehouses", storage_credential=CANARY),
            "warehouses[0].storage-credential: must be a valid dictionary",
        ),
        (entry("warehouses", delete_profile="hard"), "warehouses[0].delete-profile: must be a valid dictionary"),
        (entry("warehouses", delete_profile={"type": "x"}), "warehouses[0].delete-profile.type: must be 'hard' or"),
        (entry("warehouses", delete_profile={"type": "soft"}), "warehouses[0].delete-profile.expiration-seconds: requ"),
        (
            entry("warehouses", delete_profile={"type": "hard", "expiration-seconds": 1}),
            "warehouses[0].delete-profile.expiration-seconds: required",
        ),
        (
            entry("warehouses", delete_profile={"type": "soft", "expiration-seconds": -1}),
            "warehouses[0].delete-profile.expiration-seconds: must be greater",
        ),
        (
            entry("warehouses", delete_profile={"type": "soft", "expiration-seconds": "60"}),
            "warehouses[0].delete-profile.expiration-seconds: must be a valid integer",
        ),
        (entry("warehouses", allowed_format_versions=[]), "warehouses[0].allowed-format-versions: must have at least"),
        (entry("warehouses", allowed_format_versions=[9]), "warehouses[0].allowed-format-versions[0]: must be less"),
        (
            entry("warehouses", allowed_format_versions=["2"]),
            "warehouses[0].allowed-format-versions[0]: must be a valid",
        ),
        (
            entry("warehouses", allowed_format_versions=[2], default_format_version=3),
            "warehouses[0].default-format-version: must be one of",
        ),
        (entry("warehouses", protected="no"), "warehouses[0].protected: must be a valid boolean"),
        (
            entry("warehouses", **{"managed-by": "me"}),
            "warehouses[0].managed-by: must be 'self-managed' or 'instance-admin'",
        ),
        (entry("warehouses", protected=1), "warehouses[0].protected: must be a valid boolean"),
        ({"projects": entry("projects")["projects"] * 2}, "projects[1].project-id: the same as in projects[0]"),
        (
            {"administrators": [{"user-id": "oidc~a"}] * 2},
            "administrators[1].user-id: the same as in administrators[0]",
        ),
        ({"warehouses": entry("warehouses")["warehouses"] * 2}, "warehouses[1].warehouse-name: the same as in"),
    ],
)
def test_the_path_of_the_wrong_member_is_reported(declared: Any, everything: Any, content: Any, problem: str) -> None:
    before = everything()
    said = refused(declared(content))
    assert problem in said
    assert CANARY not in said
    assert everything() == before


def test_a_default_project_is_not_assumed_where_there_is_none(declared: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    own = settings.ICEKEEPER.model_copy(update={"enable_default_project": False})
    monkeypatch.setattr(settings, "ICEKEEPER", own)
    assert "warehouses[0].project-id: is required" in refused(declared(entry("warehouses")))


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(9)
)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (BOMB, "line 1: anchors and aliases"),
        ("a: *nothing", "anchors and aliases"),
        ("a: &x\n  b: *x", "anchors and aliases"),
        ("a: !!python/object/apply:os.system ['true']", "tags"),
        ("a: !canary-7f3a x", "tags"),
        ("!!map {a: 1}", "tags"),
        ("%TAG ! tag:x,2000:\n---\na: !b c", "tags"),
        ("a: 1\na: 2", "the member 'a' occurs twice"),
        ("x:\n  - {a: 1, a: 2}", "the member 'a' occurs twice"),
        ("? [a]\n: b", "the name of a member must be a string"),
        ("a: [", "not YAML at line"),
        ("a: b: c", "not YAML at line 1, column 5"),
        ("secret: %canary-7f3a", "not YAML at line 1"),
        ("secret: 'canary-7f3a", "not YAML at line"),
        ("a: 1\n---\nb: 2", "not YAML at line"),
        ("a: '\x00'", "a character that YAML does not allow"),
        ('a: "\\0"', "a: NUL"),
        ('a: "\\uD800"', "a: NUL and lone surrogates"),
        ("- " * 50 + "x", "nested deeper than 20 levels"),
        ("[" * 100_000, "nested deeper than 20 levels"),
        ("x: [" + "1," * 50_001 + "]", "more than 50000 values"),
        ("x: " + "9" * 5000, "a value that cannot be read"),
        ('{"a": 1, "a": 2}', "the member 'a' occurs twice"),
        ('{"secret": "canary-7f3a', "not JSON at line 1"),
        ('{"a": NaN}', "NaN is not a JSON number"),
        ('{"a": "\\u0000"}', "a: NUL"),
        ('{"a": {"b": ["x", "\\ud800"]}}', "a.b[1]: NUL and lone surrogates"),
        ('{"a":' * 100_000, "nested deeper than 20 levels"),
        ('{"a":' * 30 + "1" + "}" * 30, "nested deeper than 20 levels"),
        ('{"a": ' + "9" * 5000 + "}", "a number that is too large"),
    ],
)
def test_hostile_documents(content: str, problem: str) -> None:
    with pytest.raises(InvalidDocument) as error:
        parse_document(content.encode(errors="surrogatepass"))
    assert problem in str(error.value)
    assert CANARY not in str(error.value)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\xff\xfe", "not UTF-8 at byte 0"),
        (b"a: \xed\xa0\x80", "not UTF-8 at byte 3"),
        (b" " * (MAX_BYTES + 1), "larg"),
    ],
)
def test_hostile_bytes(content: bytes, problem: str) -> None:
    with pytest.raises(InvalidDocument, match=problem):
        parse_document(content)


def test_documents_have_plain_values_only() -> None:
    read = parse_document(b"a: [1, 2.5, yes, null, 'x', 2026-01-01]\n012: {b: ''}\n<<: {c: 1}")
    assert read == {"a": [1, 2.5, True, None, "x", "2026-01-01"], "012": {"b": ""}, "<<": {"c": 1}}
    assert parse_document(b'\xef\xbb\xbf{\t"a": [1, true, null]}') == {"a": [1, True, None]}


def test_a_missing_file(everything: Callable[[], Fingerprint], tmp_path: Path) -> None:
    assert refused(str(tmp_path / "no.yaml")) == f"{tmp_path}/no.yaml cannot be read: No such file or directory"
    assert "cannot be read: Is a directory" in refused(str(tmp_path))


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


def test_a_misspelt_member_of_a_profile_is_refused(declared: Any, everything: Any) -> None:
    profile = {"type": "s3", "bucket": "bucket", "region": "r", "sts-enabled": False, "key_prefix": "lake"}
    before = everything()
    assert refused(declared(entry("warehouses", storage_profile=profile))) == (
        "warehouses[0].storage-profile.key_prefix: not a member of storage of type s3"
    )
    assert everything() == before


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"env": "NO_SUCH_VARIABLE"}, "c: the variable 'NO_SUCH_VARIABLE' is not set or empty"),
        ({"env": ""}, "c.env: must be a non-empty string"),
        ({"env": 7}, "c.env: must be a non-empty string"),
        ({"env": "HOME", "format": "yaml"}, "c.format: must be text or json"),
        ({"env": "HOME", "format": "json"}, "c: the content of env 'HOME' cannot be read: not JSON"),
        ({"file": "/no/such"}, "c: /no/such cannot be read: No such file or directory"),
        ({"file": "/"}, "c: / cannot be read: Is a directory"),
        ({"file": "a\x00b"}, "cannot be read"),
        ({"file": "/dev/zero"}, "c: /dev/zero is empty or larger than 65536 bytes"),
        ({"file": "/dev/null"}, "c: /dev/null is empty or larger than 65536 bytes"),
        ([{"a": {"env": "NO_SUCH_VARIABLE"}}], "c[0].a: the variable"),
    ],
)
def test_references_that_lead_nowhere(value: Any, problem: str) -> None:
    with pytest.raises(MissingSecret) as missing:
        resolve_secrets(value, "c")
    assert problem in str(missing.value)


@pytest.mark.parametrize("value", [{"env": "A", "file": "B"}, {"env": "A", "more": 1}, {}, "env:A", 7, None])
def test_values_that_are_no_reference_are_kept(value: Any) -> None:
    assert resolve_secrets(value, "c") == value


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


def test_overlapping_locations_are_found_before_any_change(
    full: Any, declared: Any, storage_root: Path, everything: Any
) -> None:
    before = everything()
    full["warehouses"][1]["storage-profile"]["path"] = str(storage_root / "sales" / "inner")
    for options in ((), ("--dry-run",)):
        said = refused(declared(full), *options)
        assert said == "warehouses[1].storage-profile: overlaps with warehouses[0]"
    assert everything() == before
    run(declared(full | {"warehouses": full["warehouses"][:1]}))
    before = everything()
    assert refused(declared(full)).startswith("warehouses[1]: Storage profile overlaps with that of another warehouse")
    assert everything() == before
    for warehouse in full["warehouses"]:
        warehouse["storage-profile"] = S3
        warehouse["project-id"] = warehouse.get("project-id", DEFAULT)
    full["warehouses"][0]["warehouse-name"] = "on s3"
    run(declared(full))  # one bucket in two projects


def test_the_identity_of_the_server_shares_no_location_between_projects(
    full: Any, declared: Any, everything: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_secrets(monkeypatch)
    use_settings(monkeypatch, skip_storage_validation=True, enable_aws_system_credentials=True)
    system = {"type": "s3", "credential-type": "aws-system-identity", "external-id": "e"}
    for warehouse, credential in zip(full["warehouses"], (system, KEY), strict=True):
        warehouse["storage-profile"] = S3 | {"assume-role-arn": "arn:aws:iam::123456789012:role/lake"}
        warehouse["storage-credential"] = credential
    before = everything()
    for declaration in (full, full | {"warehouses": full["warehouses"][::-1]}):
        said = refused(declared(declaration))
        assert said == "warehouses[1].storage-profile: overlaps with warehouses[0]"
    assert everything() == before


def test_a_reopened_catalog_can_be_bootstrapped_again(full: Any, declared: Any) -> None:
    from tenancy.actor import INTERNAL

    run(declared(full))
    reopen_bootstrap(actor=INTERNAL)
    said = run(declared(full))
    assert said == "done: bootstrap the catalog and appoint oidc~alice administrator of the server\n"
