"""Groups of settings: HTTP server, metrics, object stores, caches, idempotency, roles, audit, view chains, database."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from icekeeper.conf.values import (
    ANY_SPELLING,
    DAY,
    BoundedDuration,
    DatabaseUrl,
    Duration,
    EndpointList,
    OptionalPort,
    Retention,
    ShortDuration,
)


class ServerSettings(BaseModel):
    """`ICEKEEPER__SERVER__*`: the HTTP server."""

    model_config = ConfigDict(extra="forbid")

    workers: Annotated[int, Field(ge=1, le=256)] = Field(
        default_factory=lambda: os.cpu_count() or 1,
        description="Number of server processes. The default is one for each CPU core; set it in containers "
        "with a CPU limit",
    )
    threads: Annotated[int, Field(ge=1, le=256)] = Field(
        8,
        description="Number of requests that each process runs concurrently; up to 64 more can wait for other requests",
    )
    connections: Annotated[int, Field(ge=1)] = Field(
        1000,
        description="Maximum number of client connections of each process, including idle ones. A further one "
        "replaces an idle or very slow one, or gets 503",
    )
    keepalive: Duration = Field(
        75.0,
        description="Time after which an idle connection is closed. Keep it above the idle timeout of the "
        "load balancer (often 60s), which could otherwise send a request on a closed connection",
    )
    graceful_timeout: Duration = Field(
        30.0,
        description="Time for running requests to finish when the server stops; keep it below "
        "terminationGracePeriodSeconds of Kubernetes",
    )
    queue_timeout: Duration = Field(
        5.0, description="Maximum time that a request waits for a free thread; then it gets 503 with Retry-After"
    )
    read_timeout: Duration = Field(
        20.0,
        description="Timeout for receiving the head of a request, and the interval over which "
        "MIN_TRANSFER_RATE is measured. Slower clients are disconnected, with a 408 in the middle "
        "of a request",
    )
    min_transfer_rate: Annotated[int, Field(ge=1)] = Field(
        4096,
        description="Minimum rate in bytes per second at which clients must send a request body and read a "
        "response, averaged over READ_TIMEOUT",
    )
    transfer_buffer: Annotated[int, Field(ge=1_048_576)] = Field(
        268_435_456,
        description="Memory in bytes of each process for request bodies that arrive and responses that are "
        "read slowly; above it, the slowest clients are disconnected. It is at least twice "
        "MAX_REQUEST_BODY_SIZE",
    )
    connections_per_address: Annotated[int, Field(ge=1)] | None = Field(
        None,
        description="Maximum number of connections from one client address (IPv6: /64) to each process; "
        "further ones get 503. Unset, there is no limit. Do not set it behind a proxy, where all "
        "clients have the proxy's address",
    )
    slow_connections_per_address: Annotated[int, Field(ge=1)] | None = Field(
        None,
        description="Maximum number of connections from one client address to each process that have been in "
        "the middle of a request or response for more than 2s; the slowest of more are "
        "disconnected. Unset, half of CONNECTIONS",
    )


class MetricsSettings(BaseModel):
    """`LAKEKEEPER__METRICS__*`: metrics for Prometheus."""

    model_config = ConfigDict(extra="forbid")

    port: OptionalPort = Field(
        9000, description="TCP port of the Prometheus metrics (`/metrics`), on BIND_IP; `off` or 0 disables them"
    )


class StorageSettings(BaseModel):
    """`ICEKEEPER__STORAGE__*`: connections to object stores and to the services that issue credentials."""

    model_config = ConfigDict(extra="forbid")

    connect_timeout: ShortDuration = Field(5.0, description="Timeout for connecting to object stores")
    request_timeout: ShortDuration = Field(30.0, description="Timeout of one request to an object store, from 1s to 1d")
    retries: Annotated[int, Field(ge=0, le=10)] = Field(
        3, description="Number of retries of a failed object store request, with increasing pauses; 0 disables them"
    )
    ca_bundle: Path | None = Field(
        None,
        description="PEM file of the certificate authorities of object stores and credential services, for "
        "private certificates. Object writes also trust the system's authorities. Unset, the "
        "system's authorities are trusted",
    )
    azure_endpoint: Annotated[str, Field(pattern="^https?://[^\\s?#]+[^\\s?#/]$")] | None = Field(
        None,
        description="URL of the Azure blob service, for emulators and private networks, such as "
        "`http://127.0.0.1:10000/{account}`. Unset, the public one",
    )
    gcs_endpoint: Annotated[str, Field(pattern="^https?://[^\\s?#]+[^\\s?#/]$")] | None = Field(
        None,
        description="URL of Google Cloud Storage, for emulators and private networks, such as "
        "`http://127.0.0.1:4443`. Unset, the public one",
    )
    allowed_endpoints: EndpointList | None = Field(
        None,
        description="Hosts of object stores and credential services to which this server may connect, such as "
        "minio.example.com, `*.example.com` or `https://minio.example.com:9000`. Unset, all hosts "
        "except metadata services and other always forbidden addresses; `[]` allows none. Set it "
        "if untrusted users can create warehouses",
    )
    allow_private_endpoints: bool = Field(
        default=True,
        description="Allow object stores and identity providers on private and loopback addresses. Disable it "
        "if untrusted users can create warehouses",
    )
    allow_http_endpoints: bool = Field(default=True, description="Allow object stores without TLS (http URLs)")
    sign_writes_with_warehouse_keys: bool = Field(
        default=False,
        description="Sign writes (remote signing) with the keys of warehouses without `sts-enabled`, even for "
        "object stores that do not enforce signatures, such as MinIO. A user who can write one "
        "table can then reach everything that these keys can reach",
    )


class VendedCacheSettings(BaseModel):
    """`LAKEKEEPER__CACHE__STC__*`: the cache of vended credentials."""

    model_config = ConfigDict(extra="forbid")

    enabled: bool = Field(
        default=True,
        description="Cache vended credentials, and return them to all clients with the same access to a table "
        "while most of their lifetime remains",
    )
    capacity: Annotated[int, Field(ge=1, le=10_000_000)] = Field(
        10_000,
        description="Maximum number of cached credentials of each process, for each of S3, Azure and Google Cloud",
    )


class CacheSettings(BaseModel):
    """`LAKEKEEPER__CACHE__*`: in-memory caches."""

    model_config = ConfigDict(extra="forbid")

    stc: VendedCacheSettings = Field(default_factory=VendedCacheSettings, description="Cache of vended credentials")


class IdempotencySettings(BaseModel):
    """`LAKEKEEPER__IDEMPOTENCY__*`: idempotency of requests."""

    model_config = ConfigDict(extra="forbid")

    enabled: bool = Field(
        default=True,
        description="Replay the stored response when a client repeats a request with the same "
        "Idempotency-Key, and announce this in /v1/config",
    )
    lifetime: BoundedDuration = Field(
        1800.0, description="Time for which a request can be repeated with its Idempotency-Key"
    )
    grace_period: BoundedDuration = Field(
        300.0, description="Time for which idempotency records are kept after LIFETIME"
    )


class RoleSettings(BaseModel):
    """`LAKEKEEPER__ROLE__*`: roles."""

    model_config = ConfigDict(extra="forbid")

    max_nesting_depth: Annotated[int, Field(ge=1, le=100)] = Field(
        10,
        description="Maximum depth of roles that are members of roles; deeper memberships are rejected. At "
        "most 10 with the default limits of OpenFGA",
    )


class TracingSettings(BaseModel):
    """`LAKEKEEPER__AUDIT__TRACING__*`: audit log lines."""

    model_config = ConfigDict(extra="forbid")

    enabled: bool = Field(
        default=True, description="Write a log line for each denied request, sign-in and administrative change"
    )


class AuditSettings(BaseModel):
    """`LAKEKEEPER__AUDIT__TRACING__*` and `ICEKEEPER__AUDIT__*`: the audit trail."""

    model_config = ConfigDict(extra="forbid")

    tracing: TracingSettings = Field(default_factory=TracingSettings, description="Audit log lines")
    enabled: bool = Field(default=True, description="Store the audit trail in the database, in addition to log lines")
    reads: bool = Field(
        default=False,
        description="Also record vended credentials and signed requests, that is, access to table files",
    )
    retention: Retention = Field(
        400 * DAY, description="Retention of audit records; the worker deletes older ones. `0` or `none`: unlimited"
    )
    token_use_interval: ShortDuration = Field(
        3600.0,
        description="Interval over which uses of an access token from one address are counted in one record; "
        "its first use is recorded immediately",
    )
    data_changes: Annotated[Literal["all", "ddl", "off"], ANY_SPELLING] = Field(
        "ddl",
        description="Commits that get an audit record: `all`; `ddl`: those that change more than they append, such as "
        "schemas, properties, references, and data that they delete or overwrite; or none (`off`). Other changes of "
        "tables, such as drops, are always recorded",
    )


class EventSettings(BaseModel):
    """`ICEKEEPER__EVENTS__*`: the outbox, which has an event for each change, and NATS."""

    model_config = ConfigDict(extra="forbid")

    retention: Retention = Field(
        7 * DAY,
        description="Retention of events in the database; the worker deletes older ones. `0` or `none`: unlimited",
    )
    max_bytes: Annotated[int, Field(ge=0)] = Field(
        10 * 2**30,
        description="Maximum size of the events in the database; the worker deletes the oldest ones. `0`: unlimited",
    )
    nats_jetstream: bool = Field(
        default=False,
        description="Publish events to a stream of JetStream, which stores them and acknowledges each one. A stream "
        "must exist for the subject LAKEKEEPER__NATS_TOPIC",
    )
    nats_ca_bundle: Path | None = Field(
        None,
        description="PEM file of the certificate authorities of NATS, for private certificates; with it, connections "
        "require TLS",
    )


class ReferencedBySettings(BaseModel):
    """`LAKEKEEPER__REFERENCED_BY__*`: view chains in `referenced-by`."""

    model_config = ConfigDict(extra="forbid")

    max_nesting_depth: Annotated[int, Field(ge=1, le=100)] = Field(
        10, description="Maximum number of views in `referenced-by`; longer chains get 400"
    )


SslMode = Annotated[Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"], ANY_SPELLING]

WRITE_DATABASE = frozenset({"pg_database_url_write", "pg_host_w"})
"""Settings that select PostgreSQL. Without either the embedded SQLite is used."""

OF_POSTGRES = (
    "pg_database_url_read",
    "pg_host_r",
    "pg_port",
    "pg_user",
    "pg_password",
    "pg_database",
    "pg_schema",
    "pg_ssl_mode",
    "pg_ssl_root_cert",
)
"""Settings that apply to PostgreSQL only. Pool sizes and encryption keys are not among them."""


class DatabaseSettings(BaseModel):
    """`LAKEKEEPER__PG_*`: PostgreSQL, instead of the embedded SQLite. A part of `Settings`, not a group."""

    pg_database_url_write: DatabaseUrl | None = Field(
        None,
        description="URL of the PostgreSQL database (version 15 or newer), such as "
        "postgresql://user:password@host:5432/database. Unset, the embedded SQLite is used",
    )
    pg_database_url_direct: DatabaseUrl | None = Field(
        None,
        description="URL for the connection on which a worker waits for wake-ups, past a pooler in transaction mode. "
        "Unset, the one for writes",
    )
    pg_database_url_read: DatabaseUrl | None = Field(
        None,
        description="URL of a separate PostgreSQL database for reads. A replica lags: clients may not see "
        "their latest writes. Unset, reads use the write database",
    )
    pg_host_w: str | None = Field(
        None, description="Database host, with PG_USER, PG_PASSWORD and PG_DATABASE instead of PG_DATABASE_URL_WRITE"
    )
    pg_host_r: str | None = Field(None, description="Database host for reads, instead of PG_DATABASE_URL_READ")
    pg_port: Annotated[int, Field(ge=1, le=65535)] = Field(5432, description="Database port, used with PG_HOST_W")
    pg_user: str | None = Field(None, description="Database user, used with PG_HOST_W")
    pg_password: SecretStr | None = Field(None, description="Database password, used with PG_HOST_W")
    pg_database: str | None = Field(None, description="Database name, used with PG_HOST_W")
    pg_schema: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$")] = Field(
        "public", description="Schema of the tables in the database"
    )
    pg_ssl_mode: SslMode | None = Field(
        None,
        description="TLS mode of database connections (sslmode of libpq); it takes precedence over the one in "
        "a URL. Unset, `prefer`, which does not require TLS: use `verify-full` with a database on "
        "another machine",
    )
    pg_ssl_root_cert: Path | None = Field(
        None, description="PEM file of the certificate authority of the database, for `verify-ca` and `verify-full`"
    )
    pg_read_pool_connections: Annotated[int, Field(ge=1)] = Field(
        10,
        description="Maximum number of database connections of each process for reads; see max_connections of "
        "PostgreSQL",
    )
    pg_write_pool_connections: Annotated[int, Field(ge=1)] = Field(
        5, description="Maximum number of database connections of each process for writes"
    )
    pg_acquire_timeout: Duration = Field(
        5.0, description="Maximum wait for a free database connection of the pool; the request then gets 503"
    )
    pg_connection_max_lifetime: Duration = Field(
        1800.0, description="Lifetime after which a pooled database connection is replaced"
    )
    pg_prepare_statements: bool = Field(
        default=True,
        description="Use prepared statements on the hot paths. Disable it behind a pooler in transaction "
        "mode, such as PgBouncer",
    )

    def check_database(self) -> None:
        """Raise ValueError for settings of PostgreSQL without a write database: SQLite would be used instead."""
        if self.pg_database_url_write is None and self.pg_host_w is None:
            given = [f"LAKEKEEPER__{name.upper()}" for name in OF_POSTGRES if name in self.model_fields_set]
            if given:
                names = " and ".join(given)
                raise ValueError(
                    f"{names} {'is' if len(given) == 1 else 'are'} set without LAKEKEEPER__PG_DATABASE_URL_WRITE or "
                    "LAKEKEEPER__PG_HOST_W: set one of these two to use PostgreSQL, or unset "
                    f"{names} to use the embedded SQLite"
                )
        if self.pg_database_url_read and not self.pg_database_url_write:
            raise ValueError("LAKEKEEPER__PG_DATABASE_URL_READ needs LAKEKEEPER__PG_DATABASE_URL_WRITE")
        if self.pg_host_r and not self.pg_host_w:
            raise ValueError("LAKEKEEPER__PG_HOST_R needs LAKEKEEPER__PG_HOST_W")
        if self.pg_host_w and not self.pg_database:
            raise ValueError("LAKEKEEPER__PG_HOST_W needs LAKEKEEPER__PG_DATABASE")
