"""Base of the storage profiles and credentials of the management API: pydantic models with plain error messages.

Unknown members are ignored, as in Lakekeeper, and null means absent. No message repeats a value: what stands in the
wrong member may be a secret.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Final, TypeVar, get_args

from pydantic import AfterValidator, AnyHttpUrl, BaseModel, ConfigDict, Field, ValidationError, model_validator

from icekeeper.kernel.errors.types import BadRequest

MAX_TEXT_LENGTH = 2048
"""Characters of a text that has no bound of its own."""


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
    """One of `MEMBERS_WITH_RULES` that has the right type and a wrong value.

    Of a member of a storage profile the error's type is `Invalid` and its name as it is written, as Lakekeeper has it.
    """

    wire_types: ClassVar = {member: f"Invalid{member}" for member in MEMBERS_WITH_RULES} | {
        "external-id": "InvalidExternalId",
        "storage-credential": "InvalidStorageCredential",
    }

    def __init__(self, member: str, message: str) -> None:
        super().__init__(f"{member}: {message}", field=member)
        self.wire_type = self.wire_types[member]  # type: ignore[misc]  # of the member, not of a class


class StorageDocument(BaseModel):
    """A part of a request: JSON keys are written `like-this`, in Python the fields are named `like_this`."""

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

    older_names: ClassVar[Mapping[str, str]] = {}
    """Other names that members may come under, and the ones that they are known by."""

    @model_validator(mode="before")
    @classmethod
    def _as_known(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        known: dict[str, Any] = {}
        for name, value in given.items():
            if value is None:
                continue
            member = cls.older_names.get(name, name)
            if member in known:
                raise ValueError(f"{member} is given under two names")
            known[member] = value
        return known

    def as_json(self) -> dict[str, Any]:
        """As it is stored and shown, with every member."""
        return self.model_dump(mode="json", by_alias=True)


D = TypeVar("D", bound=StorageDocument)


def only_value(shape: type[StorageDocument], field: str) -> str:
    """Return the one value that `shape` allows in a field, which distinguishes shapes."""
    return str(get_args(shape.model_fields[field].annotation)[0])


def read_document(shape: type[D], given: dict[str, Any], what: str) -> D:
    """Raises `BadRequest` naming the first member at fault, `InvalidMember` when only its value is wrong."""
    try:
        return shape.model_validate(given)
    except ValidationError as error:
        raise _bad_request(error, what) from None


def unknown_members(shape: type[StorageDocument], given: Mapping[str, Any]) -> list[str]:
    """Return the names in `given` that `read_document` ignores, for callers that reject them."""
    known = {field.alias or name for name, field in shape.model_fields.items()} | shape.older_names.keys()
    return sorted(given.keys() - known)


def _bad_request(error: ValidationError, what: str) -> BadRequest:
    item = error.errors(include_url=False, include_context=True, include_input=False)[0]
    path = ".".join(str(part) for part in item["loc"])[:100]
    message = str(item["msg"]).removeprefix("Value error, ")
    if item["type"] == "union_tag_invalid":
        message = f"must be one of {item['ctx']['expected_tags']}"
    if item["type"] == "value_error" and path in MEMBERS_WITH_RULES:
        return InvalidMember(path, message)
    return BadRequest(f"{what}.{path}: {message}" if path else f"{what}: {message}")


def plain(text: str) -> str:
    if any(unicodedata.category(character) in {"Cc", "Cf", "Cs"} for character in text):
        raise ValueError("must not hold control characters")
    return text


def trimmed(text: str) -> str:
    """Without blanks around it; `str.strip` would take control characters for blanks, too."""
    return text.strip(" \t\r\n")


def _trimmed(text: str | None) -> str | None:
    return None if text is None else plain(trimmed(text)) or None


def _relative(text: str | None) -> str | None:
    """A folder in a bucket: without slashes around it, without empty and dot segments; None for the bucket itself."""
    folder = plain(trimmed(trimmed(text or "").strip("/")))
    if any(segment in {"", ".", ".."} for segment in folder.split("/")) and folder:
        raise ValueError("must not have empty or dot segments")
    if re.search(r"[?#]|://", folder):
        raise ValueError("must not hold ?, # or ://")
    return folder or None


def folder_up_to(longest: int) -> Callable[[str | None], str | None]:
    """A check of members that name a folder of at most `longest` bytes, see `_relative`."""

    def check(text: str | None) -> str | None:
        folder = _relative(text)
        if folder is not None and len(folder.encode()) > longest:
            raise ValueError(f"must not be longer than {longest} bytes")
        return folder

    return check


def matching(pattern: str, says: str) -> Callable[[str], str]:
    """A check of texts that must match `pattern` as a whole; `says` is the complaint about others."""
    compiled = re.compile(pattern)

    def check(text: str) -> str:
        if not compiled.fullmatch(text):
            raise ValueError(says)
        return text

    return check


def _address(text: str | None) -> str | None:
    """An address of a server in its usual spelling, with a slash at its end when it names no path."""
    if text is None:
        return None
    try:
        address = AnyHttpUrl(plain(trimmed(text)))
    except ValidationError:
        raise ValueError("must be an http or https address") from None
    if address.username is not None or address.password is not None:
        raise ValueError("must not hold a user or password")
    if address.query is not None or address.fragment is not None:
        raise ValueError("must not have a query or fragment")
    return str(address)


OptionalText = Annotated[str | None, Field(max_length=MAX_TEXT_LENGTH), AfterValidator(_trimmed)]
"""Blank means absent."""

Address = Annotated[str | None, Field(max_length=MAX_TEXT_LENGTH), AfterValidator(_address)]
Seconds = Annotated[int, Field(ge=0, le=604_800)]
"""Up to seven days: no store gives credentials for longer."""
