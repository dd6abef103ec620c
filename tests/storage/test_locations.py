"""Locations in object stores: comparison by bytes, containment in the warehouse, and overlap of warehouses."""

from __future__ import annotations

from typing import Any

import pytest

from icekeeper.kernel.errors.types import BadRequest, InvalidLocation
from storage.credentials import read_credential
from storage.profiles.kinds import read_profile
from storage.profiles.location import (
    ancestor_keys,
    build_location_key,
    descendant_key_range,
    keys_overlap,
    location_inside,
    new_location_inside,
    parents,
)
from tests.storage.test_profiles_gcs import ACCOUNT

S3 = "s3://bucket/wh"
ADLS = "abfss://files@account1.dfs.core.windows.net/wh"
ONELAKE = "abfss://w@onelake.dfs.fabric.microsoft.com/l/Files"
GS = "gs://bucket/wh"


@pytest.mark.parametrize(
    ("base", "spelled", "compared"),
    [
        (S3, f"{S3}/a", f"{S3}/a"),
        (S3, f"{S3}/a/", f"{S3}/a"),
        (S3, "s3a://bucket/wh/a", f"{S3}/a"),
        (S3, "s3n://bucket/wh/a", f"{S3}/a"),
        (S3, f"{S3}/A%2Fb c+ü", f"{S3}/A%2Fb c+ü"),
        ("s3://bucket", "s3://bucket/a", "s3://bucket/a"),
        (ADLS, f"{ADLS}/a%41", f"{ADLS}/a%41"),
        (ADLS, ADLS.replace("abfss", "wasbs") + "/a", f"{ADLS}/a"),
        (ONELAKE, f"{ONELAKE}/a", f"{ONELAKE}/a"),
        (GS, f"{GS}/a", f"{GS}/a"),
    ],
)
def test_compared_forms(base: str, spelled: str, compared: str) -> None:
    assert location_inside(spelled, base=base) == compared


@pytest.mark.parametrize(
    ("base", "spelled"),
    [
        *((S3, f"{S3}{rest}") for rest in ("", "/", "2/a", "//a", "/a//", "/a//b", "/../x", "/./x", "/a?b", "/a#b")),
        *((S3, f"{S3}/{rest}") for rest in ("a\x00", "a\x1f", "a\u200e", "s3://x", "x" * 2000, "a\ud800")),
        *((S3, text) for text in ("s3://other/wh/a", "S3://bucket/wh/a", "s3:/bucket/wh/a", "file:///bucket/wh/a", "")),
        *((S3, text) for text in ("gs://bucket/wh/a", "s3://bucket", "s3://", "s3:///wh/a", "a")),
        *((S3, thing) for thing in (None, 7, ["s3://bucket/wh/a"])),
        *((ADLS, f"{ADLS}/{rest}") for rest in ("%2F", "%2e", "a/%2E%2e/b", "a/ /b", "%20", "a/%09")),
        (ADLS, ADLS.replace("account1", "account2") + "/a"),
        (ONELAKE, f"{ONELAKE}/a%41"),
        (GS, "s3://bucket/wh/a"),
        ("file:///srv/wh", "s3://srv/wh/a"),
    ],
)
def test_locations_outside_the_warehouse(base: str, spelled: Any) -> None:
    with pytest.raises(InvalidLocation):
        location_inside(spelled, base=base)


@pytest.mark.parametrize(
    ("base", "rest"),
    [
        *((base, rest) for base in (S3, ADLS, ONELAKE, GS) for rest in ("a\\b", "a/..\\b", "\\", "a\\")),
        *((base, rest) for base in (ADLS, ONELAKE) for rest in ("a.", "a./b", "a...", "a. ")),
        *((ADLS, rest) for rest in ("a%2E", "a%2e/b", "a.%20")),
    ],
)
def test_a_location_that_some_store_takes_for_another_is_not_new(base: str, rest: str) -> None:
    assert location_inside(f"{base}/{rest}", base=base) == f"{base}/{rest}", "what is there already stays readable"
    with pytest.raises(InvalidLocation):
        new_location_inside(f"{base}/{rest}", base=base, storage_profile={})


def test_an_older_warehouse_at_such_a_location_still_takes_tables() -> None:
    for base in (f"{S3}\\a", f"{ADLS}/a."):
        assert new_location_inside(f"{base}/t", base=base, storage_profile={}) == f"{base}/t"


@pytest.mark.parametrize(
    "members",
    [
        {"type": "s3", "bucket": "bucket", "region": "eu-1", "sts-enabled": False, "key-prefix": "a\\b"},
        {"type": "gcs", "bucket": "bucket", "key-prefix": "a\\b"},
    ],
)
def test_no_warehouse_is_created_at_such_a_location(members: dict[str, Any]) -> None:
    key = None if members["type"] == "s3" else read_credential(ACCOUNT)
    with pytest.raises(BadRequest):
        read_profile(members, key)
    before = read_profile(members | {"key-prefix": "a"}, key).as_json() | {"key-prefix": "a\\b"}
    assert read_profile(members, key, before=before).location.endswith("/a\\b"), "it can be changed"


@pytest.mark.parametrize(("base", "rest"), [(S3, "a."), (GS, "a."), (ADLS, ".a"), (ADLS, "a.b"), (ADLS, "a%41")])
def test_dots_that_no_store_drops(base: str, rest: str) -> None:
    assert new_location_inside(f"{base}/{rest}", base=base, storage_profile={}) == f"{base}/{rest}"


@pytest.mark.parametrize("spelled", ["s3a://bucket/wh/a", "s3n://bucket/wh/a"])
def test_other_spellings_of_the_scheme_need_leave_for_something_new(spelled: str) -> None:
    for profile in ({}, {"allow-alternative-protocols": False}, {"allow-alternative-protocols": None}):
        with pytest.raises(InvalidLocation, match="must begin with s3:"):
            new_location_inside(spelled, base=S3, storage_profile=profile)
    allowed = {"allow-alternative-protocols": True}
    assert new_location_inside(spelled, base=S3, storage_profile=allowed) == f"{S3}/a"
    assert new_location_inside(f"{S3}/a", base=S3, storage_profile={}) == f"{S3}/a"


def test_parents_of_a_location_in_a_whole_bucket() -> None:
    assert list(parents("s3://bucket/a/b/c", base="s3://bucket")) == ["s3://bucket/a", "s3://bucket/a/b"]


def s3(location: str, **members: Any) -> tuple[dict[str, Any], str]:
    bucket = location.split("/")[2]
    return {"type": "s3", "bucket": bucket, "region": "eu-1", "endpoint": None, **members}, location


AWS = "https://s3.eu-1.amazonaws.com/"


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (s3("s3://b/a"), s3("s3://b/a"), True),
        (s3("s3://b/a"), s3("s3://b/a/b"), True),
        (s3("s3://b"), s3("s3://b/a/b"), True),
        (s3("s3://b/a"), s3("s3://b/ab"), False),
        (s3("s3://b/a"), s3("s3://c/a"), False),
        (s3("s3://b"), s3("s3://bb"), False),
        (s3("s3://b/a"), s3("s3://b/a", region="eu-2"), True),
        (s3("s3://b/a"), s3("s3://b/a", endpoint="http://minio/"), False),
        (s3("s3://b/a"), s3("s3://b/a", endpoint=AWS), True),
        (s3("s3://b/a", endpoint="http://m/"), s3("s3://b/a", endpoint="http://m/", type="stackit"), True),
        (({"type": "gcs", "bucket": "b"}, "gs://b/a"), ({"type": "gcs", "bucket": "b"}, "gs://b"), True),
        (({"type": "gcs", "bucket": "b"}, "gs://b/a"), s3("s3://b/a"), False),
        (({"type": "local"}, "file:///a/b"), ({"type": "local"}, "file:///a"), True),
        (({"type": "local"}, "file:///a/b"), ({"type": "local"}, "file:///a/bc"), False),
    ],
)
def test_overlaps(one: Any, other: Any, expected: bool) -> None:
    assert meet(one, other) is meet(other, one) is expected


SCHEME_ALIASES = [
    ("http://minio:9000/", [
        "http://minio.:9000/", "http://minio:9000", "http://MINIO:9000/", "https://minio:9000/", "http://b.minio:9000/",
        "http://B.Minio.:9000/",
    ]),
    ("https://s3.example.com/", [
        "https://s3.example.com:443/", "http://s3.example.com/", "http://s3.example.com:80/", "https://s3.example.com./",
        "https://b.s3.example.com/",
    ]),
    ("http://b.example.com/", ["http://b.b.example.com/", "https://b.example.com.:443/"]),
    ("http://[::1]:9000/", ["https://[::1]:9000"]),
    (None, [
        "https://b.s3.amazonaws.com/", "https://s3.amazonaws.com./", "https://S3.amazonaws.com:443/",
        "https://b.s3.eu-1.amazonaws.com/", "https://b.s3-eu-1.amazonaws.com/", "http://s3.amazonaws.com/",
        "https://b.s3.dualstack.eu-1.amazonaws.com/", "https://b.s3-accelerate.amazonaws.com/",
        "https://bucket.vpce-1a-2b.s3.eu-1.vpce.amazonaws.com/", "https://b.s3.cn-north-1.amazonaws.com.cn/",
    ]),
]  # fmt: skip
"""The store `b` is in, and other addresses of it."""


@pytest.mark.parametrize(("address", "others"), SCHEME_ALIASES)
def test_one_store_under_other_addresses(address: str | None, others: list[str]) -> None:
    for other in others:
        assert meet(s3("s3://b/a", endpoint=address), s3("s3://b/a/c", endpoint=other)), other


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://minio:9000/", "http://minio:9001/"),
        ("http://minio:9000/", "http://minio/"),
        ("http://minio/", "http://minio2/"),
        ("http://minio/", "http://c.minio/"),
        ("http://minio/", "http://bminio/"),
        (None, "http://ec2-1-2-3-4.compute-1.amazonaws.com:9000/"),
        (None, "https://s3.amazonaws.com.example.com/"),
        (None, "https://s3.eu-1.example.com/"),
        (None, "https://notamazonaws.com/"),
    ],
)
def test_other_stores(one: str | None, other: str) -> None:
    assert not meet(s3("s3://b/a", endpoint=one), s3("s3://b/a", endpoint=other))


def meet(one: Any, other: Any) -> bool:
    """Evaluate the key lists and ranges of the database query, and check that they agree with `keys_overlap`."""
    location, asked = build_location_key(*other), build_location_key(*one)
    first, end = descendant_key_range(asked)
    found = location in ancestor_keys(asked) or first <= location < end
    assert keys_overlap(location, asked) is found
    return found


def test_the_locations_above() -> None:
    location = build_location_key({"type": "local"}, "file:///a/b")
    assert [above.removeprefix(location[:32]) for above in ancestor_keys(location)] == ["/", "/a/", "/a/b/"]
    assert descendant_key_range(location) == (f"{location[:32]}/a/b/", f"{location[:32]}/a/b0")


def test_one_lakehouse_under_two_addresses() -> None:
    profile = {"type": "onelake", "workspace-id": "w"}
    one, other = (profile, "abfss://w@onelake.h/l/Files"), (profile, "abfss://w@westus-onelake.h/l/Files/a")
    assert meet(one, other)
    assert not meet(one, (profile, "abfss://w@onelake.h/l/Tables"))
