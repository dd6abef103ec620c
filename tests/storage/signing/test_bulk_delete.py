"""Parsing of DeleteObjects bodies: every key is found, and ambiguous bodies are rejected."""

from __future__ import annotations

from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icekeeper.kernel.errors.types import CatalogError
from storage.signing.request import parse_delete_body
from tests.storage.signing.test_request import error, read

OF_S3 = "http://s3.amazonaws.com/doc/2006-03-01/"


def body(*objects: str, quiet: str = "") -> str:
    return f"<Delete>{quiet}{''.join(f'<Object>{each}</Object>' for each in objects)}</Delete>"


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (body("<Key>t/a</Key>"), ("t/a",)),
        (body("<Key>t/a</Key>", "<Key>t/b</Key>", quiet="<Quiet>true</Quiet>"), ("t/a", "t/b")),
        (f'<?xml version="1.0" encoding="UTF-8"?>\n<Delete xmlns="{OF_S3}"><Object><Key>t/a</Key></Object></Delete>',
         ("t/a",)),
        (f'<s:Delete xmlns:s="{OF_S3}"><s:Object><s:Key>t/a</s:Key></s:Object></s:Delete>', ("t/a",)),
        (body("<Key>t/a&amp;b&lt;&#252;&#x2F;c</Key>"), ("t/a&b<ü/c",)),
        (body("<Key>t/ü ☃\U0001f600</Key>"), ("t/ü ☃\U0001f600",)),
        (body("<Key>t/a</Key><ETag>x</ETag><Size>1</Size>"), ("t/a",)),
        (" " + body("\n <Key>t/a</Key> \n") + "\n", ("t/a",)),
    ],
)  # fmt: skip
def test_the_keys_are_found(text: str, keys: tuple[str, ...]) -> None:
    assert parse_delete_body(text) == keys


@pytest.mark.parametrize(
    "text",
    [
        "<", "x", "{}", "<Delete/>", "<Delete></Delete>", "<Delete><Quiet>true</Quiet></Delete>", body(""),
        "<delete><Object><Key>t/a</Key></Object></delete>", "<Deleted><Object><Key>t/a</Key></Object></Deleted>",
        body("<Key/>"), body("<Key></Key>"), body("<Key>t/a</Key><Key>t/b</Key>"), body("<key>t/a</key>"),
        body("<Key>t/a</Key><VersionId>1</VersionId>"), body("<Key>t/a</Key><VersionId/>"),
        body("<Key>t/a</Key><Other/>"), "<Delete><Object><Key>t/a</Key></Object><Other/></Delete>",
        body("<Key><b>t/a</b></Key>"), body("<Key>t<b/>/a</Key>"), body("<Key a='b'>t/a</Key>"),
        "<Delete><Object a='b'><Key>t/a</Key></Object></Delete>",
        body("<Key>t/<!-- -->a</Key>"), body("<Key><![CDATA[t/a]]></Key>"), body("<Key>t/a<?x y?></Key>"),
        '<!DOCTYPE Delete [<!ENTITY a "t/a">]><Delete><Object><Key>&a;</Key></Object></Delete>',
        '<!DOCTYPE Delete SYSTEM "file:///etc/passwd"><Delete><Object><Key>t/a</Key></Object></Delete>',
        body("<Key>&unknown;</Key>"), body("<Key>t/a</Key>") * 2, body("<Key>t/a</Key>") + "<x/>",
        '<?xml version="1.0" encoding="UTF-7"?>' + body("<Key>t/a</Key>"),
        '<?xml version="1.0" encoding="ISO-8859-1"?>' + body("<Key>t/a</Key>"),
        '<?xml version="1.1"?>' + body("<Key>t/a</Key>"), '<?xml version="1.0"?>' * 2 + body("<Key>t/a</Key>"),
        "\ufeff<" + body("<Key>t/a</Key>"), body("<Key>t/\x00</Key>"), body("<Key>t/&#0;</Key>"),
        body(*["<Key>t/a</Key>"] * 1001), body(f"<Key>t/a</Key>{' ' * 4_200_000}"), "<a>" * 100_000,
    ],
)  # fmt: skip
def test_other_bodies(text: str) -> None:
    with pytest.raises(CatalogError) as refused:
        parse_delete_body(text)
    assert (refused.value.status, refused.value.wire_type) == (400, "InvalidDeleteBody")


@pytest.mark.parametrize(
    "key", ["t/../u", "t//a", "/t/a", "t/a/", "t/./a", "..", "t\\a", "t/a&#10;", "&#9;t/a", "x" * 1025]
)
def test_ambiguous_keys_are_rejected(key: str) -> None:
    with pytest.raises(CatalogError) as refused:
        parse_delete_body(body("<Key>t/a</Key>", f"<Key>{key}</Key>"))
    assert (refused.value.status, refused.value.wire_type) == (400, "InvalidObjectKey")


@pytest.mark.parametrize("text", ["", None])
def test_without_a_body(text: str | None) -> None:
    assert error("POST", "?delete", body=text) == (400, "DeleteWithoutBody")


def test_a_thousand() -> None:
    keys = [f"t/{number}" for number in range(1000)]
    assert parse_delete_body(body(*(f"<Key>{key}</Key>" for key in keys))) == tuple(keys)


def test_every_key_counts() -> None:
    found = read("POST", "?delete", body=body("<Key>wh/t/a</Key>", "<Key>wh/u/a</Key>"))
    assert [found.is_within(folders) for folders in (["wh/t"], ["wh/u"], ["wh/t", "wh/u"], [])] == [
        False, False, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "refused"),
    [
        ("/t/a?delete", "UriNotBucket"),
        ("?delete&acl", "UnsupportedQueryParameter"),
        ("?delete&delete", "UnsupportedQueryParameter"),
        ("?delete=1", "UnsupportedQueryParameter"),
        ("?deleted", "UriNotS3"),
        ("?x-id=delete", "UriNotS3"),
        ("?Delete", "UriNotS3"),
        ("/t/delete", "UnsupportedQueryParameter"),
    ],
)
def test_it_is_asked_of_the_bucket_in_one_form(path: str, refused: str) -> None:
    assert error("POST", path, body=body("<Key>t/a</Key>")) == (400, refused)
    assert read("POST", "/?delete&x-id=DeleteObjects", body=body("<Key>t/a</Key>")).keys == ("t/a",)


NAMES = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\\/\ufffe\uffff"), min_size=1, max_size=20
).filter(lambda each: each not in {".", ".."})


@given(st.lists(NAMES, min_size=1, max_size=5))
def test_keys_survive_the_way(names: list[str]) -> None:
    assert parse_delete_body(body(*(f"<Key>t/{escape(name)}</Key>" for name in names))) == tuple(
        f"t/{n}" for n in names
    )
