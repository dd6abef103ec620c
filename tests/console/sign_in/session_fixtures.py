"""Sessions of tests: started by a one-time address or an access token, and moved in time."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

from django.db.models import F

from management.models import ConsoleSession
from management.sign_in.addresses import create_sign_in_address
from tenancy.actor import INTERNAL
from tenancy.services.users import create_local_user
from tests.console.sign_in.browser import Browser, Page

PUBLIC = "http://testserver"


def code_of(address: str) -> str:
    (code,) = parse_qs(urlsplit(address).query)["code"]
    return code


def new_code(user_id: str = "local~alice") -> str:
    create_local_user(actor=INTERNAL, user_id=user_id)
    return code_of(create_sign_in_address(actor=INTERNAL, user_id=user_id, base_url=PUBLIC))


def sign_in_once(browser: Browser, user_id: str = "local~alice") -> Page:
    page = browser.post("/ui/sign-in/once/", {"code": new_code(user_id)})
    assert (page.status, page.location) == (302, "/ui/"), page.text
    return page


def is_signed_in(browser: Browser) -> bool:
    return browser.get("/ui/sign-in/").status == 302


def move(column: str, seconds: float) -> None:
    """Move a time of all sessions into the past."""
    ConsoleSession.objects.update(**{column: F(column) - timedelta(seconds=seconds)})
