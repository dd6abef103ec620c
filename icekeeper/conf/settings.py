"""The typed settings of a deployment, each with its description.

Names, defaults and spellings are those of Lakekeeper (`LAKEKEEPER__*`), so that its deployment files work unchanged;
additional settings are named `ICEKEEPER__*`. `docs/configuration.md` and `show_config` are generated from these
definitions. The object is `django.conf.settings.ICEKEEPER`; no other code reads the environment.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AnyHttpUrl, ConfigDict, Field, SecretStr, model_validator

from icekeeper.conf.authentication import (
    KUBERNETES,
    PRIMARY,
    Address,
    AuthenticationSettings,
    Claim,
    Claims,
    ClaimSettings,
    KubernetesSettings,
    ProviderSettings,
    Template,
    TrustedEngineSettings,
    check_providers,
    check_trusted_engines,
)
from icekeeper.conf.console import ConsoleSettings, UiSettings, check_console_providers
from icekeeper.conf.event_sinks import EventSinkSettings
from icekeeper.conf.external_services import (
    CelerySettings,
    KeyList,
    Kv2Settings,
    OpenFgaConnectionSettings,
    OpenFgaSettings,
    VaultSettings,
    check_openfga,
    check_vault,
)
from icekeeper.conf.groups import (
    AuditSettings,
    CacheSettings,
    DatabaseSettings,
    EventSettings,
    IdempotencySettings,
    MetricsSettings,
    ReferencedBySettings,
    RoleSettings,
    ServerSettings,
    StorageSettings,
)
from icekeeper.conf.values import (
    ANY_SPELLING,
    DAY,
    AuthzBackend,
    BoundedDuration,
    Duration,
    OriginList,
    ShortDuration,
    SigningKey,
    SigningKeyList,
    StringList,
    UserIdList,
    WorkerCount,
)
from icekeeper.conf.variables import variable_name


class Settings(DatabaseSettings, EventSinkSettings):
    """All settings; field names follow the variable names."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    _mask_wrapped: ClassVar[bool] = True
    """Django reads this attribute of every settings value on each access; without it pydantic would search for it."""

    # --- server -------------------------------------------------------------------------------------------------
    base_uri: AnyHttpUrl | None = Field(
        None,
        description="Public URL of this server in links of responses, such as https://catalog.example.com. "
        "Unset, it is derived from the headers of each request. Set it in production",
    )
    use_x_forwarded_headers: bool = Field(
        default=True,
        description="Derive the public URL from x-forwarded-{host,proto,port,prefix} if BASE_URI is unset. "
        "Disable it if clients reach the server without a proxy, because they can forge these "
        "headers",
    )
    listen_port: Annotated[int, Field(ge=1, le=65535)] = Field(8181, description="TCP port of the HTTP server")
    bind_ip: str = Field(
        "0.0.0.0",  # noqa: S104
        description="IP address on which the HTTP server listens. `0.0.0.0` is every IPv4 address, `::` every address",
    )
    metrics: MetricsSettings = Field(default_factory=MetricsSettings, description="Metrics for Prometheus")
    serve_swagger_ui: bool = Field(
        default=True,
        description="Serve the API documentation: /swagger-ui, and the OpenAPI documents under /api-docs",
    )
    allow_origin: OriginList = Field(
        [],
        description="Origins of web pages that may call the APIs from a browser (CORS), such as "
        "https://app.example.com; `*` allows any. Empty, no other origin is allowed",
    )
    max_request_body_size: Annotated[int, Field(ge=1024)] = Field(
        33_554_432,
        description="Maximum size of a request body in bytes; larger requests get 413. Raise it for commits "
        "with very many snapshots",
    )
    max_request_time: Duration = Field(
        30.0,
        description="Timeout of a request, including its database statements; it gets 408 unless its write has started",
    )
    health_check_frequency_seconds: Annotated[int, Field(ge=1)] = Field(
        10,
        description="Minimum interval in seconds between database checks of /health and /health/ready; probes "
        "in between get the last result",
    )
    endpoint_stat_flush_interval: BoundedDuration = Field(
        30.0,
        description="Interval at which a server process writes its endpoint statistics to the database; a "
        "killed process loses those of one interval",
    )
    pagination_size_default: Annotated[int, Field(ge=1)] = Field(
        100, description="Page size of listings when a client sends an empty pageToken without a size"
    )
    pagination_size_max: Annotated[int, Field(ge=1)] = Field(
        1000, description="Maximum page size of listings; larger sizes in requests are reduced to it"
    )
    enable_default_project: bool = Field(
        default=True,
        description="Use the default project for requests without x-project-id. Disabled, such requests get 400",
    )
    default_project_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,128}$")] = Field(
        "00000000-0000-0000-0000-000000000000",
        description="Id of the default project, which bootstrap creates. Choose it before bootstrap",
    )
    reserved_namespaces: StringList = Field(
        [],
        description="First-level namespace names that cannot be created, in addition to system, examples and "
        "information_schema",
    )
    maintenance_mode: Annotated[Literal["off", "read-only"], ANY_SPELLING] = Field(
        "off",
        description="With `read-only`, requests that change something get 503, and background workers do not "
        "run; for upgrades and backups",
    )
    authz_backend: AuthzBackend | None = Field(
        None,
        description="Authorization backend: `builtin` (grants in the database), `openfga` (an OpenFGA "
        "server), `allowall` (every request is allowed), or the dotted path of a custom class. "
        "Unset, it is `builtin` with authentication and `allowall` without",
    )
    contract_verifiers: StringList = Field(
        [],
        description="Dotted paths of own classes that approve or reject changes, in addition to the rules of the "
        "management API: subclasses of catalog.services.approval.port.ContractVerifier",
    )
    openfga: OpenFgaSettings = Field(default_factory=OpenFgaSettings, description="OpenFGA")
    instance_admins: UserIdList = Field(
        [],
        description="User ids with every administrative permission, independent of grants, such as "
        "[oidc~alice]; they have no permission to read data or to grant. Only they can change "
        "managed warehouses",
    )

    trusted_engines: dict[str, TrustedEngineSettings] = Field(
        {}, description="Engines that are trusted to report view owners"
    )
    referenced_by: ReferencedBySettings = Field(
        default_factory=ReferencedBySettings, description="View chains in `referenced-by`"
    )

    # --- authentication -----------------------------------------------------------------------------------------
    openid_provider_uri: Address | None = Field(
        None,
        description="URL of the OpenID Connect provider, which serves /.well-known/openid-configuration. "
        "Enables authentication; users are `oidc~<subject>`",
    )
    openid_audience: StringList = Field(
        [],
        description="Accepted audiences of tokens; other tokens get 401. Unset, tokens that the provider "
        "issued for any application are accepted: set it in production",
    )
    openid_additional_issuers: StringList = Field(
        [], description="Accepted issuers (`iss`) in addition to the one in the provider's configuration"
    )
    openid_scope: Claim | None = Field(
        None, description="Scope that tokens must have; others get 403. Unset, no scope is required"
    )
    openid_subject_claim: Claims = Field(
        ["oid", "sub"],
        description="Claims that identify the user; the first one that a token has is used. Do not change it "
        "later: users would get new ids",
    )
    openid_roles_claim: Claim | None = Field(
        None,
        description="Claim with the names of the user's roles, a list or a single name; a dotted path such as "
        "`realm_access.roles`. Unset, tokens have no roles",
    )
    openid_display_name_template: Template | None = Field(
        None,
        description="Display name of users whose token has no name, built from claims, such as `{given} {ext.team}`",
    )
    openid_providers: dict[str, ProviderSettings] = Field({}, description="Additional identity providers")
    enable_kubernetes_authentication: bool = Field(
        default=False, description="Accept tokens of Kubernetes service accounts. Enables authentication"
    )
    kubernetes_authentication_audience: StringList = Field(
        [],
        description="Accepted audiences of Kubernetes tokens, usually `https://kubernetes.default.svc`. "
        "Unset, tokens for any audience are accepted: set it in production",
    )
    kubernetes_authentication_accept_legacy_serviceaccount: bool = Field(
        default=False,
        description="Accept legacy service account tokens, which are stored in Secrets, have no audience and "
        "do not expire",
    )
    kubernetes_authentication_subject_source: Annotated[Literal["uid", "username"], ANY_SPELLING] = Field(
        "uid",
        description="Subject in the user id of a service account: its `uid`, which changes when it is created "
        "again, or its `username`",
    )
    ui: UiSettings = Field(default_factory=UiSettings, description="Sign-in to the console")
    console: ConsoleSettings = Field(default_factory=ConsoleSettings, description="The console under /ui")
    idempotency: IdempotencySettings = Field(default_factory=IdempotencySettings, description="Idempotency of requests")
    role: RoleSettings = Field(default_factory=RoleSettings, description="Roles")
    audit: AuditSettings = Field(default_factory=AuditSettings, description="Audit trail")
    events: EventSettings = Field(default_factory=EventSettings, description="Events of changes")
    celery: CelerySettings = Field(default_factory=CelerySettings, description="Celery")
    task_poll_interval: Duration = Field(
        10.0,
        description="Interval at which an idle worker polls for tasks; a shorter one costs database statements",
    )
    task_soft_deletion_workers: WorkerCount = Field(
        2, description="Threads of a worker that expire soft-deleted tables; 0 leaves them to other workers"
    )
    task_tabular_purge_workers: WorkerCount = Field(
        2, description="Threads of a worker that delete the files of dropped tables; 0 leaves them to other workers"
    )
    task_log_cleanup_workers: WorkerCount = Field(
        2, description="Threads of a worker that delete tasks that ended long ago; 0 leaves them to other workers"
    )
    task_statistics_workers: WorkerCount = Field(
        1, description="Threads of a worker that record statistics of warehouses; 0 leaves them to other workers"
    )
    task_file_statistics_workers: WorkerCount = Field(
        1,
        description="Threads of a worker that read the manifests of tables for the tab Files of the console; 0 leaves "
        "them to other workers",
    )

    # --- credentials of warehouses ------------------------------------------------------------------------------
    pg_encryption_key: Annotated[SecretStr, Field(min_length=1)] | None = Field(
        None,
        description="Encryption key of stored warehouse credentials: a long random text, the same on every "
        "server, and needed to restore a backup. Required to store credentials in PostgreSQL; "
        "with SQLite it defaults to the signing key",
    )
    pg_encryption_old_keys: KeyList = Field(
        [],
        description="Previous values of PG_ENCRYPTION_KEY, which only decrypt; remove them after `manage.py "
        "rotate_encryption_key`",
    )
    secret_backend: Annotated[Literal["postgres", "kv2"], ANY_SPELLING] = Field(
        "postgres",
        description="Where warehouse credentials are stored: `postgres` (encrypted in the database, also in "
        "SQLite), or `kv2` (Vault)",
    )
    kv2: Kv2Settings = Field(default_factory=Kv2Settings, description="Vault")
    enable_aws_system_credentials: bool = Field(
        default=False,
        description="Allow warehouses to use the AWS identity of this server (environment, profile or "
        "instance role) instead of own keys",
    )
    enable_azure_system_credentials: bool = Field(
        default=False,
        description="Allow warehouses to use the Azure identity of this server (managed or workload identity) "
        "instead of own credentials",
    )
    enable_gcp_system_credentials: bool = Field(
        default=False,
        description="Allow warehouses to use the Google Cloud identity of this server instead of own service "
        "account keys",
    )
    s3_enable_direct_system_credentials: bool = Field(
        default=False,
        description="Allow warehouses to use the AWS identity of this server directly, without an "
        "assume-role-arn; every such warehouse then reaches all buckets of this identity",
    )
    skip_storage_validation: bool = Field(
        default=False,
        description="Save storage profiles and credentials without validating access to the object store",
    )
    s3_require_external_id_for_system_credentials: bool = Field(
        default=True,
        description="Require an external-id in warehouses that use the AWS identity of this server with an "
        "assume-role-arn",
    )

    cache: CacheSettings = Field(default_factory=CacheSettings, description="In-memory caches")

    # --- own ----------------------------------------------------------------------------------------------------
    data_dir: Path = Field(
        Path(".icekeeper"),
        description="Folder of the embedded SQLite database and its signing key. Not used with PostgreSQL",
    )
    secret_key: SigningKey | None = Field(
        None,
        description="Key that signs short-lived tokens (/catalog/v1/oauth/tokens) and encrypts page tokens: "
        "32 or more random characters, the same on every server. Unset, a generated key is "
        "stored: in PostgreSQL, combined with PG_ENCRYPTION_KEY, or in DATA_DIR with SQLite. Set "
        "it to replace the generated key",
    )
    secret_key_fallbacks: SigningKeyList = Field(
        [], description="Previous values of SECRET_KEY; tokens that were signed with them stay valid until they expire"
    )
    local_storage_root: Path | None = Field(
        None,
        description="Folder that contains all local-file warehouses, the same on every server. Unset, "
        "warehouses on local files are not allowed",
    )
    log_level: Annotated[Literal["debug", "info", "warning", "error"], ANY_SPELLING] = Field(
        "info", description="Minimum level of log lines; `warning` omits the access log"
    )
    metadata_inline_limit: Annotated[int, Field(ge=0)] = Field(
        4_194_304,
        description="Maximum size in bytes of table metadata that is stored in the database for fast loads; "
        "larger metadata is read from the object store",
    )
    metadata_file_limit: Annotated[int, Field(ge=1024)] = Field(
        67_108_864, description="Maximum size in bytes of a metadata file; larger files cannot be registered or loaded"
    )
    metadata_cache_bytes: Annotated[int, Field(ge=0)] = Field(
        67_108_864, description="Memory in bytes of each process for cached table metadata; 0 disables the cache"
    )
    metrics_report_retention: BoundedDuration = Field(
        7 * DAY,
        description="Retention of the complete metrics reports that engines send; the worker or `manage.py "
        "prune_metrics` deletes older ones",
    )
    metrics_reports_per_day: Annotated[int, Field(ge=0)] = Field(
        1000,
        description="Maximum number of complete metrics reports that are stored for a table on one UTC day; "
        "further ones only count in the daily sums",
    )
    metrics_day_retention: BoundedDuration = Field(
        400 * DAY,
        description="Retention of the daily sums of metrics reports; the worker or `manage.py prune_metrics` "
        "deletes older ones",
    )
    endpoint_stat_retention: BoundedDuration = Field(
        400 * DAY,
        description="Retention of endpoint and warehouse statistics; the worker or `manage.py prune_metrics` "
        "deletes older ones",
    )
    access_tokens: bool | None = Field(
        None,
        description="Access tokens that this server issues to users and service accounts. `true` accepts them "
        "and enables authentication even without an identity provider, `false` rejects them. "
        "Unset, they are accepted if an identity provider enables authentication",
    )
    access_token_default_lifetime: BoundedDuration = Field(
        90 * DAY,
        description="Lifetime of access tokens that are created without an expiry, limited by "
        "ACCESS_TOKEN_MAX_LIFETIME",
    )
    access_token_max_lifetime: BoundedDuration = Field(
        365 * DAY, description="Maximum lifetime of access tokens when they are created"
    )
    oauth_token_lifetime: ShortDuration = Field(
        3600.0,
        description="Lifetime of the short-lived tokens of /catalog/v1/oauth/tokens, at most one day",
    )
    oauth_session_lifetime: BoundedDuration = Field(
        DAY / 2,
        description="Time for which a client can refresh such a token; after it, the client must send its secret again",
    )
    server: ServerSettings = Field(default_factory=ServerSettings, description="The HTTP server")
    storage: StorageSettings = Field(default_factory=StorageSettings, description="Object stores")
    authentication: AuthenticationSettings = Field(
        default_factory=AuthenticationSettings, description="Settings of every identity provider"
    )
    openid_claims: dict[str, ClaimSettings] = Field({}, description="Name and email claims of an identity provider")
    kubernetes: KubernetesSettings = Field(default_factory=KubernetesSettings, description="The Kubernetes API")
    vault: VaultSettings = Field(default_factory=VaultSettings, description="Authentication to Vault")

    openfga_connection: OpenFgaConnectionSettings = Field(
        default_factory=OpenFgaConnectionSettings, description="Connection to OpenFGA"
    )

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.pagination_size_default > self.pagination_size_max:
            raise ValueError(
                "LAKEKEEPER__PAGINATION_SIZE_DEFAULT must not be larger than LAKEKEEPER__PAGINATION_SIZE_MAX"
            )
        self.check_database()
        self.check_event_sinks(self.events)
        for name in ("audience", "additional_issuers", "scope", "roles_claim", "display_name_template"):
            if getattr(self, f"openid_{name}") and not self.openid_provider_uri:
                variable = f"LAKEKEEPER__OPENID_{name.upper()}"
                raise ValueError(
                    f"{variable} is set without LAKEKEEPER__OPENID_PROVIDER_URI: set LAKEKEEPER__OPENID_PROVIDER_URI, "
                    f"or unset {variable}"
                )
        if self.pg_encryption_old_keys and self.pg_encryption_key is None:
            raise ValueError("ICEKEEPER__PG_ENCRYPTION_OLD_KEYS needs LAKEKEEPER__PG_ENCRYPTION_KEY")
        if self.secret_backend == "kv2" or self.kv2.url is not None:  # noqa: S105 - the name of one
            check_vault(self.kv2, self.vault)
        is_chosen = "secret_backend" in self.model_fields_set or self.pg_encryption_key is not None
        if self.kv2.url is not None and not is_chosen:
            raise ValueError(
                "LAKEKEEPER__KV2__URL is set without LAKEKEEPER__SECRET_BACKEND: set LAKEKEEPER__SECRET_BACKEND=kv2 to "
                "keep credentials of warehouses in Vault, or LAKEKEEPER__PG_ENCRYPTION_KEY to keep them in the database"
            )
        check_openfga(self.openfga, is_chosen=self.authz_backend == "openfga")
        check_providers(self.openid_providers, self.openid_claims, has_primary=self.openid_provider_uri is not None)
        kubernetes = [KUBERNETES] if self.enable_kubernetes_authentication else []
        check_trusted_engines(self.trusted_engines, [*self.identity_providers, *kubernetes])
        check_console_providers(self.console.providers, self.identity_providers)
        return self

    @property
    def has_authentication(self) -> bool:
        """Whether authentication is enabled."""
        return bool(self.identity_providers) or self.enable_kubernetes_authentication or bool(self.access_tokens)

    @property
    def effective_authz_backend(self) -> str:
        """The authorization backend, with its default applied."""
        if self.authz_backend is not None:
            return self.authz_backend
        return "builtin" if self.has_authentication else "allowall"

    @property
    def missing_audiences(self) -> list[str]:
        """The variables of unset audiences: tokens of these providers are accepted for any audience."""
        missing = []
        for provider_id, provider in self.identity_providers.items():
            if not provider.audience:
                is_primary = provider_id == PRIMARY
                path = ("openid_audience",) if is_primary else ("openid_providers", provider_id, "audience")
                missing.append(variable_name(path))
        if self.enable_kubernetes_authentication and not self.kubernetes_authentication_audience:
            missing.append(variable_name(("kubernetes_authentication_audience",)))
        return missing

    @property
    def identity_providers(self) -> dict[str, ProviderSettings]:
        """Identity providers by id, in the order in which they are tried: that of `OPENID_PROVIDER_URI` first."""
        others = dict(sorted(self.openid_providers.items()))
        if self.openid_provider_uri is None:
            return others
        primary = ProviderSettings(
            uri=self.openid_provider_uri,
            audience=self.openid_audience,
            additional_issuers=self.openid_additional_issuers,
            scope=self.openid_scope,
            subject_claims=self.openid_subject_claim,
            roles_claim=self.openid_roles_claim,
            display_name_template=self.openid_display_name_template,
        )
        return {PRIMARY: primary, **others}
