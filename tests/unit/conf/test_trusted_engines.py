"""Environment variables of trusted engines: the resulting settings, and errors at startup."""

from __future__ import annotations

import pytest

from icekeeper.conf.environment import SettingsError, read_settings
from icekeeper.conf.listing import describe_settings, show_settings

PREFIX = "LAKEKEEPER__TRUSTED_ENGINES__"
PROVIDERS = {
    "LAKEKEEPER__OPENID_PROVIDER_URI": "https://idp.example/realms/x",
    "LAKEKEEPER__OPENID_PROVIDERS__IDP-2__URI": "https://other.example",
    "LAKEKEEPER__ENABLE_KUBERNETES_AUTHENTICATION": "true",
}


def error(**variables: str) -> str:
    with pytest.raises(SettingsError) as refused:
        read_settings(PROVIDERS | {f"{PREFIX}{name}": value for name, value in variables.items()})
    return "\n".join(refused.value.problems)


def test_none_are_trusted_by_default() -> None:
    settings, _ = read_settings({})
    assert settings.trusted_engines == {}
    assert settings.referenced_by.max_nesting_depth == 10


def test_engines_with_all_that_they_may_have() -> None:
    settings, unread = read_settings(
        PROVIDERS
        | {
            f"{PREFIX}TRINO__TYPE": "trino",
            f"{PREFIX}TRINO__IDENTITIES__OIDC__AUDIENCES": "[trino, trino-dev]",
            f"{PREFIX}TRINO__IDENTITIES__OIDC__SUBJECTS": "7c9e6679",
            f"{PREFIX}TRINO__IDENTITIES__IDP-2__AUDIENCES": '["a,b"]',
            "lakekeeper__trusted_engines__second__owner_property": "second.owner",
            "lakekeeper__trusted_engines__second__identities__kubernetes__subjects": "system:serviceaccount:trino:t",
            "LAKEKEEPER__REFERENCED_BY__MAX_NESTING_DEPTH": "3",
        }
    )
    assert unread == []
    trino, second = settings.trusted_engines["trino"], settings.trusted_engines["second"]
    assert (trino.type, trino.owner_property) == ("trino", "trino.run-as-owner")
    said = {name: (its.audiences, its.subjects) for name, its in trino.identities.items()}
    assert said == {"oidc": (["trino", "trino-dev"], ["7c9e6679"]), "idp-2": (["a,b"], [])}
    assert second.owner_property == "second.owner"
    assert second.identities["kubernetes"].subjects == ["system:serviceaccount:trino:t"]
    assert settings.referenced_by.max_nesting_depth == 3


OIDC = "TRINO__IDENTITIES__OIDC__AUDIENCES"


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        ({"TRINO__TYPE": "spark", OIDC: "a"}, f"{PREFIX}TRINO__TYPE got 'spark'; expected: Input should be 'trino'"),
        ({"TRINO__TYPE": "trino"}, f"{PREFIX}TRINO__IDENTITIES__<IDP>__AUDIENCES or __SUBJECTS is missing"),
        ({"TRINO__OWNER_PROPERTY": "x"}, "is missing: no token would match the engine"),
        ({OIDC: "[]"}, f"{PREFIX}TRINO__IDENTITIES__OIDC__AUDIENCES and __SUBJECTS are empty"),
        ({OIDC: '[""]'}, f"{PREFIX}{OIDC} got ''"),
        ({OIDC: "[[a]]"}, f"{PREFIX}{OIDC} got a list"),
        ({OIDC: "a", "TRINO__OWNER_PROPERTY": " "}, f"{PREFIX}TRINO__OWNER_PROPERTY got ' '"),
        ({OIDC: "a", "TRINO__OWNER_PROPERTY": "a\nb"}, "the name of a property"),
        ({"TRINO__IDENTITIES__OKTA__SUBJECTS": "a"}, "no such identity provider; known: idp-2, kubernetes, oidc"),
        ({"TRINO__IDENTITIES__ICEKEEPER__SUBJECTS": "a"}, "there is no such identity provider"),
        ({"A B__IDENTITIES__OIDC__SUBJECTS": "a"}, "the engine name must consist of"),
        (
            {OIDC: "a", "U__IDENTITIES__OIDC__SUBJECTS": "b", "U__OWNER_PROPERTY": "Trino.run-as-owner"},
            f"{PREFIX}U__OWNER_PROPERTY got 'Trino.run-as-owner': another engine spells it 'trino.run-as-owner'",
        ),
    ],
)  # fmt: skip
def test_settings_that_would_trust_no_or_every_engine_are_rejected(variables: dict[str, str], text: str) -> None:
    assert text in error(**variables)


@pytest.mark.parametrize("name", ["TRINO__OWNER", "TRINO__IDENTITIES__OIDC__AUDIENCE"])
def test_misspelled_settings_stop_the_start(name: str) -> None:
    assert f"{PREFIX}{name} is set, but this version does not support it" in error(**{OIDC: "a", name: "x"})


@pytest.mark.parametrize("name", ["TRINO", "TRINO__IDENTITIES"])
def test_a_group_without_members_stops_the_start(name: str) -> None:
    assert f"{PREFIX}{name} takes {{key=value,...}}" in error(**{OIDC: "a", name: "x"})


def test_an_engine_needs_authentication() -> None:
    with pytest.raises(SettingsError, match="there is no such identity provider; known: "):
        read_settings({f"{PREFIX}{OIDC}": "a"})


@pytest.mark.parametrize("text", ["0", "-1", "101", "ten", " "])
def test_a_depth_that_bounds_nothing_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="LAKEKEEPER__REFERENCED_BY__MAX_NESTING_DEPTH got"):
        read_settings({"LAKEKEEPER__REFERENCED_BY__MAX_NESTING_DEPTH": text})


def test_settings_below_two_groups_do_not_affect_each_other() -> None:
    settings, _ = read_settings({"LAKEKEEPER__CACHE__STC__ENABLED": "false", "LAKEKEEPER__CACHE__STC__CAPACITY": "7"})
    assert (settings.cache.stc.enabled, settings.cache.stc.capacity) == (False, 7)


def test_they_are_documented_and_shown() -> None:
    described = {each.variable for each in describe_settings()}
    assert f"{PREFIX}<ID>__IDENTITIES__<ID>__AUDIENCES" in described
    assert "LAKEKEEPER__REFERENCED_BY__MAX_NESTING_DEPTH" in described
    settings, _ = read_settings(PROVIDERS | {f"{PREFIX}{OIDC}": "a,b"})
    shown = {each.variable: each.value for each in show_settings(settings)}
    assert shown[f"{PREFIX}{OIDC}"] == ["a", "b"]
