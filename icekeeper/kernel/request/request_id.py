"""The id of the request at hand: in the response's `x-request-id`, in every log line, in the events it causes."""

from __future__ import annotations

import re
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from icekeeper.kernel.ids import new_id, parse_id

MAX_LENGTH: Final = 128
_PRINTABLE: Final = re.compile(rf"[\x20-\x7e]{{1,{MAX_LENGTH}}}")


@dataclass(frozen=True, slots=True)
class RequestId:
    """`text` is what clients send and get back; `uuid` is the same id where only a UUID can be stored."""

    text: str
    uuid: UUID

    def log_fields(self) -> dict[str, str]:
        """`request_id`, and `request_uuid` where the text is no UUID in canonical form."""
        fields = {"request_id": self.text}
        if (uuid := str(self.uuid)) != self.text:
            fields["request_uuid"] = uuid
        return fields


_current: ContextVar[RequestId | None] = ContextVar("request_id", default=None)


def current_request_id() -> RequestId | None:
    """Return the id of the request that this code runs for; None outside requests (commands, workers)."""
    return _current.get()


def choose_request_id(header: str | None) -> RequestId:
    """Keep what the client sent if it is printable ASCII of at most `MAX_LENGTH` characters, else take a new UUIDv7.

    Beside a text that is no UUID stands a new one.
    """
    if header is None or header.isspace() or _PRINTABLE.fullmatch(header) is None:
        uuid = new_id()
        return RequestId(str(uuid), uuid)
    return RequestId(header, parse_id(header) or new_id())


def set_request_id(request_id: RequestId | None) -> None:
    """Bind `request_id` to the code that runs next on this thread; None when the request is over."""
    _current.set(request_id)
