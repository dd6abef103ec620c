"""User ids: `<provider>~<subject>`, split at the first `~`; a subject may contain further ones."""

from __future__ import annotations

import re

from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.names import hidden_character

MAX_SUBJECT_BYTES = 127
"""Bytes of UTF-8."""

RESERVED_PROVIDERS = frozenset({"icekeeper", "lakekeeper", "system"})
"""Providers of this server: users of `icekeeper` are service accounts, the others have no users."""

OWN_PROVIDERS = RESERVED_PROVIDERS | {"local"}
"""Providers of users that no identity provider knows."""

_LOCAL_ID = re.compile(r"local~[a-z0-9][a-z0-9._@-]{0,119}", re.ASCII)
_PROVIDER = re.compile(r"[a-z0-9-]{1,127}")


class EmptyUserId(BadRequest):
    wire_type = "EmptyUserIdError"


class UserIdTooLong(BadRequest):
    wire_type = "UserIdTooLongError"


class InvalidUserId(BadRequest):
    wire_type = "InvalidUserIdError"


def require_user_id(text: str) -> str:
    """Return `text` if it can be the id of a user; it is kept letter by letter.

    Raises `EmptyUserId`, `UserIdTooLong` or `InvalidUserId` (400).
    """
    if not text:
        raise EmptyUserId("A user id must not be empty")
    provider, tilde, subject = text.partition("~")
    if not tilde or not _PROVIDER.fullmatch(provider):
        raise InvalidUserId("A user id is <provider>~<subject>, the provider of lower-case letters, digits and -")
    if hidden_character(subject) is not None:
        raise InvalidUserId("A user id must not contain invisible characters")
    if not subject.strip():
        raise EmptyUserId("A user id must have a subject after the first ~")
    if len(subject.encode()) > MAX_SUBJECT_BYTES:
        raise UserIdTooLong(f"The subject of a user id is longer than {MAX_SUBJECT_BYTES} bytes")
    return text


def require_new_user_id(text: str) -> str:
    """`require_user_id` for a user who is created or restored by another caller.

    Raises `InvalidUserId` (400) also for reserved providers, and for invalid names of local users.
    """
    provider = require_user_id(text).partition("~")[0]
    if provider in RESERVED_PROVIDERS:
        raise InvalidUserId(f"Users of the provider {provider} are created by the server alone")
    return require_local_user_id(text) if provider == "local" else text


def require_local_user_id(text: str) -> str:
    """Return `text` if it is the id of a local user, whom no identity provider knows. Raises `InvalidUserId` (400)."""
    if not _LOCAL_ID.fullmatch(text):
        raise InvalidUserId(
            "The id of a local user is local~<name>: lower-case letters, digits and . _ @ -, at most 120, the first "
            "one a letter or digit"
        )
    return text
