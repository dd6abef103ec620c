"""Storage profiles `s3` and `stackit`: defaults, validation errors and permitted updates."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from django.conf import settings

from icekeeper.conf.values import read_pattern
from icekeeper.kernel.errors.types import CatalogError
from storage.credentials import read_credential
from storage.identity.s3 import assume_role, catalog_keys
from storage.profiles.kinds import read_profile
from storage.profiles.s3 import S3Profile

S3: dict[str, Any] = {"type": "s3", "bucket": "my-bucket", "region": "eu-1", "sts-enabled": False}
STACKIT: dict[str, Any] = {"type": "stackit", "bucket": "my-bucket", "region": "eu01", "sts-enabled": False}
GROUP = "urn:sgws:identity::87066461224079950546:group/credentials-group-a1b2c3"
KEY = {"type": "s3", "credential-type": "access-key", "access-key-id": "a", "secret-access-key": "s"}
R2 = KEY | {"credential-type": "cloudflare-r2", "token": "t", "account-id": "i"}
OSS = KEY | {"credential-type": "aliyun-oss"}
PREFIXES = ("a//b", "a/../b", "./a", "a?b", "a#b", "a://b", "a\x00", "a\x1f", "a\u200e", "x" * 897)
ENDPOINTS = ("minio:9000", "ftp://x", "http://", "http://u:p@h", "http://h?x", "http://h#x", "http://h/path", "")
SYSTEM = {"type": "s3", "credential-type": "aws-system-identity", "external-id": "e"}


def stored(document: dict[str, Any], credential: dict[str, Any] | None = None) -> dict[str, Any]:
    return read_profile(document, credential and read_credential(credential)).as_json()


def error(document: dict[str, Any], credential: dict[str, Any] | None = None) -> str:
    with pytest.raises(CatalogError) as refused:
        stored(document, credential)
    assert refused.value.status == 400
    return refused.value.wire_type


def allow(monkeypatch: pytest.MonkeyPatch, **flags: Any) -> None:
    monkeypatch.setattr(settings, "ICEKEEPER", settings.ICEKEEPER.model_copy(update=flags))


def test_every_member_is_shown_with_its_default() -> None:
    profile = read_profile({"type": "s3", "bucket": "my-bucket", "region": "eu-1"}, None)
    assert profile.location == "s3://my-bucket"
    assert profile.as_json() == {
        "type": "s3",
        "bucket": "my-bucket",
        "key-prefix": None,
        "region": "eu-1",
        "endpoint": None,
        "flavor": "aws",
        "path-style-access": None,
        "sts-enabled": False,
        "assume-role-arn": None,
        "sts-role-arn": None,
        "sts-endpoint": None,
        "sts-token-validity-seconds": 3600,
        "sts-session-tags": {},
        "remote-signing-enabled": True,
        "remote-signing-url-style": "auto",
        "allow-alternative-protocols": None,
        "push-s3-delete-disabled": True,
        "aws-kms-key-arn": None,
        "legacy-md5-behavior": None,
        "storage-layout": None,
    }


def test_a_stored_profile_is_read_unchanged() -> None:
    full = S3 | {
        "key-prefix": "a/b", "endpoint": "http://minio:9000", "flavor": "minio", "path-style-access": True,
        "sts-enabled": True, "assume-role-arn": "arn:x", "sts-role-arn": "arn:y", "sts-endpoint": "https://sts",
        "sts-token-validity-seconds": 900, "sts-session-tags": {"team": "a"}, "remote-signing-enabled": False,
        "s3-url-detection-mode": "virtual_host", "allow-alternative-protocols": True, "legacy-md5-behavior": True,
        "push-s3-delete-disabled": False, "aws-kms-key-arn": "arn:k",
        "storage-layout": {"type": "tabular-only", "tabular": "{name}-{uuid}"},
    }  # fmt: skip
    once = stored(full, KEY)
    assert stored(once, KEY) == once
    assert once["flavor"] == "s3-compat"
    assert once["remote-signing-url-style"] == "virtual_host"
    assert once["storage-layout"] == {"type": "tabular-only", "tabular": "{name}-{uuid}"}
    assert read_profile(full, None).location == "s3://my-bucket/a/b"


def test_unknown_members_and_nulls_mean_nothing() -> None:
    nulls = dict.fromkeys(stored(S3), None) | S3
    assert stored(nulls | {"some-later-member": {"deep": [1]}, "id": "x"}) == stored(S3)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (" /a/b/ ", "a/b"),
        ("/", None),
        ("  ", None),
        ("", None),
        ("a b", "a b"),
        ("ä%41", "ä%41"),
        ("x" * 896, "x" * 896),
    ],
)
def test_key_prefixes(given: str, kept: str | None) -> None:
    assert stored(S3 | {"key-prefix": given})["key-prefix"] == kept


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("http://minio:9000", "http://minio:9000/"),
        ("https://S3.Example.com:443/", "https://s3.example.com/"),
        ("http://minio:9000/my-bucket", "http://minio:9000/"),
        ("http://minio:9000/my-bucket/", "http://minio:9000/"),
        (" http://[::1]:9000 ", "http://[::1]:9000/"),
        ("https://my-bucket.s3.amazonaws.com", "https://s3.amazonaws.com/"),
        ("https://My-Bucket.S3.eu-1.amazonaws.com./my-bucket/", "https://s3.eu-1.amazonaws.com./"),
        ("https://my-bucket.s3.eu-1.amazonaws.com:8443", "https://s3.eu-1.amazonaws.com:8443/"),
        ("https://other.s3.amazonaws.com", "https://other.s3.amazonaws.com/"),
        ("https://my-bucket.example.com", "https://my-bucket.example.com/"),
    ],
)
def test_endpoints(given: str, kept: str) -> None:
    assert stored(S3 | {"endpoint": given})["endpoint"] == kept


@pytest.mark.parametrize(
    ("member", "value"),
    [
        *(("bucket", name) for name in ("ab", "A-b-c", "-abc", "abc-", "a..b", "a_b", "a/b", "x" * 64, "abc\n", "a b")),
        *(("key-prefix", text) for text in PREFIXES),
        *(("endpoint", text) for text in ENDPOINTS),
        ("sts-endpoint", "no"), ("region", "a\nb"), ("sts-session-tags", {"": "x"}),
        ("sts-session-tags", {"x": "y" * 257}), ("sts-session-tags", {str(each): "" for each in range(51)}),
    ],
)  # fmt: skip
def test_wrong_values_have_the_type_of_their_member(member: str, value: Any) -> None:
    assert error(S3 | {member: value}) == f"Invalid{member}"


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("bucket", None), ("bucket", 7), ("bucket", ["a"]), ("bucket", "x" * 10_000), ("region", None), ("region", ""),
        ("region", "x" * 129), ("sts-enabled", "true"), ("sts-enabled", 1), ("key-prefix", "x" * 10_000),
        ("endpoint", 7), ("flavor", "gcs"), ("path-style-access", "yes"), ("sts-token-validity-seconds", -1),
        ("sts-token-validity-seconds", 604_801), ("sts-token-validity-seconds", "60"), ("sts-session-tags", []),
        ("sts-token-validity-seconds", 1.5), ("sts-token-validity-seconds", True), ("sts-session-tags", {"a": 1}),
        ("remote-signing-url-style", "path-style"), ("assume-role-arn", "x" * 2049), ("type", None), ("type", "S3"),
        ("type", ["s3"]), ("storage-layout", "default"), ("storage-layout", {"type": "flat"}), ("storage-layout", {}),
        ("s3-url-detection-mode", 1),
    ],
)  # fmt: skip
def test_wrong_types_and_sizes(member: str, value: Any) -> None:
    assert error(S3 | {member: value}) == "BadRequestException"


def test_a_member_under_both_of_its_names() -> None:
    both = {"remote-signing-url-style": "auto", "s3-url-detection-mode": "auto"}
    assert error(S3 | both) == "BadRequestException"


@pytest.mark.parametrize("blank", [None, "", "  "])
def test_credentials_for_clients_of_aws_need_a_role(blank: str | None) -> None:
    roles = {"sts-role-arn": blank, "assume-role-arn": blank}
    assert error(S3 | {"sts-enabled": True} | roles, KEY) == "Invalidsts-role-arn"
    assert stored(S3 | {"sts-enabled": True, "flavor": "s3-compat"} | roles, KEY)["sts-role-arn"] is None
    for member in roles:
        assert stored(S3 | {"sts-enabled": True} | roles | {member: " arn:x "}, KEY)[member] == "arn:x"


def test_cloudflare_r2_brings_its_own_values() -> None:
    given = S3 | {
        "endpoint": "https://acc.r2.cloudflarestorage.com",
        "assume-role-arn": "arn:x",
        "sts-role-arn": "arn:y",
    }
    profile = stored(given, R2)
    members = ("flavor", "sts-enabled", "assume-role-arn", "sts-role-arn")
    assert [profile[member] for member in members] == ["s3-compat", True, None, None]
    assert error(S3, R2) == "Invalidendpoint"


def test_aliyun_oss_brings_its_own_values() -> None:
    given = S3 | {"endpoint": "https://oss-eu-central-1.aliyuncs.com", "sts-role-arn": "acs:ram::1:role/x"}
    assert (stored(given, OSS)["flavor"], stored(given, OSS)["sts-enabled"]) == ("s3-compat", True)
    assert error(given | {"path-style-access": True}, OSS) == "Invalidpath-style-access"
    assert error(given | {"sts-role-arn": None}, OSS) == "Invalidsts-role-arn"
    assert error(given | {"endpoint": None}, OSS) == "Invalidendpoint"


def test_the_identity_of_the_server_is_used_where_the_settings_allow_it(monkeypatch: pytest.MonkeyPatch) -> None:
    role = {"assume-role-arn": "arn:x"}
    allow(monkeypatch, skip_storage_validation=False)
    assert error(S3 | role, SYSTEM) == "SystemIdentityDisabled"
    allow(monkeypatch, enable_aws_system_credentials=True)
    assert stored(S3 | role, SYSTEM)["assume-role-arn"] == "arn:x"
    assert error(S3, SYSTEM) == "Invalidassume-role-arn"
    assert error(S3 | role, SYSTEM | {"external-id": None}) == "InvalidExternalId"
    allow(monkeypatch, s3_enable_direct_system_credentials=True)
    assert stored(S3, SYSTEM)["assume-role-arn"] is None
    allow(monkeypatch, skip_storage_validation=True, enable_aws_system_credentials=False)
    assert stored(S3, SYSTEM)["bucket"] == "my-bucket"
    assert error(S3, SYSTEM | {"external-id": None}) == "InvalidExternalId"
    allow(monkeypatch, s3_require_external_id_for_system_credentials=False)
    assert stored(S3, SYSTEM | {"external-id": None})["bucket"] == "my-bucket"


@pytest.mark.parametrize("region", ["0", "42", "-eu-1", "eu-1-", "eu 1", "eu_1", "eu.1", "eu-1/", "ü", "x" * 64])
@pytest.mark.parametrize("more", [{}, {"endpoint": "http://127.0.0.1:9000"}])
def test_regions_that_no_client_takes(region: str, more: dict[str, Any]) -> None:
    assert error(S3 | {"region": region} | more, KEY) == "Invalidregion"


@pytest.mark.parametrize("region", ["auto", "local", "us-gov-west-1", "EU-1", "0a", "x" * 63])
def test_regions(region: str) -> None:
    assert stored(S3 | {"region": region}, KEY)["region"] == region


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("members", "member"),
    [
        ({"endpoint": "https://evil.example"}, "endpoint"),
        ({"endpoint": "http://127.0.0.1:9000"}, "endpoint"),
        ({"endpoint": "https://s3-evil-1.eu-west-1.elb.amazonaws.com"}, "endpoint"),
        ({"endpoint": "https://s3.eu-west-1.amazonaws.com.evil.example"}, "endpoint"),
        ({"sts-endpoint": "https://evil.example"}, "sts-endpoint"),
        ({"sts-endpoint": "https://sts.s3.amazonaws.com"}, "sts-endpoint"),
        ({"endpoint": "https://s3.eu-west-1.amazonaws.com", "sts-endpoint": "https://evil.example"}, "sts-endpoint"),
    ],
)
def test_the_server_identity_is_sent_only_to_known_endpoints(
    monkeypatch: pytest.MonkeyPatch, members: dict[str, Any], member: str
) -> None:
    allow(monkeypatch, enable_aws_system_credentials=True, s3_enable_direct_system_credentials=True)
    for role in ({}, {"assume-role-arn": "arn:x"}):
        assert error(S3 | members | role, SYSTEM) == f"Invalid{member}"
        kept = read_profile(S3 | members | role, read_credential(KEY))  # as stored by an earlier release
        assert isinstance(kept, S3Profile)
        for use in (catalog_keys, partial(assume_role, role_arn="arn:y", session_name="s")):
            with pytest.raises(CatalogError, match="aws-system-identity"):
                use(kept, read_credential(SYSTEM))
    listed = [read_pattern("evil.example"), read_pattern("*.amazonaws.com"), read_pattern("http://127.0.0.1:9000"),
              read_pattern("*.evil.example")]  # fmt: skip
    allow(monkeypatch, storage=settings.ICEKEEPER.storage.model_copy(update={"allowed_endpoints": listed}))
    assert stored(S3 | members, SYSTEM)["bucket"] == "my-bucket"


@pytest.mark.parametrize(
    "members",
    [
        {"endpoint": "https://s3.eu-west-1.amazonaws.com/"},
        {
            "endpoint": "https://s3.cn-north-1.amazonaws.com.cn",
            "sts-endpoint": "https://sts.cn-north-1.amazonaws.com.cn",
        },
        {"sts-endpoint": "https://sts.amazonaws.com"},
        {"sts-endpoint": "https://vpce-1a-2b.sts.us-east-1.vpce.amazonaws.com"},
        {"sts-endpoint": "https://sts-fips.us-gov-west-1.amazonaws.com"},
    ],
)
def test_aws_may_see_the_identity_of_the_server(monkeypatch: pytest.MonkeyPatch, members: dict[str, Any]) -> None:
    allow(monkeypatch, enable_aws_system_credentials=True, s3_enable_direct_system_credentials=True)
    assert stored(S3 | members, SYSTEM)["bucket"] == "my-bucket"


def test_stackit_fills_in_the_endpoint_of_the_region() -> None:
    profile = read_profile(STACKIT | {"key-prefix": "wh"}, None)
    assert profile.location == "s3://my-bucket/wh"
    assert profile.as_json() == {
        "type": "stackit",
        "bucket": "my-bucket",
        "key-prefix": "wh",
        "region": "eu01",
        "endpoint": "https://object.storage.eu01.onstackit.cloud/",
        "sts-enabled": False,
        "credentials-group-urn": None,
        "sts-token-validity-seconds": 3600,
        "remote-signing-enabled": True,
        "push-s3-delete-disabled": True,
        "storage-layout": None,
    }
    assert stored(STACKIT | {"region": " eu02 "})["region"] == "eu02"
    assert stored(STACKIT | {"sts-enabled": None, "credentials-group-urn": GROUP})["sts-enabled"] is True


@pytest.mark.parametrize(
    ("change", "wire_type"),
    [
        ({"bucket": "my.bucket"}, "Invalidbucket"),
        ({"region": "EU"}, "Invalidregion"),
        ({"region": ""}, "Invalidregion"),
        ({"region": "0"}, "Invalidregion"),
        ({"region": "-eu01"}, "Invalidregion"),
        ({"sts-enabled": True}, "Invalidcredentials-group-urn"),
        ({"credentials-group-urn": "arn:aws:iam::1:role/x"}, "Invalidcredentials-group-urn"),
        ({"credentials-group-urn": "urn:sgws:identity::x:group/y"}, "Invalidcredentials-group-urn"),
        ({"remote-signing-enabled": False}, "Invalidremote-signing-enabled"),
        ({"endpoint": "https://u@h"}, "Invalidendpoint"),
    ],
)
def test_stackit_refuses(change: dict[str, Any], wire_type: str) -> None:
    assert error(STACKIT | change) == wire_type


def test_credentials_of_another_store_do_not_fit() -> None:
    stackit_key = KEY | {"type": "stackit"}
    assert stored(STACKIT, stackit_key)["bucket"] == "my-bucket"
    assert error(STACKIT, KEY) == "InvalidStorageCredential"
    assert error(S3, stackit_key) == "InvalidStorageCredential"


@pytest.mark.parametrize(
    "layout",
    [
        {"type": "default"},
        {"type": "tabular-only", "tabular": "{uuid}"},
        {"type": "full-hierarchy", "namespace": "{name}", "tabular": "{name}-{uuid}"},
    ],
)
def test_layouts(layout: dict[str, str]) -> None:
    assert stored(S3 | {"storage-layout": layout | {"more": 1}})["storage-layout"] == layout


@pytest.mark.parametrize(
    "layout",
    [
        {"type": "tabular-only"},
        {"type": "tabular-only", "tabular": "{name}"},
        {"type": "tabular-only", "tabular": "{uuid}/x"},
        {"type": "tabular-only", "tabular": "{uuid}{other}"},
        {"type": "tabular-only", "tabular": "{uuid}%2F"},
        {"type": "tabular-only", "tabular": "{uuid}" + "x" * 300},
        {"type": "tabular-only", "tabular": 7},
        {"type": "full-hierarchy", "namespace": "x", "tabular": "{uuid}"},
        {"type": "full-hierarchy", "namespace": "{name}"},
        {"type": "parent-namespace-and-tabular", "namespace": "{name}", "tabular": "{uuid}"},
    ],
)
def test_invalid_layouts(layout: dict[str, Any]) -> None:
    assert error(S3 | {"storage-layout": layout}) == "BadRequestException"


def follow(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Return the profile that an update stores."""
    return read_profile(after, None, before=stored(before)).as_json()


@pytest.mark.parametrize(
    ("before", "change"),
    [
        (S3, {"bucket": "other-bucket"}),
        (S3, {"key-prefix": "a"}),
        (S3 | {"key-prefix": "a"}, {"key-prefix": None}),
        (S3, {"region": "eu-2"}),
        (S3 | {"endpoint": "http://h"}, {"region": "eu-2", "endpoint": None}),
        (STACKIT, {"region": "eu02"}),
        (STACKIT, {"endpoint": "https://other"}),
        (STACKIT, {"bucket": "other-bucket"}),
        (STACKIT, {"key-prefix": "a"}),
    ],
)
def test_files_do_not_move(before: dict[str, Any], change: dict[str, Any]) -> None:
    with pytest.raises(CatalogError, match="cannot be updated") as refused:
        follow(before, before | change)
    assert (refused.value.status, refused.value.wire_type) == (400, "UpdateError")


def test_permitted_changes_and_members_that_an_update_keeps() -> None:
    layout = {"type": "default"}
    before = S3 | {"allow-alternative-protocols": True, "storage-layout": layout, "path-style-access": True}
    after = follow(before, S3 | {"endpoint": "http://new", "region": "eu-2", "flavor": "minio"})
    assert after["storage-layout"] == layout
    assert after["allow-alternative-protocols"] is True
    assert follow(before, S3 | {"allow-alternative-protocols": False})["allow-alternative-protocols"] is False
    assert (after["endpoint"], after["region"], after["flavor"]) == ("http://new/", "eu-2", "s3-compat")
    assert after["path-style-access"] is None
