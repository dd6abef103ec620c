"""Providers: connection at the start, accepted issuers, and tokens while several providers are configured."""

from __future__ import annotations

import json
import logging
import threading
import time
from typing import Any

import pytest

from icekeeper.kernel.threads import SHORT_WAIT_SECONDS
from tenancy.actor import AuthenticationFailed
from tenancy.authn.authenticator import ProviderUnavailable
from tenancy.authn.providers import ProvidersUnreachable, authenticators, connect_providers
from tenancy.authn.requests import identify
from tests.authn.conftest import Ask, On, SwitchOn, again, refused
from tests.harness.identity_provider import DISCOVERY, KEYS, IdentityProvider, hangs, responses

pytestmark = pytest.mark.django_db


# --- issuers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("issuer", ["https://moved.example", "http://127.0.0.1", "{}/realms/other", "{}//"])
def test_a_document_with_another_issuer_is_refused(provider: IdentityProvider, on: On, ask: Ask, issuer: str) -> None:
    other = issuer.format(provider.address)
    provider.published[DISCOVERY] = {"issuer": other}
    assert ask(provider.token()).refused(503, "IdentityProviderUnavailable")
    assert ask(provider.token(iss=other)).refused(503, "IdentityProviderUnavailable")
    assert provider.asked == {DISCOVERY: 1}
    with pytest.raises(ProvidersUnreachable, match=r"names an issuer that differs .* ADDITIONAL_ISSUERS"):
        connect_providers()


@pytest.mark.parametrize("issuer", ["https://public.example/realms/lake", "{}/"])
def test_a_document_with_a_configured_issuer_is_accepted(
    provider: IdentityProvider, switch_on: SwitchOn, issuer: str
) -> None:
    switch_on(
        LAKEKEEPER__OPENID_PROVIDER_URI=provider.address,
        LAKEKEEPER__OPENID_ADDITIONAL_ISSUERS="https://public.example/realms/lake",
    )
    named = issuer.format(provider.address)
    provider.published[DISCOVERY] = {"issuer": named}
    assert identify(provider.token(iss=named)).user_id == "oidc~anna"


def test_a_changed_issuer_is_rejected(eager: None, ages: None, provider: IdentityProvider, on: On, ask: Ask) -> None:
    before = provider.token()
    assert ask(before).status == 200
    provider.published[DISCOVERY] = {"issuer": "https://moved.example", "jwks_uri": "http://169.254.169.254/keys"}
    assert refused(ask(provider.token(iss="https://moved.example")))
    assert ask(again(provider, sub="other")).status == 200  # with the keys of the former jwks_uri


def test_a_flood_of_unknown_issuers_asks_the_provider_once(provider: IdentityProvider, on: On, ask: Ask) -> None:
    connect_providers()
    for number in range(50):
        assert refused(ask(provider.token(iss=f"https://{number}.example")))
    assert provider.asked == {DISCOVERY: 1, KEYS: 1}


def test_an_unknown_issuer_while_the_provider_is_down(
    eager: None, provider: IdentityProvider, on: On, ask: Ask
) -> None:
    connect_providers()
    provider.is_down = True
    assert refused(ask(provider.token(iss="https://elsewhere.example")))
    assert ask(provider.token()).status == 200


@pytest.mark.parametrize("issuer", [None, "", 7, ["http://x"]])
def test_issuers_that_are_none(issuer: Any, provider: IdentityProvider, on: On, ask: Ask) -> None:
    provider.published[DISCOVERY] = {"issuer": issuer}
    assert ask(provider.token()).refused(503, "IdentityProviderUnavailable")


# --- startup, and several providers -----------------------------------------------------------------------------------


def test_the_start_fails_without_a_required_provider(provider: IdentityProvider, on: On) -> None:
    provider.is_down = True
    with pytest.raises(ProvidersUnreachable, match=r"the identity provider oidc: http://127\.0\.0\.1:\d+/.well-known"):
        connect_providers()


def test_the_start_waits_for_no_optional_service(
    eager: None,
    provider: IdentityProvider,
    other_provider: IdentityProvider,
    switch_on: SwitchOn,
    ask: Ask,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    other_provider.is_down = True
    switch_on(
        LAKEKEEPER__OPENID_PROVIDERS__BETA__URI=provider.address,
        LAKEKEEPER__OPENID_PROVIDERS__ALPHA__URI=other_provider.address,
        LAKEKEEPER__OPENID_PROVIDERS__ALPHA__REQUIRE_CONNECTED_ON_STARTUP="false",
    )
    connect_providers()
    assert any("the identity provider alpha" in line.getMessage() for line in caplog.records)
    asked = other_provider.asked.total()
    assert ask(provider.token()).status == 200
    assert other_provider.asked.total() == asked  # an unreachable provider does not delay tokens of others
    assert ask(other_provider.token()).refused(503, "IdentityProviderUnavailable")
    other_provider.is_down = False
    assert identify(other_provider.token()).user_id == "alpha~anna"


def test_a_provider_that_hangs_does_not_block_the_tokens_of_another(
    eager: None, ages: None, provider: IdentityProvider, other_provider: IdentityProvider, switch_on: SwitchOn
) -> None:
    switch_on(
        LAKEKEEPER__OPENID_PROVIDER_URI=provider.address,
        LAKEKEEPER__OPENID_PROVIDERS__X__URI=other_provider.address,
        ICEKEEPER__AUTHENTICATION__TIMEOUT="30s",
    )
    assert identify(provider.token()).user_id == "oidc~anna"
    provider.misbehave[DISCOVERY] = hangs(provider)
    for number in range(5):
        assert identify(other_provider.token(sub=f"user-{number}")).user_id == f"x~user-{number}"
    assert provider.asked[DISCOVERY] == 1


def test_a_token_of_one_provider_is_not_one_of_another(
    eager: None, provider: IdentityProvider, other_provider: IdentityProvider, switch_on: SwitchOn
) -> None:
    switch_on(
        LAKEKEEPER__OPENID_PROVIDER_URI=provider.address, LAKEKEEPER__OPENID_PROVIDERS__X__URI=other_provider.address
    )
    assert identify(provider.token()).user_id == "oidc~anna"
    assert identify(other_provider.token()).user_id == "x~anna"
    forged = provider.sign({}, other_provider.claims())
    crossed = other_provider.sign({}, provider.claims())
    both = provider.token(iss=[provider.issuer, other_provider.issuer])
    for token in (forged, crossed, both):
        with pytest.raises(AuthenticationFailed):
            identify(token)


def test_a_rejected_token_is_not_retryable_while_another_provider_is_down(
    provider: IdentityProvider, other_provider: IdentityProvider, switch_on: SwitchOn
) -> None:
    switch_on(
        LAKEKEEPER__OPENID_PROVIDER_URI=provider.address,
        LAKEKEEPER__OPENID_PROVIDERS__X__URI=other_provider.address,
        LAKEKEEPER__OPENID_PROVIDERS__X__ADDITIONAL_ISSUERS=provider.issuer,
        LAKEKEEPER__OPENID_PROVIDERS__X__REQUIRE_CONNECTED_ON_STARTUP="false",
    )
    other_provider.is_down = True
    assert identify(provider.token()).user_id == "oidc~anna"
    with pytest.raises(AuthenticationFailed):
        identify(provider.token(exp=1))
    with pytest.raises(ProviderUnavailable):  # the other provider could have issued it
        identify(other_provider.sign({}, provider.claims()))
    other_provider.is_down = False
    with pytest.raises(AuthenticationFailed):
        identify(provider.token(exp=1))


def test_a_token_with_a_verified_signature_does_not_wait_for_an_unavailable_provider(
    eager: None, provider: IdentityProvider, other_provider: IdentityProvider, switch_on: SwitchOn
) -> None:
    switch_on(
        LAKEKEEPER__OPENID_PROVIDER_URI=provider.address,
        LAKEKEEPER__OPENID_SCOPE="humans",
        LAKEKEEPER__OPENID_PROVIDERS__X__URI=other_provider.address,
        LAKEKEEPER__OPENID_PROVIDERS__X__ADDITIONAL_ISSUERS=provider.issuer,
        LAKEKEEPER__OPENID_PROVIDERS__X__REQUIRE_CONNECTED_ON_STARTUP="false",
        ICEKEEPER__AUTHENTICATION__TIMEOUT="30s",
    )
    gate, asked = threading.Event(), threading.Event()

    def slowly(handler: Any) -> None:
        asked.set()
        gate.wait(20)
        del other_provider.misbehave[DISCOVERY]
        responses(200, json.dumps(other_provider.documents()[DISCOVERY]).encode())(handler)

    other_provider.misbehave[DISCOVERY] = slowly
    other_provider.private_keys = provider.private_keys
    token = provider.token(scope="machines")
    with pytest.raises(AuthenticationFailed):
        identify(token)
    assert asked.wait(10), "the keys of the other provider are fetched meanwhile"
    assert not gate.is_set()
    assert DISCOVERY in other_provider.misbehave, "the error does not wait for the response of the provider"
    gate.set()
    other = authenticators()[1]
    other.connect()
    assert identify(token).user_id == "x~anna"


@pytest.mark.parametrize("hanging", ["oidc", "x"])
def test_a_provider_that_was_reached_and_hangs_is_not_waited_for(
    eager: None, provider: IdentityProvider, other_provider: IdentityProvider, switch_on: SwitchOn, hanging: str
) -> None:
    """The keys of the provider may have changed; another provider has verified the signature, or can."""
    first, second = (other_provider, provider) if hanging == "oidc" else (provider, other_provider)
    switch_on(
        LAKEKEEPER__OPENID_PROVIDER_URI=first.address,
        LAKEKEEPER__OPENID_ADDITIONAL_ISSUERS=second.issuer,
        LAKEKEEPER__OPENID_PROVIDERS__X__URI=second.address,
        LAKEKEEPER__OPENID_PROVIDERS__X__ADDITIONAL_ISSUERS=first.issuer,
        ICEKEEPER__AUTHENTICATION__TIMEOUT="30s",
    )
    provider.private_keys = {"good": provider.private_keys["key-0"]}
    connect_providers()
    other_provider.misbehave[DISCOVERY] = hangs(other_provider)
    for number in range(3):
        began = time.monotonic()
        with pytest.raises(AuthenticationFailed):
            identify(provider.token(exp=1))
        good = identify(provider.token(sub=f"user-{number}"))
        assert good.user_id == f"{'x' if hanging == 'oidc' else 'oidc'}~user-{number}"
        assert time.monotonic() - began < (2 * SHORT_WAIT_SECONDS if number == 0 else SHORT_WAIT_SECONDS)


def connect_for_humans_and_machines(provider: IdentityProvider, switch_on: SwitchOn) -> None:
    """Connect two entries of one issuer, each for tokens of its scope."""
    switch_on(
        LAKEKEEPER__OPENID_PROVIDER_URI=provider.address,
        LAKEKEEPER__OPENID_SCOPE="humans",
        LAKEKEEPER__OPENID_PROVIDERS__MACHINES__URI=provider.address,
        LAKEKEEPER__OPENID_PROVIDERS__MACHINES__SCOPE="machines",
    )
    connect_providers()


def test_the_user_id_does_not_depend_on_which_provider_entry_has_keys_first(
    eager: None, provider: IdentityProvider, switch_on: SwitchOn
) -> None:
    connect_for_humans_and_machines(provider, switch_on)
    provider.rotate()
    authenticators()[1].refresh_briefly()
    assert identify(provider.token(scope="humans machines")).user_id == "oidc~anna"
    provider.rotate()
    assert identify(provider.token(scope="machines")).user_id == "machines~anna"


def test_two_providers_of_one_issuer_are_tried_in_turn(provider: IdentityProvider, switch_on: SwitchOn) -> None:
    connect_for_humans_and_machines(provider, switch_on)
    assert identify(provider.token(scope="humans")).user_id == "oidc~anna"
    assert identify(provider.token(scope="machines")).user_id == "machines~anna"
    assert identify(provider.token(scope="humans machines")).user_id == "oidc~anna"
    with pytest.raises(AuthenticationFailed):
        identify(provider.token(scope="others"))


def test_additional_issuers(provider: IdentityProvider, switch_on: SwitchOn) -> None:
    switch_on(
        LAKEKEEPER__OPENID_PROVIDER_URI=provider.address,
        LAKEKEEPER__OPENID_ADDITIONAL_ISSUERS="https://inside,https://outside",
    )
    for issuer in (provider.issuer, "https://inside", "https://outside"):
        assert identify(provider.token(iss=issuer)).user_id == "oidc~anna"
    with pytest.raises(AuthenticationFailed):
        identify(provider.token(iss="https://inside/"))


def test_the_address_may_be_that_of_the_document(provider: IdentityProvider, switch_on: SwitchOn) -> None:
    switch_on(LAKEKEEPER__OPENID_PROVIDER_URI=f"{provider.address}{DISCOVERY}")
    assert identify(provider.token()).user_id == "oidc~anna"


def test_no_provider_is_called_for_an_invalid_token(provider: IdentityProvider, on: On, ask: Ask) -> None:
    for text in ("opaque", "a.b.c", "Bearer", "x" * 20_000):
        with pytest.raises(AuthenticationFailed):
            identify(text)
    assert provider.asked.total() == 0
    provider.is_down = True
    with pytest.raises(ProviderUnavailable):
        identify(provider.token())
