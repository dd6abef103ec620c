"""From the claims of a verified token to whom it speaks for. Pure functions."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from tenancy.authentication_errors import AuthenticationFailed
from tenancy.identity import Identity
from tenancy.user_ids import require_user_id


def claim_at(claims: Mapping[str, Any], path: str) -> Any:
    """The claim of just that name, else the one at the dotted path (`realm_access.roles`); None when there is none."""
    if path in claims:
        return claims[path]
    value: Any = claims
    for name in path.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return None
        value = value[name]
    return value


def texts(value: Any) -> tuple[str, ...]:
    """The text, or the list of texts, that a claim holds; empty when it holds anything else."""
    values = value if isinstance(value, list) else [value]
    return tuple(values) if all(isinstance(each, str) for each in values) else ()


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


MAX_NAME_LENGTH: Final = 255
MAX_EMAIL_LENGTH: Final = 320
MAX_ROLE_LENGTH: Final = 255


@dataclass(frozen=True, slots=True)
class ClaimRules:
    """Where a provider's tokens hold what; names are those of claims, or dotted paths."""

    provider_id: str
    subject: tuple[str, ...] = ("oid", "sub")
    roles: str | None = None
    name: tuple[str, ...] = ()
    email: tuple[str, ...] = ()
    template: NameTemplate | None = None


def identity_of(claims: Mapping[str, Any], rules: ClaimRules) -> Identity:
    """Raises `AuthenticationFailed` for a token without subject, `BadRequest` for a subject that is no user id."""
    subject = next((value for path in rules.subject if isinstance(value := claim_at(claims, path), str)), None)
    if subject is None:
        raise AuthenticationFailed(f"none of the claims {', '.join(rules.subject)} names a subject")
    return Identity(
        user_id=user_id(rules.provider_id, subject),
        provider_id=rules.provider_id,
        user_type=_user_type(claims, rules),
        name=_name(claims, rules),
        email=_email(claims, rules),
        roles=_roles(claims, rules.roles),
        audiences=texts(claims.get("aud")),
    )


def user_id(provider_id: str, subject: str) -> str:
    """`<provider id>~<subject>`. Raises what `require_user_id` raises (400)."""
    return require_user_id(f"{provider_id}~{subject}")


def _own_name(claims: Mapping[str, Any], rules: ClaimRules) -> str | None:
    """The name of a person: whole, or made of given and family name."""
    whole = _first_text(claims, (*rules.name, "name"), MAX_NAME_LENGTH)
    if whole is not None:
        return whole
    given = _first_text(claims, ("given_name", "first_name"), MAX_NAME_LENGTH)
    family = _first_text(claims, ("family_name", "last_name"), MAX_NAME_LENGTH)
    return " ".join(part for part in (given, family) if part)[:MAX_NAME_LENGTH] or None


def _name(claims: Mapping[str, Any], rules: ClaimRules) -> str | None:
    name = _own_name(claims, rules) or _first_text(claims, ("app_displayname", "preferred_username"), MAX_NAME_LENGTH)
    if name is None and rules.template is not None:
        filled = rules.template.fill(claims)
        name = filled and _shown(filled, MAX_NAME_LENGTH)
    return name or None


def _email(claims: Mapping[str, Any], rules: ClaimRules) -> str | None:
    for path in (*rules.email, "email", "upn", "preferred_username"):
        address = _first_text(claims, (path,), MAX_EMAIL_LENGTH + 1)
        if address and len(address) <= MAX_EMAIL_LENGTH and (path == "email" or "@" in address):
            return address
    return None


def _user_type(claims: Mapping[str, Any], rules: ClaimRules) -> Literal["human", "application"]:
    """`idtyp` says it (Entra); else who has the name of a person is one."""
    match claims.get("idtyp"):
        case "user":
            return "human"
        case "app" | "device":
            return "application"
        case _:
            return "human" if _own_name(claims, rules) else "application"


def _roles(claims: Mapping[str, Any], path: str | None) -> tuple[str, ...]:
    """Each once. What cannot be the name of a role is left out."""
    value = claim_at(claims, path) if path is not None else None
    names = value if isinstance(value, list) else [value]
    return tuple(dict.fromkeys(name for name in names if isinstance(name, str) and _can_be_role(name)))


def _can_be_role(name: str) -> bool:
    has_control = any(unicodedata.category(character) == "Cc" for character in name)
    return 0 < len(name) <= MAX_ROLE_LENGTH and not has_control


def _first_text(claims: Mapping[str, Any], paths: Iterable[str], longest: int) -> str | None:
    for path in paths:
        value = claim_at(claims, path)
        text = _shown(value, longest) if isinstance(value, str) else ""
        if text:
            return text
    return None


def _shown(text: str, longest: int) -> str:
    """On one line, without control characters, cut."""
    visible = "".join(" " if unicodedata.category(each) in {"Cc", "Zl", "Zp"} else each for each in text)
    return " ".join(visible.split())[:longest]
