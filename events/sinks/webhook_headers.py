"""Headers of webhooks: attributes of CloudEvents, and the headers that a configuration may add."""

from __future__ import annotations

import re
from typing import Final

from events.cloud_events import CloudEvent

MAX_HEADERS: Final = 20
MAX_VALUE_CHARACTERS: Final = 4096

_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_VALUE: Final = re.compile(r"[!-~](?:[ -~]*[!-~])?")
_ENCODED: Final = re.compile(r"[^!#-$&-~]")
_RESERVED_NAMES: Final = frozenset(
    {
        "accept-encoding",
        "connection",
        "date",
        "expect",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
    }
)
_RESERVED_PREFIXES: Final = ("ce-", "content-", "proxy-", "webhook-")


def attribute_headers(event: CloudEvent) -> dict[str, str]:
    """Return the attributes as headers of the HTTP protocol binding: `ce-<name>`, values percent-encoded.

    `datacontenttype` is not among them: it is the header Content-Type.
    """
    attributes = event.attributes.items()
    return {f"ce-{name}": encode_value(str(value)) for name, value in attributes if name != "datacontenttype"}


def encode_value(text: str) -> str:
    """Percent-encode the UTF-8 bytes of what cannot be in a header: blanks, `"`, `%`, and all but visible ASCII."""
    return _ENCODED.sub(_percent_encode, text)


def _percent_encode(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "surrogatepass"))


def check_header(name: str, value: str) -> None:
    """Raise ValueError for a header that a configuration may not add; the message does not contain the value."""
    if not _NAME.fullmatch(name):
        raise ValueError("the name of a header must be a token of HTTP, of at most 128 characters")
    if name.lower() in _RESERVED_NAMES or name.lower().startswith(_RESERVED_PREFIXES):
        raise ValueError(f"the header {name} is set by the server")
    if len(value) > MAX_VALUE_CHARACTERS or not _VALUE.fullmatch(value):
        raise ValueError(
            f"the value of the header {name} must be visible ASCII and blanks within it, of at most "
            f"{MAX_VALUE_CHARACTERS} characters"
        )
