"""What a page shows for the failures of a validation: names, cures, policies and fields."""

from __future__ import annotations

import json
from typing import Any

import pytest

from icekeeper.kernel.errors.types import BadRequest, CatalogError
from management.admin.warehouses.checks import show_checks
from management.admin.warehouses.form_fields import error_text, field_name
from storage.documents import InvalidMember
from storage.errors import StoreAccessDenied, StoreRefused, StoreUnavailable
from storage.identity.keys import CredentialNotIssued
from storage.validation.access import NOT_ENFORCED, ScopeNotEnforced, SignaturesNotEnforced
from storage.validation.checks import NOT_APPLICABLE, STORE_CHECKS, CheckName, Status, ValidationCheck

S3: dict[str, Any] = {
    "type": "s3", "bucket": "lake", "key-prefix": "wh", "region": "eu-central-1", "sts-enabled": True,
    "sts-role-arn": "arn:aws:iam::1:role/clients",
}  # fmt: skip
GCS = {"type": "gcs", "bucket": "lake"}
DENIED = StoreAccessDenied("The object store denied access to s3://lake/wh/x: AccessDenied")


def failed(name: CheckName, error: CatalogError) -> ValidationCheck:
    return ValidationCheck(name, Status.FAILED, 5, error=error)


@pytest.mark.parametrize(
    ("profile", "name", "error", "field", "cure"),
    [
        (S3, CheckName.PROFILE_WELL_FORMED, InvalidMember("bucket", "must be short"), "storage-profile.bucket", ""),
        (S3, CheckName.LOCATION_EXCLUSIVE, BadRequest("overlaps", field="storage-profile", hint="Choose another."),
         "storage-profile", "Choose another."),
        (S3, CheckName.LAKEKEEPER_READ_WRITE, DENIED, "storage-credential", "Add this policy to the user of the key"),
        (S3 | {"assume-role-arn": "arn:aws:iam::1:role/own"}, CheckName.LAKEKEEPER_READ_WRITE, DENIED,
         "storage-profile.assume-role-arn", "Add this policy to the role"),
        (S3, CheckName.LAKEKEEPER_READ_WRITE, StoreUnavailable("The object store did not respond for x: connect"),
         "storage-profile.endpoint", "Check endpoint and region"),
        (S3, CheckName.LAKEKEEPER_READ_WRITE, StoreRefused("rejected a request for x: PermanentRedirect"),
         "storage-profile.region", "Enter the region"),
        (S3, CheckName.VENDED_CREDENTIALS_ISSUED, CredentialNotIssued("refused: AccessDenied"),
         "storage-profile.sts-role-arn", "Allow the key to assume the role"),
        (S3 | {"sts-role-arn": None, "flavor": "s3-compat"}, CheckName.VENDED_CREDENTIALS_ISSUED,
         CredentialNotIssued("refused: AccessDenied"), "storage-profile.sts-role-arn", "If the store needs a role"),
        (S3, CheckName.VENDED_CREDENTIALS_ISSUED, StoreUnavailable("no response"), "storage-profile.sts-endpoint",
         "Check the endpoint of STS"),
        (S3, CheckName.VENDED_CREDENTIALS_READ_WRITE, DENIED, "storage-profile.sts-role-arn",
         "Add this policy to the role for engines"),
        (S3, CheckName.VENDED_CREDENTIALS_SCOPE_ENFORCED, ScopeNotEnforced("too much"), "storage-profile.sts-enabled",
         "Do not vend credentials"),
        (S3, CheckName.REMOTE_SIGNING, SignaturesNotEnforced(NOT_ENFORCED), "storage-profile.sts-enabled",
         "Vend temporary credentials"),
        (GCS, CheckName.LAKEKEEPER_READ_WRITE, DENIED, "storage-credential", "Give the identity of this credential"),
        (GCS, CheckName.STORAGE_CLIENT_INITIALIZED, StoreUnavailable("no response"), None, "Check the address"),
        ({"type": "floppy"}, CheckName.LAKEKEEPER_READ_WRITE, DENIED, "storage-credential", "Give the identity"),
    ],
)  # fmt: skip
def test_cures(profile: dict[str, Any], name: CheckName, error: CatalogError, field: str | None, cure: str) -> None:
    (shown,) = show_checks([failed(name, error)], profile).checks
    assert shown.error == error.message
    assert shown.field == field
    assert cure in str(shown.cure)
    assert str(shown.field_text)


def test_policies_name_bucket_prefix_and_role() -> None:
    (shown,) = show_checks([failed(CheckName.LAKEKEEPER_READ_WRITE, DENIED)], S3).checks
    objects, listing, *_rest = json.loads(shown.policy)["Statement"]
    assert objects["Resource"] == "arn:aws:s3:::lake/wh/*"
    assert "s3:DeleteObject" in objects["Action"]
    assert listing["Condition"] == {"StringLike": {"s3:prefix": "wh/*"}}
    error = CredentialNotIssued("refused: AccessDenied")
    (shown,) = show_checks([failed(CheckName.VENDED_CREDENTIALS_ISSUED, error)], S3).checks
    (statement,) = json.loads(shown.policy)["Statement"]
    assert statement == {"Effect": "Allow", "Action": ["sts:AssumeRole"], "Resource": S3["sts-role-arn"]}


def test_later_failures_follow_from_the_first() -> None:
    checks = [failed(CheckName.LAKEKEEPER_READ_WRITE, DENIED), failed(CheckName.CLEANUP, DENIED)]
    first, second = show_checks(checks, S3).checks
    assert first.policy
    assert str(second.cure) == "Fix the failure above first."
    assert (second.policy, second.field) == ("", None)


def test_checks_that_do_not_apply_are_left_out() -> None:
    checks = [ValidationCheck(name, Status.SKIPPED, reason=NOT_APPLICABLE) for name in CheckName]
    assert show_checks(checks, S3).checks == []
    skipped = [ValidationCheck(STORE_CHECKS[0], Status.SKIPPED, reason="Not attempted")]
    shown = show_checks(skipped, S3)
    assert not shown.is_valid, "a skipped check proves nothing"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("storage-profile.bucket", "storage-profile.bucket"),
        ("storage-profile.storage-layout.tabular-only.tabular", "storage-profile.storage-layout.tabular"),
        ("storage-profile.storage-layout", "storage-profile.storage-layout.type"),
        ("storage-credential.key.token_uri", "storage-credential.key"),
        ("storage-credential", "storage-credential.key"),
        ("storage-profile.unknown", None),
        ("elsewhere", None),
        (None, None),
    ],
)
def test_the_field_of_an_error(path: str | None, name: str | None) -> None:
    names = [
        "storage-profile.bucket", "storage-profile.storage-layout.type", "storage-profile.storage-layout.tabular",
        "storage-credential.key",
    ]  # fmt: skip
    assert field_name(names, path) == name


def test_the_text_at_a_field_does_not_repeat_its_path() -> None:
    assert error_text(InvalidMember("bucket", "must be short")) == "Must be short"
    error = BadRequest("storage-profile.region: Field required", field="storage-profile.region")
    assert error_text(error) == "Field required"
