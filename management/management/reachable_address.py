"""The address of this server for texts that commands print, without a request to derive it from."""

from __future__ import annotations

from typing import Any


def reachable_base_url(conf: Any) -> str:
    """Return LAKEKEEPER__BASE_URI, else a URL that works on this machine, without a trailing slash."""
    if conf.base_uri is not None:
        return str(conf.base_uri).rstrip("/")
    return f"http://{reachable_host(conf.bind_ip)}:{conf.listen_port}"


def reachable_host(bind_ip: str) -> str:
    """Return an address that a browser can open, in place of a wildcard address."""
    if bind_ip in {"0.0.0.0", "::"}:  # noqa: S104
        return "127.0.0.1"
    return f"[{bind_ip}]" if ":" in bind_ip else bind_ip
