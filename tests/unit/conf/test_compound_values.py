"""Settings of a group in one variable, such as `KV2={url=...,user=...}`."""

from __future__ import annotations

import pytest

from icekeeper.conf.environment import SettingsError, read_settings

VAULT = {
    "LAKEKEEPER__SECRET_BACKEND": "Kv2",
    "LAKEKEEPER__KV2": '{url="http://vault:8200", user=me, password="ca,na}ry", secret_mount=kv}',
}


def test_a_group_may_be_one_compound_value() -> None:
    settings, unread = read_settings(VAULT)
    assert unread == []
    assert (str(settings.kv2.url), settings.kv2.user, settings.kv2.secret_mount) == ("http://vault:8200/", "me", "kv")
    assert settings.kv2.password is not None
    assert settings.kv2.password.get_secret_value() == "ca,na}ry"


@pytest.mark.parametrize("exact", ["LAKEKEEPER__KV2__URL", "LAKEKEEPER__kv2__url", "ICEBERG_REST__KV2__URL"])
@pytest.mark.parametrize("compound", ["LAKEKEEPER__KV2", "lakekeeper__kv2", "ICEBERG_REST__KV2"])
def test_a_variable_of_its_own_counts_before_a_compound(compound: str, exact: str) -> None:
    environ = {compound: "{url=http://first,user=me,secret_mount=kv}", exact: "http://second"}
    kv2 = read_settings({**VAULT, **environ, "LAKEKEEPER__KV2__PASSWORD": "x"})[0].kv2
    assert (str(kv2.url), kv2.user) == ("http://second/", "me")


def test_the_more_exact_compound_counts() -> None:
    settings, _ = read_settings(
        {
            "ICEBERG_REST__OPENID_PROVIDERS__A": "{uri=http://second}",
            "LAKEKEEPER__OPENID_PROVIDERS": "{a={uri=http://first,scope=s}}",
        }
    )
    provider = settings.openid_providers["a"]
    assert (str(provider.uri), provider.scope) == ("http://second/", "s")


def test_the_newer_prefix_wins_in_any_case() -> None:
    both = {"LAKEKEEPER__LISTEN_PORT": "1111", "iceberg_rest__listen_port": "2222"}
    assert read_settings(both)[0].listen_port == 1111


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("LAKEKEEPER__KV2", "{url=http://v,password=hunter2,canary=1}"),
        ("LAKEKEEPER__KV2", "{url=http://v,user=me,secret_mount=kv,password=hunter2,canary=0}"),
        ("LAKEKEEPER__KV2", "{url=http://v,canary={a=b}}"),
        ("ICEBERG_REST__OPENFGA", "{api_key=ab,canary=cd}"),
        ("LAKEKEEPER__OPENFGA", "{api_key=ab,canary=}"),
        ("ICEKEEPER__VAULT", "{token=ab,canary=cd}"),
        ("LAKEKEEPER__CACHE", "{canary=cd}"),
    ],
)
def test_a_part_of_a_secret_after_a_comma_is_not_shown(variable: str, text: str) -> None:
    """It looks like a member of the compound value."""
    try:
        _, unread = read_settings({variable: text, "LAKEKEEPER__SECRET_BACKEND": "postgres"})
    except SettingsError as refused:
        shown = refused.problems
    else:
        shown = unread
    assert "canary" not in str(shown).lower()
    if text.endswith("=cd}"):
        assert any(variable in each for each in shown)


def test_compound_values_may_have_groups_in_groups() -> None:
    settings, unread = read_settings(
        {
            "LAKEKEEPER__OPENID_PROVIDERS": '{one={uri="https://one.example", audience=[a, "b"]}, '
            "TWO={uri=https://two.example,audience=c,require_connected_on_startup=false}}",
            "LAKEKEEPER__OPENID_PROVIDERS__TWO__SCOPE": "catalog",
            "LAKEKEEPER__TRUSTED_ENGINES": '"{trino={type=Trino,identities={one={subjects=[x]}}}}"',
            "LAKEKEEPER__TRUSTED_ENGINES__OTHER__IDENTITIES": "{two={audiences=y}}",
            "LAKEKEEPER__CACHE": "{stc={enabled=false}, role={enabled=true}}",
            "ICEKEEPER__AUDIT": "{retention=30d}",
            "LAKEKEEPER__AUDIT": "{retention=30d}",
        }
    )
    assert unread == ["LAKEKEEPER__AUDIT", "LAKEKEEPER__CACHE"]
    one, two = settings.identity_providers["one"], settings.identity_providers["two"]
    assert (one.audience, two.audience, two.scope) == (["a", "b"], ["c"], "catalog")
    assert not two.require_connected_on_startup
    engines = settings.trusted_engines
    assert (engines["trino"].type, engines["trino"].identities["one"].subjects) == ("trino", ["x"])
    assert engines["other"].identities["two"].audiences == ["y"]
    assert (settings.cache.stc.enabled, settings.audit.retention) == (False, 30 * 86400)


@pytest.mark.parametrize(
    ("variable", "text", "problem"),
    [
        ("LAKEKEEPER__KV2", "{password=canary", "LAKEKEEPER__KV2 got a compound value; expected: {key=value,...}, a"),
        ("LAKEKEEPER__KV2", '{"password": "canary"}', "got a compound value; expected: {key=value,...}, each member"),
        ("LAKEKEEPER__KV2", "{password={canary=1}}", "LAKEKEEPER__KV2__PASSWORD got a secret value"),
        ("LAKEKEEPER__KV2", "{url={password=canary}}", "LAKEKEEPER__KV2__URL got a compound value; expected"),
        ("LAKEKEEPER__KV2", "{passwrd=canary}", "LAKEKEEPER__KV2 has an unknown member (quote"),
        ("LAKEKEEPER__KV2", "{x={canary=1}}", "LAKEKEEPER__KV2 has an unknown member (quote"),
        ("LAKEKEEPER__KV2", "{user=canary,USER=b}", "{key=value,...}, each key may be given once"),
        ("LAKEKEEPER__OPENID_PROVIDERS", "{a={uri=http://canary},A={scope=s}}", "each key may be given once"),
        ("LAKEKEEPER__KV2", '{password="can\\ary"}', "a quoted text with the escapes of TOML"),
        ("LAKEKEEPER__KV2", "{secret_mount=../x}", "LAKEKEEPER__KV2__SECRET_MOUNT got '../x'"),
        ("LAKEKEEPER__OPENID_PROVIDERS", "{a_b={uri=https://x}}", "OPENID_PROVIDERS__A_B__*: the provider id"),
        ("LAKEKEEPER__OPENID_PROVIDERS", "{a={audience=x}}", "LAKEKEEPER__OPENID_PROVIDERS__A__URI is missing"),
        ("LAKEKEEPER__OPENID_PROVIDERS", "{a=[x]}", "LAKEKEEPER__OPENID_PROVIDERS has a member that takes {"),
        ("LAKEKEEPER__OPENID_PROVIDERS", "{a={uri=[https://me:canary@x]}}", "OPENID_PROVIDERS__A__URI got"),
    ],
)
def test_compound_values_that_cannot_be_used(variable: str, text: str, problem: str) -> None:
    with pytest.raises(SettingsError) as refused:
        read_settings({variable: text})
    assert problem in str(refused.value)
    assert "canary" not in str(refused.value)
