from __future__ import annotations

import pytest

from icekeeper.conf.environment import read_settings
from icekeeper.kernel.errors.types import BadRequest, NoHostHeader
from icekeeper.kernel.http.base_url import base_url

DEFAULTS, _ = read_settings({})


def _meta(**headers: str) -> dict[str, object]:
    return {f"HTTP_{name.upper()}": value for name, value in headers.items()}


@pytest.mark.parametrize(
    ("headers", "url"),
    [
        ({"host": "catalog:8181"}, "http://catalog:8181"),
        ({"host": "catalog:80"}, "http://catalog"),
        ({"host": "[::1]:8181"}, "http://[::1]:8181"),
        ({"host": "in:8181", "x_forwarded_proto": "https"}, "https://in:8181"),
        ({"host": "in:8181", "x_forwarded_proto": "HTTP"}, "http://in:8181"),
        ({"host": "in:8181", "x_forwarded_port": "443"}, "https://in"),
        ({"host": "in", "x_forwarded_host": "out.example.com"}, "https://out.example.com"),
        ({"x_forwarded_host": "out.example.com:8443", "x_forwarded_port": "1"}, "https://out.example.com:8443"),
        ({"x_forwarded_host": "out", "x_forwarded_port": "8443"}, "https://out:8443"),
        ({"x_forwarded_host": "out", "x_forwarded_proto": "http", "x_forwarded_port": "80"}, "http://out"),
        ({"x_forwarded_host": "first, second", "x_forwarded_prefix": "/a/b/ , /c"}, "https://first/a/b"),
        ({"x_forwarded_host": "out", "x_forwarded_prefix": "/"}, "https://out"),
        ({"host": "in", "x_forwarded_prefix": "/ice"}, "https://in/ice"),
    ],
)
def test_from_headers(headers: dict[str, str], url: str) -> None:
    assert base_url(_meta(**headers), DEFAULTS) == url


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "a b"},
        {"host": "user@evil"},
        {"host": "evil/path"},
        {"host": "evil?x"},
        {"host": "evil#x"},
        {"host": "evil\\x"},
        {"host": 'evil"x'},
        {"host": "host:99999"},
        {"host": "host:0"},
        {"host": "host:"},
        {"host": "[zz]"},
        {"host": "[::1"},
        {"host": "h" * 300},
        {"host": "in", "x_forwarded_proto": "javascript"},
        {"host": "in", "x_forwarded_port": "1e3"},
        {"host": "in", "x_forwarded_port": "70000"},
        {"host": "in", "x_forwarded_host": "evil.example/@good"},
        {"host": "in", "x_forwarded_prefix": "no-slash"},
        {"host": "in", "x_forwarded_prefix": "//evil.example"},
        {"host": "in", "x_forwarded_prefix": "/a/../b"},
        {"host": "in", "x_forwarded_prefix": "/a?b"},
        {"host": "in", "x_forwarded_prefix": "/a\r\nX: y"},
    ],
)
def test_hostile_values_are_refused(headers: dict[str, str]) -> None:
    with pytest.raises(BadRequest):
        base_url(_meta(**headers), DEFAULTS)


@pytest.mark.parametrize("headers", [{}, {"host": ""}, {"x_forwarded_proto": "https"}, {"x_forwarded_prefix": "/a"}])
def test_no_host(headers: dict[str, str]) -> None:
    with pytest.raises(NoHostHeader):
        base_url(_meta(**headers), DEFAULTS)


def test_base_uri_comes_first() -> None:
    settings, _ = read_settings({"LAKEKEEPER__BASE_URI": "https://fixed.example.com/ice/"})
    assert base_url(_meta(host="in", x_forwarded_host="out"), settings) == "https://fixed.example.com/ice"
    assert base_url({}, settings) == "https://fixed.example.com/ice"


def test_forwarded_headers_can_be_turned_off() -> None:
    settings, _ = read_settings({"LAKEKEEPER__USE_X_FORWARDED_HEADERS": "false"})
    assert base_url(_meta(host="in", x_forwarded_host="evil", x_forwarded_proto="https"), settings) == "http://in"
