"""Secrets that tests recognise in every encoding (canaries)."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import quote, quote_plus

CANARY = "cAn4ry+7f/3a9=c5"
"""With characters that base64, URLs and JSON write differently."""

CANARY_HOST = "can4ry7f3a9c5.example.com"
"""Where only an address will do."""

KEPT_AS_THEY_ARE = {"type", "credential-type"}


def planted(credential: dict[str, Any]) -> dict[str, Any]:
    """The credential with a canary in each member except those that name its type."""
    return {
        member: value
        if member in KEPT_AS_THEY_ARE
        else _planted_key(value)
        if isinstance(value, dict)
        else f"{member}-{CANARY}"
        for member, value in credential.items()
    }


def _planted_key(key: dict[str, Any]) -> dict[str, Any]:
    addresses = {member: f"https://{CANARY_HOST}/{member}" for member in ("token_uri", "auth_uri")}
    return {member: f"{member}-{CANARY}" for member in key} | addresses | {"universe_domain": CANARY_HOST}


def forms() -> dict[str, bytes]:
    """Encodings of the canaries to search for, by name, case-insensitively."""
    plain = CANARY.encode()
    found = {
        "plain": plain, "host": CANARY_HOST.split(".", maxsplit=1)[0].encode(), "hex": plain.hex().encode(),
        "url": quote(CANARY, safe="").encode(), "url, slashes kept": quote(CANARY).encode(),
        "form": quote_plus(CANARY).encode(), "json, slashes escaped": plain.replace(b"/", b"\\/"),
        "utf-16": CANARY.encode("utf-16-le"),
    }  # fmt: skip
    for offset in range(3):
        padded = base64.b64encode(b"\0" * offset + plain).rstrip(b"=")
        inner = padded[-(-offset * 8 // 6) : -1]  # independent of the neighbouring bytes
        found[f"base64 at {offset}"] = inner
        found[f"base64url at {offset}"] = inner.replace(b"+", b"-").replace(b"/", b"_")
    return {name: form.lower() for name, form in found.items()}


def leaks(output: bytes) -> list[str]:
    """The canary encodings in `output`, with their context."""
    lower = output.lower()
    return [
        f"{name}: {output[max(0, at - 80) : at + 80]!r}"
        for name, form in forms().items()
        if (at := lower.find(form)) >= 0
    ]
