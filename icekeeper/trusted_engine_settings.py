"""The settings of engines that the catalog trusts with views that are read with their owners' rights."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from icekeeper.setting_values import ANY_SPELLING, read_list

_NAME = re.compile(r"[a-z0-9_-]{1,64}")


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
        if not _NAME.fullmatch(name):
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
