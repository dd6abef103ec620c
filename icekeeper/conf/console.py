"""Settings of the console: its sessions, its ways to sign in, and its clients at the identity providers."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, AnyHttpUrl, BaseModel, ConfigDict, Field, SecretStr

from icekeeper.conf.authentication import PRIMARY, Address
from icekeeper.conf.values import ANY_SPELLING, BoundedDuration

DEFAULT_CLIENT_ID = "lakekeeper"
DEFAULT_SCOPE = "openid profile email"

_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)+")
_OWN_PATHS = re.compile(r"/(sign-in|sign-out)(/|$)")


def _page_path(value: str) -> str:
    if not _PATH.fullmatch(value) or _OWN_PATHS.match(value):
        raise ValueError("a path below /ui such as /callback, and none of /sign-in and /sign-out")
    return value


def _with_openid(value: str) -> str:
    """Add the scope `openid`, without which providers send no ID token."""
    scopes = value.split()
    return " ".join(scopes if "openid" in scopes else ["openid", *scopes])


PagePath = Annotated[str, AfterValidator(_page_path)]
Scopes = Annotated[str, Field(max_length=1024), AfterValidator(_with_openid)]
ClientId = Annotated[str, Field(min_length=1, max_length=255)]


class UiSettings(BaseModel):
    """`LAKEKEEPER__UI__*`: sign-in to the console by the provider of `LAKEKEEPER__OPENID_PROVIDER_URI`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    openid_provider_uri: Address | None = Field(
        None,
        description="URL of the identity provider for browsers, if it differs from LAKEKEEPER__OPENID_PROVIDER_URI, "
        "which this server uses",
    )
    openid_client_id: ClientId = Field(DEFAULT_CLIENT_ID, description="Client id of the console at the provider")
    openid_scope: Scopes = Field(DEFAULT_SCOPE, description="Scopes that the console requests, separated by spaces")
    openid_resource: str | None = Field(
        None, description="Resource for which the console requests tokens (RFC 8707), if the provider needs one"
    )
    openid_redirect_path: PagePath = Field(
        "/callback", description="Path below /ui to which every provider redirects after a sign-in"
    )
    openid_post_logout_redirect_path: PagePath = Field(
        "/logout", description="Path below /ui to which every provider redirects after a sign-out"
    )
    openid_token_type: Annotated[Literal["access_token", "id_token"], ANY_SPELLING] = Field(
        "access_token", description="Token that identifies the user: its claims and audience are those of the APIs"
    )
    lakekeeper_url: AnyHttpUrl | None = Field(None, description="Without effect: the console is part of this server")
    enable_surveys: bool = Field(default=True, description="Without effect: the console has no surveys")


class ConsoleProviderSettings(BaseModel):
    """`ICEKEEPER__CONSOLE__PROVIDERS__<ID>__*`: the console as a client of an identity provider."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    client_id: ClientId | None = Field(
        None,
        description="Client id of the console at this provider; users can sign in with an additional provider only if "
        "it is set. For `oidc` it defaults to LAKEKEEPER__UI__OPENID_CLIENT_ID",
    )
    client_secret: Annotated[SecretStr, Field(min_length=1)] | None = Field(
        None, description="Secret of this client. Unset, the client is public: PKCE alone protects its codes"
    )
    scope: Scopes | None = Field(
        None,
        description="Scopes that the console requests, separated by spaces; by default LAKEKEEPER__UI__OPENID_SCOPE",
    )
    name: Annotated[str, Field(min_length=1, max_length=64)] | None = Field(
        None, description="Name of the provider on the sign-in page; by default the host of its URL"
    )


class PreviewSettings(BaseModel):
    """`ICEKEEPER__CONSOLE__PREVIEW__*`: rows of tables on the tab Preview, read by a child process of the server."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(
        default=True, description="Show rows of tables in the console to users with the permission to read data"
    )
    rows: Annotated[int, Field(ge=1, le=1000)] = Field(100, description="Maximum number of rows of a preview")
    timeout: Annotated[BoundedDuration, Field(ge=1, le=300)] = Field(
        20.0, description="Time after which the process of a preview is killed"
    )
    memory_bytes: Annotated[int, Field(ge=512 << 20)] = Field(
        2 << 30, description="Limit of the address space of the process of a preview"
    )
    processes: Annotated[int, Field(ge=1, le=64)] = Field(
        2,
        description="Maximum number of concurrent previews of each server process; further ones get 503. Together they "
        "may use this number times ICEKEEPER__CONSOLE__PREVIEW__MEMORY_BYTES",
    )


class SqlSettings(BaseModel):
    """`ICEKEEPER__CONSOLE__SQL__*`: the page SQL, whose queries are run by child processes of the server."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(
        default=True, description="Run SQL in the console over tables whose data the user has the permission to read"
    )
    rows: Annotated[int, Field(ge=1, le=10_000)] = Field(1_000, description="Maximum number of rows on the page")
    timeout: Annotated[BoundedDuration, Field(ge=1, le=300)] = Field(
        30.0, description="Time after which the process of a query is killed"
    )
    table_bytes: Annotated[int, Field(ge=1 << 20)] = Field(
        256 << 20,
        description="Maximum size of the files of all tables of a query, which are read in full; larger ones are "
        "rejected before anything is read",
    )
    memory_bytes: Annotated[int, Field(ge=2 << 30)] = Field(
        3 << 30,
        description="Limit of the address space of the process of a query; DuckDB may use what is above 1.5 GiB",
    )
    processes: Annotated[int, Field(ge=1, le=64)] = Field(
        1,
        description="Maximum number of concurrent SQL queries of each server process; further ones get 503. With the "
        "previews, the child processes of a server process may use this number times "
        "ICEKEEPER__CONSOLE__SQL__MEMORY_BYTES and ICEKEEPER__CONSOLE__PREVIEW__PROCESSES times "
        "ICEKEEPER__CONSOLE__PREVIEW__MEMORY_BYTES: 7 GiB by default. When memory is short, the kernel ends them "
        "before the server",
    )


class ConsoleSettings(BaseModel):
    """`ICEKEEPER__CONSOLE__*`: the console under /ui."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(default=True, description="Serve the console under /ui")
    session_idle_timeout: Annotated[BoundedDuration, Field(ge=60)] = Field(
        3600.0, description="Time without a request after which a session of the console expires, at least a minute"
    )
    session_lifetime: Annotated[BoundedDuration, Field(ge=60)] = Field(
        8 * 3600.0, description="Time after sign-in at which a session of the console expires in any case"
    )
    local_accounts: bool = Field(
        default=False,
        description="Allow local users to sign in to the console with a password (`manage.py set_password`), for the "
        "case that no identity provider is available",
    )
    environment: Annotated[str, Field(min_length=1, max_length=24)] | None = Field(
        None, description="Name of this environment in a badge on every page of the console, such as `production`"
    )
    preview: PreviewSettings = Field(default_factory=PreviewSettings, description="Preview of rows in the console")
    sql: SqlSettings = Field(default_factory=SqlSettings, description="SQL in the console")
    providers: dict[str, ConsoleProviderSettings] = Field({}, description="The console as a client of providers")


def check_console_providers(clients: Mapping[str, ConsoleProviderSettings], provider_ids: Collection[str]) -> None:
    """Raise ValueError for a client at an unknown provider, and for one that has no client id."""
    for provider_id, client in clients.items():
        variable = f"ICEKEEPER__CONSOLE__PROVIDERS__{provider_id.upper()}"
        if provider_id not in provider_ids:
            raise ValueError(f"{variable}__*: there is no such identity provider")
        if client.client_id is None and provider_id != PRIMARY:
            raise ValueError(f"{variable}__CLIENT_ID is missing: other variables of this group are set")
