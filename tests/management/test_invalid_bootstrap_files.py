"""`manage.py bootstrap --file`: invalid and hostile files, and declarations that conflict with the catalog."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from management.bootstrap.document import MAX_BYTES, InvalidDocument, MissingSecret, parse_document, resolve_secrets
from tests.harness.fingerprint import Fingerprint
from tests.management.bootstrap_file_fixtures import CANARY, DEFAULT, declared, entry, full, refused, run
from tests.management.warehouse_request_fixtures import KEY, S3, keep_secrets, use_settings

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

__all__ = ["declared", "full"]


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
