"""Limits of slow clients: timeouts, transfer rates, connections and memory. The slowest transfers end first."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from threading import Lock
from time import monotonic

from icekeeper.kernel.errors.types import Busy, CatalogError, RequestTimeout
from icekeeper.server.connection import Connection, Phase

logger = logging.getLogger("icekeeper.server")

FRESH_SECONDS = 1.0
"""A connection must be idle for this long before it may be closed in favour of a new one."""

SLOW_SECONDS = 2.0
"""A client is slow when it is in the middle of a request or a response for longer than this."""

SMALL_BYTES = 65_536
"""A connection with less memory is not closed because of it: the number of connections limits the sum."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a worker that gunicorn has no settings for; seconds and bytes."""

    queue_timeout: float
    read_timeout: float
    graceful_timeout: float
    request_time: float
    body_size: int
    min_transfer_rate: int
    transfer_buffer: int
    connections_per_address: int | None
    slow_connections_per_address: int


class TransferLimits:
    """Chooses the connections that a worker closes in favour of others. `connections` is read under `lock`.

    `reject` sends an error response from the event loop and closes the connection after it; `close` closes it at once.
    """

    def __init__(
        self,
        connections: dict[int, Connection],
        lock: Lock,
        limits: Limits,
        *,
        keepalive: float,
        reject: Callable[[Connection, CatalogError], None],
        close: Callable[[Connection], None],
    ) -> None:
        self._connections, self._lock, self._limits, self._keepalive = connections, lock, limits, keepalive
        self._reject, self._close = reject, close

    def close_one(self, *, or_lingering: bool = False) -> bool:
        """Close the least useful connection, so that a new one can be accepted; return False if all are in use.

        A connection that was opened or used a moment ago is in use: its client may be sending.
        """
        now = monotonic()
        latest = now + self._keepalive - FRESH_SECONDS
        with self._lock:
            known = list(self._connections.values())
            idle = [connection for connection in known if connection.is_idle and connection.expires < latest]
            if not idle and or_lingering:
                idle = [connection for connection in known if connection.phase is Phase.LINGER]
        if idle:
            self._close(min(idle, key=lambda connection: connection.expires))
            return True
        return self._end_slowest(self._slow_connections(now), now)

    def check_expiry(self, connection: Connection, now: float) -> None:
        """Close an expired connection, or give it more time if its transfer is fast enough."""
        with self._lock:  # a request thread may be handing it over
            if connection.expires > now:
                return
            phase = connection.phase
        if phase is Phase.LINGER or (phase is Phase.RECEIVE and not connection.received):
            self._close(connection)
        elif phase is Phase.RECEIVE:
            self._check_request(connection, now)
        elif phase is Phase.SEND:
            if connection.is_slower_than(self._limits.min_transfer_rate, now):
                self.disconnect(connection)
            else:
                connection.begin_window(now)
                connection.expires = now + self._limits.read_timeout

    def _check_request(self, connection: Connection, now: float) -> None:
        """Give the client more time for the body if it was fast enough; otherwise respond with 408."""
        is_in_time = connection.body is not None and now < connection.arrived + self._limits.request_time
        if is_in_time and not connection.is_slower_than(self._limits.min_transfer_rate, now):
            connection.begin_body_window(now, self._limits.read_timeout, self._limits.request_time)
        else:
            connection.arrived = connection.began
            self._reject(connection, RequestTimeout("The client sent its request too slowly"))

    def limit_slow_connections(self, now: float) -> None:
        """End the slowest transfers of each address that has too many slow ones."""
        limit = self._limits.slow_connections_per_address
        slow = self._slow_connections(now)
        if len(slow) <= limit:
            return
        by_network: defaultdict[str, list[Connection]] = defaultdict(list)
        for connection in slow:
            by_network[connection.network].append(connection)
        for of_network in by_network.values():
            slowest_first = sorted(of_network, key=lambda each: each.rate(now))
            for connection in slowest_first[: max(0, len(of_network) - limit)]:
                self._end_transfer(connection)

    def limit_memory(self) -> None:
        """End the slowest transfers while the connections together hold more memory than the limit."""
        now = monotonic()
        while sum(each.held_bytes for each in list(self._connections.values())) > self._limits.transfer_buffer:
            large = [each for each in self._in_transfer() if each.held_bytes > SMALL_BYTES]
            if not self._end_slowest(large, now):
                return

    def disconnect(self, connection: Connection) -> None:
        """Disconnect a client that does not read its response."""
        logger.info(
            "disconnected a client that read its response too slowly: %s, %d bytes left",
            connection.address[0],
            connection.socket.unsent_bytes,
        )
        connection.socket.discard_unsent()
        self._close(connection)

    def _slow_connections(self, now: float) -> list[Connection]:
        """Return the connections that have been in the middle of a request or a response for a while."""
        return [each for each in self._in_transfer() if now - each.began > SLOW_SECONDS]

    def _in_transfer(self) -> list[Connection]:
        """Return the connections whose request the event loop receives or whose response it sends."""
        with self._lock:
            return [connection for connection in list(self._connections.values()) if connection.is_in_transfer]

    def _end_slowest(self, connections: Iterable[Connection], now: float) -> bool:
        """End the slowest transfer; return False without one."""
        slowest = min(connections, key=lambda each: each.rate(now), default=None)
        if slowest is not None:
            self._end_transfer(slowest)
        return slowest is not None

    def _end_transfer(self, connection: Connection) -> None:
        if connection.phase is Phase.SEND:
            self.disconnect(connection)
            return
        connection.arrived = connection.began
        self._reject(connection, Busy("The server has too many slow clients; nothing was done, try again"))
