"""Addresses of servers as an operator lists them: hosts, `*.` and a domain, or with scheme and port."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Annotated

from pydantic import BeforeValidator

from icekeeper.setting_values import read_list

_PATTERN = re.compile(
    r"(?:(?P<scheme>https?)://)?(?:\[(?P<six>[0-9a-f:.]+)\]|(?P<name>(?:\*\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*))"
    r"(?::(?P<port>[0-9]{1,5}))?/?"
)
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class EndpointPattern:
    """`host` begins with a dot when it stands for all names below it. None: any scheme, any port."""

    scheme: str | None
    host: str
    port: int | None

    def matches(self, scheme: str, host: str, port: int) -> bool:
        """`host` in lower case, an IP address in its usual form without brackets."""
        is_host = host.endswith(self.host) if self.host.startswith(".") else host == self.host
        return is_host and self.scheme in {None, scheme} and self.port in {None, port}

    def __str__(self) -> str:
        host = f"*{self.host}" if self.host.startswith(".") else self.host
        named = f"[{host}]" if ":" in host else host
        return f"{self.scheme}://{named}:{self.port}" if self.scheme else named + (f":{self.port}" if self.port else "")


def read_pattern(text: str) -> EndpointPattern:
    """Raises ValueError."""
    matched = _PATTERN.fullmatch(text.strip().lower())
    if matched is None:
        raise ValueError("a list of hosts such as minio.example.com, *.example.com, https://minio.example.com:9000")
    scheme = matched["scheme"]
    host = str(IPv6Address(matched["six"])) if matched["six"] else matched["name"].removeprefix("*")
    return EndpointPattern(scheme, host, int(matched["port"]) if matched["port"] else _PORTS.get(scheme))


def _patterns(value: object) -> object:
    listed = read_list(value)
    return [read_pattern(str(each)) for each in listed] if isinstance(listed, list) else listed


EndpointList = Annotated[list[EndpointPattern], BeforeValidator(_patterns)]
