"""Settings of authentication: identity providers, claims, trusted engines and the Kubernetes API."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, AnyHttpUrl, BaseModel, BeforeValidator, ConfigDict, Field

from icekeeper.conf.values import ANY_SPELLING, Duration, Leeway, StringList, read_list
from tenancy.authn.oidc.claims import parse_template

PRIMARY, KUBERNETES = "oidc", "kubernetes"
RESERVED_IDS = frozenset({PRIMARY, KUBERNETES, "local", "icekeeper", "lakekeeper", "system"})
"""Provider ids with a meaning of their own in the ids of users and roles."""

_PROVIDER_ID = re.compile(r"[a-z0-9-]{1,64}")

Algorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519", "Ed448"
]
"""Asymmetric algorithms only: with a shared secret, every holder of the secret could sign tokens."""
ALGORITHMS: list[Algorithm] = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Folder in which Kubernetes mounts the API credentials of a pod."""


def _plain_address(value: AnyHttpUrl) -> AnyHttpUrl:
    if value.username or value.password or value.query or value.fragment:
        raise ValueError("a URL without user, query and fragment")
    return value


def _template(value: str) -> str:
    parse_template(value)
    return value


Address = Annotated[AnyHttpUrl, AfterValidator(_plain_address)]
Template = Annotated[str, AfterValidator(_template)]
Claim = Annotated[str, Field(min_length=1, max_length=256)]
Claims = Annotated[list[Claim], BeforeValidator(read_list), Field(min_length=1)]
AlgorithmList = Annotated[list[Annotated[Algorithm, ANY_SPELLING]], BeforeValidator(read_list), Field(min_length=1)]
ProviderTimeout = Annotated[Duration, Field(le=30)]


class ProviderSettings(BaseModel):
    """`LAKEKEEPER__OPENID_PROVIDERS__<ID>__*`: an additional identity provider, whose users are `<id>~<subject>`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    uri: Address = Field(
        description="As OPENID_PROVIDER_URI, for an additional provider; its users are `<id>~<subject>`"
    )
    audience: StringList = Field([], description="As OPENID_AUDIENCE")
    additional_issuers: StringList = Field([], description="As OPENID_ADDITIONAL_ISSUERS")
    scope: Claim | None = Field(None, description="As OPENID_SCOPE")
    subject_claims: Claims = Field(["oid", "sub"], description="As OPENID_SUBJECT_CLAIM")
    roles_claim: Claim | None = Field(None, description="As OPENID_ROLES_CLAIM")
    display_name_template: Template | None = Field(None, description="As OPENID_DISPLAY_NAME_TEMPLATE")
    require_connected_on_startup: bool = Field(
        default=True,
        description="Fail to start when the provider is unreachable. `false`: connect when its first token arrives",
    )


class ClaimSettings(BaseModel):
    """`ICEKEEPER__OPENID_CLAIMS__<ID>__*`: claims of a provider that differ from the standard ones."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: StringList = Field(
        [], description="Claims with the user's name, dotted paths, tried before the standard ones"
    )
    email: StringList = Field(
        [], description="Claims with the user's email address, dotted paths, tried before the standard ones"
    )


class AuthenticationSettings(BaseModel):
    """`ICEKEEPER__AUTHENTICATION__*`: settings of every identity provider."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    algorithms: AlgorithmList = Field(
        ALGORITHMS,
        description="Accepted signature algorithms of tokens; `none` and algorithms with shared secrets "
        "(HS256) are never accepted",
    )
    leeway: Leeway = Field(
        60.0,
        description="Tolerated clock difference between this server and a provider when the validity of "
        "tokens is checked, at most 300s",
    )
    timeout: ProviderTimeout = Field(
        5.0,
        description="Timeout of one request to an identity provider (configuration, signing keys) or to the "
        "Kubernetes API, including the whole response, at most 30s. It delays requests whose "
        "token needs such a request",
    )
    ca_file: Path | None = Field(
        None,
        description="PEM file of the certificate authorities of identity providers, for private certificates. "
        "Unset, the usual public authorities are trusted",
    )


class KubernetesSettings(BaseModel):
    """`ICEKEEPER__KUBERNETES__*`: the API server that verifies service account tokens. The defaults suit a pod."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    method: Annotated[Literal["token-review", "jwks"], ANY_SPELLING] = Field(
        "token-review",
        description="How tokens are verified: `token-review` sends each to the API server, which knows "
        "deleted accounts; `jwks` verifies them locally with its public keys",
    )
    api_url: Address = Field(
        AnyHttpUrl("https://kubernetes.default.svc"),
        description="URL of the Kubernetes API server. The default works in a pod",
    )
    ca_file: Path = Field(
        SERVICE_ACCOUNT / "ca.crt",
        description="PEM file of the certificate authority of the API server. The default works in a pod",
    )
    token_file: Path = Field(
        SERVICE_ACCOUNT / "token",
        description="File with the token for the API server, read at each use. The default works in a pod",
    )


def check_providers(
    providers: Mapping[str, ProviderSettings], claims: Mapping[str, ClaimSettings], *, has_primary: bool
) -> None:
    """Raise ValueError for an invalid or reserved provider id, and for claims of an unknown provider."""
    for provider_id in providers:
        variable = f"LAKEKEEPER__OPENID_PROVIDERS__{provider_id.upper()}__*"
        if not _PROVIDER_ID.fullmatch(provider_id):
            raise ValueError(f"{variable}: the provider id must consist of 1 to 64 characters of a-z, 0-9 and -")
        if provider_id in RESERVED_IDS:
            raise ValueError(f"{variable}: the provider id {provider_id} is reserved, choose another one")
    known = {*providers, *([PRIMARY] if has_primary else [])}
    for provider_id in claims:
        if provider_id not in known:
            raise ValueError(f"ICEKEEPER__OPENID_CLAIMS__{provider_id.upper()}__*: there is no such provider")


_ENGINE_NAME = re.compile(r"[a-z0-9_-]{1,64}")


def _property_name(text: str) -> str:
    if not text.isprintable() or text != text.strip():
        raise ValueError("the name of a property, without spaces around it")
    return text


Names = Annotated[list[Annotated[str, Field(min_length=1)]], BeforeValidator(read_list)]
PropertyName = Annotated[str, Field(min_length=1, max_length=255), AfterValidator(_property_name)]


class EngineIdentitySettings(BaseModel):
    """`LAKEKEEPER__TRUSTED_ENGINES__<NAME>__IDENTITIES__<IDP>__*`: tokens of the engine; one match is enough."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    audiences: Names = Field(
        [], description="Audiences; every token of this identity provider with one of them identifies the engine"
    )
    subjects: Names = Field(
        [], description="Users whose tokens of this identity provider identify the engine, ids without `<provider>~`"
    )


class TrustedEngineSettings(BaseModel):
    """`LAKEKEEPER__TRUSTED_ENGINES__<NAME>__*`: an engine that is trusted to report view owners."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Annotated[Literal["trino"], ANY_SPELLING] = Field("trino", description="Type of the engine")
    owner_property: PropertyName = Field(
        "trino.run-as-owner",
        description="View property with the owner, whose permissions apply when the view is read through the engine",
    )
    identities: dict[str, EngineIdentitySettings] = Field({}, description="Tokens that identify the engine")


def check_trusted_engines(engines: Mapping[str, TrustedEngineSettings], provider_ids: Iterable[str]) -> None:
    """Raise ValueError for an engine that no token can match, and for owner properties that differ only in case."""
    known = set(provider_ids)
    spelled: dict[str, str] = {}
    for name, engine in engines.items():
        variable = f"LAKEKEEPER__TRUSTED_ENGINES__{name.upper()}"
        if not _ENGINE_NAME.fullmatch(name):
            raise ValueError(f"{variable}__*: the engine name must consist of 1 to 64 characters of a-z, 0-9, _ and -")
        if not engine.identities:
            raise ValueError(
                f"{variable}__IDENTITIES__<IDP>__AUDIENCES or __SUBJECTS is missing: no token would match the engine"
            )
        for provider_id, identity in engine.identities.items():
            its = f"{variable}__IDENTITIES__{provider_id.upper()}"
            if provider_id not in known:
                raise ValueError(f"{its}__*: there is no such identity provider; known: {', '.join(sorted(known))}")
            if not identity.audiences and not identity.subjects:
                raise ValueError(f"{its}__AUDIENCES and __SUBJECTS are empty: no token would match the engine")
        folded = engine.owner_property.casefold()
        if spelled.setdefault(folded, engine.owner_property) != engine.owner_property:
            raise ValueError(
                f"{variable}__OWNER_PROPERTY got {engine.owner_property!r}: "
                f"another engine spells it {spelled[folded]!r}"
            )
