"""Settings of servers that the catalog uses: Vault, with the keys for credentials in the database, OpenFGA, and the
message broker of Celery."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, AnyHttpUrl, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr

from icekeeper.conf.values import ANY_SPELLING, ShortDuration, read_list

MAX_OLD_KEYS = 16
"""Each old key adds about 50 ms to the start of a process."""


def _vault_path(text: str) -> str:
    path = text.strip().strip("/")
    if path == "<nil>":
        raise ValueError(
            "the path of a mount; Lakekeeper's chart writes <nil> because no value of it names the mount: set the "
            "variable in catalog.extraEnv"
        )
    if not re.fullmatch(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*", path) or set(path.split("/")) & {".", ".."}:
        raise ValueError("a path of letters, digits and _.- such as secret or teams/data")
    return path


Secret = Annotated[SecretStr, Field(min_length=1)]
KeyList = Annotated[list[Secret], BeforeValidator(read_list), Field(max_length=MAX_OLD_KEYS)]
VaultPath = Annotated[str, AfterValidator(_vault_path)]


class Kv2Settings(BaseModel):
    """`LAKEKEEPER__KV2__*`: Vault, or a compatible server (OpenBao)."""

    model_config = ConfigDict(extra="forbid")

    url: AnyHttpUrl | None = Field(None, description="URL of Vault, such as https://vault.example.com:8200")
    user: str | None = Field(None, description="User for the auth method `userpass`")
    password: Secret | None = Field(None, description="Password for the auth method `userpass`")
    secret_mount: VaultPath | None = Field(None, description="Mount of the secrets engine `kv` version 2")


class VaultSettings(BaseModel):
    """`ICEKEEPER__VAULT__*`: settings of Vault that Lakekeeper does not have."""

    model_config = ConfigDict(extra="forbid")

    auth_method: Annotated[Literal["userpass", "token", "approle", "kubernetes"], ANY_SPELLING] = Field(
        "userpass", description="Auth method of Vault"
    )
    auth_mount: VaultPath | None = Field(
        None, description="Mount path of the auth method. Unset, the name of the method"
    )
    token: Secret | None = Field(None, description="Token, for `token`")
    token_file: Path | None = Field(
        None, description="Token file, for `token`; read again when the token expires (Vault Agent)"
    )
    role_id: str | None = Field(None, description="Role id, for `approle`")
    secret_id: Secret | None = Field(None, description="Secret id, for `approle`")
    kubernetes_role: str | None = Field(None, description="Role, for `kubernetes`")
    kubernetes_token_file: Path = Field(
        Path("/var/run/secrets/kubernetes.io/serviceaccount/token"),
        description="Service account token file of the pod, for `kubernetes`; read at each sign-in",
    )
    folder: VaultPath = Field(
        "secret", description="Folder of the credentials in the mount: `<mount>/data/<folder>/<id>`"
    )
    namespace: VaultPath | None = Field(None, description="Namespace of Vault Enterprise or OpenBao")
    ca_bundle: Path | None = Field(
        None, description="PEM file of the certificate authorities of Vault, for private certificates"
    )
    connect_timeout: ShortDuration = Field(3.0, description="Timeout for connecting to Vault")
    request_timeout: ShortDuration = Field(10.0, description="Timeout of one request to Vault")
    retries: Annotated[int, Field(ge=0, le=10)] = Field(
        2, description="Number of retries of a failed Vault request, with increasing pauses; 0 disables them"
    )


def check_vault(kv2: Kv2Settings, vault: VaultSettings) -> None:
    """Raise ValueError that names the settings missing for Vault."""
    for name in ("url", "secret_mount"):
        if getattr(kv2, name) is None:
            raise ValueError(f"Vault needs LAKEKEEPER__KV2__{name.upper()}")
    missing: list[str] = []
    match vault.auth_method:
        case "userpass":
            missing = [f"LAKEKEEPER__KV2__{each.upper()}" for each in ("user", "password") if not getattr(kv2, each)]
        case "token":
            if (vault.token is None) == (vault.token_file is None):
                missing = ["either ICEKEEPER__VAULT__TOKEN or ICEKEEPER__VAULT__TOKEN_FILE"]
        case "approle":
            own = ("role_id", "secret_id")
            missing = [f"ICEKEEPER__VAULT__{each.upper()}" for each in own if not getattr(vault, each)]
        case "kubernetes":
            if not vault.kubernetes_role:
                missing = ["ICEKEEPER__VAULT__KUBERNETES_ROLE"]
    if missing:
        raise ValueError(f"ICEKEEPER__VAULT__AUTH_METHOD={vault.auth_method} needs {' and '.join(missing)}")


BROKERS: Final = frozenset({"redis", "rediss", "sentinel", "amqp", "amqps", "pyamqp"})
"""Schemes of the brokers that Celery reaches with the packages of this server."""


def _broker_url(url: SecretStr) -> SecretStr:
    try:
        parts = urlsplit(url.get_secret_value())
        is_valid = parts.scheme in BROKERS and bool(parts.netloc) and parts.port != 0
    except ValueError:  # the port; its text could be a part of the password
        is_valid = False
    if not is_valid:
        raise ValueError(
            "a URL such as redis://redis:6379/0 or amqps://user:password@rabbitmq:5671/icekeeper; special characters "
            "of the password are percent-encoded"
        )
    return url


class CelerySettings(BaseModel):
    """`ICEKEEPER__CELERY__*`: Celery, as an alternative to `manage.py worker`."""

    model_config = ConfigDict(extra="forbid")

    broker_url: Annotated[SecretStr, AfterValidator(_broker_url)] | None = Field(
        None,
        description="URL of the message broker, as Celery writes it: Redis or RabbitMQ. With it servers wake Celery "
        "workers; tasks are rows of the database in any case",
    )


Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")]


def _plain_address(url: AnyHttpUrl) -> AnyHttpUrl:
    if url.username or url.password or url.query or url.fragment:
        raise ValueError("a URL such as https://openfga.example.com:8080, without password, query or fragment")
    return url


ServerAddress = Annotated[AnyHttpUrl, AfterValidator(_plain_address)]


class OpenFgaSettings(BaseModel):
    """`LAKEKEEPER__OPENFGA__*`: connection, credentials and store of OpenFGA."""

    model_config = ConfigDict(extra="forbid")

    endpoint: ServerAddress | None = Field(
        None,
        description="URL of OpenFGA's HTTP API, such as http://openfga:8080. For a gRPC URL (port 8081), port "
        "8080 of the same host is used if OpenFGA responds there",
    )
    store_name: Annotated[str, Field(pattern=r"^[a-zA-Z0-9 ._/^@-]{3,64}$")] = Field(
        "lakekeeper", description="Name of the OpenFGA store, which is created if it does not exist"
    )
    api_key: Secret | None = Field(None, description="Preshared key of OpenFGA. Not used with CLIENT_ID")
    client_id: str | None = Field(None, description="OAuth client id for OpenFGA, instead of the preshared key")
    client_secret: Secret | None = Field(None, description="OAuth client secret, required with CLIENT_ID")
    token_endpoint: ServerAddress | None = Field(None, description="OAuth token endpoint, required with CLIENT_ID")
    scope: str | None = Field(None, description="OAuth scope of the token request. Unset, none is sent")
    authorization_model_prefix: Name = Field(
        "collaboration",
        description="Prefix of the names of authorization models in the store",
    )
    authorization_model_version: Name | None = Field(
        None,
        description="Version of an existing authorization model to use instead of the one of this release. "
        "Unset, `manage.py migrate` writes the model of this release",
    )
    max_batch_check_size: Annotated[int, Field(ge=1, le=1000)] = Field(
        50, description="Maximum number of checks in one request, at most OPENFGA_MAX_CHECKS_PER_BATCH_CHECK of OpenFGA"
    )


class OpenFgaConnectionSettings(BaseModel):
    """`ICEKEEPER__OPENFGA_CONNECTION__*`: settings of OpenFGA that Lakekeeper does not have."""

    model_config = ConfigDict(extra="forbid")

    ca_bundle: Path | None = Field(
        None,
        description="PEM file of the certificate authorities of OpenFGA and its token endpoint, for private "
        "certificates",
    )
    connect_timeout: ShortDuration = Field(1.0, description="Timeout for connecting to OpenFGA")
    request_timeout: ShortDuration = Field(
        3.0,
        description="Timeout of one request to OpenFGA. Keep it short: rows are locked during some checks",
    )


def check_openfga(own: OpenFgaSettings, *, is_chosen: bool) -> None:
    """Raise ValueError that names the missing or superfluous settings."""
    if is_chosen and own.endpoint is None:
        raise ValueError("LAKEKEEPER__AUTHZ_BACKEND=openfga needs LAKEKEEPER__OPENFGA__ENDPOINT")
    signs_in = own.client_id is not None
    for name in ("client_secret", "token_endpoint"):
        if (getattr(own, name) is not None) != signs_in:
            raise ValueError(
                "LAKEKEEPER__OPENFGA__CLIENT_ID, LAKEKEEPER__OPENFGA__CLIENT_SECRET and "
                "LAKEKEEPER__OPENFGA__TOKEN_ENDPOINT: set all or none of them"
            )
    if own.scope is not None and not signs_in:
        raise ValueError("LAKEKEEPER__OPENFGA__SCOPE needs LAKEKEEPER__OPENFGA__CLIENT_ID")
