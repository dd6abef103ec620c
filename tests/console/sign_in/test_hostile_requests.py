"""A cookie that was planted before sign-in, a foreign host, and frames and caches of what the console serves."""

from __future__ import annotations

import pytest

from tests.console.sign_in.browser import Browser
from tests.console.sign_in.session_fixtures import is_signed_in, sign_in_once
from tests.harness.routes import CONSOLE_ROUTES

pytestmark = pytest.mark.django_db


def test_a_planted_session_is_not_the_one_that_is_signed_in() -> None:
    """Session fixation: sign-in issues a key that is new to every client, and the planted one stays without a user."""
    planted = "k" * 32
    victim, attacker = Browser(), Browser()
    victim.cookies["icekeeper_session"] = attacker.cookies["icekeeper_session"] = planted
    sign_in_once(victim)
    assert victim.cookies["icekeeper_session"] != planted
    assert is_signed_in(victim)
    assert not is_signed_in(attacker)


def test_a_foreign_host_is_in_no_link_and_no_redirect() -> None:
    browser = Browser()
    for target in ("/ui/", "/ui/sign-in/", "/ui/sign-in/?next=%2Fui%2Fcatalog%2F", "/"):
        page = browser.get(target, host="evil.example.com")
        assert "evil.example.com" not in page.location
        assert 'href="http://evil.example.com' not in page.text
        assert 'action="http://evil.example.com' not in page.text


def test_every_form_needs_the_token_and_the_origin() -> None:
    """No address is exempt from the check that `test_forms_and_cookies` tests, and which comes before the view."""
    assert [route for route in CONSOLE_ROUTES if getattr(route.view, "csrf_exempt", False)] == []
    browser = Browser()
    sign_in_once(browser)
    for target in ("/ui/task/change/", "/ui/access/object/server/grant/", "/ui/profile/"):
        assert browser.post(target, csrf=None).status == 403
        assert browser.post(target, origin="https://evil.example.com").status == 403
    assert is_signed_in(browser)


@pytest.mark.parametrize(
    "target",
    [
        "/ui/", "/ui/profile/", "/ui/?format=csv", "/ui/server/support-bundle/", "/ui/catalog/tree/",
        "/ui/principals/?q=a", "/ui/access/review/?format=csv", "/ui/sign-in/", "/ui/unknown/",
    ],
)  # fmt: skip
def test_nothing_is_stored_or_framed(target: str) -> None:
    """Also downloads, parts of pages, redirects and errors."""
    browser = Browser()
    sign_in_once(browser)
    for each in (browser, Browser()):
        page = each.get(target)
        assert page.header("Cache-Control") == "private, no-store", page.status
        assert page.header("X-Frame-Options") == "DENY"
        assert "frame-ancestors 'none'" in page.header("Content-Security-Policy")
