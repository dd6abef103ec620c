"""The path is decoded once: the same path selects the stack, routes, and gives the names for views."""

from __future__ import annotations

import pytest

from tests.server.raw_client_fixtures import RawClient


@pytest.mark.parametrize(
    ("segment", "levels"),
    [
        ("plain", ["plain"]),
        ("a%2Fb", ["a/b"]),
        ("a+b", ["a b"]),
        ("a%20b", ["a b"]),
        ("a%2Bb", ["a+b"]),
        ("a%1Fb%1fc", ["a", "b", "c"]),
        ("a.b", ["a.b"]),
        ("...", ["..."]),
        ("%2e%2e%2fetc", ["../etc"]),
        ("%C3%A9%E2%98%83", ["é☃"]),
        ("a%252Fb", ["a%2Fb"]),
        ("a;b=c", ["a;b=c"]),
        ("100%25", ["100%"]),
    ],
)
def test_names_are_decoded_once_and_segment_by_segment(client: RawClient, segment: str, levels: list[str]) -> None:
    assert client.get(f"/catalog/v1/namespaces/{segment}").json == levels


@pytest.mark.parametrize("segment", ["%FF", "%C3%28", "a%00b", "%ED%A0%80"])
def test_bytes_that_are_no_text(client: RawClient, segment: str) -> None:
    response = client.get(f"/catalog/v1/namespaces/{segment}")
    assert (response.status, response.error_type) == (400, "BadRequestException")


@pytest.mark.parametrize(
    "target",
    [
        "/catalog/../page",
        "/catalog/v1/../../page",
        "/catalog/%2e%2e/page",
        "/catalog/%2E./page",
        "/catalog/.",
        "/catalog/./v1/echo",
        "/../catalog/v1/echo",
        "/page/..",
        "/static/..%2f..%2fetc/passwd",
        "/static/%2e%2e%2fpage",
        "http://host/catalog/../page",
        "ftp://host/catalog/v1/echo",
        "/catalog/v1/echo?x=%00",
    ],
)
def test_targets_with_two_readings_are_refused(client: RawClient, target: str) -> None:
    response = client.get(target)
    assert (response.status, response.error_type) == (400, "BadRequestException")
    assert client.get("/catalog/v1/echo").status == 200


@pytest.mark.parametrize(
    "target",
    [
        "/%63atalog/v1/echo",
        "/catalog%2fv1/echo",
        "/catalog%2Fv1%2Fecho",
        "//catalog/v1/echo",
        "/catalog//v1/echo",
        "/catalog",
        "/CATALOG/v1/echo",
        "/catalog\\v1\\echo",
        "/x/catalog/v1/echo",
        "/catalog/v1/echo/",
        "http://host",
        "http://host/?/catalog/v1/echo",
    ],
)
def test_nothing_but_the_prefix_reaches_an_api(client: RawClient, target: str) -> None:
    response = client.get(target)
    assert (response.status, response.error_type) == (404, "NotFoundException")


@pytest.mark.parametrize("target", ["http://other.example.com/catalog/v1/echo?a=b", "HTTP://h:1/catalog/v1/echo?a=b"])
def test_absolute_form(client: RawClient, target: str) -> None:
    echo = client.get(target).json
    assert (echo["path_info"], echo["query"]) == ("/catalog/v1/echo", "a=b")


def test_query_is_no_path(client: RawClient) -> None:
    assert client.get("/catalog/v1/echo?/../x&y=http://z").json["query"] == "/../x&y=http://z"


def test_headers_do_not_change_the_path(client: RawClient) -> None:
    response = client.get("/catalog/v1/echo", "SCRIPT_NAME: /catalog", "PATH_INFO: /page", "X-Original-Url: /page")
    assert response.json["path_info"] == "/catalog/v1/echo"


def test_other_paths_are_decoded_as_django_expects(client: RawClient) -> None:
    assert client.get("/p%61ge").json["path_info"] == "/page"
