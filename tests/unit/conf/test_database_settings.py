"""Settings of the databases: PostgreSQL by URL or by single values, and the embedded SQLite."""

from __future__ import annotations

from pathlib import Path

import pytest

from icekeeper.conf.database import databases
from icekeeper.conf.environment import SettingsError, read_settings

WRITE_DATABASE = ("LAKEKEEPER__PG_DATABASE_URL_WRITE", "LAKEKEEPER__PG_HOST_W")


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


def test_reads_go_to_the_configured_database() -> None:
    settings, _ = read_settings(
        {
            "LAKEKEEPER__PG_DATABASE_URL_WRITE": "postgresql://u@w/d",
            "LAKEKEEPER__PG_DATABASE_URL_READ": "postgresql://u@r/d",
            "LAKEKEEPER__PG_READ_POOL_CONNECTIONS": "7",
        }
    )
    created = databases(settings)
    assert (created["default"]["HOST"], created["read"]["HOST"]) == ("w", "r")
    assert (created["default"]["OPTIONS"]["pool"]["max_size"], created["read"]["OPTIONS"]["pool"]["max_size"]) == (5, 7)


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        (
            {"LAKEKEEPER__PG_HOST_W": "w", "LAKEKEEPER__PG_DATABASE_URL_READ": "postgresql://u@r/d"},
            "LAKEKEEPER__PG_DATABASE_URL_READ needs LAKEKEEPER__PG_DATABASE_URL_WRITE",
        ),
        (
            {"LAKEKEEPER__PG_DATABASE_URL_WRITE": "postgresql://u@r/d", "LAKEKEEPER__PG_HOST_R": "r"},
            "LAKEKEEPER__PG_HOST_R needs LAKEKEEPER__PG_HOST_W",
        ),
        ({"LAKEKEEPER__PG_HOST_W": "w"}, "LAKEKEEPER__PG_HOST_W needs LAKEKEEPER__PG_DATABASE"),
        ({"LAKEKEEPER__PAGINATION_SIZE_DEFAULT": "5000"}, "must not be larger"),
        ({"LAKEKEEPER__PG_DATABASE_URL_WRITE": "not a url"}, "LAKEKEEPER__PG_DATABASE_URL_WRITE got a secret value"),
    ],
)
def test_settings_that_do_not_go_together(variables: dict[str, str], text: str) -> None:
    with pytest.raises(SettingsError, match=text):
        read_settings(variables)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("PG_DATABASE_URL_READ", "postgresql://u:canary@r/d"), ("PG_HOST_R", "r"), ("PG_PORT", "5432"),
        ("PG_USER", "u"), ("PG_PASSWORD", "canary"), ("PG_DATABASE", "d"), ("PG_SCHEMA", "s"),
        ("PG_SSL_MODE", "require"), ("PG_SSL_ROOT_CERT", "/ca.pem"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("prefix", ["LAKEKEEPER__", "ICEBERG_REST__"])
def test_sqlite_does_not_replace_a_postgresql_that_lacks_its_host(prefix: str, name: str, text: str) -> None:
    with pytest.raises(SettingsError) as refused:
        read_settings({prefix + name: text})
    variable = f"LAKEKEEPER__{name}"
    assert str(refused.value) == (
        f"{variable} is set without LAKEKEEPER__PG_DATABASE_URL_WRITE or LAKEKEEPER__PG_HOST_W: set one of these two "
        f"to use PostgreSQL, or unset {variable} to use the embedded SQLite"
    )


@pytest.mark.parametrize("variable", [*WRITE_DATABASE, "ICEBERG_REST__PG_HOST_W", "lakekeeper__pg_host_w"])
@pytest.mark.parametrize("text", ["", '""'])
@pytest.mark.parametrize("others", [{}, {"LAKEKEEPER__PG_USER": "u", "LAKEKEEPER__PG_DATABASE": "d"}])
def test_an_empty_database_to_write_to_is_refused(variable: str, text: str, others: dict[str, str]) -> None:
    with pytest.raises(SettingsError) as refused:
        read_settings({**others, variable: text})
    cure = "set it to use PostgreSQL, or unset it to use the embedded SQLite"
    assert refused.value.problems == [f"{variable} is empty: {cure}"]


@pytest.mark.parametrize(
    "variables",
    [
        {"PG_DATABASE_URL_WRITE": "", "PG_HOST_W": "w", "PG_DATABASE": "d", "PG_USER": "u"},
        {"PG_DATABASE_URL_WRITE": "postgresql://u@w/d", "PG_HOST_W": "", "PG_HOST_R": "", "PG_PASSWORD": ""},
    ],
)
def test_a_database_may_be_named_in_one_of_two_ways(variables: dict[str, str]) -> None:
    settings, _ = read_settings({f"LAKEKEEPER__{name}": text for name, text in variables.items()})
    assert databases(settings)["default"]["HOST"] == "w"


def test_sqlite_may_have_an_encryption_key_and_sizes_of_pools() -> None:
    variables = {"PG_ENCRYPTION_KEY": "k", "PG_READ_POOL_CONNECTIONS": "3", "PG_ACQUIRE_TIMEOUT": "1s", "PG_USER": ""}
    settings, _ = read_settings({f"LAKEKEEPER__{name}": text for name, text in variables.items()})
    assert set(databases(settings)) == {"default"}


def test_without_postgresql_the_database_is_a_file_in_the_data_folder() -> None:
    settings, _ = read_settings({"ICEKEEPER__DATA_DIR": "/srv/ice"})
    created = databases(settings)
    assert set(created) == {"default"}
    assert created["default"]["NAME"] == Path("/srv/ice/icekeeper.sqlite3")
    assert "synchronous=FULL" in created["default"]["OPTIONS"]["init_command"]


def test_an_old_key_may_have_quotes_of_its_own() -> None:
    settings, _ = read_settings(
        {"LAKEKEEPER__PG_ENCRYPTION_KEY": '"text"', "ICEKEEPER__PG_ENCRYPTION_OLD_KEYS": "['\"text\"']"}
    )
    assert settings.pg_encryption_key is not None
    keys = [settings.pg_encryption_key, *settings.pg_encryption_old_keys]
    assert [key.get_secret_value() for key in keys] == ["text", '"text"']
