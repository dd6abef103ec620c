"""Display names made of claims: `{given} {ext.team}`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tenancy.authn.oidc.claim_paths import claim_at

_PIECE = re.compile(r"(?P<brace>\{\{|\}\})|\{(?P<claim>[^{}]*)\}|(?P<text>[^{}]+)|(?P<lone>.)")


@dataclass(frozen=True, slots=True)
class NameTemplate:
    """Pieces in their order: (text, None) or ("", path of a claim)."""

    pieces: tuple[tuple[str, str | None], ...]

    def fill(self, claims: Mapping[str, Any]) -> str | None:
        """None when a claim is missing or is neither text nor a whole number."""
        filled = []
        for text, path in self.pieces:
            value = text if path is None else claim_at(claims, path)
            if isinstance(value, bool) or not isinstance(value, str | int):
                return None
            filled.append(str(value))
        return "".join(filled)


def parse_template(text: str) -> NameTemplate:
    """`{{` and `}}` stand for braces. Raises ValueError for a brace without its other half, or without a claim."""
    pieces: list[tuple[str, str | None]] = []
    for piece in _PIECE.finditer(text):
        path = piece["claim"]
        if piece["lone"] is not None:
            raise ValueError(
                f"a template such as {{given}} {{team}}: the brace at {piece.start() + 1} has no other half"
            )
        if path is not None and not all(path.strip().split(".")):
            raise ValueError(f"a template such as {{given}} {{team}}: the braces at {piece.start() + 1} name no claim")
        if path is not None:
            pieces.append(("", path.strip()))
        else:
            pieces.append((piece["brace"][0] if piece["brace"] else piece["text"], None))
    if not any(path for _, path in pieces):
        raise ValueError("a template such as {given} {team}, with at least one claim")
    return NameTemplate(tuple(pieces))
