"""Storage layouts: the path segment for a name and an id, and names that are rejected."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icekeeper.kernel.errors.types import BadRequest, InvalidLocation
from icekeeper.kernel.names import require_name
from storage.profiles.location import (
    MAX_KEY_BYTES,
    MAX_SEGMENT_BYTES,
    location_inside,
    namespace_location,
    tabular_location,
)

ID = UUID("01a20222-43db-71ac-acbe-98b038595074")
S3 = "s3://bucket/wh"
ADLS = "abfss://files@account1.dfs.core.windows.net/wh"
LOCAL = "file:///srv/wh"


def hierarchy(namespace: str = "{name}", tabular: str = "{name}-{uuid}") -> dict[str, Any]:
    return {"storage-layout": {"type": "full-hierarchy", "namespace": namespace, "tabular": tabular}}


def flat(tabular: str) -> dict[str, Any]:
    return {"storage-layout": {"type": "tabular-only", "tabular": tabular}}


NONE: list[dict[str, Any]] = [{}, {"storage-layout": None}, {"storage-layout": {"type": "default"}}]


def folder_of(profile: dict[str, Any], name: str = "sales", parent: str | None = None, base: str = S3) -> str:
    return namespace_location(profile, base=base, parent=parent, name=name, namespace_id=ID)


def location_of(profile: dict[str, Any], name: str = "orders", folder: str | None = None, base: str = S3) -> str:
    return tabular_location(profile, base=base, folder=folder or f"{base}/ns", name=name, tabular_id=ID)


@pytest.mark.parametrize("profile", [*NONE, flat("{name}-{uuid}")])
@pytest.mark.parametrize("parent", [None, S3, f"{S3}/chosen"])
def test_without_a_hierarchy_namespaces_have_no_folders(profile: dict[str, Any], parent: str | None) -> None:
    assert folder_of(profile, parent=parent) == S3


@pytest.mark.parametrize("profile", NONE)
def test_by_default_a_table_is_named_by_its_uuid(profile: dict[str, Any]) -> None:
    assert location_of(profile) == f"{S3}/ns/{ID}"
    assert location_of(profile, folder=S3) == f"{S3}/{ID}"


@pytest.mark.parametrize(
    ("template", "segment"),
    [
        ("{name}", "sales"),
        ("{uuid}", str(ID)),
        ("ns={name}@{uuid}.~_+ x", f"ns=sales@{ID}.~_+ x"),
        ("{name}{name}", "salessales"),
    ],
)
def test_templates(template: str, segment: str) -> None:
    assert folder_of(hierarchy(template)) == f"{S3}/{segment}"
    assert folder_of(hierarchy(template), parent=f"{S3}/a/b") == f"{S3}/a/b/{segment}"
    assert location_of(hierarchy(tabular=template), "sales") == f"{S3}/ns/{segment}"
    assert location_of(flat(template), "sales", folder=S3) == f"{S3}/{segment}"


@pytest.mark.parametrize(
    ("name", "encoded"),
    [
        ("A-z0_9.~", "A-z0_9.~"),
        ("a/b", "a%2Fb"),
        ("../x", "..%2Fx"),
        ("100%", "100%25"),
        ("%2F", "%252F"),
        ("a b+c", "a%20b%2Bc"),
        ("{uuid}{name}", "%7Buuid%7D%7Bname%7D"),
        ("*?#\\_'\"", "%2A%3F%23%5C_%27%22"),
        ("ü", "%C3%BC"),
        ("${aws:username}", "%24%7Baws%3Ausername%7D"),
    ],
)
def test_names_are_encoded_and_contain_no_location(name: str, encoded: str) -> None:
    assert location_of(hierarchy(tabular="{name}"), name) == f"{S3}/ns/{encoded}"
    assert folder_of(hierarchy(), name) == f"{S3}/{encoded}"


NO_FOLDER = [
    (S3, ".", "dot segments"),
    (S3, "..", "dot segments"),
    (S3, "n" * (MAX_SEGMENT_BYTES + 1), "longer than 255 bytes"),
    (S3, "ü" * 43, "longer than 255 bytes"),
    (ADLS, " ", "Azure"),
    (ADLS, "/", "Azure"),
    (LOCAL, "my table", "not allowed"),
    (LOCAL, "a/b", "not allowed"),
    (LOCAL, "..", "dot segments"),
]


@pytest.mark.parametrize(("base", "name", "why"), NO_FOLDER)
def test_names_for_which_the_layout_has_no_folder(base: str, name: str, why: str) -> None:
    text = f"storage-layout of the warehouse builds the folder .*{why}.*Choose a location, or another name"
    for create in (folder_of, location_of):
        with pytest.raises(InvalidLocation, match=text):
            create(hierarchy("{name}", "{name}"), name, base=base)
    assert location_of({}, name, base=base) == f"{base}/ns/{ID}", "names are nothing to the default layout"


def test_the_longest_paths() -> None:
    deep = S3 + "/d" * ((MAX_KEY_BYTES - len("wh") - len(f"/{ID}")) // 2)
    project = MAX_KEY_BYTES - len(deep.removeprefix("s3://bucket/")) - 1
    assert location_of(hierarchy(tabular="{name}"), "n" * project, folder=deep).endswith("n")
    with pytest.raises(InvalidLocation, match=f"longer than {MAX_KEY_BYTES} bytes"):
        location_of(hierarchy(tabular="{name}"), "n" * (project + 1), folder=deep)
    local = LOCAL + "/d" * 900
    assert location_of(hierarchy(tabular="{name}"), "n" * 100, folder=local, base=LOCAL).endswith("n")
    with pytest.raises(InvalidLocation, match="longer than 2000 bytes"):
        location_of(hierarchy(tabular="{name}"), "n" * 255, folder=local, base=LOCAL)


@given(name=st.text(min_size=1, max_size=60), base=st.sampled_from([S3, ADLS, LOCAL, "gs://bucket"]))
def test_a_name_never_leads_elsewhere(name: str, base: str) -> None:
    try:
        require_name(name, "table name")
    except BadRequest:
        return
    profile = hierarchy("{name}", "{name}")
    try:
        folder = folder_of(profile, name, base=base)
        location = location_of(profile, name, folder=folder, base=base)
    except InvalidLocation:
        return
    assert location_inside(location, base=base) == location
    assert location == f"{folder}{folder.removeprefix(base)}"
    assert folder.count("/") == base.count("/") + 1


def test_two_names_get_two_folders() -> None:
    names = ["a", "A", "a%20", "a ", "a+", "a%2B", "a/", "a.", "a_", "a*", "ä", "a\u0308"]
    assert len({location_of(flat("{uuid}-{name}"), name) for name in names}) == len(names)
