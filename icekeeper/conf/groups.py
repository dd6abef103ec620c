"""Settings that share a prefix of their own: the HTTP server, metrics, repetition, roles, views, stores, audit."""

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
        default_factory=lambda: os.cpu_count() or 1, description="Server processes; the default is one a core"
    )
    threads: Annotated[int, Field(ge=1, le=256)] = Field(
        8, description="Requests that one process handles at once; up to 64 more may wait for others"
    )
    connections: Annotated[int, Field(ge=1)] = Field(
        1000, description="Open client connections a process, idle ones included"
    )
    keepalive: Duration = Field(
        75.0,
        description="How long an idle connection is kept; longer than a load balancer's 60s",
    )
    graceful_timeout: Duration = Field(30.0, description="How long a stop waits for requests in flight")
    queue_timeout: Duration = Field(
        5.0, description="A request that waited longer than this for a free thread is answered 503 with Retry-After"
    )
    read_timeout: Duration = Field(
        20.0,
        description="How long a client may take for the head of a request; and the period over which "
        "`MIN_TRANSFER_RATE` is measured. A slower client is disconnected (408 in mid-request)",
    )
    min_transfer_rate: Annotated[int, Field(ge=1)] = Field(
        4096,
        description="Bytes a second that a client must send of a request body or read of a response, on average over "
        "`READ_TIMEOUT`",
    )
    transfer_buffer: Annotated[int, Field(ge=1_048_576)] = Field(
        268_435_456,
        description="Bytes that a process holds of request bodies that are arriving and of responses that clients read "
        "slowly; beyond it the slowest is disconnected. Counts as at least twice `MAX_REQUEST_BODY_SIZE`",
    )
    connections_per_address: Annotated[int, Field(ge=1)] | None = Field(
        None,
        description="Open connections of one client address (IPv6: /64) to one process, more are answered 503; unset, "
        "any number. Leave it unset behind a proxy, where all clients share the proxy's address",
    )
    slow_connections_per_address: Annotated[int, Field(ge=1)] | None = Field(
        None,
        description="Connections of one client address to one process that have been in the middle of a request or "
        "response for more than 2s; the slowest beyond it are disconnected. Unset, half of `CONNECTIONS`",
    )


class MetricsSettings(BaseModel):
    """`LAKEKEEPER__METRICS__*`: numbers for Prometheus."""

    model_config = ConfigDict(extra="forbid")

    port: OptionalPort = Field(
        9000, description="Port of `/metrics`, at the address of the main listener; `off` or 0, there are none"
    )


class StorageSettings(BaseModel):
    """`ICEKEEPER__STORAGE__*`: how this server talks to object stores and to the services that issue credentials."""

    model_config = ConfigDict(extra="forbid")

    connect_timeout: ShortDuration = Field(5.0, description="How long a store may take to take a connection")
    request_timeout: ShortDuration = Field(30.0, description="How long a store may take to answer one request")
    retries: Annotated[int, Field(ge=0, le=10)] = Field(
        3, description="How often a request is sent again that a store failed at, with growing pauses"
    )
    ca_bundle: Path | None = Field(
        None,
        description="PEM file of the certificate authorities of object stores and of the services that issue "
        "credentials; for writing objects the machine's own count, too",
    )
    azure_endpoint: Annotated[str, Field(pattern="^https?://[^\\s?#]+[^\\s?#/]$")] | None = Field(
        None,
        description="Address of the blob service of Azure in place of its own, for emulators and private networks, as "
        "`http://127.0.0.1:10000/{account}`",
    )
    gcs_endpoint: Annotated[str, Field(pattern="^https?://[^\\s?#]+[^\\s?#/]$")] | None = Field(
        None,
        description="Address of Google Cloud Storage in place of its own, for emulators and private networks, as "
        "`http://127.0.0.1:4443`",
    )
    allowed_endpoints: EndpointList | None = Field(
        None,
        description="Servers that warehouses may be at and get credentials from: hosts, `*.example.com`, "
        "`https://minio.example.com:9000`; unset, any but those that are never allowed; `[]`, none",
    )
    allow_private_endpoints: bool = Field(
        default=True, description="Warehouses may be at private and loopback addresses"
    )
    allow_http_endpoints: bool = Field(default=True, description="Warehouses may be at http addresses")
    sign_writes_with_warehouse_keys: bool = Field(
        default=False,
        description="Sign writes to warehouses without `sts-enabled` also at stores that do not enforce signatures, "
        "such as MinIO: whoever may write one table then reaches all that the warehouse's own keys reach",
    )


class VendedCacheSettings(BaseModel):
    """`LAKEKEEPER__CACHE__STC__*`: the temporary credentials that clients were given."""

    model_config = ConfigDict(extra="forbid")

    enabled: bool = Field(
        default=True, description="Give a table's clients the same temporary credential while most of its life is left"
    )
    capacity: Annotated[int, Field(ge=1, le=10_000_000)] = Field(
        10_000, description="Temporary credentials that a process remembers, of each of S3, Azure and Google Cloud"
    )


class CacheSettings(BaseModel):
    """`LAKEKEEPER__CACHE__*`: what is remembered in memory."""

    model_config = ConfigDict(extra="forbid")

    stc: VendedCacheSettings = Field(
        default_factory=VendedCacheSettings, description="Temporary credentials of clients"
    )


class IdempotencySettings(BaseModel):
    """`LAKEKEEPER__IDEMPOTENCY__*`: requests that clients send again."""

    model_config = ConfigDict(extra="forbid")

    enabled: bool = Field(default=True, description="Honour Idempotency-Key, and tell clients so in /v1/config")
    lifetime: BoundedDuration = Field(1800.0, description="How long clients may send a request again under its key")
    grace_period: BoundedDuration = Field(300.0, description="How much longer its outcome is kept")


class RoleSettings(BaseModel):
    """`LAKEKEEPER__ROLE__*`: groups of users and of each other."""

    model_config = ConfigDict(extra="forbid")

    max_nesting_depth: Annotated[int, Field(ge=1, le=100)] = Field(
        10, description="Longest chain of roles in roles, in steps from one to the next"
    )


class TracingSettings(BaseModel):
    """`LAKEKEEPER__AUDIT__TRACING__*`: the lines of the log."""

    model_config = ConfigDict(extra="forbid")

    enabled: bool = Field(
        default=True, description="Write a log line for each denial, sign-in, and change of the administration"
    )


class AuditSettings(BaseModel):
    """`LAKEKEEPER__AUDIT__TRACING__*` and `ICEKEEPER__AUDIT__*`: the record of who did what."""

    model_config = ConfigDict(extra="forbid")

    tracing: TracingSettings = Field(default_factory=TracingSettings, description="The lines of the log")
    enabled: bool = Field(default=True, description="Keep the audit trail in the database")
    reads: bool = Field(
        default=False, description="Record who was lent credentials for files of tables, or had requests to them signed"
    )
    retention: Retention = Field(
        400 * DAY, description="How long audit records are kept; deleted by the worker. `0` or `none`: for ever"
    )
    token_use_interval: ShortDuration = Field(
        3600.0,
        description="Uses of a token from one address are summed up for so long; the first one is recorded at once",
    )


class ReferencedBySettings(BaseModel):
    """`LAKEKEEPER__REFERENCED_BY__*`: chains of views that something is read through."""

    model_config = ConfigDict(extra="forbid")

    max_nesting_depth: Annotated[int, Field(ge=1, le=100)] = Field(
        10, description="Most views that a load may name in `referenced-by`"
    )
