"""A subscriber of NATS in its own thread, and commands of JetStream, by nats-py as any client uses it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from threading import Event, Thread
from time import monotonic, sleep
from typing import Any, Self

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg


class Subscriber:
    """Receives the messages of a subject. A context manager; `messages` are those so far."""

    def __init__(self, url: str, subject: str, **options: Any) -> None:
        self.messages: list[Msg] = []
        self._url, self._subject, self._options = url, subject, options
        self._ready, self._stop = Event(), Event()
        self._thread = Thread(target=lambda: asyncio.run(self._receive()), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)

    def wait_for(self, count: int, seconds: float = 10) -> list[bytes]:
        """Return the content of all messages once there are `count`."""
        until = monotonic() + seconds
        while len(self.messages) < count:
            assert monotonic() < until, f"{len(self.messages)} of {count} messages"
            sleep(0.01)
        return [each.data for each in self.messages]

    async def _receive(self) -> None:
        client = await nats.connect(self._url, **self._options)

        async def keep(message: Msg) -> None:
            self.messages.append(message)

        await client.subscribe(self._subject, cb=keep)
        await client.flush()
        self._ready.set()
        while not self._stop.is_set():
            await asyncio.sleep(0.02)
        await client.close()


def run(url: str, command: Callable[[Client], Awaitable[Any]]) -> Any:
    """Return the result of a command on a new connection."""

    async def connected() -> Any:
        client = await nats.connect(url)
        try:
            return await command(client)
        finally:
            await client.close()

    return asyncio.run(connected())


def add_stream(url: str, name: str, subject: str, **options: Any) -> None:
    run(url, lambda client: client.jetstream().add_stream(name=name, subjects=[subject], **options))


def stored(url: str, name: str) -> list[tuple[str, bytes]]:
    """Return id and content of each message of a stream."""

    async def read(client: Client) -> list[tuple[str, bytes]]:
        stream = client.jetstream()
        state = (await stream.stream_info(name)).state
        messages = [await stream.get_msg(name, number) for number in range(1, state.last_seq + 1)]
        return [((each.headers or {})["Nats-Msg-Id"], each.data or b"") for each in messages]

    found: list[tuple[str, bytes]] = run(url, read)
    return found
