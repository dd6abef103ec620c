"""Maps the claims of a verified token to an identity: pure functions, and templates of display names."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from tenancy.actor import AuthenticationFailed, Identity, require_user_id


def claim_value(claims: Mapping[str, Any], path: str) -> Any:
    """Return the claim with that name, else the one at the dotted path (`realm_access.roles`), else None."""
    if path in claims:
        return claims[path]
    value: Any = claims
    for name in path.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return None
        value = value[name]
    return value


def texts(value: Any) -> tuple[str, ...]:
    """Return the text, or the list of texts, of a claim; empty for any other value."""
    values = value if isinstance(value, list) else [value]
    return tuple(values) if all(isinstance(each, str) for each in values) else ()


_PIECE = re.compile(r"(?P<brace>\{\{|\}\})|\{(?P<claim>[^{}]*)\}|(?P<text>[^{}]+)|(?P<lone>.)")


@dataclass(frozen=True, slots=True)
class NameTemplate:
    """A display name with claims, such as `{given} {ext.team}`: pieces `(text, None)` or `("", path of a claim)`."""

    pieces: tuple[tuple[str, str | None], ...]

    def fill(self, claims: Mapping[str, Any]) -> str | None:
        """Return the name; None if a claim is missing or is neither text nor an integer."""
        filled = []
        for text, path in self.pieces:
            value = text if path is None else claim_value(claims, path)
            if isinstance(value, bool) or not isinstance(value, str | int):
                return None
            filled.append(str(value))
        return "".join(filled)


def parse_template(text: str) -> NameTemplate:
    """Parse a template, in which `{{` and `}}` are literal braces.

    Raises `ValueError` for an unmatched brace, for braces without a claim, and for a template without any claim.
    """
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
    """Names or dotted paths of the claims from which the identity is read."""

    provider_id: str
    subject: tuple[str, ...] = ("oid", "sub")
    roles: str | None = None
    name: tuple[str, ...] = ()
    email: tuple[str, ...] = ()
    template: NameTemplate | None = None


def identity_of(claims: Mapping[str, Any], rules: ClaimRules) -> Identity:
    """Return the identity. Raises `AuthenticationFailed` without a subject, `BadRequest` for an invalid subject."""
    subject = next((value for path in rules.subject if isinstance(value := claim_value(claims, path), str)), None)
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
    """Return `<provider id>~<subject>`. Raises the errors of `require_user_id` (400)."""
    return require_user_id(f"{provider_id}~{subject}")


def _full_name(claims: Mapping[str, Any], rules: ClaimRules) -> str | None:
    """Return the full name of a human user, or given and family name joined."""
    full = _first_text(claims, (*rules.name, "name"), MAX_NAME_LENGTH)
    if full is not None:
        return full
    given = _first_text(claims, ("given_name", "first_name"), MAX_NAME_LENGTH)
    family = _first_text(claims, ("family_name", "last_name"), MAX_NAME_LENGTH)
    return " ".join(part for part in (given, family) if part)[:MAX_NAME_LENGTH] or None


def _name(claims: Mapping[str, Any], rules: ClaimRules) -> str | None:
    name = _full_name(claims, rules) or _first_text(claims, ("app_displayname", "preferred_username"), MAX_NAME_LENGTH)
    if name is None and rules.template is not None:
        filled = rules.template.fill(claims)
        name = filled and _clean(filled, MAX_NAME_LENGTH)
    return name or None


def _email(claims: Mapping[str, Any], rules: ClaimRules) -> str | None:
    for path in (*rules.email, "email", "upn", "preferred_username"):
        address = _first_text(claims, (path,), MAX_EMAIL_LENGTH + 1)
        if address and len(address) <= MAX_EMAIL_LENGTH and (path == "email" or "@" in address):
            return address
    return None


def _user_type(claims: Mapping[str, Any], rules: ClaimRules) -> Literal["human", "application"]:
    """Return the user type from `idtyp` (Entra); without it, a user with a full name is human."""
    match claims.get("idtyp"):
        case "user":
            return "human"
        case "app" | "device":
            return "application"
        case _:
            return "human" if _full_name(claims, rules) else "application"


def _roles(claims: Mapping[str, Any], path: str | None) -> tuple[str, ...]:
    """Return the role names without duplicates and without values that are no valid role name."""
    value = claim_value(claims, path) if path is not None else None
    names = value if isinstance(value, list) else [value]
    return tuple(dict.fromkeys(name for name in names if isinstance(name, str) and _can_be_role(name)))


def _can_be_role(name: str) -> bool:
    has_control = any(unicodedata.category(character) == "Cc" for character in name)
    return 0 < len(name) <= MAX_ROLE_LENGTH and not has_control


def _first_text(claims: Mapping[str, Any], paths: Iterable[str], max_length: int) -> str | None:
    for path in paths:
        value = claim_value(claims, path)
        text = _clean(value, max_length) if isinstance(value, str) else ""
        if text:
            return text
    return None


def _clean(text: str, max_length: int) -> str:
    """Return the text on one line, without control characters, truncated."""
    visible = "".join(" " if unicodedata.category(each) in {"Cc", "Zl", "Zp"} else each for each in text)
    return " ".join(visible.split())[:max_length]
