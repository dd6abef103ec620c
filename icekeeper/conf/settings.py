"""The settings of a deployment: read once from the environment, typed, each with its own description.

Names, defaults and spellings are those of the system that Icekeeper replaces (`LAKEKEEPER__*`), so that its deployment
files work unchanged; what only this server has is named `ICEKEEPER__*`. `docs/configuration.md` and `show_config` are
made from these definitions. The object is `django.conf.settings.ICEKEEPER`; nobody else reads the environment.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AnyHttpUrl, BaseModel, ConfigDict, Field, SecretStr, model_validator

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
from icekeeper.conf.groups import (
    AuditSettings,
    CacheSettings,
    IdempotencySettings,
    MetricsSettings,
    ReferencedBySettings,
    RoleSettings,
    ServerSettings,
    StorageSettings,
)
from icekeeper.conf.openfga import OpenFgaConnectionSettings, OpenFgaSettings, check_openfga
from icekeeper.conf.values import (
    ANY_SPELLING,
    DAY,
    AuthzBackend,
    BoundedDuration,
    DatabaseUrl,
    Duration,
    OriginList,
    ShortDuration,
    SigningKey,
    SigningKeyList,
    StringList,
    UserIdList,
)
from icekeeper.conf.vault import KeyList, Kv2Settings, VaultSettings, check_vault

SslMode = Annotated[Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"], ANY_SPELLING]

PEER, OWN = "LAKEKEEPER__", "ICEKEEPER__"

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
"""Settings that mean a PostgreSQL, and have no effect on SQLite. Pool sizes and encryption keys are not among them."""


class Settings(BaseModel):
    """Every setting that something reads; field names follow the variable names."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    _mask_wrapped: ClassVar[bool] = True
    """Django asks it of each value that its settings hold, at each use; pydantic would search for it in vain."""

    # --- server -------------------------------------------------------------------------------------------------
    base_uri: AnyHttpUrl | None = Field(
        None, description="External address of this server; found from the request when unset"
    )
    use_x_forwarded_headers: bool = Field(
        default=True, description="Find the external address from x-forwarded-{host,proto,port,prefix}"
    )
    listen_port: Annotated[int, Field(ge=1, le=65535)] = Field(8181, description="Port of the main listener")
    bind_ip: str = Field("0.0.0.0", description="Address of the main listener")  # noqa: S104
    metrics: MetricsSettings = Field(default_factory=MetricsSettings, description="Numbers for Prometheus")
    serve_swagger_ui: bool = Field(
        default=True,
        description="Serve /swagger-ui (/ and /ui lead there) and the OpenAPI documents under /api-docs",
    )
    allow_origin: OriginList = Field(
        [], description="Origins that browsers may call from (CORS), a comma list; * for any"
    )
    max_request_body_size: Annotated[int, Field(ge=1024)] = Field(
        33_554_432, description="Largest request body in bytes; more is 413"
    )
    max_request_time: Duration = Field(
        30.0, description="A request that takes longer is answered 408, unless its write has started"
    )
    health_check_frequency_seconds: Annotated[int, Field(ge=1)] = Field(
        10, description="/health and /health/ready ask the database at most this often"
    )
    endpoint_stat_flush_interval: BoundedDuration = Field(
        30.0, description="How often a server process writes its endpoint statistics to the database"
    )
    pagination_size_default: Annotated[int, Field(ge=1)] = Field(
        100, description="Page size when a client sends an empty pageToken"
    )
    pagination_size_max: Annotated[int, Field(ge=1)] = Field(1000, description="Largest page a client can ask for")
    enable_default_project: bool = Field(
        default=True, description="Requests without x-project-id go to the default project"
    )
    default_project_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,128}$")] = Field(
        "00000000-0000-0000-0000-000000000000", description="Id of the default project"
    )
    reserved_namespaces: StringList = Field(
        [],
        description="First-level namespace names nobody may create, beside system, examples, information_schema",
    )
    maintenance_mode: Annotated[Literal["off", "read-only"], ANY_SPELLING] = Field(
        "off", description="With read-only the APIs answer 503 to requests that change something, and no worker runs"
    )
    authz_backend: AuthzBackend | None = Field(
        None,
        description="What checks permissions: `allowall` (everything is allowed), `builtin` (grants in the database), "
        "`openfga` (an OpenFGA server), or the dotted path of a class of your own; unset, `builtin` where "
        "authentication is on, else `allowall`",
    )
    openfga: OpenFgaSettings = Field(default_factory=OpenFgaSettings, description="OpenFGA")
    instance_admins: UserIdList = Field(
        [],
        description="Ids of the users, such as [oidc~alice], who may administrate everything whatever is granted, but "
        "neither read data nor grant; they alone may change managed warehouses",
    )

    trusted_engines: dict[str, TrustedEngineSettings] = Field(
        {}, description="Engines whose word on the owners of views counts"
    )
    referenced_by: ReferencedBySettings = Field(
        default_factory=ReferencedBySettings, description="Chains of views that something is read through"
    )

    # --- authentication -----------------------------------------------------------------------------------------
    openid_provider_uri: Address | None = Field(
        None, description="Identity provider; its /.well-known/openid-configuration is read. Turns authentication on"
    )
    openid_audience: StringList = Field(
        [], description="Audiences, one of which a token must be for; unset, it may be for anybody"
    )
    openid_additional_issuers: StringList = Field(
        [], description="Issuers that are accepted beside the one that the provider names"
    )
    openid_scope: Claim | None = Field(None, description="Scope that a token must have")
    openid_subject_claim: Claims = Field(
        ["oid", "sub"], description="Claims that hold who the user is; the first that a token has counts"
    )
    openid_roles_claim: Claim | None = Field(
        None, description="Claim (dotted path) that holds the names of the user's roles, a list or one"
    )
    openid_display_name_template: Template | None = Field(
        None, description="Name of users whose token has none, such as `{given} {ext.team}`"
    )
    openid_providers: dict[str, ProviderSettings] = Field({}, description="Further identity providers")
    enable_kubernetes_authentication: bool = Field(
        default=False, description="Accept tokens of Kubernetes service accounts. Turns authentication on"
    )
    kubernetes_authentication_audience: StringList = Field(
        [], description="Audiences of such tokens, `https://kubernetes.default.svc` for most; unset, any"
    )
    kubernetes_authentication_accept_legacy_serviceaccount: bool = Field(
        default=False, description="Accept the old tokens that have no audience and never expire"
    )
    kubernetes_authentication_subject_source: Annotated[Literal["uid", "username"], ANY_SPELLING] = Field(
        "uid",
        description="Subject of a service account: its uid, a new one whenever it is created, or its username",
    )

    idempotency: IdempotencySettings = Field(
        default_factory=IdempotencySettings, description="Requests that clients send again"
    )

    role: RoleSettings = Field(default_factory=RoleSettings, description="Groups of users and of each other")

    audit: AuditSettings = Field(default_factory=AuditSettings, description="Who did what")

    task_poll_interval: Duration = Field(10.0, description="How often a worker that has nothing to do looks for work")

    # --- credentials of warehouses ------------------------------------------------------------------------------
    pg_encryption_key: Annotated[SecretStr, Field(min_length=1)] | None = Field(
        None,
        description="Any long random text, the same on every server: credentials of warehouses are stored encrypted "
        "with it. PostgreSQL keeps none without it; beside SQLite the signing key serves",
    )
    pg_encryption_old_keys: KeyList = Field(
        [], description="Former values of that, a list: what is encrypted with one of them can still be read"
    )
    secret_backend: Annotated[Literal["postgres", "kv2"], ANY_SPELLING] = Field(
        "postgres", description="Where credentials of warehouses are stored: the database (also SQLite), or Vault"
    )
    kv2: Kv2Settings = Field(default_factory=Kv2Settings, description="Vault")
    enable_aws_system_credentials: bool = Field(
        default=False, description="Warehouses may use this server's own AWS identity"
    )
    enable_azure_system_credentials: bool = Field(
        default=False, description="Warehouses may use this server's own Azure identity"
    )
    enable_gcp_system_credentials: bool = Field(
        default=False, description="Warehouses may use this server's own Google Cloud identity"
    )
    s3_enable_direct_system_credentials: bool = Field(
        default=False, description="Warehouses may use the AWS identity without assume-role-arn"
    )
    skip_storage_validation: bool = Field(
        default=False,
        description="Take over storage profiles and credentials without trying them out on the store",
    )
    s3_require_external_id_for_system_credentials: bool = Field(
        default=True, description="Warehouses that use the AWS identity must have an external-id"
    )

    cache: CacheSettings = Field(default_factory=CacheSettings, description="What is remembered in memory")

    # --- database -----------------------------------------------------------------------------------------------
    pg_database_url_write: DatabaseUrl | None = Field(
        None, description="PostgreSQL (15 or newer) for everything; without it the embedded SQLite is used"
    )
    pg_database_url_read: DatabaseUrl | None = Field(
        None, description="PostgreSQL for reads, when it is another one (a replica lags: no read-after-write there)"
    )
    pg_host_w: str | None = Field(None, description="Host for everything, instead of the URL")
    pg_host_r: str | None = Field(None, description="Host for reads, instead of the URL")
    pg_port: Annotated[int, Field(ge=1, le=65535)] = Field(5432, description="Port, beside PG_HOST_W")
    pg_user: str | None = Field(None, description="User, beside PG_HOST_W")
    pg_password: SecretStr | None = Field(None, description="Password, beside PG_HOST_W")
    pg_database: str | None = Field(None, description="Database, beside PG_HOST_W")
    pg_schema: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$")] = Field(
        "public", description="Schema that holds the tables"
    )
    pg_ssl_mode: SslMode | None = Field(None, description="TLS to the database, as libpq's sslmode")
    pg_ssl_root_cert: Path | None = Field(
        None, description="CA file that the database's certificate is checked against"
    )
    pg_read_pool_connections: Annotated[int, Field(ge=1)] = Field(
        10, description="Most connections of a process for reads"
    )
    pg_write_pool_connections: Annotated[int, Field(ge=1)] = Field(
        5, description="Most connections of a process for writes"
    )
    pg_acquire_timeout: Duration = Field(
        5.0, description="How long a request waits for a connection before it is answered 503"
    )
    pg_connection_max_lifetime: Duration = Field(1800.0, description="A pooled connection is replaced after this long")

    # --- own ----------------------------------------------------------------------------------------------------
    data_dir: Path = Field(
        Path(".icekeeper"), description="Folder of the embedded SQLite and its signing key; PostgreSQL needs none"
    )
    secret_key: SigningKey | None = Field(
        None,
        description="Signing key of tokens, 32 or more random characters, the same on every server; unset, PostgreSQL "
        "keeps one for all servers, which PG_ENCRYPTION_KEY goes into, and beside SQLite the data folder does",
    )
    secret_key_fallbacks: SigningKeyList = Field(
        [], description="Former values of that, a list: tokens that were made with one of them are still good"
    )
    local_storage_root: Path | None = Field(
        None, description="Folder that local-file warehouses must lie in; unset, there are none"
    )
    log_level: Annotated[Literal["debug", "info", "warning", "error"], ANY_SPELLING] = Field(
        "info", description="Least severe log line that is written"
    )
    pg_prepare_statements: bool = Field(
        default=True, description="Prepare hot statements; off behind transaction poolers (PgBouncer)"
    )
    metadata_inline_limit: Annotated[int, Field(ge=0)] = Field(
        4_194_304, description="Metadata of tables larger than this many bytes stays in the object store only"
    )
    metadata_file_limit: Annotated[int, Field(ge=1024)] = Field(
        67_108_864, description="Largest metadata file in bytes that register or load reads"
    )
    metadata_cache_bytes: Annotated[int, Field(ge=0)] = Field(
        67_108_864, description="Memory a process spends on table metadata it has served"
    )
    metrics_report_retention: BoundedDuration = Field(
        7 * DAY,
        description="How long metrics reports of engines are kept whole; deleted by the worker or prune_metrics",
    )
    metrics_reports_per_day: Annotated[int, Field(ge=0)] = Field(
        1000, description="Metrics reports of a table that are kept whole on one UTC day; more are only counted"
    )
    metrics_day_retention: BoundedDuration = Field(
        400 * DAY,
        description="How long the daily sums of metrics reports are kept; deleted by the worker or prune_metrics",
    )
    endpoint_stat_retention: BoundedDuration = Field(
        400 * DAY,
        description="How long endpoint and warehouse statistics are kept; deleted by the worker or prune_metrics",
    )
    access_tokens: bool | None = Field(
        None,
        description="Take the tokens that this server issues; `true` turns authentication on by these alone, unset "
        "they are taken where another provider turned it on",
    )
    access_token_default_lifetime: BoundedDuration = Field(
        90 * DAY, description="How long a token lives that was made without saying so; never longer than the longest"
    )
    access_token_max_lifetime: BoundedDuration = Field(365 * DAY, description="Longest life of a token")
    oauth_token_lifetime: ShortDuration = Field(
        3600.0, description="How long a token works that /catalog/v1/oauth/tokens gives out; at most a day"
    )
    oauth_session_lifetime: BoundedDuration = Field(
        DAY / 2, description="How long such a token is renewed before the client has to show its secret again"
    )
    server: ServerSettings = Field(default_factory=ServerSettings, description="The HTTP server")
    storage: StorageSettings = Field(default_factory=StorageSettings, description="Object stores")
    authentication: AuthenticationSettings = Field(
        default_factory=AuthenticationSettings, description="What holds for every identity provider"
    )
    openid_claims: dict[str, ClaimSettings] = Field({}, description="Where a provider's tokens hold names")
    kubernetes: KubernetesSettings = Field(default_factory=KubernetesSettings, description="The Kubernetes API")
    vault: VaultSettings = Field(default_factory=VaultSettings, description="How this server signs in to Vault")

    openfga_connection: OpenFgaConnectionSettings = Field(
        default_factory=OpenFgaConnectionSettings, description="How this server talks to OpenFGA"
    )

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.pagination_size_default > self.pagination_size_max:
            raise ValueError(
                "LAKEKEEPER__PAGINATION_SIZE_DEFAULT must not be larger than LAKEKEEPER__PAGINATION_SIZE_MAX"
            )
        self._check_database()
        for name in ("audience", "additional_issuers", "scope", "roles_claim", "display_name_template"):
            if getattr(self, f"openid_{name}") and not self.openid_provider_uri:
                variable = f"LAKEKEEPER__OPENID_{name.upper()}"
                raise ValueError(
                    f"{variable} is set without LAKEKEEPER__OPENID_PROVIDER_URI: set LAKEKEEPER__OPENID_PROVIDER_URI, "
                    f"or unset {variable}"
                )
        if self.pg_encryption_old_keys and self.pg_encryption_key is None:
            raise ValueError("ICEKEEPER__PG_ENCRYPTION_OLD_KEYS needs LAKEKEEPER__PG_ENCRYPTION_KEY beside it")
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
        return self

    def _check_database(self) -> None:
        """Raise ValueError for settings of PostgreSQL that do not say where to write: SQLite would take their place."""
        if self.pg_database_url_write is None and self.pg_host_w is None:
            given = [variable_name((name,)) for name in OF_POSTGRES if name in self.model_fields_set]
            if given:
                names = " and ".join(given)
                raise ValueError(
                    f"{names} {'is' if len(given) == 1 else 'are'} set without LAKEKEEPER__PG_DATABASE_URL_WRITE or "
                    "LAKEKEEPER__PG_HOST_W: set one of these two to use PostgreSQL, or unset "
                    f"{names} to use the embedded SQLite"
                )
        if self.pg_database_url_read and not self.pg_database_url_write:
            raise ValueError("LAKEKEEPER__PG_DATABASE_URL_READ needs LAKEKEEPER__PG_DATABASE_URL_WRITE beside it")
        if self.pg_host_r and not self.pg_host_w:
            raise ValueError("LAKEKEEPER__PG_HOST_R needs LAKEKEEPER__PG_HOST_W beside it")
        if self.pg_host_w and not self.pg_database:
            raise ValueError("LAKEKEEPER__PG_HOST_W needs LAKEKEEPER__PG_DATABASE beside it")

    @property
    def has_authentication(self) -> bool:
        """Whether people are told apart."""
        return bool(self.identity_providers) or self.enable_kubernetes_authentication or bool(self.access_tokens)

    @property
    def effective_authz_backend(self) -> str:
        """Who decides about rights."""
        if self.authz_backend is not None:
            return self.authz_backend
        return "builtin" if self.has_authentication else "allowall"

    @property
    def missing_audiences(self) -> list[str]:
        """The variable of each audience that is not set, so that tokens of its provider are accepted for any."""
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
        """By their ids, in the order in which they are asked: that of `OPENID_PROVIDER_URI` first."""
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


OWN_FIELDS = frozenset(
    {
        "data_dir",
        "secret_key",
        "secret_key_fallbacks",
        "local_storage_root",
        "log_level",
        "pg_encryption_old_keys",
        "pg_prepare_statements",
        "metadata_inline_limit",
        "metadata_file_limit",
        "metadata_cache_bytes",
        "metrics_report_retention",
        "metrics_reports_per_day",
        "metrics_day_retention",
        "endpoint_stat_retention",
        "access_tokens",
        "access_token_default_lifetime",
        "access_token_max_lifetime",
        "oauth_token_lifetime",
        "oauth_session_lifetime",
        "server",
        "storage",
        "authentication",
        "openid_claims",
        "kubernetes",
        "vault",
        "openfga_connection",
    }
)
"""Fields whose variables begin with `ICEKEEPER__`; all others begin with `LAKEKEEPER__`."""

OWN_MEMBERS = frozenset(("audit", name) for name in AuditSettings.model_fields if name != "tracing")
"""Members of groups that the peer has, too, which are our own all the same."""


def variable_name(path: tuple[str, ...]) -> str:
    """The variable that sets the field at `path`, such as ("server", "threads") -> ICEKEEPER__SERVER__THREADS."""
    return (OWN if is_own(path) else PEER) + "__".join(path).upper()


def is_own(path: Sequence[str]) -> bool:
    return path[0] in OWN_FIELDS or tuple(path[:2]) in OWN_MEMBERS
