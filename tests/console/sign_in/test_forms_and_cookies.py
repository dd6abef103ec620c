"""Forms of other sites, cookies, and the public address behind a proxy."""

from __future__ import annotations

import pytest

from management.models import ConsoleSession
from tests.console.sign_in.browser import Browser
from tests.console.sign_in.conftest import SetVariables
from tests.console.sign_in.session_fixtures import is_signed_in, new_code, sign_in_once

pytestmark = pytest.mark.django_db

ONCE = "/ui/sign-in/once/"
PROXY = {"x_forwarded_host": "lake.example.com", "x_forwarded_proto": "https", "x_forwarded_prefix": "/ice"}


@pytest.mark.parametrize("origin", ["http://evil.example.com", "null", "https://testserver", "http://testserver:8181"])
def test_forms_of_other_origins(browser: Browser, origin: str) -> None:
    code = new_code()
    page = browser.post(ONCE, {"code": code}, origin=origin)
    assert page.status == 403
    assert "another site" in page.text
    assert ConsoleSession.objects.count() == 0
    assert browser.post(ONCE, {"code": code}).status == 302, "the code was not used"


def test_forms_need_the_token(browser: Browser) -> None:
    code = new_code()
    for token in (None, "x", "a" * 64):
        assert browser.post(ONCE, {"code": code}, csrf=token).status == 403
        assert browser.post(ONCE, {"code": code}, csrf=token, origin=None).status == 403
    assert browser.post(ONCE, {"code": code}, origin=None).status == 302, "a browser that sends no Origin"


def test_a_sign_out_of_another_site(browser: Browser) -> None:
    sign_in_once(browser)
    assert browser.post("/ui/sign-out/", origin="http://evil.example.com").status == 403
    assert browser.post("/ui/sign-out/", csrf=None).status == 403
    assert is_signed_in(browser)


def test_the_csrf_token_changes_at_sign_in(browser: Browser) -> None:
    browser.get("/ui/sign-in/once/?code=" + new_code())
    before = browser.cookies["icekeeper_csrf"]
    sign_in_once(browser)
    assert browser.cookies["icekeeper_csrf"] != before


def test_cookies_over_http(browser: Browser) -> None:
    page = sign_in_once(browser)
    assert set(page.cookies) == {"icekeeper_session", "icekeeper_csrf"}
    for cookie in page.cookies.values():
        assert (cookie["path"], cookie["httponly"], cookie["samesite"], cookie["secure"], cookie["domain"]) == (
            "/ui", True, "Lax", "", "",
        )  # fmt: skip
    assert page.cookies["icekeeper_session"]["max-age"] == ""


def test_cookies_behind_a_proxy_with_tls_and_a_prefix() -> None:
    browser = Browser(origin="https://lake.example.com", **PROXY)
    shown = browser.get(f"{ONCE}?code={new_code()}")
    assert 'action="/ice/ui/sign-in/once/"' in shown.text
    page = browser.post(ONCE, {"code": new_code()})
    assert (page.status, page.location) == (302, "/ice/ui/")
    for cookie in page.cookies.values():
        assert (cookie["path"], bool(cookie["secure"])) == ("/ice/ui", True)
    assert browser.get("/ui/sign-in/?next=/ice/ui/catalog/").location == "/ice/ui/catalog/"
    assert browser.get("/ui/sign-in/?next=/ui/catalog/").location == "/ice/ui/"
    assert browser.post("/ui/sign-out/", origin="http://lake.example.com").status == 403
    assert browser.post("/ui/sign-out/", origin="https://testserver").status == 403
    out = browser.post("/ui/sign-out/")
    assert out.location == "https://lake.example.com/ice/ui/logout"
    deleted = out.cookies["icekeeper_session"]
    assert (deleted.value, deleted["path"]) == ("", "/ice/ui")


def test_the_configured_address_counts(variables: SetVariables) -> None:
    variables(LAKEKEEPER__BASE_URI="https://lake.example.com/")
    browser = Browser(origin="https://lake.example.com")
    page = sign_in_once(browser)
    assert all(cookie["secure"] for cookie in page.cookies.values())
    assert browser.post("/ui/sign-out/", origin="http://testserver").status == 403


@pytest.mark.parametrize("header", ["x_forwarded_proto", "x_forwarded_host", "x_forwarded_prefix"])
def test_hostile_headers_of_a_proxy(header: str) -> None:
    for value in ("javascript", "evil.com/x", "\r\nA: b", "//evil", "<script>", "a b"):
        page = Browser(**{"x_forwarded_host": "a", header: value}).get("/ui/sign-in/")
        assert page.status in {200, 400}
        assert "<script>" not in page.text


def test_a_large_form_without_a_session(browser: Browser) -> None:
    code = new_code()
    page = browser.post(ONCE, {"code": code, "padding": "x" * 10_000_000})
    assert page.status == 413
    assert browser.post(ONCE, {"code": code}).status == 302


def test_many_fields(browser: Browser) -> None:
    page = browser.post(ONCE, {f"f{number}": "" for number in range(2000)})
    assert page.status == 400
