"""Values in the notation of Lakekeeper's environment variables: quoted, lists, compound."""

from __future__ import annotations

from typing import Any

import pytest

from icekeeper.conf.parsing import MAX_DEPTH, parse_value, unquote


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"*"', "*"),
        (' "1" ', "1"),
        ('""', ""),
        (r'"a\"b\\c\n"', 'a"b\\c\n'),
        ('"a\nb"', "a\nb"),
        # Not a single quoted text: unchanged.
        ("*", "*"),
        ("", ""),
        (" a ", " a "),
        ('"', '"'),
        ('"a', '"a'),
        ('"a","b"', '"a","b"'),
        ('a"b"', 'a"b"'),
        ("'a", "'a"),
        ("'a','b'", "'a','b'"),
        ("'", "'"),
        # Single quotes have no escapes.
        ("'a'", "a"),
        (r"'a\q'", r"a\q"),
    ],
)
def test_quotes_around_a_value_are_removed(text: str, value: str) -> None:
    assert unquote(text) == value


@pytest.mark.parametrize(
    "text", [r'"canary\q"', r' "canary\$" ', r'"\ud800canary"', r'"\U00110000canary"', r'"canary\u12"']
)
def test_unknown_escapes_are_refused_and_not_shown(text: str) -> None:
    with pytest.raises(ValueError, match=r"^a quoted text with the escapes of TOML, or no quotes$"):
        unquote(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{}", {}),
        (" { } ", {}),
        ("{url=http://vault:8200/?a=b}", {"url": "http://vault:8200/?a=b"}),
        ("{a=1, b-c = true,d_e=x y ,}", {"a": "1", "b-c": "true", "d_e": "x y"}),
        ('{"a.b"="c,{d}", e="\\"f"}', {"a.b": "c,{d}", "e": '"f'}),
        ("{a='x, y',b=it's}", {"a": "x, y", "b": "it's"}),
        ("{a=,b={c=[d, \"e f\"],g=[]}}", {"a": "", "b": {"c": ["d", "e f"], "g": []}}),
        ("{Aa={B=C}}", {"aa": {"b": "C"}}),
        ("[a,,b,]", ["a", "b"]),
        ('["", a]', ["", "a"]),
        ("[{a=b}, [c]]", [{"a": "b"}, ["c"]]),
        ("{\n  a = [\n    b,\n  ]\n}", {"a": ["b"]}),
    ],
)  # fmt: skip
def test_lists_and_compound_values(text: str, value: Any) -> None:
    assert parse_value(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "{canary", "{canary=", "{canary=1", "{canary=1}}", "{=canary}", "{canary}", '{"canary": "1"}', "{canary:1}",
        "{a=canary b=[c]}", "{a=1}canary", "{a=1,a=canary}", "{a=1,A=canary}", '{a="canary}', '{a="canary"x}',
        '{a="can\\qary"}',
        "[canary", "[canary}", "[canary]]", "[a [canary]]", "{a=[canary}", "{,a=canary}",
    ],
)  # fmt: skip
def test_malformed_values_are_refused_and_not_shown(text: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - any message is good that shows nothing
        parse_value(text)
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize("opening", ["[", "{a="])
def test_the_depth_is_bounded(opening: str) -> None:
    closing = "]" if opening == "[" else "}"
    assert parse_value(opening * MAX_DEPTH + closing * MAX_DEPTH)
    with pytest.raises(ValueError, match=f"at most {MAX_DEPTH} levels"):
        parse_value(opening * 100_000)
