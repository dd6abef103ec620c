"""Sign-in to the console with a real Keycloak: the forms of its pages, its tokens, its sign-out."""

from __future__ import annotations

import re
from html import unescape
from typing import Any
from urllib.parse import urljoin

import pytest
import requests

from management.models import ConsoleSession
from tenancy.models import User
from tests.console.sign_in.browser import Browser
from tests.console.sign_in.conftest import SetVariables
from tests.identity_fixtures import PARTNER, provider_settings
from tests.parts.keycloak import Keycloak

pytestmark = [pytest.mark.django_db, pytest.mark.part("keycloak")]

FORM = re.compile(r'<form[^>]*action="([^"]+)"')


@pytest.fixture
def _console_at_keycloak(variables: SetVariables, keycloak: Keycloak) -> None:
    variables(
        **provider_settings(keycloak),
        LAKEKEEPER__UI__OPENID_CLIENT_ID="console",
        ICEKEEPER__CONSOLE__PROVIDERS__PARTNER__CLIENT_ID="console",
    )


def send(session: requests.Session, method: str, url: str, **fields: str) -> requests.Response:
    """Send a request, not followed; `Secure` cookies are sent to 127.0.0.1 by http, as browsers do."""
    response = session.request(method, url, data=fields, allow_redirects=False, timeout=60)
    for cookie in session.cookies:
        cookie.secure = False
    return response


def sign_in_at_keycloak(location: str, user: str, password: str) -> tuple[requests.Response, requests.Session]:
    """Send the form of the sign-in page at `location`; return the response, not followed, and the browser's session."""
    session = requests.Session()
    page = send(session, "GET", location)
    assert page.status_code == 200, page.text
    action = FORM.search(page.text)
    assert action is not None, page.text
    return send(session, "POST", unescape(action[1]), username=user, password=password), session


def actor_of(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> Any:
    seen: list[Any] = []
    with monkeypatch.context() as patch:
        patch.setattr("management.sign_in.middleware.set_actor", lambda _request, actor: seen.append(actor))
        browser.get("/ui/sign-in/")
    return seen[-1]


def path_of(location: str) -> str:
    assert location.startswith("http://testserver/"), location
    return location.removeprefix("http://testserver")


@pytest.mark.usefixtures("_console_at_keycloak")
@pytest.mark.parametrize(("provider", "roles"), [("oidc", {"analyst", "engineer"}), (PARTNER, {"data"})])
def test_the_roles_of_the_token_count(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, provider: str, roles: set[str]
) -> None:
    began = browser.get(f"/ui/sign-in/with/{provider}/?next=%2Fui%2Fcatalog%2F")
    returned, _ = sign_in_at_keycloak(began.location, "alice", "alice-password")
    assert returned.status_code == 302, returned.text
    ended = browser.get(path_of(returned.headers["Location"]))
    assert (ended.status, ended.location) == (302, "/ui/catalog/")
    actor = actor_of(browser, monkeypatch)
    assert actor.identity.provider_id == provider
    assert roles <= set(actor.identity.roles)
    assert actor.user_id == ConsoleSession.objects.get().user_id
    assert User.objects.get(pk=actor.user_id).name == "Alice Archer"


@pytest.mark.usefixtures("_console_at_keycloak")
def test_a_wrong_password_stays_at_keycloak(browser: Browser) -> None:
    began = browser.get("/ui/sign-in/with/oidc/")
    returned, _ = sign_in_at_keycloak(began.location, "alice", "wrong")
    assert returned.status_code == 200
    assert ConsoleSession.objects.count() == 0


@pytest.mark.usefixtures("_console_at_keycloak")
def test_a_code_of_keycloak_counts_once(browser: Browser) -> None:
    began = browser.get("/ui/sign-in/with/oidc/")
    returned, _ = sign_in_at_keycloak(began.location, "bob", "bob-password")
    target = path_of(returned.headers["Location"])
    assert browser.get(target).status == 302
    assert browser.get(target).status == 400
    thief = Browser()
    code = re.search(r"code=[^&]+", target)
    state = re.search(r"state=([^&]+)", thief.get("/ui/sign-in/with/oidc/").location)
    assert code is not None
    assert state is not None
    assert thief.get(f"/ui/callback?state={state[1]}&{code[0]}").status == 403


@pytest.mark.usefixtures("_console_at_keycloak")
def test_sign_out_ends_the_session_at_keycloak(browser: Browser) -> None:
    began = browser.get("/ui/sign-in/with/oidc/")
    returned, session = sign_in_at_keycloak(began.location, "alice", "alice-password")
    assert browser.get(path_of(returned.headers["Location"])).status == 302
    again = send(session, "GET", browser.get("/ui/sign-in/with/oidc/").location)
    assert again.status_code == 302, "Keycloak knows the user"
    link = browser.post("/ui/sign-out/").header("Refresh").removeprefix("0;url=")
    page = send(session, "GET", link)
    action = FORM.search(page.text)
    assert action is not None, page.text
    hidden = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page.text))
    done = send(session, "POST", urljoin(link, unescape(action[1])), **hidden, confirmLogout="Logout")
    assert done.headers["Location"] == "http://testserver/ui/logout"
    assert browser.get("/ui/logout").status == 200
    asked = send(session, "GET", browser.get("/ui/sign-in/with/oidc/").location)
    assert asked.status_code == 200, "Keycloak asks for the password"


@pytest.mark.usefixtures("_console_at_keycloak")
def test_keycloak_is_down(browser: Browser, keycloak: Keycloak) -> None:
    began = browser.get("/ui/sign-in/with/oidc/")
    returned, _ = sign_in_at_keycloak(began.location, "alice", "alice-password")
    with keycloak.relay.refusing():
        page = browser.get(path_of(returned.headers["Location"]))
    assert page.status == 503
    assert "cannot be reached" in page.text
