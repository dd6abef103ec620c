"""Configurations of rules: pydantic models in kebab-case that reject unknown members, with plain error messages."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, TypeVar
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from catalog.services.approval.patterns import MAX_PATTERN_LENGTH, InvalidPattern, SafePattern
from events.sinks.webhook_headers import MAX_HEADERS, check_header
from events.sinks.webhook_signature import read_signing_key
from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.json.strict import write_json

MAX_CONFIGURATION_BYTES = 16_384
MAX_PATTERNS = 20
"""Alternatives for one name or value."""

MAX_SIGNING_SECRETS = 2
"""The current secret and, while receivers change to it, the previous one."""

C = TypeVar("C", bound="RuleConfiguration")


class InvalidRule(BadRequest):
    """The message names the member; it contains no value."""

    wire_type = "InvalidChangeRule"


class Purpose(StrEnum):
    """Why a rule is asked."""

    WRITES = "writes"
    EVALUATION = "evaluation"
    """By a request that writes nothing."""


@dataclass(frozen=True, slots=True)
class RuleSettings:
    """What a rule is built from. `secret_id` is that of an HTTP hook.

    Failures of a hook for one `purpose` do not pause it for others.
    """

    rule_id: UUID
    name: str
    version: int
    configuration: dict[str, Any]
    secret_id: UUID | None = None
    purpose: Purpose = Purpose.WRITES


class RuleConfiguration(BaseModel):
    """Base of the configurations of all kinds."""

    model_config = ConfigDict(
        strict=True,
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        alias_generator=lambda name: name.replace("_", "-"),
        validate_by_alias=True,
        validate_by_name=False,
    )


def _is_pattern(text: str) -> str:
    try:
        SafePattern(text)
    except InvalidPattern as error:
        raise ValueError(f"is not a pattern: {error}") from None
    return text


Pattern = Annotated[str, Field(min_length=1, max_length=MAX_PATTERN_LENGTH), AfterValidator(_is_pattern)]
Patterns = Annotated[list[Pattern], Field(min_length=1, max_length=MAX_PATTERNS)]


def _are_signing_secrets(texts: list[str]) -> list[str]:
    for each in texts:
        read_signing_key(each)
    return texts


def _are_headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        check_header(name, value)
    return headers


class HookSecret(RuleConfiguration):
    """The secret of an HTTP hook, which is stored encrypted."""

    signing_secrets: Annotated[
        list[str],
        Field(max_length=MAX_SIGNING_SECRETS, description="`whsec_` and 24 to 64 random bytes in base64"),
        AfterValidator(_are_signing_secrets),
    ] = []
    headers: Annotated[
        dict[str, str], Field(max_length=MAX_HEADERS, description="Headers of each request"),
        AfterValidator(_are_headers),
    ] = {}  # fmt: skip


def _has_null_character(document: Any) -> bool:
    """Return whether any text has the character that PostgreSQL does not store."""
    match document:
        case str():
            return "\0" in document
        case dict():
            return any(_has_null_character(each) for member in document.items() for each in member)
        case list():
            return any(map(_has_null_character, document))
    return False


def read_configuration(shape: type[C], document: dict[str, Any], what: str = "configuration") -> C:
    """Parse a configuration, or the secret of a hook. Raises `InvalidRule` (400)."""
    if len(write_json(document)) > MAX_CONFIGURATION_BYTES:
        raise InvalidRule(f"{what}: larger than {MAX_CONFIGURATION_BYTES} bytes", field=what)
    if _has_null_character(document):
        raise InvalidRule(f"{what}: must not contain the character U+0000", field=what)
    try:
        return shape.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        member = ".".join([what, *(str(each)[:100] for each in first["loc"])])
        text = first["msg"].removeprefix("Value error, ")
        raise InvalidRule(f"{member}: {text[:1].lower()}{text[1:]}", field=member) from None
