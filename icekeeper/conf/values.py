"""Types of setting values: durations, lists, URLs, keys."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Annotated, Any, Final, get_args

import psycopg
from psycopg.conninfo import conninfo_to_dict
from pydantic import AfterValidator, BeforeValidator, Field, GetCoreSchemaHandler, SecretStr
from pydantic_core import CoreSchema, core_schema

from icekeeper.conf.parsing import parse_value
from icekeeper.kernel.clock import read_duration

DAY = 86400.0
AUTHZ_BACKENDS = ("allowall", "builtin", "openfga")
MIN_KEY_CHARACTERS, MIN_DIFFERENT_CHARACTERS = 32, 8
"""Minimum strength of a signing key: the holder of a token can guess its key offline."""

MAX_FORMER_KEYS = 16


def _duration(value: object) -> object:
    return read_duration(value) if isinstance(value, str) else value


def read_list(value: object) -> object:
    """Return the list in `["a", "b"]`, with or without quotes (`[a, b]`) and brackets (`a,b`)."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if not text.startswith("["):
        text = f"[{text}]"
    elif not text.endswith("]"):
        raise ValueError("a list such as [a,b] or a,b")
    try:
        return parse_value(text)
    except ValueError:
        if '"' in text:
            raise
    # Items without quotes may contain brackets, such as URLs with an IPv6 address.
    return [item.strip() for item in text[1:-1].split(",") if item.strip()]


_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")
_ORIGIN_PORTS = {"http": ":80", "https": ":443"}


def _origins(texts: list[str]) -> list[str]:
    """Return origins as browsers send them: in lower case, without a trailing slash and the default port.

    Raises ValueError for an entry that no browser sends.
    """
    origins = []
    for text in texts:
        origin = text.lower().removesuffix("/")
        if origin not in {"*", "null"}:
            matched = _ORIGIN.fullmatch(origin)
            if matched is None:
                raise ValueError("*, null, or origins such as https://app.example.com:8443, without path or wildcard")
            scheme, host, port = matched.groups(default="")
            origin = f"{scheme}://{host}{'' if port == _ORIGIN_PORTS.get(scheme) else port}"
        origins.append(origin)
    return origins


def _fold(name: str) -> str:
    return name.strip().lower().replace("-", "").replace("_", "")


class _AnySpelling:
    """Annotation of a `Literal`: its values are accepted in any case, with or without hyphens and underscores."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        values = {_fold(value): value for value in get_args(source)}

        def canonical(value: object) -> object:
            return values.get(_fold(value), value) if isinstance(value, str) else value

        return core_schema.no_info_before_validator_function(canonical, handler(source))


ANY_SPELLING: Final = _AnySpelling()


def _user_ids(ids: list[str]) -> list[str]:
    """Require the form `<provider>~<subject>`: an id of another form matches no user."""
    if any(not all(each.partition("~")[::2]) for each in ids):
        raise ValueError("a list of user ids such as [oidc~alice,kubernetes~robot]")
    return ids


def _authz_backend(text: str) -> str:
    """Return the name of a backend, or the dotted path of a class, which cannot be imported while settings are read."""
    for name in AUTHZ_BACKENDS:
        if _fold(text) == name:
            return name
    if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", text):
        raise ValueError(f"one of {', '.join(AUTHZ_BACKENDS)}, or the dotted path of a class")
    return text


def _database_url(value: object) -> object:
    """Require a URL that libpq accepts; the message does not contain it, because it is a secret."""
    if isinstance(value, str):
        try:
            conninfo_to_dict(value)
        except psycopg.Error:
            value = ""
        if not value.startswith(("postgres://", "postgresql://")):
            raise ValueError("a URL such as postgresql://user:password@host:5432/database")
    return value


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,15}")
_HOST = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")


def shown_address(text: str) -> str:
    """Return scheme, host and port of a URL for messages; its other parts may be secret."""
    scheme, slashes, rest = text.strip().partition("://")
    if not slashes:
        return "a hidden value" if re.search(r"[@?#]", text) else repr(text)
    if not _SCHEME.fullmatch(scheme):
        return "a hidden value"
    authority = re.split(r"[/?#\\]", rest, maxsplit=1)[0]
    host, beyond = authority.rpartition("@")[2], rest[len(authority) :]
    if not _HOST.fullmatch(host) or "@" in beyond:  # the host may be a user name, if the password contains a slash
        return f"{scheme!r} and hidden parts"
    shown = repr(f"{scheme}://{host}")
    return shown if host == authority and beyond in {"", "/"} else f"{shown} and hidden parts"


def require_signing_key(text: str) -> None:
    """Raise ValueError for a weak key; the message does not contain it."""
    characters = text.strip()
    if len(characters) < MIN_KEY_CHARACTERS or len(set(characters)) < MIN_DIFFERENT_CHARACTERS:
        raise ValueError(
            f"{MIN_KEY_CHARACTERS} or more random characters, {MIN_DIFFERENT_CHARACTERS} of them different, "
            "such as the output of `openssl rand -base64 48`"
        )


def _signing_key(value: SecretStr) -> SecretStr:
    require_signing_key(value.get_secret_value())
    return value


def _port_or_off(value: object) -> object:
    return 0 if isinstance(value, str) and value.strip().lower() == "off" else value


def _retention(value: object) -> object:
    if isinstance(value, str) and value.strip().lower() in {"0", "none", "off"}:
        return 0.0
    return _duration(value)


DatabaseUrl = Annotated[SecretStr, BeforeValidator(_database_url)]
Duration = Annotated[float, BeforeValidator(_duration), Field(gt=0)]
BoundedDuration = Annotated[float, BeforeValidator(_duration), Field(gt=0, le=36_500 * DAY)]
"""At most a hundred years, so that it can be subtracted from a date."""
Leeway = Annotated[float, BeforeValidator(_duration), Field(ge=0, le=300)]
OptionalPort = Annotated[int, BeforeValidator(_port_or_off), Field(ge=0, le=65535)]
"""0 disables the listener."""
Retention = Annotated[float, BeforeValidator(_retention), Field(ge=0, le=36_500 * DAY)]
"""0 keeps records without limit."""
ShortDuration = Annotated[float, BeforeValidator(_duration), Field(ge=1, le=DAY)]
"""From one second to one day."""
WorkerCount = Annotated[int, Field(ge=0, le=64)]
"""Threads of a worker for one queue."""
SigningKey = Annotated[SecretStr, AfterValidator(_signing_key)]
SigningKeyList = Annotated[list[SigningKey], BeforeValidator(read_list), Field(max_length=MAX_FORMER_KEYS)]
StringList = Annotated[list[str], BeforeValidator(read_list)]
OriginList = Annotated[list[str], BeforeValidator(read_list), AfterValidator(_origins)]
AuthzBackend = Annotated[str, AfterValidator(_authz_backend)]
UserIdList = Annotated[list[str], BeforeValidator(read_list), AfterValidator(_user_ids)]


_ENDPOINT = re.compile(
    r"(?:(?P<scheme>https?)://)?(?:\[(?P<six>[0-9a-f:.]+)\]|(?P<name>(?:\*\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*))"
    r"(?::(?P<port>[0-9]{1,5}))?/?"
)
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class EndpointPattern:
    """A host, or all subdomains if `host` begins with a dot. None: any scheme, any port."""

    scheme: str | None
    host: str
    port: int | None

    def matches(self, scheme: str, host: str, port: int) -> bool:
        """`host` is in lower case; an IP address in standard notation without brackets."""
        is_host = host.endswith(self.host) if self.host.startswith(".") else host == self.host
        return is_host and self.scheme in {None, scheme} and self.port in {None, port}

    def __str__(self) -> str:
        host = f"*{self.host}" if self.host.startswith(".") else self.host
        named = f"[{host}]" if ":" in host else host
        return f"{self.scheme}://{named}:{self.port}" if self.scheme else named + (f":{self.port}" if self.port else "")


def read_pattern(text: str) -> EndpointPattern:
    """Parse an entry of ALLOWED_ENDPOINTS. Raises ValueError."""
    matched = _ENDPOINT.fullmatch(text.strip().lower())
    if matched is None:
        raise ValueError("a list of hosts such as minio.example.com, *.example.com, https://minio.example.com:9000")
    scheme = matched["scheme"]
    host = str(IPv6Address(matched["six"])) if matched["six"] else matched["name"].removeprefix("*")
    return EndpointPattern(scheme, host, int(matched["port"]) if matched["port"] else _DEFAULT_PORTS.get(scheme))


def _patterns(value: object) -> object:
    listed = read_list(value)
    return [read_pattern(str(each)) for each in listed] if isinstance(listed, list) else listed


EndpointList = Annotated[list[EndpointPattern], BeforeValidator(_patterns)]
