"""The request body: limited in size, of known length when a view reads it, and never truncated silently."""

from __future__ import annotations

from io import BytesIO
from typing import Any, Protocol

from gunicorn.http.errors import ParseException

from icekeeper.kernel.errors.types import BadRequest, BodyTooLarge, CatalogError, RequestTimeout

_PIECE = 65_536


class Stream(Protocol):
    """`wsgi.input` of a server."""

    def read(self, size: int = -1, /) -> bytes: ...

    def readline(self, size: int = -1, /) -> bytes: ...


class MeasuredBody:
    """A body of `length` bytes; reads raise a `CatalogError` if fewer arrive, too slowly, or with malformed framing.

    Django wraps only OSError, so the exception handler gets these errors unchanged.
    """

    def __init__(self, stream: Stream, length: int) -> None:
        self._stream, self._missing = stream, length

    def read(self, size: int = -1, /) -> bytes:
        """Return `size` bytes, fewer only at the end of the body."""
        wanted = self._wanted(size)
        data = _read(self._stream.read, wanted) if wanted else b""
        return self._count(data, at_least=wanted)

    def readline(self, size: int = -1, /) -> bytes:
        wanted = self._wanted(size)
        data = _read(self._stream.readline, wanted) if wanted else b""
        return self._count(data, at_least=min(wanted, 1))

    def _wanted(self, size: int) -> int:
        return self._missing if size is None or size < 0 else min(size, self._missing)

    def _count(self, data: bytes, *, at_least: int) -> bytes:
        if len(data) < at_least:
            raise BadRequest("The request body ended before its Content-Length")
        self._missing -= len(data)
        return data


def limit_body(environ: dict[str, Any], limit: int) -> None:
    """Limit the request's body to `limit` bytes and prepare it for Django.

    A body with Content-Length is checked before it is read, and read by the view. A chunked body is read here, up to
    the limit, because Django ignores bodies without a length. Raises `BodyTooLarge` (413), `BadRequest` for a malformed
    or compressed body, `RequestTimeout` (408) for one that stalls.
    """
    coding = environ.get("HTTP_CONTENT_ENCODING")
    if coding is not None and coding.strip().lower() not in {"", "identity"}:
        _no_body(environ)
        raise BadRequest(f"Content-Encoding {coding[:40]!r} is not supported in requests: send the body as it is")
    if "HTTP_TRANSFER_ENCODING" in environ:
        _collect(environ, limit)
        return
    given = environ.get("CONTENT_LENGTH")
    if not given:
        _no_body(environ)
        return
    if not (given.isascii() and given.isdigit() and len(given) <= 18):  # noqa: PLR2004
        _no_body(environ)
        raise BadRequest("Malformed Content-Length: must be a number of bytes")
    length = int(given)
    if length > limit:
        _no_body(environ)
        raise body_too_large(limit)
    environ["wsgi.input"] = MeasuredBody(environ["wsgi.input"], length)


def _collect(environ: dict[str, Any], limit: int) -> None:
    stream: Stream = environ["wsgi.input"]
    _no_body(environ)
    pieces: list[bytes] = []
    size = 0
    while piece := _read(stream.read, _PIECE):
        size += len(piece)
        if size > limit:
            raise body_too_large(limit)
        pieces.append(piece)
    environ["wsgi.input"] = BytesIO(b"".join(pieces))
    environ["CONTENT_LENGTH"] = str(size)


def _read(read: Any, size: int) -> bytes:
    try:
        data: bytes = read(size)
    except CatalogError:
        raise
    except TimeoutError:
        raise RequestTimeout("The client sent its request too slowly") from None
    except (OSError, ParseException) as error:
        raise BadRequest(f"Malformed request body: {error}"[:200]) from None
    return data


def _no_body(environ: dict[str, Any]) -> None:
    """Let views see no body; the server discards its bytes or closes the connection."""
    environ["wsgi.input"] = BytesIO()
    environ["CONTENT_LENGTH"] = ""
    environ.pop("HTTP_TRANSFER_ENCODING", None)


def body_too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"The request body is larger than {limit} bytes (LAKEKEEPER__MAX_REQUEST_BODY_SIZE)")
