"""Write-behind buffer: what requests collect in memory by key, and a periodic job writes to the database."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class WriteBehind(Generic[K, V]):
    """Values by key, thread-safe, with a bounded number of keys.

    `merge` combines two values of a key, in any order. From `max_keys` on, a new key is replaced by `generalize` of it;
    from twice `max_keys` on, and without `generalize` from `max_keys` on, values of new keys are dropped. They are
    counted, each as `weigh` of it or as 1.
    """

    def __init__(
        self,
        merge: Callable[[V, V], V],
        *,
        max_keys: int,
        generalize: Callable[[K], K] | None = None,
        weigh: Callable[[V], int] | None = None,
    ) -> None:
        self._merge, self._max_keys, self._generalize, self._weigh = merge, max_keys, generalize, weigh
        self._values: dict[K, V] = {}
        self._dropped = 0
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._values)

    def add(self, key: K, value: V) -> None:
        with self._lock:
            self._add(key, value)

    def take(self) -> dict[K, V]:
        """Return everything and empty the buffer."""
        with self._lock:
            taken, self._values = self._values, {}
        return taken

    def put_back(self, taken: Mapping[K, V]) -> None:
        """Merge what could not be written with what was added since."""
        with self._lock:
            for key, value in taken.items():
                self._add(key, value)

    def write(self, write: Callable[[dict[K, V]], object]) -> None:
        """Take everything and pass it to `write`; if that raises, put it back and raise. Does nothing when empty."""
        taken = self.take()
        if not taken:
            return
        try:
            write(taken)
        except BaseException:
            self.put_back(taken)
            raise

    def drop(self, count: int) -> None:
        """Count values that the caller dropped."""
        with self._lock:
            self._dropped += count

    def take_dropped(self) -> int:
        """Return how many values were dropped since the last call."""
        with self._lock:
            dropped, self._dropped = self._dropped, 0
        return dropped

    def _add(self, key: K, value: V) -> None:
        known = self._values.get(key)
        if known is None and self._generalize is not None and len(self._values) >= self._max_keys:
            key = self._generalize(key)
            known = self._values.get(key)
        if known is not None:
            self._values[key] = self._merge(known, value)
        elif len(self._values) < self._max_keys * (1 if self._generalize is None else 2):
            self._values[key] = value
        else:
            self._dropped += 1 if self._weigh is None else self._weigh(value)
