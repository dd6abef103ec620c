"""Settings of the OpenFGA authorization backend."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, AnyHttpUrl, BaseModel, ConfigDict, Field, SecretStr

from icekeeper.conf.values import ShortDuration

Secret = Annotated[SecretStr, Field(min_length=1)]
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
