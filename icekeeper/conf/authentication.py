"""The settings of authentication: identity providers, what is believed of their tokens, the Kubernetes API."""

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
"""Ids that stand for something else in the ids of users and roles."""

_PROVIDER_ID = re.compile(r"[a-z0-9-]{1,64}")

Algorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519", "Ed448"
]
"""Signatures with a private key that is the provider's alone: a shared secret could be anybody's."""
ALGORITHMS: list[Algorithm] = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where Kubernetes puts what a pod needs to talk to its API."""


def _plain_address(value: AnyHttpUrl) -> AnyHttpUrl:
    if value.username or value.password or value.query or value.fragment:
        raise ValueError("an address without user, query and fragment")
    return value


def _template(value: str) -> str:
    parse_template(value)
    return value


Address = Annotated[AnyHttpUrl, AfterValidator(_plain_address)]
Template = Annotated[str, AfterValidator(_template)]
Claim = Annotated[str, Field(min_length=1, max_length=256)]
Claims = Annotated[list[Claim], BeforeValidator(read_list), Field(min_length=1)]
AlgorithmList = Annotated[list[Annotated[Algorithm, ANY_SPELLING]], BeforeValidator(read_list), Field(min_length=1)]
Patience = Annotated[Duration, Field(le=30)]


class ProviderSettings(BaseModel):
    """`LAKEKEEPER__OPENID_PROVIDERS__<ID>__*`: one more identity provider, whose users are `<id>~<subject>`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    uri: Address = Field(description="Its address, as OPENID_PROVIDER_URI")
    audience: StringList = Field([], description="As OPENID_AUDIENCE")
    additional_issuers: StringList = Field([], description="As OPENID_ADDITIONAL_ISSUERS")
    scope: Claim | None = Field(None, description="As OPENID_SCOPE")
    subject_claims: Claims = Field(["oid", "sub"], description="As OPENID_SUBJECT_CLAIM")
    roles_claim: Claim | None = Field(None, description="As OPENID_ROLES_CLAIM")
    display_name_template: Template | None = Field(None, description="As OPENID_DISPLAY_NAME_TEMPLATE")
    require_connected_on_startup: bool = Field(
        default=True, description="Refuse to start while it cannot be reached; false: ask it again when its tokens come"
    )


class ClaimSettings(BaseModel):
    """`ICEKEEPER__OPENID_CLAIMS__<ID>__*`: where the tokens of a provider hold what others have elsewhere."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: StringList = Field(
        [], description="Claims (dotted paths) to look for the user's name in, before the usual ones"
    )
    email: StringList = Field([], description="Claims to look for the mail address in, before the usual ones")


class AuthenticationSettings(BaseModel):
    """`ICEKEEPER__AUTHENTICATION__*`: what holds for every provider."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    algorithms: AlgorithmList = Field(
        ALGORITHMS, description="Signatures that are accepted; never a shared secret, never none"
    )
    leeway: Leeway = Field(60.0, description="How far clocks may differ, at most 300s")
    timeout: Patience = Field(5.0, description="How long one look at a provider may take in all, at most 30s")
    ca_file: Path | None = Field(
        None, description="CA file that certificates of providers are checked against, instead of the usual ones"
    )


class KubernetesSettings(BaseModel):
    """`ICEKEEPER__KUBERNETES__*`: the API server that knows the service accounts. The defaults are those of a pod."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    method: Annotated[Literal["token-review", "jwks"], ANY_SPELLING] = Field(
        "token-review", description="Ask the API server about each token, or verify tokens here with its public keys"
    )
    api_url: Address = Field(AnyHttpUrl("https://kubernetes.default.svc"), description="Address of the API server")
    ca_file: Path = Field(SERVICE_ACCOUNT / "ca.crt", description="CA file that its certificate is checked against")
    token_file: Path = Field(
        SERVICE_ACCOUNT / "token", description="The token that this server shows there, read again when it is used"
    )


def check_providers(
    providers: Mapping[str, ProviderSettings], claims: Mapping[str, ClaimSettings], *, has_primary: bool
) -> None:
    """Raises ValueError for an id that cannot be one, and for claims of a provider that does not exist."""
    for provider_id in providers:
        variable = f"LAKEKEEPER__OPENID_PROVIDERS__{provider_id.upper()}__*"
        if not _PROVIDER_ID.fullmatch(provider_id):
            raise ValueError(f"{variable}: the id of a provider is made of a-z, 0-9 and -, at most 64")
        if provider_id in RESERVED_IDS:
            raise ValueError(f"{variable}: the id {provider_id} stands for something else, choose another one")
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
    """`LAKEKEEPER__TRUSTED_ENGINES__<NAME>__IDENTITIES__<IDP>__*`: whose tokens are the engine's; either is enough."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    audiences: Names = Field(
        [], description="A token of this identity provider for one of these audiences is the engine's"
    )
    subjects: Names = Field(
        [], description="A token of this identity provider for one of these users (their ids without `<provider>~`) is"
    )


class TrustedEngineSettings(BaseModel):
    """`LAKEKEEPER__TRUSTED_ENGINES__<NAME>__*`: an engine that says through which views it reads."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Annotated[Literal["trino"], ANY_SPELLING] = Field("trino", description="The kind of engine")
    owner_property: PropertyName = Field(
        "trino.run-as-owner", description="Property of a view that names the user with whose rights it is read"
    )
    identities: dict[str, EngineIdentitySettings] = Field({}, description="Whose tokens are the engine's")


def check_trusted_engines(engines: Mapping[str, TrustedEngineSettings], provider_ids: Iterable[str]) -> None:
    """Raises ValueError for an engine that nobody could be, and for owner properties that are told apart by case."""
    known = set(provider_ids)
    spelled: dict[str, str] = {}
    for name, engine in engines.items():
        variable = f"LAKEKEEPER__TRUSTED_ENGINES__{name.upper()}"
        if not _ENGINE_NAME.fullmatch(name):
            raise ValueError(f"{variable}__*: the name of an engine is made of a-z, 0-9, _ and -, at most 64")
        if not engine.identities:
            raise ValueError(
                f"{variable}__IDENTITIES__<IDP>__AUDIENCES or __SUBJECTS is missing: no token would be its"
            )
        for provider_id, identity in engine.identities.items():
            its = f"{variable}__IDENTITIES__{provider_id.upper()}"
            if provider_id not in known:
                raise ValueError(f"{its}__*: there is no such identity provider; known: {', '.join(sorted(known))}")
            if not identity.audiences and not identity.subjects:
                raise ValueError(f"{its}__AUDIENCES and __SUBJECTS are empty: no token would be the engine's")
        folded = engine.owner_property.casefold()
        if spelled.setdefault(folded, engine.owner_property) != engine.owner_property:
            raise ValueError(
                f"{variable}__OWNER_PROPERTY got {engine.owner_property!r}: "
                f"another engine spells it {spelled[folded]!r}"
            )
