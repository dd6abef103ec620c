"""Resolve references to secrets in declarations: `{env: NAME}` or `{file: PATH}` instead of a string.

With `format: json` the reference is replaced by a JSON object, such as the key file of a service account.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from management.bootstrap.document import InvalidDocument, parse_document

MAX_SECRET_BYTES: Final = 65_536


class MissingSecret(Exception):
    """A referenced secret does not exist; the message has the path of the reference."""


def resolve_secrets(value: Any, path: str) -> Any:
    """Return `value` with references replaced by secrets. Raises `MissingSecret`; its message begins with `path`."""
    if isinstance(value, list):
        return [resolve_secrets(each, f"{path}[{number}]") for number, each in enumerate(value)]
    if not isinstance(value, dict):
        return value
    kinds = value.keys() & {"env", "file"}
    if len(kinds) != 1 or not value.keys() <= {"env", "file", "format"}:
        return {name: resolve_secrets(each, f"{path}.{name}") for name, each in value.items()}
    (kind,) = kinds
    name, form = value[kind], value.get("format", "text")
    if not isinstance(name, str) or not name:
        raise MissingSecret(f"{path}.{kind}: must be a non-empty string")
    if form not in ("text", "json"):
        raise MissingSecret(f"{path}.format: must be text or json")
    secret = _of_variable(name, path) if kind == "env" else _of_file(Path(name), path)
    if form == "text":
        return secret
    try:
        return parse_document(secret.encode(errors="surrogateescape"), is_json=True)
    except InvalidDocument as error:
        raise MissingSecret(f"{path}: the content of {kind} {name!r} cannot be read: {error}") from None


def _of_variable(name: str, path: str) -> str:
    secret = os.environ.get(name, "").strip()
    if not secret:
        raise MissingSecret(f"{path}: the variable {name!r} is not set or empty")
    return secret


def _of_file(file: Path, path: str) -> str:
    try:
        with file.open("rb") as opened:
            content = opened.read(MAX_SECRET_BYTES + 1)
        secret = content.decode().strip()
    except OSError as error:
        raise MissingSecret(f"{path}: {file} cannot be read: {error.strerror or type(error).__name__}") from None
    except (UnicodeDecodeError, ValueError):
        raise MissingSecret(f"{path}: {file} cannot be read: not UTF-8") from None
    if not secret or len(content) > MAX_SECRET_BYTES:
        raise MissingSecret(f"{path}: {file} is empty or larger than {MAX_SECRET_BYTES} bytes")
    return secret
