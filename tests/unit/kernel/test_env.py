from __future__ import annotations

from pathlib import Path

import pytest

from icekeeper.database import databases
from icekeeper.described_settings import describe_settings
from icekeeper.env import Settings, SettingsError, read_settings

SECRET = "q8Zr1vTf0mWc5YxKp7NbJd2LgHs4AeUi"


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


@pytest.mark.parametrize("text", ["", "s", "abc", "-5s", "0", "30 parsecs", "P", "PT", "1h30", "NaN", "inf"])
def test_bad_durations_name_the_variable_and_what_it_takes(text: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        read_settings({"LAKEKEEPER__MAX_REQUEST_TIME": text})
    (problem,) = refusal.value.problems
    assert problem.startswith(f"LAKEKEEPER__MAX_REQUEST_TIME got {text!r}") or "greater than 0" in problem


def test_retention_is_written_in_days_and_stays_within_a_calendar() -> None:
    described = {each.variable: each.default for each in describe_settings()}
    assert described["ICEKEEPER__METRICS_REPORT_RETENTION"] == "`7d`"
    assert described["LAKEKEEPER__MAX_REQUEST_TIME"] == "`30s`"
    assert read_settings({"ICEKEEPER__METRICS_DAY_RETENTION": "36500d"})[0].metrics_day_retention == 36500 * 86400
    with pytest.raises(SettingsError, match="ICEKEEPER__METRICS_DAY_RETENTION got '36501d'"):
        read_settings({"ICEKEEPER__METRICS_DAY_RETENTION": "36501d"})


@pytest.mark.parametrize("text", ['["a", "b"]', "[a,b]", "[a, b]", "a,b", " a , b ", "['a','b']", "a,,b,"])
def test_lists(text: str) -> None:
    assert read_settings({"LAKEKEEPER__ALLOW_ORIGIN": text})[0].allow_origin == ["a", "b"]


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


@pytest.mark.parametrize("text", ["65536", "-1", "on", "none", "", "9000.5"])
def test_what_is_no_port_of_metrics(text: str) -> None:
    with pytest.raises(SettingsError, match="LAKEKEEPER__METRICS__PORT got"):
        read_settings({"LAKEKEEPER__METRICS__PORT": text})


def test_every_wrong_value_is_named_at_once() -> None:
    with pytest.raises(SettingsError) as refusal:
        read_settings({"LAKEKEEPER__LISTEN_PORT": "x", "ICEKEEPER__SERVER__THREADS": "0", "LAKEKEEPER__BASE_URI": "::"})
    problems = "\n".join(refusal.value.problems)
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
    ],
)
def test_guards_that_cannot_be_honoured_stop_the_start(variable: str, text: str) -> None:
    with pytest.raises(SettingsError, match=f"{variable} is set, but this version cannot honour it"):
        read_settings({variable: text})


def test_guards_that_are_off_guard_nothing() -> None:
    off = {"LAKEKEEPER__ENABLE_KUBERNETES_AUTHENTICATION": "false"}
    assert read_settings(off)[0] == Settings()


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
    "text", ["", "s", "canary", "x" * 100, "canary" * 10, SECRET[:31], f"{SECRET[:31]} ", " " * 32, "canary1" * 5]
)
def test_a_signing_key_that_could_be_guessed_is_refused(text: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        read_settings({"ICEKEEPER__SECRET_KEY": text})
    (problem,) = refusal.value.problems
    assert problem == (
        "ICEKEEPER__SECRET_KEY got a secret value; it takes: 32 or more random characters, 8 of them different, "
        "such as `openssl rand -base64 48` prints"
    )
    assert "canary" not in str(refusal.value)


@pytest.mark.parametrize("text", [SECRET, "0123456789abcdef" * 2, f"{SECRET}\n"])
def test_signing_keys(text: str) -> None:
    key = read_settings({"ICEKEEPER__SECRET_KEY": text})[0].secret_key
    assert key is not None
    assert key.get_secret_value() == text


def test_a_url_and_single_values_mean_the_same_database() -> None:
    by_url, _ = read_settings({"LAKEKEEPER__PG_DATABASE_URL_WRITE": "postgresql://u:p%40ss@h:5433/d?sslmode=require"})
    by_values, _ = read_settings(
        {
            "LAKEKEEPER__PG_HOST_W": "h", "LAKEKEEPER__PG_PORT": "5433", "LAKEKEEPER__PG_USER": "u",
            "LAKEKEEPER__PG_PASSWORD": "p@ss", "LAKEKEEPER__PG_DATABASE": "d", "LAKEKEEPER__PG_SSL_MODE": "require",
        }
    )  # fmt: skip
    one, other = databases(by_url)["default"], databases(by_values)["default"]
    for name in ("HOST", "USER", "PASSWORD", "NAME"):
        assert one[name] == other[name]
    assert (one["PASSWORD"], one["OPTIONS"]["sslmode"], other["OPTIONS"]["sslmode"]) == ("p@ss", "require", "require")
    assert str(one["PORT"]) == str(other["PORT"]) == "5433"
    assert databases(by_url)["read"]["HOST"] == "h"


def test_reads_go_where_they_are_told() -> None:
    settings, _ = read_settings(
        {
            "LAKEKEEPER__PG_DATABASE_URL_WRITE": "postgresql://u@w/d",
            "LAKEKEEPER__PG_DATABASE_URL_READ": "postgresql://u@r/d",
            "LAKEKEEPER__PG_READ_POOL_CONNECTIONS": "7",
        }
    )
    made = databases(settings)
    assert (made["default"]["HOST"], made["read"]["HOST"]) == ("w", "r")
    assert (made["default"]["OPTIONS"]["pool"]["max_size"], made["read"]["OPTIONS"]["pool"]["max_size"]) == (5, 7)


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        ({"LAKEKEEPER__PG_DATABASE_URL_READ": "postgresql://u@r/d"}, "needs PG_DATABASE_URL_WRITE"),
        ({"LAKEKEEPER__PG_HOST_R": "r"}, "needs PG_HOST_W"),
        ({"LAKEKEEPER__PG_HOST_W": "w"}, "needs PG_DATABASE"),
        ({"LAKEKEEPER__PAGINATION_SIZE_DEFAULT": "5000"}, "must not be larger"),
        ({"LAKEKEEPER__PG_DATABASE_URL_WRITE": "not a url"}, "LAKEKEEPER__PG_DATABASE_URL_WRITE got a secret value"),
    ],
)
def test_settings_that_do_not_go_together(variables: dict[str, str], text: str) -> None:
    with pytest.raises(SettingsError, match=text):
        read_settings(variables)


def test_without_postgresql_the_database_is_a_file_in_the_data_folder() -> None:
    settings, _ = read_settings({"ICEKEEPER__DATA_DIR": "/srv/ice"})
    made = databases(settings)
    assert set(made) == {"default"}
    assert made["default"]["NAME"] == Path("/srv/ice/icekeeper.sqlite3")
    assert "synchronous=FULL" in made["default"]["OPTIONS"]["init_command"]
