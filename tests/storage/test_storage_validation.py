"""Validation of stores that are hostile, fail in the middle, or grant too much with vended credentials."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any
from urllib.parse import parse_qs

import pytest

from icekeeper.kernel.errors.types import CatalogError
from storage.credentials import read_credential
from storage.profiles.kinds import read_profile
from storage.validation import access
from storage.validation.access import NO_OWN_SIGNATURES, NO_TIME_LEFT, run_access_checks
from storage.validation.checks import (
    NOT_ATTEMPTED,
    CheckName,
    FailFastRun,
    ReportRun,
    Status,
    StorageValidationFailed,
    ValidationCheck,
)
from tests.parts.minio import Minio
from tests.parts.recorder import Recorded, Recorder, Reply
from tests.storage.open_store_fixtures import use_storage_settings

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def tried(profile: dict[str, Any], credential: dict[str, Any]) -> dict[CheckName, ValidationCheck]:
    known = read_credential(credential)
    report = ReportRun()
    read = report.check(CheckName.PROFILE_WELL_FORMED, lambda: read_profile(profile, known))
    run_access_checks(report, read, known)
    return {check.name: check for check in report.checks()}


def problem(check: ValidationCheck) -> str:
    assert check.status == Status.FAILED
    assert check.error is not None
    return check.error.message


@pytest.mark.parametrize(
    "holds", ["", "<Contents><Key>wh/x/%d</Key></Contents>", "<Contents><Key>wh/x/</Key></Contents>"]
)
def test_a_list_without_end_ends(
    minio: Minio, bucket: str, recorder: Recorder, monkeypatch: pytest.MonkeyPatch, holds: str
) -> None:
    monkeypatch.setattr(access, "STEPS_SECONDS", 1.0)
    monkeypatch.setattr(access, "CLEANUP_SECONDS", 1.0)
    numbers = count()

    def endless(request: Recorded, ask: Callable[[], Reply]) -> Reply:
        if "list-type" not in request.target:
            return ask()
        number = next(numbers)
        found = holds % number if "%" in holds else holds
        token = f"<NextContinuationToken>{number}</NextContinuationToken>"
        body = f"<ListBucketResult><IsTruncated>true</IsTruncated>{token}{found}</ListBucketResult>"
        return Reply(200, {"Content-Type": "application/xml"}, body.encode())

    recorder.answerer = endless
    profile = minio.profile(bucket, "wh", endpoint=recorder.endpoint) | {"sts-enabled": False}
    began = time.monotonic()
    found = tried(profile, minio.credential)
    assert time.monotonic() - began < 5
    assert found[CheckName.CLEANUP].status == Status.FAILED
    assert "POST" not in recorder.asked, "nothing is deleted because a list says that it is there"
    assert minio.keys(bucket) == []


@pytest.mark.parametrize("sts_enabled", [True, False])
def test_an_endpoint_that_never_responds_takes_the_time_of_one_validation(
    monkeypatch: pytest.MonkeyPatch, sts_enabled: bool
) -> None:
    """It accepts connections and sends nothing: each request alone would wait 30 seconds, several times."""
    monkeypatch.setattr(access, "STEPS_SECONDS", 1.0)
    monkeypatch.setattr(access, "CLEANUP_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0), backlog=128) as silent:
        profile = {
            "type": "s3", "bucket": "lake", "region": "eu-1", "flavor": "s3-compat", "path-style-access": True,
            "endpoint": f"http://127.0.0.1:{silent.getsockname()[1]}", "sts-enabled": sts_enabled,
        }  # fmt: skip
        key = {"type": "s3", "credential-type": "access-key", "access-key-id": "a", "secret-access-key": "b"}
        began = time.monotonic()
        found = tried(profile, key)
        assert time.monotonic() - began < 15
    assert "did not finish this step in time" in problem(found[CheckName.LAKEKEEPER_READ_WRITE])
    assert found[CheckName.CLEANUP].status == Status.FAILED
    if sts_enabled:
        assert found[CheckName.VENDED_CREDENTIALS_ISSUED].reason == NO_TIME_LEFT


def test_a_guard_names_the_step_that_ran_out_of_time(
    minio: Minio, bucket: str, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "STEPS_SECONDS", 3.0)

    def silent_to_sts(request: Recorded, ask: Callable[[], Reply]) -> Reply | None:
        if b"Action=AssumeRole" not in request.body:
            return ask()
        time.sleep(5)
        return None

    recorder.answerer = silent_to_sts
    credential, guard = read_credential(minio.credential), FailFastRun()
    run_access_checks(
        guard, read_profile(minio.profile(bucket, "wh", endpoint=recorder.endpoint), credential), credential
    )
    with pytest.raises(StorageValidationFailed, match=r"\[vended-credentials-issued\].*did not finish") as refused:
        guard.require_passed()
    assert (refused.value.status, refused.value.wire_type) == (503, "StorageUnavailableException")
    assert minio.keys(bucket) == [], "what was written before is deleted"


def test_a_deadline_between_two_checks_fails_the_validation(
    minio: Minio, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No check failed itself; checks that did not run did not pass."""
    is_late: list[bool] = []

    class Slow(FailFastRun):
        def check(self, name: CheckName, action: Callable[[], Any], **more: Any) -> Any:
            result = super().check(name, action, **more)
            if name == CheckName.LAKEKEEPER_READ_WRITE:
                is_late.append(True)
                time.sleep(3)
            return result

    monkeypatch.setattr(access, "STEPS_SECONDS", 3.0)
    credential, guard = read_credential(minio.credential), Slow()
    run_access_checks(guard, read_profile(minio.profile(bucket, "wh"), credential), credential)
    assert is_late
    assert guard.has_passed(CheckName.LAKEKEEPER_READ_WRITE)
    assert guard.has_passed(CheckName.CLEANUP)
    with pytest.raises(StorageValidationFailed, match=r"\[vended-credentials-issued\].*did not finish") as refused:
        guard.require_passed()
    assert refused.value.status == 503
    assert minio.keys(bucket) == []


@pytest.mark.parametrize("is_delete", [False, True])
def test_a_spelling_that_the_store_fails_at_does_not_end_the_others(
    minio: Minio, bucket: str, recorder: Recorder, monkeypatch: pytest.MonkeyPatch, is_delete: bool
) -> None:
    """A proxy returns 502 for unusual keys; the object next to the table still exists afterwards."""
    use_storage_settings(monkeypatch, retries=0)
    odd: list[str] = []

    def failing(request: Recorded, ask: Callable[[], Reply]) -> Reply:
        is_odd = b"/../" in request.body if is_delete else "/../" in request.target
        if is_odd:
            odd.append(request.method)
            return Reply(502, {}, b"")
        return ask()

    recorder.answerer = failing
    found = tried(minio.profile(bucket, "wh", endpoint=recorder.endpoint), minio.credential)
    assert odd
    assert found[CheckName.VENDED_CREDENTIALS_SCOPE_ENFORCED].status == Status.PASSED
    assert minio.keys(bucket) == []


SCHEME_ALIASES = [
    *(("POST", spelling) for spelling in ("//../", "/..\\", "/x\\..\\..\\")),
    *((method, spelling) for method in ("DELETE", "GET", "PUT") for spelling in ("//../", "/..%2F", "/..%5C")),
]


@pytest.mark.parametrize(("method", "spelling"), SCHEME_ALIASES)
def test_a_store_that_normalizes_spellings_is_found_whatever_its_response(
    minio: Minio, bucket: str, recorder: Recorder, monkeypatch: pytest.MonkeyPatch, method: str, spelling: str
) -> None:
    """The error contains the spelling."""
    use_storage_settings(monkeypatch, retries=0)

    def obeying(request: Recorded, ask: Callable[[], Reply]) -> Reply:
        path = request.target.partition("?")[0]
        if request.method != method or (spelling.encode() not in request.body and spelling not in path):
            return ask()
        own = minio.client("s3")
        names = [each for each in minio.keys(bucket) if each.endswith("metadata/not-for-clients")]
        if method in {"POST", "DELETE"}:
            for name in names:
                own.delete_object(Bucket=bucket, Key=name)
        elif method == "PUT":
            folder = names[0].removesuffix("metadata/not-for-clients")
            own.put_object(Bucket=bucket, Key=f"{folder}metadata/forbidden-by-dots", Body=request.body)
        else:
            return Reply(200, {}, own.get_object(Bucket=bucket, Key=names[0])["Body"].read())
        return Reply(502, {}, b"")

    recorder.answerer = obeying
    found = tried(minio.profile(bucket, "wh", endpoint=recorder.endpoint), minio.credential)
    message = problem(found[CheckName.VENDED_CREDENTIALS_SCOPE_ENFORCED])
    assert message.startswith("Downscoped credentials allow ")
    assert f"'{spelling}'" in message
    assert minio.keys(bucket) == []


def test_a_fault_of_ours_leaves_nothing(minio: Minio, bucket: str, recorder: Recorder) -> None:
    class Fault(Exception):
        pass

    class Failing(ReportRun):
        def check(self, name: CheckName, action: Callable[[], Any], **more: Any) -> Any:
            def then_fail() -> None:
                with suppress(CatalogError):  # the store does not delete, so objects remain
                    action()
                assert minio.keys(bucket)
                raise Fault

            return super().check(name, then_fail if name == CheckName.LAKEKEEPER_READ_WRITE else action, **more)

    def keep_on_delete(request: Recorded, ask: Callable[[], Reply]) -> Reply:
        return Reply(204, {}, b"") if request.method == "DELETE" and recorder.asked.count("DELETE") == 1 else ask()

    recorder.answerer = keep_on_delete
    credential = read_credential(minio.credential)
    profile = read_profile(minio.profile(bucket, "wh", endpoint=recorder.endpoint), credential)
    report = Failing()
    report.check(CheckName.PROFILE_WELL_FORMED, lambda: profile)
    with pytest.raises(Fault):
        run_access_checks(report, profile, credential)
    assert report.has_passed(CheckName.CLEANUP)
    assert minio.keys(bucket) == []


def test_an_unavailable_role_is_reported_immediately(
    minio: Minio, bucket: str, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_storage_settings(monkeypatch, retries=0)
    role = {"assume-role-arn": "arn:aws:iam::123456789012:role/no"}
    profile = minio.profile(bucket, "wh", endpoint=recorder.endpoint) | role
    found = tried(profile, minio.credential | {"secret-access-key": "wrong"})
    assert "refused temporary credentials" in problem(found[CheckName.STORAGE_CLIENT_INITIALIZED])
    later = tuple(CheckName)[tuple(CheckName).index(CheckName.LAKEKEEPER_READ_WRITE) :]
    reasons = {name: found[name].reason for name in later}
    assert reasons.pop(CheckName.REMOTE_SIGNING) == NO_OWN_SIGNATURES
    assert set(reasons.values()) == {NOT_ATTEMPTED}
    assert recorder.asked == ["POST"]


def issued_by(minio: Minio, policy: dict[str, Any]) -> Reply:
    keys = minio.client("sts").assume_role(
        RoleArn="arn:aws:iam::123456789012:role/x", RoleSessionName="s", Policy=json.dumps(policy)
    )["Credentials"]
    reported = "".join(f"<{name}>{keys[name]}</{name}>" for name in ("AccessKeyId", "SecretAccessKey", "SessionToken"))
    ends = f"<Expiration>{keys['Expiration']:%Y-%m-%dT%H:%M:%SZ}</Expiration>"
    result = f"<AssumeRoleResult><Credentials>{reported}{ends}</Credentials></AssumeRoleResult>"
    body = f'<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">{result}</AssumeRoleResponse>'
    return Reply(200, {"Content-Type": "text/xml"}, body.encode())


def lists_the_root(policies: list[dict[str, Any]], bucket: str) -> dict[str, Any]:
    more = {
        "Effect": "Allow",
        "Action": "s3:ListBucket",
        "Resource": f"arn:aws:s3:::{bucket}",
        "Condition": {"StringEquals": {"s3:prefix": ""}},
    }
    return policies[-1] | {"Statement": [*policies[-1]["Statement"], more]}


def lets_readers_write(policies: list[dict[str, Any]], _bucket: str) -> dict[str, Any]:
    return policies[0]


def allows_parent_segments(policies: list[dict[str, Any]], _bucket: str) -> dict[str, Any]:
    """MinIO then deletes objects outside the folder, see `storage.validation.s3_probes`."""
    return policies[-1] | {"Statement": [each for each in policies[-1]["Statement"] if each["Effect"] == "Allow"]}


@pytest.mark.parametrize(
    ("vends", "reported"),
    [
        (allows_parent_segments, "Downscoped credentials allow deletion in parent location, by keys with '/../'."),
        (lists_the_root, "Downscoped credentials allow listing of the whole bucket."),
        (lets_readers_write, "Credentials for reading allow write access."),
    ],
)
def test_too_wide_permissions_are_found(
    minio: Minio,
    bucket: str,
    recorder: Recorder,
    vends: Callable[[list[dict[str, Any]], str], dict[str, Any]],
    reported: str,
) -> None:
    policies: list[dict[str, Any]] = []

    def vending(request: Recorded, ask: Callable[[], Reply]) -> Reply:
        if b"Action=AssumeRole" not in request.body:
            return ask()
        policies.append(json.loads(parse_qs(request.body.decode())["Policy"][0]))
        return issued_by(minio, vends(policies, bucket))

    recorder.answerer = vending
    found = tried(minio.profile(bucket, "wh", endpoint=recorder.endpoint), minio.credential)
    assert problem(found[CheckName.VENDED_CREDENTIALS_SCOPE_ENFORCED]) == reported
    assert found[CheckName.CLEANUP].status == Status.PASSED
    assert minio.keys(bucket) == []
