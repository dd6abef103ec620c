"""Django's DATABASES from the settings: PostgreSQL with a read and a write pool, or the embedded SQLite."""

from __future__ import annotations

from typing import Any

from psycopg.conninfo import conninfo_to_dict
from pydantic import SecretStr

from icekeeper.conf.settings import Settings
from icekeeper.kernel.db.sql import PooledConnection

SQLITE_BUSY_SECONDS = 20
"""Time for which SQLite waits for another writer before the request gets 503."""

_DJANGO_NAMES = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}


def databases(settings: Settings) -> dict[str, dict[str, Any]]:
    """Return Django's DATABASES: `default` for writes, and on PostgreSQL `read` with its own pool."""
    write = _conninfo(settings, settings.pg_database_url_write, settings.pg_host_w)
    if write is None:
        return {"default": _sqlite(settings)}
    read = _conninfo(settings, settings.pg_database_url_read, settings.pg_host_r) or write
    return {
        "default": _postgres(settings, write, pool_size=settings.pg_write_pool_connections),
        "read": _postgres(settings, read, pool_size=settings.pg_read_pool_connections),
    }


def _conninfo(settings: Settings, url: SecretStr | None, host: str | None) -> dict[str, Any] | None:
    if url is not None:
        parts: dict[str, Any] = dict(conninfo_to_dict(url.get_secret_value()))
    elif host is not None:
        password = settings.pg_password.get_secret_value() if settings.pg_password else None
        parts = {
            "host": host,
            "port": settings.pg_port,
            "user": settings.pg_user,
            "password": password,
            "dbname": settings.pg_database,
        }
    else:
        return None
    if settings.pg_ssl_mode:
        parts["sslmode"] = settings.pg_ssl_mode
    if settings.pg_ssl_root_cert:
        parts["sslrootcert"] = str(settings.pg_ssl_root_cert)
    return {name: value for name, value in parts.items() if value is not None}


def _postgres(settings: Settings, conninfo: dict[str, Any], *, pool_size: int) -> dict[str, Any]:
    timeout_ms = int(settings.max_request_time * 1000)
    given = str(conninfo.get("options", ""))
    search_path = "" if settings.pg_schema == "public" else f" -c search_path={settings.pg_schema},public"
    options: dict[str, Any] = {name: value for name, value in conninfo.items() if name not in _DJANGO_NAMES}
    options |= {
        "options": f"{given} -c statement_timeout={timeout_ms} -c lock_timeout={timeout_ms}{search_path}".strip(),
        "application_name": conninfo.get("application_name", "icekeeper"),
        "pool": {
            "connection_class": PooledConnection,
            "min_size": 1,
            "max_size": pool_size,
            "timeout": settings.pg_acquire_timeout,
            "max_lifetime": settings.pg_connection_max_lifetime,
        },
        # With parameters separate from the text, statements of the ORM are prepared too, after their fifth use. None
        # disables this, for a pooler that shares sessions.
        "server_side_binding": True,
        "prepare_threshold": 5 if settings.pg_prepare_statements else None,
    }
    named = {_DJANGO_NAMES[name]: value for name, value in conninfo.items() if name in _DJANGO_NAMES}
    # The pool keeps the connections, so Django must not.
    return {"ENGINE": "django.db.backends.postgresql", "CONN_MAX_AGE": 0, "OPTIONS": options} | named


def _sqlite(settings: Settings) -> dict[str, Any]:
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": settings.data_dir.absolute() / "icekeeper.sqlite3",
        "CONN_MAX_AGE": None,
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": SQLITE_BUSY_SECONDS,
            # FULL: an acknowledged commit survives a power cut, not only a crash of the process.
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA temp_store=MEMORY;",
        },
    }
