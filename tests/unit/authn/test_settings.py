"""Environment variables of authentication: the resulting settings, and errors at startup."""

from __future__ import annotations

import pytest

from icekeeper.conf.environment import SettingsError, read_settings
from icekeeper.conf.listing import describe_settings
from icekeeper.conf.settings import Settings

URI = "https://idp.example/realms/x"


def error(**variables: str) -> str:
    with pytest.raises(SettingsError) as refused:
        read_settings(variables)
    return "\n".join(refused.value.problems)


def test_the_primary_provider() -> None:
    settings, unread = read_settings(
        {
            "LAKEKEEPER__OPENID_PROVIDER_URI": URI,
            "LAKEKEEPER__OPENID_AUDIENCE": "a,b",
            "LAKEKEEPER__OPENID_ADDITIONAL_ISSUERS": "https://one,https://two",
            "LAKEKEEPER__OPENID_SCOPE": "catalog",
            "LAKEKEEPER__OPENID_SUBJECT_CLAIM": "email,sub",
            "LAKEKEEPER__OPENID_ROLES_CLAIM": "realm_access.roles",
            "LAKEKEEPER__OPENID_DISPLAY_NAME_TEMPLATE": "{given} {ext.team}",
        }
    )
    assert unread == []
    [(provider_id, provider)] = settings.identity_providers.items()
    assert (provider_id, str(provider.uri), provider.audience) == ("oidc", URI, ["a", "b"])
    assert provider.additional_issuers == ["https://one", "https://two"]
    assert (provider.scope, provider.subject_claims) == ("catalog", ["email", "sub"])
    assert (provider.roles_claim, provider.display_name_template) == ("realm_access.roles", "{given} {ext.team}")
    assert provider.require_connected_on_startup


def test_several_providers_are_tried_in_order() -> None:
    settings, unread = read_settings(
        {
            "LAKEKEEPER__OPENID_PROVIDERS__ZETA__URI": f"{URI}/z",
            "LAKEKEEPER__OPENID_PROVIDERS__MY-IDP__URI": f"{URI}/m",
            "LAKEKEEPER__OPENID_PROVIDERS__MY-IDP__AUDIENCE": "[x, y]",
            "LAKEKEEPER__OPENID_PROVIDERS__MY-IDP__SUBJECT_CLAIMS": "upn",
            "LAKEKEEPER__OPENID_PROVIDERS__MY-IDP__REQUIRE_CONNECTED_ON_STARTUP": "false",
            "lakekeeper__openid_providers__alpha__uri": f"{URI}/a",
            "LAKEKEEPER__OPENID_PROVIDER_URI": URI,
            "ICEKEEPER__OPENID_CLAIMS__MY-IDP__NAME": "displayName",
            "ICEKEEPER__OPENID_CLAIMS__OIDC__EMAIL": "mail",
        }
    )
    assert unread == []
    assert list(settings.identity_providers) == ["oidc", "alpha", "my-idp", "zeta"]
    mine = settings.identity_providers["my-idp"]
    assert (mine.audience, mine.subject_claims) == (["x", "y"], ["upn"])
    assert not mine.require_connected_on_startup
    assert settings.openid_claims["my-idp"].name == ["displayName"]
    assert settings.openid_claims["oidc"].email == ["mail"]


def test_off_by_default() -> None:
    assert Settings().identity_providers == {}
    assert not Settings().enable_kubernetes_authentication


@pytest.mark.parametrize("provider_id", ["MY_IDP", "A.B", "A~B", "", "Ä", "A B", "x" * 65])
def test_ids_that_cannot_be(provider_id: str) -> None:
    said = error(**{f"LAKEKEEPER__OPENID_PROVIDERS__{provider_id}__URI": URI})
    assert "the provider id must consist of 1 to 64 characters of a-z, 0-9 and -" in said


@pytest.mark.parametrize("provider_id", ["OIDC", "KUBERNETES", "LOCAL", "ICEKEEPER", "LAKEKEEPER", "SYSTEM"])
def test_ids_that_stand_for_something_else(provider_id: str) -> None:
    said = error(**{f"LAKEKEEPER__OPENID_PROVIDERS__{provider_id}__URI": URI})
    assert f"the provider id {provider_id.lower()} is reserved" in said


@pytest.mark.parametrize("template", ["{", "{given", "{}", "{given} }", "no claim"])
def test_malformed_templates(template: str) -> None:
    name = "LAKEKEEPER__OPENID_DISPLAY_NAME_TEMPLATE"
    assert f"{name} got {template!r}; expected: a template such as" in error(
        LAKEKEEPER__OPENID_PROVIDER_URI=URI, **{name: template}
    )
    name = "LAKEKEEPER__OPENID_PROVIDERS__X__DISPLAY_NAME_TEMPLATE"
    assert f"{name} got {template!r}; expected: a template such as" in error(
        LAKEKEEPER__OPENID_PROVIDERS__X__URI=URI, **{name: template}
    )


@pytest.mark.parametrize(
    "address", [" ", "idp.example", "ftp://idp", "file:///etc/passwd", "https://idp?x=1", "https://idp#x"]
)
def test_addresses_that_are_none(address: str) -> None:
    assert "LAKEKEEPER__OPENID_PROVIDER_URI got" in error(LAKEKEEPER__OPENID_PROVIDER_URI=address)
    assert "LAKEKEEPER__OPENID_PROVIDERS__X__URI got" in error(LAKEKEEPER__OPENID_PROVIDERS__X__URI=address)


def test_a_password_in_an_address_is_refused_and_not_shown() -> None:
    said = error(LAKEKEEPER__OPENID_PROVIDER_URI="https://me:canary@idp.example/")
    assert "a URL without user" in said
    assert "canary" not in said


MORE = "and hidden parts"
NOTHING = "a hidden value"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://user:canary@idp/x?client_secret=canary", f"'http://idp' {MORE}"),
        ("https://idp.example:8443/x?client_secret=canary", f"'https://idp.example:8443' {MORE}"),
        ("https://idp.example#canary", f"'https://idp.example' {MORE}"),
        ("ftp://canary:canary@idp", f"'ftp://idp' {MORE}"),
        ("http://canary@[::1]:80/", f"'http://[::1]:80' {MORE}"),
        ("http://user:canary/x@idp/", f"'http' {MORE}"),
        ("ftp://user:12/canary@idp/", f"'ftp' {MORE}"),
        ("http://idp?mail=canary@x", f"'http' {MORE}"),
        ("http://canary canary/?x", f"'http' {MORE}"),
        ("http:user:canary@idp", NOTHING),
        ("user:canary@idp", NOTHING),
        ("idp/?client_secret=canary", NOTHING),
        ("canary=://idp?x", NOTHING),
        ("idp.example", "'idp.example'"),
        ("ftp://idp:21", "'ftp://idp:21'"),
        (" ", "' '"),
    ],
)
@pytest.mark.parametrize(
    "variable",
    [
        "LAKEKEEPER__OPENID_PROVIDER_URI",
        "LAKEKEEPER__OPENID_PROVIDERS__X__URI",
        "LAKEKEEPER__OPENID_PROVIDERS__URI__URI",
        "ICEKEEPER__KUBERNETES__API_URL",
    ],
)
def test_of_an_address_scheme_host_and_port_are_shown(variable: str, address: str, shown: str) -> None:
    said = error(**{variable: address})
    assert said.startswith(f"{variable} got {shown}; expected: ")
    assert "canary" not in said


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("ICEKEEPER__AUTHENTICATION__ALGORITHMS", "HS256"),
        ("ICEKEEPER__AUTHENTICATION__ALGORITHMS", "none"),
        ("ICEKEEPER__AUTHENTICATION__ALGORITHMS", "RS256,HS256"),
        ("ICEKEEPER__AUTHENTICATION__ALGORITHMS", "[]"),
        ("ICEKEEPER__AUTHENTICATION__LEEWAY", "301s"),
        ("ICEKEEPER__AUTHENTICATION__LEEWAY", "-1s"),
        ("ICEKEEPER__AUTHENTICATION__TIMEOUT", "0"),
        ("ICEKEEPER__AUTHENTICATION__TIMEOUT", "31s"),
        ("ICEKEEPER__KUBERNETES__METHOD", "trust"),
        ("LAKEKEEPER__KUBERNETES_AUTHENTICATION_SUBJECT_SOURCE", "name"),
        ("LAKEKEEPER__OPENID_SUBJECT_CLAIM", "[]"),
        ("LAKEKEEPER__OPENID_SUBJECT_CLAIM", ","),
    ],
)
def test_values_that_are_not_taken(variable: str, text: str) -> None:
    assert f"{variable} got" in error(**{"LAKEKEEPER__OPENID_PROVIDER_URI": URI, variable: text})


@pytest.mark.parametrize(
    "variable", ["AUDIENCE", "ADDITIONAL_ISSUERS", "SCOPE", "ROLES_CLAIM", "DISPLAY_NAME_TEMPLATE"]
)
def test_settings_of_a_missing_primary_provider(variable: str) -> None:
    name = f"LAKEKEEPER__OPENID_{variable}"
    assert error(**{name: "{x}"}) == (
        f"{name} is set without LAKEKEEPER__OPENID_PROVIDER_URI: set LAKEKEEPER__OPENID_PROVIDER_URI, or unset {name}"
    )


def test_a_provider_without_an_address() -> None:
    assert "LAKEKEEPER__OPENID_PROVIDERS__X__URI is missing" in error(LAKEKEEPER__OPENID_PROVIDERS__X__AUDIENCE="a")


def test_claims_of_a_missing_provider() -> None:
    assert "there is no such provider" in error(ICEKEEPER__OPENID_CLAIMS__X__NAME="a")
    assert "there is no such provider" in error(ICEKEEPER__OPENID_CLAIMS__OIDC__NAME="a")


@pytest.mark.parametrize(
    "variable",
    [
        "LAKEKEEPER__OPENID_AUDIENC",
        "LAKEKEEPER__OPENID_PROVIDERS__X__AUDIENCES",
        "LAKEKEEPER__OPENID_PROVIDERS__X__URI__MORE",
        "LAKEKEEPER__OPENID_PROVIDERS__A__B__URI",
        "LAKEKEEPER__KUBERNETES_AUTHENTICATION_AUDIENCES",
    ],
)
def test_a_misspelt_guard_is_not_passed_over(variable: str) -> None:
    said = error(LAKEKEEPER__OPENID_PROVIDERS__X__URI=URI, **{variable: "x"})
    cure = "Correct its name, or unset it"
    assert f"{variable} is set, but this version does not support it: it would protect nothing. {cure}" in said


def test_own_variables_that_nothing_reads_are_reported() -> None:
    names = ["ICEKEEPER__AUTHENTICATION__X", "ICEKEEPER__OPENID_CLAIMS__OIDC__X", "ICEKEEPER__OPENID_PROVIDER_URI"]
    provider = {"LAKEKEEPER__OPENID_PROVIDER_URI": URI}
    settings, unread = read_settings(dict.fromkeys(names, "x") | provider)
    assert unread == names
    assert settings.model_copy(update={"openid_claims": {}}) == read_settings(provider)[0]


def test_every_provider_setting_is_described() -> None:
    described = {each.variable for each in describe_settings()}
    for name in ("URI", "AUDIENCE", "ADDITIONAL_ISSUERS", "SCOPE", "SUBJECT_CLAIMS", "ROLES_CLAIM"):
        assert f"LAKEKEEPER__OPENID_PROVIDERS__<ID>__{name}" in described
    assert "ICEKEEPER__OPENID_CLAIMS__<ID>__NAME" in described
    assert "LAKEKEEPER__OPENID_PROVIDERS" not in described


def test_audiences_that_are_missing() -> None:
    others = "LAKEKEEPER__OPENID_PROVIDERS__"
    given = {
        "LAKEKEEPER__OPENID_PROVIDER_URI": URI,
        "LAKEKEEPER__OPENID_AUDIENCE": "",
        f"{others}A__URI": URI,
        f"{others}A__AUDIENCE": "icekeeper",
        f"{others}B__URI": URI,
        "LAKEKEEPER__ENABLE_KUBERNETES_AUTHENTICATION": "true",
    }
    assert read_settings(given)[0].missing_audiences == [
        "LAKEKEEPER__OPENID_AUDIENCE",
        f"{others}B__AUDIENCE",
        "LAKEKEEPER__KUBERNETES_AUTHENTICATION_AUDIENCE",
    ]
    assert read_settings({"ICEKEEPER__ACCESS_TOKENS": "true"})[0].missing_audiences == []
