"""Format of access tokens: `ikp_` or `iks_`, the id of their row, `_`, a secret, a checksum.

    ikp_ + id of the row (22 characters) + _ + 256 random bits (43) + CRC-32 of all before it (6)

Base 62, so that a double click selects all of it; always 76 characters, so that secret scanners find it:
`ik[ps]_[0-9A-Za-z]{22}_[0-9A-Za-z]{49}`, with a checksum that they can verify. The checksum is no protection: it
rejects typos and invented tokens without a database query.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Final
from uuid import UUID
from zlib import crc32

ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
SECRET_BITS: Final = 256
_ID_LENGTH, _SECRET_LENGTH, _CHECKSUM_LENGTH = 22, 43, 6
_SHAPE = re.compile(r"(ikp|iks)_([0-9A-Za-z]{22})_[0-9A-Za-z]{43}([0-9A-Za-z]{6})", re.ASCII)


class TokenKind(StrEnum):
    """Prefix of a token: a personal access token, or a secret of a service account."""

    PERSONAL = "ikp"
    SERVICE = "iks"


@dataclass(frozen=True, slots=True)
class TokenText:
    """A well-formed token, which may not exist."""

    kind: TokenKind
    token_id: UUID


def create_token_text(kind: TokenKind, token_id: UUID) -> str:
    """Return a new random token for the row `token_id`."""
    body = f"{token_prefix(kind, token_id)}_{_write(secrets.randbits(SECRET_BITS), _SECRET_LENGTH)}"
    return body + _checksum(body)


def token_prefix(kind: TokenKind, token_id: UUID) -> str:
    """Return the beginning of a token, which identifies it and contains nothing secret."""
    return f"{kind}_{_write(token_id.int, _ID_LENGTH)}"


def read_token(text: str) -> TokenText | None:
    """Parse a token; None for a text that `create_token_text` cannot have returned."""
    shape = _SHAPE.fullmatch(text)
    if shape is None or shape[3] != _checksum(text[:-_CHECKSUM_LENGTH]):
        return None
    number = _read(shape[2])
    return TokenText(TokenKind(shape[1]), UUID(int=number)) if number < 2**128 else None


def read_prefix(text: str) -> UUID | None:
    """Return the id of the token with this prefix; None for an invalid prefix."""
    kind, _, number = text.partition("_")
    is_one = kind in set(TokenKind) and len(number) == _ID_LENGTH and set(number) <= set(ALPHABET)
    return UUID(int=_read(number)) if is_one and _read(number) < 2**128 else None


def token_digest(text: str) -> str:
    """Return what is stored of a token: its SHA-256 in hex.

    Slow hashes protect passwords, which have little entropy. A token has 256 random bits, so a fast hash is sufficient.
    """
    return sha256(text.encode("ascii")).hexdigest()


def _checksum(body: str) -> str:
    return _write(crc32(body.encode("ascii")), _CHECKSUM_LENGTH)


def _write(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, digit = divmod(number, 62)
        digits.append(ALPHABET[digit])
    return "".join(reversed(digits))


def _read(text: str) -> int:
    number = 0
    for character in text:
        number = number * 62 + ALPHABET.index(character)
    return number
