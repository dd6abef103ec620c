"""Settings of the storage of warehouse credentials: encryption keys of the database, and Vault."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

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
