"""Groups of settings: the HTTP server, metrics, object stores, caches, idempotency, roles, audit and view chains."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from icekeeper.conf.values import DAY, BoundedDuration, Duration, EndpointList, OptionalPort, Retention, ShortDuration


class ServerSettings(BaseModel):
    """`ICEKEEPER__SERVER__*`: the HTTP server."""

    model_config = ConfigDict(extra="forbid")

    workers: Annotated[int, Field(ge=1, le=256)] = Field(
        default_factory=lambda: os.cpu_count() or 1,
        description="Number of server processes; defaults to the number of cores",
    )
    threads: Annotated[int, Field(ge=1, le=256)] = Field(
        8,
        description="Number of requests that a process handles concurrently; up to 64 further ones can wait "
        "for other requests",
    )
    connections: Annotated[int, Field(ge=1)] = Field(
        1000, description="Maximum number of client connections of each process, including idle ones"
    )
    keepalive: Duration = Field(
        75.0,
        description="Keep-alive timeout of idle connections; longer than the usual 60s of load balancers",
    )
    graceful_timeout: Duration = Field(30.0, description="Timeout for requests in flight when the server stops")
    queue_timeout: Duration = Field(
        5.0, description="Maximum time that a request waits for a free thread; it then gets 503 with Retry-After"
    )
    read_timeout: Duration = Field(
        20.0,
        description="Timeout for receiving the request head, and the period over which `MIN_TRANSFER_RATE` is"
        " measured. Slower clients are disconnected (408 in the middle of a request)",
    )
    min_transfer_rate: Annotated[int, Field(ge=1)] = Field(
        4096,
        description="Minimum rate in bytes per second at which a client sends a request body or reads a "
        "response, averaged over `READ_TIMEOUT`",
    )
    transfer_buffer: Annotated[int, Field(ge=1_048_576)] = Field(
        268_435_456,
        description="Memory in bytes of each process for incoming request bodies and slowly read responses; "
        "when it is exceeded, the slowest client is disconnected. At least twice "
        "`MAX_REQUEST_BODY_SIZE` is used",
    )
    connections_per_address: Annotated[int, Field(ge=1)] | None = Field(
        None,
        description="Maximum number of connections of a client address (IPv6: /64) to each process, further "
        "ones get 503; unset, unlimited. Leave it unset behind a proxy, where all clients share "
        "the address of the proxy",
    )
    slow_connections_per_address: Annotated[int, Field(ge=1)] | None = Field(
        None,
        description="Maximum number of connections of a client address to each process that have been in the "
        "middle of a request or response for more than 2s; the slowest further ones are "
        "disconnected. Unset, half of `CONNECTIONS`",
    )


class MetricsSettings(BaseModel):
    """`LAKEKEEPER__METRICS__*`: metrics for Prometheus."""

    model_config = ConfigDict(extra="forbid")

    port: OptionalPort = Field(
        9000, description="Port of `/metrics`, on the IP address of the main listener; `off` or 0 disables it"
    )


class StorageSettings(BaseModel):
    """`ICEKEEPER__STORAGE__*`: connections to object stores and to the services that issue credentials."""

    model_config = ConfigDict(extra="forbid")

    connect_timeout: ShortDuration = Field(5.0, description="Connect timeout of object stores")
    request_timeout: ShortDuration = Field(30.0, description="Request timeout of object stores")
    retries: Annotated[int, Field(ge=0, le=10)] = Field(
        3, description="Maximum number of retries of a failed object store request, with increasing backoff"
    )
    ca_bundle: Path | None = Field(
        None,
        description="PEM file of the certificate authorities of object stores and of the services that issue "
        "credentials; when objects are written, the system's certificate authorities are trusted "
        "as well",
    )
    azure_endpoint: Annotated[str, Field(pattern="^https?://[^\\s?#]+[^\\s?#/]$")] | None = Field(
        None,
        description="URL of the Azure blob service, for emulators and private networks, such as "
        "`http://127.0.0.1:10000/{account}`",
    )
    gcs_endpoint: Annotated[str, Field(pattern="^https?://[^\\s?#]+[^\\s?#/]$")] | None = Field(
        None,
        description="URL of Google Cloud Storage, for emulators and private networks, such as `http://127.0.0.1:4443`",
    )
    allowed_endpoints: EndpointList | None = Field(
        None,
        description="Allowed endpoints of object stores and credential services: hosts, `*.example.com`, "
        "`https://minio.example.com:9000`; unset, any that is not always forbidden; `[]`, none",
    )
    allow_private_endpoints: bool = Field(
        default=True, description="Allow object stores on private and loopback addresses"
    )
    allow_http_endpoints: bool = Field(default=True, description="Allow http endpoints of object stores")
    sign_writes_with_warehouse_keys: bool = Field(
        default=False,
        description="Sign writes to warehouses without `sts-enabled` even for object stores that do not "
        "enforce signatures, such as MinIO: a user who can write one table can then reach "
        "everything that the keys of the warehouse can reach",
    )


class VendedCacheSettings(BaseModel):
    """`LAKEKEEPER__CACHE__STC__*`: the cache of vended credentials."""

    model_config = ConfigDict(extra="forbid")

    enabled: bool = Field(
        default=True,
        description="Cache vended credentials and return them to other clients of the table while most of "
        "their lifetime remains",
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

    enabled: bool = Field(default=True, description="Support Idempotency-Key, and announce it in /v1/config")
    lifetime: BoundedDuration = Field(1800.0, description="Time for which a request can be retried with its key")
    grace_period: BoundedDuration = Field(300.0, description="Additional retention of idempotency records")


class RoleSettings(BaseModel):
    """`LAKEKEEPER__ROLE__*`: roles."""

    model_config = ConfigDict(extra="forbid")

    max_nesting_depth: Annotated[int, Field(ge=1, le=100)] = Field(
        10, description="Maximum depth of nested roles, counted in memberships of a role in a role"
    )


class TracingSettings(BaseModel):
    """`LAKEKEEPER__AUDIT__TRACING__*`: audit log lines."""

    model_config = ConfigDict(extra="forbid")

    enabled: bool = Field(
        default=True, description="Write a log line for each denial, sign-in and administrative change"
    )


class AuditSettings(BaseModel):
    """`LAKEKEEPER__AUDIT__TRACING__*` and `ICEKEEPER__AUDIT__*`: the audit trail."""

    model_config = ConfigDict(extra="forbid")

    tracing: TracingSettings = Field(default_factory=TracingSettings, description="Audit log lines")
    enabled: bool = Field(default=True, description="Store the audit trail in the database")
    reads: bool = Field(default=False, description="Audit vended credentials and signed requests for table files")
    retention: Retention = Field(
        400 * DAY, description="Retention of audit records; the worker deletes older ones. `0` or `none`: unlimited"
    )
    token_use_interval: ShortDuration = Field(
        3600.0,
        description="Interval over which uses of a token from one address are aggregated; the first use is "
        "recorded at once",
    )


class ReferencedBySettings(BaseModel):
    """`LAKEKEEPER__REFERENCED_BY__*`: view chains in `referenced-by`."""

    model_config = ConfigDict(extra="forbid")

    max_nesting_depth: Annotated[int, Field(ge=1, le=100)] = Field(
        10, description="Maximum number of views in `referenced-by`"
    )
