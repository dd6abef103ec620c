"""Settings in the environment: values, names, unknown and empty variables, and settings that contradict each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from icekeeper.conf.environment import SettingsError, read_settings
from icekeeper.conf.listing import describe_settings
from icekeeper.conf.settings import Settings

SECRET = "q8Zr1vTf0mWc5YxKp7NbJd2LgHs4AeUi"
WRITE_DATABASE = ("LAKEKEEPER__PG_DATABASE_URL_WRITE", "LAKEKEEPER__PG_HOST_W")


def test_nothing_set_gives_the_defaults() -> None:
    settings, unread = read_settings({"PATH": "/bin", "HOME": "/"})
    assert settings == Settings()
    assert unread == []
    assert (settings.listen_port, settings.bind_ip, settings.max_request_time) == (8181, "0.0.0.0", 30.0)  # noqa: S104


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30), ("500ms", 0.5), ("5m", 300), ("1h", 3600), ("2d", 172800), ("7", 7), ("1.5s", 1.5),
        ("PT30M", 1800), ("PT1H30M", 5400), ("P1D", 86400), ("P1DT1S", 86401), (" 30 s ", 30),
    ],
)  # fmt: skip
def test_durations(text: str, seconds: float) -> None:
    assert read_settings({"LAKEKEEPER__MAX_REQUEST_TIME": text})[0].max_request_time == seconds


@pytest.mark.parametrize("text", [" ", "s", "abc", "-5s", "0", "30 parsecs", "P", "PT", "1h30", "NaN", "inf"])
def test_errors_for_durations_name_the_variable_and_the_format(text: str) -> None:
    with pytest.raises(SettingsError) as error:
        read_settings({"LAKEKEEPER__MAX_REQUEST_TIME": text})
    (problem,) = error.value.problems
    assert problem.startswith(f"LAKEKEEPER__MAX_REQUEST_TIME got {text!r}") or "greater than 0" in problem


def test_retention_is_written_in_days_and_stays_within_a_calendar() -> None:
    described = {each.variable: each.default for each in describe_settings()}
    assert described["ICEKEEPER__METRICS_REPORT_RETENTION"] == "`7d`"
    assert described["LAKEKEEPER__MAX_REQUEST_TIME"] == "`30s`"
    assert read_settings({"ICEKEEPER__METRICS_DAY_RETENTION": "36500d"})[0].metrics_day_retention == 36500 * 86400
    with pytest.raises(SettingsError, match="ICEKEEPER__METRICS_DAY_RETENTION got '36501d'"):
        read_settings({"ICEKEEPER__METRICS_DAY_RETENTION": "36501d"})


@pytest.mark.parametrize(
    "text",
    [
        '["a", "b"]', "[a,b]", "[a, b]", "a,b", " a , b ", "['a','b']", "a,,b,", '"a","b"', "'a', b", 'a,"b"', '"a,b"',
        "'a,b'",
    ],
)  # fmt: skip
def test_lists(text: str) -> None:
    assert read_settings({"LAKEKEEPER__RESERVED_NAMESPACES": text})[0].reserved_namespaces == ["a", "b"]


def test_nested_values_the_old_prefix_and_any_case() -> None:
    settings, unread = read_settings(
        {"ICEKEEPER__SERVER__THREADS": "3", "icekeeper__server__workers": "2", "ICEBERG_REST__LISTEN_PORT": "9999"}
    )
    assert (settings.server.threads, settings.server.workers, settings.listen_port) == (3, 2, 9999)
    assert unread == []


def test_the_newer_prefix_wins_over_the_old_one() -> None:
    both = {"LAKEKEEPER__LISTEN_PORT": "1111", "ICEBERG_REST__LISTEN_PORT": "2222"}
    assert read_settings(both)[0].listen_port == 1111
    assert read_settings(dict(reversed(both.items())))[0].listen_port == 1111


@pytest.mark.parametrize(
    ("variables", "port"),
    [
        ({}, 9000),
        ({"LAKEKEEPER__METRICS__PORT": "9100"}, 9100),
        ({"LAKEKEEPER__METRICS_PORT": "9200"}, 9200),
        ({"LAKEKEEPER__METRICS_PORT": "9200", "LAKEKEEPER__METRICS__PORT": "9100"}, 9100),
        ({"LAKEKEEPER__METRICS__PORT": "off"}, 0),
        ({"LAKEKEEPER__METRICS__PORT": " Off "}, 0),
        ({"LAKEKEEPER__METRICS__PORT": "0"}, 0),
    ],
)
def test_the_port_of_metrics(variables: dict[str, str], port: int) -> None:
    settings, unread = read_settings(variables)
    assert (settings.metrics.port, unread) == (port, [])
    assert ("port" in settings.metrics.model_fields_set) == bool(variables), "the usual one may be missing, no other"


@pytest.mark.parametrize("text", ["65536", "-1", "on", "none", " ", "9000.5"])
def test_invalid_metrics_ports(text: str) -> None:
    with pytest.raises(SettingsError, match="LAKEKEEPER__METRICS__PORT got"):
        read_settings({"LAKEKEEPER__METRICS__PORT": text})


def test_every_wrong_value_is_named_at_once() -> None:
    with pytest.raises(SettingsError) as error:
        read_settings({"LAKEKEEPER__LISTEN_PORT": "x", "ICEKEEPER__SERVER__THREADS": "0", "LAKEKEEPER__BASE_URI": "::"})
    problems = "\n".join(error.value.problems)
    for part in (
        "LAKEKEEPER__LISTEN_PORT got 'x'",
        "ICEKEEPER__SERVER__THREADS got '0'",
        "LAKEKEEPER__BASE_URI got '::'",
    ):
        assert part in problems


def test_unknown_variables_are_reported_not_refused() -> None:
    _, unread = read_settings({"LAKEKEEPER__NO_SUCH": "1", "ICEKEEPER__LISTEN_PORT": "1", "ICEKEEPER__SERVER__X": "1"})
    assert unread == ["ICEKEEPER__LISTEN_PORT", "ICEKEEPER__SERVER__X", "LAKEKEEPER__NO_SUCH"]


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("LAKEKEEPER__OPENFGA__ENDPIONT", "http://fga"),
        ("LAKEKEEPER__CEDAR", "{refresh_disabled=true}"),
        ("ICEBERG_REST__CEDAR__REFRESH_DISABLED", '"true"'),
    ],
)
def test_guards_that_cannot_be_honoured_stop_the_start(variable: str, text: str) -> None:
    with pytest.raises(SettingsError) as refused:
        read_settings({variable: text})
    problem = "is set, but this version does not support it: it would protect nothing. Correct its name, or unset it"
    assert refused.value.problems == [f"{variable} {problem}"]


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("LAKEKEEPER__KV2", "url=http://canary"),
        ("LAKEKEEPER__OPENFGA", "http://canary"),
        ("ICEBERG_REST__OPENID_PROVIDERS", "[{uri=https://canary}]"),
        ("LAKEKEEPER__OPENID_PROVIDERS__KC", "https://canary"),
        ("ICEKEEPER__STORAGE", "canary"),
    ],
)
def test_a_group_takes_a_compound_value_alone(variable: str, text: str) -> None:
    with pytest.raises(SettingsError) as refused:
        read_settings({variable: text})
    assert refused.value.problems == [f"{variable} takes {{key=value,...}}"]


def test_guards_that_are_off_guard_nothing() -> None:
    off = {
        "LAKEKEEPER__ENABLE_KUBERNETES_AUTHENTICATION": "false",
        "LAKEKEEPER__OPENID_PROVIDERS": "{}",
        "LAKEKEEPER__CEDAR__REFRESH_DISABLED": "False",
    }
    assert read_settings(off)[0] == Settings()


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("LAKEKEEPER__BIND_IP", " 127.0.0.1", "127.0.0.1"),
        ("LAKEKEEPER__ENABLE_KUBERNETES_AUTHENTICATION", " true ", True),
        ("LAKEKEEPER__ENABLE_KUBERNETES_AUTHENTICATION", '" true\t"', True),
        ("LAKEKEEPER__LISTEN_PORT", " 8182\n", 8182),
        ("LAKEKEEPER__DEFAULT_PROJECT_ID", " p ", "p"),
        ("ICEKEEPER__DATA_DIR", " /srv/ice ", Path("/srv/ice")),
    ],
)
def test_blanks_around_a_value_are_removed(name: str, text: str, value: object) -> None:
    assert getattr(read_settings({name: text})[0], name.partition("__")[2].lower()) == value


@pytest.mark.parametrize("name", ["PG_HOST_W", "BIND_IP", "OPENID_PROVIDER_URI", "OPENID_AUDIENCE", "ALLOW_ORIGIN"])
def test_a_blank_value_is_refused(name: str) -> None:
    """It would not count as unset: no setting treats it so."""
    with pytest.raises(SettingsError, match=f"LAKEKEEPER__{name} got ' '; expected: text that is not blank"):
        read_settings({f"LAKEKEEPER__{name}": " "})


def test_blanks_around_a_secret_belong_to_it() -> None:
    settings, _ = read_settings({"LAKEKEEPER__PG_ENCRYPTION_KEY": " a ", "LAKEKEEPER__KV2": '{password=" b "}'})
    assert settings.pg_encryption_key is not None
    assert settings.kv2.password is not None
    assert settings.pg_encryption_key.get_secret_value() == " a "
    assert settings.kv2.password.get_secret_value() == " b "


@pytest.mark.parametrize(
    ("text", "origins"),
    [
        ("*", ["*"]), ("null", ["null"]), ("https://a.example.com", ["https://a.example.com"]),
        ("https://a.example.com/,http://localhost:3000", ["https://a.example.com", "http://localhost:3000"]),
        ("HTTPS://A.example.com:443", ["https://a.example.com"]), ("http://[::1]:80/", ["http://[::1]"]),
        ("chrome-extension://abcdef", ["chrome-extension://abcdef"]), ("https://a:80", ["https://a:80"]),
    ],
)  # fmt: skip
def test_origins_are_taken_as_browsers_send_them(text: str, origins: list[str]) -> None:
    assert read_settings({"LAKEKEEPER__ALLOW_ORIGIN": text})[0].allow_origin == origins


@pytest.mark.parametrize(
    "text",
    [
        "a", "a.example.com", "https://", "https://a.example.com//", "https://a.example.com/app", "https://*.example.com",
        "https://u@a.example.com", "https://a.example.com?x", "https://a.example.com:x", "https://b\u00fccher.example",
        "*,a",
    ],
)  # fmt: skip
def test_origins_that_no_browser_sends_are_refused(text: str) -> None:
    with pytest.raises(SettingsError, match=r"LAKEKEEPER__ALLOW_ORIGIN got .*; expected: "):
        read_settings({"LAKEKEEPER__ALLOW_ORIGIN": text})


@pytest.mark.parametrize(
    ("variable", "texts", "value"),
    [
        ("LAKEKEEPER__SECRET_BACKEND", ["postgres", "Postgres", "POSTGRES", '"Postgres"'], "postgres"),
        ("LAKEKEEPER__AUTHZ_BACKEND", ["allowall", "AllowAll", "allow-all", "ALLOW_ALL", " allow-all "], "allowall"),
        ("LAKEKEEPER__AUTHZ_BACKEND", ["builtin", "BuiltIn", "built-in"], "builtin"),
        ("LAKEKEEPER__AUTHZ_BACKEND", ["teams.authz.Evaluator"], "teams.authz.Evaluator"),
        ("LAKEKEEPER__PG_SSL_MODE", ["verify-full", "VerifyFull", "verify_full", "VERIFYFULL"], "verify-full"),
        ("LAKEKEEPER__PG_SSL_MODE", ["require", "Require"], "require"),
        ("LAKEKEEPER__MAINTENANCE_MODE", ["read-only", "ReadOnly", "read_only"], "read-only"),
        ("LAKEKEEPER__KUBERNETES_AUTHENTICATION_SUBJECT_SOURCE", ["username", "Username"], "username"),
        ("ICEKEEPER__LOG_LEVEL", ["warning", "WARNING"], "warning"),
    ],
)
def test_enumerated_settings_are_taken_in_any_spelling(variable: str, texts: list[str], value: str) -> None:
    name = variable.partition("__")[2].lower()
    database = {"LAKEKEEPER__PG_DATABASE_URL_WRITE": "postgresql://u@w/d"}
    assert {getattr(read_settings({**database, variable: text})[0], name) for text in texts} == {value}


@pytest.mark.parametrize("text", ["rs256,eddsa,ED25519", "[RS256, EdDSA, Ed25519]", "Rs-256,ed-dsa,Ed25519"])
def test_algorithms_are_taken_in_any_case(text: str) -> None:
    algorithms = read_settings({"ICEKEEPER__AUTHENTICATION__ALGORITHMS": text})[0].authentication.algorithms
    assert algorithms == ["RS256", "EdDSA", "Ed25519"]


@pytest.mark.parametrize("text", ["hs256", "none", "NONE", "RS256,HS512"])
def test_other_algorithms_are_not_taken(text: str) -> None:
    with pytest.raises(SettingsError, match="ICEKEEPER__AUTHENTICATION__ALGORITHMS got"):
        read_settings({"ICEKEEPER__AUTHENTICATION__ALGORITHMS": text})


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("LAKEKEEPER__SECRET_BACKEND", "Postgresql"),
        ("LAKEKEEPER__PG_SSL_MODE", "verify"),
        ("LAKEKEEPER__AUTHZ_BACKEND", "allow"),
        ("LAKEKEEPER__AUTHZ_BACKEND", "cedar"),
    ],
)
def test_other_values_are_rejected(variable: str, text: str) -> None:
    with pytest.raises(SettingsError, match=f"{variable} got '{text}'; expected: "):
        read_settings({variable: text})


VAULT = {
    "LAKEKEEPER__SECRET_BACKEND": "Kv2",
    "LAKEKEEPER__KV2": '{url="http://vault:8200", user=me, password="ca,na}ry", secret_mount=kv}',
}


@pytest.mark.parametrize(
    "environ",
    [
        {"LAKEKEEPER__OPENID_PROVIDERS": '{kc={uri=""}}'},
        {"LAKEKEEPER__OPENID_PROVIDERS": "{kc={}}"},
        {"LAKEKEEPER__OPENID_PROVIDERS": "{kc=}"},
        {"LAKEKEEPER__OPENID_PROVIDERS": "{KC=false}"},
        {"LAKEKEEPER__OPENID_PROVIDERS__KC": "{}"},
        {"LAKEKEEPER__OPENID_PROVIDERS__KC": ""},
        {"LAKEKEEPER__OPENID_PROVIDERS__KC__URI": ""},
        {"LAKEKEEPER__OPENID_PROVIDERS__KC__URI": '""'},
        {"LAKEKEEPER__OPENID_PROVIDERS__KC__NO_SUCH": ""},
    ],
)
def test_a_provider_without_address_is_refused(environ: dict[str, str]) -> None:
    with pytest.raises(SettingsError) as refused:
        read_settings(environ)
    assert refused.value.problems == [
        "LAKEKEEPER__OPENID_PROVIDERS__KC__URI is missing: other variables of this group are set"
    ]


@pytest.mark.parametrize(
    ("variable", "text", "problem"),
    [
        ("LAKEKEEPER__TRUSTED_ENGINES", "{trino={}}", "TRINO__IDENTITIES__<IDP>__AUDIENCES or __SUBJECTS is"),
        ("LAKEKEEPER__TRUSTED_ENGINES__TRINO__TYPE", "", "TRINO__IDENTITIES__<IDP>__AUDIENCES or __SUBJECTS is"),
        ("LAKEKEEPER__TRUSTED_ENGINES", "{trino={identities={idp={}}}}", "TRINO__IDENTITIES__IDP__*: there is no such"),
        ("ICEKEEPER__OPENID_CLAIMS", "{kc={}}", "ICEKEEPER__OPENID_CLAIMS__KC__*: there is no such provider"),
    ],
)
def test_an_entry_with_nothing_in_it_is_an_entry(variable: str, text: str, problem: str) -> None:
    with pytest.raises(SettingsError) as refused:
        read_settings({variable: text})
    assert problem in str(refused.value)


def test_quotes_that_a_compose_file_leaves_are_removed() -> None:
    settings, unread = read_settings(
        {
            "LAKEKEEPER__ALLOW_ORIGIN": '"*"',
            "LAKEKEEPER__TASK_POLL_INTERVAL": '"1"',
            "LAKEKEEPER__BASE_URI": '"https://catalog.example.com"',
            "LAKEKEEPER__PG_ENCRYPTION_KEY": '"a \\"key\\""',
            "LAKEKEEPER__INSTANCE_ADMINS": '["oidc~alice", oidc~bob]',
            "LAKEKEEPER__OPENID_PROVIDER_URI": '"http://idp"',
            "LAKEKEEPER__OPENID_ADDITIONAL_ISSUERS": '"http://a,http://b"',
            "LAKEKEEPER__OPENID_SUBJECT_CLAIM": "sub",
        }
    )
    assert (settings.allow_origin, settings.task_poll_interval, unread) == (["*"], 1, [])
    assert str(settings.base_uri) == "https://catalog.example.com/"
    assert settings.pg_encryption_key is not None
    assert settings.pg_encryption_key.get_secret_value() == 'a "key"'
    assert settings.instance_admins == ["oidc~alice", "oidc~bob"]
    assert (settings.openid_additional_issuers, settings.openid_subject_claim) == (["http://a", "http://b"], ["sub"])


@pytest.mark.parametrize("text", ["", '""'])
def test_an_empty_variable_counts_as_unset(text: str) -> None:
    described = [each.variable for each in describe_settings() if "<ID>" not in each.variable]
    names = [name for name in described if name.startswith("LAKEKEEPER__")]
    names += ["LAKEKEEPER__OPENID_X", "LAKEKEEPER__NO_SUCH", "LAKEKEEPER__KV2", "LAKEKEEPER__OPENID_PROVIDERS"]
    names = [name for name in names if name not in WRITE_DATABASE]
    settings, unread = read_settings(dict.fromkeys(names, text))
    assert (settings, unread) == (Settings(), [])
    assert settings.model_fields_set == set()


@pytest.mark.parametrize("text", ["", '""', "''"])
def test_an_empty_setting_that_lakekeeper_does_not_have_is_refused(text: str) -> None:
    """The absence of some settings permits what a value would deny, such as ALLOW_PRIVATE_ENDPOINTS."""
    names = [each.variable.replace("<ID>", "X") for each in describe_settings()]
    own = sorted(name for name in names if name.startswith("ICEKEEPER__"))
    assert {"ICEKEEPER__STORAGE__ALLOW_PRIVATE_ENDPOINTS", "ICEKEEPER__ACCESS_TOKENS"} <= set(own)
    with pytest.raises(SettingsError) as refused:
        read_settings(dict.fromkeys(own, text))
    cure = "is empty: unset it, or set a value, such as [] for an empty list"
    assert sorted(refused.value.problems) == [f"{name} {cure}" for name in own]
    with pytest.raises(SettingsError, match=rf"^ICEKEEPER__STORAGE__ALLOW_PRIVATE_ENDPOINTS {cure.partition(' [')[0]}"):
        read_settings({"ICEKEEPER__STORAGE": f"{{allow_private_endpoints={text}}}"})


def test_no_endpoints_at_all_are_an_empty_list() -> None:
    assert read_settings({"ICEKEEPER__STORAGE__ALLOWED_ENDPOINTS": "[]"})[0].storage.allowed_endpoints == []


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("'*'", "*"), ("' * '", " * "), ('"\\"text\\""', '"text"'), ("\"'text'\"", "'text'"), ('"a\\tb"', "a\tb"),
        ('"text', '"text'), ("'text", "'text"), ('"a"b"', '"a"b"'), ("'a'b'", "'a'b'"), ("'a\\$b'", "a\\$b"),
        ("a\\$b", "a\\$b"),
    ],
)  # fmt: skip
def test_one_pair_of_quotes_is_removed(text: str, key: str) -> None:
    given = read_settings({"LAKEKEEPER__PG_ENCRYPTION_KEY": text})[0].pg_encryption_key
    assert given is not None
    assert given.get_secret_value() == key


@pytest.mark.parametrize("text", ['"canary\\$b"', '"\\canary"', '"canary\\ud800"'])
def test_escapes_that_mean_nothing_are_refused(text: str) -> None:
    with pytest.raises(SettingsError) as refused:
        read_settings({"LAKEKEEPER__PG_PASSWORD": text})
    assert refused.value.problems == [
        "LAKEKEEPER__PG_PASSWORD got a quoted text; expected: a quoted text with the escapes of TOML, or no quotes"
    ]


def test_vault_settings_without_the_backend_are_not_ignored() -> None:
    """Lakekeeper's chart sets the variables of Vault and not the backend, and Lakekeeper then keeps credentials in the
    database.
    """
    unchosen = {name: text for name, text in VAULT.items() if name != "LAKEKEEPER__SECRET_BACKEND"}
    with pytest.raises(SettingsError, match="KV2__URL is set without LAKEKEEPER__SECRET_BACKEND: set"):
        read_settings(unchosen)
    for chosen in ("kv2", "postgres"):
        assert read_settings(VAULT | {"LAKEKEEPER__SECRET_BACKEND": chosen})[0].secret_backend == chosen
    assert read_settings(unchosen | {"LAKEKEEPER__PG_ENCRYPTION_KEY": "any"})[0].secret_backend == "postgres"


def test_authorization_is_never_silently_weaker() -> None:
    with pytest.raises(SettingsError, match="LAKEKEEPER__AUTHZ_BACKEND got 'cedar'"):
        read_settings({"LAKEKEEPER__AUTHZ_BACKEND": "cedar"})
    with pytest.raises(SettingsError, match="LAKEKEEPER__AUTHZ_BACKEND=openfga needs"):
        read_settings({"LAKEKEEPER__AUTHZ_BACKEND": "openfga"})


def test_secrets_stay_out_of_messages_and_reprs() -> None:
    url = "postgresql://user:canary@db/ice"
    settings, _ = read_settings({"LAKEKEEPER__PG_DATABASE_URL_WRITE": url, "ICEKEEPER__SECRET_KEY": f"canary{SECRET}"})
    assert "canary" not in repr(settings)


@pytest.mark.parametrize(
    "text", ["s", "canary", "x" * 100, "canary" * 10, SECRET[:31], f"{SECRET[:31]} ", " " * 32, "canary1" * 5]
)
def test_a_signing_key_that_could_be_guessed_is_refused(text: str) -> None:
    with pytest.raises(SettingsError) as error:
        read_settings({"ICEKEEPER__SECRET_KEY": text})
    (problem,) = error.value.problems
    assert problem == (
        "ICEKEEPER__SECRET_KEY got a secret value; expected: 32 or more random characters, 8 of them different, "
        "such as the output of `openssl rand -base64 48`"
    )
    assert "canary" not in str(error.value)


@pytest.mark.parametrize("text", [SECRET, "0123456789abcdef" * 2, f"{SECRET}\n"])
def test_signing_keys(text: str) -> None:
    key = read_settings({"ICEKEEPER__SECRET_KEY": text})[0].secret_key
    assert key is not None
    assert key.get_secret_value() == text
