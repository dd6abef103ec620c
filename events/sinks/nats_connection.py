"""One connection to one NATS server, by nats-py, with what a delivery needs beyond it.

`NatsConnection` avoids what nats-py does: it reconnects by itself, also to servers that others announce. Its `flush`
sends PING ahead of buffered messages, and returns without PONG when its reader has stopped. It sends credentials
unencrypted to a `tls://` server that offers no TLS.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
import struct
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from nats.aio.client import Client, RawCredentials
from nats.errors import Error as NatsError
from nats.errors import NoServersError

PING: Final = b"PING\r\n"
NEVER_SECONDS: Final = 10**9
DROP_UNSENT_BYTES: Final = struct.pack("ii", 1, 0)
"""SO_LINGER: a closed connection discards what the kernel has not sent."""

T = TypeVar("T")


@dataclass(frozen=True)
class NatsLogin:
    """The credentials of a connection: all None for a server without authentication."""

    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    credentials: str | None = field(default=None, repr=False)
    """Content of a credentials file."""


class ConnectionLost(Exception):
    """The connection has ended, or the server has reported an error; the message has the reason."""


class _StrictClient(Client):
    """nats-py's client of one server, which may require TLS."""

    requires_tls = False

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:  # noqa: FBT001, FBT002 - nats-py's
        info.pop("connect_urls", None)  # other servers, whose addresses were not checked
        if self.requires_tls and initial_connection:
            if not (info.get("tls_required") or info.get("tls_available")):
                raise NatsError("the server does not offer TLS")
            info["tls_required"] = True
        await super()._process_info(info, initial_connection)

    async def confirm(self) -> None:
        """Return when the server has processed everything that was sent before."""
        pong: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._pongs.append(pong)
        await self._send_command(PING)
        await self._flush_pending()
        await pong

    async def discard(self) -> None:
        """Close the connection, without sending what has not been sent yet."""
        self._pending, self._pending_data_size = [], 0
        writer = getattr(self._transport, "_bare_io_writer", None)
        if writer is not None:
            with suppress(OSError):
                connected = writer.transport.get_extra_info("socket")
                connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, DROP_UNSENT_BYTES)
            writer.transport.abort()
        self._transport = None  # nats-py would wait until the server has confirmed the end of TLS
        with suppress(Exception):
            await self._close(Client.CLOSED, do_cbs=False)


class NatsConnection:
    """A connection to one server. All methods run in the event loop in which it was created."""

    def __init__(self) -> None:
        self.client = _StrictClient()
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reason: str | None = None
        self._unfinished: asyncio.Future[Any] | None = None

    @property
    def max_payload(self) -> int:
        """Bytes of headers and content that the server accepts in one message."""
        return int(self.client.max_payload)

    @property
    def is_usable(self) -> bool:
        return self._reason is None and bool(self.client.is_connected)

    async def open(self, address: str, login: NatsLogin, *, tls: ssl.SSLContext | None, timeout: float) -> None:
        """Connect. `tls` requires encryption, also from a server that offers it as an option.

        Raises `ConnectionLost`, or `TimeoutError` after `timeout` seconds.
        """
        self.client.requires_tls = tls is not None
        connecting = self.client.connect(
            [address],
            error_cb=self._report_error,
            closed_cb=self._report_end,
            allow_reconnect=False,
            connect_timeout=timeout,  # type: ignore[arg-type]  # also fractions
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            ping_interval=NEVER_SECONDS,
            tls=tls,
            user=login.user,
            password=login.password,
            token=login.token,
            user_credentials=None if login.credentials is None else RawCredentials(login.credentials),
        )
        try:
            await asyncio.wait_for(connecting, timeout)
        except NoServersError:
            raise ConnectionLost(self._reason or "the server cannot be reached") from None
        except (OSError, NatsError, ValueError) as error:
            if isinstance(error, TimeoutError):
                raise
            raise ConnectionLost(_describe(error)) from None
        self._reason = None

    async def run(self, coroutine: Coroutine[Any, Any, T], timeout: float) -> T:
        """Return the result of a coroutine that uses the client.

        Raises `ConnectionLost` as soon as the connection ends or the server reports an error, `TimeoutError` after
        `timeout` seconds. The coroutine then still runs until `discard`.
        """
        task = asyncio.ensure_future(coroutine)
        awaited: set[asyncio.Future[Any]] = {task, self._ended}
        await asyncio.wait(awaited, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if self._reason is not None or not task.done():
            task.add_done_callback(_ignore_result)
            self._unfinished = task
            raise TimeoutError if self._reason is None else ConnectionLost(self._reason)
        return task.result()

    async def discard(self) -> None:
        """Close the connection at once. What has not left this machine is not sent. Never raises."""
        await self.client.discard()
        if self._unfinished is not None:
            self._unfinished.cancel()

    async def _report_error(self, error: Exception) -> None:
        """Keep the first error of the server: the following ones are its consequences."""
        if self._reason is None:
            self._reason = _describe(error)
        self._set_ended()

    async def _report_end(self) -> None:
        if self._reason is None:
            last = self.client.last_error
            self._reason = "the server closed the connection" if last is None else _describe(last)
        self._set_ended()

    def _set_ended(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)


def _ignore_result(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()


def _describe(error: BaseException) -> str:
    """Return the text of an error; neither nats-py nor the server repeats credentials in it."""
    match error:
        case ssl.SSLCertVerificationError():
            return f"the TLS certificate of the server is not valid: {error.verify_message}"
        case ssl.SSLError():
            return f"TLS failed: {error.reason}"
        case OSError(errno=int(number)) if number in errno.errorcode:
            return os.strerror(number)
        case OSError(strerror=str(reason)):
            return reason
    text = str(error).removeprefix("nats: ").strip().strip("'")
    return text or type(error).__name__
