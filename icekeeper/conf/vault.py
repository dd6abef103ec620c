"""Settings of the place where the credentials of warehouses are kept: keys of the database, Vault."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, AnyHttpUrl, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr

from icekeeper.conf.values import ANY_SPELLING, ShortDuration, read_list

MOST_KEYS = 16
"""Old keys at once: each costs some 50 ms when a process begins."""


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
KeyList = Annotated[list[Secret], BeforeValidator(read_list), Field(max_length=MOST_KEYS)]
VaultPath = Annotated[str, AfterValidator(_vault_path)]


class Kv2Settings(BaseModel):
    """`LAKEKEEPER__KV2__*`: Vault, or what speaks like it (OpenBao)."""

    model_config = ConfigDict(extra="forbid")

    url: AnyHttpUrl | None = Field(None, description="Address of Vault, such as https://vault.example.com:8200")
    user: str | None = Field(None, description="User of the auth method `userpass`")
    password: Secret | None = Field(None, description="Its password")
    secret_mount: VaultPath | None = Field(None, description="Mount of the secrets engine `kv` version 2")


class VaultSettings(BaseModel):
    """`ICEKEEPER__VAULT__*`: what the peer's `LAKEKEEPER__KV2__*` cannot say."""

    model_config = ConfigDict(extra="forbid")

    auth_method: Annotated[Literal["userpass", "token", "approle", "kubernetes"], ANY_SPELLING] = Field(
        "userpass", description="How this server signs in to Vault"
    )
    auth_mount: VaultPath | None = Field(None, description="Where the method is mounted; unset, under its own name")
    token: Secret | None = Field(None, description="For `token`")
    token_file: Path | None = Field(None, description="For `token`: read anew when the token ends (Vault Agent)")
    role_id: str | None = Field(None, description="For `approle`")
    secret_id: Secret | None = Field(None, description="For `approle`")
    kubernetes_role: str | None = Field(None, description="For `kubernetes`")
    kubernetes_token_file: Path = Field(
        Path("/var/run/secrets/kubernetes.io/serviceaccount/token"),
        description="For `kubernetes`: the token of the pod's service account, read at each sign-in",
    )
    folder: VaultPath = Field("secret", description="Secrets lie at `<mount>/data/<folder>/<id>`")
    namespace: VaultPath | None = Field(None, description="Namespace of Vault Enterprise, or of OpenBao")
    ca_bundle: Path | None = Field(None, description="PEM file of certificate authorities for Vault")
    connect_timeout: ShortDuration = Field(3.0, description="How long Vault may take to take a connection")
    request_timeout: ShortDuration = Field(10.0, description="How long Vault may take to answer one request")
    retries: Annotated[int, Field(ge=0, le=10)] = Field(
        2, description="How often a request is sent again that Vault failed at, with growing pauses"
    )


def check_vault(kv2: Kv2Settings, vault: VaultSettings) -> None:
    """Raises ValueError naming what is missing to reach Vault."""
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
        raise ValueError(f"ICEKEEPER__VAULT__AUTH_METHOD={vault.auth_method} needs {' and '.join(missing)} beside it")
