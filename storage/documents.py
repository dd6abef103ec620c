"""Base class of storage profiles and credentials: pydantic models that raise `BadRequest` with plain messages.

Unknown members are ignored, as in Lakekeeper, and null means absent. No message contains a value: it may be a secret in
the wrong member.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Final, TypeVar, get_args

from pydantic import AfterValidator, AnyHttpUrl, BaseModel, ConfigDict, Field, ValidationError, model_validator

from icekeeper.kernel.errors.types import BadRequest

MAX_TEXT_LENGTH = 2048
"""Default limit of a text, in characters."""


MEMBERS_WITH_RULES: Final = (
    "account-name",
    "assume-role-arn",
    "authority-host",
    "aws-kms-key-arn",
    "bucket",
    "credentials-group-urn",
    "directory-rel-path",
    "endpoint",
    "external-id",
    "filesystem",
    "host",
    "key-prefix",
    "lakehouse-id",
    "path-style-access",
    "region",
    "remote-signing-enabled",
    "storage-credential",
    "sts-endpoint",
    "sts-role-arn",
    "sts-session-tags",
    "workspace-id",
)


class InvalidMember(BadRequest):
    """A member of `MEMBERS_WITH_RULES` has the right type but an invalid value.

    The wire type is `Invalid` and the name of the member, as in Lakekeeper: `Invalidbucket`.
    """

    wire_types: ClassVar = {member: f"Invalid{member}" for member in MEMBERS_WITH_RULES} | {
        "external-id": "InvalidExternalId",
        "storage-credential": "InvalidStorageCredential",
    }

    def __init__(self, member: str, message: str) -> None:
        super().__init__(f"{member}: {message}", field=form_field(member))
        self.wire_type = self.wire_types[member]  # type: ignore[misc]  # per member


def form_field(member: str) -> str:
    """Return the path in a request of a member of the storage profile, or of the credential."""
    if member == "external-id":
        return "storage-credential.external-id"
    return member if member.startswith("storage-credential") else f"storage-profile.{member}"


class StorageDocument(BaseModel):
    """A JSON object in a request. JSON keys are `kebab-case`, Python fields `snake_case`."""

    model_config = ConfigDict(
        strict=True,
        frozen=True,
        extra="ignore",
        hide_input_in_errors=True,
        alias_generator=lambda name: name.replace("_", "-"),
        validate_by_alias=True,
        validate_by_name=False,
        serialize_by_alias=True,
    )

    aliases: ClassVar[Mapping[str, str]] = {}
    """Alternative JSON names of members, and the names that they stand for."""

    @model_validator(mode="before")
    @classmethod
    def _rename_aliases(cls, document: Any) -> Any:
        if not isinstance(document, dict):
            return document
        members: dict[str, Any] = {}
        for name, value in document.items():
            if value is None:
                continue
            member = cls.aliases.get(name, name)
            if member in members:
                raise ValueError(f"{member} is given under two names")
            members[member] = value
        return members

    def as_json(self) -> dict[str, Any]:
        """Return the document with every member, as it is stored and returned by the API."""
        return self.model_dump(mode="json", by_alias=True)


D = TypeVar("D", bound=StorageDocument)


def literal_value(shape: type[StorageDocument], field: str) -> str:
    """Return the only value that a discriminator field of `shape` may have."""
    return str(get_args(shape.model_fields[field].annotation)[0])


def read_document(shape: type[D], given: dict[str, Any], what: str) -> D:
    """Validate a JSON object. Raises `BadRequest` naming the first invalid member, or `InvalidMember`."""
    try:
        return shape.model_validate(given)
    except ValidationError as error:
        raise _bad_request(error, what) from None


def unknown_members(shape: type[StorageDocument], given: Mapping[str, Any]) -> list[str]:
    """Return the members that `read_document` ignores, for callers that reject them."""
    known = {field.alias or name for name, field in shape.model_fields.items()} | shape.aliases.keys()
    return sorted(given.keys() - known)


def _bad_request(error: ValidationError, what: str) -> BadRequest:
    item = error.errors(include_url=False, include_context=True, include_input=False)[0]
    path = ".".join(str(part) for part in item["loc"])[:100]
    message = str(item["msg"]).removeprefix("Value error, ")
    if item["type"] == "union_tag_invalid":
        message = f"must be one of {item['ctx']['expected_tags']}"
    if item["type"] == "value_error" and path in MEMBERS_WITH_RULES:
        return InvalidMember(path, message)
    field = f"{what}.{path}" if path else what
    return BadRequest(f"{field}: {message}", field=field)


def require_plain_text(text: str) -> str:
    """Raises ValueError for control characters."""
    if any(unicodedata.category(character) in {"Cc", "Cf", "Cs"} for character in text):
        raise ValueError("must not contain control characters")
    return text


def trim(text: str) -> str:
    """Strip whitespace; unlike `str.strip`, no other control characters."""
    return text.strip(" \t\r\n")


def _optional_text(text: str | None) -> str | None:
    return None if text is None else require_plain_text(trim(text)) or None


def _parse_folder(text: str | None) -> str | None:
    """Strip surrounding slashes from a folder in a bucket; None for the bucket itself.

    Raises ValueError for empty and dot segments.
    """
    folder = require_plain_text(trim(trim(text or "").strip("/")))
    if any(segment in {"", ".", ".."} for segment in folder.split("/")) and folder:
        raise ValueError("must not have empty or dot segments")
    if re.search(r"[?#]|://", folder):
        raise ValueError("must not contain ?, # or ://")
    return folder or None


def folder_check(max_bytes: int) -> Callable[[str | None], str | None]:
    """Return a validator for a folder of at most `max_bytes`, see `_parse_folder`."""

    def check(text: str | None) -> str | None:
        folder = _parse_folder(text)
        if folder is not None and len(folder.encode()) > max_bytes:
            raise ValueError(f"must not be longer than {max_bytes} bytes")
        return folder

    return check


def pattern_check(pattern: str, message: str) -> Callable[[str], str]:
    """Return a validator for texts that must match the whole `pattern`; it raises ValueError with `message`."""
    compiled = re.compile(pattern)

    def check(text: str) -> str:
        if not compiled.fullmatch(text):
            raise ValueError(message)
        return text

    return check


def _parse_address(text: str | None) -> str | None:
    """Return a normalized http or https URL; without a path it ends with a slash. Raises ValueError for others."""
    if text is None:
        return None
    try:
        address = AnyHttpUrl(require_plain_text(trim(text)))
    except ValidationError:
        raise ValueError("must be an http or https address") from None
    if address.username is not None or address.password is not None:
        raise ValueError("must not contain a user or password")
    if address.query is not None or address.fragment is not None:
        raise ValueError("must not have a query or fragment")
    return str(address)


OptionalText = Annotated[str | None, Field(max_length=MAX_TEXT_LENGTH), AfterValidator(_optional_text)]
"""A blank text means absent."""

Address = Annotated[str | None, Field(max_length=MAX_TEXT_LENGTH), AfterValidator(_parse_address)]
Seconds = Annotated[int, Field(ge=0, le=604_800)]
"""At most seven days: no store issues credentials for longer."""
