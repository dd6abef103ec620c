"""Settings of OpenFGA, where it decides about rights."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, AnyHttpUrl, BaseModel, ConfigDict, Field, SecretStr

from icekeeper.conf.values import ShortDuration

Secret = Annotated[SecretStr, Field(min_length=1)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")]


def _plain_address(url: AnyHttpUrl) -> AnyHttpUrl:
    if url.username or url.password or url.query or url.fragment:
        raise ValueError("an address such as https://openfga.example.com:8080, without password, query or fragment")
    return url


ServerAddress = Annotated[AnyHttpUrl, AfterValidator(_plain_address)]


class OpenFgaSettings(BaseModel):
    """`LAKEKEEPER__OPENFGA__*`: where OpenFGA is, and what this server is there."""

    model_config = ConfigDict(extra="forbid")

    endpoint: ServerAddress | None = Field(
        None,
        description="Address of OpenFGA's HTTP interface, such as http://openfga:8080; for that of its gRPC interface "
        "(8081) port 8080 of the same host is used when an OpenFGA answers there",
    )
    store_name: Annotated[str, Field(pattern=r"^[a-zA-Z0-9 ._/^@-]{3,64}$")] = Field(
        "lakekeeper", description="Name of the store that is this server's"
    )
    api_key: Secret | None = Field(None, description="Preshared key of OpenFGA; not used beside CLIENT_ID")
    client_id: str | None = Field(None, description="Client id that this server signs in with, instead of the key")
    client_secret: Secret | None = Field(None, description="Beside CLIENT_ID")
    token_endpoint: ServerAddress | None = Field(None, description="Where tokens for OpenFGA come from")
    scope: str | None = Field(None, description="Scope that such a token is asked for")
    authorization_model_prefix: Name = Field(
        "collaboration", description="Models are told apart in a store by this and their version"
    )
    authorization_model_version: Name | None = Field(
        None,
        description="Use the model of this version, which must be in the store, and write none; unset, the version of "
        "this release, which `manage.py migrate` writes",
    )
    max_batch_check_size: Annotated[int, Field(ge=1, le=1000)] = Field(
        50, description="Checks in one request, as OpenFGA's OPENFGA_MAX_CHECKS_PER_BATCH_CHECK allows"
    )


class OpenFgaConnectionSettings(BaseModel):
    """`ICEKEEPER__OPENFGA_CONNECTION__*`: what the peer's `LAKEKEEPER__OPENFGA__*` cannot say."""

    model_config = ConfigDict(extra="forbid")

    ca_bundle: Path | None = Field(
        None, description="PEM file of certificate authorities for OpenFGA and for its token endpoint"
    )
    connect_timeout: ShortDuration = Field(1.0, description="How long OpenFGA may take to take a connection")
    request_timeout: ShortDuration = Field(
        3.0,
        description="How long OpenFGA may take to answer; some questions are asked while rows are locked",
    )


def check_openfga(own: OpenFgaSettings, *, is_chosen: bool) -> None:
    """Raises ValueError naming what is missing or too much."""
    if is_chosen and own.endpoint is None:
        raise ValueError("LAKEKEEPER__AUTHZ_BACKEND=openfga needs LAKEKEEPER__OPENFGA__ENDPOINT beside it")
    signs_in = own.client_id is not None
    for name in ("client_secret", "token_endpoint"):
        if (getattr(own, name) is not None) != signs_in:
            raise ValueError(
                "LAKEKEEPER__OPENFGA__CLIENT_ID, LAKEKEEPER__OPENFGA__CLIENT_SECRET and "
                "LAKEKEEPER__OPENFGA__TOKEN_ENDPOINT: set all or none of them"
            )
    if own.scope is not None and not signs_in:
        raise ValueError("LAKEKEEPER__OPENFGA__SCOPE needs LAKEKEEPER__OPENFGA__CLIENT_ID beside it")
