"""Sign-in with an identity provider: who signs in, and which responses of the provider and the browser are rejected."""

from __future__ import annotations

from urllib.parse import parse_qs, quote, urlsplit

import pytest
from django.core import signing
from django.utils.encoding import iri_to_uri

from management.models import ConsoleSession
from management.sign_in.session_store import session_digest
from tenancy.models import User
from tests.console.sign_in.browser import Browser
from tests.console.sign_in.code_provider import CodeProvider
from tests.console.sign_in.conftest import SetVariables, sign_in_at
from tests.harness.audit_rows import rows

pytestmark = pytest.mark.django_db

CALLBACK = "/ui/callback"


def session() -> ConsoleSession:
    return ConsoleSession.objects.get()


def is_signed_in(browser: Browser) -> bool:
    return browser.get("/ui/sign-in/").status == 302


def test_the_code_flow_signs_a_new_user_in(browser: Browser, guarded: CodeProvider) -> None:
    began = browser.get("/ui/sign-in/with/oidc/")
    address, query = began.location.split("?")[0], parse_qs(urlsplit(began.location).query)
    assert (began.status, address) == (302, f"{guarded.address}/authorize")
    assert query["response_type"] == ["code"]
    assert query["client_id"] == ["lakekeeper"]
    assert query["scope"] == ["openid profile email"]
    assert query["redirect_uri"] == ["http://testserver/ui/callback"]
    assert query["code_challenge_method"] == ["S256"]
    assert {"state", "nonce", "code_challenge"} <= set(query)
    ended = browser.get(f"{CALLBACK}?{guarded.authorize(began.location)}")
    assert (ended.status, ended.location) == (302, "/ui/")
    assert User.objects.get(pk="oidc~anna").name == "Anna Archer"
    row = session()
    assert (row.user_id, row.method, row.access_token_id) == ("oidc~anna", "provider", None)
    assert (row.address, row.user_agent) == ("192.0.2.7", "Test Browser")
    assert row.session_key == session_digest(browser.cookies["icekeeper_session"])
    assert [row.actor for row in rows(event="sign-in.accepted")] == ["oidc~anna"]
    assert is_signed_in(browser)


def test_the_identity_is_that_of_the_apis(
    browser: Browser, guarded: CodeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setattr("management.sign_in.middleware.set_actor", lambda _request, actor: seen.append(actor))
    sign_in_at(browser, guarded)
    browser.get("/ui/sign-in/")
    identity = seen[-1].identity
    assert (identity.user_id, identity.provider_id, identity.roles) == ("oidc~anna", "oidc", ("analyst",))
    assert (identity.name, identity.scopes, identity.access_token_id) == ("Anna Archer", None, None)
    assert identity.audiences == ("icekeeper",)


def test_a_new_key_after_sign_in(browser: Browser, guarded: CodeProvider) -> None:
    began = browser.get("/ui/sign-in/with/oidc/")
    before = browser.cookies["icekeeper_session"]
    assert ConsoleSession.objects.count() == 0, "the data are in the cookie until a user has signed in"
    query = guarded.authorize(began.location)
    browser.get(f"{CALLBACK}?{query}")
    assert browser.cookies["icekeeper_session"] != before
    attacker = Browser()
    attacker.cookies["icekeeper_session"] = before
    assert not is_signed_in(attacker)
    assert attacker.get(f"{CALLBACK}?{query}").status == 403, "the provider accepts no code twice"
    assert ConsoleSession.objects.count() == 1


def test_a_code_counts_once(browser: Browser, guarded: CodeProvider) -> None:
    began = browser.get("/ui/sign-in/with/oidc/")
    query = guarded.authorize(began.location)
    assert browser.get(f"{CALLBACK}?{query}").status == 302
    replayed = browser.get(f"{CALLBACK}?{query}")
    assert replayed.status == 400
    assert len(guarded.received) == 1, "the state is used, so nothing is sent to the provider"
    assert is_signed_in(browser), "a replay does not end the session"


def test_a_state_of_another_browser(browser: Browser, guarded: CodeProvider) -> None:
    """Login CSRF: the attacker's code in the browser of a victim."""
    attacker = Browser()
    query = guarded.authorize(attacker.get("/ui/sign-in/with/oidc/").location)
    for query_of_attacker in (query, "state=&code=x", "code=x", "state=x", "", "error=access_denied&state=x"):
        assert browser.get(f"{CALLBACK}?{query_of_attacker}").status == 400
    assert guarded.received == []
    assert not is_signed_in(browser)
    assert {row.reason for row in rows(event="sign-in.refused")} == {"UnknownSignIn"}


@pytest.mark.parametrize(
    ("id_claims", "access_claims"),
    [
        ({"nonce": "another"}, {}),
        ({"nonce": None}, {}),
        ({"aud": "another-client"}, {}),
        ({"aud": ["lakekeeper", "other"], "azp": "other"}, {}),
        ({"aud": ["lakekeeper", "other"]}, {}),
        ({"iss": "https://evil.example.com"}, {}),
        ({"exp": 1}, {}),
        ({}, {"aud": "another-api"}),
        ({}, {"exp": 1}),
        ({}, {"sub": None}),
        ({}, {"sub": "x" * 200}),
    ],
)
def test_tokens_that_are_not_accepted(
    browser: Browser, guarded: CodeProvider, id_claims: dict[str, object], access_claims: dict[str, object]
) -> None:
    guarded.id_claims, guarded.access_claims = id_claims, access_claims
    began = browser.get("/ui/sign-in/with/oidc/")
    ended = browser.get(f"{CALLBACK}?{guarded.authorize(began.location)}")
    assert ended.status == 403
    assert "The sign-in was not accepted" in ended.text
    assert not is_signed_in(browser)
    assert not User.objects.filter(pk__startswith="oidc~").exists()
    assert len(rows(event="sign-in.refused")) == 1


def test_a_blocked_user(browser: Browser, guarded: CodeProvider) -> None:
    User.objects.create(pk="oidc~anna", name="Anna", is_active=False)
    began = browser.get("/ui/sign-in/with/oidc/")
    assert browser.get(f"{CALLBACK}?{guarded.authorize(began.location)}").status == 403
    (refused,) = rows(event="sign-in.refused")
    assert (refused.actor, refused.reason) == ("oidc~anna", "UserBlocked")


def test_an_error_of_the_provider(browser: Browser, guarded: CodeProvider) -> None:
    began = browser.get("/ui/sign-in/with/oidc/")
    (state,) = parse_qs(urlsplit(began.location).query)["state"]
    hostile = "<script>alert(1)</script>"
    ended = browser.get(f"{CALLBACK}?error={hostile}&state={state}")
    assert ended.status == 403
    assert "<script>" not in ended.text
    assert browser.get(f"{CALLBACK}?code=x&state={state}").status == 400, "the state is used"


def test_the_provider_is_down(browser: Browser, guarded: CodeProvider) -> None:
    guarded.is_down = True
    page = browser.get("/ui/sign-in/with/oidc/")
    assert (page.status, page.header("Retry-After")) == (503, "5")
    assert "cannot be reached" in page.text
    guarded.is_down = False
    began = browser.get("/ui/sign-in/with/oidc/")
    query = guarded.authorize(began.location)
    for status in (500, 502):
        guarded.token_status = status
        assert browser.get(f"{CALLBACK}?{query}").status == 503
    guarded.token_status = 200
    assert browser.get(f"{CALLBACK}?{query}").status == 302, "the page can be loaded again"
    guarded.token_status = 400
    began = browser.get("/ui/sign-in/with/oidc/")
    assert browser.get(f"{CALLBACK}?{guarded.authorize(began.location)}").status == 403


def test_an_unknown_provider(browser: Browser, guarded: CodeProvider) -> None:
    for name in ("unknown", "%3Cscript%3E", "oidc%00", "a" * 3000, "..", "%2e%2e"):
        page = browser.get(f"/ui/sign-in/with/{name}/")
        assert page.status in {400, 404}, name
        assert "<script>" not in page.text


def test_a_secret_and_another_address_for_browsers(
    browser: Browser, variables: SetVariables, provider: CodeProvider
) -> None:
    variables(
        **provider.settings,
        LAKEKEEPER__UI__OPENID_PROVIDER_URI="https://login.example.com/realm",
        LAKEKEEPER__UI__OPENID_CLIENT_ID="console",
        LAKEKEEPER__UI__OPENID_RESOURCE="api://lake",
        LAKEKEEPER__UI__OPENID_SCOPE="lake",
        LAKEKEEPER__UI__OPENID_TOKEN_TYPE="id-token",
        ICEKEEPER__CONSOLE__PROVIDERS__OIDC__CLIENT_SECRET="hush",
        ICEKEEPER__CONSOLE__PROVIDERS__OIDC__NAME="Example & Co",
    )
    assert "Sign in with Example &amp; Co" in browser.get("/ui/sign-in/").text
    began = browser.get("/ui/sign-in/with/oidc/")
    assert began.location.startswith("https://login.example.com/realm/authorize?")
    query = parse_qs(urlsplit(began.location).query)
    assert (query["scope"], query["resource"], query["client_id"]) == (["openid lake"], ["api://lake"], ["console"])
    provider.id_claims = {"aud": ["console", "icekeeper"], "azp": "console", "sub": "ida"}
    assert browser.get(f"{CALLBACK}?{provider.authorize(began.location)}").status == 302
    assert session().user_id == "oidc~ida"
    (form,) = provider.received
    assert (form["client_secret"], form["resource"]) == ("hush", "api://lake")


def test_a_secret_in_the_header(browser: Browser, variables: SetVariables, provider: CodeProvider) -> None:
    del provider.published["/.well-known/openid-configuration"]["token_endpoint_auth_methods_supported"]
    variables(**provider.settings, ICEKEEPER__CONSOLE__PROVIDERS__OIDC__CLIENT_SECRET="hush")
    sign_in_at(browser, provider)
    assert provider.authorizations == ["Basic bGFrZWtlZXBlcjpodXNo"]
    assert "client_secret" not in provider.received[0]


def test_further_providers_need_a_client_id(browser: Browser, variables: SetVariables, provider: CodeProvider) -> None:
    other = {
        "LAKEKEEPER__OPENID_PROVIDERS__PARTNER__URI": provider.address,
        "LAKEKEEPER__OPENID_PROVIDERS__PARTNER__AUDIENCE": "icekeeper",
    }
    variables(**other)
    assert "/ui/sign-in/with/partner/" not in browser.get("/ui/sign-in/").text
    assert browser.get("/ui/sign-in/with/partner/").status == 404
    variables(**other, ICEKEEPER__CONSOLE__PROVIDERS__PARTNER__CLIENT_ID="lakekeeper")
    assert "/ui/sign-in/with/partner/" in browser.get("/ui/sign-in/").text
    began = browser.get("/ui/sign-in/with/partner/")
    assert browser.get(f"{CALLBACK}?{provider.authorize(began.location)}").location == "/ui/"
    assert session().user_id == "partner~anna"


def test_an_endpoint_that_is_not_allowed(browser: Browser, variables: SetVariables, provider: CodeProvider) -> None:
    provider.published["/.well-known/openid-configuration"]["token_endpoint"] = "http://169.254.169.254/token"
    variables(**provider.settings)
    assert browser.get("/ui/sign-in/with/oidc/").status == 503


def test_sign_out_at_the_provider(browser: Browser, guarded: CodeProvider) -> None:
    sign_in_at(browser, guarded)
    assert browser.get("/ui/sign-out/").status == 405
    page = browser.post("/ui/sign-out/")
    target = "client_id=lakekeeper&post_logout_redirect_uri=http%3A%2F%2Ftestserver%2Fui%2Flogout"
    assert (page.status, page.header("Refresh")) == (200, f"0;url={guarded.address}/logout?{target}")
    assert "icekeeper_session" not in browser.cookies
    assert ConsoleSession.objects.count() == 0
    assert not is_signed_in(browser)
    assert "signed out" in browser.get("/ui/logout").text
    assert [row.actor for row in rows(event="sign-out.completed")] == ["oidc~anna"]


def test_pending_sign_ins_of_a_browser_are_limited(browser: Browser, guarded: CodeProvider) -> None:
    target = "?next=" + "/ui/".ljust(500, "x")
    first = browser.get(f"/ui/sign-in/with/oidc/{target}").location
    later = [browser.get(f"/ui/sign-in/with/oidc/{target}").location for _ in range(3)]
    assert len(browser.cookies["icekeeper_session"]) < 4000
    assert browser.get(f"{CALLBACK}?{guarded.authorize(first)}").status == 400
    assert browser.get(f"{CALLBACK}?{guarded.authorize(later[0])}").status == 302


def test_a_pending_sign_in_expires(browser: Browser, guarded: CodeProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    query = guarded.authorize(browser.get("/ui/sign-in/with/oidc/").location)
    monkeypatch.setattr("management.sign_in.session_store.PENDING_SECONDS", -1)
    assert browser.get(f"{CALLBACK}?{query}").status == 400
    assert guarded.received == []


def test_forged_pending_sign_ins(browser: Browser, guarded: CodeProvider) -> None:
    query = guarded.authorize(browser.get("/ui/sign-in/with/oidc/").location)
    genuine = browser.cookies["icekeeper_session"]
    signed = signing.dumps({"oidc_states": {}}, salt="another")
    for forged in (genuine[:-1], genuine + "x", "pending.", "pending.x", f"pending.{signed}", genuine.upper()):
        browser.cookies["icekeeper_session"] = forged
        assert browser.get(f"{CALLBACK}?{query}").status == 400
    assert guarded.received == []


@pytest.mark.parametrize("target", ["/ui/table/1/", "/ui/?project=a%2Fb#x", "/ui/a%2Fb/?q=%2F%2Fevil"])
def test_the_destination_after_sign_in(browser: Browser, guarded: CodeProvider, target: str) -> None:
    quoted = target.replace("%", "%25").replace("?", "%3F").replace("#", "%23").replace("/", "%2F")
    assert sign_in_at(browser, guarded, target=f"?next={quoted}") == target


def test_a_destination_is_limited_by_its_bytes(browser: Browser, guarded: CodeProvider) -> None:
    fits, too_long = ("/ui/?q=" + "".join(chr(0x4E00 + 37 * each) for each in range(count)) for count in (56, 57))
    assert len(iri_to_uri(fits)) == 511
    for _ in range(3):
        browser.get(f"/ui/sign-in/with/oidc/?next={quote(fits)}")
    assert len(browser.cookies["icekeeper_session"]) < 4000
    assert sign_in_at(browser, guarded, target=f"?next={quote(fits)}") == iri_to_uri(fits)
    assert sign_in_at(Browser(), guarded, target=f"?next={quote(too_long)}") == "/ui/"
